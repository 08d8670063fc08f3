//! The reading threads: which ones are active, and which ones are in reserve.
//!
//! The transport starts [`ReaderThreads::RESERVE`] more threads than needed. Each thread calls [`ReaderThreads::park_if_unneeded`] after a request, and the
//! surplus ones block there. They cost nothing, and continue when the supervisor finds that others are stuck.
//!
//! One client needs one thread: the kernel gives each request to the thread that has waited longest, so several threads would take turns, each
//! woken on a processor that sleeps. How many are needed is seen from two numbers: how many requests a thread found waiting when it had
//! answered one, without being put to sleep, and how often all threads were at work when the supervisor looked.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use parking_lot::{Condvar, Mutex};

use super::{RequestInProgress, RequestKind};

/// Activity of one thread, written only by that thread, on its own cache lines: the number of its requests in the upper 56 bits, and
/// in the lower bits the kind of its request plus 1, or 0 between two requests.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadSlot(AtomicU64);

const KIND: u64 = 0xFF;
const TURN: u64 = 0x100;

#[derive(Debug, Default)]
struct Resting {
    /// Number of threads that may continue.
    calls: usize,
    has_ended: bool,
}

/// The last observation of a thread by the supervisor.
#[derive(Clone, Copy, Debug)]
struct SlotObservation {
    value: u64,
    since: Instant,
    /// Whether the value was the same twice: the thread has been in one request for at least the time between two reviews.
    is_stuck: bool,
}

/// What the supervisor has seen of all threads.
#[derive(Debug, Default)]
struct Observations {
    slots: Vec<SlotObservation>,
    load: ReaderLoad,
    /// The numbers of requests, and of those that were found waiting, when the load was begun.
    begun: (u64, u64),
}

/// The load of the threads for a while.
#[derive(Clone, Copy, Debug, Default)]
struct ReaderLoad {
    reviews: u32,
    /// Reviews that found as many threads at work as are needed.
    full: u32,
    requests: u64,
    /// Requests that a thread found waiting.
    waiting: u64,
}

impl ReaderLoad {
    const REVIEWS: u32 = 32;

    /// The number of threads that are needed, of at most `regular`, if it was `needed`.
    fn needed(self, needed: usize, regular: usize) -> usize {
        let Self { reviews, full, requests, waiting } = self;
        if requests < SWITCHES_EVERY {
            needed
        } else if waiting * 2 >= requests || full * 16 >= reviews * 15 {
            (needed * 2).min(regular)
        } else if waiting * 4 <= requests && full * 8 <= reviews {
            needed.div_ceil(2)
        } else {
            needed
        }
    }
}

/// After so many requests a thread looks how often it was put to sleep.
const SWITCHES_EVERY: u64 = 64;

#[derive(Debug)]
pub struct ReaderThreads {
    regular: usize,
    /// Number of threads that the load needs, at most `regular`.
    needed: AtomicUsize,
    /// Number of requests that a thread found waiting.
    waiting: AtomicU64,
    slots: Box<[ThreadSlot]>,
    /// Number of slots in use.
    seated: AtomicUsize,
    /// Number of threads that are not resting.
    active: AtomicUsize,
    /// Wanted number of active threads.
    wanted: AtomicUsize,
    /// Number of resting threads.
    reserve: AtomicUsize,
    /// Whether no thread may rest.
    keeps_reading: AtomicBool,
    resting: Mutex<Resting>,
    called: Condvar,
    seen: Mutex<Observations>,
}

/// The slot of a thread, until it ends.
struct SlotGuard {
    reader_threads: Weak<ReaderThreads>,
    slot: usize,
    /// How often the thread had been put to sleep when it looked last.
    switches: Cell<u64>,
}

impl SlotGuard {
    /// The number of the last requests that were found waiting: before each of the others the thread slept.
    fn count_waiting(&self) -> u64 {
        let switches =
            getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches());
        let switches = u64::try_from(switches).unwrap_or_default();
        SWITCHES_EVERY.saturating_sub(switches.saturating_sub(self.switches.replace(switches)))
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        // If one thread ends, there is nothing more to read: the resting threads must end too.
        if let Some(reader_threads) = self.reader_threads.upgrade() {
            reader_threads.resting.lock().has_ended = true;
            reader_threads.called.notify_all();
        }
    }
}

