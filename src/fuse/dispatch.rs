//! Chooses where a request is served: by the thread that has read it, or in the pool.
//!
//! The thread that has read a request serves what needs only memory and the directories of the file system of the source. These
//! requests go to the pool at once:
//!
//! - requests that copy, allocate or sync (copy_file_range, fallocate, fsync, O_SYNC), truncate a large file, or read more than
//!   [`TRANSFER`] bytes through this process;
//! - all requests to another mount below the source, and all requests if the source is on a network or user-space file system, which
//!   may not answer;
//! - requests like one that was slow recently, and all requests while no thread is in reserve (`crate::workers`).
//!
//! A read that finds nothing in the page cache, and a lookup that turns out to lead to another mount, continue in the pool.
//!
//! Requests may overtake each other: the kernel sends no RELEASE and no FORGET for inodes of an unanswered request, and lookup counts
//! are sums, whatever their order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use namegate_telemetry::metrics::{Gauges, Metrics, Op, Timing};

use super::backing::Backing;
use super::locks::LockWaiters;
use super::readers::Readers;
use super::replies::Responder;
use super::request_context::RequestContext;
use super::server::Server;
use super::source::SourceWatch;
use crate::passthrough::NodeId;
use crate::state::{SurvivalState, journal};
use crate::wire::abi::init;
use crate::wire::{InitRequest, Negotiated};
use crate::workers::{
    Domain, Lane, Load, PoolLimits, RequestInProgress, RequestTurn, SlowRequests, Workers, regular_readers,
};

/// Longer reads go to the pool: they take longer than waking another thread.
pub(super) const TRANSFER: usize = 128 << 10;

/// The expected cost of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    domain: Domain,
    /// Its load, if it always goes to the pool.
    load: Option<Load>,
    /// The number by which it can be interrupted.
    interrupt_id: Option<u64>,
}

impl Weight {
    /// The same weight with this load.
    pub(super) fn takes(self, load: Load) -> Self {
        Self { load: Some(load), ..self }
    }

    /// The same weight for a request that fails with EINTR if its client gets a signal: without it, such a client waits for the reply
    /// even if it was killed. `reply` is the reply to the request.
    pub(super) fn interruptible(self, reply: &impl Responder) -> Self {
        Self { interrupt_id: reply.interrupt_id(), ..self }
    }

    /// The same weight with this load if `takes_long`.
    pub(super) fn takes_if(self, takes_long: bool, load: Load) -> Self {
        if takes_long { self.takes(load) } else { self }
    }
}

/// Everything that serving a request needs.
#[derive(Debug)]
pub(super) struct RequestCore {
    pub(super) server: Arc<Server>,
    pub(super) backing: Arc<Backing>,
    pub(super) readers: Readers,
    pub(super) metrics: Arc<Metrics>,
    pub(super) lock_waiters: LockWaiters,
    /// The number by which the kernel knows the source.
    pub(super) root_number: OnceLock<u64>,
    /// What has become of the source.
    pub(super) source: Arc<OnceLock<SourceWatch>>,
    workers: Arc<Workers>,
    slow: SlowRequests,
    has_rings: AtomicBool,
}

impl RequestCore {
    /// Also registers the gauges of `server` with `metrics`.
    pub(super) fn new(
        server: Arc<Server>,
        metrics: Arc<Metrics>,
        state: Option<&'static SurvivalState>,
    ) -> std::io::Result<Self> {
        let backing = Arc::new(Backing::new(metrics.clone(), state));
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
            metrics,
            lock_waiters,
            root_number,
            source,
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

    /// The weight of a request for this node.
    pub(super) fn weight_of(&self, node: NodeId) -> Weight {
        let domain = self.server.tree.mount(node).map_or(Domain::Own, Domain::Other);
        Weight { domain, load: None, interrupt_id: None }
    }

    /// The weight of a request for both nodes.
    pub(super) fn on_both(&self, one: NodeId, other: NodeId) -> Weight {
        let (one, other) = (self.weight_of(one), self.weight_of(other));
        if one.domain == Domain::Own { other } else { one }
    }

    /// Whether the request concerns a local file system.
    pub(super) fn is_local(&self, weight: Weight) -> bool {
        weight.domain == Domain::Own && !self.server.tree.is_remote()
    }

    /// The lane of the pool that serves a request; `None` for the current thread.
    fn lane(&self, op: Op, user: u32, weight: Weight, now: Instant) -> Option<Lane> {
        let is_local = self.is_local(weight);
        let is_needed = || self.workers.is_short() || self.slow.contains(op as u8, user, now);
        let load = match weight.load {
            // A copy on a remote file system waits for a server and uses little processor time.
            Some(Load::Heavy) if !is_local => Load::Light,
            Some(Load::Probe) | None if is_local && !is_needed() => return None,
            Some(load) => load,
            None => Load::Light,
        };
        Some(Lane { user, domain: weight.domain, load })
    }

    /// Starts a request of `user` that was just read.
    pub(super) fn begin(self: &Arc<Self>, op: Op, user: u32, weight: Weight) -> ReceivedRequest<'_> {
        let turn = self.workers.begin(op as u8);
        let timing = self.metrics.begin(op);
        let lane = self.lane(op, user, weight, timing.begun());
        ReceivedRequest { core: self, user, turn, timing, lane, interrupt_id: weight.interrupt_id }
    }

