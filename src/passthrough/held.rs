//! Inodes that are held by descriptors, because there is no handle: counted for users, and given back when there are many.
//!
//! The kernel knows an inode until it has no use for it any more, and it has use for all that it has memory for. Where each
//! costs a descriptor it is asked to forget those that were not used for the longest time ([`Passthrough::surplus`]). It
//! keeps what is in use: what is open, somebody's working directory, or the parent of what it keeps.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::inode::{Hold, Node, Table};
use super::{NodeId, Passthrough, Result};

/// So many new ones between two times that the kernel is asked.
const BETWEEN: usize = 32;
/// So many are looked at for each that has come: enough to go round all of them before a quarter as many have come, however
/// many of them cannot be given back.
const FOR_EACH: usize = 4;

/// The nodes that are held by descriptors.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Those that were not used for the longest time in front, by id and number. Some are not known any more.
    queue: Mutex<VecDeque<(NodeId, u32)>>,
    count: AtomicUsize,
    /// How many have come since the kernel was asked last, with some for each that was refused.
    come: AtomicUsize,
    /// How many there have been.
    made: AtomicU32,
}

impl Held {
    /// Takes a new one in, and gives it a number.
    pub(super) fn add(&self, id: NodeId) -> u32 {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.come.fetch_add(1, Ordering::Relaxed);
        let number = self.made.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.queue.lock().push_back((id, number));
        number
    }

    /// Somebody was refused a descriptor: the next time the kernel is asked at once, for more.
    pub(super) fn refused(&self) {
        const AS_IF: usize = 8 * BETWEEN;
        self.come.fetch_add(AS_IF, Ordering::Relaxed);
    }

    /// Strikes off a node that is not known any more, if it was held by a descriptor.
    pub(super) fn remove(&self, node: &Node) {
        if matches!(node.hold, Hold::Fd(_)) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes the first `most` out of the queue.
    fn take(&self, most: usize) -> Vec<(NodeId, u32)> {
        let mut queue = self.queue.lock();
        let most = most.min(queue.len());
        queue.drain(..most).collect()
    }
}

impl Table {
    /// Nodes that the kernel should forget, if there are too many that are held by descriptors.
    fn surplus(&self) -> Vec<NodeId> {
        let held = &self.held;
        if held.come.load(Ordering::Relaxed) < BETWEEN {
            return Vec::new();
        }
        let come = held.come.swap(0, Ordering::Relaxed);
        let (count, available) = (held.count.load(Ordering::Relaxed), self.budget.available());
        let (is_many, is_too_many) = (count > available / 8, count > available / 4);
        // Behind those that are known the queue has some that were forgotten, which go by and by.
        let (mut known, mut surplus) = (Vec::new(), Vec::new());
        // The table is not asked under the lock of the queue: whoever adds to the queue has locked the table.
        for (id, number) in held.take(FOR_EACH * come) {
            let Ok(node) = self.node(id) else { continue };
            if !matches!(node.hold, Hold::Fd(its) if its == number) {
                continue;
            }
            known.push((id, number));
            if is_many {
                let mut opened = node.opened.lock();
                let was_used = std::mem::take(&mut opened.was_used);
                // What was used lately is spared, as long as that goes. What is in use the kernel spares.
                if opened.opens == 0 && (is_too_many || !was_used) {
                    surplus.push(id);
                }
            }
        }
        // What is in use, and what the kernel does not give back, comes round again.
        held.queue.lock().extend(known);
        surplus
    }
}

impl Passthrough {
    /// Nodes that cost a descriptor each, of which there are too many, and that were not used for the longest time: the
    /// kernel should be asked to forget them. Mostly there are none. To be asked for after each lookup, and when a user was
    /// refused a descriptor.
    pub fn surplus(&self) -> Vec<NodeId> {
        self.nodes.surplus()
    }

    /// Counts what holds `node` for the user `uid`, unless it is counted or costs nothing.
    ///
    /// # Errors
    /// ENFILE for a user who has too many descriptors of this process.
    pub fn charge(&self, node: NodeId, uid: u32) -> Result<()> {
        let node = self.nodes.node(node)?;
        if node.id == NodeId::ROOT || matches!(node.hold, Hold::Handle(_)) {
            return Ok(());
        }
        let Some(fd) = node.opened.lock().kept().cloned() else { return Ok(()) };
        if !fd.is_counted() {
            fd.count(self.nodes.charge(uid)?);
        }
        Ok(())
    }

    /// Whether a file can be opened for the user `uid` that costs a descriptor.
    ///
    /// # Errors
    /// ENFILE for a user who has too many of them.
    pub fn check_share(&self, uid: u32) -> Result<()> {
        self.check_shares(uid, 1)
    }

    fn check_shares(&self, uid: u32, times: usize) -> Result<()> {
        self.nodes.budget.check(uid, times).inspect_err(|_| self.nodes.held.refused())
    }

    /// The same for an entry that is going to be made, and opened `opens` times, where each costs a descriptor. It is better
    /// not made than made and not within reach.
    pub(super) fn check_share_of_entry(&self, uid: u32, opens: usize) -> Result<()> {
        if self.nodes.has_handles() { Ok(()) } else { self.check_shares(uid, 1 + opens) }
    }
}