thread_local!(static SLOT_GUARD: OnceCell<SlotGuard> = const { OnceCell::new() });

/// A request in progress in a reading thread; it ends when this is dropped.
#[derive(Debug)]
pub struct RequestTurn<'r>(Option<&'r AtomicU64>);

impl Drop for RequestTurn<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            // Only this thread writes to it.
            slot.store((slot.load(Ordering::Relaxed) & !KIND) + TURN, Ordering::Release);
        }
    }
}

impl ReaderThreads {
    /// Number of threads in addition to the regular ones. With only one, a single stuck request would send all requests to the pool.
    pub const RESERVE: usize = 2;

    pub(super) fn new(regular: usize) -> Self {
        let all = regular + Self::RESERVE;
        Self {
            regular,
            needed: AtomicUsize::new(regular),
            waiting: AtomicU64::new(0),
            slots: (0..all).map(|_| ThreadSlot::default()).collect(),
            seated: AtomicUsize::new(0),
            active: AtomicUsize::new(all),
            wanted: AtomicUsize::new(regular),
            reserve: AtomicUsize::new(0),
            keeps_reading: AtomicBool::new(false),
            resting: Mutex::default(),
            called: Condvar::new(),
            seen: Mutex::default(),
        }
    }

    pub(super) fn begin(self: &Arc<Self>, kind: RequestKind) -> RequestTurn<'_> {
        let slot = SLOT_GUARD.with(|seat| {
            let new = || SlotGuard {
                reader_threads: Arc::downgrade(self),
                slot: self.seated.fetch_add(1, Ordering::Relaxed),
                switches: Cell::new(0),
            };
            let seat = seat.get_or_init(new);
            let is_of_these = std::ptr::eq(seat.reader_threads.as_ptr(), &raw const **self);
            // Additional threads have no slot.
            let slot = self.slots.get(seat.slot).filter(|_| is_of_these).map(|slot| &slot.0)?;
            let requests = slot.load(Ordering::Relaxed) / TURN;
            if requests % SWITCHES_EVERY == 0 {
                let waiting = seat.count_waiting();
                self.waiting.fetch_add(if requests == 0 { 0 } else { waiting }, Ordering::Relaxed);
            }
            Some(slot)
        });
        if let Some(slot) = slot {
            slot.store(slot.load(Ordering::Relaxed) & !KIND | (u64::from(kind) + 1), Ordering::Relaxed);
            // Before this thread checks whether the supervisor sleeps: either it sees that, or the supervisor sees the request.
            fence(Ordering::SeqCst);
        }
        RequestTurn(slot)
    }

    pub(super) fn is_short(&self) -> bool {
        self.reserve.load(Ordering::Relaxed) == 0 && !self.keeps_reading.load(Ordering::Relaxed)
    }

    pub(super) fn keep_reading(&self) {
        self.keeps_reading.store(true, Ordering::Relaxed);
    }

    pub(super) fn park_if_unneeded(&self) {
        if self.keeps_reading.load(Ordering::Relaxed)
            || self.active.load(Ordering::Relaxed) <= self.wanted.load(Ordering::Relaxed)
        {
            return;
        }
        let mut resting = self.resting.lock();
        // These numbers change only under the lock. At least one thread with a seat keeps reading: only such a thread wakes the
        // resting ones when it ends.
        let is_needed = self.active.load(Ordering::Relaxed) <= self.wanted.load(Ordering::Relaxed);
        let seated = self.seated.load(Ordering::Relaxed) - self.reserve.load(Ordering::Relaxed);
        if resting.has_ended || is_needed || seated < 2 {
            return;
        }
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.reserve.fetch_add(1, Ordering::Relaxed);
        while resting.calls == 0 && !resting.has_ended {
            self.called.wait(&mut resting);
        }
        resting.calls = resting.calls.saturating_sub(1);
    }

    /// Reviews all threads and activates the missing ones. Returns whether any thread is serving a request.
    pub(super) fn review(&self, now: Instant) -> bool {
        let mut observations = self.seen.lock();
        let seen = &mut observations.slots;
        seen.resize(self.slots.len(), SlotObservation { value: 0, since: now, is_stuck: false });
        let (mut at_work, mut stuck, mut requests) = (0, 0, 0);
        for (slot, seen) in self.slots.iter().zip(seen.iter_mut()) {
            let value = slot.0.load(Ordering::Acquire);
            requests += value / TURN;
            let is_at_work = value & KIND != 0;
            seen.is_stuck = is_at_work && seen.value == value;
            if seen.value != value {
                *seen = SlotObservation { value, since: now, is_stuck: false };
            }
            at_work += usize::from(is_at_work);
            stuck += usize::from(seen.is_stuck);
        }
        self.weigh(&mut observations, at_work, requests);
        drop(observations);
        self.call(stuck);
        at_work > 0
    }

    /// Decides once in a while how many threads are needed. `requests` is the number of all that there ever were.
    fn weigh(&self, observations: &mut Observations, at_work: usize, requests: u64) {
        let needed = self.needed.load(Ordering::Relaxed);
        let load = &mut observations.load;
        load.reviews += 1;
        load.full += u32::from(at_work >= needed);
        if load.reviews < ReaderLoad::REVIEWS {
            return;
        }
        let now = (requests, self.waiting.load(Ordering::Relaxed));
        let before = std::mem::replace(&mut observations.begun, now);
        (load.requests, load.waiting) = (now.0 - before.0, now.1 - before.1);
        self.needed.store(std::mem::take(load).needed(needed, self.regular), Ordering::Relaxed);
    }

    /// Activates threads until the needed number is not stuck, but keeps one in reserve as long as any other thread reads.
    fn call(&self, stuck: usize) {
        let all = self.slots.len();
        let wanted = match stuck + 1 >= all {
            true => all,
            false => (self.needed.load(Ordering::Relaxed) + stuck).min(all - 1),
        };
        if wanted == self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut resting = self.resting.lock();
        self.wanted.store(wanted, Ordering::Relaxed);
        let missing = wanted.saturating_sub(self.active.load(Ordering::Relaxed));
        let called = missing.min(self.reserve.load(Ordering::Relaxed));
        if called > 0 {
            self.active.fetch_add(called, Ordering::Relaxed);
            self.reserve.fetch_sub(called, Ordering::Relaxed);
            resting.calls += called;
            self.called.notify_all();
        }
    }

    pub(super) fn in_work(&self, now: Instant) -> Vec<RequestInProgress> {
        let seen = self.seen.lock();
        let stuck = seen.slots.iter().zip(&self.slots).filter(|(seen, slot)| {
            // The request may have ended since.
            seen.is_stuck && slot.0.load(Ordering::Relaxed) == seen.value
        });
        let kind = |value: u64| (value & KIND).saturating_sub(1) as RequestKind;
        stuck
            .map(|(seen, _)| RequestInProgress {
                kind: kind(seen.value),
                age: now.saturating_duration_since(seen.since),
            })
            .collect()
    }

    pub(super) fn has_work(&self) -> bool {
        self.slots.iter().any(|slot| slot.0.load(Ordering::SeqCst) & KIND != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_needs_one_thread_and_many_need_all() {
        let load = |full, requests, waiting| ReaderLoad { reviews: 32, full, requests, waiting };
        let few = load(0, 63, 63);
        assert_eq!((few.needed(1, 8), few.needed(8, 8)), (1, 8), "nothing can be said");
        // Each request comes after the reply to the one before; at most a RELEASE beside it.
        for alone in [load(12, 10_000, 0), load(20, 10_000, 2_500)] {
            assert_eq!(alone.needed(1, 8), 1);
        }
        let alone = load(1, 10_000, 100);
        assert_eq!([8, 5, 3, 2, 1].map(|needed| alone.needed(needed, 8)), [4, 3, 2, 1, 1]);
        // They find requests waiting, or are all at work, perhaps waiting for a disk.
        for busy in [load(16, 10_000, 5_000), load(31, 10_000, 0)] {
            assert_eq!([1, 2, 4, 8].map(|needed| busy.needed(needed, 6)), [2, 4, 6, 6]);
        }
        assert_eq!(load(8, 10_000, 1_000).needed(4, 8), 4);
    }
}
