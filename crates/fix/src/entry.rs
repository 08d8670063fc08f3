//! The identity of an entry: the inode behind a name, distinguished from an inode that reuses its number later.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use namegate_core::name::display::display;
use namegate_sys::stat::{self, Stat};
use nix::errno::Errno;

use super::plan::{FileKind, InodeTime, SeenBirth, SeenEntry};

/// An inode, as exactly as its file system can identify it.
///
/// The birth time, where there is one, distinguishes a file from a later file with the same number. The change time is no part
/// of the identity: every rename sets it, and so does everything that may rightly happen between a rename and its undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InodeIdentity {
    pub ino: u64,
    pub kind: FileKind,
    /// The birth time, if it is known.
    pub born: Option<InodeTime>,
}

impl InodeIdentity {
    /// The identity of an entry in a plan.
    pub(crate) fn from_seen(seen: &SeenEntry) -> Self {
        Self { ino: seen.inode, kind: seen.kind, born: seen.birth.map(|birth| birth.born) }
    }

    /// Reads the identity from a result of statx(2).
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        Self { ino: stat.ino, kind: kind(stat), born: stat.btime.map(InodeTime::from) }
    }

    /// Reports whether `stat` can be of this inode. A birth time that one side does not know is ignored.
    pub fn matches(&self, stat: &Stat) -> bool {
        let is_same_birth = match (self.born, stat.btime) {
            (Some(born), Some(btime)) => born == btime.into(),
            _ => true,
        };
        self.ino == stat.ino && self.kind == kind(stat) && is_same_birth
    }
}

/// The type in a result of statx(2).
pub fn kind(stat: &Stat) -> FileKind {
    FileKind::from_mode(stat.kind).unwrap_or(FileKind::Character)
}

/// What identifies an entry whose change time is another one; `None` if its file system has no birth times.
pub(crate) fn birth(stat: &Stat) -> Option<SeenBirth> {
    let born = stat.btime?.into();
    Some(SeenBirth { born, mtime: stat.mtime.into(), size: stat.size })
}

/// Looks up `name` in `dir`; `None` if there is no such entry.
pub fn look_up(dir: impl AsFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match stat::at(dir, OsStr::from_bytes(name)) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The beginning of temporary names.
const TEMPORARY: &str = ".namegate-";

/// A random temporary name.
pub(crate) fn random_name() -> Vec<u8> {
    format!("{TEMPORARY}{:08x}", RandomState::new().hash_one(0) as u32).into_bytes()
}

/// Reports whether `name` can be from `random_name`.
pub fn is_temporary(name: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(TEMPORARY.as_bytes())
        .is_some_and(|digits| digits.len() == 8 && digits.iter().all(is_digit))
}

/// A temporary name that no entry of `dir` has.
pub(crate) fn free_name(dir: impl AsFd) -> Result<Vec<u8>, Errno> {
    loop {
        let name = random_name();
        if look_up(&dir, &name)?.is_none() {
            return Ok(name);
        }
    }
}

/// Why an entry stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryFailure {
    /// The directory cannot be opened.
    Directory(Errno),
    /// The directory is not the one of the plan.
    OtherDirectory,
    /// The name does not exist.
    Gone,
    /// Another entry has the name.
    Replaced,
    /// The entry was changed after the plan was made.
    Changed,
    /// Another entry has the new name.
    Taken,
    /// Another entry of the same cycle could not be renamed.
    Group,
    /// A rename that the link depends on did not happen.
    Dependence,
    /// Another entry took the place of this one between lookup and rename; that entry has the new name and keeps it.
    Misplaced,
    /// Another entry took the place of this one at the same moment, and has this name now.
    Aside(Vec<u8>),
    /// The directory has no place where no other process can interfere.
    Exposed,
    /// The file system cannot rename without the danger of overwriting.
    Unsafe,
    /// The entry has a temporary name, because other entries took both its old and its new name.
    Stranded(Vec<u8>),
    /// The system call failed.
    Refused(Errno),
    /// The new name is invalid or taken, by the policy of the plan.
    Conflict(String),
}

impl fmt::Display for EntryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(Errno::EXDEV) => {
                f.write_str("its directory is on another file system (use --cross-file-systems to include it)")
            }
            Self::Directory(error) => write!(f, "cannot open its directory: {}", error.desc()),
            Self::OtherDirectory => f.write_str("its directory is not the one of the plan"),
            Self::Gone => f.write_str("the name no longer exists"),
            Self::Replaced => f.write_str("another entry has the name now"),
            Self::Changed => f.write_str("the entry was changed after the plan was made"),
            Self::Taken => f.write_str("the new name is taken"),
            Self::Group => f.write_str("an entry that it trades names with could not be renamed"),
            Self::Dependence => f.write_str("the entry that its target leads to was not renamed"),
            Self::Misplaced => f.write_str(
                "another process replaced the entry at the same moment; the other entry has the new name now",
            ),
            Self::Aside(name) => write!(
                f,
                "another process replaced the entry at the same moment; the other entry is at {} now",
                display(name)
            ),
            Self::Exposed => f.write_str(
                "cannot make a private directory beside it: another process replaced it, or the file system gave it to \
                 another user",
            ),
            Self::Unsafe => {
                f.write_str("the file system rejects the name, or cannot rename without the danger of overwriting")
            }
            Self::Stranded(name) => write!(
                f,
                "it has the temporary name {}: other entries took both its names at the same moment",
                display(name)
            ),
            Self::Conflict(why) => f.write_str(why),
            Self::Refused(Errno::EILSEQ) => f.write_str("the file system rejects the name"),
            Self::Refused(error) => write!(f, "{}", error.desc()),
        }
    }
}

impl From<Errno> for EntryFailure {
    fn from(error: Errno) -> Self {
        match error {
            Errno::EEXIST => Self::Taken,
            Errno::ENOENT => Self::Gone,
            Errno::EINVAL | Errno::ENOSYS => Self::Unsafe,
            error => Self::Refused(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use namegate_sys::stat::Time;

    use super::*;

    #[test]
    fn an_inode_differs_from_one_that_reuses_its_number() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        let parent = std::fs::File::open(dir.path()).unwrap();
        let stat = look_up(&parent, b"file").unwrap().unwrap();
        let identity = InodeIdentity::from_stat(&stat);
        assert!(identity.matches(&stat));
        let later = stat.btime.map(|born| Time { seconds: born.seconds + 1, ..born });
        assert_eq!(identity.matches(&Stat { btime: later, ..stat }), stat.btime.is_none());
        assert!(identity.matches(&Stat { btime: None, ..stat }), "an unknown birth time is ignored");
        assert!(!identity.matches(&Stat { ino: stat.ino + 1, ..stat }));
        assert!(!identity.matches(&Stat { kind: libc::S_IFDIR, ..stat }));
        assert_eq!(look_up(&parent, b"none"), Ok(None));
    }
}
