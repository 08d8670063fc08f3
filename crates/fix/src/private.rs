//! A private directory inside a directory where others may rename: no other process can replace an entry in it before the entry
//! has its owner, attributes and times.
//!
//! A process that may write the directory above can at any moment move the private directory away, remove it while it is
//! empty, or replace it. No entry gets into the replacement: the program uses the directory through a descriptor only, after
//! it has checked that it is a directory of this user that no other user may search. If another process puts such a directory
//! there, it is as safe as the original. Nothing in it is touched, because every entry in it is newly created and has a
//! random name.
//!
//! A run locks its private directories. One that no run has locked was left by a run that was killed, and the next run that changes
//! anything in the directory above removes it if it is empty. Only directories of this user alone count, which nobody else can lock.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use namegate_sys::open;
use namegate_sys::stat;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::entry::{EntryFailure, is_temporary};
use super::listing::for_each_name;

/// A directory that only this user can search.
#[derive(Debug)]
pub struct PrivateDir {
    fd: OwnedFd,
    /// While it is open, other runs leave the directory alone. `None` if the file system has no locks: then they cannot lock it either.
    _lock: Option<Flock<File>>,
}

/// How often another run may remove a new directory before it is locked.
const MAX_TRIES: usize = 8;

/// Removes the directories in `dir` that killed runs have left.
pub(crate) fn remove_stale(dir: impl AsFd + Copy) {
    let mut found = Vec::new();
    // Of a directory that cannot be listed nobody knows.
    let _ = for_each_name(dir, &mut |name| {
        if is_temporary(name) {
            found.push(name.to_vec());
        }
    });
    found.iter().for_each(|name| remove_stale_one(dir, name));
}

/// Removes the directory `name` in `dir` if a killed run has left it, empty.
pub(crate) fn remove_stale_one(dir: impl AsFd + Copy, name: &[u8]) {
    if let Ok(Some(fd)) = PrivateDir::open(dir, name)
        && let Some(lock) = lock(&fd, FlockArg::LockExclusiveNonblock)
    {
        PrivateDir { fd, _lock: Some(lock) }.remove(dir, name);
    }
}

/// Locks the directory `fd`; `None` if another run has locked it, or if it cannot be locked.
fn lock(fd: &OwnedFd, how: FlockArg) -> Option<Flock<File>> {
    let readable = open::beneath(fd, OsStr::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty());
    Flock::lock(File::from(readable.ok()?), how).ok()
}

impl PrivateDir {
    /// Creates the directory `name` in `dir`.
    ///
    /// # Errors
    /// [`EntryFailure::Exposed`] if the name is taken, or if another process replaced the directory.
    pub fn make(dir: impl AsFd + Copy, name: &[u8]) -> Result<Self, EntryFailure> {
        for _ in 0..MAX_TRIES {
            match mkdirat(dir, OsStr::from_bytes(name), Mode::S_IRWXU) {
                Ok(()) => {}
                // The name was free just before.
                Err(Errno::EEXIST) => return Err(EntryFailure::Exposed),
                Err(error) => return Err(error.into()),
            }
            // Another run may take the directory for one that was left, until it is locked.
            if let Some(made) = Self::find(dir, name)?
                && made.is_at(dir, name)
            {
                return Ok(made);
            }
        }
        Err(EntryFailure::Exposed)
    }

    /// Opens the directory `name` in `dir`, which an earlier run may have left; `None` if the name is free.
    ///
    /// # Errors
    /// [`EntryFailure::Exposed`] if it is not a directory of this user alone.
    pub fn find(dir: impl AsFd, name: &[u8]) -> Result<Option<Self>, EntryFailure> {
        let fd = Self::open(dir, name)?;
        Ok(fd.map(|fd| Self { _lock: lock(&fd, FlockArg::LockSharedNonblock), fd }))
    }

    fn open(dir: impl AsFd, name: &[u8]) -> Result<Option<OwnedFd>, EntryFailure> {
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
            true => Ok(Some(fd)),
            false => Err(EntryFailure::Exposed),
        }
    }

    /// Whether the name `name` in `dir` is that of the directory.
    fn is_at(&self, dir: impl AsFd, name: &[u8]) -> bool {
        match (stat::at(self, OsStr::new("")), stat::at(&dir, OsStr::from_bytes(name))) {
            (Ok(ours), Ok(there)) => (ours.ino, ours.device) == (there.ino, there.device),
            _ => false,
        }
    }

    /// Removes the directory, whose name in `dir` is `name`. If another process has moved it away, it stays there, empty and
    /// of no use. No system call removes an inode, so an empty directory that another process puts there at the same moment
    /// may be removed instead; that process could remove it as well.
    fn remove(&self, dir: impl AsFd, name: &[u8]) {
        if self.is_at(&dir, name) {
            let _ = unlinkat(dir, OsStr::from_bytes(name), UnlinkatFlags::RemoveDir);
        }
    }
}

/// The private directory in use: one serves all links of a directory in a batch.
#[derive(Debug, Default)]
pub struct CurrentPrivateDir(Option<(Vec<u8>, PrivateDir)>);

impl CurrentPrivateDir {
    /// The directory `name` in `dir`, if it is in use or an earlier run has left it.
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
    pub(crate) fn find_or_make(
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
        self.fd.as_fd()
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
        let fd = File::open(dir.path()).unwrap();
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

    #[test]
    fn only_an_empty_directory_of_a_killed_run_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let fd = File::open(dir.path()).unwrap();
        let path = |name: &str| dir.path().join(name);
        let names = [".namegate-00000001", ".namegate-00000002", ".namegate-00000003", ".namegate-00000004"];
        let [left, used, full, open] = names;
        for name in [left, used, full, open, ".namegate-mine", ".namegate-0000000G"] {
            fs::create_dir(path(name)).unwrap();
            fs::set_permissions(path(name), Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(path(full).join("entry"), "").unwrap();
        fs::set_permissions(path(open), Permissions::from_mode(0o750)).unwrap();
        symlink(used, path(".namegate-00000005")).unwrap();
        if geteuid().is_root() {
            fs::create_dir(path(".namegate-00000006")).unwrap();
            fs::set_permissions(path(".namegate-00000006"), Permissions::from_mode(0o700)).unwrap();
            chown(path(".namegate-00000006"), Some(1), None).unwrap();
        }
        let count = || fs::read_dir(dir.path()).unwrap().count();
        let (before, in_use) = (count(), PrivateDir::find(&fd, used.as_bytes()).unwrap());
        remove_stale(&fd);
        assert_eq!((count(), path(left).exists()), (before - 1, false));
        drop(in_use);
        remove_stale(&fd);
        assert_eq!((count(), path(used).exists()), (before - 2, false), "its run has ended");
        let made = PrivateDir::make(&fd, left.as_bytes()).unwrap();
        remove_stale(&fd);
        assert!(path(left).exists(), "a new one is locked");
        drop(made);
    }
}
