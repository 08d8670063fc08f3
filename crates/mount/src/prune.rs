//! Makes the kernel forget cached inodes, where each costs a descriptor.
//!
//! Linux 6.18 and later support this by FUSE_NOTIFY_PRUNE. It blocks nobody: the kernel drops the entries that are not in use
//! (d_prune_aliases), and the server reads the resulting FUSE_FORGET requests before any other request.
//!
//! Older kernels drop entries only by name (FUSE_NOTIFY_INVAL_ENTRY), even if they are in use. The server uses this for files that
//! nobody has open, but not for directories: a working directory would lose its path. This notification waits for other
//! requests, so a separate thread sends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use super::server::Server;
use crate::passthrough::NodeId;

/// What is known of how the kernel forgets inodes.
#[derive(Debug, Default)]
pub(super) struct Pruning {
    /// Whether the kernel does not support the message.
    is_unknown: AtomicBool,
    /// Queue of the thread for older kernels.
    forcing: OnceLock<Option<SyncSender<Vec<NodeId>>>>,
}

impl Server {
    /// Asks the kernel to forget those of `nodes` that are not in use. Returns whether the kernel supports this.
    fn prune(&self, nodes: &[NodeId]) -> bool {
        let Some(notifier) = self.notifier() else { return true };
        if self.pruning.is_unknown.load(Ordering::Relaxed) {
            return false;
        }
        let numbers: Vec<u64> = nodes.iter().map(|node| node.0).collect();
        match notifier.prune(&numbers) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.pruning.is_unknown.store(true, Ordering::Relaxed);
                return false;
            }
            Err(error) => log::debug!("the kernel does not forget: {error}"),
        }
        true
    }

    /// Asks the kernel to forget inodes, if too many cost a descriptor.
    pub(super) fn give_back(self: &Arc<Self>) {
        let nodes = self.tree.surplus();
        if nodes.is_empty() || self.prune(&nodes) {
            return;
        }
        let start = || {
            /// Maximum number of waiting batches. The nodes of a dropped batch are selected again later.
            const WAITING: usize = 4;
            let (sender, receiver) = sync_channel(WAITING);
            let server = Arc::downgrade(self);
            let started =
                thread::Builder::new().name("forgetting".into()).spawn(move || force(&server, &receiver));
            started.inspect_err(|error| log::warn!("inodes are not given back: {error}")).ok().map(|_| sender)
        };
        if let Some(forcing) = self.pruning.forcing.get_or_init(start) {
            let _ = forcing.try_send(nodes);
        }
    }
}

/// Makes the kernel forget the received nodes, until the server has ended.
fn force(server: &Weak<Server>, nodes: &Receiver<Vec<NodeId>>) {
    for nodes in nodes {
        let Some(server) = server.upgrade() else { return };
        let Some(notifier) = server.notifier() else { continue };
        for (parent, name) in nodes.into_iter().filter_map(|node| server.tree.place(node)) {
            // Usually the kernel caches the stored name; an equivalent name stays cached.
            if let Some(shown) = server.active_config().serve.gate.show(&name)
                && let Err(error) = notifier.forget_entry(parent.0, &shown.name)
            {
                log::debug!("the kernel does not forget: {error}");
            }
        }
    }
}
