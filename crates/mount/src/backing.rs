//! FUSE passthrough: files that the kernel reads and writes by itself, without this process (fuse-passthrough.rst of the kernel).

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use namegate_sys::fuse::{close_backing, open_backing};
use namegate_sys::release;
use namegate_telemetry::metrics::Metrics;
use namegate_wire::Negotiated;
use namegate_wire::abi::{OpenOut, fopen, init};
use nix::errno::Errno;
use parking_lot::Mutex;

use super::journal::MountJournal;
use crate::passthrough::{BackingRecord, Fh, Forgotten, NodeId, Passthrough, Recovered, RecoveredBacking};

/// A backing file that is registered with the kernel, until this is dropped.
#[derive(Debug)]
pub(super) struct BackingId {
    device: Arc<OwnedFd>,
    number: u32,
    journal: &'static dyn MountJournal,
}

impl Drop for BackingId {
    fn drop(&mut self) {
        let place = self.journal.releasing(self.number);
        if let Err(error) = close_backing(&*self.device, self.number) {
            log::debug!("the kernel does not release a backing file: {error}");
        }
        if let Some(place) = place {
            self.journal.released(place);
        }
    }
}

/// A file that was opened.
pub(super) struct OpenedNode {
    fh: Fh,
    /// Flags of `wire::abi::fopen`, without PASSTHROUGH.
    flags: u32,
    /// The file that the kernel reads and writes by itself. It stays registered until the reply is sent.
    backing: Option<Arc<BackingId>>,
}

impl OpenedNode {
    /// The reply.
    pub(super) fn out(&self) -> OpenOut {
        let (open_flags, backing_id) = match &self.backing {
            Some(backing) => (self.flags | fopen::PASSTHROUGH, backing.number),
            None => (self.flags, 0),
        };
        OpenOut { fh: self.fh.0, open_flags, backing_id }
    }
}

/// A request to open a file.
pub(super) struct OpenRequest {
    pub(super) node: NodeId,
    pub(super) fh: Fh,
    /// Flags of open(2).
    pub(super) flags: i32,
}

/// The backing file that all open files of a node share.
#[derive(Debug)]
struct LentFile {
    /// The generation of the node: file servers give the number of a removed file to a new one although the old one is still open.
    generation: u32,
    /// `None` if the kernel cannot use the backing file.
    id: Option<Arc<BackingId>>,
    /// Number of open files.
    opens: usize,
    /// Number of files open for writing.
    writers: usize,
    /// Whether the backing file must be released with the last open file.
    is_revoked: bool,
}

type Ids = HashMap<NodeId, LentFile>;

fn record(id: Option<&BackingId>) -> BackingRecord {
    id.map_or(BackingRecord::Unusable, |id| BackingRecord::Registered(id.number))
}

/// The backing files that are registered with the kernel.
#[derive(Debug)]
pub(super) struct Backing {
    /// Whether passthrough is used: the kernel supports it, and the settings allow it.
    is_offered: AtomicBool,
    /// Whether the server keeps locks, which go when a client closes the file.
    has_locks: AtomicBool,
    /// Whether the kernel keeps its cache coherent when a client writes around it.
    has_direct_writes: AtomicBool,
    /// The connection with which files are registered.
    device: OnceLock<Arc<OwnedFd>>,
    /// By node: from the first open until the kernel forgets the node, or until the last close if files must not be held longer. All
    /// open files of an inode either use passthrough or do not: the kernel refuses a mix.
    ids: Mutex<Ids>,
    /// Number of backing files registered with the kernel.
    lent: AtomicUsize,
    /// Number of files open for writing.
    writers: AtomicUsize,
    was_said: AtomicBool,
    metrics: Arc<Metrics>,
    journal: &'static dyn MountJournal,
}

impl Backing {
    pub(super) fn new(metrics: Arc<Metrics>, journal: &'static dyn MountJournal) -> Self {
        let (is_offered, was_said) = (AtomicBool::new(false), AtomicBool::new(false));
        let (lent, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (has_locks, has_direct_writes) = (AtomicBool::new(false), AtomicBool::new(false));
        let device = OnceLock::new();
        Self {
            is_offered,
            has_locks,
            has_direct_writes,
            device,
            ids: Mutex::default(),
            lent,
            writers,
            was_said,
            metrics,
            journal,
        }
    }

    /// Whether passthrough is used.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Relaxed)
    }

    /// Number of backing files registered with the kernel.
    pub(super) fn lent(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }

