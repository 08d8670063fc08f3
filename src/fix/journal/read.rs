//! Reading a journal, whatever has become of it.
//!
//! A process that is killed, or a machine that loses its power, leaves a journal whose end may be torn: lines that were
//! written and not brought to the disk. Nothing of what they say was begun. A line that is wrong although it was on the disk is
//! another thing, and is never passed over: undoing would leave out what it tells of. The two are told apart by what follows:
//! a valid line that was written only after the wrong one was on the disk.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::batch::Batch;
use super::record::{Header, Left, Moment, Record, Remainder, stated};
use super::{VERSION, lock};
use crate::fix::plan::MAX_HEADER_BYTES;

/// What a journal says.
#[derive(Debug)]
pub struct Reading {
    /// What it is of.
    pub header: Header,
    /// The batches, in order.
    pub batches: Vec<Told>,
    /// The lines of the plan that were not tried.
    pub left: Vec<Left>,
    /// Whether the plan was done to its end.
    pub is_ended: bool,
    /// When it began to be taken back, if it did.
    pub undo: Option<String>,
    /// Whether that was done to its end.
    pub is_restored: bool,
    /// Whether the end was torn.
    pub is_torn: bool,
    /// Whether another process is writing it; what it says of the last batch may change any moment.
    pub is_in_use: bool,
    pub(super) len: u64,
    pub(super) check: u32,
}

/// What a journal says of a batch.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Its number.
    pub number: u64,
    /// How many renames it holds, of single entries, and how many retargets.
    pub lines: u64,
    /// What was left, once it is told that the rest was done.
    pub done: Option<Vec<Remainder>>,
    /// The times of its directories before it began to be taken back, if it did.
    pub undoing: Option<Vec<(Moment, Moment)>>,
    /// What was left when it was taken back.
    pub undone: Option<Vec<Remainder>>,
    offset: u64,
    len: usize,
    before: u32,
    /// How many records are missing.
    missing: usize,
}

/// A line that was on the disk and is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The line, from 1.
    pub line: u64,
}

/// Why a journal cannot be used.
#[derive(Debug)]
pub enum Unreadable {
    /// The file cannot be read, or is in use.
    File(io::Error),
    /// The file is no journal.
    None,
    /// It has a format that this program does not know.
    Version(u64),
    /// A line is not what was written.
    Damaged(Damage),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "{error}"),
            Self::None => f.write_str("not a journal of namegate, or its first line is damaged"),
            Self::Version(version) => {
                write!(f, "version {version} of the format; this program knows version {VERSION} alone")
            }
            Self::Damaged(Damage { line }) => {
                write!(f, "line {line} is not what was written there; nothing was changed")
            }
        }
    }
}

impl std::error::Error for Unreadable {}

/// What the first line of the journal `path` says; `None` if it cannot be read, or is none.
pub fn header(path: &Path) -> Option<Header> {
    let file = File::open(path).ok()?;
    match Lines::of(&file).next().ok()?.and_then(|line| Record::read(line, 0))? {
        (Record::Journal(header), _) => Some(header),
        _ => None,
    }
}

impl Reading {
    /// Reads the journal `path` to see what it says. One that is being written is read as far as it is.
    ///
    /// # Errors
    /// It cannot be read, is none, or is damaged.
    pub fn look(path: &Path) -> Result<Self, Unreadable> {
        let file = File::open(path)?;
        let is_in_use = lock(file.try_clone()?)?.is_none();
        // What is being written is not whole, and not torn either.
        Self::of(&file).map(|reading| Self { is_in_use, is_torn: reading.is_torn && !is_in_use, ..reading })
    }

    /// Reads `file` from its beginning.
    ///
    /// # Errors
    /// It cannot be read, is none, or is damaged.
    pub(super) fn of(file: &File) -> Result<Self, Unreadable> {
        let mut lines = Lines::of(file);
        let Some((Record::Journal(header), check)) = lines.next()?.and_then(|line| Record::read(line, 0))
        else {
            return Err(Unreadable::None);
        };
        if header.version != VERSION {
            return Err(Unreadable::Version(header.version));
        }
        let mut reading = Self {
            header,
            batches: Vec::new(),
            left: Vec::new(),
            is_ended: false,
            undo: None,
            is_restored: false,
            is_torn: false,
            is_in_use: false,
            len: lines.len(),
            check,
        };
        let (mut number, mut batch) = (1, Batch::default());
        while let Some(line) = lines.next()? {
            number += 1;
            let read = Record::read(line, reading.check);
            let len = lines.len();
            let Some(check) =
                read.and_then(|(record, check)| reading.take(record, len, &mut batch).map(|()| check))
            else {
                reading.is_torn = true;
                if reading.undo.is_none() && reading.is_proven(&mut lines)? {
                    return Err(Unreadable::Damaged(Damage { line: number }));
                }
                break;
            };
            (reading.check, reading.len) = (check, reading.len + len);
        }
        // A batch that was not written to its end was not begun.
        if let Some(last) = reading.batches.pop_if(|last| last.missing > 0) {
            (reading.check, reading.len, reading.is_torn) = (last.before, last.offset, true);
        }
        Ok(reading)
    }

