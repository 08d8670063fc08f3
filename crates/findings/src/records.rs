//! Records of names, sorted by directory and name.
//!
//! Records come in any order. A few are kept in memory. More are written to a temporary file as sorted runs, which are merged
//! while they are read. So memory does not grow with their number.

mod index;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::mem;

pub use self::index::IndexedRecords;
use crate::temporary;

/// The buffer of a run that is read.
const READ_BUFFER: usize = 32 << 10;

/// In place of the length of a directory: the directory of the record before.
const SAME: u32 = u32::MAX;

/// The length of the lengths in front of a record.
const HEAD: usize = 12;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRecord<'r> {
    /// The path of the directory.
    pub dir: &'r [u8],
    /// The name, or another key below the directory.
    pub name: &'r [u8],
    /// The contents.
    pub payload: &'r [u8],
}

/// Bytes that are kept in memory unless another limit is given.
const LIMIT: usize = 8 << 20;

/// The order of directories. The names of a directory compare by their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectoryOrder {
    /// By the bytes of their paths.
    Bytes,
    /// Every entry comes before the directory that holds it ([`post_order`]).
    #[default]
    EntriesFirst,
}

impl DirectoryOrder {
    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytes => a.cmp(b),
            Self::EntriesFirst => post_order(a, b),
        }
    }
}

/// The components of a path: the non-empty parts between slashes.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|piece| !piece.is_empty())
}

/// The order of paths in which every entry comes before the directory that holds it; siblings compare by their bytes.
///
/// ```
/// use namegate_findings::records::post_order;
/// let mut paths = ["/a", "/a/b", "/a-", "/a/b/c", "/a/a"];
/// paths.sort_by(|a, b| post_order(a.as_bytes(), b.as_bytes()));
/// assert_eq!(paths, ["/a/a", "/a/b/c", "/a/b", "/a", "/a-"]);
/// ```
pub fn post_order(a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (components(a), components(b));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(a), Some(b)) if a != b => return a.cmp(b),
            _ => {}
        }
    }
}

fn compare(order: DirectoryOrder, a: (&[u8], &[u8]), b: (&[u8], &[u8])) -> Ordering {
    match a.0 == b.0 {
        true => a.1.cmp(b.1),
        false => order.compare(a.0, b.0).then_with(|| a.1.cmp(b.1)),
    }
}

/// Collects records.
#[derive(Debug)]
pub struct RecordSorter {
    held: HeldRecords,
    limit: usize,
    runs: Option<RunWriter>,
}

impl Default for RecordSorter {
    fn default() -> Self {
        Self::new(DirectoryOrder::default(), LIMIT)
    }
}

/// Records in memory.
#[derive(Debug, Default)]
struct HeldRecords {
    order: DirectoryOrder,
    bytes: Vec<u8>,
    places: Vec<RecordPlace>,
}

/// The place of a record in memory. Consecutive records of a directory share its path.
#[derive(Clone, Copy, Debug)]
struct RecordPlace {
    dir: u32,
    dir_len: u32,
    at: u32,
    name_len: u32,
    payload_len: u32,
}

impl HeldRecords {
    fn new(order: DirectoryOrder) -> Self {
        Self { order, bytes: Vec::new(), places: Vec::new() }
    }

    fn dir(&self, place: &RecordPlace) -> &[u8] {
        &self.bytes[place.dir as usize..][..place.dir_len as usize]
    }

    fn record(&self, place: &RecordPlace) -> EntryRecord<'_> {
        let (name, rest) = self.bytes[place.at as usize..].split_at(place.name_len as usize);
        EntryRecord { dir: self.dir(place), name, payload: &rest[..place.payload_len as usize] }
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<RecordPlace>()
    }

    fn sort(&mut self) {
        let mut places = mem::take(&mut self.places);
        places.sort_by(|a, b| {
            let (a, b) = (self.record(a), self.record(b));
            compare(self.order, (a.dir, a.name), (b.dir, b.name))
        });
        self.places = places;
    }

    fn push(&mut self, record: EntryRecord<'_>) {
        let len = |len: usize| u32::try_from(len).expect("a record is shorter than 4 GiB");
        let last = self.places.last().filter(|last| self.dir(last) == record.dir);
        let (dir, dir_len) = match last {
            Some(last) => (last.dir, last.dir_len),
            None => {
                let dir = len(self.bytes.len());
                self.bytes.extend_from_slice(record.dir);
                (dir, len(record.dir.len()))
            }
        };
        let at = len(self.bytes.len());
        self.bytes.extend_from_slice(record.name);
        self.bytes.extend_from_slice(record.payload);
        let (name_len, payload_len) = (len(record.name.len()), len(record.payload.len()));
        self.places.push(RecordPlace { dir, dir_len, at, name_len, payload_len });
    }
}

