//! A private directory in a target, in which names are tried.
//!
//! Others may own the target. Everything is done by descriptors, no link is followed, and only empty regular files are removed: nothing
//! that somebody else puts there is lost.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use namegate_sys::directory;
use namegate_sys::stat::{self, Stat};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::control::{Control, TrialEnd};

/// How the name of the directory begins.
pub const PREFIX: &str = ".namegate-probe-";

/// The bytes by which a name of a batch is recognized when it arrives as another one.
pub const TAG: usize = 4;

/// How long a removed file may still be listed.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was read back as it was given.
    Kept,
    /// It was read back as this one.
    Changed(Vec<u8>),
    /// It was accepted, and is not there.
    Lost,
    Refused(Errno),
}

/// The directory. It is removed by [`TrialDirectory::remove`], or else when it is dropped.
#[derive(Debug)]
pub struct TrialDirectory<'c> {
    target: OwnedFd,
    name: OsString,
    dir: OwnedFd,
    identity: Stat,
    control: &'c Control,
    is_removed: bool,
}

impl<'c> TrialDirectory<'c> {
    pub fn create(target: OwnedFd, control: &'c Control) -> Result<Self, TrialEnd> {
        let failed = |error| TrialEnd::Failed("cannot create a directory there", error);
        loop {
            let random = RandomState::new().hash_one(0) & 0xFFFF_FFFF_FFFF;
            let name = OsString::from(format!("{PREFIX}{random:012x}"));
            match mkdirat(&target, &*name, Mode::S_IRWXU) {
                Ok(()) => {}
                Err(Errno::EEXIST) => continue,
                Err(error) => return Err(failed(error)),
            }
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let opened = openat(&target, &*name, flags, Mode::empty())
                .and_then(|dir| stat::at(&dir, OsStr::new("")).map(|identity| (dir, identity)));
            match opened {
                Ok((dir, identity)) => {
                    let mut made = Self { target, name, dir, identity, control, is_removed: true };
                    // Who can rename there may have put another directory in its place.
                    if !made.list()?.is_empty() {
                        return Err(failed(Errno::EEXIST));
                    }
                    made.is_removed = false;
                    return Ok(made);
                }
                Err(error) => {
                    let _ = unlinkat(&target, &*name, UnlinkatFlags::RemoveDir);
                    return Err(failed(error));
                }
            }
        }
    }

    /// Tries names that begin with different tags, or a single name.
    pub fn try_names(&self, names: &[Vec<u8>]) -> Result<Vec<Arrival>, TrialEnd> {
        let created: Vec<Result<(), Errno>> =
            names.iter().map(|name| self.create_file(name)).collect::<Result<_, _>>()?;
        let mut listed = self.list()?;
        let mut arrivals = Vec::with_capacity(names.len());
        for (name, created) in names.iter().zip(created) {
            let of_name = |found: &&Vec<u8>| names.len() == 1 || found.starts_with(&name[..TAG]);
            arrivals.push(match created {
                _ if listed.contains(name) => Arrival::Kept,
                Ok(()) => {
                    listed.iter().find(of_name).map_or(Arrival::Lost, |found| Arrival::Changed(found.clone()))
                }
                Err(error) => Arrival::Refused(error),
            });
        }
        // What was accepted is removed, even if it is not listed.
        let lost = names.iter().zip(&arrivals).filter(|(_, arrival)| **arrival == Arrival::Lost);
        listed.extend(lost.map(|(name, _)| name.clone()));
        self.clear(&listed)?;
        if arrivals.iter().any(|arrival| matches!(arrival, Arrival::Refused(_))) {
            self.check_alive()?;
        }
        Ok(arrivals)
    }

    /// Reports whether two names are one; `None` if the target refuses either of them.
    pub fn are_one(&self, first: &[u8], second: &[u8]) -> Result<Option<bool>, TrialEnd> {
        let created = [self.create_file(first)?, self.create_file(second)?];
        let listed = self.list()?;
        self.clear(&listed)?;
        self.clear(&[first.to_vec(), second.to_vec()])?;
        Ok(match created {
            [Ok(()), Ok(())] => Some(listed.len() == 1),
            [Ok(()), Err(Errno::EEXIST)] => Some(true),
            _ => {
                self.check_alive()?;
                None
            }
        })
    }

