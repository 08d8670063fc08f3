//! A plan: what to rename, why, and what follows from it. This module opens no file, reads no clock and writes no log.
//!
//! A plan is JSON Lines for programs and for people with an editor, or a [table](super::plan_table); `docs/FIX.md` describes every field. It contains the
//! exact bytes of names, and the inode number and ctime of each entry, so that `fix apply` can detect entries that have
//! changed. An editor may delete lines, change a `new`, and reorder lines.
//!
//! Every byte of a plan may come from an attacker: [`PlanParser`] accepts nothing that leads out of the roots.

pub mod check;
pub mod id_set;
mod inode_time;
mod line;
pub mod order;
pub mod parse;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::BASE64;
use namegate_core::policy::Confidence;
use namegate_core::policy::rule::{RuleId, Severity};
pub use namegate_findings::records::components;
use serde::{Deserialize, Serialize};

use self::line::{LineType, RootLine};
pub use inode_time::InodeTime;
pub use parse::{PlanError, PlanLine, PlanParser};

pub const VERSION: u64 = 1;

/// The longest line, in bytes: no longer line can hold a path.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;

/// The longest first line, in bytes: it lists all roots.
pub(crate) const MAX_HEADER_BYTES: usize = 8 << 20;

/// The longest name, in bytes. Linux file systems allow 255, some others allow more.
pub(crate) const MAX_NAME_BYTES: usize = 4095;

/// The first line: how the plan was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanHeader {
    /// Always `plan`.
    pub r#type: LineType,
    pub version: u64,
    /// The version of the program.
    pub namegate: String,
    /// When the plan was made, in RFC 3339.
    pub created: String,
    /// The trees that were read. Nothing outside them is touched.
    pub roots: Vec<PlanRoot>,
    pub profiles: Vec<String>,
    /// The policy as a configuration in TOML, for [`Config::parse`](namegate_core::policy::config::Config::parse); `None` if it
    /// cannot be written as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The encoding of names that are not UTF-8: `auto`, or the name of an encoding.
    pub encoding: String,
    /// The requested pair of encodings, in words: `GBK read as IBM866`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reread: Option<String>,
    /// The requested normalization form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalize: Option<String>,
    /// The requested character mapping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// Names are written in ASCII.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transliterate: bool,
    /// The requested replacement for characters that are not allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<char>,
    /// The lowest severity that gets a new name, if it was requested; errors and damage in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_severity: Option<Severity>,
    /// Names that are too long get shorter ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shorten: bool,
    /// The kinds of encoded text that are decoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decode: Vec<String>,
    /// The number of names that were left out because the targets only advise against them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The number of renames in Git work trees.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub git_renames: u64,
    /// The archive, if the plan renames its members: it is the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<PlanArchive>,
}

/// What identifies an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanArchive {
    /// Its length in bytes.
    pub size: u64,
    /// The CRC-32 of a tar, or of what follows the members of a zip, in hexadecimal.
    pub crc32: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A root: a directory with everything below it, and its own name. The same in a plan and in a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RootLine", into = "RootLine")]
pub struct PlanRoot {
    /// An absolute path without `.` and `..`.
    pub path: Vec<u8>,
    /// The inode number of the directory, or of the entry that is not a directory.
    pub inode: u64,
}

/// A directory with something to change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanDirectory {
    /// The absolute path before any rename above it.
    pub path: Vec<u8>,
    pub inode: u64,
    /// The kernel file handle, if the file system has them.
    pub handle: Option<FileHandle>,
}

/// A kernel file handle, as name_to_handle_at(2) returns it. Written as `TYPE:BASE64`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileHandle {
    /// Its `handle_type`.
    pub kind: i32,
    /// Its `f_handle`.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeenEntry {
    pub inode: u64,
    pub ctime: InodeTime,
    pub kind: FileKind,
    /// The birth time and the content, if the file system has birth times.
    pub birth: Option<SeenBirth>,
}

