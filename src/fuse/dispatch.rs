//! Where a request is served: by the thread that has read it, or in the pool.
//!
//! The thread that has read a request serves what is answered from memory and from the directories of the source's own
//! file system. To the pool go, from the beginning:
//!
//! - what copies, allocates or brings to the disk (copy_file_range, fallocate, fsync, O_SYNC), cuts a large file off, or
//!   moves more than [`TRANSFER`] bytes through this process;
//! - everything on another mount below the source, and everything if a server on the network or in user space has the
//!   source: whether such a server answers is not known;
//! - what the last one like it was slow at, and everything while no thread is left in reserve (`crate::workers`).
//!
//! A read that finds nothing in the page cache, and a name that turns out to lead to another mount, go there from the middle.
//!
//! Requests may overtake each other: the kernel sends no RELEASE and no FORGET for what an unanswered request refers to, and
//! counts of lookups are sums, whatever their order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backing::Backing;
use super::readers::Readers;
use super::reply::Serving;
use super::server::Server;
use crate::passthrough::NodeId;
use crate::telemetry::metrics::{Gauges, Metrics, Op, Timing};
use crate::workers::{Domain, InWork, Lane, Limits, Load, SlowRequests, Turn, Workers, regular_readers};

/// More than that is not moved by a thread that has others to serve: the copy takes longer than waking another thread.
pub(super) const TRANSFER: usize = 128 << 10;

/// What is known of a request before it is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    domain: Domain,
    /// What it is to the pool, if it goes there in any case.
    load: Option<Load>,
}

impl Weight {
    /// The same request, which is known to take long.
    pub(super) fn takes(self, load: Load) -> Self {
        Self { load: Some(load), ..self }
    }

    /// The same if `takes_long`.
    pub(super) fn takes_if(self, takes_long: bool, load: Load) -> Self {
        if takes_long { self.takes(load) } else { self }
    }
}

/// All that requests are served with.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) server: Arc<Server>,
    pub(super) backing: Arc<Backing>,
    pub(super) readers: Readers,
    pub(super) metrics: Arc<Metrics>,
    workers: Arc<Workers>,
    slow: SlowRequests,
}

