//! Finds members that would become one.

use std::hash::{BuildHasher, RandomState};
use std::io;

use namegate_core::name::display::display;
use namegate_findings::records::{DirectoryOrder, EntryRecord, RecordSorter, components};

use super::refusal;

/// The new paths of all members, each with a fingerprint of the old one.
pub(super) struct UniquePaths {
    paths: RecordSorter,
    hash: RandomState,
}

impl UniquePaths {
    pub(super) fn new() -> Self {
        Self { paths: RecordSorter::new(DirectoryOrder::Bytes, 8 << 20), hash: RandomState::new() }
    }

    /// Adds a member.
    pub(super) fn add(&mut self, old: &[u8], new: &[u8]) -> io::Result<()> {
        let entry = |path: &[u8]| {
            let parts = components(path).filter(|part| *part != b".");
            parts.collect::<Vec<_>>().join(&b'/')
        };
        let payload = self.hash.hash_one(entry(old)).to_le_bytes();
        self.paths.push(EntryRecord { dir: b"", name: &entry(new), payload: &payload })
    }

    /// # Errors
    /// Two members that had different paths have the same one.
    pub(super) fn finish(self) -> io::Result<()> {
        let sorted = self.paths.finish()?;
        let (mut cursor, mut last) = (sorted.cursor()?, (Vec::new(), Vec::new()));
        while let Some(record) = cursor.next()? {
            if last.0 == record.name && last.1 != record.payload && !record.name.is_empty() {
                let path = display(record.name);
                return Err(refusal(format!("two members would become one: {path}")));
            }
            last = (record.name.to_vec(), record.payload.to_vec());
        }
        Ok(())
    }
}
