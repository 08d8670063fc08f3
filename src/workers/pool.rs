//! Threads for requests that may take long: as many as are stuck, and some more.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{InWork, Kind, regular_readers};

/// What gets stuck together: a file system, as it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// That of the source.
    Own,
    /// Another one below it, by a number that the transport gives it.
    Other(u64),
}

/// What a job does to the machine, and who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Load {
    /// Asks whether the server answers. Only the number of threads bounds these.
    Probe,
    /// Waits more than it works.
    Light,
    /// Copies: works until it turns out to wait.
    Heavy,
    /// Gives up what nobody uses any more. Nobody waits for it.
    Closing,
}

/// A queue: what one user has to be done of one kind in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The user.
    pub user: u32,
    /// Where.
    pub domain: Domain,
    /// Of what kind.
    pub load: Load,
}

/// The bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Threads.
    pub threads: usize,
    /// Jobs of one domain that run at a time. Less than `threads`, so that one hung file system leaves room for others.
    pub domain: usize,
    /// Jobs of one lane that run at a time. Less than that when the domain fills up, but at least one.
    pub lane: usize,
    /// Heavy jobs that run at a time and have not run for `fresh` yet.
    pub heavy: usize,
    /// A heavy job that has run for so long waits for something, and another one may run beside it.
    pub fresh: Duration,
    /// A thread that had nothing to do for so long ends.
    pub idle: Duration,
    /// Memory that the jobs of one lane may hold.
    pub lane_bytes: usize,
}

impl Default for Limits {
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

/// What a pool is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Its threads.
    pub threads: usize,
    /// Jobs that wait for a thread or for their turn.
    pub queued: usize,
    /// Requests in work for more than a second.
    pub stuck: usize,
}

type Job = Box<dyn FnOnce() + Send>;

struct Queued {
    job: Job,
    kind: Kind,
    bytes: usize,
    since: Instant,
}

#[derive(Clone, Copy)]
struct Running {
    lane: Lane,
    kind: Kind,
    bytes: usize,
    since: Instant,
}

/// What the jobs of a lane use, those that run and those that wait.
#[derive(Clone, Copy, Default)]
struct Share {
    running: usize,
    bytes: usize,
}

#[derive(Default)]
struct State {
    /// Lanes with something in their queue, the one whose turn it is in front. No queue is empty.
    turns: VecDeque<Lane>,
    queues: HashMap<Lane, VecDeque<Queued>>,
    queued: usize,
    /// No share is zero.
    shares: HashMap<Lane, Share>,
    domains: HashMap<Domain, usize>,
    running: HashMap<u64, Running>,
    /// The number of the next job that runs.
    next: u64,
    threads: usize,
    /// Threads that have been asked for and are not there yet; they count as threads.
    starting: usize,
    idle: usize,
    has_ended: bool,
}

struct Shared {
    limits: Limits,
    state: Mutex<State>,
    /// There is something to do for a thread, or the end has come.
    work: Condvar,
    /// A job is done.
    done: Condvar,
}

