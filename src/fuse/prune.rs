//! Makes the kernel forget cached inodes, where each costs a descriptor.
//!
//! Linux 6.18 and later support this by FUSE_NOTIFY_PRUNE (linux/fuse.h). `fuser` does not support this message, so it is written to
//! the device directly. It blocks nobody: the kernel drops the entries that are not in use (d_prune_aliases), and the server reads
//! the resulting FUSE_FORGET requests before any other request.
//!
//! Older kernels drop entries only by name (FUSE_NOTIFY_INVAL_ENTRY), even if they are in use. The server uses this for files that
//! nobody has open, but not for directories: a working directory would lose its path. This notification waits for other
//! requests, so a separate thread sends it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use fuser::INodeNo;
use nix::errno::Errno;
use nix::unistd::write;

use super::server::Server;
use crate::passthrough::NodeId;

/// `FUSE_NOTIFY_PRUNE`.
const CODE: i32 = 9;

/// Sends the notifications.
#[derive(Debug, Default)]
pub(super) struct Pruning {
    device: OnceLock<OwnedFd>,
    /// Whether the kernel does not support the message.
    is_unknown: AtomicBool,
    /// Queue of the thread for older kernels.
    forcing: OnceLock<Option<SyncSender<Vec<NodeId>>>>,
}

impl Pruning {
    /// Sets the device for notifications.
    pub(super) fn ask_on(&self, device: OwnedFd) {
        // A server has one mount.
        let _ = self.device.set(device);
    }

    /// Asks the kernel to forget those of `nodes` that are not in use. Returns whether the kernel supports this.
    fn ask(&self, nodes: &[NodeId]) -> bool {
        let Some(device) = self.device.get() else { return true };
        if self.is_unknown.load(Ordering::Relaxed) {
            return false;
        }
        match write(device, &message(nodes)) {
            Ok(_) => {}
            Err(Errno::EINVAL) => {
                self.is_unknown.store(true, Ordering::Relaxed);
                return false;
            }
            Err(error) => log::debug!("the kernel does not forget: {error}"),
        }
        true
    }
}

impl Server {
    /// Asks the kernel to forget inodes, if too many cost a descriptor.
    pub(super) fn give_back(self: &Arc<Self>) {
        let nodes = self.tree.surplus();
        if nodes.is_empty() || self.pruning.ask(&nodes) {
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
            if let Some(shown) = server.now().serve.gate.show(&name)
                && let Err(error) = notifier.inval_entry(INodeNo(parent.0), &shown.name)
            {
                log::debug!("the kernel does not forget: {error}");
            }
        }
    }
}

/// `struct fuse_out_header` without a request, `struct fuse_notify_prune_out`, and the numbers of the nodes.
fn message(nodes: &[NodeId]) -> Vec<u8> {
    const HEAD: usize = 32;
    let len = HEAD + 8 * nodes.len();
    let mut message = Vec::with_capacity(len);
    message.extend((len as u32).to_ne_bytes());
    message.extend(CODE.to_ne_bytes());
    message.extend(0u64.to_ne_bytes());
    message.extend((nodes.len() as u32).to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(0u64.to_ne_bytes());
    nodes.iter().for_each(|node| message.extend(node.0.to_ne_bytes()));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_how_long_it_is_and_how_many_nodes_it_has() {
        let message = message(&[NodeId(7), NodeId(1 << 63)]);
        assert_eq!(message.len(), 48);
        let word = |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().unwrap());
        assert_eq!([0, 4, 16, 20].map(word), [48, 9, 2, 0]);
        assert_eq!(message[40..], (1u64 << 63).to_ne_bytes());
    }
}
