//! Locks on backing files, which programs that use the source directly obey too (fcntl_locking(2), flock(2)).
//!
//! The kernel names the owner of a lock by a number: a process for POSIX locks, an open file description of a client for the others.
//! Each owner has an open file description here, whose locks exclude those of all other owners and of all other processes. POSIX
//! locks of an owner go when it closes the file anywhere, which FLUSH tells; all locks that were taken through an open file go when
//! that is closed, which RELEASE tells. The kernel reports neither the end of a POSIX lock at exit nor that of an open file
//! description otherwise.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use namegate_sys::flock::flock;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use parking_lot::Mutex;

use super::budget::DescriptorShare;
use super::file::OpenFile;
use super::{Fh, NodeId, Passthrough, Result};

/// A range of a file with the kind of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    /// First byte.
    pub start: u64,
    /// Last byte; `i64::MAX` for the end of the file, wherever that is.
    pub end: u64,
}

/// Whose lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner {
    /// The number that the kernel gives.
    pub number: u64,
    /// Whether the lock is one of flock(2), which is for the whole file and excludes no other kind.
    pub is_flock: bool,
}

/// A file in which an owner has locks.
type LockKey = (NodeId, u32, LockOwner);

#[derive(Debug)]
struct OwnedLocks {
    file: Arc<File>,
    /// Open files through which locks were taken.
    taken_by: Vec<Fh>,
    _share: DescriptorShare,
}

#[derive(Debug, Default)]
pub(super) struct LockTable {
    by_owner: Mutex<HashMap<LockKey, OwnedLocks>>,
}

impl LockTable {
    /// Removes those for which `goes` holds. Dropped after the table is unlocked, because closing may take long.
    fn remove(&self, goes: impl Fn(&LockKey, &OwnedLocks) -> bool) -> bool {
        let mut by_owner = self.by_owner.lock();
        let gone: Vec<_> = by_owner.extract_if(|key, locks| goes(key, locks)).collect();
        drop(by_owner);
        !gone.is_empty()
    }
}

fn key(open: &OpenFile, owner: LockOwner) -> LockKey {
    (open.node().id, open.node().generation(), owner)
}

fn record(range: LockRange) -> Result<libc::flock> {
    let number = |at: u64| i64::try_from(at).map_err(|_| Errno::EINVAL);
    let (start, end) = (number(range.start)?, number(range.end)?);
    let len = if end == i64::MAX { 0 } else { end.checked_sub(start).ok_or(Errno::EINVAL)? + 1 };
    Ok(libc::flock {
        l_type: range.kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: len,
        l_pid: 0,
    })
}

/// flock(2), without waiting.
fn lock_whole(file: &File, kind: i32) -> Result<()> {
    let operation = match kind {
        libc::F_RDLCK => libc::LOCK_SH,
        libc::F_WRLCK => libc::LOCK_EX,
        _ => libc::LOCK_UN,
    };
    flock(file, operation)
}

impl Passthrough {
    /// Takes or releases a lock through the open file `fh`, without waiting.
    ///
    /// # Errors
    /// EAGAIN if another owner has a lock that excludes it; ENFILE for a user who has too many descriptors of this process; otherwise
    /// as fcntl_locking(2) and flock(2) say.
    pub fn lock(&self, fh: Fh, owner: LockOwner, range: LockRange) -> Result<()> {
        let open = self.files.get(fh)?;
        let key = key(&open, owner);
        let file = match self.locks.by_owner.lock().get_mut(&key) {
            Some(locks) => {
                if !locks.taken_by.contains(&fh) {
                    locks.taken_by.push(fh);
                }
                Some(locks.file.clone())
            }
            None => None,
        };
        let file = match file {
            Some(file) => file,
            // It has no lock.
            None if range.kind == libc::F_UNLCK => return Ok(()),
            None => {
                let _share = self.nodes.charge(open.opener().uid)?;
                let file = Arc::new(self.file_to_lock(&open)?);
                // Another thread of the owner may have been first.
                let locks = OwnedLocks { file, taken_by: vec![fh], _share };
                self.locks.by_owner.lock().entry(key).or_insert(locks).file.clone()
            }
        };
        if owner.is_flock {
            return lock_whole(&file, range.kind);
        }
        let done = fcntl(&file, FcntlArg::F_OFD_SETLK(&record(range)?)).map(drop);
        match done {
            // fcntl_locking(2) allows both.
            Err(Errno::EACCES) => Err(Errno::EAGAIN),
            done => done,
        }
    }

    /// The first lock that excludes this one; one of the kind `F_UNLCK` if none does.
    ///
    /// # Errors
    /// As fcntl_locking(2) says.
    pub fn excluding_lock(&self, fh: Fh, owner: LockOwner, range: LockRange) -> Result<(LockRange, i32)> {
        let open = self.files.get(fh)?;
        let own = self.locks.by_owner.lock().get(&key(&open, owner)).map(|locks| locks.file.clone());
        let file = match own {
            Some(file) => file,
            None => Arc::new(self.file_to_lock(&open)?),
        };
        let mut found = record(range)?;
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut found))?;
        let (kind, start) = (i32::from(found.l_type), found.l_start.unsigned_abs());
        let end = match found.l_len {
            0 => i64::MAX.unsigned_abs(),
            len => start + len.unsigned_abs() - 1,
        };
        Ok((LockRange { kind, start, end }, found.l_pid))
    }

    /// Releases the POSIX locks of an owner that has closed the file. Returns whether there were any.
    pub fn unlock_all(&self, fh: Fh, owner: u64) -> bool {
        let Ok(open) = self.files.get(fh) else { return false };
        let key = key(&open, LockOwner { number: owner, is_flock: false });
        self.locks.remove(|other, _| *other == key)
    }

    /// Releases all that was locked through an open file that is closed. Returns whether there was anything.
    pub fn unlock_released(&self, fh: Fh) -> bool {
        self.locks.remove(|_, locks| locks.taken_by.contains(&fh))
    }

    /// A descriptor for locks. An exclusive one needs the right to write, which the kernel has checked for the client.
    fn file_to_lock(&self, open: &OpenFile) -> Result<File> {
        match self.nodes.open(open.node(), OFlag::O_RDWR) {
            Err(Errno::EACCES | Errno::EPERM | Errno::EROFS | Errno::ETXTBSY) => {
                self.nodes.open(open.node(), OFlag::O_RDONLY).map(File::from)
            }
            opened => opened.map(File::from),
        }
    }
}
