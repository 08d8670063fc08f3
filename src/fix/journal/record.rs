//! The records of a journal, and a line for each.
//!
//! A line is a JSON object whose last field, `check`, is the CRC-32 of the `check` of the line before and of everything in
//! this line in front of it: what is torn, changed, left out or put in another order is noticed.

use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};

use crate::fix::plan::{Ctime, Kind};
use crate::sys::stat::Time;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// The first one: what the journal is of.
    Journal(Header),
    /// What is done next; as many records of `Directory`, `Rename` and `Retarget` follow, and are on the disk before any of it
    /// is done.
    Batch {
        /// From 1.
        number: u64,
        /// How many `Directory` records follow.
        directories: usize,
        /// How many `Rename` and `Retarget` records follow.
        entries: usize,
    },
    /// A directory of the batch.
    Directory(Directory),
    /// Renames that belong together.
    Rename(Rename),
    /// A symbolic link that gets another target.
    Retarget(Retarget),
    /// Everything in the batch was done, except what is named.
    Done {
        /// Which batch.
        batch: u64,
        /// What was left.
        left: Vec<Remainder>,
    },
    /// A line of the plan that was not tried.
    Left(Left),
    /// The plan is done as far as it could be.
    End,
    /// From here on everything is taken back.
    Undo {
        /// When that began, by RFC 3339.
        started: String,
    },
    /// This batch is taken back next.
    Undoing {
        /// Which batch.
        batch: u64,
        /// The times of its directories before, where they are kept: of reading and of change.
        times: Vec<(Moment, Moment)>,
    },
    /// Everything in the batch was taken back, except what is named.
    Undone {
        /// Which batch.
        batch: u64,
        /// What was left.
        left: Vec<Remainder>,
    },
    /// Everything was taken back as far as it could be.
    Restored,
}

/// What a journal is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of this format.
    pub version: u64,
    /// The version of the program.
    pub tool: String,
    /// When it was begun, by RFC 3339.
    pub started: String,
    /// The path of the plan, absolute.
    #[serde(rename = "plan_base64")]
    pub plan: Base64,
    /// The length of the plan in bytes.
    pub plan_bytes: u64,
    /// The CRC-32 of the plan, in hexadecimal.
    pub plan_check: String,
    /// The roots of the plan.
    pub roots: Vec<Root>,
    /// How many renames the plan has.
    pub renames: u64,
    /// How many links are to follow.
    pub retargets: u64,
    /// Whether times of directories are kept.
    pub keep_times: bool,
    /// Whether old names are kept in an attribute.
    pub keep_original: bool,
    /// Whether file systems that are mounted below the roots belong to them.
    pub cross_file_systems: bool,
}

/// A root of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// Its path.
    #[serde(rename = "path_base64")]
    pub path: Base64,
    /// Its inode number.
    pub inode: u64,
}

/// A directory of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// Its path as the plan has it.
    #[serde(rename = "path_base64")]
    pub path: Base64,
    /// Its inode number.
    pub inode: u64,
    /// When it was read last, before the batch.
    pub atime: Moment,
    /// When it was changed last, before the batch.
    pub mtime: Moment,
}

/// Renames that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// Which directory of the batch, from 0.
    pub directory: usize,
    /// The temporary name, where one is needed.
    #[serde(rename = "via_hex", default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Hex>,
    /// The entries: one, or a cycle.
    pub members: Vec<Member>,
}

/// An entry that gets another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The line of the plan.
    pub id: u64,
    /// The name it has.
    #[serde(rename = "old_hex")]
    pub old: Hex,
    /// The name it gets.
    #[serde(rename = "new_hex")]
    pub new: Hex,
    /// Its inode number.
    pub inode: u64,
    /// Its type.
    pub kind: Word,
    /// When it was changed last, before.
    pub ctime: Moment,
    /// When it was made, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<Moment>,
    /// Whether its old name is kept with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marked: bool,
}

/// A link that gets another target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retarget {
    /// Which directory of the batch, from 0.
    pub directory: usize,
    /// Its name at that time.
    #[serde(rename = "name_hex")]
    pub name: Hex,
    /// The name that is used for a moment.
    #[serde(rename = "via_hex")]
    pub via: Hex,
    /// The target it has.
    #[serde(rename = "old_target_base64")]
    pub old_target: Base64,
    /// The target it gets.
    #[serde(rename = "new_target_base64")]
    pub new_target: Base64,
    /// Its inode number, before.
    pub inode: u64,
    /// When it was read last.
    pub atime: Moment,
    /// When it was made or changed.
    pub mtime: Moment,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// An entry of a batch that was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remainder {
    /// Which `Rename` or `Retarget` record of the batch, from 0.
    pub entry: usize,
    /// Why, in a sentence.
    pub reason: String,
    /// Whether it was to be tried again in another way, with a temporary name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// A line of the plan that was not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Left {
    /// The path of the directory.
    #[serde(rename = "directory_base64")]
    pub directory: Base64,
    /// The name that stays, or the name of the link.
    #[serde(rename = "old_hex")]
    pub old: Hex,
    /// The name that it should have got; of a link its target.
    #[serde(rename = "new_hex")]
    pub new: Hex,
    /// Why, in a sentence.
    pub reason: String,
}

