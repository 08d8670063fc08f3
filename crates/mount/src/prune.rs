//! Makes the kernel forget cached inodes, where each costs a descriptor.
//!
//! Linux 6.18 and later support this by FUSE_NOTIFY_PRUNE. It blocks nobody: the kernel drops the entries that are not in use
//! (d_prune_aliases), and the server reads the resulting FUSE_FORGET requests before any other request.
//!
//! Older kernels drop entries only by name (FUSE_NOTIFY_INVAL_ENTRY), even if they are in use. The server uses this for files that
//! nobody has open, but not for directories: a working directory would lose its path. This notification waits for other
//! requests, so a separate thread sends it.
//!
//! The same is done for the own name of an entry when a client uses another spelling of it ([`crate::spelling`]).

use std::ffi::OsString;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

use super::dropper::NameDrop;
use super::forced_drops::ForcedDrop;
use super::server::Server;
use crate::passthrough::NodeId;

impl Server {
    /// Whether a name can be dropped that is in use.
    pub(super) fn can_drop_names(&self) -> bool {
        self.dropper().is_some() && self.can_prune()
    }

    /// Whether the kernel drops names that are not in use at once.
    fn can_prune(&self) -> bool {
        let Some(notifier) = self.notifier() else { return false };
        *self.prunes.get_or_init(|| notifier.prune(&[]).is_ok())
    }

    /// Asks the kernel to forget those of `nodes` that are not in use. Returns whether the kernel supports this.
    fn prune(&self, nodes: &[NodeId]) -> bool {
        let Some(notifier) = self.notifier().filter(|_| self.can_prune()) else { return false };
        let numbers: Vec<u64> = nodes.iter().map(|node| node.0).collect();
        if let Err(error) = notifier.prune(&numbers) {
            log::debug!("the kernel does not forget: {error}");
        }
        true
    }

    /// Asks the kernel to forget inodes, if too many cost a descriptor.
    pub(super) fn give_back(self: &Arc<Self>) {
        let nodes = self.tree.surplus();
        if !nodes.is_empty() && self.notifier().is_some() && !self.prune(&nodes) {
            // The nodes of a dropped batch are selected again later.
            self.force(ForcedDrop::Nodes(nodes));
        }
    }

    /// Makes the kernel forget the name `shown` of `parent`, which leads to `node`: at once unless it is in use, and then as soon as
    /// the directory is not locked. If too many are in use at once, some stay until their timeouts.
    pub(super) fn drop_name(self: &Arc<Self>, parent: NodeId, shown: OsString, node: NodeId) {
        if self.can_drop_names() && self.prune(&[node]) {
            self.force(ForcedDrop::Name(parent, shown));
        }
    }

    fn force(self: &Arc<Self>, dropped: ForcedDrop) {
        let server = Arc::downgrade(self);
        self.forced_drops.send(dropped, move |received| force(&server, &received));
    }
}

/// Makes the kernel forget what is received, until the server has ended.
fn force(server: &Weak<Server>, dropped: &Receiver<ForcedDrop>) {
    for dropped in dropped {
        let Some(server) = server.upgrade() else { return };
        let nodes = match dropped {
            ForcedDrop::Name(parent, shown) => {
                server.drop_names(parent, &[shown], NameDrop::Expire);
                continue;
            }
            ForcedDrop::Nodes(nodes) => nodes,
        };
        for (parent, name) in nodes.into_iter().filter_map(|node| server.tree.place(node)) {
            // Usually the kernel caches the stored name; an equivalent name stays cached.
            if let Some(shown) = server.active_config().serve.gate.show(&name) {
                server.drop_names(parent, &[shown.name.into_owned()], NameDrop::Forget);
            }
        }
    }
}
