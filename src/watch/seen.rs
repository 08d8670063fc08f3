//! What has been reported, so that what is met twice, in an event and in a directory that is read, is reported once.
//!
//! Bounded: of very many reports the oldest are forgotten, and what they were about may be reported again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};

use super::root::Id;

/// So many are remembered in each of two halves; the older one is forgotten when the newer one is full.
const HALF: usize = 1 << 17;

/// What has been reported.
#[derive(Debug)]
pub(super) struct Seen {
    hasher: RandomState,
    newer: HashMap<u64, Sight>,
    older: HashMap<u64, Sight>,
    /// Grows whenever there is no event left to be read.
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sight {
    /// Which file stood there.
    identity: Option<u64>,
    /// The turn in which it was found by reading: until the next one an event can come that tells of the same.
    read_in: Option<u64>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { hasher: RandomState::new(), newer: HashMap::new(), older: HashMap::new(), turn: 0 }
    }
}

impl Seen {
    /// All events of what happened until now have been read.
    pub(super) fn is_drained(&mut self) {
        self.turn += 1;
    }

    /// Whether what an event tells of is to be reported: not if it was found by reading before the event was read.
    pub(super) fn is_new_by_event(&mut self, dir: Id, name: &OsStr, identity: Option<u64>) -> bool {
        let key = self.key(dir, name);
        let known = self.get(key).is_some_and(|sight| {
            sight.read_in == Some(self.turn) && (identity.is_none() || identity == sight.identity)
        });
        // The next event of that name tells of something else.
        self.put(key, Sight { identity, read_in: None });
        !known
    }

    /// Whether what is found by reading is to be reported: not if the same file was reported under this name, or one that
    /// could not be looked at.
    pub(super) fn is_new_by_reading(&mut self, dir: Id, name: &OsStr, identity: Option<u64>) -> bool {
        let key = self.key(dir, name);
        if let Some(sight) = self.get(key)
            && (sight.identity.is_none() || sight.identity == identity)
        {
            self.put(key, Sight { identity, ..sight });
            return false;
        }
        self.put(key, Sight { identity, read_in: Some(self.turn) });
        true
    }

    fn key(&self, dir: Id, name: &OsStr) -> u64 {
        self.hasher.hash_one((dir, name))
    }

    fn get(&self, key: u64) -> Option<Sight> {
        self.newer.get(&key).or_else(|| self.older.get(&key)).copied()
    }

    fn put(&mut self, key: u64, sight: Sight) {
        if self.newer.len() >= HALF {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, sight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Id = (1, 2);

    #[test]
    fn what_is_met_by_event_and_by_reading_is_reported_once() {
        let (mut seen, name) = (Seen::default(), OsStr::new("x"));
        assert!(seen.is_new_by_event(DIR, name, Some(7)));
        assert!(!seen.is_new_by_reading(DIR, name, Some(7)), "after its event");
        assert!(seen.is_new_by_reading(DIR, name, Some(8)), "another file of that name");
        assert!(!seen.is_new_by_event(DIR, name, Some(8)), "before its event");
        assert!(seen.is_new_by_event(DIR, name, Some(8)), "it appeared again");
        assert!(seen.is_new_by_reading(DIR, name, Some(9)));
        seen.is_drained();
        assert!(seen.is_new_by_event(DIR, name, Some(9)), "the event came later than the reading");
        assert!(!seen.is_new_by_reading(DIR, name, Some(9)));
        assert!(seen.is_new_by_event(DIR, OsStr::new("y"), None) && seen.is_new_by_event((1, 3), name, None));
    }

    #[test]
    fn what_is_gone_when_its_event_is_read_was_the_one_that_was_found() {
        let (mut seen, name) = (Seen::default(), OsStr::new("x"));
        assert!(seen.is_new_by_reading(DIR, name, Some(7)));
        assert!(!seen.is_new_by_event(DIR, name, None));
        assert!(seen.is_new_by_event(DIR, name, None), "only one event can tell of it");
        assert!(!seen.is_new_by_reading(DIR, name, Some(8)), "it was reported without a look at it");
        assert!(seen.is_new_by_reading(DIR, name, Some(9)), "and this is another one");
    }

    #[test]
    fn it_remembers_a_bounded_number() {
        let mut seen = Seen::default();
        for number in 0..5 * HALF as u64 {
            seen.put(number, Sight { identity: None, read_in: None });
            assert!(seen.newer.len() + seen.older.len() <= 2 * HALF);
        }
        assert!(seen.get(5 * HALF as u64 - 1).is_some() && seen.get(0).is_none());
    }
}
