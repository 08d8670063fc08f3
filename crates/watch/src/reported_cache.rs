//! Remembers reported names, so that a name that is found twice, by an event and by reading its directory, is reported once.
//!
//! Its size is bounded: it forgets the oldest names, which may then be reported again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};

use super::root::DirectoryId;

/// Capacity of each half. When the newer half is full, the older one is dropped.
const HALF: usize = 1 << 17;

/// The names that have been reported.
#[derive(Debug)]
pub(super) struct ReportedCache {
    hasher: RandomState,
    newer: HashMap<u64, ReportedName>,
    older: HashMap<u64, ReportedName>,
    /// Incremented whenever all events have been read.
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct ReportedName {
    /// The file that had the name.
    identity: Option<u64>,
    /// The turn in which reading found it. Until the next turn its event may still come.
    read_in: Option<u64>,
}

impl Default for ReportedCache {
    fn default() -> Self {
        Self { hasher: RandomState::new(), newer: HashMap::new(), older: HashMap::new(), turn: 0 }
    }
}

impl ReportedCache {
    /// Called when all events have been read.
    pub(super) fn on_drained(&mut self) {
        self.turn += 1;
    }

    /// Whether to report a name from an event: not if reading has found it already, before the event was read.
    pub(super) fn is_new_by_event(&mut self, dir: DirectoryId, name: &OsStr, identity: Option<u64>) -> bool {
        let key = self.key(dir, name);
        let known = self.get(key).is_some_and(|reported| {
            reported.read_in == Some(self.turn) && (identity.is_none() || identity == reported.identity)
        });
        // The next event of this name is about another file.
        self.insert(key, ReportedName { identity, read_in: None });
        !known
    }

    /// Whether to report a name found by reading: not if this name was reported for the same file, or for an unknown file.
    pub(super) fn is_new_by_reading(
        &mut self,
        dir: DirectoryId,
        name: &OsStr,
        identity: Option<u64>,
    ) -> bool {
        let key = self.key(dir, name);
        if let Some(reported) = self.get(key)
            && (reported.identity.is_none() || reported.identity == identity)
        {
            self.insert(key, ReportedName { identity, ..reported });
            return false;
        }
        self.insert(key, ReportedName { identity, read_in: Some(self.turn) });
        true
    }

    fn key(&self, dir: DirectoryId, name: &OsStr) -> u64 {
        self.hasher.hash_one((dir, name))
    }

    fn get(&self, key: u64) -> Option<ReportedName> {
        self.newer.get(&key).or_else(|| self.older.get(&key)).copied()
    }

    fn insert(&mut self, key: u64, reported: ReportedName) {
        if self.newer.len() >= HALF {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, reported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: DirectoryId = (1, 2);

    #[test]
    fn a_name_found_by_event_and_by_reading_is_reported_once() {
        let (mut reported_cache, name) = (ReportedCache::default(), OsStr::new("x"));
        assert!(reported_cache.is_new_by_event(DIR, name, Some(7)));
        assert!(!reported_cache.is_new_by_reading(DIR, name, Some(7)), "after its event");
        assert!(reported_cache.is_new_by_reading(DIR, name, Some(8)), "another file of that name");
        assert!(!reported_cache.is_new_by_event(DIR, name, Some(8)), "before its event");
        assert!(reported_cache.is_new_by_event(DIR, name, Some(8)), "it appeared again");
        assert!(reported_cache.is_new_by_reading(DIR, name, Some(9)));
        reported_cache.on_drained();
        assert!(reported_cache.is_new_by_event(DIR, name, Some(9)), "the event came later than the reading");
        assert!(!reported_cache.is_new_by_reading(DIR, name, Some(9)));
        assert!(
            reported_cache.is_new_by_event(DIR, OsStr::new("y"), None)
                && reported_cache.is_new_by_event((1, 3), name, None)
        );
    }

    #[test]
    fn the_event_of_a_file_that_is_gone_belongs_to_the_file_that_was_found() {
        let (mut reported_cache, name) = (ReportedCache::default(), OsStr::new("x"));
        assert!(reported_cache.is_new_by_reading(DIR, name, Some(7)));
        assert!(!reported_cache.is_new_by_event(DIR, name, None));
        assert!(reported_cache.is_new_by_event(DIR, name, None), "only one event can be about it");
        assert!(!reported_cache.is_new_by_reading(DIR, name, Some(8)), "it was reported for an unknown file");
        assert!(reported_cache.is_new_by_reading(DIR, name, Some(9)), "and this is another one");
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut reported_cache = ReportedCache::default();
        for number in 0..5 * HALF as u64 {
            reported_cache.insert(number, ReportedName { identity: None, read_in: None });
            assert!(reported_cache.newer.len() + reported_cache.older.len() <= 2 * HALF);
        }
        assert!(reported_cache.get(5 * HALF as u64 - 1).is_some() && reported_cache.get(0).is_none());
    }
}
