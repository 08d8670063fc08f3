//! The threads that read requests: which of them are at work, and which are held in reserve.
//!
//! The transport starts [`Roster::RESERVE`] more threads than are to read. Each thread calls [`Roster::rest`] after a
//! request, and the surplus ones stay there. A thread that is held costs nothing; it goes on when the keeper finds others
//! stuck.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::{InWork, Kind};

/// What one thread is doing, written by that thread alone, on cache lines of its own: its turns so far in the upper 56
/// bits, and below them the kind of its request plus 1, or 0 between two requests.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

const KIND: u64 = 0xFF;
const TURN: u64 = 0x100;

#[derive(Debug, Default)]
struct Resting {
    /// Threads that may go on.
    calls: usize,
    has_ended: bool,
}

/// What the keeper saw of a thread.
#[derive(Clone, Copy, Debug)]
struct Seen {
    value: u64,
    since: Instant,
    /// Whether it was the same twice: it has been in one request for at least the time between two looks.
    is_stuck: bool,
}

/// The reading threads.
#[derive(Debug)]
pub struct Roster {
    regular: usize,
    slots: Box<[Slot]>,
    /// How many slots have been given to threads.
    seated: AtomicUsize,
    /// Threads that do not rest.
    active: AtomicUsize,
    /// How many of them there should be.
    wanted: AtomicUsize,
    /// Threads that rest.
    reserve: AtomicUsize,
    resting: Mutex<Resting>,
    called: Condvar,
    seen: Mutex<Vec<Seen>>,
}

/// The slot of a thread, until it ends.
struct Seat {
    roster: Weak<Roster>,
    slot: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        // One that reads no more means that there is nothing more to read: those that rest have to find out, too.
        if let Some(roster) = self.roster.upgrade() {
            roster.resting.lock().has_ended = true;
            roster.called.notify_all();
        }
    }
}

thread_local!(static SEAT: OnceCell<Seat> = const { OnceCell::new() });

/// A request that a reading thread has begun; done when dropped.
#[derive(Debug)]
pub struct Turn<'r>(Option<&'r AtomicU64>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            // Only this thread writes to it.
            slot.store((slot.load(Ordering::Relaxed) & !KIND) + TURN, Ordering::Release);
        }
    }
}

impl Roster {
    /// Threads beside the regular ones. With one in reserve, a single stuck request would already send everything to the pool.
    pub const RESERVE: usize = 2;

    pub(super) fn new(regular: usize) -> Self {
        let all = regular + Self::RESERVE;
        Self {
            regular,
            slots: (0..all).map(|_| Slot::default()).collect(),
            seated: AtomicUsize::new(0),
            active: AtomicUsize::new(all),
            wanted: AtomicUsize::new(regular),
            reserve: AtomicUsize::new(0),
            resting: Mutex::default(),
            called: Condvar::new(),
            seen: Mutex::default(),
        }
    }

    pub(super) fn begin(self: &Arc<Self>, kind: Kind) -> Turn<'_> {
        let slot = SEAT.with(|seat| {
            let new =
                || Seat { roster: Arc::downgrade(self), slot: self.seated.fetch_add(1, Ordering::Relaxed) };
            let seat = seat.get_or_init(new);
            std::ptr::eq(seat.roster.as_ptr(), &raw const **self).then_some(seat.slot)
        });
        // More threads than were announced would have none.
        let slot = slot.and_then(|slot| self.slots.get(slot)).map(|slot| &slot.0);
        if let Some(slot) = slot {
            slot.store(slot.load(Ordering::Relaxed) & !KIND | (u64::from(kind) + 1), Ordering::Relaxed);
            // Before this thread looks whether the keeper sleeps: either it sees that, or the keeper sees the request.
            fence(Ordering::SeqCst);
        }
        Turn(slot)
    }

    pub(super) fn is_short(&self) -> bool {
        self.reserve.load(Ordering::Relaxed) == 0
    }

    pub(super) fn rest(&self) {
        if self.active.load(Ordering::Relaxed) <= self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut resting = self.resting.lock();
        // All changes of these numbers are made under the lock. Of threads that have a seat one keeps reading: when that ends
        // those that rest hear of it, and from threads that have never served anything they would hear nothing.
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

    /// Looks at all threads once more, and calls in as many as are missing. Whether any thread is at work.
    pub(super) fn review(&self, now: Instant) -> bool {
        let mut seen = self.seen.lock();
        seen.resize(self.slots.len(), Seen { value: 0, since: now, is_stuck: false });
        let (mut at_work, mut stuck) = (0, 0);
        for (slot, seen) in self.slots.iter().zip(seen.iter_mut()) {
            let value = slot.0.load(Ordering::Acquire);
            let is_at_work = value & KIND != 0;
            seen.is_stuck = is_at_work && seen.value == value;
            if seen.value != value {
                *seen = Seen { value, since: now, is_stuck: false };
            }
            at_work += usize::from(is_at_work);
            stuck += usize::from(seen.is_stuck);
        }
        drop(seen);
        self.call(stuck);
        at_work > 0
    }

    /// Lets so many threads read beside those that are stuck as are to read, but keeps one in reserve as long as any other
    /// thread reads.
    fn call(&self, stuck: usize) {
        let all = self.slots.len();
        let wanted = match stuck + 1 >= all {
            true => all,
            false => (self.regular + stuck).min(all - 1),
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

    pub(super) fn in_work(&self, now: Instant) -> Vec<InWork> {
        let seen = self.seen.lock();
        let stuck = seen.iter().zip(&self.slots).filter(|(seen, slot)| {
            // It may have ended since.
            seen.is_stuck && slot.0.load(Ordering::Relaxed) == seen.value
        });
        let kind = |value: u64| (value & KIND).saturating_sub(1) as Kind;
        stuck
            .map(|(seen, _)| InWork {
                kind: kind(seen.value),
                age: now.saturating_duration_since(seen.since),
            })
            .collect()
    }

    pub(super) fn has_work(&self) -> bool {
        self.slots.iter().any(|slot| slot.0.load(Ordering::SeqCst) & KIND != 0)
    }
}
