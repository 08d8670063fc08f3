//! Set-id bits where content changes, and who pays for what a change allocates.
//!
//! The kernel of the backing file system decides about both, as it does without this mount: the change is made by a thread
//! that is the caller to it. `file_remove_privs` (fs/inode.c) looks at CAP_FSETID and, for a set-group-id bit without group
//! execute, at the caller's groups; `ext4_has_free_clusters` and `ignore_hardlimit` look at the user id and CAP_SYS_RESOURCE.
//!
//! Groups and capabilities of a caller come from /proc, which costs as much as a write. They are read for files with set-id
//! bits alone. A file counts as one of those by the attributes that were seen last; where somebody set the bits behind the
//! mount a moment ago, and groups would have kept them, they are cleared.

use std::os::fd::AsFd;
use std::sync::Arc;

use nix::fcntl::AtFlags;
use nix::sys::stat::fstat;
use nix::unistd::fchownat;

use super::credentials::{Acting, FSETID, Identity, OF_FILES, Thread};
use super::inode::Node;
use super::{Caller, Passthrough, Result};
use crate::sys::capability::Set;
use crate::sys::identity::status;

/// What becomes of the set-id bits of a file whose content is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetId {
    /// They stay: the caller has CAP_FSETID, or what is written was changed in memory, where bits stay too.
    Kept,
    /// They go, as where anybody without that capability makes the change.
    Cleared,
    /// The kernel has not said; whatever the caller is decides.
    AsCaller,
}

impl Passthrough {
    /// Changes content of `node` by `change` as `caller`. A change through a descriptor needs no permission.
    pub(super) fn changing<T>(
        &self,
        node: &Arc<Node>,
        caller: &Caller,
        set_id: SetId,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if !self.acts_for_others {
            return change();
        }
        let is_root = caller.uid == 0;
        let clears = set_id == SetId::Cleared || (!is_root && set_id == SetId::AsCaller);
        if !Thread::current()?.switches() {
            // A root that may not act for others. The bits are all that can be done right.
            let _clearing = clears.then(Acting::without_fsetid).transpose()?;
            return change();
        }
        if !node.has_set_id() {
            let _acting = match is_root {
                true if clears => Some(Acting::without_fsetid()?),
                true => None,
                false => Some(Acting::new(Identity::of(caller))?),
            };
            return change();
        }
        let result = {
            let status = status(caller.pid);
            // Root in a container may lack the capability; whoever is not root may have it in a namespace of his own only.
            let keeps = match set_id {
                SetId::Kept => true,
                SetId::Cleared => false,
                SetId::AsCaller => is_root && status.effective.is_none_or(|set| set.contains(FSETID)),
            };
            let rights = match (is_root, keeps) {
                (true, true) => OF_FILES,
                (true, false) => Set(OF_FILES.0 & !FSETID.0),
                (false, true) => FSETID,
                (false, false) => Set::default(),
            };
            let identity = Identity::of(caller).with_groups(&status.groups).with_rights(rights);
            let _acting = Acting::new(identity)?;
            change()
        };
        // The next change need not look again when the bits are gone.
        if let Ok(stat) = self.nodes.fd(node).and_then(|fd| fstat(&*fd)) {
            node.note_mode(stat.st_mode);
        }
        result
    }

    /// Takes from `node`, which `fd` holds, the bits that a change of its owner by `caller` takes.
    ///
    /// For anybody but the owner and root this does nothing: only those may change an owner, and the kernel asks for a change of
    /// nothing before anybody's write too, which will take the bits by itself.
    pub(super) fn drop_set_id(&self, node: &Arc<Node>, caller: &Caller, fd: impl AsFd) -> Result<()> {
        if caller.uid != 0 && caller.uid != fstat(&fd)?.st_uid {
            return Ok(());
        }
        self.changing(node, caller, SetId::AsCaller, || fchownat(&fd, "", None, None, AtFlags::AT_EMPTY_PATH))
    }
}
