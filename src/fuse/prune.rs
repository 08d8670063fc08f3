//! Having the kernel forget inodes that it keeps for later, where each costs a descriptor.
//!
//! From Linux 6.18 on it can be asked for that (FUSE_NOTIFY_PRUNE of linux/fuse.h). `fuser` does not know this message, so it
//! is written to the device as it is. It waits for nobody: the kernel drops the entries that are not in use
//! (d_prune_aliases), and the requests to forget their inodes (FUSE_FORGET) come before any other that a server reads next.
//!
//! Before, the kernel can be made to drop entries by their names only (FUSE_NOTIFY_INVAL_ENTRY), those in use among them. That
//! is done with files that nobody has open: a directory that lost its entry would be no path any more for whoever is inside.
//! The kernel waits for other requests there, so that a thread of its own does it.

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

/// Where the kernel is asked to forget.
#[derive(Debug, Default)]
pub(super) struct Pruning {
    device: OnceLock<OwnedFd>,
    /// Set when the kernel does not know the message.
    is_unknown: AtomicBool,
    /// To the thread that makes the kernel forget, where it cannot be asked.
    forcing: OnceLock<Option<SyncSender<Vec<NodeId>>>>,
}

impl Pruning {
    /// Asks on `device` from now on.
    pub(super) fn ask_on(&self, device: OwnedFd) {
        // A server has one mount.
        let _ = self.device.set(device);
    }

    /// Asks the kernel to forget `nodes`, those that it has no use for right now; whether it can be asked.
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
    /// Has the kernel forget what costs too much.
    pub(super) fn give_back(self: &Arc<Self>) {
        let nodes = self.tree.surplus();
        if nodes.is_empty() || self.pruning.ask(&nodes) {
            return;
        }
        let start = || {
            /// Batches that wait, at most. Those that find no room come round again.
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

/// Makes the kernel forget the nodes that come, until there is no server any more.
fn force(server: &Weak<Server>, nodes: &Receiver<Vec<NodeId>>) {
    for nodes in nodes {
        let Some(server) = server.upgrade() else { return };
        let Some(notifier) = server.notifier() else { continue };
        for (parent, name) in nodes.into_iter().filter_map(|node| server.tree.place(node)) {
            // Under other spellings it may be kept still; it is the stored one as a rule.
            if let Some(shown) = server.now().terms.gate.show(&name)
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
