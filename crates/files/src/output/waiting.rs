//! Writes that may wait for a reader or a disk: who handles signals sees that one is stuck.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many threads write to an output now, and how many writes have ended.
static WRITERS: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Runs a write that may wait.
pub fn waiting<T>(write: impl FnOnce() -> T) -> T {
    WRITERS.fetch_add(1, Relaxed);
    let written = write();
    ENDED.fetch_add(1, Relaxed);
    WRITERS.fetch_sub(1, Relaxed);
    written
}

/// How many writes have ended, and whether another one is going on.
pub fn writing() -> (u64, bool) {
    (ENDED.load(Relaxed), WRITERS.load(Relaxed) > 0)
}

/// A writer of which each write may wait.
pub struct WaitingWriter<W>(pub W);

impl<W: Write> Write for WaitingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        waiting(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        waiting(|| self.0.flush())
    }
}
