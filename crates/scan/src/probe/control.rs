//! Ends the thread that asks a target, and shows that it gets answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use nix::errno::Errno;

/// Why no more names can be tried.
#[derive(Debug)]
pub enum TrialEnd {
    /// What failed, and why.
    Failed(&'static str, Errno),
    Stopped,
}

/// What the thread that asks the target shares with the one that waits for it.
#[derive(Debug, Default)]
pub struct Control {
    pub(super) stop: AtomicBool,
    pub(super) beats: AtomicU64,
}

impl Control {
    /// Counts an answer.
    pub(super) fn answered(&self) -> Result<(), TrialEnd> {
        self.beats.fetch_add(1, Relaxed);
        if self.stop.load(Relaxed) { Err(TrialEnd::Stopped) } else { Ok(()) }
    }
}
