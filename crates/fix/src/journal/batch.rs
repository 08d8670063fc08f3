//! The changes between two flushes of the journal.

use std::borrow::Cow;

use super::batch_entry::BatchEntry;
use super::record::{BatchDirectory, JournalRecord, RenderedRecords};

/// Renames and retargets that are written together before the first of them is executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalBatch {
    /// The number, from 1.
    pub number: u64,
    pub directories: Vec<BatchDirectory>,
    /// The changes, in order.
    pub entries: Vec<BatchEntry>,
}

impl JournalBatch {
    pub(super) fn head(&self) -> JournalRecord<'static> {
        JournalRecord::Batch {
            number: self.number,
            directories: self.directories.len(),
            entries: self.entries.len(),
        }
    }

    /// The records after the first one, which do not depend on the number.
    pub(crate) fn render(directories: &[BatchDirectory], entries: &[BatchEntry]) -> RenderedRecords {
        let mut rendered = RenderedRecords::default();
        directories.iter().for_each(|dir| rendered.push(&JournalRecord::Directory(Cow::Borrowed(dir))));
        entries.iter().for_each(|entry| rendered.push(&JournalRecord::Entry(Cow::Borrowed(entry))));
        rendered
    }

    /// Adds a record that follows the head of the batch; `None` if the record is out of place or has an invalid name.
    pub(super) fn add(&mut self, record: JournalRecord<'_>) -> Option<()> {
        match record {
            JournalRecord::Directory(directory) if self.entries.is_empty() => {
                self.directories.push(directory.into_owned());
            }
            JournalRecord::Entry(entry) if entry.is_valid() => {
                self.directories.get(entry.directory())?;
                self.entries.push(entry.into_owned());
            }
            _ => return None,
        }
        Some(())
    }
}