/// Bytes, written in base64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "&str", into = "String")]
pub struct Base64(pub Vec<u8>);

/// Bytes, written in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "&str", into = "String")]
pub struct Hex(pub Vec<u8>);

/// A time, written as in a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "&str", into = "String")]
pub struct Moment(pub Time);

/// A type of an entry, written as in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "&str", into = "String")]
pub struct Word(pub Kind);

impl TryFrom<&str> for Base64 {
    type Error = data_encoding::DecodeError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        BASE64.decode(text.as_bytes()).map(Self)
    }
}

impl From<Base64> for String {
    fn from(bytes: Base64) -> Self {
        BASE64.encode(&bytes.0)
    }
}

impl TryFrom<&str> for Hex {
    type Error = data_encoding::DecodeError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map(Self)
    }
}

impl From<Hex> for String {
    fn from(bytes: Hex) -> Self {
        HEXLOWER.encode(&bytes.0)
    }
}

impl TryFrom<&str> for Moment {
    type Error = &'static str;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        let Ctime { seconds, nanoseconds } = text.parse().map_err(|_| "no time as SECONDS.NNNNNNNNN")?;
        Ok(Self(Time { seconds, nanoseconds }))
    }
}

impl From<Moment> for String {
    fn from(Moment(Time { seconds, nanoseconds }): Moment) -> Self {
        Ctime { seconds, nanoseconds }.to_string()
    }
}

impl TryFrom<&str> for Word {
    type Error = &'static str;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text).map(Self).ok_or("no type of an entry")
    }
}

impl From<Word> for String {
    fn from(Word(kind): Word) -> Self {
        kind.as_str().to_owned()
    }
}

/// What stands in front of the check.
const CHECK: &[u8] = b",\"check\":\"";

/// What a line ends with, behind what is checked: the field, eight digits, a quote and a brace.
const TAIL: usize = CHECK.len() + 10;

/// The check of a line with this in front of it, behind a line with the check `before`.
fn check(before: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&before.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

impl Record {
    /// Appends the line to `to`, behind one with the check `before`; returns its own.
    pub fn write(&self, before: u32, to: &mut Vec<u8>) -> u32 {
        let begin = to.len();
        serde_json::to_writer(&mut *to, self).expect("records have no maps and memory takes everything");
        // The brace gives way to the check.
        to.pop();
        let check = check(before, &to[begin..]);
        to.extend_from_slice(CHECK);
        to.extend_from_slice(format!("{check:08x}\"}}\n").as_bytes());
        check
    }

    /// Reads a line without its line feed, behind one with the check `before`; `None` if it is not what was written.
    pub fn read(line: &[u8], before: u32) -> Option<(Self, u32)> {
        let (body, told) = line.split_at_checked(line.len().checked_sub(TAIL)?)?;
        let told = stated(line).filter(|_| told.starts_with(CHECK))?;
        if check(before, body) != told {
            return None;
        }
        let object = [body, b"}"].concat();
        serde_json::from_slice(&object).ok().map(|record| (record, told))
    }
}

/// The check that a line states, right or wrong.
pub fn stated(line: &[u8]) -> Option<u32> {
    let digits = line.strip_suffix(b"\"}")?;
    let digits = std::str::from_utf8(digits.get(digits.len().checked_sub(8)?..)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left() -> Record {
        let directory = Base64(b"/a\xFF".to_vec());
        let (old, new) = (Hex(b"\xE9\n".to_vec()), Hex(b"x".to_vec()));
        Record::Left(Left { directory, old, new, reason: "because \"so\"".into() })
    }

    #[test]
    fn a_line_is_read_as_it_was_written_and_only_at_its_place() {
        let mut line = Vec::new();
        let check = left().write(7, &mut line);
        let line = line.strip_suffix(b"\n").unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok(), "a line is JSON");
        assert_eq!(Record::read(line, 7), Some((left(), check)));
        assert_eq!(Record::read(line, 8), None, "behind another line");
        assert_eq!(stated(line), Some(check));
    }

    #[test]
    fn a_line_that_is_torn_or_in_which_a_bit_is_flipped_is_none() {
        let mut line = Vec::new();
        left().write(7, &mut line);
        let line = line.strip_suffix(b"\n").unwrap();
        for len in 0..line.len() {
            assert_eq!(Record::read(&line[..len], 7), None, "{len}");
        }
        for bit in 0..line.len() * 8 {
            let mut flipped = line.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A digit of the check in upper case says the same.
            let is_same = flipped.eq_ignore_ascii_case(line) && bit / 8 >= line.len() - 10;
            assert_eq!(Record::read(&flipped, 7).is_some(), is_same, "bit {bit}");
        }
    }
}
