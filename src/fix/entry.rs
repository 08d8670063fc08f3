//! Which entry is meant: the inode behind a name, told apart from one that came to its number later.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use super::plan::Kind;
use crate::sys::stat::{self, Stat, Time};

/// An inode, as far as its file system lets it be told from others.
///
/// The time of birth, where there is one, tells a file from a later one with the same number. The time of change is not part
/// of it: every rename sets that, and so does everything that may rightly happen to a file between a rename and its undoing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The number of the inode.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
    /// When it was made, where that is known.
    pub born: Option<Time>,
}

impl Identity {
    /// That of what statx(2) told of.
    pub fn of(stat: &Stat) -> Self {
        Self { ino: stat.ino, kind: kind(stat), born: stat.btime }
    }

    /// Whether `stat` can be of this inode: what one of both sides does not know tells nothing.
    pub fn is_of(&self, stat: &Stat) -> bool {
        let is_same_birth = match (self.born, stat.btime) {
            (Some(born), Some(btime)) => born == btime,
            _ => true,
        };
        self.ino == stat.ino && self.kind == kind(stat) && is_same_birth
    }
}

/// The type of what statx(2) told of.
pub fn kind(stat: &Stat) -> Kind {
    Kind::of_mode(stat.kind).unwrap_or(Kind::Character)
}

/// What stands under `name` in `dir`; `None` when nothing does.
///
/// # Errors
/// As statx(2) says, except ENOENT.
pub fn look(dir: impl AsFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match stat::at(dir, OsStr::from_bytes(name)) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name that nothing has in `dir`, for what has to wait.
///
/// # Errors
/// As statx(2) says.
pub fn free_name(dir: impl AsFd) -> Result<Vec<u8>, Errno> {
    loop {
        let name = format!(".namegate-{:08x}", RandomState::new().hash_one(0) as u32).into_bytes();
        if look(&dir, &name)?.is_none() {
            return Ok(name);
        }
    }
}

/// Why a rename or a retarget was left undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The directory cannot be opened.
    Directory(Errno),
    /// Another directory stands where that of the plan was.
    OtherDirectory,
    /// Nothing stands under the name.
    Gone,
    /// Another entry stands under the name.
    Replaced,
    /// The entry was changed after the plan was made.
    Changed,
    /// The name that it should get is taken.
    Taken,
    /// Another entry that it trades names with could not be renamed.
    Group,
    /// What it depends on was not renamed.
    Dependence,
    /// Another entry was put in its place between the look and the rename, has the new name now, and keeps it.
    Misplaced,
    /// Another entry was put in its place at the same moment, and has this name now.
    Aside(Vec<u8>),
    /// There is no place in the directory in which nobody else could interfere.
    Exposed,
    /// The file system cannot rename without the danger of overwriting.
    Unsafe,
    /// An entry was left under a temporary name, because others took both its old and its new one.
    Stranded(Vec<u8>),
    /// The call was refused.
    Refused(Errno),
    /// The new name is not admissible, or not free, for the policy of the plan.
    Objection(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(Errno::EXDEV) => f.write_str(
                "its directory lies on another file system, which is left alone unless that is asked for",
            ),
            Self::Directory(error) => write!(f, "its directory cannot be opened: {}", error.desc()),
            Self::OtherDirectory => f.write_str("another directory stands where that of the plan was"),
            Self::Gone => f.write_str("there is no entry of that name any more"),
            Self::Replaced => f.write_str("another entry has that name now"),
            Self::Changed => f.write_str("the entry was changed after the plan was made"),
            Self::Taken => f.write_str("the new name is taken"),
            Self::Group => f.write_str("another entry that it trades names with could not be renamed"),
            Self::Dependence => f.write_str("what its target leads to was not renamed"),
            Self::Misplaced => f.write_str(
                "another process put another entry in its place at the same moment; that entry has the new name now",
            ),
            Self::Aside(name) => write!(
                f,
                "another process put another entry in its place at the same moment; that entry is at {} now",
                crate::name::display::display(name)
            ),
            Self::Exposed => f.write_str(
                "no private directory can be made beside it: another process swapped it, or the file system gave it to \
                 another user",
            ),
            Self::Unsafe => f.write_str(
                "the file system refuses the name, or cannot rename without the danger of overwriting",
            ),
            Self::Stranded(name) => write!(
                f,
                "it stands under the temporary name {}, because its names were taken meanwhile",
                crate::name::display::display(name)
            ),
            Self::Objection(why) => f.write_str(why),
            Self::Refused(Errno::EILSEQ) => f.write_str("the file system refuses the name"),
            Self::Refused(error) => write!(f, "{}", error.desc()),
        }
    }
}

impl From<Errno> for Reason {
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
    use super::*;

    #[test]
    fn an_inode_is_told_from_one_that_has_its_number_later() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        let parent = std::fs::File::open(dir.path()).unwrap();
        let stat = look(&parent, b"file").unwrap().unwrap();
        let identity = Identity::of(&stat);
        assert!(identity.is_of(&stat));
        let later = stat.btime.map(|born| Time { seconds: born.seconds + 1, ..born });
        assert_eq!(identity.is_of(&Stat { btime: later, ..stat }), stat.btime.is_none());
        assert!(identity.is_of(&Stat { btime: None, ..stat }), "what is not known tells nothing");
        assert!(!identity.is_of(&Stat { ino: stat.ino + 1, ..stat }));
        assert!(!identity.is_of(&Stat { kind: libc::S_IFDIR, ..stat }));
        assert_eq!(look(&parent, b"none"), Ok(None));
    }
}
