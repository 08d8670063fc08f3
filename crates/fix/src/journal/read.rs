//! Reads a journal in any state.
//!
//! A killed process or a power failure leaves a journal whose end may be torn: lines that were written and not flushed to the disk.
//! None of their changes was begun. A damaged line that was on the disk is different, and is never ignored: an undo would miss its
//! changes. A valid line that is written only after the damaged one was on the disk distinguishes the two.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::batch::JournalBatch;
use super::record::{FailedEntry, JournalHeader, JournalRecord, stated_check, stated_version};
use super::{VERSION, lock};
use crate::plan::{InodeTime, MAX_HEADER_BYTES};
use crate::progress::Remaining;

#[derive(Debug)]
pub struct JournalContents {
    /// The first record.
    pub header: JournalHeader,
    /// The batches, in order.
    pub batches: Vec<BatchState>,
    /// The lines of the plan that were not tried.
    pub left: Vec<Remaining>,
    /// The plan was executed to its end.
    pub is_ended: bool,
    /// The start of the undo, if there was one.
    pub undo: Option<String>,
    /// The undo came to its end.
    pub is_restored: bool,
    /// The end was torn.
    pub is_torn: bool,
    /// Another process is writing the journal; the state of the last batch may change at any moment.
    pub is_in_use: bool,
    pub(super) len: u64,
    pub(super) check: u32,
}

#[derive(Clone, Debug, Default)]
pub struct BatchState {
    pub number: u64,
    /// The number of lines of the plan in the batch.
    pub lines: u64,
    /// The entries that failed, once the batch was executed.
    pub done: Option<Vec<FailedEntry>>,
    /// The times for its directories, once its undo was begun.
    pub undoing: Option<Vec<(InodeTime, InodeTime)>>,
    /// The entries that failed, once the batch was undone.
    pub undone: Option<Vec<FailedEntry>>,
    /// It changes directories or targets, which later batches and runs must know.
    pub changes_paths: bool,
    offset: u64,
    len: usize,
    before: u32,
    /// The number of missing records.
    missing: usize,
}

impl BatchState {
    /// Reports whether the entry at index `at` failed when the batch was executed.
    pub fn has_failed(&self, at: usize) -> bool {
        self.done.iter().flatten().any(|failed| failed.entry == at)
    }

    /// Reports whether the entry at index `at` failed when the batch was undone.
    pub fn has_failed_undo(&self, at: usize) -> bool {
        self.undone.iter().flatten().any(|failed| failed.entry == at)
    }
}

/// Why a journal cannot be used.
#[derive(Debug)]
pub enum JournalError {
    /// The file cannot be read, or is in use.
    File(io::Error),
    /// The file is not a journal.
    NotAJournal,
    /// The format version is unknown.
    Version(u64),
    /// A line that was on the disk is damaged.
    Damaged {
        /// The line, from 1.
        line: u64,
    },
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "{error}"),
            Self::NotAJournal => f.write_str("not a journal of namegate, or the first line is damaged"),
            Self::Version(version) => {
                write!(f, "format version {version} is not supported; this program reads version {VERSION}")
            }
            Self::Damaged { line } => {
                write!(f, "line {line} is damaged; nothing was changed")
            }
        }
    }
}

impl std::error::Error for JournalError {}

/// Reads the first record of the journal `path`; `None` if that is not possible.
pub fn read_header(path: &Path) -> Option<JournalHeader> {
    let file = File::open(path).ok()?;
    match JournalLines::new(&file).next().ok()?.and_then(|line| JournalRecord::parse(line, 0))? {
        (JournalRecord::Journal(header), _) => Some(header),
        _ => None,
    }
}

