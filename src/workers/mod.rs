//! The threads that serve requests: few that answer at once, and a pool for what may take long.
//!
//! A file server has about as many threads that read requests as there are processors; more of them would only wake each
//! other up. A request that blocks such a thread blocks everybody. So:
//!
//! - Requests that are known to take long, and all requests to another file system below the source, leave the reading
//!   thread at once and go to the [pool](Pool). Which requests these are, the transport knows.
//! - A request that took long *unexpectedly* sends the next ones of the same user and kind to the pool, for a second
//!   ([`SlowRequests`]). A cold disk costs a reading thread one wait, not a thousand.
//! - If all reading threads are stuck nevertheless, one more is there: the [roster](Roster) holds threads in reserve, and
//!   the [keeper](Workers::start) calls one in a few milliseconds after the others got stuck. While no thread is left in
//!   reserve, every request goes to the pool. So the last reading thread never serves anything by itself, whatever blocks.
//!
//! The pool has a queue for each user, file system and kind of load (a [`Lane`]), takes them in turn, and starts threads as
//! long as its threads are stuck: up to a bound for each lane, for each file system, and for all. Work for the processor
//! (copying) is limited to as many threads as there are processors until it turns out to wait for something.
//!
//! Nothing here knows a protocol: requests are numbers ([`Kind`]) and closures. All threads are started by the keeper, which
//! acts for nobody, so that they begin with the credentials and capabilities of the server itself, never with those that a
//! thread has taken on for a client.

mod keeper;
mod pool;
mod roster;
mod slow;

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub use pool::{Domain, Lane, Limits, Load, Pool, Usage};
pub use roster::{Roster, Turn};
pub use slow::SlowRequests;

/// The kind of a request, by a number that the transport gives it. Only used for reports.
pub type Kind = u8;

/// A request that is being served, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InWork {
    /// Its kind.
    pub kind: Kind,
    /// How long it has been in work; one that was never started counts from when it was queued.
    pub age: Duration,
}

/// How many threads are to read requests: as many as there are processors.
pub fn regular_readers() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// All threads that serve requests.
#[derive(Debug)]
pub struct Workers {
    roster: Arc<Roster>,
    pool: Pool,
    keeper: keeper::Keeper,
}

impl Workers {
    /// For a transport that reads requests with `regular` threads and [`Roster::RESERVE`] more.
    ///
    /// # Errors
    /// The keeper's thread cannot be started.
    pub fn start(regular: usize, limits: Limits) -> io::Result<Self> {
        let roster = Arc::new(Roster::new(regular));
        let pool = Pool::new(limits);
        let keeper = keeper::Keeper::start(roster.clone(), pool.clone())?;
        Ok(Self { roster, pool, keeper })
    }

    /// The calling thread, a reading one, begins a request; it is done when the value returned is dropped.
    pub fn begin(&self, kind: Kind) -> Turn<'_> {
        let turn = self.roster.begin(kind);
        self.keeper.notice();
        turn
    }

    /// Whether no reading thread is left in reserve: nothing may be served in place then.
    pub fn is_short(&self) -> bool {
        self.roster.is_short()
    }

    /// Between two requests of the calling thread, a reading one: keeps it here as long as it is not needed.
    pub fn rest(&self) {
        self.roster.rest();
    }

    /// Runs `job` in the pool. `bytes` is the memory that it holds, for [`Workers::has_room`].
    pub fn submit(&self, lane: Lane, kind: Kind, bytes: usize, job: impl FnOnce() + Send + 'static) {
        if self.pool.submit(lane, kind, bytes, Box::new(job)) {
            self.keeper.attend();
        } else {
            self.keeper.notice();
        }
    }

    /// Whether jobs of this lane hold less memory than one lane may.
    pub fn has_room(&self, lane: Lane) -> bool {
        self.pool.has_room(lane)
    }

    /// What the pool is doing, and how many requests have been in work for more than a second, in the pool or not.
    pub fn usage(&self) -> Usage {
        const STUCK: Duration = Duration::from_secs(1);
        let stuck = self.in_work_for(STUCK).len();
        Usage { stuck, ..self.pool.usage() }
    }

    /// The requests that have been in work for longer than `age`.
    pub fn in_work_for(&self, age: Duration) -> Vec<InWork> {
        let now = Instant::now();
        let mut all = self.pool.in_work(now);
        all.extend(self.roster.in_work(now));
        all.retain(|work| work.age > age);
        all
    }

    /// Waits until the pool has nothing to do, at most that long; whether it has.
    pub fn settle(&self, patience: Duration) -> bool {
        self.pool.settle(patience)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.pool.end();
        self.keeper.end();
    }
}

#[cfg(test)]
mod tests;
