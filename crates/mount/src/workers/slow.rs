//! Slow requests: similar ones go to the pool for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::RequestKind;

/// Number of distinguished kinds.
const KINDS: usize = 64;
/// Number of distinguished users; others share an entry.
const USERS: usize = 64;

/// The kinds of requests that are slow at the moment, by user. An estimate that only affects speed.
#[derive(Debug)]
pub struct SlowRequests {
    begun: Instant,
    /// End of the slow period, in milliseconds since `begun`.
    until: Box<[AtomicU32]>,
}

impl Default for SlowRequests {
    fn default() -> Self {
        Self { begun: Instant::now(), until: (0..KINDS * USERS).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl SlowRequests {
    /// A request that takes longer is slow. A thread usually waits less than this for a processor on a busy machine.
    const SLOW: Duration = Duration::from_millis(6);
    /// Duration of the slow period after a slow request.
    const FOR: Duration = Duration::from_secs(1);

    fn place(&self, kind: RequestKind, user: u32) -> &AtomicU32 {
        &self.until[usize::from(kind) % KINDS * USERS + user as usize % USERS]
    }

    fn at(&self, now: Instant) -> u32 {
        // Wraps around after 49 days, which may start or end a slow period by mistake.
        now.saturating_duration_since(self.begun).as_millis() as u32
    }

    /// Whether a request of this kind of this user may be slow.
    pub fn contains(&self, kind: RequestKind, user: u32, now: Instant) -> bool {
        let until = self.place(kind, user).load(Ordering::Relaxed);
        until != 0 && until.wrapping_sub(self.at(now)) <= Self::FOR.as_millis() as u32
    }

    /// Records that a request of this kind and user took `took` and has just ended.
    pub fn record_duration(&self, kind: RequestKind, user: u32, took: Duration, now: Instant) {
        if took >= Self::SLOW {
            let until = self.at(now).wrapping_add(Self::FOR.as_millis() as u32).max(1);
            self.place(kind, user).store(until, Ordering::Relaxed);
        }
    }
}
