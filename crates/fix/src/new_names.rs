//! The new names of directories: paths of a plan lead through them when they are renamed.

use std::io;

use namegate_findings::records::{EntryRecord, IndexedRecords, RecordSorter};

use super::plan::id_set::IdSet;
use super::plan_record::damaged;

/// Ids and new names of renames, by directory and old name.
#[derive(Debug, Default)]
pub(crate) struct NameIndex(IndexedRecords);

impl NameIndex {
    /// The names of [`push_new_name`].
    pub(crate) fn new(names: RecordSorter) -> io::Result<Self> {
        names.finish()?.index().map(Self)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The id and the new name of `old` in the directory `dir`.
    pub(crate) fn find(&self, dir: &[u8], old: &[u8]) -> io::Result<Option<(u64, Vec<u8>)>> {
        let Some(payload) = self.0.find(dir, old)? else { return Ok(None) };
        let (id, new) = payload.split_first_chunk::<8>().ok_or_else(damaged)?;
        Ok(Some((u64::from_le_bytes(*id), new.to_vec())))
    }
}

/// The new names of directories, and which directories have them now.
#[derive(Debug, Default)]
pub struct NewNames {
    names: NameIndex,
    current: IdSet,
    has_current: bool,
}

/// Adds the new name of `old` in the directory `dir`.
pub(crate) fn push_new_name(
    names: &mut RecordSorter,
    dir: &[u8],
    old: &[u8],
    id: u64,
    new: &[u8],
) -> io::Result<()> {
    let payload = [&id.to_le_bytes()[..], new].concat();
    names.push(EntryRecord { dir, name: old, payload: &payload })
}

impl NewNames {
    /// The names of [`push_new_name`]. The directories of the renames `current` have their new names.
    pub fn new(names: RecordSorter, current: IdSet) -> io::Result<Self> {
        let has_current = current != IdSet::default();
        Ok(Self { names: NameIndex::new(names)?, current, has_current })
    }

    /// Records that the directory of the rename `id` has its new name.
    pub fn record(&mut self, id: u64) {
        self.current.insert(id);
        self.has_current = true;
    }

    /// Records that the directory of the rename `id` has its old name again.
    pub(crate) fn forget(&mut self, id: u64) {
        self.current.remove(id);
    }

    /// Reports whether no directory gets another name.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Reports whether some directory may have its new name.
    pub(crate) const fn has_current(&self) -> bool {
        self.has_current
    }

    /// The new name of the directory with the old path `path`, if it has that now.
    pub fn current(&self, path: &[u8]) -> Option<Vec<u8>> {
        if !self.has_current {
            return None;
        }
        self.find(path).filter(|(id, _)| self.current.contains(*id)).map(|(_, new)| new)
    }

    /// The new name of the directory with the old path `path`.
    pub fn planned(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.find(path).map(|(_, new)| new)
    }

    fn find(&self, path: &[u8]) -> Option<(u64, Vec<u8>)> {
        let at = memchr::memrchr(b'/', path)?;
        let (dir, name) = (if at == 0 { &path[..1] } else { &path[..at] }, &path[at + 1..]);
        // If a temporary file cannot be read, the directory is not found, and its entries are reported.
        self.names.find(dir, name).ok().flatten()
    }
}
