//! How long the kernel may answer by itself what it once asked. Every reply that is kept gets its time here.

use std::time::Duration;

use nix::sys::stat::FileStat;

use crate::passthrough::{Entry, has_set_id};

/// How long what was told holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// That a name leads to a file.
    pub(super) entry: Duration,
    /// The attributes of a file.
    pub(super) attr: Duration,
}

impl Timeouts {
    /// For attributes that were asked for by themselves; `is_written` of a file that somebody may change in memory, which the
    /// kernel does not note down.
    pub(super) fn of_attributes(&self, stat: &FileStat, is_written: bool) -> Duration {
        // A write takes set-id bits away behind the kernel's back: it leaves them to whoever serves the write.
        match is_written || has_set_id(stat.st_mode) {
            true => Duration::ZERO,
            false => self.attr,
        }
    }

    /// For an entry: first the name, unless it must not be kept, then the attributes.
    pub(super) fn of_entry(
        &self,
        entry: &Entry,
        may_be_kept: bool,
        is_written: bool,
    ) -> (Duration, Duration) {
        let name = if may_be_kept { self.entry } else { Duration::ZERO };
        (name, self.of_attributes(&entry.stat, is_written))
    }

    /// For an entry in a reply that has room for one time only: the shorter one.
    pub(super) fn of_both(&self, entry: &Entry, may_be_kept: bool, is_written: bool) -> Duration {
        let (name, attributes) = self.of_entry(entry, may_be_kept, is_written);
        name.min(attributes)
    }
}
