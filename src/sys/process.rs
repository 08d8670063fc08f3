//! Dividing a process.

use std::fs;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_divided() {
        let result = std::thread::spawn(fork).join().expect("it does not panic");
        assert!(matches!(result, Err(Errno::EDEADLK)), "{result:?}");
    }
}
