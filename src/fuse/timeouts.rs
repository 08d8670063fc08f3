//! How long the kernel may cache replies. Every cacheable reply gets its timeout here.

use std::time::Duration;

use nix::sys::stat::FileStat;

use crate::passthrough::{LookupEntry, has_set_id};

/// Cache timeouts of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For names.
    pub(super) entry: Duration,
    /// For attributes.
    pub(super) attr: Duration,
}

impl Timeouts {
    /// Timeout of attributes; `is_written` for a file that a client may change through a memory map, which the kernel does not
    /// track.
    pub(super) fn for_attributes(&self, stat: &FileStat, is_written: bool) -> Duration {
        // A write clears set-id bits without the kernel: it leaves them to the server.
        match is_written || has_set_id(stat.st_mode) {
            true => Duration::ZERO,
            false => self.attr,
        }
    }

    /// For an entry: first the name, unless it must not be kept, then the attributes.
    pub(super) fn for_entry(
        &self,
        entry: &LookupEntry,
        may_be_kept: bool,
        is_written: bool,
    ) -> (Duration, Duration) {
        let name = if may_be_kept { self.entry } else { Duration::ZERO };
        (name, self.for_attributes(&entry.stat, is_written))
    }

    /// For an entry in a reply that has room for one time only: the shorter one.
    pub(super) fn for_both(&self, entry: &LookupEntry, may_be_kept: bool, is_written: bool) -> Duration {
        let (name, attributes) = self.for_entry(entry, may_be_kept, is_written);
        name.min(attributes)
    }
}
