//! Dividing a process, and what a part of it keeps open.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::ForkResult;

/// fork(2), in a process that has one thread: only there the child can do everything that its parent can.
///
/// # Errors
/// EDEADLK where there are more threads or /proc does not tell; otherwise as the page says.
pub fn fork() -> Result<ForkResult, Errno> {
    match fs::read_dir("/proc/self/task").map(Iterator::count) {
        // SAFETY: no other thread exists that could hold a lock in the child, and none can come into being but by this one.
        Ok(1) => unsafe { nix::unistd::fork() },
        _ => Err(Errno::EDEADLK),
    }
}

/// Closes all descriptors from 3 on but `kept`, for a process that shares nothing else with the one it came from. See
/// close_range(2); where the kernel lacks it (before 5.9), they are closed one by one.
///
/// Whatever owns one of them in this process must not be used any more, nor dropped: [`fork`] and a loop that never returns
/// give that.
///
/// # Errors
/// /proc does not tell what is open.
pub fn close_all_but(kept: &OwnedFd) -> Result<(), Errno> {
    const FIRST: RawFd = 3;
    let kept = kept.as_raw_fd();
    for (first, last) in [(FIRST, kept - 1), (kept + 1, RawFd::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: closing takes no memory away; that nobody uses what is closed here is what this function asks for.
        match Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }) {
            Ok(_) => {}
            Err(Errno::ENOSYS) => close_one_by_one(kept)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Takes the device at `path` away from this process, whatever thread uses it: each descriptor of it is one of
/// `null` from now on, and keeps its number, so that nothing else can get that number meanwhile. For a process that is about
/// to end, whose threads may be stuck: its descriptors would be closed when the last one ends.
///
/// # Errors
/// As dup3(2) says; or /proc does not tell what is open.
pub fn take_away(path: &Path, null: &OwnedFd) -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        // By its name: a file system that does not answer must not be asked for what is open on it.
        let is_it = fs::read_link(entry.path()).is_ok_and(|found| found == path);
        if let (Some(number), true) = (number, is_it) {
            // SAFETY: whoever owns the descriptor still owns one with that number, and what it refers to takes no memory.
            Errno::result(unsafe { libc::dup3(null.as_raw_fd(), number, libc::O_CLOEXEC) })?;
        }
    }
    Ok(())
}

fn close_one_by_one(kept: RawFd) -> Result<(), Errno> {
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .map_err(|_| Errno::ENOSYS)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|&fd| fd >= 3 && fd != kept) {
        // SAFETY: as above. The one by which the list was read is in it, and closed already.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_taken_away_reads_as_the_one_that_was_put_in_its_place() {
        use std::io::Read;
        let (mut zero, null) = (fs::File::open("/dev/zero").unwrap(), fs::File::open("/dev/null").unwrap());
        let mut byte = [1];
        assert_eq!(zero.read(&mut byte).unwrap(), 1);
        take_away(Path::new("/dev/zero"), &null.into()).unwrap();
        assert_eq!(zero.read(&mut byte).unwrap(), 0);
    }

    #[test]
    fn a_process_with_threads_is_not_divided() {
        let result = std::thread::spawn(fork).join().expect("it does not panic");
        assert!(matches!(result, Err(Errno::EDEADLK)), "{result:?}");
    }
}
