//! Locks of whole files: flock(2), for which nix has only a type that owns the file.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// Takes or releases the lock of an open file without waiting; `operation` is `LOCK_SH`, `LOCK_EX` or `LOCK_UN`.
///
/// # Errors
/// EAGAIN if another open file has a lock that excludes it; otherwise as flock(2) says.
pub fn flock(file: impl AsFd, operation: i32) -> Result<(), Errno> {
    // SAFETY: the call touches no memory.
    let done = unsafe { libc::flock(file.as_fd().as_raw_fd(), operation | libc::LOCK_NB) };
    Errno::result(done).map(drop)
}
