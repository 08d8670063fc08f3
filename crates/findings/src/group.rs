//! Groups paths in any order by directory: collisions and lengths are properties of directories, but lists, archives and
//! inventories contain paths.
//!
//! Everything is kept in memory up to a limit. Beyond the limit it is written to temporary files, each of which has all names of
//! some directories. A file is read back as a whole ([`PartSource::load`]), which needs memory for all its names, or with the same
//! limit ([`PartSource::each`]): then its names are sorted in another temporary file, and a large directory comes in parts.

mod large;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::ops::{ControlFlow, Range};

use namegate_core::check::{DirectoryNames, Siblings};
use namegate_core::name::arena::Arena;
use namegate_core::policy::EntryKind;

pub use self::large::{GroupedNames, LargeGroup};
use self::large::{NameCollector, number_of};
use crate::records::{DirectoryOrder, EntryRecord, RecordSorter, RecordWriter, RunReader, SortedRecords};
use crate::split::{PairSink, PathSplitter, Shape};
use crate::temporary;

/// Bytes that are kept in memory: names and their bookkeeping.
pub const LIMIT: usize = 256 << 20;

/// Number of temporary files among which the directories are distributed.
const PARTS: usize = 64;

/// Paths by directory. Each name of each directory is kept once, with the number of the first path that contains it.
#[derive(Debug)]
pub struct Groups {
    splitter: PathSplitter,
    grouped: PairStore,
}

impl Groups {
    /// Creates an empty collection of paths of one shape, which keeps about `limit` bytes in memory.
    pub fn new(shape: Shape, limit: usize) -> Self {
        let grouped = PairStore { limit, names: 0, held: PathsInMemory::default(), spilled: None };
        Self { splitter: PathSplitter::new(shape), grouped }
    }

    /// Adds a path: its name, and those of the directories above.
    ///
    /// # Errors
    /// The temporary files cannot be created, or cannot be written: then the earlier paths are lost, too.
    pub fn add(&mut self, path: &[u8], number: u64) -> io::Result<()> {
        self.splitter.split(path, &mut NumberedPairs { grouped: &mut self.grouped, number })
    }

    /// Adds one name of one directory. Both have at most [`MAX_NAME`](crate::split::MAX_NAME) bytes.
    ///
    /// # Errors
    /// As [`Groups::add`].
    pub fn add_pair(&mut self, dir: &[u8], name: &[u8], kind: EntryKind, number: u64) -> io::Result<()> {
        self.grouped.put(dir, name, number | mark_of(kind))
    }

    /// Number of names that were added, counting those that came several times.
    pub fn names(&self) -> u64 {
        self.grouped.names
    }

    /// The directories, in parts that can be loaded one at a time; each directory is in one part.
    ///
    /// # Errors
    /// The temporary files cannot be written.
    pub fn into_parts(self) -> io::Result<Vec<PartSource>> {
        let PairStore { held, spilled, .. } = self.grouped;
        let Some(mut spilled) = spilled else { return Ok(vec![PartSource(StoredPart::Memory(held))]) };
        spilled.take(&held).map_err(temporary::unwritten)?;
        drop(held);
        let parts = spilled.parts.into_iter().filter(|part| part.len > 0);
        parts.map(|part| Ok(PartSource(StoredPart::File { size: part.len, file: part.finish()? }))).collect()
    }
}

/// Names on the way to their groups, with the number of their path.
struct NumberedPairs<'g> {
    grouped: &'g mut PairStore,
    number: u64,
}

impl PairSink for NumberedPairs<'_> {
    type Error = io::Error;

    fn knows(&self, dir: &[u8]) -> bool {
        self.grouped.held.number_of(dir).is_some()
    }

    fn put(&mut self, dir: &[u8], name: &[u8], kind: EntryKind) -> io::Result<()> {
        self.grouped.put(dir, name, self.number | mark_of(kind))
    }
}