impl RecordSorter {
    /// Creates an empty sorter that keeps `limit` bytes in memory, at most 1 GiB.
    pub fn new(order: DirectoryOrder, limit: usize) -> Self {
        Self { held: HeldRecords::new(order), limit: limit.min(1 << 30), runs: None }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn push(&mut self, record: EntryRecord<'_>) -> io::Result<()> {
        self.held.push(record);
        if self.held.size() < self.limit { Ok(()) } else { self.write_run() }
    }

    fn write_run(&mut self) -> io::Result<()> {
        let held = &mut self.held;
        held.sort();
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => none.insert(RunWriter::new()?),
        };
        runs.write(held).map_err(temporary::unwritten)?;
        // The memory is used again.
        held.bytes.clear();
        held.places.clear();
        Ok(())
    }

    /// Sorts the records. Records with the same directory and name stay in the order in which they came.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn finish(mut self) -> io::Result<SortedRecords> {
        if self.runs.is_some() && !self.held.places.is_empty() {
            self.write_run()?;
        }
        match self.runs {
            Some(RunWriter { out, runs, .. }) => {
                Ok(SortedRecords(RecordStore::Runs { file: out.finish()?, runs, order: self.held.order }))
            }
            None => {
                self.held.sort();
                Ok(SortedRecords(RecordStore::Held(self.held)))
            }
        }
    }
}

/// Writes records to a temporary file.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    out: BufWriter<File>,
    pub(crate) len: u64,
    /// The directory of the last record.
    dir: Vec<u8>,
}

impl RecordWriter {
    pub(crate) fn new(buffer: usize) -> io::Result<Self> {
        Ok(Self { out: BufWriter::with_capacity(buffer, temporary::file()?), len: 0, dir: Vec::new() })
    }

    /// Writes a record, which is read after the one before.
    pub(crate) fn write(&mut self, record: EntryRecord<'_>) -> io::Result<()> {
        self.write_with(record, self.len > 0 && self.dir == record.dir)
    }

    /// Writes a record, without its directory if `is_same`.
    fn write_with(&mut self, record: EntryRecord<'_>, is_same: bool) -> io::Result<()> {
        let EntryRecord { dir, name, payload } = record;
        if !is_same {
            self.dir.clear();
            self.dir.extend_from_slice(dir);
        }
        let dir = if is_same { b"" } else { dir };
        let dir_len = if is_same { SAME } else { dir.len() as u32 };
        for len in [dir_len, name.len() as u32, payload.len() as u32] {
            self.out.write_all(&len.to_le_bytes())?;
        }
        for part in [dir, name, payload] {
            self.out.write_all(part)?;
        }
        self.len += (HEAD + dir.len() + name.len() + payload.len()) as u64;
        Ok(())
    }

    pub(crate) fn finish(self) -> io::Result<File> {
        self.out.into_inner().map_err(|error| temporary::unwritten(error.into_error()))
    }
}

/// Writes sorted runs to a temporary file.
#[derive(Debug)]
struct RunWriter {
    out: RecordWriter,
    /// The begin and the end of each run.
    runs: Vec<(u64, u64)>,
    /// The name of the last record.
    name: Vec<u8>,
}

impl RunWriter {
    fn new() -> io::Result<Self> {
        Ok(Self { out: RecordWriter::new(READ_BUFFER)?, runs: Vec::new(), name: Vec::new() })
    }

    /// Writes a run. It goes on with the run before if its first record does: records that come sorted are one run.
    fn write(&mut self, held: &HeldRecords) -> io::Result<()> {
        let Some((first, others)) = held.places.split_first() else { return Ok(()) };
        let first = held.record(first);
        let continues = compare(held.order, (&self.out.dir, &self.name), (first.dir, first.name)).is_le();
        let is_new = self.runs.is_empty() || !continues;
        if is_new {
            self.runs.push((self.out.len, self.out.len));
        }
        self.out.write_with(first, !is_new && self.out.dir == first.dir)?;
        others.iter().try_for_each(|place| self.out.write(held.record(place)))?;
        if let (Some(run), Some(last)) = (self.runs.last_mut(), held.places.last()) {
            run.1 = self.out.len;
            self.name.clear();
            self.name.extend_from_slice(held.record(last).name);
        }
        Ok(())
    }
}

/// Sorted records.
#[derive(Debug)]
pub struct SortedRecords(RecordStore);

#[derive(Debug)]
enum RecordStore {
    Held(HeldRecords),
    Runs { file: File, runs: Vec<(u64, u64)>, order: DirectoryOrder },
}

impl SortedRecords {
    /// Reads the records from the first one on.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn cursor(&self) -> io::Result<RecordCursor<'_>> {
        match &self.0 {
            RecordStore::Held(held) => Ok(RecordCursor(CursorState::Held { held, next: 0 })),
            RecordStore::Runs { file, runs, order } => {
                let mut heads = BinaryHeap::with_capacity(runs.len());
                for (number, &(begin, end)) in runs.iter().enumerate() {
                    let reader = RunReader::new(file, begin, end, READ_BUFFER);
                    let mut head = RunHead { reader, number, order: *order };
                    if head.reader.advance()? {
                        heads.push(head);
                    }
                }
                Ok(RecordCursor(CursorState::Runs { heads, has_begun: false }))
            }
        }
    }
}

