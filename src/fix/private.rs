//! A directory of our own in a directory where others may rename: what is made in it cannot be swapped for something else
//! before it has got everything that it is to have.
//!
//! Whoever may write the directory above can move ours away, remove it while it is empty, or put another one under its name,
//! at any moment. None of that leads anybody into it: it is used by a descriptor alone, and only after that descriptor was seen
//! to hold a directory of this user that nobody else may search. Another directory of that kind, which somebody may have put
//! there, is as closed as ours; nothing in it is touched, because whatever is made in it must not be there yet, and has a random
//! name.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::entry::Reason;
use crate::sys::open;
use crate::sys::stat;

/// A directory that only this user can enter.
#[derive(Debug)]
pub struct PrivateDir(OwnedFd);

impl PrivateDir {
    /// Makes the directory `name` in `dir`.
    ///
    /// # Errors
    /// [`Reason::Exposed`] where something has that name already, or where what has it afterwards is not ours alone.
    pub fn make(dir: impl AsFd + Copy, name: &[u8]) -> Result<Self, Reason> {
        match mkdirat(dir, OsStr::from_bytes(name), Mode::S_IRWXU) {
            Ok(()) => {}
            // The name was free a moment ago.
            Err(Errno::EEXIST) => return Err(Reason::Exposed),
            Err(error) => return Err(error.into()),
        }
        Self::find(dir, name)?.ok_or(Reason::Exposed)
    }

    /// Opens the directory `name` in `dir`, which an earlier run may have left; `None` where nothing has that name.
    ///
    /// # Errors
    /// [`Reason::Exposed`] where it is not a directory of this user alone.
    pub fn find(dir: impl AsFd, name: &[u8]) -> Result<Option<Self>, Reason> {
        // No link is followed, and nothing is entered that is mounted there.
        let fd = match open::directory(dir, OsStr::from_bytes(name), false) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR | Errno::EXDEV) => return Err(Reason::Exposed),
            Err(error) => return Err(error.into()),
        };
        // Its owner alone, or root, could open it to others. Whoever an ACL names is bounded by the bits of the group.
        let stat = stat::at(&fd, OsStr::new(""))?;
        match stat.uid == geteuid().as_raw() && stat.mode & 0o077 == 0 {
            true => Ok(Some(Self(fd))),
            false => Err(Reason::Exposed),
        }
    }

    /// Removes it, which has the name `name` in `dir`. Where somebody has moved it away meanwhile, it stays where it is: it is
    /// empty, and of no use to anybody. No call removes an inode, so another empty directory may be hit that somebody puts there
    /// in the very moment; whoever can do that can remove it as well.
    pub fn remove(self, dir: impl AsFd, name: &[u8]) {
        let name = OsStr::from_bytes(name);
        let ours = stat::at(&self, OsStr::new(""));
        if let (Ok(ours), Ok(there)) = (ours, stat::at(&dir, name))
            && (ours.ino, ours.device) == (there.ino, there.device)
        {
            let _ = unlinkat(dir, name, UnlinkatFlags::RemoveDir);
        }
    }
}

impl AsFd for PrivateDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn only_a_directory_of_ours_that_nobody_else_enters_is_taken_for_private() {
        let dir = tempfile::tempdir().unwrap();
        let fd = fs::File::open(dir.path()).unwrap();
        let path = |name: &str| dir.path().join(name);
        assert!(PrivateDir::find(&fd, b"made").unwrap().is_none());
        let made = PrivateDir::make(&fd, b"made").unwrap();
        assert_eq!(fs::metadata(path("made")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(PrivateDir::make(&fd, b"made").unwrap_err(), Reason::Exposed);
        assert!(PrivateDir::find(&fd, b"made").unwrap().is_some());
        symlink("made", path("link")).unwrap();
        fs::write(path("file"), "").unwrap();
        for mode in [0o710, 0o701, 0o770, 0o755] {
            fs::set_permissions(path("made"), Permissions::from_mode(mode)).unwrap();
            assert_eq!(PrivateDir::find(&fd, b"made").unwrap_err(), Reason::Exposed, "{mode:o}");
        }
        fs::set_permissions(path("made"), Permissions::from_mode(0o700)).unwrap();
        for name in ["link", "file"] {
            assert_eq!(PrivateDir::find(&fd, name.as_bytes()).unwrap_err(), Reason::Exposed, "{name}");
        }
        if geteuid().is_root() {
            chown(path("made"), Some(1), None).unwrap();
            assert_eq!(PrivateDir::find(&fd, b"made").unwrap_err(), Reason::Exposed, "of another user");
        }
        made.remove(&fd, b"made");
        assert!(!path("made").exists());
    }
}