/// What identifies an entry whose change time is another one: the plan was undone, or the owner changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeenBirth {
    pub born: InodeTime,
    /// The time of the last change of the content.
    pub mtime: InodeTime,
    /// The length of the content in bytes.
    pub size: u64,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    File,
    Directory,
    /// A symbolic link.
    Symlink,
    Fifo,
    Socket,
    Block,
    Character,
}

/// A new name for an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The number in the plan, from 1.
    pub id: u64,
    /// The directory that holds the entry.
    pub directory: Arc<PlanDirectory>,
    pub old: Vec<u8>,
    pub new: String,
    pub entry: SeenEntry,
    /// The rules that the old name breaks.
    pub reasons: Vec<RuleId>,
    /// How certain the new name is.
    pub confidence: Confidence,
    /// How the new name follows from the old one: an encoding, `mojibake`, `normalize`, ...
    pub reading: String,
    /// The evidence for the reading.
    pub evidence: Option<String>,
    /// Other names that the bytes could stand for.
    pub alternatives: Vec<Alternative>,
}

/// A name that was considered and not suggested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    pub new: String,
    /// How it follows from the old name.
    pub reading: String,
}

/// A symbolic link whose target leads to or through a renamed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retarget {
    /// The directory that holds the link.
    pub directory: Arc<PlanDirectory>,
    /// The name of the link, before the link itself is renamed.
    pub name: Vec<u8>,
    /// The link, before it is renamed itself.
    pub entry: SeenEntry,
    pub old_target: Vec<u8>,
    /// The target after all renames in `after`, for the reader: [`Retarget::target`] computes the real one.
    pub new_target: Vec<u8>,
    /// The renames that change the target.
    pub after: Vec<TargetPart>,
}

/// A renamed component of a link target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetPart {
    #[serde(rename = "id")]
    pub rename: u64,
    /// The index of the component in the target. `/a//b/` has the components `a` and `b`.
    pub component: usize,
}

/// An entry that breaks a rule and gets no new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The directory that holds the entry.
    pub directory: Arc<PlanDirectory>,
    pub name: Vec<u8>,
    /// The rules that it breaks.
    pub reasons: Vec<RuleId>,
    /// Why there is no new name, in a sentence.
    pub why: String,
}

impl Default for PlanHeader {
    fn default() -> Self {
        let text = String::new;
        Self {
            r#type: LineType::Plan,
            version: VERSION,
            namegate: text(),
            created: text(),
            roots: Vec::new(),
            profiles: Vec::new(),
            policy: None,
            encoding: text(),
            reread: None,
            normalize: None,
            map: None,
            transliterate: false,
            replacement: None,
            min_severity: None,
            shorten: false,
            decode: Vec::new(),
            left_out: 0,
            git_renames: 0,
            archive: None,
        }
    }
}

impl Retarget {
    /// The target with the new names of its renamed components. `renamed` returns the current name of the entry of a
    /// rename, `None` if the rename did not happen.
    ///
    /// ```
    /// # use namegate_fix::plan::replace_components;
    /// assert_eq!(replace_components(b"../a//b/", &[(2, b"c")]), b"../a//c/");
    /// ```
    pub fn target<'n>(&self, renamed: impl Fn(u64) -> Option<&'n [u8]>) -> Vec<u8> {
        let parts = self.after.iter().filter_map(|part| Some((part.component, renamed(part.rename)?)));
        replace_components(&self.old_target, &parts.collect::<Vec<_>>())
    }
}

/// `path` with some components replaced, each given by its index. Everything else stays byte for byte.
pub fn replace_components(path: &[u8], parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut made = Vec::with_capacity(path.len());
    let mut component = 0;
    for (at, piece) in path.split(|&b| b == b'/').enumerate() {
        if at > 0 {
            made.push(b'/');
        }
        if piece.is_empty() {
            continue;
        }
        let new = parts.iter().find(|(wanted, _)| *wanted == component).map(|(_, new)| *new);
        made.extend_from_slice(new.unwrap_or(piece));
        component += 1;
    }
    made
}

