//! Sorted records that can be searched: by an index of a file, or in memory.

use std::cmp::Ordering;
use std::fs::File;
use std::io;

use crate::temporary;

use super::{
    DirectoryOrder, HeldRecords, READ_BUFFER, RecordStore, RecordWriter, RunReader, SortedRecords, compare,
};

/// The distance between two records of the index, in bytes.
const INDEX_STEP: u64 = 4 << 10;

impl SortedRecords {
    /// Makes the records searchable.
    ///
    /// # Errors
    /// The temporary file cannot be read, or another one cannot be written.
    pub fn index(self) -> io::Result<IndexedRecords> {
        let order = match self.0 {
            RecordStore::Held(held) => return Ok(IndexedRecords(IndexedStore::Held(held))),
            RecordStore::Runs { order, .. } => order,
        };
        let mut out = RecordWriter::new(READ_BUFFER)?;
        let (mut index, mut indexed) = (Vec::<IndexEntry>::new(), None);
        let mut cursor = self.cursor()?;
        while let Some(record) = cursor.next()? {
            let is_due = indexed.is_none_or(|at| out.len - at >= INDEX_STEP);
            if is_due {
                indexed = Some(out.len);
                index.push(IndexEntry { at: out.len, dir: record.dir.into(), name: record.name.into() });
            }
            let is_same = !is_due && out.dir == record.dir;
            out.write_with(record, is_same).map_err(temporary::unwritten)?;
        }
        let len = out.len;
        Ok(IndexedRecords(IndexedStore::File { file: out.finish()?, len, index, order }))
    }
}

/// Sorted records that can be searched.
#[derive(Debug)]
pub struct IndexedRecords(pub(super) IndexedStore);

#[derive(Debug)]
pub(super) enum IndexedStore {
    Held(HeldRecords),
    File { file: File, len: u64, index: Vec<IndexEntry>, order: DirectoryOrder },
}

/// A record whose place in the file is known. It does not depend on the record before.
#[derive(Debug)]
pub(super) struct IndexEntry {
    at: u64,
    dir: Box<[u8]>,
    name: Box<[u8]>,
}

impl Default for IndexedRecords {
    fn default() -> Self {
        Self(IndexedStore::Held(HeldRecords::default()))
    }
}

impl IndexedRecords {
    /// Reports whether there are no records.
    pub const fn is_empty(&self) -> bool {
        match &self.0 {
            IndexedStore::Held(held) => held.places.is_empty(),
            IndexedStore::File { len, .. } => *len == 0,
        }
    }

    /// The payload of the first record with this directory and name.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn find(&self, dir: &[u8], name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let wanted = (dir, name);
        match &self.0 {
            IndexedStore::Held(held) => {
                let at = held.places.partition_point(|place| {
                    let record = held.record(place);
                    compare(held.order, (record.dir, record.name), wanted).is_lt()
                });
                let found = held.places.get(at).map(|place| held.record(place));
                let found = found.filter(|found| (found.dir, found.name) == wanted);
                Ok(found.map(|found| found.payload.to_vec()))
            }
            IndexedStore::File { file, len, index, order } => {
                let at =
                    index.partition_point(|entry| compare(*order, (&entry.dir, &entry.name), wanted).is_lt());
                // The record may stand before the first one of the index that is not less.
                let begin = at.checked_sub(1).map_or(0, |at| index[at].at);
                let mut reader = RunReader::new(file, begin, *len, 2 * INDEX_STEP as usize);
                while reader.advance()? {
                    match compare(*order, reader.key(), wanted) {
                        Ordering::Less => {}
                        Ordering::Equal => return Ok(Some(reader.record().payload.to_vec())),
                        Ordering::Greater => break,
                    }
                }
                Ok(None)
            }
        }
    }
}
