//! The renames of a stored plan, as records and directory by directory.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use namegate_findings::records::{EntryRecord, RecordCursor};

use crate::plan::{PlanDirectory, Rename};
use crate::plan_record::RenameReader;

/// The number of renames of a directory that are held in memory; the others are read again when they are needed.
const MOST_HELD: usize = 16_384;

/// Reads the renames of a plan, directory by directory.
pub struct StoredDirectories<'p> {
    /// Before the first record, at the first one of the next directory, or at one of the directory that was returned last.
    cursor: RecordCursor<'p>,
    last: Option<Arc<PlanDirectory>>,
    most_held: usize,
}

/// The renames of one directory, by old name; without the fields that are only for the reader.
pub struct DirectoryRenames<'p> {
    pub directory: Arc<PlanDirectory>,
    /// The first ones.
    held: Vec<Rename>,
    /// A cursor at the first of the others, if there are any.
    rest: Option<RecordCursor<'p>>,
}

/// Takes a rename. Breaks to see no other.
type RenameSink<'s> = dyn FnMut(&Rename) -> io::Result<ControlFlow<()>> + 's;

impl<'p> StoredDirectories<'p> {
    pub(super) fn new(cursor: RecordCursor<'p>) -> Self {
        Self { cursor, last: None, most_held: MOST_HELD }
    }

    /// The renames of the next directory.
    #[allow(clippy::should_implement_trait, reason = "reading can fail, and ends there")]
    pub fn next(&mut self) -> io::Result<Option<DirectoryRenames<'p>>> {
        match self.last.take() {
            None => self.cursor.advance()?,
            Some(last) => {
                while self.cursor.record().is_some_and(|record| record.dir == last.path) {
                    self.cursor.advance()?;
                }
            }
        }
        let Some(record) = self.cursor.record() else { return Ok(None) };
        let first = read_rename(record, None)?;
        let directory = Arc::clone(&first.directory);
        self.last = Some(Arc::clone(&directory));
        let mut held = vec![first];
        loop {
            self.cursor.advance()?;
            match self.cursor.record().filter(|record| record.dir == directory.path) {
                Some(record) if held.len() < self.most_held => {
                    held.push(read_rename(record, Some(&directory))?)
                }
                more => {
                    let rest = more.is_some().then(|| self.cursor.fork());
                    return Ok(Some(DirectoryRenames { directory, held, rest }));
                }
            }
        }
    }
}

impl DirectoryRenames<'_> {
    /// Gives each rename to `take`, in the same order each time.
    pub fn each(&self, take: &mut RenameSink<'_>) -> io::Result<ControlFlow<()>> {
        for rename in &self.held {
            if take(rename)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let Some(rest) = &self.rest else { return Ok(ControlFlow::Continue(())) };
        let mut rest = rest.fork();
        while let Some(record) = rest.record().filter(|record| record.dir == self.directory.path) {
            if take(&read_rename(record, Some(&self.directory))?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            rest.advance()?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Reads a rename; `last` is the directory of the record before.
pub(super) fn read_rename(record: EntryRecord<'_>, last: Option<&Arc<PlanDirectory>>) -> io::Result<Rename> {
    RenameReader::new(record.payload)?.rename(record, last)
}