/// Marks the number of a path as that of a file. No list has so many paths.
const OF_FILE: u64 = 1 << 63;
/// Marks it as that of a directory.
const OF_DIRECTORY: u64 = 1 << 62;

fn mark_of(kind: EntryKind) -> u64 {
    match kind {
        EntryKind::File => OF_FILE,
        EntryKind::Directory => OF_DIRECTORY,
        EntryKind::Unknown => 0,
    }
}

/// A name that is that of a file and that of a directory, with the numbers of the first paths that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clash {
    /// Of the file.
    pub file: u64,
    /// Of the directory, or of what is in it.
    pub directory: u64,
}

/// The names of a directory that are those of a file and of a directory.
pub type Clashes = BTreeMap<Vec<u8>, Clash>;

/// The first paths with a name.
#[derive(Clone, Copy, Debug, Default)]
struct FirstNumbers {
    file: Option<u64>,
    directory: Option<u64>,
    unknown: Option<u64>,
}

impl FirstNumbers {
    /// Adds a number that may be marked.
    fn add(&mut self, marked: u64) {
        let known = match marked & (OF_FILE | OF_DIRECTORY) {
            OF_FILE => &mut self.file,
            OF_DIRECTORY => &mut self.directory,
            _ => &mut self.unknown,
        };
        let number = marked & !(OF_FILE | OF_DIRECTORY);
        *known = Some(known.map_or(number, |first| first.min(number)));
    }

    fn first(self) -> u64 {
        let first = [self.file, self.directory, self.unknown].into_iter().flatten().min();
        first.expect("a name has the number of its path")
    }

    fn clash(self) -> Option<Clash> {
        Some(Clash { file: self.file?, directory: self.directory? })
    }

    /// The kind of the entry: a path that ends with its name can say less than one that goes on.
    fn kind(self) -> EntryKind {
        match self {
            Self { directory: Some(_), .. } => EntryKind::Directory,
            Self { file: Some(_), .. } => EntryKind::File,
            _ => EntryKind::Unknown,
        }
    }
}

/// Names in memory, and in files once they are too many.
#[derive(Debug)]
struct PairStore {
    limit: usize,
    names: u64,
    held: PathsInMemory,
    spilled: Option<Spilled>,
}

impl PairStore {
    fn put(&mut self, dir: &[u8], name: &[u8], number: u64) -> io::Result<()> {
        self.names += 1;
        self.held.put(dir, name, number);
        if self.held.size() < self.limit {
            return Ok(());
        }
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled::new()?),
        };
        let written = spilled.take(&std::mem::take(&mut self.held));
        if written.is_err() {
            // Without the names that are lost, directories would be checked as if they were whole.
            self.spilled = None;
        }
        written.map_err(temporary::unwritten)
    }
}

/// Some of the directories, in memory or in a file.
#[derive(Debug)]
pub struct PartSource(StoredPart);

#[derive(Debug)]
enum StoredPart {
    Memory(PathsInMemory),
    File { file: File, size: u64 },
}

impl PartSource {
    /// About how many bytes of memory [`PartSource::load`] needs in addition.
    pub fn size(&self) -> u64 {
        match &self.0 {
            StoredPart::Memory(_) => 0,
            StoredPart::File { size, .. } => *size,
        }
    }

    /// Loads the part.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(self) -> io::Result<GroupedPart> {
        Ok(GroupedPart::new(match self.0 {
            StoredPart::Memory(held) => held,
            StoredPart::File { file, size } => PathsInMemory::read(&file, size)?,
        }))
    }

    /// Hands each directory to `visit` until it breaks, and returns its last answer. A part that needs more than about `limit` bytes is
    /// sorted in a temporary file, and its directories with more than `most_together` bytes of names are [`GroupedNames::Large`].
    ///
    /// # Errors
    /// The file cannot be read, or another one cannot be written.
    pub fn each(
        self,
        limit: usize,
        most_together: usize,
        visit: &mut dyn FnMut(GroupedNames<'_, '_>) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        match self.0 {
            StoredPart::File { file, size } if size > limit as u64 => {
                // Half of the limit, because a sort needs space too.
                let names = sorted(&file, size, limit / 2)?;
                // The file is not needed for the rest.
                drop(file);
                large::each_sorted(&names, most_together, visit)
            }
            fits => {
                let part = Self(fits).load()?;
                Ok((0..part.len()).try_for_each(|at| visit(GroupedNames::Whole(part.directory(at)))))
            }
        }
    }
}

