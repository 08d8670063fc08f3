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
use std::sync::Arc;
use std::time::Instant;

use namegate_telemetry::metrics::{Op, Timing};
use namegate_wire::Reply;

use super::request_context::{PoolJob, RequestContext};
use super::request_core::RequestCore;
use crate::passthrough::{Caller, NodeId};
use crate::workers::{Domain, Lane, Load, RequestTurn};

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
    pub(super) fn interruptible(self, reply: &Reply) -> Self {
        Self { interrupt_id: Some(reply.unique()), ..self }
    }

    /// The same weight with this load if `takes_long`.
    pub(super) fn takes_if(self, takes_long: bool, load: Load) -> Self {
        if takes_long { self.takes(load) } else { self }
    }
}

impl RequestCore {
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

    /// Runs `job` for a request of `caller`, in this thread or in the pool.
    pub(super) fn serve(
        self: &Arc<Self>,
        op: Op,
        caller: &Caller,
        weight: Weight,
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        if op != Op::Lookup {
            self.lookup_threads.note_other(caller.pid);
        }
        let request = self.begin(op, caller.uid, weight);
        match request.lane {
            None => request.run_inline(job),
            Some(lane) => request.run_in_pool(lane, 0, job),
        }
    }

    /// Number of bytes of a write that the pool accepts: all, unless many are waiting. The client then repeats the call for the
    /// rest, as after any short write (write(2)).
    pub(super) fn accepted_len(&self, lane: Lane, bytes: usize) -> usize {
        const ALWAYS_ACCEPTED: usize = 64 << 10;
        if bytes <= ALWAYS_ACCEPTED || self.workers.has_room(lane) { bytes } else { ALWAYS_ACCEPTED }
    }

    /// Between two requests: blocks while the thread is not needed, unless it has requests of a predecessor to finish.
    fn park_if_unneeded(&self) {
        self.journal.finished();
        if !self.journal.is_recovering() {
            self.workers.park_if_unneeded();
        }
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
        let pool_job = PoolJob { op: timing.op(), lane, begun: timing.hand_on(), interrupt_id, bytes };
        core.submit(pool_job, job);
        drop((timing, turn));
        core.park_if_unneeded();
    }
}
