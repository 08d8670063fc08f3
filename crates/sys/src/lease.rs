//! Leases, to learn whether a file is open for writing.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// Returns whether some process has the file open for writing or may write it through a memory map; `fd` is open for reading. It takes
/// a lease for a moment, which the kernel refuses then. See fcntl(2), F_SETLEASE.
///
/// A process that opens the file for writing in that moment waits for the release, and one with O_NONBLOCK gets EWOULDBLOCK. The kernel
/// tells this process by SIGIO: call [`ignore_breaks`] before.
///
/// # Errors
/// EACCES for a file of another user without CAP_LEASE; EINVAL if it is no regular file or its file system has no leases.
pub fn has_writers(fd: impl AsFd) -> Result<bool, Errno> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: `fd` is open; both calls pass numbers alone.
    let set = |kind: libc::c_int| Errno::result(unsafe { libc::fcntl(fd, libc::F_SETLEASE, kind) });
    match set(libc::F_RDLCK) {
        Ok(_) => set(libc::F_UNLCK).map(|_| false),
        Err(Errno::EAGAIN) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Ignores the signal by which the kernel asks for a lease back: it would end the process.
///
/// # Errors
/// As sigaction(2) says.
pub fn ignore_breaks() -> Result<(), Errno> {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler of this process is replaced by code: the signal is ignored from now on.
    unsafe { signal(Signal::SIGIO, SigHandler::SigIgn) }.map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};

    use super::*;

    #[test]
    fn a_writer_is_seen_as_long_as_it_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let writer = File::create(&path).unwrap();
        let file = File::open(&path).unwrap();
        if has_writers(&file) == Err(Errno::EINVAL) {
            return println!("SKIPPED: no leases on this file system");
        }
        assert_eq!(has_writers(&file), Ok(true));
        drop(writer);
        let _reader = File::open(&path).unwrap();
        assert_eq!(has_writers(&file), Ok(false));
        // Nothing is held: opening for writing does not wait.
        OpenOptions::new().append(true).open(&path).unwrap();
    }
}
