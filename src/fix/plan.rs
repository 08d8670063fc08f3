//! A plan: what is to be renamed, why, and what follows from that. Pure: no file, no clock, no log.
//!
//! A plan is JSON Lines, written for programs and for people with an editor: `docs/FIX.md` describes every field. It tells
//! names by their exact bytes, and entries by inode number and ctime, so that whoever applies it can see that nothing
//! has changed in between. An editor may delete lines, change a `new`, and put lines in another order.
//!
//! Every byte of a plan may be an attacker's. [`Parser`] lets in nothing that leads out of the roots.

pub mod check;
pub mod order;
pub mod parse;
pub mod write;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use order::{Step, Turn};
pub use parse::{Mistake, Parser};

use crate::policy::Confidence;
use crate::policy::rule::RuleId;

/// The version of the format that is written and read.
pub const VERSION: u64 = 1;

/// A line longer than this, in bytes, is refused unread: it holds no path that could be.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The same for the first line, which names all roots.
pub const MAX_HEADER_BYTES: usize = 8 << 20;

/// How many bytes a name may have. Linux takes 255 on its own file systems, some others take more.
pub const MAX_NAME_BYTES: usize = 4095;

/// A whole plan, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The first line.
    pub header: Header,
    /// The renames.
    pub renames: Vec<Rename>,
    /// The symbolic links that have to follow.
    pub retargets: Vec<Retarget>,
    /// What was left out.
    pub skipped: Vec<Skipped>,
}

/// A line behind the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A new name for an entry.
    Rename(Rename),
    /// A new target for a symbolic link.
    Retarget(Retarget),
    /// An entry for which there is something to do and no way to do it.
    Skipped(Skipped),
}

/// What a plan was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The version of the program.
    pub tool: String,
    /// When it was made, as RFC 3339 writes it.
    pub created: String,
    /// What was looked at. Nothing outside is touched.
    pub roots: Vec<Root>,
    /// The names of the profiles.
    pub profiles: Vec<String>,
    /// The policy as a configuration in TOML, which [`Config::parse`](crate::policy::config::Config::parse) reads; `None` if
    /// it cannot be written as one.
    pub policy: Option<String>,
    /// In what names that are not UTF-8 were read: `auto`, or the name of an encoding.
    pub encoding: String,
    /// The normalization form asked for.
    pub normalize: Option<String>,
    /// The mapping of characters asked for.
    pub map: Option<String>,
}

/// What was looked at: a directory with all that is below it, and its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// An absolute path without `.` and `..`.
    pub path: Vec<u8>,
    /// The inode number of the directory that it is or leads to, or of whatever else it is.
    pub inode: u64,
}

/// A directory in which something is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directory {
    /// Its absolute path while nothing above it has been renamed.
    pub path: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
    /// Its kernel file handle, where the file system has them.
    pub handle: Option<Handle>,
}

/// A kernel file handle, as name_to_handle_at(2) tells it. Written as `TYPE:BASE64`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Its `handle_type`.
    pub kind: i32,
    /// Its `f_handle`.
    pub bytes: Vec<u8>,
}

/// Which entry was seen: another one under the same name differs in some of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its inode number.
    pub inode: u64,
    /// When its inode was changed last.
    pub ctime: Ctime,
    /// What it is.
    pub kind: Kind,
}

/// A time as stat(2) tells it. Written as `SECONDS.NNNNNNNNN`, the seconds with their sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ctime {
    /// Whole seconds since the epoch.
    pub seconds: i64,
    /// Nanoseconds on top of them, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A block device.
    Block,
    /// A character device.
    Character,
}

/// A new name for an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Its number in the plan, from 1.
    pub id: u64,
    /// The directory that holds it.
    pub directory: Arc<Directory>,
    /// Its name.
    pub old: Vec<u8>,
    /// The name that it is to have.
    pub new: String,
    /// Which entry is meant.
    pub identity: Identity,
    /// The rules that the old name breaks.
    pub reasons: Vec<RuleId>,
    /// How sure it is that the new name is what was meant.
    pub confidence: Confidence,
    /// How the new name comes from the old one: an encoding, `mojibake`, `normalize`, ...
    pub reading: String,
    /// What speaks for the reading.
    pub evidence: Option<String>,
    /// Other names that the bytes could stand for.
    pub alternatives: Vec<Alternative>,
}

/// A name that was considered and not proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The name.
    pub new: String,
    /// How it comes from the old one.
    pub reading: String,
}

/// A symbolic link whose target leads to or through something that is renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retarget {
    /// The directory that holds the link.
    pub directory: Arc<Directory>,
    /// The link's name, before it is renamed itself.
    pub name: Vec<u8>,
    /// Which link is meant, before it is renamed itself.
    pub identity: Identity,
    /// Its target.
    pub old_target: Vec<u8>,
    /// Its target when all of `after` have happened as planned. Told to the reader: [`Retarget::target`] says what a
    /// link has to lead to.
    pub new_target: Vec<u8>,
    /// The renames that change the target.
    pub after: Vec<Part>,
}

