//! Requests that took longer than expected: the next ones like them go to the pool for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::Kind;

/// Kinds that are told apart.
const KINDS: usize = 64;
/// Users that are told apart; more of them share.
const USERS: usize = 64;

/// Which kinds of requests of which users are slow at the moment. A guess about speed: nothing depends on it being right.
#[derive(Debug)]
pub struct SlowRequests {
    begun: Instant,
    /// Until when, in milliseconds from the beginning.
    until: Box<[AtomicU32]>,
}

impl Default for SlowRequests {
    fn default() -> Self {
        Self { begun: Instant::now(), until: (0..KINDS * USERS).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl SlowRequests {
    /// A request that a reading thread serves within this time disturbs nobody much. Longer than a thread usually has to
    /// wait for a processor on a busy machine.
    const SLOW: Duration = Duration::from_millis(6);
    /// How long one slow request counts.
    const FOR: Duration = Duration::from_secs(1);

    fn place(&self, kind: Kind, user: u32) -> &AtomicU32 {
        &self.until[usize::from(kind) % KINDS * USERS + user as usize % USERS]
    }

    fn at(&self, now: Instant) -> u32 {
        // 49 days: what it comes round to is off by a second of slowness.
        now.saturating_duration_since(self.begun).as_millis() as u32
    }

    /// Whether a request of this kind of this user may be slow.
    pub fn contains(&self, kind: Kind, user: u32, now: Instant) -> bool {
        let until = self.place(kind, user).load(Ordering::Relaxed);
        until != 0 && until.wrapping_sub(self.at(now)) <= Self::FOR.as_millis() as u32
    }

    /// A request of this kind of this user took so long, and ended now.
    pub fn learn(&self, kind: Kind, user: u32, took: Duration, now: Instant) {
        if took >= Self::SLOW {
            let until = self.at(now).wrapping_add(Self::FOR.as_millis() as u32).max(1);
            self.place(kind, user).store(until, Ordering::Relaxed);
        }
    }
}
