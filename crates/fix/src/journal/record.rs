//! The records of a journal, one per line.
//!
//! A line is a JSON object whose last field, `check`, is the CRC-32 of the `check` of the line before and of everything in front of
//! the field. So a line that is torn, changed, missing or out of order is detected.

use std::borrow::Cow;
use std::io::Write as _;

use namegate_core::policy::Confidence;
use namegate_files::json::{Base64, Hex};
use serde::{Deserialize, Serialize};

use super::batch_entry::BatchEntry;
use crate::group::{GroupMember, RenameGroup};
use crate::plan::{FileKind, InodeTime, PlanRoot};
use crate::progress::Remaining;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchDirectory {
    /// The path as in the plan.
    #[serde(rename = "path_base64")]
    pub path: Base64,
    pub inode: u64,
    /// The access time before the batch.
    pub atime: InodeTime,
    /// The modification time before the batch.
    pub mtime: InodeTime,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum JournalRecord<'r> {
    /// The first record, which describes the run.
    Journal(JournalHeader),
    /// The start of a batch. Its `Directory`, `Rename`, `Retarget` and `Move` records follow, and are on the disk before any of them is
    /// executed.
    Batch {
        /// The number, from 1.
        number: u64,
        /// How many `Directory` records follow.
        directories: usize,
        /// How many `Rename`, `Retarget` and `Move` records follow.
        entries: usize,
    },
    Directory(Cow<'r, BatchDirectory>),
    /// The batch is executed, except for the given entries.
    Done {
        batch: u64,
        left: Vec<FailedEntry>,
    },
    /// A line of the plan that was not tried.
    Left(Remaining),
    /// The plan is executed as far as possible.
    End,
    /// From here on the changes are undone.
    Undo {
        /// The start of the undo, in RFC 3339.
        started: String,
    },
    /// This batch is undone next.
    Undoing {
        batch: u64,
        /// The access and modification times that its directories get back, if times are kept.
        times: Vec<(InodeTime, InodeTime)>,
    },
    /// The batch is undone, except for the given entries.
    Undone {
        batch: u64,
        left: Vec<FailedEntry>,
    },
    /// Everything is undone as far as possible.
    Restored,
    /// A change: `Rename`, `Retarget` or `Move`.
    #[serde(untagged)]
    Entry(Cow<'r, BatchEntry>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalHeader {
    pub version: u64,
    /// The version of the program.
    pub namegate: String,
    /// The start of the run, in RFC 3339.
    pub started: String,
    /// The absolute path of the plan.
    #[serde(rename = "plan_base64")]
    pub plan: Base64,
    /// The length of the plan in bytes.
    pub plan_bytes: u64,
    /// The CRC-32 of the plan, in hexadecimal.
    pub plan_check: String,
    pub roots: Vec<PlanRoot>,
    /// Renames that are less certain are left out.
    pub at_least: Confidence,
    /// The number of renames in the plan, without those that are left out.
    pub renames: u64,
    /// The number of links with a new target.
    pub retargets: u64,
    /// The times of directories are kept.
    pub keep_times: bool,
    /// Original names are kept in an attribute.
    pub keep_original: bool,
    /// File systems that are mounted below the roots are included.
    pub cross_file_systems: bool,
    /// Git's index gets the new names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub git: bool,
    /// What a person decided, if that was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<JournalDecisions>,
}

/// The file of decisions that a run carries out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalDecisions {
    /// Its absolute path.
    #[serde(rename = "file_base64")]
    pub file: Base64,
    /// Its CRC-32, in hexadecimal.
    pub check: String,
}

impl JournalHeader {
    /// Reports whether both runs are of the same plan.
    pub fn is_of_same_plan(&self, other: &Self) -> bool {
        (self.plan_bytes, &self.plan_check) == (other.plan_bytes, &other.plan_check)
    }

    /// Reports whether both runs carry out the same decisions, or none.
    pub fn has_same_decisions(&self, other: &Self) -> bool {
        let check = |header: &Self| header.decisions.as_ref().map(|decisions| decisions.check.clone());
        check(self) == check(other)
    }
}

/// An entry of a batch that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedEntry {
    /// The index of the `Rename`, `Retarget` or `Move` record in the batch.
    pub entry: usize,
    /// The reason, in a sentence.
    pub reason: String,
    /// The entry is tried again in a later batch, with a temporary name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// The beginning of the line of a single rename. Nearly all lines are such, so they have no names of fields.
const SINGLE_BEGIN: &[u8] = br#"{"rename":"#;

/// The fields of a single rename: the index of the directory in the batch, the id in the plan, the inode number, the type, the birth
/// time if it is known, the old and the new name.
type SingleRename<N> = (usize, u64, u64, FileKind, Option<InodeTime>, N, N);

/// The text in front of the check.
const CHECK: &[u8] = b",\"check\":\"";

/// The length of the end of a line, which the check does not cover: the field, eight digits, a quote and a brace.
const TAIL: usize = CHECK.len() + 10;

/// The check of a line with the text `body`, after a line with the check `before`.
fn compute_check(before: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&before.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// Appends the end of a line.
fn write_tail(check: u32, to: &mut Vec<u8>) {
    to.extend_from_slice(CHECK);
    writeln!(to, "{check:08x}\"}}").expect("memory takes every write");
}

/// Records as text, without their checks. Only a check depends on the records before, so another thread than the one that writes
/// the journal can make the rest.
#[derive(Debug, Default)]
pub struct RenderedRecords {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl RenderedRecords {
    /// Adds a record.
    pub fn push(&mut self, record: &JournalRecord<'_>) {
        record.write_body(&mut self.text);
        self.ends.push(self.text.len());
    }

    /// Appends the lines to `to`, after a line with the check `before`. Returns the check of the last line.
    pub(super) fn write(&self, before: u32, to: &mut Vec<u8>) -> u32 {
        to.reserve(self.text.len() + self.ends.len() * (TAIL + 1));
        let (mut check, mut begin) = (before, 0);
        for &end in &self.ends {
            let body = &self.text[begin..end];
            check = compute_check(check, body);
            to.extend_from_slice(body);
            write_tail(check, to);
            begin = end;
        }
        check
    }
}

impl JournalRecord<'_> {
    /// Appends the line to `to`, after a line with the check `before`. Returns the check of the new line.
    pub fn write(&self, before: u32, to: &mut Vec<u8>) -> u32 {
        let begin = to.len();
        self.write_body(to);
        let check = compute_check(before, &to[begin..]);
        write_tail(check, to);
        check
    }

    /// Appends the line as far as the check covers it.
    fn write_body(&self, to: &mut Vec<u8>) {
        const WRITTEN: &str = "records have no maps, and memory takes every write";
        if let Some(single) = self.single() {
            to.extend_from_slice(SINGLE_BEGIN);
            return serde_json::to_writer(&mut *to, &single).expect(WRITTEN);
        }
        serde_json::to_writer(&mut *to, self).expect(WRITTEN);
        // The check replaces the closing brace.
        to.pop();
    }

    /// The fields of a single rename; `None` for other records.
    fn single(&self) -> Option<SingleRename<&Hex>> {
        let Self::Entry(entry) = self else { return None };
        let BatchEntry::Rename(group) = &**entry else { return None };
        let RenameGroup { directory, temp_name: None, members } = group else { return None };
        let [member] = &members[..] else { return None };
        let GroupMember { id, old, new, inode, kind, born, marked: false, checked_owner: _ } = member else {
            return None;
        };
        Some((*directory, *id, *inode, *kind, *born, old, new))
    }

    fn from_single((directory, id, inode, kind, born, old, new): SingleRename<Hex>) -> Self {
        let (marked, checked_owner) = (false, None);
        let member = GroupMember { id, old, new, inode, kind, born, marked, checked_owner };
        let group = RenameGroup { directory, temp_name: None, members: vec![member] };
        Self::Entry(Cow::Owned(BatchEntry::Rename(group)))
    }

    /// Parses a line without its line feed, after a line with the check `before`; `None` if the line is damaged.
    pub fn parse(line: &[u8], before: u32) -> Option<(JournalRecord<'static>, u32)> {
        let (body, tail) = line.split_at_checked(line.len().checked_sub(TAIL)?)?;
        let check = stated_check(line).filter(|_| tail.starts_with(CHECK))?;
        if compute_check(before, body) != check {
            return None;
        }
        let record = match body.strip_prefix(SINGLE_BEGIN) {
            Some(fields) => JournalRecord::from_single(serde_json::from_slice(fields).ok()?),
            None => serde_json::from_slice(&[body, b"}"].concat()).ok()?,
        };
        Some((record, check))
    }
}

/// The check in a line, right or wrong.
pub(crate) fn stated_check(line: &[u8]) -> Option<u32> {
    let digits = line.strip_suffix(b"\"}")?;
    let digits = std::str::from_utf8(digits.get(digits.len().checked_sub(8)?..)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// The format version in a first line, right or wrong; `None` if the line is not the first of a journal.
pub(crate) fn stated_version(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct FirstLine {
        r#type: String,
        version: u64,
    }
    let first: FirstLine = serde_json::from_slice(line).ok()?;
    (first.r#type == "journal").then_some(first.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left() -> JournalRecord<'static> {
        let directory = Base64(b"/a\xFF".to_vec());
        let (old, new) = (Hex(b"\xE9\n".to_vec()), Hex(b"x".to_vec()));
        JournalRecord::Left(Remaining { directory, old, new, reason: "because \"so\"".into() })
    }

    #[test]
    fn a_single_rename_is_a_short_line() {
        let born = InodeTime { seconds: 1_700_000_000, nanoseconds: 1 };
        let (old, new) = (Hex(b"caf\xE9".to_vec()), Hex("café".as_bytes().to_vec()));
        let single =
            |born| JournalRecord::from_single((3, 7, 42, FileKind::File, born, old.clone(), new.clone()));
        for (born, text) in [(Some(born), r#""1700000000.000000001""#), (None, "null")] {
            let (record, mut line) = (single(born), Vec::new());
            let check = record.write(7, &mut line);
            let line = String::from_utf8(line).unwrap();
            let expected = format!(r#"{{"rename":[3,7,42,"file",{text},"636166e9","636166c3a9"],"#);
            assert!(line.starts_with(&expected), "{line}");
            assert_eq!(JournalRecord::parse(line.trim_end().as_bytes(), 7), Some((record, check)));
        }
        // What a short line has no room for keeps the names of its fields.
        let JournalRecord::Entry(entry) = single(Some(born)) else { unreachable!() };
        let BatchEntry::Rename(group) = entry.into_owned() else { unreachable!() };
        let mut marked = group.clone();
        marked.members[0].marked = true;
        let through = RenameGroup { temp_name: Some(Hex(b"x".to_vec())), ..group };
        for group in [marked, through] {
            let (record, mut line) =
                (JournalRecord::Entry(Cow::Owned(BatchEntry::Rename(group))), Vec::new());
            let check = record.write(7, &mut line);
            assert!(line.starts_with(br#"{"type":"rename","#));
            assert_eq!(JournalRecord::parse(line.trim_ascii_end(), 7), Some((record, check)));
        }
    }

    #[test]
    fn a_line_parses_only_in_its_place() {
        let mut line = Vec::new();
        let check = left().write(7, &mut line);
        let line = line.strip_suffix(b"\n").unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok(), "a line is JSON");
        assert_eq!(JournalRecord::parse(line, 7), Some((left(), check)));
        assert_eq!(JournalRecord::parse(line, 8), None, "after another line");
        assert_eq!(stated_check(line), Some(check));
    }

    #[test]
    fn records_rendered_ahead_are_the_same_lines() {
        let records = [left(), JournalRecord::End, left()];
        let (mut lines, mut rendered, mut check) = (Vec::new(), RenderedRecords::default(), 7);
        for record in &records {
            check = record.write(check, &mut lines);
            rendered.push(record);
        }
        let mut ahead = Vec::new();
        assert_eq!(rendered.write(7, &mut ahead), check);
        assert_eq!(ahead, lines);
    }

    #[test]
    fn a_torn_line_and_a_flipped_bit_are_detected() {
        let mut line = Vec::new();
        left().write(7, &mut line);
        let line = line.strip_suffix(b"\n").unwrap();
        for len in 0..line.len() {
            assert_eq!(JournalRecord::parse(&line[..len], 7), None, "{len}");
        }
        for bit in 0..line.len() * 8 {
            let mut flipped = line.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A digit of the check may be in upper case.
            let is_same = flipped.eq_ignore_ascii_case(line) && bit / 8 >= line.len() - 10;
            assert_eq!(JournalRecord::parse(&flipped, 7).is_some(), is_same, "bit {bit}");
        }
    }
}
