//! File contents that the kernel reads and writes by itself, without this process (fuse-passthrough.rst of the kernel).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fuser::{BackingId, FopenFlags, InitFlags, KernelConfig};
use parking_lot::Mutex;

use crate::passthrough::{Fh, Forgotten, NodeId, Passthrough};
use crate::telemetry::metrics::Metrics;

/// How an opened file is answered: with a backing file that the kernel reads and writes by itself, or without one.
pub(super) struct Opened {
    pub(super) backing: Option<Arc<BackingId>>,
    pub(super) flags: FopenFlags,
    /// Whether the kernel changes the file by itself from now on, and did not before.
    pub(super) is_first_writer: bool,
}

/// A file that a client opens.
pub(super) struct Opening {
    pub(super) node: NodeId,
    pub(super) fh: Fh,
    /// Those of open(2).
    pub(super) flags: i32,
}

/// What a node's open files have in common.
#[derive(Debug)]
struct Lent {
    /// `None` for a node whose file cannot be had that way.
    id: Option<Arc<BackingId>>,
    /// How many files of it are open.
    opens: usize,
    /// How many of these for writing.
    writers: usize,
    /// Set when it must not outlast them.
    is_revoked: bool,
}

type Ids = HashMap<NodeId, Lent>;

/// The backing files that the kernel reads and writes by itself.
#[derive(Debug)]
pub(super) struct Backing {
    /// Whether the kernel does that at all.
    is_offered: AtomicBool,
    /// By node, from its first open to its forgetting, or to its last close where files that nobody has open must not be held. An inode is open either way, never both: the kernel refuses to mix.
    ids: Mutex<Ids>,
    /// How many of them the kernel has.
    lent: AtomicUsize,
    /// How many files are open for writing.
    writers: AtomicUsize,
    was_said: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Backing {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        let (is_offered, was_said) = (AtomicBool::new(false), AtomicBool::new(false));
        let (lent, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { is_offered, ids: Mutex::default(), lent, writers, was_said, metrics }
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

    /// How a file is answered that was opened; it is closed again when that is an error. `register` makes its backing
    /// file known to the kernel.
    pub(super) fn open(
        &self,
        tree: &Passthrough,
        opening: &Opening,
        register: impl FnOnce(&OwnedFd) -> io::Result<BackingId>,
    ) -> nix::Result<Opened> {
        let Opening { node, fh, flags } = *opening;
        let mut answer = match tree.has_flush(node) {
            true => FopenFlags::empty(),
            // Spares a request at every close.
            false => FopenFlags::FOPEN_NOFLUSH,
        };
        let is_writer = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let (backing, is_first_writer) = self.id(tree, node, is_writer, || tree.lend(node, register));
        if backing.is_none() {
            self.metrics.fell_back();
        }
        // The kernel takes the file over as it is, and does not ask whether it may be written.
        let opened = match backing {
            Some(_) => tree.open_elsewhere(fh),
            None => tree.open_here(fh),
        };
        if let Err(errno) = opened {
            self.release(tree, node, fh);
            return Err(errno);
        }
        if backing.is_none() && flags & libc::O_DIRECT != 0 {
            answer |= FopenFlags::FOPEN_DIRECT_IO;
        }
        let is_first_writer = is_first_writer && backing.is_some();
        Ok(Opened { backing, flags: answer, is_first_writer })
    }

    /// Whether the kernel may change the content of `node` by itself at the moment: by a write(2), of which it knows, or in a
    /// memory map, of which it does not.
    pub(super) fn is_written(&self, node: NodeId) -> bool {
        self.writers.load(Ordering::Acquire) > 0
            && self.ids.lock().get(&node).is_some_and(|lent| lent.writers > 0 && lent.id.is_some())
    }

    /// The backing file of a node that is opened, if the kernel can have it, and whether it is the first one for writing;
    /// `register` makes it known.
    fn id(
        &self,
        tree: &Passthrough,
        node: NodeId,
        is_writer: bool,
        register: impl FnOnce() -> io::Result<Option<BackingId>>,
    ) -> (Option<Arc<BackingId>>, bool) {
        if !self.is_offered() {
            return (None, false);
        }
        if let Some(lent) = self.ids.lock().get_mut(&node) {
            return self.count(lent, is_writer);
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
        // It counts as holding the file.
        let is_revoked = made.is_some() && !tree.may_be_held(node);
        let mut ids = self.ids.lock();
        let lent = ids.entry(node).or_insert_with(|| {
            self.lent.fetch_add(made.is_some().into(), Ordering::Relaxed);
            Lent { id: made.clone(), opens: 0, writers: 0, is_revoked }
        });
        self.count(lent, is_writer)
    }

    /// Counts one more open file.
    fn count(&self, lent: &mut Lent, is_writer: bool) -> (Option<Arc<BackingId>>, bool) {
        lent.opens += 1;
        if is_writer {
            lent.writers += 1;
            self.writers.fetch_add(1, Ordering::AcqRel);
        }
        (lent.id.clone(), is_writer && lent.writers == 1)
    }

    /// Closes the file that was opened as `fh`.
    pub(super) fn release(&self, tree: &Passthrough, node: NodeId, fh: Fh) {
        let was_writer = tree.is_writer(fh);
        let id = {
            let mut ids = self.ids.lock();
            match ids.get_mut(&node) {
                Some(lent) => {
                    lent.opens = lent.opens.saturating_sub(1);
                    if was_writer && lent.writers > 0 {
                        lent.writers -= 1;
                        self.writers.fetch_sub(1, Ordering::AcqRel);
                    }
                    let is_over = lent.opens == 0 && lent.is_revoked;
                    if is_over { self.remove(&mut ids, node) } else { None }
                }
                None => None,
            }
        };
        // When nobody has the file open, nothing holds it any more.
        drop(id);
        tree.release(fh);
    }

    /// The kernel must not change the content of `node` by itself any more. Files that are open go on as they are.
    pub(super) fn revoke(&self, node: NodeId) {
        let _id = {
            let mut ids = self.ids.lock();
            let Some(lent) = ids.get_mut(&node) else { return };
            lent.is_revoked = true;
            if lent.opens == 0 { self.remove(&mut ids, node) } else { None }
        };
    }

    /// Takes lookups of `node` back by `take_back`, and forgets its file if the node is gone. Under one lock, so that no file
    /// that is opened meanwhile loses what it has just been given. What is left of the node is returned: giving that up may
    /// take long, and must not happen under the lock.
    pub(super) fn forget(&self, node: NodeId, take_back: impl FnOnce() -> Forgotten) -> Forgotten {
        // Its end is a system call of its own, and waits until the lock is free.
        let (forgotten, _id) = {
            let mut ids = self.ids.lock();
            let forgotten = take_back();
            let id = if forgotten.is_gone() { self.remove(&mut ids, node) } else { None };
            (forgotten, id)
        };
        forgotten
    }

    fn remove(&self, ids: &mut Ids, node: NodeId) -> Option<Lent> {
        let removed = ids.remove(&node)?;
        self.writers.fetch_sub(removed.writers, Ordering::AcqRel);
        self.lent.fetch_sub(removed.id.is_some().into(), Ordering::Relaxed);
        Some(removed)
    }
}
