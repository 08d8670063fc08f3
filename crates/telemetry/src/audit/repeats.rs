//! Repeated refusals: the first one is written at once, and those within the next minute together, with their number.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::queue::QuotaKey;
use super::record::AuditRecord;

/// How long repeats are counted before they are written.
const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of refusals whose repeats are counted at a time: what they add to the limit of bytes of a user is small.
const COUNTED: usize = 64;

/// A refusal that was written, and its repeats since then.
#[derive(Debug)]
pub(super) struct Repeats {
    pub(super) who: QuotaKey,
    /// The last one, with the number of repeats.
    pub(super) record: AuditRecord,
    due: Instant,
}

/// The refusals that were written lately, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RepeatCounter(VecDeque<Repeats>);

impl RepeatCounter {
    /// Counts a refusal that was written lately; reports whether it was.
    pub(super) fn count(&mut self, record: &AuditRecord) -> bool {
        let earlier = self.0.iter_mut().find(|repeats| repeats.record.is_again(record));
        if let Some(Repeats { record: last, .. }) = earlier {
            let count = last.count + 1;
            *last = AuditRecord { count, ..record.clone() };
            return true;
        }
        false
    }

    /// Begins to count the repeats of a refusal that is being written. Returns the repeats for which there is no room any more.
    pub(super) fn begin(&mut self, who: QuotaKey, record: AuditRecord, now: Instant) -> Option<Repeats> {
        let oldest = (self.0.len() >= COUNTED).then(|| self.0.pop_front()).flatten();
        self.0.push_back(Repeats { who, record: AuditRecord { count: 0, ..record }, due: now + INTERVAL });
        oldest.filter(|repeats| repeats.record.count > 0)
    }

    /// Forgets the oldest refusals that were not repeated, and removes and returns the repeats of one whose time is over.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Repeats> {
        while self.0.front()?.due <= now {
            if let Some(repeats) = self.0.pop_front().filter(|repeats| repeats.record.count > 0) {
                return Some(repeats);
            }
        }
        None
    }

    /// Removes and returns the repeats of one refusal, whatever their time; `None` if nothing is counted any more.
    pub(super) fn take_any(&mut self) -> Option<Repeats> {
        std::iter::from_fn(|| self.0.pop_front()).find(|repeats| repeats.record.count > 0)
    }

    /// When repeats are to be written next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().find(|repeats| repeats.record.count > 0).map(|repeats| repeats.due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use namegate_core::name::Span;

    use super::*;
    use crate::audit::{AuditOutcome, Requester};

    fn record(name: &str) -> AuditRecord {
        AuditRecord {
            time: SystemTime::UNIX_EPOCH,
            outcome: AuditOutcome::Refused,
            operation: "mkdir",
            name: name.into(),
            target: None,
            parent: None,
            rule: None,
            span: Span::new(0, 1),
            requester: Requester { uid: Some(1), gid: None, pid: 0, command: None, cgroup: None },
            count: 1,
        }
    }

    fn shown(repeats: Option<Repeats>) -> Option<(String, u64)> {
        repeats.map(|Repeats { record, .. }| (record.name.into_string().unwrap(), record.count))
    }

    #[test]
    fn repeats_are_due_a_minute_after_the_first_and_forgotten_if_there_are_none() {
        let (mut counter, begin) = (RepeatCounter::default(), Instant::now());
        assert!(!counter.count(&record("a")));
        for name in ["a", "b"] {
            assert!(counter.begin(Some(1), record(name), begin).is_none());
        }
        assert_eq!(counter.next_due(), None);
        (0..3).for_each(|_| assert!(counter.count(&record("b"))));
        assert_eq!(counter.next_due(), Some(begin + INTERVAL));
        assert_eq!(shown(counter.take_due(begin)), None);
        assert_eq!(shown(counter.take_due(begin + INTERVAL)), Some(("b".into(), 3)));
        assert!(!counter.count(&record("a")), "it is a first one again");
    }

    #[test]
    fn repeats_of_the_oldest_refusal_are_written_when_there_are_too_many() {
        let (mut counter, begin) = (RepeatCounter::default(), Instant::now());
        counter.begin(Some(1), record("repeated"), begin);
        assert!(counter.count(&record("repeated")));
        for number in 1..COUNTED {
            assert!(counter.begin(Some(1), record(&number.to_string()), begin).is_none());
        }
        assert_eq!(shown(counter.begin(Some(1), record("a"), begin)), Some(("repeated".into(), 1)));
        assert_eq!(shown(counter.begin(Some(1), record("b"), begin)), None, "it was not repeated");
        assert!(counter.count(&record("a")) && counter.count(&record("a")) && counter.count(&record("b")));
        assert_eq!(shown(counter.take_any()), Some(("a".into(), 2)));
        assert_eq!(shown(counter.take_any()), Some(("b".into(), 1)));
        assert_eq!(shown(counter.take_any()), None);
    }
}
