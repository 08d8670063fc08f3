//! How long the kernel may answer by itself what it once asked. Every reply that is kept gets its time here.

use std::time::Duration;

use nix::sys::stat::FileStat;

use crate::passthrough::Entry;

/// How long what was told holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// That a name leads to a file.
    pub(super) entry: Duration,
    /// The attributes of a file.
    pub(super) attr: Duration,
}

impl Timeouts {
    /// For attributes that were asked for by themselves.
    pub(super) fn of_attributes(&self, _: &FileStat) -> Duration {
        self.attr
    }

    /// For an entry: first the name, then the attributes.
    pub(super) fn of_entry(&self, entry: &Entry) -> (Duration, Duration) {
        (self.entry, self.of_attributes(&entry.stat))
    }

    /// For an entry in a reply that has room for one time only: the shorter one.
    pub(super) fn of_both(&self, entry: &Entry) -> Duration {
        let (name, attributes) = self.of_entry(entry);
        name.min(attributes)
    }
}