impl Core {
    /// What `server` holds can be read from `metrics` from now on.
    pub(super) fn new(server: Arc<Server>, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let backing = Arc::new(Backing::new(metrics.clone()));
        let workers = Arc::new(Workers::start(regular_readers(), Limits::default())?);
        let (served, lent, busy) =
            (Arc::downgrade(&server), Arc::downgrade(&backing), Arc::downgrade(&workers));
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
            })
        });
        let slow = SlowRequests::default();
        Ok(Self { server, backing, readers: Readers::default(), metrics, workers, slow })
    }

    /// A request for this node.
    pub(super) fn on(&self, node: NodeId) -> Weight {
        let domain = self.server.tree.mount(node).map_or(Domain::Own, Domain::Other);
        Weight { domain, load: None }
    }

    /// A request for both.
    pub(super) fn on_both(&self, one: NodeId, other: NodeId) -> Weight {
        let (one, other) = (self.on(one), self.on(other));
        if one.domain == Domain::Own { other } else { one }
    }

    /// Whether the source's own file system answers by itself.
    pub(super) fn is_local(&self, weight: Weight) -> bool {
        weight.domain == Domain::Own && !self.server.tree.is_remote()
    }

    /// Where in the pool a request is served; `None` for right here.
    fn lane(&self, op: Op, user: u32, weight: Weight, now: Instant) -> Option<Lane> {
        let is_local = self.is_local(weight);
        let is_needed = || self.workers.is_short() || self.slow.contains(op as u8, user, now);
        let load = match weight.load {
            // A copy that waits for a server is no work for the processor.
            Some(Load::Heavy) if !is_local => Load::Light,
            Some(Load::Probe) | None if is_local && !is_needed() => return None,
            Some(load) => load,
            None => Load::Light,
        };
        Some(Lane { user, domain: weight.domain, load })
    }

    /// A request of `user` has been read.
    pub(super) fn asked(self: &Arc<Self>, op: Op, user: u32, weight: Weight) -> Asked<'_> {
        let turn = self.workers.begin(op as u8);
        let timing = self.metrics.begin(op);
        let lane = self.lane(op, user, weight, timing.begun());
        Asked { core: self, user, turn, timing, lane }
    }

    /// Serves a request of `user` by `job`, here or in the pool.
    pub(super) fn serve(
        self: &Arc<Self>,
        (op, user, weight): (Op, u32, Weight),
        job: impl FnOnce(&Serving<'_>) + Send + 'static,
    ) {
        let asked = self.asked(op, user, weight);
        match asked.lane {
            None => asked.here(job),
            Some(lane) => asked.beside(lane, 0, job),
        }
    }

    /// Has the pool serve a request that began at `begun`.
    pub(super) fn submit(
        self: &Arc<Self>,
        (op, lane, begun): (Op, Lane, Instant),
        bytes: usize,
        job: impl FnOnce(&Serving<'_>) + Send + 'static,
    ) {
        let core = self.clone();
        self.workers.submit(lane, op as u8, bytes, move || {
            let resumed = Instant::now();
            job(&Serving::resumed(&core, core.metrics.resume(op, begun), lane));
            core.learn(op, lane.user, resumed);
        });
    }

    /// Drops what may take long to be dropped, and nobody waits for.
    pub(super) fn drop_beside(&self, op: Op, domain: Domain, dropped: impl Send + 'static) {
        // It belongs to nobody any more.
        let lane = Lane { user: u32::MAX, domain, load: Load::Closing };
        self.workers.submit(lane, op as u8, 0, move || drop(dropped));
    }

    /// How many bytes of a write of `user` the pool takes: all, unless many are waiting. The client then comes back with the
    /// rest, as after any short write (write(2)).
    pub(super) fn room(&self, lane: Lane, bytes: usize) -> usize {
        const LITTLE: usize = 64 << 10;
        if bytes <= LITTLE || self.workers.has_room(lane) { bytes } else { LITTLE }
    }

    fn learn(&self, op: Op, user: u32, since: Instant) {
        let now = Instant::now();
        self.slow.learn(op as u8, user, now - since, now);
    }

    /// Requests that have been in work for longer than `age`.
    pub(super) fn in_work_for(&self, age: Duration) -> Vec<InWork> {
        self.workers.in_work_for(age)
    }

    /// Waits until the pool has nothing to do, at most that long; whether it has.
    pub(super) fn settle(&self, patience: Duration) -> bool {
        self.workers.settle(patience)
    }
}

/// A request that has been read.
pub(super) struct Asked<'a> {
    core: &'a Arc<Core>,
    user: u32,
    turn: Turn<'a>,
    timing: Timing<'a>,
    /// Where in the pool it is served; `None` for right here.
    pub(super) lane: Option<Lane>,
}

impl Asked<'_> {
    /// Serves it by this thread, which may then be kept in reserve.
    pub(super) fn here(self, job: impl FnOnce(&Serving<'_>)) {
        let core = self.core;
        self.among_others(job);
        core.workers.rest();
    }

    /// Serves it by this thread, which has others of the same message to serve.
    pub(super) fn among_others(self, job: impl FnOnce(&Serving<'_>)) {
        let Self { core, user, turn, timing, .. } = self;
        let (op, begun) = (timing.op(), timing.begun());
        let serving = Serving::in_place(core, timing, user);
        // One request that finds a defect must not cost everybody a thread. Its client gets an error.
        if catch_unwind(AssertUnwindSafe(|| job(&serving))).is_err() {
            log::error!("{}: not served to its end, because of a defect in this program", op.name());
        }
        drop(serving);
        core.learn(op, user, begun);
        drop(turn);
    }

    /// Has the pool serve it.
    pub(super) fn beside(self, lane: Lane, bytes: usize, job: impl FnOnce(&Serving<'_>) + Send + 'static) {
        let Self { core, turn, timing, .. } = self;
        core.submit((timing.op(), lane, timing.hand_on()), bytes, job);
        drop((timing, turn));
        core.workers.rest();
    }
}
