//! What only a process with one thread may do.

use std::fs;

use nix::errno::Errno;

/// EDEADLK if there are more threads than this one, or /proc does not show them.
pub(super) fn check_single_thread() -> Result<(), Errno> {
    match fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => Ok(()),
        _ => Err(Errno::EDEADLK),
    }
}
