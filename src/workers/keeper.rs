//! One thread that looks after the others: every few milliseconds while there is something to do, and not at all otherwise.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::pool::Pool;
use super::roster::Roster;

/// How often it looks.
const TICK: Duration = Duration::from_millis(4);

/// After so many looks without anything to see it sleeps: waking it up costs the next request some microseconds.
const QUIET: u32 = 250;

#[derive(Debug, Default)]
struct Signs {
    is_asleep: AtomicBool,
    has_ended: AtomicBool,
}

/// The keeper.
#[derive(Debug)]
pub(super) struct Keeper {
    signs: Arc<Signs>,
    thread: Thread,
}

impl Keeper {
    pub(super) fn start(roster: Arc<Roster>, pool: Pool) -> io::Result<Self> {
        let signs = Arc::new(Signs::default());
        let its_signs = signs.clone();
        let keeping = thread::Builder::new().name("keeper".into());
        let handle = keeping.spawn(move || keep(&its_signs, &roster, &pool))?;
        Ok(Self { signs, thread: handle.thread().clone() })
    }

    /// There may be something to look after: to be called when a request has begun.
    pub(super) fn notice(&self) {
        if self.signs.is_asleep.load(Ordering::Relaxed) && self.signs.is_asleep.swap(false, Ordering::Relaxed)
        {
            self.thread.unpark();
        }
    }

    /// There is something to do at once.
    pub(super) fn attend(&self) {
        self.signs.is_asleep.store(false, Ordering::Relaxed);
        self.thread.unpark();
    }

    pub(super) fn end(&self) {
        self.signs.has_ended.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

fn keep(signs: &Signs, roster: &Roster, pool: &Pool) {
    let (mut quiet, mut reviewed) = (0, Instant::now());
    while !signs.has_ended.load(Ordering::Acquire) {
        pool.start_threads();
        let now = Instant::now();
        // It can be woken up in between, and what is the same after a moment is not stuck.
        if now - reviewed >= TICK {
            reviewed = now;
            let is_busy = roster.review(now) || !pool.is_idle();
            quiet = if is_busy { 0 } else { quiet + 1 };
        }
        if quiet < QUIET {
            thread::park_timeout(TICK);
            continue;
        }
        signs.is_asleep.store(true, Ordering::Relaxed);
        // See Roster::begin: whoever begins a request after this look sees that this thread sleeps.
        fence(Ordering::SeqCst);
        if roster.has_work() || !pool.is_idle() {
            signs.is_asleep.store(false, Ordering::Relaxed);
        } else {
            thread::park();
        }
        // A thread that is called up for nothing sleeps again after one look.
        quiet = 0;
    }
}
