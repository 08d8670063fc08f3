//! The names of a large directory that may get a line, with their lines, in the order of the directory. Lines that do not fit into a
//! MiB are in a temporary file.

use std::io;
use std::ops::Range;

use super::directory::DirectoryProposals;
use super::draft::{LineRecord, tag};
use super::look_up::LineMaker;
use super::parts::in_parts;
use crate::fix::records::{DirectoryOrder, EntryRecord, RecordSorter, SortedRecords};

/// Bytes that are kept in memory.
const MOST_HELD: usize = 1 << 20;
/// So many names get their lines together.
const TOGETHER: usize = 16 * 1024;
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

impl Default for LineSpill {
    fn default() -> Self {
        Self { sorter: RecordSorter::new(DirectoryOrder::Bytes, MOST_HELD), count: 0 }
    }
}

impl LineSpill {
    /// Adds the names for which there are proposals, and those that `is_kept` accepts; and the names whose paths are too long if
    /// `has_long` is set. `take_new` is called with each suggested name. The lines are made in at most `jobs` threads.
    pub(super) fn add(
        &mut self,
        proposals: &DirectoryProposals<'_>,
        is_kept: &(dyn Fn(&[u8]) -> bool + Sync),
        has_long: bool,
        lines: &LineMaker<'_>,
        jobs: usize,
        take_new: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        for name in proposals.long().filter(|_| has_long) {
            self.push(name, None, Some(&lines.long_line(name)))?;
        }
        for from in (0..proposals.len()).step_by(TOGETHER) {
            let make_lines = |part: Range<usize>| {
                let part = proposals.all_names(from + part.start..from + part.end);
                let kept = part.filter(|(name, new, line)| new.is_some() || line.is_some() || is_kept(name));
                let made =
                    kept.map(|(name, new, line)| (name, new, line.and_then(|line| lines.line_of(line))));
                made.collect::<Vec<_>>()
            };
            let count = TOGETHER.min(proposals.len() - from);
            for (name, new, line) in in_parts(count, jobs, &make_lines).into_iter().flatten() {
                new.into_iter().for_each(&mut *take_new);
                self.push(name, new, line.as_ref())?;
            }
        }
        Ok(())
    }

    fn push(&mut self, name: &[u8], new: Option<&str>, line: Option<&LineRecord>) -> io::Result<()> {
        let new_len =
            new.map_or(NO_NAME, |new| u32::try_from(new.len()).expect("a name is shorter than 4 GiB"));
        let name_len = u32::try_from(name.len()).expect("a name is shorter than 4 GiB");
        let tag = line.and_then(|(key, _)| key.first()).copied().unwrap_or(NO_LINE);
        let payload = [
            &name_len.to_le_bytes()[..],
            &new_len.to_le_bytes(),
            &[tag],
            name,
            new.unwrap_or_default().as_bytes(),
            line.map_or(b"", |(_, payload)| payload),
        ];
        self.count += 1;
        let record = EntryRecord { dir: b"", name: &self.count.to_be_bytes(), payload: &payload.concat() };
        self.sorter.push(record)
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
            let line = SpilledLine::parse(payload);
            take(line.ok_or_else(|| io::Error::other("a temporary file was changed"))?)?;
        }
        Ok(())
    }
}

impl<'l> SpilledLine<'l> {
    fn parse(payload: &'l [u8]) -> Option<Self> {
        let (name_len, rest) = payload.split_first_chunk()?;
        let (new_len, rest) = rest.split_first_chunk()?;
        let (name_len, new_len) = (u32::from_le_bytes(*name_len), u32::from_le_bytes(*new_len));
        let (key, rest) = rest.split_at_checked(1 + name_len as usize)?;
        let (&tag, name) = key.split_first()?;
        let (new, payload) = match new_len {
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

    /// The line of the plan.
    pub(super) fn to_record(&self) -> Option<LineRecord> {
        self.line.map(|(key, payload)| (key.to_vec(), payload.to_vec()))
    }
}