impl JournalContents {
    /// Reads the journal `path` without changing it, also while another process writes it.
    ///
    /// # Errors
    /// The file cannot be read, is not a journal, or is damaged.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let file = File::open(path)?;
        let is_in_use = lock(file.try_clone()?)?.is_none();
        // A journal that is being written is incomplete, not torn.
        let contents = Self::read_file(&file)?;
        Ok(Self { is_in_use, is_torn: contents.is_torn && !is_in_use, ..contents })
    }

    /// Reads `file` from its beginning.
    ///
    /// # Errors
    /// The file cannot be read, is not a journal, or is damaged.
    pub(super) fn read_file(file: &File) -> Result<Self, JournalError> {
        let mut lines = JournalLines::new(file);
        let first = lines.next()?.ok_or(JournalError::NotAJournal)?;
        // Another version may have other fields.
        if let Some(version) = stated_version(first).filter(|&version| version != VERSION) {
            return Err(JournalError::Version(version));
        }
        let Some((JournalRecord::Journal(header), check)) = JournalRecord::parse(first, 0) else {
            return Err(JournalError::NotAJournal);
        };
        let mut contents = Self {
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
        let (mut number, mut batch) = (1, JournalBatch::default());
        while let Some(line) = lines.next()? {
            number += 1;
            let read = JournalRecord::parse(line, contents.check);
            let len = lines.len();
            let Some(check) =
                read.and_then(|(record, check)| contents.add(record, len, &mut batch).map(|()| check))
            else {
                contents.is_torn = true;
                if contents.undo.is_none() && contents.was_synced(&mut lines)? {
                    return Err(JournalError::Damaged { line: number });
                }
                break;
            };
            (contents.check, contents.len) = (check, contents.len + len);
        }
        // A batch that was not written completely was not begun.
        if let Some(last) = contents.batches.pop_if(|last| last.missing > 0) {
            (contents.check, contents.len, contents.is_torn) = (last.before, last.offset, true);
        }
        Ok(contents)
    }

    /// Adds a record from a line of `len` bytes; `None` if the record is out of place.
    fn add(&mut self, record: JournalRecord<'_>, len: u64, batch: &mut JournalBatch) -> Option<()> {
        if let Some(last) = self.batches.last_mut().filter(|last| last.missing > 0) {
            let before = batch.entries.len();
            batch.add(record)?;
            for entry in &batch.entries[before..] {
                last.lines += entry.lines() as u64;
                last.changes_paths |= entry.changes_paths();
            }
            last.len += len as usize;
            last.missing -= 1;
            // Only their number is kept; the records are read again when they are needed.
            return Some(());
        }
        match record {
            JournalRecord::Batch { number, directories, entries } => {
                let is_next = number == self.batches.last().map_or(1, |last| last.number + 1);
                if !is_next || self.undo.is_some() {
                    return None;
                }
                *batch = JournalBatch { number, ..JournalBatch::default() };
                self.is_ended = false;
                self.batches.push(BatchState {
                    number,
                    offset: self.len,
                    len: len as usize,
                    before: self.check,
                    missing: directories.checked_add(entries)?,
                    ..BatchState::default()
                });
            }
            JournalRecord::Done { batch, left } => self.batch_state(batch)?.done = Some(left),
            JournalRecord::Left(left) => self.left.push(left),
            JournalRecord::End => self.is_ended = true,
            JournalRecord::Undo { started } => (self.undo, self.is_restored) = (Some(started), false),
            JournalRecord::Undoing { batch, times } => self.batch_state(batch)?.undoing = Some(times),
            JournalRecord::Undone { batch, left } => self.batch_state(batch)?.undone = Some(left),
            JournalRecord::Restored => self.is_restored = true,
            JournalRecord::Journal(_) | JournalRecord::Directory(_) | JournalRecord::Entry(_) => return None,
        }
        Some(())
    }

    fn batch_state(&mut self, number: u64) -> Option<&mut BatchState> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        self.batches.get_mut(at)
    }

    /// Reports whether a line after a damaged one proves that the damaged line was on the disk.
    fn was_synced(&self, lines: &mut JournalLines<'_>) -> Result<bool, JournalError> {
        // The state of a batch is written with the next one.
        let unit = self.batches.last().map_or(1, |last| last.number + u64::from(last.missing == 0));
        let mut before = stated_check(lines.line.trim_ascii_end());
        while let Some(line) = lines.next()? {
            let record = before.and_then(|before| JournalRecord::parse(line, before));
            before = stated_check(line);
            match record.map(|(record, _)| record) {
                Some(JournalRecord::Batch { number, .. }) if number > unit => return Ok(true),
                Some(JournalRecord::Done { batch, .. }) if batch >= unit => return Ok(true),
                Some(JournalRecord::End) if self.batches.last().is_some_and(|last| last.missing > 0) => {
                    return Ok(true);
                }
                Some(JournalRecord::Undo { .. }) => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Reads a batch again.
    ///
    /// # Errors
    /// The file cannot be read, or was changed meanwhile.
    pub fn read_batch(&self, file: &File, at: usize) -> io::Result<JournalBatch> {
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "the journal was changed meanwhile");
        let state = self.batches.get(at).ok_or_else(changed)?;
        let mut bytes = vec![0; state.len];
        file.read_exact_at(&mut bytes, state.offset)?;
        let (mut check, mut batch) =
            (state.before, JournalBatch { number: state.number, ..JournalBatch::default() });
        for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let (record, next) = JournalRecord::parse(line, check).ok_or_else(changed)?;
            check = next;
            if number > 0 {
                batch.add(record).ok_or_else(changed)?;
            }
        }
        Ok(batch)
    }

    /// The number of lines of the plan that are done, or possibly done: the state of the last batch may be unknown.
    pub fn lines(&self) -> u64 {
        self.batches.iter().map(|state| state.lines).sum()
    }
}

/// Reads a file from its beginning, independent of its position.
struct FileFromStart<'f> {
    file: &'f File,
    at: u64,
}

impl Read for FileFromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buffer, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

/// The lines of a journal. A line without a line feed is torn, and counts as damaged.
struct JournalLines<'f> {
    file: BufReader<FileFromStart<'f>>,
    line: Vec<u8>,
}

impl<'f> JournalLines<'f> {
    fn new(file: &'f File) -> Self {
        Self { file: BufReader::with_capacity(1 << 16, FileFromStart { file, at: 0 }), line: Vec::new() }
    }

    /// The next line, without its line feed.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let room = MAX_HEADER_BYTES as u64 * 4;
        if (&mut self.file).take(room).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        Ok(Some(self.line.strip_suffix(b"\n").unwrap_or(b"torn")))
    }

    /// The length of the line, with its line feed.
    fn len(&self) -> u64 {
        self.line.len() as u64
    }
}
