//! Decides when to read the trees again after events were lost: in one pass after another, until a pass was not disturbed.
//!
//! A pass reads one directory after the other, while clients may rename directories. If an event reports a move, the engine
//! follows the directory. But if events were lost, or a directory is not where the events say, a directory may have moved from
//! an unread part of the tree to a part that the pass has already read. Then another pass is needed: at once if the queue has
//! overflowed again, otherwise after a pause that grows, so that clients who rename directories all day do not keep the watch
//! reading all day.
//!
//! Pure: the caller passes the time.

use std::time::{Duration, Instant};

use super::core::RescanFilter;

/// The pause before the first postponed pass. It doubles each time.
const SHORTEST: Duration = Duration::from_millis(50);
/// The longest pause, unless a pass takes longer: then the pause is as long as the pass.
const LONGEST: Duration = Duration::from_secs(2);

/// The current pass and the next one.
#[derive(Debug, Default)]
pub(super) struct Rescan {
    /// Number of the last pass that was started.
    number: u32,
    /// The filter of the pass in progress, and when it was started.
    current: Option<(RescanFilter, Instant)>,
    /// The filter of the next pass, if one is needed.
    due: Option<RescanFilter>,
    /// When the next pass may start; `None` for at once.
    not_before: Option<Instant>,
    /// Number of postponed passes since the last undisturbed one.
    postponed: u32,
}

/// What to do when everything in the queue has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RescanStep {
    Nothing,
    /// The last pass was not disturbed: directories that it has not found are gone.
    Covered,
    /// Read everything with this filter.
    Read(RescanFilter),
}

impl Rescan {
    /// The number of the last pass that was started.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The filter of the pass in progress, for directories that are read out of order.
    pub(super) fn filter(&self) -> Option<RescanFilter> {
        self.current.map(|(filter, _)| filter)
    }

    /// Whether a pass is in progress. It ends with the next call of [`on_idle`](Self::on_idle).
    pub(super) fn is_running(&self) -> bool {
        self.current.is_some()
    }

    /// Whether everything that appeared while events were lost, and still exists, has been found.
    pub(super) fn is_covered(&self) -> bool {
        self.current.is_none() && self.due.is_none()
    }

    /// Whether a postponed pass waits for its time.
    pub(super) fn is_waiting(&self) -> bool {
        self.current.is_none() && self.due.is_some()
    }

    /// Requests another pass as soon as the queue has been read, because events were lost.
    pub(super) fn request_now(&mut self, filter: RescanFilter) {
        self.add(filter);
        self.not_before = None;
    }

    /// Requests another pass after a pause, because a directory is not where the events say.
    pub(super) fn request_later(&mut self, filter: RescanFilter, now: Instant) {
        if self.due.is_none() {
            let pause = SHORTEST.saturating_mul(1 << self.postponed.min(16)).min(LONGEST);
            self.postponed += 1;
            self.not_before = Some(now + pause);
        }
        self.add(filter);
    }

    fn add(&mut self, filter: RescanFilter) {
        self.due = Some(filter.and(self.due).and(self.filter()));
    }

    /// Starts a postponed pass at once, because the watch ends.
    pub(super) fn skip_pauses(&mut self) {
        self.not_before = None;
    }

    /// Called when no directory and no event is left to read.
    pub(super) fn on_idle(&mut self, now: Instant) -> RescanStep {
        let ended = self.current.take();
        if let (Some((_, begun)), Some(not_before)) = (ended, &mut self.not_before) {
            // Spend at most half of the time on postponed passes.
            *not_before = (*not_before).max(now + (now - begun));
        }
        match self.due {
            Some(_) if self.not_before.is_some_and(|moment| now < moment) => RescanStep::Nothing,
            Some(filter) => {
                self.number += 1;
                (self.due, self.not_before) = (None, None);
                self.current = Some((filter, now));
                RescanStep::Read(filter)
            }
            None if ended.is_some() => {
                self.postponed = 0;
                RescanStep::Covered
            }
            None => RescanStep::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn since(seconds: u64) -> RescanFilter {
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        RescanFilter::Since { when, above_changed: false }
    }

    #[test]
    fn passes_follow_each_other_until_one_is_not_disturbed() {
        let (mut rescan, now) = (Rescan::default(), Instant::now());
        assert_eq!(rescan.on_idle(now), RescanStep::Nothing);
        assert!(rescan.is_covered());
        rescan.request_now(since(50));
        assert_eq!((rescan.on_idle(now), rescan.number()), (RescanStep::Read(since(50)), 1));
        // Events are lost again: the next pass covers the same time as this one.
        rescan.request_now(since(70));
        assert!(!rescan.is_covered() && rescan.filter() == Some(since(50)));
        assert_eq!((rescan.on_idle(now), rescan.number()), (RescanStep::Read(since(50)), 2));
        assert_eq!(rescan.on_idle(now), RescanStep::Covered);
        assert!(rescan.is_covered());
        assert_eq!(rescan.on_idle(now), RescanStep::Nothing);
    }

    #[test]
    fn pauses_grow_and_lost_events_cause_none() {
        let (mut rescan, mut now) = (Rescan::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            rescan.request_later(since(9), now);
            rescan.request_later(since(8), now);
            let begun = now;
            while rescan.on_idle(now) == RescanStep::Nothing {
                assert!(rescan.is_waiting());
                now += Duration::from_millis(10);
            }
            assert_eq!(rescan.filter(), Some(since(8)));
            pauses.push(now - begun);
        }
        assert!(
            pauses.is_sorted() && pauses[0] < Duration::from_millis(100) && pauses[11] == LONGEST,
            "{pauses:?}"
        );
        rescan.request_later(since(7), now);
        rescan.request_now(since(9));
        assert_eq!(rescan.on_idle(now), RescanStep::Read(since(7)));
        // After an undisturbed pass the pauses are short again.
        assert_eq!(rescan.on_idle(now), RescanStep::Covered);
        rescan.request_later(since(7), now);
        assert_eq!(rescan.on_idle(now + SHORTEST), RescanStep::Read(since(7)));
    }
}
