//! How long the kernel may cache replies. Every cacheable reply gets its timeout here.

use std::time::Duration;

use namegate_wire::abi::EntryOut;
use nix::sys::stat::FileStat;

use super::encode::attr;
use crate::passthrough::{LookupEntry, has_set_id};

/// Cache timeouts of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For names.
    pub(super) entry: Duration,
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

    /// The reply for an entry, whose name may be cached only if it `may_be_kept`.
    pub(super) fn for_entry(&self, entry: &LookupEntry, may_be_kept: bool, is_written: bool) -> EntryOut {
        let LookupEntry { node, generation, stat, is_current } = entry;
        let name = if may_be_kept { self.entry } else { Duration::ZERO };
        let attributes = if *is_current { self.for_attributes(stat, is_written) } else { Duration::ZERO };
        EntryOut {
            nodeid: node.0,
            generation: (*generation).into(),
            entry_valid: name.as_secs(),
            attr_valid: attributes.as_secs(),
            entry_valid_nsec: name.subsec_nanos(),
            attr_valid_nsec: attributes.subsec_nanos(),
            attr: attr(stat),
        }
    }
}
