//! Inodes without a file handle, each held by a descriptor: charged to users, and released when there are many.
//!
//! The kernel caches inodes as long as it has memory. Where each inode costs a descriptor, the server asks the kernel to forget
//! the least recently used ones ([`Passthrough::surplus`](super::Passthrough::surplus)). The kernel keeps inodes that are in use: open files, working
//! directories, and the parents of what it keeps.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::node::{InodeRef, NodeId, TrackedNode};

/// New inodes between two requests to the kernel to forget some.
const BETWEEN: usize = 32;
/// The nodes that are held by descriptors.
#[derive(Debug, Default)]
pub(super) struct HeldNodes {
    /// Ids and numbers, least recently used first. Some have been forgotten.
    queue: Mutex<VecDeque<(NodeId, u32)>>,
    count: AtomicUsize,
    /// Number of new inodes since the kernel was last asked, with a surcharge for each refusal.
    come: AtomicUsize,
    /// Number of inodes ever added.
    made: AtomicU32,
}

impl HeldNodes {
    /// The numbers of the server with the number `server`, counted from 0, begin here: they rarely meet those of its predecessors.
    pub(super) fn for_server(server: u64) -> Self {
        Self { made: AtomicU32::new((server << 20) as u32), ..Self::default() }
    }

    /// Adds an inode to which a predecessor has given this number.
    pub(super) fn take_over(&self, id: NodeId, number: u32) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.queue.lock().push_back((id, number));
    }

    /// Adds an inode and returns its number.
    pub(super) fn add(&self, id: NodeId) -> u32 {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.come.fetch_add(1, Ordering::Relaxed);
        let number = self.made.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.queue.lock().push_back((id, number));
        number
    }

    /// Records that a user was refused a descriptor: the kernel is then asked at once, for more inodes.
    pub(super) fn refused(&self) {
        const AS_IF: usize = 8 * BETWEEN;
        self.come.fetch_add(AS_IF, Ordering::Relaxed);
    }

    /// Removes a node from the count, if it was held by a descriptor.
    pub(super) fn remove(&self, node: &TrackedNode) {
        if matches!(node.hold, InodeRef::Fd(_)) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Number of new inodes since this was last asked; 0 if they are too few.
    pub(super) fn take_come(&self) -> usize {
        if self.come.load(Ordering::Relaxed) < BETWEEN { 0 } else { self.come.swap(0, Ordering::Relaxed) }
    }

    /// Number of nodes that are held by descriptors.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Adds entries to the end of the queue.
    pub(super) fn put_back(&self, entries: Vec<(NodeId, u32)>) {
        self.queue.lock().extend(entries);
    }

    /// Removes and returns the first `most` entries of the queue.
    pub(super) fn take(&self, most: usize) -> Vec<(NodeId, u32)> {
        let mut queue = self.queue.lock();
        let most = most.min(queue.len());
        queue.drain(..most).collect()
    }
}
