//! Equivalent names of one entry, and the dentry cache of the kernel.
//!
//! The kernel caches each name separately and does not know that names are equivalent. If an entry is removed by one name, a
//! cached equivalent name would stay. So names that have equivalents get an entry timeout of zero.
//!
//! One case remains. A rename moves the cached dentry to the new name (`d_move`), with its timeout: an entry that was renamed from
//! `a` to `é` would be cached as `é`. Therefore the first request to rename `a` to `é` fails with ESTALE. The kernel then repeats
//! all lookups and sends the rename again (`retry_estale`, linux/namei.h), and now `a` has a timeout of zero too. The second
//! request never fails with ESTALE, so a client without that loop (nfsd(7)) succeeds with its second attempt. For the same
//! reason, the first rename of any other name to `a` fails: its dentry would bring its timeout to `a`, and from there to `é`.
//!
//! What this does not prevent: a second client renames `a` between the two requests of the first one, and has found `a` in the
//! cache. Then the new name is cached until its timeout. To refuse that request too would mean to refuse those of nfsd.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Old names of entries that were renamed, or are about to be renamed, to names with equivalents. They get an entry timeout of zero
/// too, so that a program that uses the same temporary name again needs no second request.
#[derive(Debug)]
pub(super) struct PendingRenames {
    /// The names, with the order of their last use.
    names: Mutex<HashMap<(NodeId, OsString), u64>>,
    came: AtomicU64,
    /// Where a successor finds the names, by their hashes.
    journal: &'static dyn MountJournal,
    /// The names of a predecessor.
    before: HashSet<u64>,
}

fn hash(name: &(NodeId, OsString)) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl PendingRenames {
    /// More than the number of renames between their first and second request.
    const MAX_PENDING: usize = 1024;

    /// With the names of a predecessor: a client whose first request that has delayed must not be delayed again.
    pub(super) fn new(journal: &'static dyn MountJournal) -> Self {
        let before = journal.delayed_renames().into_iter().collect();
        Self { names: Mutex::default(), came: AtomicU64::new(0), journal, before }
    }

    /// Whether the entry may be renamed now: not at the first request.
    pub(super) fn delay_first_rename(&self, (parent, name): (NodeId, &OsStr)) -> bool {
        let mut names = self.names.lock();
        let came = self.came.fetch_add(1, Ordering::AcqRel);
        let name = (parent, name.to_owned());
        let hash = hash(&name);
        let was_known = names.insert(name, came).is_some() || self.before.contains(&hash);
        if !was_known {
            self.journal.note_delayed_rename(hash);
        }
        if names.len() > Self::MAX_PENDING
            && let Some(oldest) = names.iter().min_by_key(|(_, came)| **came).map(|(name, _)| name.clone())
        {
            names.remove(&oldest);
        }
        was_known
    }

    /// Whether `name` is one of these names.
    pub(super) fn contains(&self, parent: NodeId, name: &OsStr) -> bool {
        // Usually there are none, which needs no lock.
        if self.came.load(Ordering::Acquire) == 0 && self.before.is_empty() {
            return false;
        }
        let name = (parent, name.to_owned());
        self.before.contains(&hash(&name)) || self.names.lock().contains_key(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_when_it_is_asked_for_the_second_time() {
        let leaving = PendingRenames::new(&namegate_wire::NoJournal);
        let root = NodeId::ROOT;
        assert!(!leaving.contains(root, OsStr::new("a")));
        assert!(!leaving.delay_first_rename((root, OsStr::new("a"))));
        assert!(leaving.contains(root, OsStr::new("a")) && !leaving.contains(NodeId(2), OsStr::new("a")));
        for _ in 0..2 {
            assert!(leaving.delay_first_rename((root, OsStr::new("a"))));
        }
        for i in 0..PendingRenames::MAX_PENDING - 1 {
            assert!(!leaving.delay_first_rename((root, OsStr::new(&i.to_string()))));
        }
        assert!(leaving.contains(root, OsStr::new("a")));
        assert!(!leaving.delay_first_rename((root, OsStr::new("one too many"))));
        assert!(!leaving.contains(root, OsStr::new("a")), "the oldest is asked for anew");
        assert_eq!(leaving.names.lock().len(), PendingRenames::MAX_PENDING);
    }
}
