//! Lookups for file handles: name_to_handle_at(2), and the NFS server of the kernel. The kernel asks by node id for a file whose inode it
//! has forgotten (the name `.`), and for the directory that contains a directory (`..`).
//!
//! Only over `wire`: `fuser` passes these names on, too, but does not ask for EXPORT_SUPPORT, without which the kernel never uses them.
//!
//! Sources: fuse_get_dentry and fuse_get_parent of fs/fuse/inode.c; exportfs_decode_fh_raw of fs/exportfs/expfs.c.

use std::sync::Arc;

use namegate_telemetry::metrics::Op;

use super::dispatch::RequestCore;
use super::replies::{FoundEntry, Responds};
use crate::passthrough::{Caller, NodeId};

impl RequestCore {
    /// Looks a file up by its node id.
    pub(super) fn lookup_again(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        reply: impl Responds<FoundEntry>,
    ) {
        self.serve((Op::Lookup, caller.uid, self.weight_of(node)), move |serving| {
            let found = serving.core.server.tree.lookup_again(node);
            serving.found(found.map_err(Into::into), || false, reply);
        });
    }

    /// Looks up the directory that contains the directory `node`.
    pub(super) fn lookup_parent(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        reply: impl Responds<FoundEntry>,
    ) {
        self.serve((Op::Lookup, caller.uid, self.weight_of(node)), move |serving| {
            let found = serving.core.server.tree.lookup_parent(node);
            serving.found(found.map_err(Into::into), || false, reply);
        });
    }
}
