//! The descriptors of inodes: which ones stay open, how long, and which ones are closed first.
//!
//! Three kinds of descriptors stay open between requests. *Spare* descriptors only save a later request the call to open: the
//! oldest one is closed when there are too many, and all are closed when the process has reached its limit. Descriptors without
//! which an inode could not be used are charged to a user (`budget`), as are those of files that the server reads and writes itself
//! (`file`).

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use namegate_sys::handle;
use namegate_sys::open::again;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::fstat;

use super::Result;
use super::budget::DescriptorShare;
use super::descriptor::{Descriptor, Stay};
use super::inode::NodeTable;
use super::node::{InodeRef, TrackedNode};

impl NodeTable {
    /// A descriptor of the node, `O_PATH` except for the root.
    pub(super) fn fd(&self, node: &Arc<TrackedNode>) -> Result<Arc<Descriptor>> {
        let mut opened = node.opened.lock();
        opened.was_used = true;
        if let Some(fd) = opened.last() {
            return Ok(fd);
        }
        let (InodeRef::Handle(handle), Some((mount, _))) = (&node.hold, &self.mount) else {
            return Err(Errno::ESTALE);
        };
        let open = || handle::open(mount, handle, OFlag::O_PATH | OFlag::O_NOFOLLOW);
        let fd = Descriptor::new(self.with_room(open)?);
        opened.keep(fd.clone());
        drop(opened);
        self.keep_spare(node);
        Ok(fd)
    }

    pub(super) fn keep_spare(&self, node: &Arc<TrackedNode>) {
        let spare: Weak<TrackedNode> = Arc::downgrade(node);
        self.spares.keep(spare);
    }

    /// Opens the node with `flags`.
    pub(super) fn open(&self, node: &Arc<TrackedNode>, flags: OFlag) -> Result<OwnedFd> {
        match (&node.hold, &self.mount) {
            // Faster than through a descriptor.
            (InodeRef::Handle(handle), Some((mount, _))) if node.opened.lock().kept().is_none() => {
                self.with_room(|| handle::open(mount, handle, flags))
            }
            _ => {
                let held = self.fd(node)?;
                self.with_room(|| again(&*held, flags))
            }
        }
    }

    /// Calls `open`; if the process has reached its limit of descriptors, closes the spare ones and calls it again.
    pub(super) fn with_room<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        match open() {
            Err(Errno::EMFILE) => {
                self.budget.read_limit();
                self.spares.give_up_all();
                open()
            }
            result => result,
        }
    }

    /// Charges a descriptor that stays open to the user `uid`.
    ///
    /// # Errors
    /// ENFILE for a user who is charged for too many.
    pub(super) fn charge(&self, uid: u32) -> Result<DescriptorShare> {
        let share = self.budget.charge(uid).inspect_err(|_| self.held.refused())?;
        self.spares.trim();
        Ok(share)
    }

    /// Keeps a descriptor of a removed node, if the user `uid` may be charged for it. Otherwise clients that have it open usually
    /// still use it by its handle.
    pub(super) fn keep_removed(&self, uid: u32, node: &TrackedNode, fd: Arc<Descriptor>, stay: Stay) {
        if !fd.is_counted() {
            let Ok(share) = self.charge(uid) else { return };
            fd.count(share);
        }
        let _closed_behind_the_lock = {
            let mut opened = node.opened.lock();
            // The last client may have closed it meanwhile.
            if stay == Stay::UntilClosed && opened.opens == 0 {
                return;
            }
            let before = opened.take();
            opened.note_charge(uid);
            opened.keep(fd);
            opened.stay = stay;
            before
        };
    }

    /// References a node without a handle again, by the descriptor that `find` returns, if that is the same file.
    pub(super) fn hold_again(&self, node: &TrackedNode, find: impl FnOnce() -> Result<OwnedFd>) {
        if matches!(node.hold, InodeRef::Fd(_))
            && let Ok(fd) = find()
            && fstat(&fd).is_ok_and(|stat| node.is(&stat))
        {
            node.opened.lock().keep(Descriptor::new(fd));
        }
    }
}

#[cfg(test)]
mod tests;
