//! A queue of what the kernel is made to forget although it may be in use. Each waits for other requests, so a thread of its own sends them.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::passthrough::NodeId;

/// What the kernel is made to forget although it may be in use.
#[derive(Debug)]
pub(super) enum ForcedDrop {
    /// Files that nobody has open.
    Nodes(Vec<NodeId>),
    /// A name in a directory.
    Name(NodeId, OsString),
}

/// The queue; without a thread before the first drop, and where none can be started.
#[derive(Debug, Default)]
pub(super) struct ForcedDrops(OnceLock<Option<SyncSender<ForcedDrop>>>);

impl ForcedDrops {
    /// Queues a drop, or leaves it out if too many are waiting. The first one starts a thread that does `work`.
    pub(super) fn send(&self, dropped: ForcedDrop, work: impl FnOnce(Receiver<ForcedDrop>) + Send + 'static) {
        /// Maximum number of waiting drops.
        const WAITING: usize = 64;
        let start = || {
            let (sender, receiver) = sync_channel(WAITING);
            let started = thread::Builder::new().name("forgetting".into()).spawn(move || work(receiver));
            let started =
                started.inspect_err(|error| log::warn!("the kernel is not made to forget: {error}"));
            started.ok().map(|_| sender)
        };
        if let Some(sender) = self.0.get_or_init(start) {
            let _ = sender.try_send(dropped);
        }
    }
}