    /// Creates an empty file. The inner error is the answer to the name, the outer one that of a target which accepts no name.
    fn create_file(&self, name: &[u8]) -> Result<Result<(), Errno>, TrialEnd> {
        self.control.answered()?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match openat(&self.dir, OsStr::from_bytes(name), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(_) => Ok(Ok(())),
            Err(
                error @ (Errno::ENOSPC
                | Errno::EDQUOT
                | Errno::EROFS
                | Errno::ESTALE
                | Errno::ENOTCONN
                | Errno::ETIMEDOUT
                | Errno::EHOSTDOWN
                | Errno::ENOMEM
                | Errno::EMFILE
                | Errno::ENFILE),
            ) => Err(TrialEnd::Failed("cannot create a file there", error)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// A name is refused only if a plain one is not.
    fn check_alive(&self) -> Result<(), TrialEnd> {
        let failed = |error| TrialEnd::Failed("cannot create a file there", error);
        self.create_file(b"plain")?.map_err(failed)?;
        self.clear(&[b"plain".to_vec()])
    }

    fn list(&self) -> Result<Vec<Vec<u8>>, TrialEnd> {
        let failed = |error| TrialEnd::Failed("cannot read the directory with the tried names", error);
        // An SMB client can answer from what the same descriptor has read before.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = openat(&self.dir, ".", flags, Mode::empty()).map_err(failed)?;
        let mut names = Vec::new();
        each_name(&dir, &mut |name| names.push(name.to_vec())).map_err(failed)?;
        Ok(names)
    }

    /// Removes files that were listed, and waits until the directory is empty: over SMB a removed file stays for a while.
    fn clear(&self, names: &[Vec<u8>]) -> Result<(), TrialEnd> {
        let failed = |error| TrialEnd::Failed("cannot remove a file that was tried", error);
        for name in names.iter().map(|name| OsStr::from_bytes(name)) {
            self.control.beats.fetch_add(1, Relaxed);
            let is_ours = stat::at(&self.dir, name).is_ok_and(|it| it.kind == libc::S_IFREG && it.size == 0);
            if is_ours {
                unlinkat(&self.dir, name, UnlinkatFlags::NoRemoveDir).map_err(failed)?;
            }
        }
        let begun = Instant::now();
        while !self.list()?.is_empty() {
            if begun.elapsed() >= REMOVAL_PATIENCE {
                return Err(failed(Errno::ENOTEMPTY));
            }
            self.control.beats.fetch_add(1, Relaxed);
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Removes the directory; otherwise says under which name it stays, and why.
    pub fn remove(mut self) -> Result<(), (OsString, Errno)> {
        self.is_removed = true;
        self.remove_now().map_err(|error| (self.name.clone(), error))
    }

    fn remove_now(&self) -> Result<(), Errno> {
        // After an error or a signal some names are still there.
        if let Ok(names) = self.list() {
            let _ = self.clear(&names);
        }
        let found = stat::at(&self.target, &self.name)?;
        if (found.ino, found.device) != (self.identity.ino, self.identity.device) {
            return Err(Errno::ENOENT);
        }
        unlinkat(&self.target, &*self.name, UnlinkatFlags::RemoveDir)
    }
}

impl Drop for TrialDirectory<'_> {
    fn drop(&mut self) {
        if !self.is_removed {
            let _ = self.remove_now();
        }
    }
}

/// Calls `take` with each name in a directory, from its position on, except `.` and `..`.
pub fn each_name(dir: impl AsFd, take: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
    let mut buffer = vec![0; 1 << 15];
    loop {
        let filled = directory::read(&dir, &mut buffer)?;
        let mut at = 0;
        while let Some((entry, len)) = directory::first(&buffer[at..filled]) {
            if !matches!(entry.name.as_bytes(), b"." | b"..") {
                take(entry.name.as_bytes());
            }
            at += len;
        }
        if filled == 0 {
            return Ok(());
        }
    }
}
