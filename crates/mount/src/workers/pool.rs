//! The pool: threads for requests that may take long, more of them while some are stuck.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use namegate_sys::process::{handle_signals, interrupt_by, signal_thread};
use nix::unistd::{Pid, gettid};
use parking_lot::{Condvar, Mutex};

use super::interrupts::{INTERRUPTING, Interrupts};
use super::{RequestInProgress, RequestKind, regular_readers};

/// A mounted file system. If it does not answer, all of its requests get stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// The file system of the source.
    Own,
    /// Another file system below the source, by a number that the transport defines.
    Other(u64),
}

/// The kind of load of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Load {
    /// Checks whether the server answers. Limited only by the number of threads.
    Probe,
    /// Waits more than it uses the processor.
    Light,
    /// Copies: uses the processor until it turns out to wait.
    Heavy,
    /// Closes unused files. No client waits for it.
    Closing,
}

/// Identifies a queue: the jobs of one user, file system and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    pub user: u32,
    /// The file system.
    pub domain: Domain,
    pub load: Load,
}

#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Number of threads.
    pub threads: usize,
    /// Running jobs of one domain. Less than `threads`, so that one hung file system leaves threads for others.
    pub domain: usize,
    /// Running jobs of one lane. Fewer when the domain fills up, but at least one.
    pub lane: usize,
    /// Running heavy jobs that were started less than `fresh` ago.
    pub heavy: usize,
    /// A heavy job that runs for longer than this is assumed to wait, and another one may start.
    pub fresh: Duration,
    /// A thread that is idle for this long ends.
    pub idle: Duration,
    /// Bytes that the jobs of one lane may hold.
    pub lane_bytes: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            threads: 512,
            domain: 256,
            lane: 32,
            heavy: regular_readers(),
            fresh: Duration::from_millis(20),
            idle: Duration::from_secs(30),
            lane_bytes: 32 << 20,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Number of threads.
    pub threads: usize,
    /// Number of waiting jobs.
    pub queued: usize,
    /// Number of requests in progress for more than a second.
    pub stuck: usize,
}

pub(super) type BoxedJob = Box<dyn FnOnce() + Send>;

pub(super) struct QueuedJob {
    pub(super) job: BoxedJob,
    pub(super) kind: RequestKind,
    pub(super) bytes: usize,
    /// The number by which it can be interrupted.
    pub(super) interrupt_id: Option<u64>,
    pub(super) since: Instant,
}

#[derive(Clone, Copy)]
struct RunningJob {
    lane: Lane,
    kind: RequestKind,
    bytes: usize,
    since: Instant,
    interrupt_id: Option<u64>,
    thread: Pid,
}

/// Usage of a lane by running and waiting jobs.
#[derive(Clone, Copy, Default)]
struct LaneUsage {
    running: usize,
    bytes: usize,
}

#[derive(Default)]
struct PoolState {
    /// Lanes with waiting jobs; the next one first. No queue is empty.
    turns: VecDeque<Lane>,
    queues: HashMap<Lane, VecDeque<QueuedJob>>,
    queued: usize,
    /// No share is zero.
    shares: HashMap<Lane, LaneUsage>,
    domains: HashMap<Domain, usize>,
    running: HashMap<u64, RunningJob>,
    /// Number of the most recently started job.
    next: u64,
    threads: usize,
    /// Threads that are being started; they are included in `threads`.
    starting: usize,
    idle: usize,
    has_ended: bool,
    interrupts: Interrupts,
}

struct PoolShared {
    limits: PoolLimits,
    state: Mutex<PoolState>,
    /// Signals a new job, or the end.
    work: Condvar,
    /// Signals the end of a job.
    done: Condvar,
}

