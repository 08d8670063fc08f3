//! Set-id bits when content changes, and the user to whom allocated blocks are charged.
//!
//! The kernel decides both as it does without this mount, because the thread that makes the change has the ids of the caller.
//! `file_remove_privs` (fs/inode.c) looks at CAP_FSETID and, for a set-group-id bit without group
//! execute, at the caller's groups; `ext4_has_free_clusters` and `ignore_hardlimit` look at the user id and CAP_SYS_RESOURCE.
//!
//! Reading the groups and capabilities of a caller from /proc costs as much as a write, so they are read only for files that
//! had set-id bits when their attributes were last read. If the bits were set since then in the backing tree directly, they
//! are cleared even if the caller's groups would have kept them.

use std::os::fd::AsFd;
use std::sync::Arc;

use namegate_sys::capability::CapabilitySet;
use namegate_sys::identity::status;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstat;
use nix::unistd::fchownat;

use super::credentials::{Acting, CallerIdentity, FSETID, OF_FILES, RequestThread};
use super::node::TrackedNode;
use super::{Caller, Passthrough, Result};

/// What happens to the set-id bits of a file whose content changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetId {
    /// They stay: the caller has CAP_FSETID, or the change was made through a memory map.
    Kept,
    /// They are cleared, as for a caller without that capability.
    Cleared,
    /// The kernel did not specify it; the rights of the caller decide.
    AsCaller,
}

impl Passthrough {
    /// Changes content of `node` by `change` as `caller`. A change through a descriptor needs no permission.
    pub(super) fn changing<T>(
        &self,
        node: &Arc<TrackedNode>,
        caller: &Caller,
        set_id: SetId,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if !self.acts_for_others {
            return change();
        }
        let is_root = caller.uid == 0;
        let clears = set_id == SetId::Cleared || (!is_root && set_id == SetId::AsCaller);
        if !RequestThread::current()?.switches() {
            // Root without the right to act for others: only the bits can be handled correctly.
            let _clearing = clears.then(Acting::without_fsetid).transpose()?;
            return change();
        }
        if !node.has_set_id() {
            let _acting = match is_root {
                true if clears => Some(Acting::without_fsetid()?),
                true => None,
                false => Some(Acting::new(CallerIdentity::for_caller(caller))?),
            };
            return change();
        }
        let result = {
            let status = status(caller.pid);
            // Root in a container may lack the capability; another user may have it only in a user namespace of his own.
            let keeps = match set_id {
                SetId::Kept => true,
                SetId::Cleared => false,
                SetId::AsCaller => is_root && status.effective.is_none_or(|set| set.contains(FSETID)),
            };
            let rights = match (is_root, keeps) {
                (true, true) => OF_FILES,
                (true, false) => CapabilitySet(OF_FILES.0 & !FSETID.0),
                (false, true) => FSETID,
                (false, false) => CapabilitySet::default(),
            };
            let identity = CallerIdentity::for_caller(caller).with_groups(&status.groups).with_rights(rights);
            let _acting = Acting::new(identity)?;
            change()
        };
        // If the bits are gone, the next change is faster.
        if let Ok(stat) = self.nodes.fd(node).and_then(|fd| fstat(&*fd)) {
            node.note_mode(stat.st_mode);
        }
        result
    }

    /// Clears the set-id bits of `node`, which `fd` refers to, as a change of owner by `caller` does.
    ///
    /// Does nothing unless `caller` is the owner or root: only they may change an owner. The kernel also sends such an empty
    /// change before a write by any user, and the write itself then clears the bits.
    /// Where owners are mapped, a change of owner is that of an owner, since the kernel has allowed it, and groups are unknown: the bits go.
    pub(super) fn drop_set_id(
        &self,
        node: &Arc<TrackedNode>,
        caller: &Caller,
        changes_owner: bool,
        fd: impl AsFd,
    ) -> Result<()> {
        let clear = || fchownat(&fd, "", None, None, AtFlags::AT_EMPTY_PATH);
        match caller.uid == 0 || caller.uid == fstat(&fd)?.st_uid {
            true => self.changing(node, caller, SetId::AsCaller, clear),
            false if changes_owner && self.has_idmap() => {
                let _acting = Acting::without_fsetid()?;
                clear()
            }
            false => Ok(()),
        }
    }
}
