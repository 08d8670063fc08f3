//! The supervisor: a thread that reviews the others every few milliseconds while there are requests, and sleeps otherwise.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::pool::WorkerPool;
use super::reader_threads::ReaderThreads;

/// Interval between two reviews.
const TICK: Duration = Duration::from_millis(4);

/// Interval between two signals to a job that is to be interrupted.
const AGAIN: Duration = Duration::from_millis(20);

/// Number of reviews without requests before it sleeps. Waking it costs the next request some microseconds.
const IDLE_REVIEWS: u32 = 250;

#[derive(Debug, Default)]
struct SupervisorSignals {
    is_asleep: AtomicBool,
    has_ended: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Supervisor {
    signs: Arc<SupervisorSignals>,
    thread: Thread,
}

impl Supervisor {
    pub(super) fn start(reader_threads: Arc<ReaderThreads>, pool: WorkerPool) -> io::Result<Self> {
        let signs = Arc::new(SupervisorSignals::default());
        let its_signs = signs.clone();
        let keeping = thread::Builder::new().name("supervisor".into());
        let handle = keeping.spawn(move || keep(&its_signs, &reader_threads, &pool))?;
        Ok(Self { signs, thread: handle.thread().clone() })
    }

    /// Wakes the supervisor if it sleeps. Called when a request begins.
    pub(super) fn notice(&self) {
        if self.signs.is_asleep.load(Ordering::Relaxed) && self.signs.is_asleep.swap(false, Ordering::Relaxed)
        {
            self.thread.unpark();
        }
    }

    /// Makes the supervisor start threads at once.
    pub(super) fn attend(&self) {
        self.signs.is_asleep.store(false, Ordering::Relaxed);
        self.thread.unpark();
    }

    pub(super) fn end(&self) {
        self.signs.has_ended.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

fn keep(signs: &SupervisorSignals, reader_threads: &ReaderThreads, pool: &WorkerPool) {
    let (mut quiet, mut reviewed, mut interrupted) = (0, Instant::now(), Instant::now());
    while !signs.has_ended.load(Ordering::Acquire) {
        pool.start_threads();
        let now = Instant::now();
        // The supervisor can be woken early; a thread is not stuck just because its slot has not changed since then.
        if now - reviewed >= TICK {
            reviewed = now;
            if now - interrupted >= AGAIN {
                interrupted = now;
                pool.interrupt_again();
            }
            let is_busy = reader_threads.review(now) || !pool.is_idle();
            quiet = if is_busy { 0 } else { quiet + 1 };
        }
        if quiet < IDLE_REVIEWS {
            thread::park_timeout(TICK);
            continue;
        }
        signs.is_asleep.store(true, Ordering::Relaxed);
        // See ReaderThreads::begin: a thread that begins a request after this check sees that the supervisor sleeps.
        fence(Ordering::SeqCst);
        if reader_threads.has_work() || !pool.is_idle() {
            signs.is_asleep.store(false, Ordering::Relaxed);
        } else {
            thread::park();
        }
        // Stay awake for a while after being woken.
        quiet = 0;
    }
}
