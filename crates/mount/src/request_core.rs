//! What all requests have in common.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use namegate_telemetry::metrics::{Gauges, Metrics, Op};
use namegate_wire::abi::init;
use namegate_wire::{InitRequest, Negotiated};

use super::alias::LookupThreads;
use super::backing::Backing;
use super::journal::MountJournal;
use super::lock_waiters::LockWaiters;
use super::readers::Readers;
use super::server::Server;
use super::source::SourceWatch;
use crate::workers::{
    Domain, Lane, Load, PoolLimits, RequestInProgress, SlowRequests, Workers, regular_readers,
};

/// Everything that serving a request needs.
#[derive(Debug)]
pub(super) struct RequestCore {
    pub(super) server: Arc<Server>,
    pub(super) backing: Arc<Backing>,
    pub(super) readers: Readers,
    pub(super) lookup_threads: LookupThreads,
    pub(super) metrics: Arc<Metrics>,
    pub(super) lock_waiters: LockWaiters,
    /// The number by which the kernel knows the source.
    pub(super) root_number: OnceLock<u64>,
    /// What has become of the source.
    pub(super) source: Arc<OnceLock<SourceWatch>>,
    pub(super) journal: &'static dyn MountJournal,
    pub(super) workers: Arc<Workers>,
    pub(super) slow: SlowRequests,
    has_rings: AtomicBool,
}

impl RequestCore {
    /// Also registers the gauges of `server` with `metrics`.
    pub(super) fn new(
        server: Arc<Server>,
        metrics: Arc<Metrics>,
        journal: &'static dyn MountJournal,
    ) -> std::io::Result<Self> {
        let backing = Arc::new(Backing::new(metrics.clone(), journal));
        let workers = Arc::new(Workers::start(regular_readers(), PoolLimits::default())?);
        let (served, lent, busy) =
            (Arc::downgrade(&server), Arc::downgrade(&backing), Arc::downgrade(&workers));
        let source = Arc::new(OnceLock::<SourceWatch>::new());
        let watched = Arc::downgrade(&source);
        metrics.read_gauges_by(move || {
            let (server, backing) = (served.upgrade()?, lent.upgrade()?);
            let usage = busy.upgrade()?.usage();
            Some(Gauges {
                inodes: server.tree.nodes() as u64,
                open_files: server.tree.open_files() as u64,
                open_directories: server.tree.open_directories() as u64,
                backing_ids: backing.lent() as u64,
                has_passthrough: backing.is_offered(),
                pool_threads: usage.threads as u64,
                queued_requests: usage.queued as u64,
                stuck_requests: usage.stuck as u64,
                source: watched.upgrade()?.get().map(SourceWatch::problems).unwrap_or_default(),
            })
        });
        let (readers, lock_waiters) = (Readers::default(), LockWaiters::default());
        let (slow, root_number) = (SlowRequests::default(), OnceLock::new());
        let has_rings = AtomicBool::new(false);
        Ok(Self {
            server,
            backing,
            readers,
            lookup_threads: LookupThreads::default(),
            metrics,
            lock_waiters,
            root_number,
            source,
            journal,
            workers,
            slow,
            has_rings,
        })
    }

    /// Records what was agreed on with the kernel, which was asked for `wanted`.
    pub(super) fn set_negotiated(&self, negotiated: Negotiated, wanted: &InitRequest) {
        let flags = wanted.flags & !init::PASSTHROUGH;
        for (name, flag) in init::ALL.iter().filter(|(_, flag)| flags & flag != 0 && !negotiated.has(*flag)) {
            log::info!("this kernel does not offer {name} ({flag:#x})");
        }
        if !negotiated.has(init::PASSTHROUGH) && wanted.flags & init::PASSTHROUGH != 0 {
            log::warn!("file contents go through this process: this kernel does not take them over");
        }
        if negotiated.has(init::ALLOW_IDMAP) {
            self.server.tree.allow_idmap();
        }
        self.backing.set_negotiated(negotiated);
    }

    /// Each thread gets requests that no other thread gets, from now on.
    pub(super) fn use_rings(&self) {
        self.workers.keep_reading();
        self.has_rings.store(true, Ordering::Relaxed);
    }

    /// Whether requests come over io_uring.
    pub(super) fn has_rings(&self) -> bool {
        self.has_rings.load(Ordering::Relaxed)
    }

    /// Interrupts the request with this number, if it waits for a lock or the pool serves it.
    pub(super) fn interrupt(&self, unique: u64) {
        self.lock_waiters.interrupt(unique, || self.workers.interrupt(unique));
    }

    /// Drops a value in the pool, because that may take long.
    pub(super) fn drop_in_pool(&self, op: Op, domain: Domain, dropped: impl Send + 'static) {
        // No user waits for it.
        let lane = Lane { user: u32::MAX, domain, load: Load::Closing };
        self.workers.submit(lane, op as u8, 0, move || drop(dropped));
    }

    /// Requests that have been in progress for longer than `age`.
    pub(super) fn in_progress_longer_than(&self, age: Duration) -> Vec<RequestInProgress> {
        self.workers.in_progress_longer_than(age)
    }

    /// Waits until the pool is idle, at most `patience`. Returns whether it is.
    pub(super) fn wait_until_idle(&self, patience: Duration) -> bool {
        self.workers.wait_until_idle(patience)
    }
}
