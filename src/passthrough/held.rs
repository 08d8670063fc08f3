//! Inodes without a file handle, each held by a descriptor: charged to users, and released when there are many.
//!
//! The kernel caches inodes as long as it has memory. Where each inode costs a descriptor, the server asks the kernel to forget
//! the least recently used ones ([`Passthrough::surplus`]). The kernel keeps inodes that are in use: open files, working
//! directories, and the parents of what it keeps.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::inode::NodeTable;
use super::node::{InodeRef, TrackedNode};
use super::{NodeId, Passthrough, Result};

/// New inodes between two requests to the kernel to forget some.
const BETWEEN: usize = 32;
/// Inodes examined for each new inode: all are examined before a quarter as many new ones have arrived.
const FOR_EACH: usize = 4;

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

    /// Removes and returns the first `most` entries of the queue.
    fn take(&self, most: usize) -> Vec<(NodeId, u32)> {
        let mut queue = self.queue.lock();
        let most = most.min(queue.len());
        queue.drain(..most).collect()
    }
}

impl NodeTable {
    /// Nodes that the kernel should forget, if too many are held by descriptors.
    fn surplus(&self) -> Vec<NodeId> {
        let held = &self.held;
        if held.come.load(Ordering::Relaxed) < BETWEEN {
            return Vec::new();
        }
        let come = held.come.swap(0, Ordering::Relaxed);
        let (count, available) = (held.count.load(Ordering::Relaxed), self.budget.available());
        let (is_many, is_too_many) = (count > available / 8, count > available / 4);
        // Forgotten nodes leave the queue here.
        let (mut known, mut surplus) = (Vec::new(), Vec::new());
        // Lock order: a thread that adds to the queue has locked the table, so the table is not locked while the queue is.
        for (id, number) in held.take(FOR_EACH * come) {
            let Ok(node) = self.node(id) else { continue };
            if !matches!(node.hold, InodeRef::Fd(its) if its == number) {
                continue;
            }
            known.push((id, number));
            if is_many {
                let mut opened = node.opened.lock();
                let was_used = std::mem::take(&mut opened.was_used);
                // Recently used nodes are spared unless there are too many. The kernel keeps nodes that are in use.
                if opened.opens == 0 && (is_too_many || !was_used) {
                    surplus.push(id);
                }
            }
        }
        // Nodes that the kernel keeps are examined again later.
        held.queue.lock().extend(known);
        surplus
    }
}

impl Passthrough {
    /// The least recently used nodes that cost a descriptor each, if there are too many. The caller asks the kernel to forget
    /// them, after each lookup and after a user was refused a descriptor. Usually there are none.
    pub fn surplus(&self) -> Vec<NodeId> {
        self.nodes.surplus()
    }

    /// Charges the descriptor of `node` to the user `uid`, unless it is already charged or needs none.
    ///
    /// # Errors
    /// ENFILE for a user who is charged for too many descriptors.
    pub fn charge(&self, node: NodeId, uid: u32) -> Result<()> {
        let node = self.nodes.node(node)?;
        if node.id == NodeId::ROOT || matches!(node.hold, InodeRef::Handle(_)) {
            return Ok(());
        }
        let Some(fd) = node.opened.lock().kept().cloned() else { return Ok(()) };
        if !fd.is_counted() {
            fd.count(self.nodes.charge(uid)?);
            node.opened.lock().note_charge(uid);
        }
        Ok(())
    }

    /// Checks that the user `uid` may be charged for one more descriptor.
    ///
    /// # Errors
    /// ENFILE for a user who is charged for too many descriptors.
    pub fn check_share(&self, uid: u32) -> Result<()> {
        self.check_shares(uid, 1)
    }

    fn check_shares(&self, uid: u32, times: usize) -> Result<()> {
        self.nodes.budget.check(uid, times).inspect_err(|_| self.nodes.held.refused())
    }

    /// Checks the share for a new entry that will be opened `opens` times, if each needs a descriptor. Fails before the entry is
    /// created, because an entry without a descriptor could not be used.
    pub(super) fn check_share_of_entry(&self, uid: u32, opens: usize) -> Result<()> {
        if self.nodes.has_handles() { Ok(()) } else { self.check_shares(uid, 1 + opens) }
    }
}