/// A component of a link's target that is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The id of the rename.
    pub rename: u64,
    /// Which component of the target, from 0. `a`, `b` are those of `/a//b/`.
    pub component: usize,
}

/// An entry for which there is something to do and no way to do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The directory that holds it.
    pub directory: Arc<Directory>,
    /// Its name.
    pub name: Vec<u8>,
    /// The rules that it breaks.
    pub reasons: Vec<RuleId>,
    /// Why nothing is planned, in a sentence.
    pub why: String,
}

impl Retarget {
    /// The target with the components replaced that have got a new name; `renamed` tells of a rename the name that its entry
    /// has now, `None` if it did not happen.
    ///
    /// ```
    /// # use namegate::fix::plan::replaced;
    /// assert_eq!(replaced(b"../a//b/", &[(2, b"c")]), b"../a//c/");
    /// ```
    pub fn target<'n>(&self, renamed: impl Fn(u64) -> Option<&'n [u8]>) -> Vec<u8> {
        let parts = self.after.iter().filter_map(|part| Some((part.component, renamed(part.rename)?)));
        replaced(&self.old_target, &parts.collect::<Vec<_>>())
    }
}

/// `path` with some components replaced, each told by its place among the components. Everything else stays byte for byte.
pub fn replaced(path: &[u8], parts: &[(usize, &[u8])]) -> Vec<u8> {
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

/// The components of a path: what stands between slashes, as far as that is something.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|piece| !piece.is_empty())
}

/// The order of paths in which everything comes before what holds it, and neighbours by their bytes.
///
/// ```
/// use namegate::fix::plan::post_order;
/// let mut paths = ["/a", "/a/b", "/a-", "/a/b/c", "/a/a"];
/// paths.sort_by(|a, b| post_order(a.as_bytes(), b.as_bytes()));
/// assert_eq!(paths, ["/a/a", "/a/b/c", "/a/b", "/a", "/a-"]);
/// ```
pub fn post_order(a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (components(a), components(b));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(a), Some(b)) if a != b => return a.cmp(b),
            _ => {}
        }
    }
}

/// The path of `name` in the directory `dir`.
pub fn path_in(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, separator, name].concat()
}

impl Header {
    /// Whether a plan with these roots may touch `name` in the directory `dir`: `dir` is a root or below one, or `name` is
    /// a root itself.
    pub fn covers(&self, dir: &[u8], name: &[u8]) -> bool {
        self.roots.iter().any(|root| is_below(dir, &root.path) || is_itself(dir, name, &root.path))
    }
}

fn is_below(path: &[u8], root: &[u8]) -> bool {
    let mut path = components(path);
    components(root).all(|piece| path.next() == Some(piece))
}

fn is_itself(dir: &[u8], name: &[u8], root: &[u8]) -> bool {
    components(dir).chain([name]).eq(components(root))
}

/// Why `path` is not the absolute path of a directory as a plan has it; `None` if it is.
pub fn path_objection(path: &[u8]) -> Option<&'static str> {
    if path.contains(&0) {
        return Some("holds a NUL");
    }
    let Some(below) = path.strip_prefix(b"/") else { return Some("is not absolute") };
    let mut pieces = below.split(|&b| b == b'/');
    if !below.is_empty() && pieces.clone().any(<[u8]>::is_empty) {
        return Some("holds an empty component");
    }
    pieces.any(|piece| matches!(piece, b"." | b"..")).then_some("holds `.` or `..`")
}

/// Why no entry can have the name `name`; `None` if one can.
pub fn name_objection(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("is empty"),
        b"." | b".." => Some("names a directory itself or its parent"),
        _ if name.contains(&0) => Some("holds a NUL"),
        _ if name.contains(&b'/') => Some("holds a `/`"),
        _ if name.len() > MAX_NAME_BYTES => Some("is longer than any file system takes"),
        _ => None,
    }
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::File, Self::Directory, Self::Symlink, Self::Fifo, Self::Socket, Self::Block, Self::Character];

    /// The word for it in a plan.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Block => "block",
            Self::Character => "character",
        }
    }

    /// The type that `st_mode` of stat(2) tells; `None` for one that Linux does not have.
    pub const fn of_mode(mode: u32) -> Option<Self> {
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

impl fmt::Display for Ctime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds, self.nanoseconds)
    }
}

/// Text that stands for no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTime;

impl FromStr for Ctime {
    type Err = NoTime;

    /// # Errors
    /// [`NoTime`] for anything but what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, NoTime> {
        let (seconds, nanoseconds) = text.split_once('.').ok_or(NoTime)?;
        let is_number = nanoseconds.len() == 9 && nanoseconds.bytes().all(|b| b.is_ascii_digit());
        let made = Self {
            seconds: seconds.parse().map_err(|_| NoTime)?,
            nanoseconds: nanoseconds.parse().ok().filter(|_| is_number).ok_or(NoTime)?,
        };
        // `+1`, `01` and `-0` are other spellings, which nothing writes.
        if made.seconds.to_string() == seconds { Ok(made) } else { Err(NoTime) }
    }
}

#[cfg(test)]
mod tests;
