//! How much of a processor the thread that hears of changes may use.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// How much of a processor this thread may use, and for how long it pauses when it has used more.
#[derive(Debug)]
pub(super) struct TimeBudget {
    since: Instant,
    used: Duration,
    /// When the credit was counted last, and what the thread had used by then.
    counted: (Instant, Duration),
    /// Processor time for events that do not wait for others.
    credit: Duration,
    /// The length of the last pause, and when it ended.
    paused: (Duration, Instant),
}

impl TimeBudget {
    const WINDOW: Duration = Duration::from_secs(10);
    /// Some hundred events after a quiet time are handled at once.
    const MOST_CREDIT: Duration = Duration::from_millis(5);
    /// Whoever unpacks an archive is done soon.
    const FIRST_PAUSE: Duration = Duration::from_secs(10);
    const LONGEST_PAUSE: Duration = Duration::from_secs(600);

    pub(super) fn new() -> Self {
        let (now, used) = (Instant::now(), used());
        let counted = (now, used);
        Self { since: now, used, counted, credit: Self::MOST_CREDIT, paused: (Duration::ZERO, now) }
    }

    /// How long to pause: twice as long each time, unless as much time has passed without need for one.
    pub(super) fn start_pause(&mut self) -> Duration {
        let (last, ended) = self.paused;
        let is_calm = ended.elapsed() > last + 2 * Self::WINDOW;
        let next = if is_calm { Self::FIRST_PAUSE } else { last * 2 };
        self.paused.0 = next.clamp(Self::FIRST_PAUSE, Self::LONGEST_PAUSE);
        self.paused.0
    }

    /// Starts a new window.
    pub(super) fn end_pause(&mut self) {
        *self = Self { paused: (self.paused.0, Instant::now()), ..Self::new() };
    }

    /// Whether the next events are handled as soon as they come: the thread has used less than a fortieth of a processor lately.
    pub(super) fn has_credit(&mut self) -> bool {
        let now = (Instant::now(), used());
        let (before, used) = std::mem::replace(&mut self.counted, now);
        let earned = (now.0 - before) / 40;
        self.credit =
            (self.credit + earned).min(Self::MOST_CREDIT).saturating_sub(now.1.saturating_sub(used));
        !self.credit.is_zero()
    }

    /// Whether the thread has used more than a twentieth of a processor in the last seconds.
    pub(super) fn is_exceeded(&mut self) -> bool {
        let elapsed = self.since.elapsed();
        if elapsed < Self::WINDOW {
            return false;
        }
        let used = std::mem::replace(&mut self.used, used());
        self.since = Instant::now();
        self.used.saturating_sub(used) * 20 > elapsed
    }
}

/// The processor time of this thread.
fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_get_longer_while_changes_go_on_and_are_short_again_after_a_calm_time() {
        let mut budget = TimeBudget::new();
        let mut next = |calm: Duration| {
            let pause = budget.start_pause();
            budget.end_pause();
            budget.paused.1 -= calm;
            pause.as_secs()
        };
        let window = TimeBudget::WINDOW;
        let lengths: Vec<_> = (0..8).map(|_| next(window)).collect();
        assert_eq!(lengths, [10, 20, 40, 80, 160, 320, 600, 600]);
        // Ten minutes of calm and two windows.
        assert_eq!(next(Duration::from_secs(621)), 600);
        assert_eq!(next(window), 10);
        assert_eq!(next(Duration::ZERO), 20);
    }
}
