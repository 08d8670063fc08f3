//! Nodes that the kernel should forget, and the descriptors for which users are charged.

use super::inode::NodeTable;
use super::node::InodeRef;
use super::{NodeId, Passthrough, Result};

/// Inodes examined for each new inode: all are examined before a quarter as many new ones have arrived.
const FOR_EACH: usize = 4;

impl NodeTable {
    /// Nodes that the kernel should forget, if too many are held by descriptors.
    fn surplus(&self) -> Vec<NodeId> {
        let held = &self.held;
        let come = held.take_come();
        if come == 0 {
            return Vec::new();
        }
        let (count, available) = (held.count(), self.budget.available());
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
        held.put_back(known);
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
