//! The descriptors of inodes: which are kept, how long, and what is closed when others are needed.
//!
//! Three kinds of descriptors stay open between requests. Those that only save the next request the work of opening are
//! *spare*: the oldest is closed when there are too many, and all are when the process can open no more. Those without which
//! an inode would be out of reach are counted for a user (`budget`). Those of files that the server reads and writes itself
//! are counted likewise (`file`).

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::fstat;
use nix::sys::time::TimeSpec;
use parking_lot::Mutex;

use super::Result;
use super::budget::{Budget, Share};
use super::inode::{Hold, Node, Table};
use crate::sys::handle;
use crate::sys::open::again;

/// A descriptor of an inode.
#[derive(Debug)]
pub(super) struct Descriptor {
    fd: OwnedFd,
    /// For whom it is counted, if it is.
    share: OnceLock<Share>,
}

impl Descriptor {
    pub(super) fn new(fd: OwnedFd) -> Arc<Self> {
        Arc::new(Self { fd, share: OnceLock::new() })
    }

    pub(super) fn is_counted(&self) -> bool {
        self.share.get().is_some()
    }

    /// Counts it from now on. Of two at once the first counts.
    pub(super) fn count(&self, share: Share) {
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

/// How long a node's descriptor is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stay {
    /// Until others are needed more.
    #[default]
    Spare,
    /// Until nobody has the file open: it was removed, and its file system keeps it under another name meanwhile.
    UntilClosed,
    /// Until the kernel forgets the node: it was removed, or there is no handle.
    UntilForgotten,
}

/// What is known of a node's descriptors, and of how it is used.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// The descriptor that was made last, if it still exists.
    last: Weak<Descriptor>,
    /// The same, kept open for the next request.
    kept: Option<Arc<Descriptor>>,
    /// How many files of the node clients have open.
    pub(super) opens: u32,
    /// How many failures to write the file back were reported, whoever had it open.
    pub(super) write_errors: u16,
    pub(super) stay: Stay,
    /// Whether its descriptor was asked for since this was last cleared.
    pub(super) was_used: bool,
    /// Of a directory: when it was changed last before it was listed last, and how its entries were seen then. Boxed, because
    /// most nodes are files.
    pub(super) listed: Option<Box<(TimeSpec, u64)>>,
}

impl Opened {
    /// Of a node that is held by this descriptor.
    pub(super) fn held(fd: Arc<Descriptor>) -> Self {
        let mut opened = Self { stay: Stay::UntilForgotten, ..Self::default() };
        opened.keep(fd);
        opened
    }

    pub(super) fn keep(&mut self, fd: Arc<Descriptor>) {
        self.last = Arc::downgrade(&fd);
        self.kept = Some(fd);
    }

    pub(super) fn kept(&self) -> Option<&Arc<Descriptor>> {
        self.kept.as_ref()
    }

    /// Takes the descriptor away, whatever it is kept for.
    pub(super) fn take(&mut self) -> Option<Arc<Descriptor>> {
        self.kept.take()
    }

    /// Whether a request uses a descriptor right now. What is kept does not count.
    pub(super) fn is_in_use(&self) -> bool {
        self.last.strong_count() > usize::from(self.kept.is_some())
    }
}

/// What holds a descriptor that others may be opened in place of.
pub(super) trait Spare: Debug + Send + Sync {
    /// Closes the descriptor, unless it is in use, needed after all, or gone.
    fn give_up(&self);
}

impl Spare for Node {
    fn give_up(&self) {
        // One that is locked is being opened right now, perhaps by this very thread.
        let _closed_behind_the_lock = match self.opened.try_lock() {
            Some(mut opened) if opened.stay == Stay::Spare => opened.take(),
            _ => None,
        };
    }
}

/// All spare descriptors.
#[derive(Debug)]
pub(super) struct Spares {
    /// Those that were made first in front.
    queue: Mutex<VecDeque<Weak<dyn Spare>>>,
    most: usize,
    budget: Arc<Budget>,
}

