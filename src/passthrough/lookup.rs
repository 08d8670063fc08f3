//! From a name to its node.

use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::{Entry, NodeId, Passthrough, Result};
use crate::gate::Admitted;
use crate::sys::open::beneath;

impl Passthrough {
    /// Looks `name` up in `parent`, and counts the lookup.
    ///
    /// # Errors
    /// ENOENT when there is no such entry; otherwise as openat2(2) says.
    pub fn lookup(&self, parent: NodeId, name: &Admitted<'_>) -> Result<Entry> {
        self.lookup_in(&*self.fd(parent)?, name)
    }

    pub(super) fn lookup_in(&self, parent: impl AsFd, name: &Admitted<'_>) -> Result<Entry> {
        match self.nodes.count_named(&parent, name.as_os_str())? {
            Some(entry) => Ok(entry),
            None => self.nodes.count(self.hold(parent, name)?),
        }
    }

    /// What stands under `name`, without opening it.
    pub(super) fn hold(&self, parent: impl AsFd, name: &Admitted<'_>) -> Result<OwnedFd> {
        self.nodes.with_room(|| beneath(&parent, name.as_os_str(), OFlag::O_PATH, Mode::empty()))
    }
}
