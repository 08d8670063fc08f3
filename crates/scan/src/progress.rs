//! Observers of long work: they show progress, receive problems, and can stop the work.

use std::fmt;
use std::path::Path;

/// Observes long work. The work calls the observer from any of its threads.
pub trait Observer: Sync {
    /// `names` names of the directory `dir` were checked, with `findings` findings.
    fn checked(&self, dir: &Path, names: u64, findings: u64) {
        let _ = (dir, names, findings);
    }

    /// Something failed, and the work goes on.
    fn problem(&self, problem: &dyn fmt::Display) {
        let _ = problem;
    }

    /// A thread begins to check names that were read: work that ends by itself, however long it takes.
    fn check_begins(&self) {}

    /// What `check_begins` told of has ended.
    fn check_ends(&self) {}

    /// Everything is read, or the work has stopped reading; what follows writes the results.
    fn finishing(&self) {}

    /// Reports whether the work should stop at the next safe point.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Shows nothing and never stops the work.
#[derive(Clone, Copy, Debug)]
pub struct NoProgress;

impl Observer for NoProgress {}
