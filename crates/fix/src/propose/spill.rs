//! The names of a large directory that may get a line, with their lines, in the order of the directory. Lines that do not fit into a
//! MiB are in a temporary file.

use std::io;
use std::ops::Range;

use namegate_findings::records::{DirectoryOrder, EntryRecord, RecordSorter, SortedRecords};

use super::directory::DirectoryProposals;
use super::line_maker::LineMaker;
use crate::plan_record::{LineRecord, damaged, tag};

/// Bytes that are kept in memory.
pub(super) const MOST_HELD: usize = 1 << 20;
/// In place of the tag of a line: the name has none.
const NO_LINE: u8 = 0;
/// In place of the length of a suggested name: the name has none.
const NO_NAME: u32 = u32::MAX;

/// Takes names with their lines.
pub(super) struct LineSpill {
    sorter: RecordSorter,
    count: u64,
}

/// Names with their lines, in the order in which they were added.
pub(super) struct SpilledLines(SortedRecords);

/// A name, and what was said of it.
pub(super) struct SpilledLine<'l> {
    pub(super) name: &'l [u8],
    /// The name that is suggested for it.
    pub(super) new: Option<&'l str>,
    /// The key and the payload of its line.
    line: Option<(&'l [u8], &'l [u8])>,
}

/// Some names with their lines, as the temporary file stores them.
#[derive(Default)]
pub(super) struct StoredLines(Vec<Vec<u8>>);

impl StoredLines {
    /// Makes the lines of the names in `part` of `proposals`, and adds those that have one or a suggested name, or that `is_kept`
    /// accepts.
    pub(super) fn add(
        &mut self,
        proposals: &DirectoryProposals<'_>,
        part: Range<usize>,
        is_kept: &dyn Fn(&[u8]) -> bool,
        lines: &LineMaker<'_>,
    ) {
        for at in part {
            let Some((name, new)) = proposals.name(at) else { return };
            let line = proposals.line(at, lines);
            if new.is_some() || line.is_some() || is_kept(name) {
                self.push(name, new, line);
            }
        }
    }

    /// Adds a line that concerns no other name.
    pub(super) fn push_alone(&mut self, line: LineRecord) {
        self.push(&[], None, Some(line));
    }

    fn push(&mut self, name: &[u8], new: Option<&str>, line: Option<LineRecord>) {
        let len = |len: usize| u32::try_from(len).expect("a name is shorter than 4 GiB").to_le_bytes();
        let LineRecord { key, payload } =
            line.unwrap_or_else(|| LineRecord { key: [&[NO_LINE], name].concat(), payload: Vec::new() });
        let new_len = new.map_or(NO_NAME.to_le_bytes(), |new| len(new.len()));
        let new = new.unwrap_or_default().as_bytes();
        self.0.push([&len(key.len())[..], &new_len, &key, new, &payload].concat());
    }
}

impl Default for LineSpill {
    fn default() -> Self {
        Self { sorter: RecordSorter::new(DirectoryOrder::Bytes, MOST_HELD), count: 0 }
    }
}

impl LineSpill {
    /// Adds names with their lines, and calls `take_new` with each name that is suggested for them.
    pub(super) fn add(&mut self, lines: StoredLines, take_new: &mut dyn FnMut(&str)) -> io::Result<()> {
        for payload in &lines.0 {
            let line = SpilledLine::parse(payload).ok_or_else(damaged)?;
            line.new.into_iter().for_each(&mut *take_new);
            self.count += 1;
            let record = EntryRecord { dir: b"", name: &self.count.to_be_bytes(), payload };
            self.sorter.push(record)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<SpilledLines> {
        self.sorter.finish().map(SpilledLines)
    }
}

impl SpilledLines {
    /// Calls `take` with each name, in the order in which they were added.
    pub(super) fn each(&self, take: &mut dyn FnMut(SpilledLine<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut cursor = self.0.cursor()?;
        while let Some(EntryRecord { payload, .. }) = cursor.next()? {
            take(SpilledLine::parse(payload).ok_or_else(damaged)?)?;
        }
        Ok(())
    }
}

impl<'l> SpilledLine<'l> {
    fn parse(stored: &'l [u8]) -> Option<Self> {
        let (key_len, rest) = stored.split_first_chunk()?;
        let (new_len, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
        let (&tag, name) = key.split_first()?;
        let (new, payload) = match u32::from_le_bytes(*new_len) {
            NO_NAME => (None, rest),
            len => {
                let (new, payload) = rest.split_at_checked(len as usize)?;
                (Some(std::str::from_utf8(new).ok()?), payload)
            }
        };
        Some(Self { name, new, line: (tag != NO_LINE).then_some((key, payload)) })
    }

    /// Whether the line says that the path is too long: the name has another line if it is planned.
    pub(super) fn is_long(&self) -> bool {
        self.line.is_some_and(|(key, _)| key.first() == Some(&tag::LONG))
    }

    pub(super) fn to_record(&self) -> Option<LineRecord> {
        self.line.map(|(key, payload)| LineRecord { key: key.to_vec(), payload: payload.to_vec() })
    }
}
