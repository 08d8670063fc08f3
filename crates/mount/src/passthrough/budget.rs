//! Descriptors that clients cost this process, and the share of each user.
//!
//! A descriptor that stays open for a client is charged to the user who requested it: an open directory, an open file that the
//! kernel does not read and write by itself, an inode without a kernel file handle, or a removed inode that the kernel has not
//! forgotten. Spare descriptors, which only save work, are not charged; they are closed when charged ones need the room.
//!
//! The rule: a user may hold as many charged descriptors as are free. One user who takes as many as possible leaves half of them,
//! two leave a third, and the next user always gets some. The reserve is charged to nobody: it serves descriptors that are opened
//! and closed within one request, the control socket and logs.
//!
//! The limit is RLIMIT_NOFILE, and may be changed from outside (prlimit(1)) at any time. Reading it is a system call, so it is read
//! once in a while, and before anything is refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use parking_lot::Mutex;

use super::Result;

/// After so many charges the limit is read again, which may have become lower.
const CHARGES_PER_READING: usize = 64;

/// The descriptor budget of this process.
#[derive(Debug)]
pub(super) struct Budget {
    /// Reads the current limit.
    limit: fn() -> usize,
    /// Maximum number of charged descriptors: the limit without the reserve.
    available: AtomicUsize,
    /// Number of charged descriptors.
    counted: AtomicUsize,
    /// Number of charges there ever were.
    charges: AtomicUsize,
    by_user: Mutex<HashMap<u32, usize>>,
}

/// A charge of one descriptor to a user, released when dropped.
#[derive(Debug)]
pub(super) struct DescriptorShare {
    budget: Arc<Budget>,
    uid: u32,
}

/// The limit without the reserve, which is an eighth of it and at most 256.
fn without_reserve(limit: usize) -> usize {
    limit - (limit / 8).min(256)
}

/// The limit of this process.
fn limit() -> usize {
    // getrlimit(2) does not fail here; 1024 is the usual default.
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

impl Budget {
    pub(super) fn new() -> Arc<Self> {
        Self::with_limit(limit)
    }

    fn with_limit(limit: fn() -> usize) -> Arc<Self> {
        let [available, counted, charges] = [const { AtomicUsize::new(0) }; 3];
        let budget = Self { limit, available, counted, charges, by_user: Mutex::default() };
        budget.read_limit();
        Arc::new(budget)
    }

    /// Reads the limit again, which may have changed.
    pub(super) fn read_limit(&self) {
        self.available.store(without_reserve((self.limit)()), Ordering::Relaxed);
    }

    pub(super) fn available(&self) -> usize {
        self.available.load(Ordering::Relaxed)
    }

    /// Number of descriptors that can still be charged.
    pub(super) fn free(&self) -> usize {
        self.available().saturating_sub(self.counted.load(Ordering::Relaxed))
    }

    /// Charges a descriptor to the user `uid`.
    ///
    /// # Errors
    /// ENFILE for a user who holds as many as are free. (EMFILE would mean the limit of the user's own process.)
    pub(super) fn charge(self: &Arc<Self>, uid: u32) -> Result<DescriptorShare> {
        let mut by_user = self.by_user.lock();
        let held = by_user.get(&uid).copied().unwrap_or_default();
        let is_free = || held < self.free();
        if !is_free() || self.charges.fetch_add(1, Ordering::Relaxed).is_multiple_of(CHARGES_PER_READING) {
            self.read_limit();
        }
        if !is_free() {
            return Err(Errno::ENFILE);
        }
        by_user.insert(uid, held + 1);
        self.counted.fetch_add(1, Ordering::Relaxed);
        Ok(DescriptorShare { budget: self.clone(), uid })
    }

    /// Checks that [`Budget::charge`] would succeed `times` times; `times` is at least 1.
    ///
    /// # Errors
    /// As [`Budget::charge`].
    pub(super) fn check(&self, uid: u32, times: usize) -> Result<()> {
        let held = self.by_user.lock().get(&uid).copied().unwrap_or_default();
        // With each one more is held, and one fewer is free.
        let is_free = || held + 2 * (times - 1) < self.free();
        if !is_free() {
            self.read_limit();
        }
        if is_free() { Ok(()) } else { Err(Errno::ENFILE) }
    }
}

impl Drop for DescriptorShare {
    fn drop(&mut self) {
        self.budget.counted.fetch_sub(1, Ordering::Relaxed);
        if let Entry::Occupied(mut held) = self.budget.by_user.lock().entry(self.uid) {
            match held.get() {
                0 | 1 => drop(held.remove()),
                _ => *held.get_mut() -= 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_takes_all_leaves_as_many_and_the_next_one_always_gets_some() {
        let budget = Budget::with_limit(|| 1000);
        let all = |uid| std::iter::from_fn(|| budget.charge(uid).ok()).collect::<Vec<_>>();
        let available = budget.free();
        assert_eq!(available, 875);
        let (one, two) = (all(1), all(2));
        assert_eq!((one.len(), two.len()), (438, 219));
        assert_eq!(budget.check(1, 1), Err(Errno::ENFILE));
        assert_eq!(budget.check(3, 1), Ok(()));
        let many: Vec<_> = (3..8).map(all).collect();
        assert!(many.iter().all(|shares| !shares.is_empty()));
        drop((one, two, many));
        assert_eq!(budget.free(), available);
        assert!(budget.by_user.lock().is_empty());
    }

    #[test]
    fn a_limit_that_was_changed_is_obeyed() {
        static LIMIT: AtomicUsize = AtomicUsize::new(80);
        let budget = Budget::with_limit(|| LIMIT.load(Ordering::Relaxed));
        let mut shares = Vec::new();
        let charge_all = |shares: &mut Vec<_>| shares.extend(std::iter::from_fn(|| budget.charge(1).ok()));
        charge_all(&mut shares);
        assert_eq!(shares.len(), 35);
        LIMIT.store(800, Ordering::Relaxed);
        assert_eq!(budget.check(1, 100), Ok(()));
        charge_all(&mut shares);
        assert_eq!(shares.len(), 350);
        shares.truncate(100);
        LIMIT.store(80, Ordering::Relaxed);
        charge_all(&mut shares);
        assert!(shares.len() < 100 + CHARGES_PER_READING, "{}", shares.len());
    }

    #[test]
    fn the_reserve_is_an_eighth_and_bounded() {
        assert_eq!([64, 256, 1024, 1 << 20].map(|limit| limit - without_reserve(limit)), [8, 32, 128, 256]);
    }
}
