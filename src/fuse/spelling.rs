//! One entry under many spellings, as the kernel sees it.
//!
//! The kernel keeps each name that it looked up by itself, and knows of no spellings. What it keeps of one of them stays
//! when the entry goes by another one. So it is told to keep none of them: a name that has other spellings, even if
//! nobody uses them, is good for one look.
//!
//! One way past that is left. A rename takes what the kernel keeps of the old name along to the new one (`d_move`), with
//! the time for which it was good. An entry that was `a` a moment ago and is `é` now would be kept as `é`. Therefore the
//! first request to rename `a` to `é` is answered ESTALE. The kernel then looks all names up anew and asks once more
//! (`retry_estale`, linux/namei.h), and this time `a` is good for one look. It never asks a third time, and ESTALE is never
//! said twice: whoever renames without that loop (nfsd(7)) succeeds with the second try.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::gate::{Admitted, Gate};
use crate::passthrough::{NodeId, Orthography};

impl Orthography for Gate {
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

/// Names from which entries have gone, or are about to go, to names that have other spellings. The kernel is told to keep
/// none of them either: whoever uses such a name for the next file, as a program does that writes a file under a
/// temporary name, need not be asked twice again.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// With the order in which they came.
    names: Mutex<HashMap<(NodeId, OsString), u64>>,
    came: AtomicU64,
}

impl Leaving {
    /// More than can be between their two requests at once.
    const MOST: usize = 1024;

    /// Whether the entry may go: not the first time.
    pub(super) fn let_go(&self, (parent, name): (NodeId, &OsStr)) -> bool {
        let mut names = self.names.lock();
        let came = self.came.fetch_add(1, Ordering::AcqRel);
        let was_known = names.insert((parent, name.to_owned()), came).is_some();
        if names.len() > Self::MOST
            && let Some(oldest) = names.iter().min_by_key(|(_, came)| **came).map(|(name, _)| name.clone())
        {
            names.remove(&oldest);
        }
        was_known
    }

    /// Whether a name is one of them.
    pub(super) fn contains(&self, parent: NodeId, name: &OsStr) -> bool {
        // Mostly there has never been one, which is seen without the lock.
        self.came.load(Ordering::Acquire) != 0 && {
            let names = self.names.lock();
            names.contains_key(&(parent, name.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_when_it_is_asked_for_the_second_time() {
        let leaving = Leaving::default();
        let root = NodeId::ROOT;
        assert!(!leaving.contains(root, OsStr::new("a")));
        assert!(!leaving.let_go((root, OsStr::new("a"))));
        assert!(leaving.contains(root, OsStr::new("a")) && !leaving.contains(NodeId(2), OsStr::new("a")));
        for _ in 0..2 {
            assert!(leaving.let_go((root, OsStr::new("a"))));
        }
        for i in 0..Leaving::MOST - 1 {
            assert!(!leaving.let_go((root, OsStr::new(&i.to_string()))));
        }
        assert!(leaving.contains(root, OsStr::new("a")));
        assert!(!leaving.let_go((root, OsStr::new("one too many"))));
        assert!(!leaving.contains(root, OsStr::new("a")), "the oldest is asked for anew");
        assert_eq!(leaving.names.lock().len(), Leaving::MOST);
    }
}
