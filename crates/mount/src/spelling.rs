//! Equivalent names of one entry, and the dentry cache of the kernel.
//!
//! The kernel caches each name separately and does not know that names are equivalent. If an entry is removed by one name, a
//! cached equivalent name would stay. So it caches only the name under which an entry is shown, and that only until somebody uses
//! another one:
//!
//! - A reply for another spelling has an entry timeout of zero, so each use of it begins with a lookup.
//! - With the first such lookup the entry becomes one of the [`UncachedNames`]: from then on its own name has a timeout of zero,
//!   too. The kernel drops it, if it has it: at once, unless somebody has the file open by that name (FUSE_NOTIFY_PRUNE), and then as
//!   soon as its directory is not locked (FUSE_NOTIFY_INVAL_ENTRY). A change by the other spelling comes after that lookup.
//! - Kernels without FUSE_NOTIFY_PRUNE (before 6.18) cache no name that has other spellings.
//!
//! Two things remain, both with renames.
//!
//! A rename moves the cached dentry to the new name (`d_move`), with its timeout. If the new name is another spelling of the entry that
//! is replaced, or is stored in another form, then the first request fails with ESTALE. The kernel repeats all lookups and sends the
//! rename again (`retry_estale`, linux/namei.h), and now the old name has a timeout of zero. The second request never fails with
//! ESTALE, so a client without that loop (nfsd(7)) succeeds with its second attempt.
//!
//! A rename to another spelling of the same entry does not come if the kernel sees one inode under both names (`vfs_rename`). So the
//! lookup of another spelling that may belong to one leads to an alias of the node ([`crate::alias`]).

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namegate_core::gate::{Admitted, Gate};
use parking_lot::Mutex;

use super::journal::MountJournal;
use crate::passthrough::{NameEquivalence, NodeId};

impl NameEquivalence for Gate {
    fn key<'n>(&self, name: &'n OsStr) -> Cow<'n, OsStr> {
        Gate::key(self, name)
    }

    fn has_other_spellings(&self, name: &OsStr) -> bool {
        Gate::has_other_spellings(self, name)
    }

    fn admitted(&self, stored: &OsStr) -> Option<Admitted<'static>> {
        Some(self.show(stored)?.admitted.into_owned())
    }
}

/// A name of a directory, or the key of its spellings, as a hash. Two that have the same hash cost a request more, and no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameHash(u64);

impl NameHash {
    pub(super) fn new(parent: NodeId, name: &OsStr) -> Self {
        let mut hasher = DefaultHasher::new();
        (parent, name).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Entries whose own names the kernel must not cache, by the keys of their names: somebody uses another spelling, or they are about
/// to be renamed to one.
#[derive(Debug)]
pub(super) struct UncachedNames {
    /// The last ones, and those before.
    generations: Mutex<[HashSet<NameHash>; 2]>,
    is_used: AtomicBool,
    /// When one was added last: milliseconds since `begin`.
    last_added: AtomicU64,
    begin: Instant,
    /// Where a successor finds them.
    journal: &'static dyn MountJournal,
    /// Those of a predecessor.
    before: HashSet<NameHash>,
}

impl UncachedNames {
    /// More than the number of names between two requests of one system call.
    const MAX_GENERATION: usize = 4096;

    /// With those of a predecessor: a client whose request that has delayed must not be delayed again.
    pub(super) fn new(journal: &'static dyn MountJournal) -> Self {
        let before: HashSet<_> = journal.uncached_names().into_iter().map(NameHash).collect();
        let is_used = AtomicBool::new(!before.is_empty());
        let (last_added, begin) = (AtomicU64::new(0), Instant::now());
        Self { generations: Mutex::default(), is_used, last_added, begin, journal, before }
    }

    /// Adds a key; returns whether it is new.
    pub(super) fn add(&self, key: NameHash) -> bool {
        if self.contains(key) {
            return false;
        }
        let mut generations = self.generations.lock();
        if generations[0].len() == Self::MAX_GENERATION {
            let [last, before] = &mut *generations;
            *before = std::mem::take(last);
        }
        let is_new = generations[0].insert(key);
        self.is_used.store(true, Ordering::Release);
        if is_new {
            self.last_added.store(self.now(), Ordering::Release);
            self.journal.note_uncached_name(key.0);
        }
        is_new
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether one was added in this time, or by a predecessor.
    pub(super) fn was_added_within(&self, time: Duration) -> bool {
        let elapsed = self.now().saturating_sub(self.last_added.load(Ordering::Acquire));
        self.is_used() && u128::from(elapsed) <= time.as_millis()
    }

    /// Whether there are any.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    pub(super) fn contains(&self, key: NameHash) -> bool {
        self.is_used()
            && (self.before.contains(&key) || self.generations.lock().iter().any(|keys| keys.contains(&key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_uncached_until_there_are_many_newer_ones() {
        let names = UncachedNames::new(&namegate_wire::NoJournal);
        let hash = |parent, name: &str| NameHash::new(NodeId(parent), OsStr::new(name));
        assert!(!names.contains(hash(1, "a")) && !names.is_used());
        assert!(names.add(hash(1, "a")));
        assert!(names.contains(hash(1, "a")) && !names.contains(hash(2, "a")));
        assert!(!names.add(hash(1, "a")));
        for i in 0..2 * UncachedNames::MAX_GENERATION {
            assert!(names.add(hash(1, &i.to_string())));
        }
        assert!(names.add(hash(1, "a")), "it is forgotten");
        assert!(names.contains(hash(1, "8000")));
    }
}
