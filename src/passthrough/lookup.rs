//! From a name to its node.

use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::inode::{ELSEWHERE, Reach};
use super::{Entry, NodeId, Passthrough, Result};
use crate::gate::Admitted;
use crate::sys::open::beneath;

impl Passthrough {
    /// Looks `name` up in `parent`, and counts the lookup.
    ///
    /// # Errors
    /// ENOENT when there is no such entry; otherwise as openat2(2) says.
    pub fn lookup(&self, parent: NodeId, name: &Admitted<'_>) -> Result<Entry> {
        self.lookup_within(Reach::Any, parent, name)
    }

    /// The same, no further than `reach`.
    ///
    /// # Errors
    /// The same, and [`ELSEWHERE`].
    pub fn lookup_within(&self, reach: Reach, parent: NodeId, name: &Admitted<'_>) -> Result<Entry> {
        self.lookup_from(reach, &*self.fd(parent)?, name)
    }

    /// The same for a name that leads to another mount, without asking that for anything: the attributes may be old.
    ///
    /// # Errors
    /// As for a lookup.
    pub fn glance(&self, parent: NodeId, name: &Admitted<'_>) -> Result<Entry> {
        self.nodes.count_unasked(self.hold(&*self.fd(parent)?, name)?)
    }

    pub(super) fn lookup_in(&self, parent: impl AsFd, name: &Admitted<'_>) -> Result<Entry> {
        self.lookup_from(Reach::Any, parent, name)
    }

    fn lookup_from(&self, reach: Reach, parent: impl AsFd, name: &Admitted<'_>) -> Result<Entry> {
        match self.nodes.count_named(&parent, name.as_os_str(), reach)? {
            Some(entry) => Ok(entry),
            None => {
                let held = self.hold(parent, name)?;
                if reach == Reach::Near && self.nodes.is_elsewhere(&held) {
                    return Err(ELSEWHERE);
                }
                self.nodes.count(held)
            }
        }
    }

    /// What stands under `name`, without opening it.
    pub(super) fn hold(&self, parent: impl AsFd, name: &Admitted<'_>) -> Result<OwnedFd> {
        self.nodes.with_room(|| beneath(&parent, name.as_os_str(), OFlag::O_PATH, Mode::empty()))
    }
}
