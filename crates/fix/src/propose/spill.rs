//! The names of a large directory that may get a line, with their lines, in the order of the directory. Lines that do not fit into a
//! MiB are in a temporary file.

use std::io;
use std::ops::Range;

use namegate_findings::records::{DirectoryOrder, EntryRecord, RecordSorter, SortedRecords};

use super::directory::DirectoryProposals;
use super::draft::{LineRecord, tag};
use super::look_up::LineMaker;

/// Bytes that are kept in memory.
const MOST_HELD: usize = 1 << 20;
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
    /// Makes the lines of the names in `part` of `proposals`, and adds those that have a proposal or that `is_kept` accepts.
    pub(super) fn add(
        &mut self,
        proposals: &DirectoryProposals<'_>,
        part: Range<usize>,
        is_kept: &dyn Fn(&[u8]) -> bool,
        lines: &LineMaker<'_>,
    ) {
        for (name, new, proposal) in proposals.all_names(part) {
            if new.is_some() || proposal.is_some() || is_kept(name) {
                let line = proposal.and_then(|proposal| lines.line_of(proposal));
                self.push(name, new, line.as_ref());
            }
        }
    }

    /// Adds the names whose paths are too long.
    pub(super) fn add_long(&mut self, proposals: &DirectoryProposals<'_>, lines: &LineMaker<'_>) {
        for name in proposals.long() {
            self.push(name, None, Some(&lines.long_line(name)));
        }
    }

    fn push(&mut self, name: &[u8], new: Option<&str>, line: Option<&LineRecord>) {
        let len = |len: usize| u32::try_from(len).expect("a name is shorter than 4 GiB").to_le_bytes();
        let tag = line.and_then(|(key, _)| key.first()).copied().unwrap_or(NO_LINE);
        let payload = [
            &len(name.len())[..],
            &new.map_or(NO_NAME.to_le_bytes(), |new| len(new.len())),
            &[tag],
            name,
            new.unwrap_or_default().as_bytes(),
            line.map_or(b"", |(_, payload)| payload),
        ];
        self.0.push(payload.concat());
    }
}

fn changed() -> io::Error {
    io::Error::other("a temporary file was changed")
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
            let line = SpilledLine::parse(payload).ok_or_else(changed)?;
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
            take(SpilledLine::parse(payload).ok_or_else(changed)?)?;
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

    pub(super) fn to_record(&self) -> Option<LineRecord> {
        self.line.map(|(key, payload)| (key.to_vec(), payload.to_vec()))
    }
}
