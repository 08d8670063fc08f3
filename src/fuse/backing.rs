//! File contents that the kernel reads and writes by itself, without this process (fuse-passthrough.rst of the kernel).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{BackingId, FopenFlags, InitFlags, KernelConfig};

use crate::daemon::metrics::Metrics;
use crate::passthrough::{Fh, NodeId, Passthrough};

/// How an opened file is answered: with a backing file that the kernel reads and writes by itself, or without one.
pub(super) struct Opened {
    pub(super) backing: Option<Arc<BackingId>>,
    pub(super) flags: FopenFlags,
}

/// What a node's open files have in common.
#[derive(Debug)]
struct Lent {
    /// `None` for a node whose file cannot be had that way.
    id: Option<Arc<BackingId>>,
    /// How many files of it are open.
    opens: usize,
    /// Set when it must not outlast them.
    is_revoked: bool,
}

type Ids = HashMap<NodeId, Lent>;

/// The backing files that the kernel reads and writes by itself.
#[derive(Debug)]
pub(super) struct Backing {
    /// Whether the kernel does that at all.
    is_offered: AtomicBool,
    /// By node, from its first open to its forgetting. An inode is open either way, never both: the kernel refuses to mix.
    ids: Mutex<Ids>,
    /// How many of them the kernel has.
    lent: AtomicUsize,
    was_said: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Backing {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        let (is_offered, was_said) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { is_offered, ids: Mutex::default(), lent: AtomicUsize::new(0), was_said, metrics }
    }

    /// Whether the kernel takes file contents over.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Relaxed)
    }

    /// How many files the kernel has taken over at the moment.
    pub(super) fn lent(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }

    /// Asks the kernel to take file contents over; one line in the log says so if it does not.
    pub(super) fn negotiate(&self, config: &mut KernelConfig) {
        // The backing file system itself must not be stacked on another one then: the kernel counts to two.
        let is_offered = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        self.is_offered.store(is_offered, Ordering::Relaxed);
        if !is_offered {
            log::warn!("file contents go through this process: this kernel does not take them over");
        }
    }

    /// How a file is answered that was opened as `fh`; it is closed again when that is an error. `register` makes its backing
    /// file known to the kernel.
    pub(super) fn open(
        &self,
        tree: &Passthrough,
        node: NodeId,
        fh: Fh,
        flags: i32,
        register: impl FnOnce(&OwnedFd) -> io::Result<BackingId>,
    ) -> nix::Result<Opened> {
        let mut answer = match tree.has_flush(node) {
            true => FopenFlags::empty(),
            // Spares a request at every close.
            false => FopenFlags::FOPEN_NOFLUSH,
        };
        let backing = self.id(node, || tree.lend(node, register));
        if backing.is_none() {
            self.metrics.fell_back();
        }
        // The kernel takes the file over as it is. Whether it may be written at all (chattr(1) +i and +a, a read-only mount, a
        // running program) only open(2) tells.
        if (backing.is_none() || flags & libc::O_ACCMODE != libc::O_RDONLY)
            && let Err(errno) = tree.open_now(fh)
        {
            self.release(tree, node, fh);
            return Err(errno);
        }
        if backing.is_none() && flags & libc::O_DIRECT != 0 {
            answer |= FopenFlags::FOPEN_DIRECT_IO;
        }
        Ok(Opened { backing, flags: answer })
    }

    /// The backing file of a node that is opened, if the kernel can have it; `register` makes it known.
    fn id(
        &self,
        node: NodeId,
        register: impl FnOnce() -> io::Result<Option<BackingId>>,
    ) -> Option<Arc<BackingId>> {
        if !self.is_offered() {
            return None;
        }
        if let Some(lent) = self.lock().get_mut(&node) {
            lent.opens += 1;
            return lent.id.clone();
        }
        // Not under the lock: others are served meanwhile. Of two that are made at once the first counts for both.
        let made = register().unwrap_or_else(|error| {
            if !self.was_said.swap(true, Ordering::Relaxed) {
                log::warn!(
                    "file contents go through this process: the kernel cannot take them over: {error}"
                );
            }
            None
        });
        let made = made.map(Arc::new);
        let mut ids = self.lock();
        let lent = ids.entry(node).or_insert_with(|| {
            self.lent.fetch_add(made.is_some().into(), Ordering::Relaxed);
            Lent { id: made.clone(), opens: 0, is_revoked: false }
        });
        lent.opens += 1;
        lent.id.clone()
    }

    /// Closes the file that was opened as `fh`.
    pub(super) fn release(&self, tree: &Passthrough, node: NodeId, fh: Fh) {
        tree.release(fh);
        let _id = {
            let mut ids = self.lock();
            let Some(lent) = ids.get_mut(&node) else { return };
            lent.opens = lent.opens.saturating_sub(1);
            if lent.opens == 0 && lent.is_revoked { self.remove(&mut ids, node) } else { None }
        };
    }

    /// The kernel must not change the content of `node` by itself any more. Files that are open go on as they are.
    pub(super) fn revoke(&self, node: NodeId) {
        let _id = {
            let mut ids = self.lock();
            let Some(lent) = ids.get_mut(&node) else { return };
            lent.is_revoked = true;
            if lent.opens == 0 { self.remove(&mut ids, node) } else { None }
        };
    }

    /// Forgets the file of `node` if `is_forgotten` says that the node is. Under one lock, so that no file that is opened
    /// meanwhile loses what it has just been given.
    pub(super) fn forget(&self, node: NodeId, is_forgotten: impl FnOnce() -> bool) {
        // Its end is a system call of its own, and waits until the lock is free.
        let _id = {
            let mut ids = self.lock();
            if is_forgotten() { self.remove(&mut ids, node) } else { None }
        };
    }

    fn remove(&self, ids: &mut Ids, node: NodeId) -> Option<Lent> {
        let removed = ids.remove(&node)?;
        self.lent.fetch_sub(removed.id.is_some().into(), Ordering::Relaxed);
        Some(removed)
    }

    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
