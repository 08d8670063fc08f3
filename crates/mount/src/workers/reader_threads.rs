//! The reading threads: which ones are active, and which ones are in reserve.
//!
//! The transport starts [`ReaderThreads::RESERVE`] more threads than needed. Each thread calls [`ReaderThreads::park_if_unneeded`] after a request, and the
//! surplus ones block there. They cost nothing, and continue when the supervisor finds that others are stuck.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Instant;

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

#[derive(Debug)]
pub struct ReaderThreads {
    regular: usize,
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
    seen: Mutex<Vec<SlotObservation>>,
}

/// The slot of a thread, until it ends.
struct SlotGuard {
    reader_threads: Weak<ReaderThreads>,
    slot: usize,
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
            };
            let seat = seat.get_or_init(new);
            std::ptr::eq(seat.reader_threads.as_ptr(), &raw const **self).then_some(seat.slot)
        });
        // Additional threads have no slot.
        let slot = slot.and_then(|slot| self.slots.get(slot)).map(|slot| &slot.0);
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
        let mut seen = self.seen.lock();
        seen.resize(self.slots.len(), SlotObservation { value: 0, since: now, is_stuck: false });
        let (mut at_work, mut stuck) = (0, 0);
        for (slot, seen) in self.slots.iter().zip(seen.iter_mut()) {
            let value = slot.0.load(Ordering::Acquire);
            let is_at_work = value & KIND != 0;
            seen.is_stuck = is_at_work && seen.value == value;
            if seen.value != value {
                *seen = SlotObservation { value, since: now, is_stuck: false };
            }
            at_work += usize::from(is_at_work);
            stuck += usize::from(seen.is_stuck);
        }
        drop(seen);
        self.call(stuck);
        at_work > 0
    }

    /// Activates threads until the regular number is not stuck, but keeps one in reserve as long as any other thread reads.
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

    pub(super) fn in_work(&self, now: Instant) -> Vec<RequestInProgress> {
        let seen = self.seen.lock();
        let stuck = seen.iter().zip(&self.slots).filter(|(seen, slot)| {
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