/// The pool; clones are the same one.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without threads.
    pub(super) fn new(limits: Limits) -> Self {
        let state = Mutex::new(State::default());
        Self(Arc::new(Shared { limits, state, work: Condvar::new(), done: Condvar::new() }))
    }

    /// Takes a job on; whether a thread has to be started for it ([`Pool::start_threads`]).
    pub(super) fn submit(&self, lane: Lane, kind: Kind, bytes: usize, job: Job) -> bool {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        let may_run = state.may_run(lane, &self.0.limits, now);
        state.push(lane, Queued { job, kind, bytes, since: now });
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

    pub(super) fn usage(&self) -> Usage {
        let state = self.0.state.lock();
        Usage { threads: state.threads, queued: state.queued, stuck: 0 }
    }

    pub(super) fn in_work(&self, now: Instant) -> Vec<InWork> {
        let state = self.0.state.lock();
        let running = state.running.values().map(|running| (running.kind, running.since));
        let queued = state.queues.values().flatten().map(|queued| (queued.kind, queued.since));
        let age = |since| now.saturating_duration_since(since);
        running.chain(queued).map(|(kind, since)| InWork { kind, age: age(since) }).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        let state = self.0.state.lock();
        state.queued == 0 && state.running.is_empty()
    }

    pub(super) fn settle(&self, patience: Duration) -> bool {
        let busy = |state: &mut State| state.queued > 0 || !state.running.is_empty();
        !self.0.done.wait_while_for(&mut self.0.state.lock(), busy, patience).timed_out()
    }

    /// No thread begins a job from now on.
    pub(super) fn end(&self) {
        self.0.state.lock().has_ended = true;
        self.0.work.notify_all();
    }

    /// Starts the threads that are missing for the jobs that may run now, and wakes those that are there. Jobs become old,
    /// so that what could not run a moment ago may run now.
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
            // What is served needs no deep stack, and there can be hundreds.
            let thread = thread::Builder::new().name("pool".into()).stack_size(512 << 10);
            if let Err(error) = thread.spawn(move || pool.work()) {
                log::error!("cannot start a thread for requests that take long: {error}");
                let mut state = self.0.state.lock();
                state.threads -= 1;
                state.starting -= 1;
            }
        }
    }

    /// What a thread of the pool does.
    fn work(&self) {
        let mut state = self.0.state.lock();
        state.starting -= 1;
        loop {
            if state.has_ended {
                break;
            }
            if let Some((number, job)) = state.take(&self.0.limits, Instant::now()) {
                drop(state);
                // Whoever waits for a job that panics gets an error when the job is dropped.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    log::error!("a request was not served to its end, because of a defect in this program");
                }
                state = self.0.state.lock();
                state.finish(number);
                self.0.done.notify_all();
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

impl State {
    fn push(&mut self, lane: Lane, queued: Queued) {
        self.queued += 1;
        self.shares.entry(lane).or_default().bytes += queued.bytes;
        let queue = self.queues.entry(lane).or_default();
        if queue.is_empty() {
            self.turns.push_back(lane);
        }
        queue.push_back(queued);
    }

    /// How many more jobs of a lane may run.
    fn room(&self, lane: Lane, limits: &Limits) -> usize {
        let running = self.shares.get(&lane).map_or(0, |share| share.running);
        let left = match lane.load {
            Load::Probe => limits.lane,
            _ => limits.domain.saturating_sub(self.domains.get(&lane.domain).copied().unwrap_or_default()),
        };
        // Nobody gets more than a quarter of what is left: however many users are stuck, the next one has room.
        let most = limits.lane.min(((left + running) / 4).max(1));
        most.saturating_sub(running).min(left)
    }

    /// How many more jobs may run that use a processor.
    fn heavy_room(&self, limits: &Limits, now: Instant) -> usize {
        let is_fresh = |running: &&Running| {
            running.lane.load == Load::Heavy && now.saturating_duration_since(running.since) < limits.fresh
        };
        limits.heavy.saturating_sub(self.running.values().filter(is_fresh).count())
    }

    fn may_run(&self, lane: Lane, limits: &Limits, now: Instant) -> bool {
        self.room(lane, limits) > 0 && (lane.load != Load::Heavy || self.heavy_room(limits, now) > 0)
    }

    /// How many jobs may run at once of those that wait; perhaps fewer, if they share a domain.
    fn count_that_may_run(&self, limits: &Limits, now: Instant) -> usize {
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

    /// The job whose turn it is, with a number that it has while it runs.
    fn take(&mut self, limits: &Limits, now: Instant) -> Option<(u64, Job)> {
        let place = self.turns.iter().position(|&lane| self.may_run(lane, limits, now))?;
        let lane = self.turns.remove(place)?;
        let queue = self.queues.get_mut(&lane)?;
        let queued = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&lane);
        } else {
            self.turns.push_back(lane);
        }
        let Queued { job, kind, bytes, .. } = queued?;
        self.queued -= 1;
        self.shares.entry(lane).or_default().running += 1;
        if lane.load != Load::Probe {
            *self.domains.entry(lane.domain).or_default() += 1;
        }
        self.next += 1;
        self.running.insert(self.next, Running { lane, kind, bytes, since: now });
        Some((self.next, job))
    }

    fn finish(&mut self, number: u64) {
        let Some(Running { lane, bytes, .. }) = self.running.remove(&number) else { return };
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
    }
}
