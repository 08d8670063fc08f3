//! Finds the renames of a directory that may depend on others, so that all others can be checked and made one by one.
//!
//! Eight bytes are kept for each name, until the few names that share them with another one are known. Only these are compared,
//! ordered and held in memory together.

use std::collections::HashSet;
use std::io;

use namegate_core::name::escape::stable_hash;
use namegate_core::policy::Policy;

use crate::plan::Rename;
use crate::plan::check::check_renames;

/// Calls its argument with each name in a directory. Reports whether the directory can be read.
pub(super) type NameLister<'l> = dyn Fn(&mut dyn FnMut(&[u8])) -> bool + 'l;

/// Calls its argument with each rename of a directory that is still to be made.
pub(super) type RenameLister<'l> = dyn Fn(&mut dyn FnMut(&Rename)) -> io::Result<()> + 'l;

/// The renames of a directory that may depend on others, and all conflicts among them.
#[derive(Default)]
pub(super) struct SuspectRenames<'p> {
    numbers: NameNumbers<'p>,
    /// The numbers of the names of these renames, and possibly of others.
    shared: HashSet<u64>,
    /// These renames, in their order.
    pub(super) renames: Vec<Rename>,
    /// Why a rename is impossible, by its index among them.
    pub(super) conflicts: Vec<Option<String>>,
}

/// Numbers of names. Names that are equal, byte for byte or for the target, share one.
#[derive(Clone, Copy, Default)]
struct NameNumbers<'p> {
    policy: Option<&'p Policy>,
}

impl NameNumbers<'_> {
    fn each(self, name: &[u8], mut give: impl FnMut(u64)) {
        match (self.policy, std::str::from_utf8(name)) {
            (Some(policy), Ok(text)) => policy.each_number(text, give),
            _ => give(stable_hash(name)),
        }
    }

    fn any(self, name: &[u8], mut has: impl FnMut(u64) -> bool) -> bool {
        let mut is_found = false;
        self.each(name, |number| is_found |= has(number));
        is_found
    }
}

impl<'p> SuspectRenames<'p> {
    /// Compares the renames with the names of the directory and with each other.
    pub(super) fn find(
        policy: Option<&'p Policy>,
        names: &NameLister<'_>,
        renames: &RenameLister<'_>,
    ) -> io::Result<Self> {
        let numbers = NameNumbers { policy };
        let mut listed = Vec::new();
        let is_listed = names(&mut |name| numbers.each(name, |number| listed.push(number)));
        if !is_listed {
            // A rename needs no right to read the directory, and fails if the new name is taken.
            listed.clear();
            renames(&mut |rename| numbers.each(&rename.old, |number| listed.push(number)))?;
        }
        listed.sort_unstable();
        let mut suspects = Self { numbers, ..Self::default() };
        suspects.shared = find_shared(numbers, &listed, renames)?;
        drop(listed);
        if !suspects.shared.is_empty() {
            let mut held = Vec::new();
            renames(&mut |rename| {
                if suspects.has(rename) {
                    held.push(rename.clone());
                }
            })?;
            suspects.renames = held;
            suspects.conflicts = vec![None; suspects.renames.len()];
            if is_listed {
                suspects.find_conflicts(names);
            }
        }
        Ok(suspects)
    }

    /// Reports whether the rename may depend on others.
    pub(super) fn has(&self, rename: &Rename) -> bool {
        let is_shared = |name: &[u8]| self.numbers.any(name, |number| self.shared.contains(&number));
        !self.shared.is_empty() && (is_shared(&rename.old) || is_shared(rename.new.as_bytes()))
    }

    /// Compares the renames that may depend on others. A finished rename has no conflict.
    fn find_conflicts(&mut self, names: &NameLister<'_>) {
        let olds: HashSet<&[u8]> = self.renames.iter().map(|rename| &*rename.old).collect();
        let mut listing: Vec<Vec<u8>> = Vec::new();
        names(&mut |name| {
            if olds.contains(name) || self.numbers.any(name, |number| self.shared.contains(&number)) {
                listing.push(name.to_vec());
            }
        });
        let listing: Vec<&[u8]> = listing.iter().map(Vec::as_slice).collect();
        let existing: HashSet<&[u8]> = listing.iter().copied().collect();
        let renames = self.renames.iter().enumerate();
        let (indexes, pending): (Vec<usize>, Vec<&Rename>) =
            renames.filter(|(_, rename)| existing.contains(&*rename.old)).unzip();
        for conflict in check_renames(self.numbers.policy, &listing, &pending) {
            self.conflicts[indexes[conflict.at]] = Some(conflict.why);
        }
    }
}

/// The numbers by which renames may depend on each other or on names that stay: two old or two new names share one, or a new name
/// shares one with a name that another entry has. `listed` has the numbers of the names in the directory, sorted.
fn find_shared(
    numbers: NameNumbers<'_>,
    listed: &[u64],
    renames: &RenameLister<'_>,
) -> io::Result<HashSet<u64>> {
    let is_listed = |number: &u64| listed.binary_search(number).is_ok();
    let is_listed_twice = |number: &u64| {
        let from = listed.partition_point(|other| other < number);
        listed.get(from + 1) == Some(number)
    };
    let (mut shared, mut old) = (HashSet::new(), Vec::new());
    // The new names of entries that have their old names, and of others: those have no conflict, but others may wait for them.
    let (mut new, mut of_others) = (Vec::new(), Vec::new());
    renames(&mut |rename| {
        let first = old.len();
        numbers.each(&rename.old, |number| old.push(number));
        let own = &old[first..];
        let is_pending = own.iter().any(is_listed);
        numbers.each(rename.new.as_bytes(), |number| {
            if !is_pending {
                of_others.push(number);
                return;
            }
            // The target may treat the old and the new name as equal.
            if if own.contains(&number) { is_listed_twice(&number) } else { is_listed(&number) } {
                shared.insert(number);
            }
            new.push(number);
        });
    })?;
    old.sort_unstable();
    shared.extend(duplicates(&old));
    shared.extend(of_others.iter().filter(|number| is_listed(number) && old.binary_search(number).is_ok()));
    new.append(&mut of_others);
    new.sort_unstable();
    shared.extend(duplicates(&new));
    Ok(shared)
}

fn duplicates(sorted: &[u64]) -> impl Iterator<Item = u64> {
    sorted.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0])
}

#[cfg(test)]
#[path = "suspects/tests.rs"]
mod tests;