/// The path of `name` in the directory `dir`.
pub fn path_in(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, separator, name].concat()
}

impl PlanHeader {
    /// Reports whether the plan may touch `name` in the directory `dir`: `dir` is a root or below one, or `name` is a root.
    pub fn covers(&self, dir: &[u8], name: &[u8]) -> bool {
        self.covers_directory(dir) || self.roots.iter().any(|root| is_root(dir, name, &root.path))
    }

    /// Reports whether `dir` is a root or below one.
    pub(crate) fn covers_directory(&self, dir: &[u8]) -> bool {
        self.roots.iter().any(|root| is_within(dir, &root.path))
    }
}

/// Reports whether `path` is `above` or lies below it.
pub(crate) fn is_within(path: &[u8], above: &[u8]) -> bool {
    let mut path = components(path);
    components(above).all(|piece| path.next() == Some(piece))
}

fn is_root(dir: &[u8], name: &[u8], root: &[u8]) -> bool {
    components(dir).chain([name]).eq(components(root))
}

/// Why `path` is not a valid directory path of a plan; `None` if it is valid.
pub fn path_objection(path: &[u8]) -> Option<&'static str> {
    if path.contains(&0) {
        return Some("contains a NUL");
    }
    let Some(below) = path.strip_prefix(b"/") else { return Some("is not absolute") };
    let mut pieces = below.split(|&b| b == b'/');
    if !below.is_empty() && pieces.clone().any(<[u8]>::is_empty) {
        return Some("contains an empty component");
    }
    pieces.any(|piece| matches!(piece, b"." | b"..")).then_some("contains `.` or `..`")
}

/// Why no entry can have the name `name`; `None` if an entry can.
pub fn name_objection(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("is empty"),
        b"." | b".." => Some("is the name of the directory itself or of its parent"),
        _ if name.contains(&0) => Some("contains a NUL"),
        _ if name.contains(&b'/') => Some("contains a `/`"),
        _ if name.len() > MAX_NAME_BYTES => Some("is longer than any file system allows"),
        _ => None,
    }
}

/// Why an entry with the name `old` cannot get the new name `new`; `None` if it can. It may be a path below the directory, for a file in
/// whose name backslashes separate names.
pub(crate) fn new_name_objection(old: &[u8], kind: FileKind, new: &[u8]) -> Option<&'static str> {
    if !new.contains(&b'/') || !old.contains(&b'\\') {
        return name_objection(new);
    }
    if kind != FileKind::File {
        return Some("is a path, and only files move into other directories");
    }
    new.split(|&byte| byte == b'/').find_map(name_objection)
}

impl FileKind {
    /// The type in `st_mode` of stat(2); `None` for a type that Linux does not have.
    pub const fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o100_000 => Self::File,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            0o060_000 => Self::Block,
            0o020_000 => Self::Character,
            _ => return None,
        })
    }
}

impl fmt::Display for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, BASE64.encode(&self.bytes))
    }
}

impl FromStr for FileHandle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// `MAX_HANDLE_SZ` of linux/exportfs.h.
        const MAX_BYTES: usize = 128;
        let parse = || {
            let (kind, bytes) = text.split_once(':')?;
            let bytes = BASE64.decode(bytes.as_bytes()).ok().filter(|bytes| bytes.len() <= MAX_BYTES)?;
            Some(Self { kind: kind.parse().ok()?, bytes })
        };
        parse().ok_or_else(|| format!("`{text}` is not a kernel file handle as TYPE:BASE64"))
    }
}

impl TryFrom<String> for FileHandle {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<FileHandle> for String {
    fn from(value: FileHandle) -> Self {
        value.to_string()
    }
}

#[cfg(test)]
pub(super) mod tests;
