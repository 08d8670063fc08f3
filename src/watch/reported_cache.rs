//! What has been reported, so that what is met twice, in an event and in a directory that is read, is reported once.
//!
//! Bounded: of very many reports the oldest are forgotten, and what they were about may be reported again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};

use super::root::DirectoryId;

/// So many are remembered in each of two halves; the older one is forgotten when the newer one is full.
const HALF: usize = 1 << 17;

/// What has been reported.
#[derive(Debug)]
pub(super) struct ReportedCache {
    hasher: RandomState,
    newer: HashMap<u64, ReportedName>,
    older: HashMap<u64, ReportedName>,
    /// Grows whenever there is no event left to be read.
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct ReportedName {
    /// Which file stood there.
    identity: Option<u64>,
    /// The turn in which it was found by reading: until the next one an event can come that tells of the same.
    read_in: Option<u64>,
}

impl Default for ReportedCache {
    fn default() -> Self {
        Self { hasher: RandomState::new(), newer: HashMap::new(), older: HashMap::new(), turn: 0 }
    }
}

impl ReportedCache {
    /// All events of what happened until now have been read.
    pub(super) fn is_drained(&mut self) {
        self.turn += 1;
    }

    /// Whether what an event tells of is to be reported: not if it was found by reading before the event was read.
    pub(super) fn is_new_by_event(&mut self, dir: DirectoryId, name: &OsStr, identity: Option<u64>) -> bool {
        let key = self.key(dir, name);
        let known = self.get(key).is_some_and(|sight| {
            sight.read_in == Some(self.turn) && (identity.is_none() || identity == sight.identity)
        });
        // The next event of that name tells of something else.
        self.put(key, ReportedName { identity, read_in: None });
        !known
    }

    /// Whether what is found by reading is to be reported: not if the same file was reported under this name, or one that
    /// could not be looked at.
    pub(super) fn is_new_by_reading(
        &mut self,
        dir: DirectoryId,
        name: &OsStr,
        identity: Option<u64>,
    ) -> bool {
        let key = self.key(dir, name);
        if let Some(sight) = self.get(key)
            && (sight.identity.is_none() || sight.identity == identity)
        {
            self.put(key, ReportedName { identity, ..sight });
            return false;
        }
        self.put(key, ReportedName { identity, read_in: Some(self.turn) });
        true
    }

    fn key(&self, dir: DirectoryId, name: &OsStr) -> u64 {
        self.hasher.hash_one((dir, name))
    }

    fn get(&self, key: u64) -> Option<ReportedName> {
        self.newer.get(&key).or_else(|| self.older.get(&key)).copied()
    }

    fn put(&mut self, key: u64, sight: ReportedName) {
        if self.newer.len() >= HALF {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, sight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: DirectoryId = (1, 2);

    #[test]
    fn what_is_met_by_event_and_by_reading_is_reported_once() {
        let (mut reported_cache, name) = (ReportedCache::default(), OsStr::new("x"));
        assert!(reported_cache.is_new_by_event(DIR, name, Some(7)));
        assert!(!reported_cache.is_new_by_reading(DIR, name, Some(7)), "after its event");
        assert!(reported_cache.is_new_by_reading(DIR, name, Some(8)), "another file of that name");
        assert!(!reported_cache.is_new_by_event(DIR, name, Some(8)), "before its event");
        assert!(reported_cache.is_new_by_event(DIR, name, Some(8)), "it appeared again");
        assert!(reported_cache.is_new_by_reading(DIR, name, Some(9)));
        reported_cache.is_drained();
        assert!(reported_cache.is_new_by_event(DIR, name, Some(9)), "the event came later than the reading");
        assert!(!reported_cache.is_new_by_reading(DIR, name, Some(9)));
        assert!(
            reported_cache.is_new_by_event(DIR, OsStr::new("y"), None)
                && reported_cache.is_new_by_event((1, 3), name, None)
        );
    }

    #[test]
    fn what_is_gone_when_its_event_is_read_was_the_one_that_was_found() {
        let (mut reported_cache, name) = (ReportedCache::default(), OsStr::new("x"));
        assert!(reported_cache.is_new_by_reading(DIR, name, Some(7)));
        assert!(!reported_cache.is_new_by_event(DIR, name, None));
        assert!(reported_cache.is_new_by_event(DIR, name, None), "only one event can tell of it");
        assert!(
            !reported_cache.is_new_by_reading(DIR, name, Some(8)),
            "it was reported without a look at it"
        );
        assert!(reported_cache.is_new_by_reading(DIR, name, Some(9)), "and this is another one");
    }

    #[test]
    fn it_remembers_a_bounded_number() {
        let mut reported_cache = ReportedCache::default();
        for number in 0..5 * HALF as u64 {
            reported_cache.put(number, ReportedName { identity: None, read_in: None });
            assert!(reported_cache.newer.len() + reported_cache.older.len() <= 2 * HALF);
        }
        assert!(reported_cache.get(5 * HALF as u64 - 1).is_some() && reported_cache.get(0).is_none());
    }
}