    /// Takes a record in, of a line of `len` bytes; `None` if it cannot stand there.
    fn take(&mut self, record: Record, len: u64, batch: &mut Batch) -> Option<()> {
        if let Some(last) = self.batches.last_mut().filter(|last| last.missing > 0) {
            let before = batch.entries.len();
            batch.take(record)?;
            last.lines += batch.entries[before..].iter().map(|(_, entry)| entry.lines() as u64).sum::<u64>();
            last.len += len as usize;
            last.missing -= 1;
            // Only how many there are is kept; they are read again when they are needed.
            return Some(());
        }
        match record {
            Record::Batch { number, directories, entries } => {
                let is_next = number == self.batches.last().map_or(1, |last| last.number + 1);
                if !is_next || self.undo.is_some() {
                    return None;
                }
                *batch = Batch { number, ..Batch::default() };
                self.is_ended = false;
                self.batches.push(Told {
                    number,
                    offset: self.len,
                    len: len as usize,
                    before: self.check,
                    missing: directories.checked_add(entries)?,
                    ..Told::default()
                });
            }
            Record::Done { batch, left } => self.told(batch)?.done = Some(left),
            Record::Left(left) => self.left.push(left),
            Record::End => self.is_ended = true,
            Record::Undo { started } => (self.undo, self.is_restored) = (Some(started), false),
            Record::Undoing { batch, times } => self.told(batch)?.undoing = Some(times),
            Record::Undone { batch, left } => self.told(batch)?.undone = Some(left),
            Record::Restored => self.is_restored = true,
            Record::Journal(_) | Record::Directory(_) | Record::Rename(_) | Record::Retarget(_) => {
                return None;
            }
        }
        Some(())
    }

    fn told(&mut self, number: u64) -> Option<&mut Told> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        self.batches.get_mut(at)
    }

    /// Whether a line that comes after a wrong one was written only when the wrong one was on the disk.
    fn is_proven(&self, lines: &mut Lines<'_>) -> Result<bool, Unreadable> {
        // What follows a batch is written with the next one.
        let unit = self.batches.last().map_or(1, |last| last.number + u64::from(last.missing == 0));
        let mut before = stated(lines.line.trim_ascii_end());
        while let Some(line) = lines.next()? {
            let record = before.and_then(|before| Record::read(line, before));
            before = stated(line);
            match record.map(|(record, _)| record) {
                Some(Record::Batch { number, .. }) if number > unit => return Ok(true),
                Some(Record::Done { batch, .. }) if batch >= unit => return Ok(true),
                Some(Record::End) if self.batches.last().is_some_and(|last| last.missing > 0) => {
                    return Ok(true);
                }
                Some(Record::Undo { .. }) => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Reads a batch again.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it was.
    pub fn batch(&self, file: &File, at: usize) -> io::Result<Batch> {
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "the journal was changed meanwhile");
        let told = self.batches.get(at).ok_or_else(changed)?;
        let mut bytes = vec![0; told.len];
        file.read_exact_at(&mut bytes, told.offset)?;
        let (mut check, mut batch) = (told.before, Batch { number: told.number, ..Batch::default() });
        for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let (record, next) = Record::read(line, check).ok_or_else(changed)?;
            check = next;
            if number > 0 {
                batch.take(record).ok_or_else(changed)?;
            }
        }
        Ok(batch)
    }

    /// How many lines of the plan the journal says are done, or may be: those of a last batch of which nothing is told.
    pub fn lines(&self) -> u64 {
        self.batches.iter().map(|told| told.lines).sum()
    }
}

/// A file from its beginning, whatever its position.
struct Whole<'f> {
    file: &'f File,
    at: u64,
}

impl Read for Whole<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buffer, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

/// The lines of a file. One that has no line feed is torn, and counts as a line that is wrong.
struct Lines<'f> {
    file: BufReader<Whole<'f>>,
    line: Vec<u8>,
}

impl<'f> Lines<'f> {
    fn of(file: &'f File) -> Self {
        Self { file: BufReader::with_capacity(1 << 16, Whole { file, at: 0 }), line: Vec::new() }
    }

    /// The next one, without its line feed.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let room = MAX_HEADER_BYTES as u64 * 4;
        if (&mut self.file).take(room).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        Ok(Some(self.line.strip_suffix(b"\n").unwrap_or(b"torn")))
    }

    /// How many bytes it has, with its line feed.
    fn len(&self) -> u64 {
        self.line.len() as u64
    }
}
