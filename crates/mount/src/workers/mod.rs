//! The threads that serve requests: a few that answer at once, and a pool for requests that may take long.
//!
//! A file server has about as many reading threads as processors; more would only wake each other up. A request that blocks a
//! reading thread blocks all clients. So:
//!
//! - Requests that are known to take long, and all requests to another file system below the source, leave the reading
//!   thread at once and go to the [pool](WorkerPool). The transport decides which requests these are.
//! - A request that takes long *unexpectedly* sends the following ones of the same user and kind to the pool for a second
//!   ([`SlowRequests`]). A cold disk costs a reading thread one wait, not a thousand.
//! - If all reading threads are stuck nevertheless, the [reader threads](ReaderThreads) have threads in reserve, and the [supervisor](Workers::start)
//!   activates one a few milliseconds later. While no thread is in reserve, every request goes to the pool. So the last reading
//!   thread never blocks.
//!
//! The pool has a queue for each user, file system and kind of load (a [`Lane`]), serves the queues in turn, and starts threads
//! while its threads are stuck, up to limits for each lane, for each file system, and in total. Work for the processor (copying) is
//! limited to the number of processors until it turns out to wait for something.
//!
//! This module knows no protocol: requests are numbers ([`RequestKind`]) and closures. The supervisor, which acts for no client, starts all
//! threads, so they begin with the credentials and capabilities of the server, never with those of a client.

mod interrupts;
mod pool;
mod reader_threads;
mod slow;
mod supervisor;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namegate_sys::process::processors;
use pool::QueuedJob;
pub use pool::{Domain, Lane, Load, PoolLimits, PoolUsage, WorkerPool};
pub use reader_threads::{ReaderThreads, RequestTurn};
pub use slow::SlowRequests;

/// The kind of a request, a number that the transport defines. Only used for reports.
pub type RequestKind = u8;

/// A request that is being served, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestInProgress {
    pub kind: RequestKind,
    /// Time since it was started, or since it was queued if it was not started.
    pub age: Duration,
}

/// Number of reading threads: the number of processors.
pub fn regular_readers() -> usize {
    processors()
}

/// All threads that serve requests.
#[derive(Debug)]
pub struct Workers {
    reader_threads: Arc<ReaderThreads>,
    pool: WorkerPool,
    supervisor: supervisor::Supervisor,
}

impl Workers {
    /// Starts the supervisor, for a transport with `regular` reading threads and [`ReaderThreads::RESERVE`] more.
    ///
    /// # Errors
    /// The supervisor's thread cannot be started.
    pub fn start(regular: usize, limits: PoolLimits) -> io::Result<Self> {
        let reader_threads = Arc::new(ReaderThreads::new(regular));
        let pool = WorkerPool::new(limits);
        let supervisor = supervisor::Supervisor::start(reader_threads.clone(), pool.clone())?;
        Ok(Self { reader_threads, pool, supervisor })
    }

    /// Begins a request in the calling thread, a reading one; the request ends when the returned value is dropped.
    pub fn begin(&self, kind: RequestKind) -> RequestTurn<'_> {
        let turn = self.reader_threads.begin(kind);
        self.supervisor.notice();
        turn
    }

    /// Whether no reading thread is in reserve although one could be: then no request may be served in place.
    pub fn is_short(&self) -> bool {
        self.reader_threads.is_short()
    }

    /// Has all threads read: each gets requests that no other thread gets, so none can rest, and none is in reserve for another.
    pub fn keep_reading(&self) {
        self.reader_threads.keep_reading();
    }

    /// Called by a reading thread between two requests: blocks while the thread is not needed.
    pub fn park_if_unneeded(&self) {
        self.reader_threads.park_if_unneeded();
    }

    /// Runs `job` in the pool. `bytes` is the memory that it holds, for [`Workers::has_room`].
    pub fn submit(&self, lane: Lane, kind: RequestKind, bytes: usize, job: impl FnOnce() + Send + 'static) {
        self.submit_with(None, lane, kind, bytes, job);
    }

    /// Runs `job` in the pool, as [`Workers::submit`] does. [`Workers::interrupt`] can interrupt it by its interrupt id, a number that
    /// is used once.
    pub fn submit_with(
        &self,
        interrupt_id: Option<u64>,
        lane: Lane,
        kind: RequestKind,
        bytes: usize,
        job: impl FnOnce() + Send + 'static,
    ) {
        let queued = QueuedJob { job: Box::new(job), kind, bytes, interrupt_id, since: Instant::now() };
        if self.pool.submit(lane, queued) {
            self.supervisor.attend();
        } else {
            self.supervisor.notice();
        }
    }

    /// Makes the system calls of the job with this interrupt id fail with EINTR, as far as they can be interrupted, until it ends. Does
    /// nothing if there is no such job; it may also come later.
    pub fn interrupt(&self, interrupt_id: u64) {
        self.pool.interrupt(interrupt_id);
    }

    /// Whether [`Workers::interrupt`] was called with the interrupt id of something that is no job. That is then forgotten.
    pub fn was_interrupted(&self, interrupt_id: u64) -> bool {
        self.pool.was_interrupted(interrupt_id)
    }

    /// Whether the jobs of this lane hold less memory than the limit.
    pub fn has_room(&self, lane: Lane) -> bool {
        self.pool.has_room(lane)
    }

    /// Usage of the pool, and the number of requests in progress for more than a second, in the pool or not.
    pub fn usage(&self) -> PoolUsage {
        const STUCK: Duration = Duration::from_secs(1);
        let stuck = self.in_progress_longer_than(STUCK).len();
        PoolUsage { stuck, ..self.pool.usage() }
    }

    /// The requests in progress for longer than `age`.
    pub fn in_progress_longer_than(&self, age: Duration) -> Vec<RequestInProgress> {
        let now = Instant::now();
        let mut all = self.pool.in_work(now);
        all.extend(self.reader_threads.in_work(now));
        all.retain(|work| work.age > age);
        all
    }

    /// Waits until the pool is idle, at most `patience`. Returns whether it is.
    pub fn wait_until_idle(&self, patience: Duration) -> bool {
        self.pool.wait_until_idle(patience)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.pool.end();
        self.supervisor.end();
    }
}

#[cfg(test)]
mod tests;
