//! Observers of changes: they see what was changed and what was not.

use namegate_files::json::{Base64, Hex};
use namegate_scan::progress::{NoProgress, Observer};
use serde::{Deserialize, Serialize};

/// Observes changes, besides what an [`Observer`] of any long work sees.
pub trait ChangeObserver: Observer {
    /// One more rename or link is done or undone.
    fn finished(&self) {}

    /// An entry stays as it is.
    fn remains(&self, remaining: &Remaining) {
        let _ = remaining;
    }

    /// The work has reached a point at which the process may be killed without loss. Tests kill it there.
    fn reached(&self, point: KillPoint) {
        let _ = point;
    }
}

impl ChangeObserver for NoProgress {}

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
