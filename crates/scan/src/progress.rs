//! Observers of long work: they show progress, receive problems, and can stop the work.

use std::fmt;
use std::path::Path;

use namegate_files::json::{Base64, Hex};
use serde::{Deserialize, Serialize};

/// Observes long work. The work calls the observer from any of its threads.
pub trait Observer: Sync {
    /// `names` names of the directory `dir` were checked, with `findings` findings.
    fn checked(&self, dir: &Path, names: u64, findings: u64) {
        let _ = (dir, names, findings);
    }

    /// One more rename or link is done or undone.
    fn finished(&self) {}

    /// An entry stays as it is.
    fn remains(&self, remaining: &Remaining) {
        let _ = remaining;
    }

    /// Something failed, and the work goes on.
    fn problem(&self, problem: &dyn fmt::Display) {
        let _ = problem;
    }

    /// The work has reached a point at which the process may be killed without loss. Tests kill it there.
    fn reached(&self, point: KillPoint) {
        let _ = point;
    }

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

/// A point in a run of `fix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPoint {
    /// Records are in the journal file, and possibly not on the disk.
    Written,
    /// Records are on the disk; the file has this many bytes.
    Synced(u64),
    /// One system call has changed the tree.
    Changed,
}

/// A change that was not made: for the user, and as a record in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remaining {
    #[serde(rename = "directory_base64")]
    pub directory: Base64,
    /// The name that stays, or the name of the link.
    #[serde(rename = "old_hex")]
    pub old: Hex,
    /// The name that the entry should have; the target that the link should have.
    #[serde(rename = "new_hex")]
    pub new: Hex,
    /// The reason, in a sentence.
    pub reason: String,
}
