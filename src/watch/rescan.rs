//! Readings of a whole tree after events were lost: one after the other, until one has seen nothing that it may have missed
//! something by.
//!
//! A reading goes from directory to directory while directories are renamed. What an event tells of that is followed up. Where
//! an event was lost, or what is found contradicts what the events have told, a directory can have gone from a place that was
//! not read yet to one that had been: then another reading is due. A queue that overflows again makes one due at once. Other
//! doubts wait for a while that grows, so that nobody can keep the watch reading by renaming directories all day.
//!
//! Pure but for the clock, which is asked by whoever calls.

use std::time::{Duration, Instant};

use super::core::RescanFilter;

/// The pause after the first reading in doubt. It doubles each time.
const SHORTEST: Duration = Duration::from_millis(50);
/// The longest one, unless reading takes longer: then as long as the reading took.
const LONGEST: Duration = Duration::from_secs(2);

/// What is being read, and what is due.
#[derive(Debug, Default)]
pub(super) struct Rescan {
    /// Grows with each reading.
    number: u32,
    /// The filter of the reading that goes on.
    current: Option<(RescanFilter, Instant)>,
    /// The filter of the next one, if one is due.
    due: Option<RescanFilter>,
    /// When that may begin; at once where events were lost.
    not_before: Option<Instant>,
    /// Readings in doubt, one after the other.
    doubts: u32,
}

/// What follows when everything that waited has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RescanStep {
    /// Nothing.
    Nothing,
    /// What the last reading has not met is gone: nothing disturbed it.
    Covered,
    /// All is to be read with this filter.
    Read(RescanFilter),
}

impl Rescan {
    /// The number of the last reading.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The filter of the reading that goes on, for what is met out of its turn.
    pub(super) fn filter(&self) -> Option<RescanFilter> {
        self.current.map(|(filter, _)| filter)
    }

    /// Whether a reading goes on: it ends in the first turn in which nothing waits any more.
    pub(super) fn is_going_on(&self) -> bool {
        self.current.is_some()
    }

    /// Whether everything that came while events were lost has been found, as far as it is still there.
    pub(super) fn is_covered(&self) -> bool {
        self.current.is_none() && self.due.is_none()
    }

    /// Whether a reading is to begin as soon as its time comes.
    pub(super) fn is_waiting(&self) -> bool {
        self.current.is_none() && self.due.is_some()
    }

    /// Events were lost: all is to be read again from the beginning, as soon as what is being read has been.
    pub(super) fn lost(&mut self, filter: RescanFilter) {
        self.add(filter);
        self.not_before = None;
    }

    /// Something does not fit what the events have told.
    pub(super) fn doubt(&mut self, filter: RescanFilter, now: Instant) {
        if self.due.is_none() {
            let pause = SHORTEST.saturating_mul(1 << self.doubts.min(16)).min(LONGEST);
            self.doubts += 1;
            self.not_before = Some(now + pause);
        }
        self.add(filter);
    }

    fn add(&mut self, filter: RescanFilter) {
        self.due = Some(filter.and(self.due).and(self.filter()));
    }

    /// What is due is due at once: the watch ends.
    pub(super) fn hurry(&mut self) {
        self.not_before = None;
    }

    /// Nothing waits to be read, and no event.
    pub(super) fn has_read_all(&mut self, now: Instant) -> RescanStep {
        let ended = self.current.take();
        if let (Some((_, begun)), Some(not_before)) = (ended, &mut self.not_before) {
            // No more than half of the time is spent on doubts.
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
                self.doubts = 0;
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
    fn readings_follow_each_other_until_one_is_not_disturbed() {
        let (mut rescan, now) = (Rescan::default(), Instant::now());
        assert_eq!(rescan.has_read_all(now), RescanStep::Nothing);
        assert!(rescan.is_covered());
        rescan.lost(since(50));
        assert_eq!((rescan.has_read_all(now), rescan.number()), (RescanStep::Read(since(50)), 1));
        // Lost again: the next one goes back as far as this one.
        rescan.lost(since(70));
        assert!(!rescan.is_covered() && rescan.filter() == Some(since(50)));
        assert_eq!((rescan.has_read_all(now), rescan.number()), (RescanStep::Read(since(50)), 2));
        assert_eq!(rescan.has_read_all(now), RescanStep::Covered);
        assert!(rescan.is_covered());
        assert_eq!(rescan.has_read_all(now), RescanStep::Nothing);
    }

    #[test]
    fn doubts_wait_longer_each_time_and_lost_events_never() {
        let (mut rescan, mut now) = (Rescan::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            rescan.doubt(since(9), now);
            rescan.doubt(since(8), now);
            let begun = now;
            while rescan.has_read_all(now) == RescanStep::Nothing {
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
        rescan.doubt(since(7), now);
        rescan.lost(since(9));
        assert_eq!(rescan.has_read_all(now), RescanStep::Read(since(7)));
        // What comes late makes the pauses short again.
        assert_eq!(rescan.has_read_all(now), RescanStep::Covered);
        rescan.doubt(since(7), now);
        assert_eq!(rescan.has_read_all(now + SHORTEST), RescanStep::Read(since(7)));
    }
}