    /// Records what was agreed on with the kernel: whether passthrough is used, and whether the server keeps locks.
    pub(super) fn set_negotiated(&self, negotiated: Negotiated) {
        /// What kernels offer that remove pages from their cache before and after a write around it: Linux 6.19, and 6.18 with the
        /// updates of January 2026. With an earlier one, a page that is read during the write can stay in the cache.
        const COHERENT: u32 = 45;
        let is_coherent = negotiated.minor >= COHERENT && release::running() >= Some((6, 18, 10));
        self.is_offered.store(negotiated.has(init::PASSTHROUGH), Ordering::Relaxed);
        let has_locks = negotiated.flags & (init::POSIX_LOCKS | init::FLOCK_LOCKS) != 0;
        self.has_locks.store(has_locks, Ordering::Relaxed);
        self.has_direct_writes.store(is_coherent, Ordering::Relaxed);
    }

    /// Sets the connection with which files are registered.
    pub(super) fn register_with(&self, device: OwnedFd) {
        // A server has one mount.
        let _ = self.device.set(Arc::new(device));
    }

    fn register(&self, file: &OwnedFd) -> io::Result<BackingId> {
        let device = self.device.get().ok_or(Errno::ENOTCONN)?.clone();
        let number = open_backing(&*device, file)?;
        self.journal.note_registered(number);
        Ok(BackingId { device, number, journal: self.journal })
    }

    /// Takes over what a predecessor has registered for nodes of `tree`, and its open files.
    pub(super) fn take_over(&self, tree: &Passthrough, recovered: &Recovered) {
        let (Some(device), journal) = (self.device.get(), self.journal) else { return };
        let mut ids = self.ids.lock();
        for &RecoveredBacking { node, record, is_revoked } in &recovered.backings {
            let Ok(generation) = tree.generation_of(node) else { continue };
            let id = match record {
                BackingRecord::Registered(number) => {
                    self.lent.fetch_add(1, Ordering::Relaxed);
                    Some(Arc::new(BackingId { device: device.clone(), number, journal }))
                }
                BackingRecord::None | BackingRecord::Unusable => None,
            };
            ids.insert(node, LentFile { generation, id, opens: 0, writers: 0, is_revoked });
        }
        for file in &recovered.files {
            if let Some(lent) = ids.get_mut(&file.node) {
                let _id = self.count(lent, file.is_writer);
            }
        }
        // Those that it had registered and not recorded yet, and those that it was about to release.
        let known: HashSet<u32> = ids.values().filter_map(|lent| Some(lent.id.as_ref()?.number)).collect();
        let lost = journal.lost_backings();
        for number in lost.into_iter().filter(|number| *number > 0 && !known.contains(number)) {
            // Most of them do not exist.
            let _ = close_backing(&**device, number);
        }
    }

    /// Builds the reply for a file that was opened, and closes the file again on error. Also returns whether this is the first open
    /// file through which the kernel may change the content by itself.
    pub(super) fn open(&self, tree: &Passthrough, opening: &OpenRequest) -> nix::Result<(OpenedNode, bool)> {
        let OpenRequest { node, fh, flags } = *opening;
        let mut answer = match tree.has_flush(node) || self.has_locks.load(Ordering::Relaxed) {
            true => 0,
            // Saves a request at every close.
            false => fopen::NOFLUSH,
        };
        let is_writer = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let generation = tree.generation(fh)?;
        let register = || tree.lend(node, |file| self.register(file));
        let (backing, is_first_writer) = self.id(tree, (node, generation), is_writer, register);
        if backing.is_none() {
            self.metrics.fell_back();
        }
        // The kernel does not check that the backing file can be opened for writing.
        let opened = match backing {
            Some(_) => tree.open_elsewhere(fh).map(|()| false),
            None => tree.open_here(fh),
        };
        match opened {
            Ok(true) => answer |= fopen::KEEP_CACHE,
            Ok(false) => {}
            Err(errno) => {
                self.release(tree, node, fh);
                return Err(errno);
            }
        }
        // What is only written need not go through a cache: that spares a copy.
        let is_only_written =
            self.has_direct_writes.load(Ordering::Relaxed) && flags & libc::O_ACCMODE == libc::O_WRONLY;
        if backing.is_none() && (is_only_written || flags & libc::O_DIRECT != 0) {
            answer |= fopen::DIRECT_IO;
        }
        let is_first_writer = is_first_writer && backing.is_some();
        Ok((OpenedNode { fh, flags: answer, backing }, is_first_writer))
    }

    /// Whether the kernel may change the content of `node` by itself: by write(2), which it tracks, or through a memory map, which it
    /// does not.
    pub(super) fn is_written(&self, node: NodeId) -> bool {
        self.writers.load(Ordering::Acquire) > 0
            && self.ids.lock().get(&node).is_some_and(|lent| lent.writers > 0 && lent.id.is_some())
    }