/// Reads sorted records.
pub struct RecordCursor<'s>(CursorState<'s>);

impl fmt::Debug for RecordCursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordCursor").field(&self.record()).finish()
    }
}

enum CursorState<'s> {
    Held { held: &'s HeldRecords, next: usize },
    Runs { heads: BinaryHeap<RunHead<'s>>, has_begun: bool },
}

impl<'s> RecordCursor<'s> {
    /// Another cursor at the same record.
    pub fn fork(&self) -> Self {
        Self(match &self.0 {
            CursorState::Held { held, next } => CursorState::Held { held, next: *next },
            CursorState::Runs { heads, has_begun } => {
                CursorState::Runs { heads: heads.iter().map(RunHead::fork).collect(), has_begun: *has_begun }
            }
        })
    }

    /// The next record.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    #[allow(clippy::should_implement_trait, reason = "a record is borrowed until the next one is read")]
    pub fn next(&mut self) -> io::Result<Option<EntryRecord<'_>>> {
        self.advance()?;
        Ok(self.record())
    }

    /// Goes to the next record.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn advance(&mut self) -> io::Result<()> {
        match &mut self.0 {
            CursorState::Held { next, .. } => *next += 1,
            CursorState::Runs { heads, has_begun } => {
                if mem::replace(has_begun, true)
                    && let Some(mut head) = heads.peek_mut()
                    && !head.reader.advance()?
                {
                    PeekMut::pop(head);
                }
            }
        }
        Ok(())
    }

    /// The current record; `None` after the last one.
    pub fn record(&self) -> Option<EntryRecord<'_>> {
        match &self.0 {
            CursorState::Held { held, next } => {
                next.checked_sub(1).and_then(|at| held.places.get(at)).map(|place| held.record(place))
            }
            CursorState::Runs { heads, .. } => heads.peek().map(|head| head.reader.record()),
        }
    }
}

/// Reads a part of a file, independent of its position.
#[derive(Clone, Copy)]
struct FilePart<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Read for FilePart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.end - self.at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let len = read_at(self.file, &mut buffer[..room], self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// Moves the position of the file, too; a file is written only before it is read.
#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// Reads records one after another.
pub(crate) struct RunReader<'f> {
    part: BufReader<FilePart<'f>>,
    dir: Vec<u8>,
    /// Name and payload.
    rest: Vec<u8>,
    name_len: usize,
}

impl<'f> RunReader<'f> {
    pub(crate) fn new(file: &'f File, at: u64, end: u64, buffer: usize) -> Self {
        let part = BufReader::with_capacity(buffer, FilePart { file, at, end });
        Self { part, dir: Vec::new(), rest: Vec::new(), name_len: 0 }
    }

    /// Another reader at the same record.
    fn fork(&self) -> Self {
        let FilePart { file, at, end } = *self.part.get_ref();
        let at = at - self.part.buffer().len() as u64;
        let part = BufReader::with_capacity(READ_BUFFER, FilePart { file, at, end });
        Self { part, dir: self.dir.clone(), rest: self.rest.clone(), name_len: self.name_len }
    }

    /// Reads the next record; reports whether there is one.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        if self.part.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let mut head = [0; HEAD];
        self.part.read_exact(&mut head)?;
        let [dir, name, payload] =
            [0, 4, 8].map(|at| u32::from_le_bytes(std::array::from_fn(|i| head[at + i])));
        if dir != SAME {
            self.dir.resize(dir as usize, 0);
            self.part.read_exact(&mut self.dir)?;
        }
        self.name_len = name as usize;
        self.rest.resize(self.name_len + payload as usize, 0);
        self.part.read_exact(&mut self.rest)?;
        Ok(true)
    }

    pub(crate) fn record(&self) -> EntryRecord<'_> {
        let (name, payload) = self.rest.split_at(self.name_len);
        EntryRecord { dir: &self.dir, name, payload }
    }

    fn key(&self) -> (&[u8], &[u8]) {
        (&self.dir, &self.rest[..self.name_len])
    }
}

/// A run in the heap of a merge. The greatest comes first in a heap, so the order is reversed.
struct RunHead<'f> {
    reader: RunReader<'f>,
    number: usize,
    order: DirectoryOrder,
}

impl RunHead<'_> {
    fn fork(&self) -> Self {
        Self { reader: self.reader.fork(), number: self.number, order: self.order }
    }
}

impl Ord for RunHead<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.order, other.reader.key(), self.reader.key())
            .then_with(|| other.number.cmp(&self.number))
    }
}

impl PartialOrd for RunHead<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunHead<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RunHead<'_> {}

#[cfg(test)]
mod tests;
