//! Who looks on while names are changed.

use super::entry::Reason;

/// A point that a run has come to. Whatever the point, the process may end there and nothing is lost: the tests end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Records are in the journal, and may not be on the disk yet.
    Written,
    /// Records are on the disk; the file has this many bytes.
    Synced(u64),
    /// One system call has changed the tree.
    Changed,
}

/// What was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left<'l> {
    /// The path of the directory.
    pub directory: &'l [u8],
    /// The name that stays.
    pub old: &'l [u8],
    /// The name that it should have got, or the target.
    pub new: &'l [u8],
    /// Why.
    pub reason: &'l Reason,
}

/// Looks on.
pub trait Watcher {
    /// The run has come to a point.
    fn reached(&mut self, point: Point) {
        let _ = point;
    }

    /// One rename or retarget more is done, or taken back.
    fn done(&mut self) {}

    /// One was left as it is.
    fn left(&mut self, left: &Left<'_>);

    /// Something that does not keep a rename from being done.
    fn noted(&mut self, note: &str);

    /// Whether the run should end after what it has begun.
    fn wants_end(&mut self) -> bool {
        false
    }
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Watcher for Nobody {
    fn left(&mut self, _: &Left<'_>) {}

    fn noted(&mut self, _: &str) {}
}