/// Sorts the names of a temporary file by directory.
fn sorted(file: &File, size: u64, limit: usize) -> io::Result<SortedRecords> {
    let mut sorter = RecordSorter::new(DirectoryOrder::Bytes, limit);
    let mut names = RunReader::new(file, 0, size, BUFFER);
    while names.advance()? {
        sorter.push(names.record())?;
    }
    sorter.finish()
}

/// Some of the directories, sorted by their bytes.
#[derive(Debug)]
pub struct GroupedPart {
    dirs: Vec<(Box<[u8]>, Range<usize>)>,
    /// By directory, otherwise in the order in which they came.
    items: Vec<GroupedName>,
    bytes: Vec<u8>,
}

impl GroupedPart {
    fn new(held: PathsInMemory) -> Self {
        let PathsInMemory { dirs, mut items, bytes, .. } = held;
        let mut dirs: Vec<(Box<[u8]>, u32)> = dirs.into_iter().collect();
        dirs.sort_unstable();
        let mut order = vec![0_u32; dirs.len()];
        for (at, (_, number)) in (0..).zip(&dirs) {
            order[*number as usize] = at;
        }
        items.iter_mut().for_each(|item| item.dir = order[item.dir as usize]);
        // The names of a directory are sorted by the thread that checks them.
        items.sort_unstable_by_key(|item| item.dir);
        let mut end = 0;
        let ranges = items.chunk_by(|a, b| a.dir == b.dir).map(|names| {
            end += names.len();
            end - names.len()..end
        });
        let dirs = dirs.into_iter().map(|(dir, _)| dir).zip(ranges.collect::<Vec<_>>()).collect();
        Self { dirs, items, bytes }
    }

    /// Number of directories.
    pub fn len(&self) -> usize {
        self.dirs.len()
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// The directory at index `at`, with its names sorted by their bytes, each once.
    pub fn directory(&self, at: usize) -> GroupedDirectory {
        let (dir, range) = &self.dirs[at];
        let mut names: Vec<(&[u8], u64)> =
            self.items[range.clone()].iter().map(|item| (item.name(&self.bytes), item.number)).collect();
        names.sort_unstable();
        let mut directory = NameCollector::new(dir);
        directory.reserve(names.iter().map(|(name, _)| name.len() + 1).sum(), names.len());
        for same in names.chunk_by(|a, b| a.0 == b.0) {
            let mut numbers = FirstNumbers::default();
            same.iter().for_each(|&(_, number)| numbers.add(number));
            directory.push(same[0].0, numbers);
        }
        directory.take()
    }
}

/// A directory with all its names.
#[derive(Clone, Debug, Default)]
pub struct GroupedDirectory {
    /// The directory, without a separator at its end unless an empty name or the root comes before it.
    pub dir: Vec<u8>,
    /// The names that contain no NUL, sorted by their bytes.
    pub names: Arena,
    /// The names that contain a NUL.
    pub holding_nul: Vec<Vec<u8>>,
    /// For each name the number of the first path that has it, in the order of `names` and then `holding_nul`.
    pub numbers: Vec<u64>,
    /// The names that are those of a file and of a directory.
    pub clashes: Clashes,
}

impl GroupedDirectory {
    /// Number of bytes of the directory that are the root of the file system: the target of a move has its own root.
    pub fn root_len(&self) -> usize {
        usize::from(self.dir.starts_with(b"/"))
    }

