//! Lookups: from a name to its node.

use std::os::fd::{AsFd, OwnedFd};

use namegate_core::gate::Admitted;
use namegate_sys::open::beneath;
use namegate_sys::stat::is_mount_root;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::{LookupEntry, NodeId, Passthrough, Result};

impl Passthrough {
    /// Looks `name` up in `parent`, and counts the lookup. What is mounted on the name is not asked for its attributes: that file system
    /// may not answer, and during a lookup the client locks `parent`.
    ///
    /// # Errors
    /// ENOENT when there is no such entry; otherwise as openat2(2) says.
    pub fn lookup(&self, parent: NodeId, name: &Admitted<'_>) -> Result<LookupEntry> {
        self.lookup_in(&*self.fd(parent)?, name)
    }

    pub(super) fn lookup_in(&self, parent: impl AsFd, name: &Admitted<'_>) -> Result<LookupEntry> {
        match self.nodes.count_named(&parent, name.as_os_str())? {
            Some(entry) => Ok(entry),
            None => {
                let held = self.hold(parent, name)?;
                match is_mount_root(&held) {
                    Some(true) => self.nodes.count_unasked(held),
                    Some(false) | None => self.nodes.count(held),
                }
            }
        }
    }

    /// An `O_PATH` descriptor of the entry `name`.
    pub(super) fn hold(&self, parent: impl AsFd, name: &Admitted<'_>) -> Result<OwnedFd> {
        self.nodes.with_room(|| beneath(&parent, name.as_os_str(), OFlag::O_PATH, Mode::empty()))
    }
}
