//! How long the kernel may cache replies. Every cacheable reply gets its timeout here.

use std::time::Duration;

use namegate_wire::abi::EntryOut;
use nix::sys::stat::FileStat;

use super::encode::attr;
use crate::passthrough::{LookupEntry, UsedName, has_set_id};

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
}

/// The reply for an entry, whose name and attributes the kernel may cache for these times.
pub(super) fn entry_out(entry: &LookupEntry, name: Duration, attributes: Duration) -> EntryOut {
    let LookupEntry { node, generation, stat, name: used, .. } = entry;
    EntryOut {
        nodeid: if let UsedName::Alias(number) = used { *number } else { node.0 },
        generation: (*generation).into(),
        attr: attr(stat),
        ..absent_out(name, attributes)
    }
}

/// The reply for a name that leads nowhere, which the kernel may cache for this time.
pub(super) fn absent_out(name: Duration, attributes: Duration) -> EntryOut {
    EntryOut {
        entry_valid: name.as_secs(),
        attr_valid: attributes.as_secs(),
        entry_valid_nsec: name.subsec_nanos(),
        attr_valid_nsec: attributes.subsec_nanos(),
        ..EntryOut::default()
    }
}