/// A handle to the pool; clones refer to the same pool.
#[derive(Clone)]
pub struct WorkerPool(Arc<PoolShared>);

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl WorkerPool {
    /// A pool without threads.
    pub(super) fn new(limits: PoolLimits) -> Self {
        interrupt_by(INTERRUPTING);
        let state = Mutex::new(PoolState::default());
        Self(Arc::new(PoolShared { limits, state, work: Condvar::new(), done: Condvar::new() }))
    }

    /// Queues a job. Returns whether a thread must be started for it ([`WorkerPool::start_threads`]).
    pub(super) fn submit(&self, lane: Lane, queued: QueuedJob) -> bool {
        let mut state = self.0.state.lock();
        let may_run = state.may_run(lane, &self.0.limits, queued.since);
        state.push(lane, queued);
        let (is_waited_for, is_missing) = (state.idle > 0, state.idle + state.starting < state.queued);
        drop(state);
        if may_run && is_waited_for {
            self.0.work.notify_one();
        }
        may_run && is_missing
    }

    pub(super) fn has_room(&self, lane: Lane) -> bool {
        self.0.state.lock().shares.get(&lane).is_none_or(|share| share.bytes < self.0.limits.lane_bytes)
    }

    pub(super) fn usage(&self) -> PoolUsage {
        let state = self.0.state.lock();
        PoolUsage { threads: state.threads, queued: state.queued, stuck: 0 }
    }

    pub(super) fn in_work(&self, now: Instant) -> Vec<RequestInProgress> {
        let state = self.0.state.lock();
        let running = state.running.values().map(|running| (running.kind, running.since));
        let queued = state.queues.values().flatten().map(|queued| (queued.kind, queued.since));
        let age = |since| now.saturating_duration_since(since);
        running.chain(queued).map(|(kind, since)| RequestInProgress { kind, age: age(since) }).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        let state = self.0.state.lock();
        state.queued == 0 && state.running.is_empty()
    }

    pub(super) fn wait_until_idle(&self, patience: Duration) -> bool {
        let busy = |state: &mut PoolState| state.queued > 0 || !state.running.is_empty();
        !self.0.done.wait_while_for(&mut self.0.state.lock(), busy, patience).timed_out()
    }

    /// Interrupts the system calls of the job with this interrupt id until it ends, also if it has not come yet.
    pub(super) fn interrupt(&self, interrupt_id: u64) {
        let mut state = self.0.state.lock();
        state.interrupts.add(interrupt_id);
        state.signal_interrupted();
    }

    pub(super) fn was_interrupted(&self, interrupt_id: u64) -> bool {
        self.0.state.lock().interrupts.remove(interrupt_id)
    }

    /// Interrupts again what was interrupted before and goes on: a signal that comes between two system calls is lost. To be called
    /// regularly.
    pub(super) fn interrupt_again(&self) {
        self.0.state.lock().signal_interrupted();
    }

    /// Ends the pool: no thread starts another job.
    pub(super) fn end(&self) {
        self.0.state.lock().has_ended = true;
        self.0.work.notify_all();
    }

    /// Starts the missing threads for the jobs that may run now, and wakes idle ones. To be called regularly: jobs that could not run
    /// before may run when others have run for longer than `fresh`.
    pub(super) fn start_threads(&self) {
        let missing = {
            let mut state = self.0.state.lock();
            let may_run = state.count_that_may_run(&self.0.limits, Instant::now());
            let ready = state.idle + state.starting;
            for _ in 0..may_run.min(state.idle) {
                self.0.work.notify_one();
            }
            let missing =
                may_run.saturating_sub(ready).min(self.0.limits.threads.saturating_sub(state.threads));
            state.threads += missing;
            state.starting += missing;
            missing
        };
        for _ in 0..missing {
            let pool = self.clone();
            // Requests need no deep stack, and there can be hundreds of threads.
            let thread = thread::Builder::new().name("pool".into()).stack_size(512 << 10);
            if let Err(error) = thread.spawn(move || pool.work()) {
                log::error!("cannot start a thread for slow requests: {error}");
                let mut state = self.0.state.lock();
                state.threads -= 1;
                state.starting -= 1;
            }
        }
    }

    /// Main function of a pool thread.
    fn work(&self) {
        let mut state = self.0.state.lock();
        state.starting -= 1;
        loop {
            if state.has_ended {
                break;
            }
            if let Some((number, job)) = state.take(&self.0.limits, Instant::now()) {
                drop(state);
                // If a job panics, dropping it sends an error to the client.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    log::error!("a request failed because of a bug in namegate");
                }
                state = self.0.state.lock();
                let was_interrupted = state.finish(number);
                self.0.done.notify_all();
                if was_interrupted {
                    // No more signals come, and the last one must not interrupt the next job.
                    drop(state);
                    handle_signals();
                    state = self.0.state.lock();
                }
                continue;
            }
            state.idle += 1;
            let waited = self.0.work.wait_for(&mut state, self.0.limits.idle);
            state.idle -= 1;
            if waited.timed_out() && state.count_that_may_run(&self.0.limits, Instant::now()) == 0 {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl PoolState {
    fn push(&mut self, lane: Lane, queued: QueuedJob) {
        self.queued += 1;
        self.shares.entry(lane).or_default().bytes += queued.bytes;
        let queue = self.queues.entry(lane).or_default();
        if queue.is_empty() {
            self.turns.push_back(lane);
        }
        queue.push_back(queued);
    }

    /// Number of additional jobs of a lane that may run.
    fn room(&self, lane: Lane, limits: &PoolLimits) -> usize {
        let running = self.shares.get(&lane).map_or(0, |share| share.running);
        let left = match lane.load {
            Load::Probe => limits.lane,
            _ => limits.domain.saturating_sub(self.domains.get(&lane.domain).copied().unwrap_or_default()),
        };
        // A lane gets at most a quarter of what is left: however many users are stuck, the next one has room.
        let most = limits.lane.min(((left + running) / 4).max(1));
        most.saturating_sub(running).min(left)
    }

    /// Number of additional heavy jobs that may run.
    fn heavy_room(&self, limits: &PoolLimits, now: Instant) -> usize {
        let is_fresh = |running: &&RunningJob| {
            running.lane.load == Load::Heavy && now.saturating_duration_since(running.since) < limits.fresh
        };
        limits.heavy.saturating_sub(self.running.values().filter(is_fresh).count())
    }

    fn may_run(&self, lane: Lane, limits: &PoolLimits, now: Instant) -> bool {
        self.room(lane, limits) > 0 && (lane.load != Load::Heavy || self.heavy_room(limits, now) > 0)
    }

    /// Number of waiting jobs that may run now; an upper bound if they share a domain.
    fn count_that_may_run(&self, limits: &PoolLimits, now: Instant) -> usize {
        let (mut light, mut heavy) = (0, 0);
        for lane in &self.turns {
            let waiting = self.queues.get(lane).map_or(0, VecDeque::len).min(self.room(*lane, limits));
            *(if lane.load == Load::Heavy { &mut heavy } else { &mut light }) += waiting;
        }
        if heavy > 0 {
            heavy = heavy.min(self.heavy_room(limits, now));
        }
        light + heavy
    }

    /// Removes the next job from its queue, and returns it with its number.
    fn take(&mut self, limits: &PoolLimits, now: Instant) -> Option<(u64, BoxedJob)> {
        let place = self.turns.iter().position(|&lane| self.may_run(lane, limits, now))?;
        let lane = self.turns.remove(place)?;
        let queue = self.queues.get_mut(&lane)?;
        let queued = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&lane);
        } else {
            self.turns.push_back(lane);
        }
        let QueuedJob { job, kind, bytes, interrupt_id, .. } = queued?;
        self.queued -= 1;
        self.shares.entry(lane).or_default().running += 1;
        if lane.load != Load::Probe {
            *self.domains.entry(lane.domain).or_default() += 1;
        }
        self.next += 1;
        let running = RunningJob { lane, kind, bytes, since: now, interrupt_id, thread: gettid() };
        self.running.insert(self.next, running);
        Some((self.next, job))
    }

    /// Counts the end of a job, and returns whether it was interrupted.
    fn finish(&mut self, number: u64) -> bool {
        let Some(RunningJob { lane, bytes, interrupt_id, .. }) = self.running.remove(&number) else {
            return false;
        };
        if let Some(share) = self.shares.get_mut(&lane) {
            share.running -= 1;
            share.bytes -= bytes;
            if share.running == 0 && share.bytes == 0 {
                self.shares.remove(&lane);
            }
        }
        if lane.load != Load::Probe
            && let Some(running) = self.domains.get_mut(&lane.domain)
        {
            *running -= 1;
            if *running == 0 {
                self.domains.remove(&lane.domain);
            }
        }
        interrupt_id.is_some_and(|interrupt_id| self.interrupts.remove(interrupt_id))
    }

    /// Interrupts the system calls of all running jobs that are to be interrupted. A thread leaves its job under the same lock, so
    /// no signal is sent for a job to a thread that has another one.
    fn signal_interrupted(&self) {
        if self.interrupts.is_empty() {
            return;
        }
        for running in self.running.values() {
            if running.interrupt_id.is_some_and(|interrupt_id| self.interrupts.contains(interrupt_id)) {
                signal_thread(running.thread, INTERRUPTING);
            }
        }
    }
}
