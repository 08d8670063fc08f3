//! The descriptors of inodes: which ones stay open, how long, and which ones are closed first.
//!
//! Three kinds of descriptors stay open between requests. *Spare* descriptors only save a later request the call to open: the
//! oldest one is closed when there are too many, and all are closed when the process has reached its limit. Descriptors without
//! which an inode could not be used are charged to a user (`budget`), as are those of files that the server reads and writes itself
//! (`file`).

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};

use namegate_sys::handle;
use namegate_sys::open::again;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::fstat;
use parking_lot::Mutex;

use super::Result;
use super::budget::{Budget, DescriptorShare};
use super::cached_version::CachedVersion;
use super::inode::NodeTable;
use super::node::{InodeRef, TrackedNode};
use crate::state::NodeRecord;

/// A descriptor of an inode.
#[derive(Debug)]
pub(super) struct Descriptor {
    fd: OwnedFd,
    /// The user to whom it is charged, if any.
    share: OnceLock<DescriptorShare>,
}

impl Descriptor {
    pub(super) fn new(fd: OwnedFd) -> Arc<Self> {
        Arc::new(Self { fd, share: OnceLock::new() })
    }

    pub(super) fn is_counted(&self) -> bool {
        self.share.get().is_some()
    }

    /// Charges it. Of two concurrent charges the first one applies.
    pub(super) fn count(&self, share: DescriptorShare) {
        let _ = self.share.set(share);
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Deref for Descriptor {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}

/// How long the descriptor of a node stays open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stay {
    /// Until another descriptor needs the room.
    #[default]
    Spare,
    /// Until no client has the file open: it was removed, and its file system has renamed it until then.
    UntilClosed,
    /// Until the kernel forgets the node: the file was removed, or it has no handle.
    UntilForgotten,
}

/// The descriptors of a node, and how it is used.
#[derive(Debug, Default)]
pub(super) struct NodeDescriptors {
    /// The record for a successor. Declared before the descriptor, which is closed after it.
    record: Option<Box<NodeRecord>>,
    /// The most recent descriptor, if it is still open.
    last: Weak<Descriptor>,
    /// The most recent descriptor, kept open for later requests.
    kept: Option<Arc<Descriptor>>,
    /// Number of times clients have the file open.
    pub(super) opens: u32,
    /// Number of write-back errors reported to any client.
    pub(super) write_errors: u16,
    pub(super) stay: Stay,
    /// Whether its descriptor was used since this flag was last cleared.
    pub(super) was_used: bool,
    /// The version of which the kernel has a cache that it may keep. Boxed, because few nodes have one.
    pub(super) cached: Option<Box<CachedVersion>>,
}

impl NodeDescriptors {
    pub(super) fn recorded(record: Option<NodeRecord>) -> Self {
        Self { record: record.map(Box::new), ..Self::default() }
    }

    /// For a node that is referenced by this descriptor.
    pub(super) fn held(fd: Arc<Descriptor>, record: Option<NodeRecord>) -> Self {
        let mut opened = Self { stay: Stay::UntilForgotten, ..Self::recorded(record) };
        opened.keep(fd);
        opened
    }

    pub(super) fn record(&self) -> Option<&NodeRecord> {
        self.record.as_deref()
    }

    /// Records the user to whom the descriptor is charged.
    pub(super) fn note_charge(&self, uid: u32) {
        if let Some(record) = &self.record {
            record.set_uid(Some(uid));
        }
    }

    pub(super) fn keep(&mut self, fd: Arc<Descriptor>) {
        if let Some(record) = &self.record {
            record.set_fd(Some(fd.as_raw_fd()));
        }
        self.last = Arc::downgrade(&fd);
        self.kept = Some(fd);
    }

    pub(super) fn kept(&self) -> Option<&Arc<Descriptor>> {
        self.kept.as_ref()
    }

    /// Removes the kept descriptor.
    pub(super) fn take(&mut self) -> Option<Arc<Descriptor>> {
        if let Some(record) = &self.record {
            record.set_fd(None);
        }
        self.kept.take()
    }

    /// Whether a request is using a descriptor. The kept one does not count.
    pub(super) fn is_in_use(&self) -> bool {
        self.last.strong_count() > usize::from(self.kept.is_some())
    }
}

/// The owner of a spare descriptor.
pub(super) trait CachedFd: Debug + Send + Sync {
    /// Closes the descriptor, unless it is in use, needed after all, or gone.
    fn give_up(&self);
}

impl CachedFd for TrackedNode {
    fn give_up(&self) {
        // A locked one is being opened, perhaps by this thread.
        let _closed_behind_the_lock = match self.opened.try_lock() {
            Some(mut opened) if opened.stay == Stay::Spare => opened.take(),
            _ => None,
        };
    }
}

#[derive(Debug)]
pub(super) struct Spares {
    /// Oldest first.
    queue: Mutex<VecDeque<Weak<dyn CachedFd>>>,
    most: usize,
    budget: Arc<Budget>,
}

impl Spares {
    pub(super) fn new(most: usize, budget: Arc<Budget>) -> Self {
        Self { queue: Mutex::default(), most, budget }
    }

    /// Adds an owner whose descriptor may stay open for now.
    pub(super) fn keep(&self, spare: Weak<dyn CachedFd>) {
        self.queue.lock().push_back(spare);
        self.trim();
    }

    /// Closes the oldest ones until the charged descriptors leave room for the rest.
    pub(super) fn trim(&self) {
        let most = self.most.min(self.budget.available() / 4).min(self.budget.free());
        loop {
            // Closed after the queue is unlocked: the last close of a file can take long.
            let oldest = {
                let mut queue = self.queue.lock();
                if queue.len() <= most {
                    return;
                }
                queue.pop_front()
            };
            if let Some(oldest) = oldest.and_then(|spare| spare.upgrade()) {
                oldest.give_up();
            }
        }
    }

    fn give_up_all(&self) {
        let all = std::mem::take(&mut *self.queue.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|spare| spare.give_up());
    }
}

impl NodeTable {
    /// A descriptor of the node, `O_PATH` except for the root.
    pub(super) fn fd(&self, node: &Arc<TrackedNode>) -> Result<Arc<Descriptor>> {
        let mut opened = node.opened.lock();
        opened.was_used = true;
        if let Some(fd) = opened.last.upgrade() {
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
            (InodeRef::Handle(handle), Some((mount, _))) if node.opened.lock().kept.is_none() => {
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