impl Spares {
    pub(super) fn new(most: usize, budget: Arc<Budget>) -> Self {
        Self { queue: Mutex::default(), most, budget }
    }

    /// Lets `spare` keep its descriptor for a while.
    pub(super) fn keep(&self, spare: Weak<dyn Spare>) {
        self.queue.lock().push_back(spare);
        self.trim();
    }

    /// Closes the oldest, until there are no more than there may be beside those that are counted.
    pub(super) fn trim(&self) {
        let most = self.most.min(self.budget.available() / 4).min(self.budget.free());
        loop {
            // Closed when the queue is free again: the last close of a file can take its time.
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

impl Table {
    /// A descriptor of the node; `O_PATH`, but the root's.
    pub(super) fn fd(&self, node: &Arc<Node>) -> Result<Arc<Descriptor>> {
        let mut opened = node.opened.lock();
        opened.was_used = true;
        if let Some(fd) = opened.last.upgrade() {
            return Ok(fd);
        }
        let (Hold::Handle(handle), Some((mount, _))) = (&node.hold, &self.mount) else {
            return Err(Errno::ESTALE);
        };
        let open = || handle::open(mount, handle, OFlag::O_PATH | OFlag::O_NOFOLLOW);
        let fd = Descriptor::new(self.with_room(open)?);
        opened.keep(fd.clone());
        drop(opened);
        self.keep_spare(node);
        Ok(fd)
    }

    fn keep_spare(&self, node: &Arc<Node>) {
        let spare: Weak<Node> = Arc::downgrade(node);
        self.spares.keep(spare);
    }

    /// Opens the node anew.
    pub(super) fn open(&self, node: &Arc<Node>, flags: OFlag) -> Result<OwnedFd> {
        match (&node.hold, &self.mount) {
            // Shorter than by way of a descriptor.
            (Hold::Handle(handle), Some((mount, _))) if node.opened.lock().kept.is_none() => {
                self.with_room(|| handle::open(mount, handle, flags))
            }
            _ => {
                let held = self.fd(node)?;
                self.with_room(|| again(&*held, flags))
            }
        }
    }

    /// What `open` opens. When this process can have no more descriptors open, those that are spare are closed for it: what
    /// clients have open comes first.
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

    /// Counts a descriptor that is going to stay for the user `uid`.
    ///
    /// # Errors
    /// ENFILE for a user who has too many.
    pub(super) fn charge(&self, uid: u32) -> Result<Share> {
        let share = self.budget.charge(uid).inspect_err(|_| self.held.refused())?;
        self.spares.trim();
        Ok(share)
    }

    /// Keeps a removed node within reach, if there is room for that among what is counted for the user `uid`. If there is
    /// none, who has it open mostly reaches it by its handle.
    pub(super) fn keep_removed(&self, uid: u32, node: &Node, fd: Arc<Descriptor>, stay: Stay) {
        if !fd.is_counted() {
            let Ok(share) = self.charge(uid) else { return };
            fd.count(share);
        }
        let _closed_behind_the_lock = {
            let mut opened = node.opened.lock();
            // The last one may have closed it meanwhile.
            if stay == Stay::UntilClosed && opened.opens == 0 {
                return;
            }
            let before = opened.take();
            opened.keep(fd);
            opened.stay = stay;
            before
        };
    }

    /// Lets a node be held again that has no handle, by what `find` finds if it is the same file.
    pub(super) fn hold_again(&self, node: &Node, find: impl FnOnce() -> Result<OwnedFd>) {
        if matches!(node.hold, Hold::Fd(_))
            && let Ok(fd) = find()
            && fstat(&fd).is_ok_and(|stat| node.is(&stat))
        {
            node.opened.lock().keep(Descriptor::new(fd));
        }
    }
}

#[cfg(test)]
mod tests;
