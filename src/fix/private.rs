//! A private directory inside a directory where others may rename: no other process can replace an entry in it before the entry
//! has its owner, attributes and times.
//!
//! A process that may write the directory above can at any moment move the private directory away, remove it while it is
//! empty, or replace it. No entry gets into the replacement: the program uses the directory through a descriptor only, after
//! it has checked that it is a directory of this user that no other user may search. If another process puts such a directory
//! there, it is as safe as the original. Nothing in it is touched, because every entry in it is newly created and has a
//! random name.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::entry::EntryFailure;
use crate::sys::open;
use crate::sys::stat;

/// A directory that only this user can search.
#[derive(Debug)]
pub struct PrivateDir(OwnedFd);

impl PrivateDir {
    /// Creates the directory `name` in `dir`.
    ///
    /// # Errors
    /// [`EntryFailure::Exposed`] if the name is taken, or if another process replaced the directory.
    pub fn make(dir: impl AsFd + Copy, name: &[u8]) -> Result<Self, EntryFailure> {
        match mkdirat(dir, OsStr::from_bytes(name), Mode::S_IRWXU) {
            Ok(()) => {}
            // The name was free just before.
            Err(Errno::EEXIST) => return Err(EntryFailure::Exposed),
            Err(error) => return Err(error.into()),
        }
        Self::find(dir, name)?.ok_or(EntryFailure::Exposed)
    }

    /// Opens the directory `name` in `dir`, which an earlier run may have left; `None` if the name is free.
    ///
    /// # Errors
    /// [`EntryFailure::Exposed`] if it is not a directory of this user alone.
    pub fn find(dir: impl AsFd, name: &[u8]) -> Result<Option<Self>, EntryFailure> {
        // Follows no link and enters no mount.
        let fd = match open::directory(dir, OsStr::from_bytes(name), false) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR | Errno::EXDEV) => return Err(EntryFailure::Exposed),
            Err(error) => return Err(error.into()),
        };
        // Only its owner or root can open it to others. The group bits limit every entry of an ACL.
        let stat = stat::at(&fd, OsStr::new(""))?;
        match stat.uid == geteuid().as_raw() && stat.mode & 0o077 == 0 {
            true => Ok(Some(Self(fd))),
            false => Err(EntryFailure::Exposed),
        }
    }

    /// Removes the directory, whose name in `dir` is `name`. If another process has moved it away, it stays there, empty and
    /// of no use. No system call removes an inode, so an empty directory that another process puts there at the same moment
    /// may be removed instead; that process could remove it as well.
    fn remove(&self, dir: impl AsFd, name: &[u8]) {
        let name = OsStr::from_bytes(name);
        let ours = stat::at(self, OsStr::new(""));
        if let (Ok(ours), Ok(there)) = (ours, stat::at(&dir, name))
            && (ours.ino, ours.device) == (there.ino, there.device)
        {
            let _ = unlinkat(dir, name, UnlinkatFlags::RemoveDir);
        }
    }
}

/// The private directory in use: one serves all links of a directory in a batch.
#[derive(Debug, Default)]
pub struct CurrentPrivateDir(Option<(Vec<u8>, PrivateDir)>);

impl CurrentPrivateDir {
    /// The directory `name` in `dir`, if it is in use or an earlier run has left it.
    ///
    /// # Errors
    /// As [`PrivateDir::find`].
    pub fn find(
        &mut self,
        dir: impl AsFd + Copy,
        name: &[u8],
        changed: &mut dyn FnMut(),
    ) -> Result<Option<&PrivateDir>, EntryFailure> {
        if self.0.as_ref().is_none_or(|(current, _)| current != name) {
            self.remove(dir, changed);
            self.0 = PrivateDir::find(dir, name)?.map(|found| (name.to_vec(), found));
        }
        Ok(self.0.as_ref().map(|(_, found)| found))
    }

    /// The directory `name` in `dir`, created if [`find`](Self::find) finds none.
    ///
    /// # Errors
    /// As [`PrivateDir::make`].
    pub fn find_or_make(
        &mut self,
        dir: impl AsFd + Copy,
        name: &[u8],
        changed: &mut dyn FnMut(),
    ) -> Result<&PrivateDir, EntryFailure> {
        if self.find(dir, name, changed)?.is_none() {
            self.0 = Some((name.to_vec(), PrivateDir::make(dir, name)?));
            changed();
        }
        self.0.as_ref().map(|(_, made)| made).ok_or(EntryFailure::Exposed)
    }

    /// Removes the directory in use from `dir`, if it is empty.
    pub fn remove(&mut self, dir: impl AsFd, changed: &mut dyn FnMut()) {
        if let Some((name, private)) = self.0.take() {
            private.remove(dir, &name);
            changed();
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
    fn only_a_directory_that_no_other_user_can_search_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let fd = fs::File::open(dir.path()).unwrap();
        let path = |name: &str| dir.path().join(name);
        assert!(PrivateDir::find(&fd, b"made").unwrap().is_none());
        let made = PrivateDir::make(&fd, b"made").unwrap();
        assert_eq!(fs::metadata(path("made")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(PrivateDir::make(&fd, b"made").unwrap_err(), EntryFailure::Exposed);
        assert!(PrivateDir::find(&fd, b"made").unwrap().is_some());
        symlink("made", path("link")).unwrap();
        fs::write(path("file"), "").unwrap();
        for mode in [0o710, 0o701, 0o770, 0o755] {
            fs::set_permissions(path("made"), Permissions::from_mode(mode)).unwrap();
            assert_eq!(PrivateDir::find(&fd, b"made").unwrap_err(), EntryFailure::Exposed, "{mode:o}");
        }
        fs::set_permissions(path("made"), Permissions::from_mode(0o700)).unwrap();
        for name in ["link", "file"] {
            assert_eq!(PrivateDir::find(&fd, name.as_bytes()).unwrap_err(), EntryFailure::Exposed, "{name}");
        }
        if geteuid().is_root() {
            chown(path("made"), Some(1), None).unwrap();
            assert_eq!(PrivateDir::find(&fd, b"made").unwrap_err(), EntryFailure::Exposed, "of another user");
        }
        made.remove(&fd, b"made");
        assert!(!path("made").exists());
    }
}