    /// The names in the form that the policy checks; `prefix` comes before each path on the target.
    pub fn names<'d>(&'d self, prefix: &'d [u8]) -> DirectoryNames<'d> {
        DirectoryNames {
            names: &self.names,
            holding_nul: &self.holding_nul,
            siblings: Siblings::None,
            prefix,
            path: &self.dir[self.root_len()..],
        }
    }
}

/// Approximate cost of a directory in addition to its bytes.
const DIRECTORY: usize = 96;

/// Names that are kept in memory.
#[derive(Debug, Default)]
struct PathsInMemory {
    dirs: HashMap<Box<[u8]>, u32>,
    dirs_size: usize,
    /// The directory of the last name: most lists are sorted.
    last: Option<(Vec<u8>, u32)>,
    items: Vec<GroupedName>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct GroupedName {
    number: u64,
    start: usize,
    len: u32,
    dir: u32,
}

impl GroupedName {
    fn name<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start..][..self.len as usize]
    }
}

impl PathsInMemory {
    /// The number of a directory; `None` if it has no name yet.
    fn number_of(&self, dir: &[u8]) -> Option<u32> {
        match &self.last {
            Some((last, number)) if last == dir => Some(*number),
            _ => self.dirs.get(dir).copied(),
        }
    }

    fn put(&mut self, dir: &[u8], name: &[u8], number: u64) {
        let dir = match self.number_of(dir) {
            Some(known) => self.remember(dir, known),
            None => {
                let next = u32::try_from(self.dirs.len()).expect("the memory limit is reached long before");
                self.dirs_size += DIRECTORY + dir.len();
                self.dirs.insert(dir.into(), next);
                self.remember(dir, next)
            }
        };
        let len = u32::try_from(name.len()).expect("sources reject names of that length");
        self.items.push(GroupedName { number, start: self.bytes.len(), len, dir });
        self.bytes.extend_from_slice(name);
    }

    fn remember(&mut self, dir: &[u8], number: u32) -> u32 {
        let (last, of_last) = self.last.get_or_insert_default();
        // The directories above are put after the one that a sorted list goes on with.
        if *of_last != number || last != dir {
            last.clear();
            last.extend_from_slice(dir);
            *of_last = number;
        }
        number
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<GroupedName>() + self.dirs_size
    }

    fn read(file: &File, size: u64) -> io::Result<Self> {
        let (mut held, mut names) = (Self::default(), RunReader::new(file, 0, size, BUFFER));
        while names.advance()? {
            let record = names.record();
            held.put(record.dir, record.name, number_of(record));
        }
        Ok(held)
    }
}

/// Bytes of a temporary file that are read at a time.
const BUFFER: usize = 1 << 16;

/// Names in temporary files that are already unlinked.
#[derive(Debug)]
struct Spilled {
    parts: Vec<RecordWriter>,
    /// Seeded at random, so that nobody can make a list whose directories all fall into one file.
    hash: RandomState,
}

impl Spilled {
    /// Bytes of each file that are written at a time.
    const WRITTEN_TOGETHER: usize = 8 << 10;

    fn new() -> io::Result<Self> {
        let parts = (0..PARTS).map(|_| RecordWriter::new(Self::WRITTEN_TOGETHER));
        Ok(Self { parts: parts.collect::<io::Result<_>>()?, hash: RandomState::new() })
    }

    /// Writes the names, each with its number as the payload.
    fn take(&mut self, held: &PathsInMemory) -> io::Result<()> {
        let mut dirs: Vec<&[u8]> = vec![b""; held.dirs.len()];
        for (dir, &number) in &held.dirs {
            dirs[number as usize] = dir;
        }
        let parts: Vec<usize> =
            dirs.iter().map(|dir| (self.hash.hash_one(dir) % PARTS as u64) as usize).collect();
        for item in &held.items {
            let (dir, name) = (dirs[item.dir as usize], item.name(&held.bytes));
            let record = EntryRecord { dir, name, payload: &item.number.to_le_bytes() };
            self.parts[parts[item.dir as usize]].write(record)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
