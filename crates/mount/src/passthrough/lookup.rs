//! Lookups: from a name to its node.

use std::os::fd::{AsFd, OwnedFd};

use namegate_core::gate::Admitted;
use namegate_sys::open::beneath;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::inode::{ELSEWHERE, Reach};
use super::{LookupEntry, NodeId, Passthrough, Result};

impl Passthrough {
    /// Looks `name` up in `parent`, and counts the lookup.
    ///
    /// # Errors
    /// ENOENT when there is no such entry; otherwise as openat2(2) says.
    pub fn lookup(&self, parent: NodeId, name: &Admitted<'_>) -> Result<LookupEntry> {
        self.lookup_within(Reach::Any, parent, name)
    }

    /// Looks `name` up in `parent`, only on mounts within `reach`, and counts the lookup.
    ///
    /// # Errors
    /// As [`Passthrough::lookup`]; [`ELSEWHERE`] for a name beyond `reach`.
    pub fn lookup_within(&self, reach: Reach, parent: NodeId, name: &Admitted<'_>) -> Result<LookupEntry> {
        self.lookup_from(reach, &*self.fd(parent)?, name)
    }

    /// Looks up a name on another mount without a request to that mount: the attributes may be outdated.
    ///
    /// # Errors
    /// As for a lookup.
    pub fn lookup_cached(&self, parent: NodeId, name: &Admitted<'_>) -> Result<LookupEntry> {
        self.nodes.count_unasked(self.hold(&*self.fd(parent)?, name)?)
    }

    pub(super) fn lookup_in(&self, parent: impl AsFd, name: &Admitted<'_>) -> Result<LookupEntry> {
        self.lookup_from(Reach::Any, parent, name)
    }

    fn lookup_from(&self, reach: Reach, parent: impl AsFd, name: &Admitted<'_>) -> Result<LookupEntry> {
        match self.nodes.count_named(&parent, name.as_os_str(), reach)? {
            Some(entry) => Ok(entry),
            None => {
                let held = self.hold(parent, name)?;
                if reach == Reach::SameMountOnly && self.nodes.is_elsewhere(&held) {
                    return Err(ELSEWHERE);
                }
                self.nodes.count(held)
            }
        }
    }

    /// An `O_PATH` descriptor of the entry `name`.
    pub(super) fn hold(&self, parent: impl AsFd, name: &Admitted<'_>) -> Result<OwnedFd> {
        self.nodes.with_room(|| beneath(&parent, name.as_os_str(), OFlag::O_PATH, Mode::empty()))
    }
}