    /// The backing file of a node that is being opened, if the kernel can use it, and whether this is the first open file for
    /// writing; `register` registers it.
    fn id(
        &self,
        tree: &Passthrough,
        (node, generation): (NodeId, u32),
        is_writer: bool,
        register: impl FnOnce() -> io::Result<Option<BackingId>>,
    ) -> (Option<Arc<BackingId>>, bool) {
        if !self.is_offered() {
            return (None, false);
        }
        if let Some(lent) = self.ids.lock().get_mut(&node)
            && lent.generation == generation
        {
            return self.count(lent, is_writer);
        }
        // Without the lock, so that other requests continue. Of two concurrent registrations the first one is used for both.
        let made = register().unwrap_or_else(|error| {
            if !self.was_said.swap(true, Ordering::Relaxed) {
                log::warn!(
                    "file contents go through this process: the kernel cannot take them over: {error}"
                );
            }
            None
        });
        let made = made.map(Arc::new);
        // A registered backing file holds the file.
        let is_revoked = made.is_some() && !tree.may_be_held(node);
        let mut ids = self.ids.lock();
        // The registration belongs to an earlier file. Its clients keep using it.
        let _before = match ids.get(&node) {
            Some(lent) if lent.generation != generation => self.remove(&mut ids, node),
            _ => None,
        };
        let lent = ids.entry(node).or_insert_with(|| {
            self.lent.fetch_add(made.is_some().into(), Ordering::Relaxed);
            tree.note_backing(node, record(made.as_deref()), is_revoked);
            LentFile { generation, id: made.clone(), opens: 0, writers: 0, is_revoked }
        });
        self.count(lent, is_writer)
    }

    /// Counts an open file.
    fn count(&self, lent: &mut LentFile, is_writer: bool) -> (Option<Arc<BackingId>>, bool) {
        lent.opens += 1;
        if is_writer {
            lent.writers += 1;
            self.writers.fetch_add(1, Ordering::AcqRel);
        }
        (lent.id.clone(), is_writer && lent.writers == 1)
    }

    /// Closes the file that was opened as `fh`.
    pub(super) fn release(&self, tree: &Passthrough, node: NodeId, fh: Fh) {
        let (was_writer, generation) = (tree.is_writer(fh), tree.generation(fh));
        let id = {
            let mut ids = self.ids.lock();
            match ids.get_mut(&node) {
                Some(lent) if generation == Ok(lent.generation) => {
                    lent.opens = lent.opens.saturating_sub(1);
                    if was_writer && lent.writers > 0 {
                        lent.writers -= 1;
                        self.writers.fetch_sub(1, Ordering::AcqRel);
                    }
                    let is_over = lent.opens == 0 && lent.is_revoked;
                    if is_over {
                        tree.note_backing(node, BackingRecord::None, false);
                        self.remove(&mut ids, node)
                    } else {
                        None
                    }
                }
                _ => None,
            }
        };
        // Before the last close, so that nothing holds the file after it.
        drop(id);
        tree.release(fh);
    }

    /// Ends passthrough for `node`. Files that are already open keep using it.
    pub(super) fn revoke(&self, tree: &Passthrough, node: NodeId) {
        let _id = {
            let mut ids = self.ids.lock();
            let Some(lent) = ids.get_mut(&node) else { return };
            lent.is_revoked = true;
            let is_over = lent.opens == 0;
            let left = if is_over { BackingRecord::None } else { record(lent.id.as_deref()) };
            tree.note_backing(node, left, !is_over);
            if is_over { self.remove(&mut ids, node) } else { None }
        };
    }

    /// Subtracts lookups of `node` by `take_back`, and releases its backing file if the node is gone. Both happen under one lock, so
    /// that a file that is opened meanwhile keeps its backing file. Returns the node for the caller to drop, because that may take
    /// long and must not happen under the lock.
    pub(super) fn forget(&self, node: NodeId, take_back: impl FnOnce() -> Forgotten) -> Forgotten {
        // Dropped after the lock is released, because that is a system call.
        let (forgotten, _id) = {
            let mut ids = self.ids.lock();
            let forgotten = take_back();
            let id = if forgotten.is_gone() { self.remove(&mut ids, node) } else { None };
            (forgotten, id)
        };
        forgotten
    }

    fn remove(&self, ids: &mut Ids, node: NodeId) -> Option<LentFile> {
        let removed = ids.remove(&node)?;
        self.writers.fetch_sub(removed.writers, Ordering::AcqRel);
        self.lent.fetch_sub(removed.id.is_some().into(), Ordering::Relaxed);
        Some(removed)
    }
}