    /// Runs `job` for a request of `user`, in this thread or in the pool.
    pub(super) fn serve(
        self: &Arc<Self>,
        (op, user, weight): (Op, u32, Weight),
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        let request = self.begin(op, user, weight);
        match request.lane {
            None => request.run_inline(job),
            Some(lane) => request.run_in_pool(lane, 0, job),
        }
    }

    /// Runs `job` in the pool for a request that began at `begun`.
    pub(super) fn submit(
        self: &Arc<Self>,
        (op, lane, begun): (Op, Lane, Instant),
        interrupt_id: Option<u64>,
        bytes: usize,
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        let entry = match journal::hand_on() {
            Ok(entry) => entry,
            // The client gets an error when the job is dropped.
            Err(error) => return log::error!("{}: the request fails: {error}", op.name()),
        };
        let core = self.clone();
        self.workers.submit_with(interrupt_id, lane, op as u8, bytes, move || {
            let _current = entry.map(journal::set_current);
            let resumed = Instant::now();
            job(&RequestContext::resumed(&core, core.metrics.resume(op, begun), lane));
            core.record_duration(op, lane.user, resumed);
        });
    }

    /// Interrupts the request with this interrupt id, if it waits for a lock or the pool serves it.
    pub(super) fn interrupt(&self, interrupt_id: u64) {
        self.lock_waiters.interrupt(interrupt_id, || self.workers.interrupt(interrupt_id));
    }

    /// Whether the request with this interrupt id, which the pool does not serve, was interrupted before.
    pub(super) fn was_interrupted(&self, interrupt_id: u64) -> bool {
        self.workers.was_interrupted(interrupt_id)
    }

    /// Drops a value in the pool, because that may take long.
    pub(super) fn drop_in_pool(&self, op: Op, domain: Domain, dropped: impl Send + 'static) {
        // No user waits for it.
        let lane = Lane { user: u32::MAX, domain, load: Load::Closing };
        self.workers.submit(lane, op as u8, 0, move || drop(dropped));
    }

    /// Number of bytes of a write that the pool accepts: all, unless many are waiting. The client then repeats the call for the
    /// rest, as after any short write (write(2)).
    pub(super) fn accepted_len(&self, lane: Lane, bytes: usize) -> usize {
        const ALWAYS_ACCEPTED: usize = 64 << 10;
        if bytes <= ALWAYS_ACCEPTED || self.workers.has_room(lane) { bytes } else { ALWAYS_ACCEPTED }
    }

    /// Between two requests: blocks while the thread is not needed, unless it has requests of a predecessor to finish.
    fn park_if_unneeded(&self) {
        journal::finish();
        if !journal::is_catching_up() {
            self.workers.park_if_unneeded();
        }
    }

    fn record_duration(&self, op: Op, user: u32, since: Instant) {
        let now = Instant::now();
        self.slow.record_duration(op as u8, user, now - since, now);
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

/// A request that has been read.
pub(super) struct ReceivedRequest<'a> {
    core: &'a Arc<RequestCore>,
    user: u32,
    turn: RequestTurn<'a>,
    timing: Timing<'a>,
    /// The lane of the pool that serves it; `None` for the current thread.
    pub(super) lane: Option<Lane>,
    interrupt_id: Option<u64>,
}

impl ReceivedRequest<'_> {
    /// Serves it in this thread, which may then go to the reserve.
    pub(super) fn run_inline(self, job: impl FnOnce(&RequestContext<'_>)) {
        let core = self.core;
        self.run_in_batch(job);
        core.park_if_unneeded();
    }

    /// Serves it in this thread, which has more requests of the same message to serve.
    pub(super) fn run_in_batch(self, job: impl FnOnce(&RequestContext<'_>)) {
        let Self { core, user, turn, timing, .. } = self;
        let (op, begun) = (timing.op(), timing.begun());
        let serving = RequestContext::in_place(core, timing, user);
        // A panic must not cost a thread. The client of the request gets an error.
        if catch_unwind(AssertUnwindSafe(|| job(&serving))).is_err() {
            log::error!("{}: the request failed because of a bug in namegate", op.name());
        }
        drop(serving);
        core.record_duration(op, user, begun);
        drop(turn);
    }

    /// Serves it in the pool.
    pub(super) fn run_in_pool(
        self,
        lane: Lane,
        bytes: usize,
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        let Self { core, turn, timing, interrupt_id, .. } = self;
        core.submit((timing.op(), lane, timing.hand_on()), interrupt_id, bytes, job);
        drop((timing, turn));
        core.park_if_unneeded();
    }
}
