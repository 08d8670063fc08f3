//! Which names of a large directory must be held together to suggest names that are free.
//!
//! The name that is suggested for a name without regard to others is free in most cases, and the fingerprints of all names and
//! suggestions show where it may not be. Only the names of which that is true are held and compared.

use std::collections::HashSet;

use super::SuspectNames;
use crate::policy::{FingerprintIndex, Fingerprints, NamesInUse, UsedFingerprints};

/// A directory whose names come in parts and can be read again. What is suggested for a name without regard to others is known.
pub trait RereadNames {
    /// Some names of the directory.
    type Batch;

    /// Collects the suspects for which `is_held` returns `true`, in the order of the directory. Its arguments are the name and the
    /// name that is suggested for it. `None` if the directory can no longer be read.
    fn collect(&mut self, is_held: &mut dyn FnMut(&[u8], Option<&str>) -> bool) -> Option<Self::Batch>;

    /// Calls `take` with each name in use, whether it is checked or not.
    fn each_name(&mut self, take: &mut dyn FnMut(&[u8]));
}

/// The names of a large directory that are held and compared, because they may collide or because the names that are suggested for
/// them may be in use.
#[derive(Debug)]
pub struct HeldNames<'d> {
    suspects: &'d SuspectNames<'d>,
    used: UsedFingerprints,
    /// `used` has the fingerprints of all names of the directory, not only of those that matter.
    knows_all: bool,
    /// Suggested names may be in use.
    may_be_contested: bool,
    /// The fingerprints of the names that are suggested for names that are held.
    suggested: HashSet<u64>,
    /// All suspects are held: too many of them compete for the same names.
    are_all: bool,
}

impl<'d> HeldNames<'d> {
    /// Finds the names to hold. `suggested` are the fingerprints of all names that are suggested without regard to others, `used`
    /// those of the names of the directory, if they are known ([`SuspectNames::take_used`]).
    pub fn new(
        suspects: &'d SuspectNames<'d>,
        used: Option<UsedFingerprints>,
        suggested: Fingerprints<'_>,
        directory: &mut impl RereadNames,
    ) -> Self {
        let knows_all = used.is_some();
        let mut used = used.unwrap_or_default().with_suggested(suggested);
        if !knows_all {
            used.add_wanted(suspects.policy, |take| directory.each_name(take));
        }
        let may_be_contested = used.may_be_contested();
        Self { suspects, used, knows_all, may_be_contested, suggested: HashSet::new(), are_all: false }
    }

    /// Whether no name is held.
    pub fn is_empty(&self) -> bool {
        !self.suspects.has_alike() && !self.may_be_contested
    }

    /// Reports whether `name`, for which `new` is suggested, is held.
    pub fn has(&self, name: &[u8], new: Option<&str>) -> bool {
        let mut is_held = self.are_all || self.suspects.is_alike(name);
        if let Some(new) = new.filter(|_| !is_held) {
            is_held = self.is_contested(name, new);
            self.suspects.policy.each_number(new, |number| is_held |= self.suggested.contains(&number));
        }
        is_held
    }

    /// Whether `new` may equal another suggested name, or the name of another entry than `name`; `false` is certain.
    fn is_contested(&self, name: &[u8], new: &str) -> bool {
        let Self { used, suspects, .. } = self;
        let policy = suspects.policy;
        let own = std::str::from_utf8(name).ok();
        let mut is_contested = false;
        policy.each_number(new, |number| {
            let mut is_own = false;
            own.inspect(|own| policy.each_number(own, |other| is_own |= other == number));
            is_contested |=
                used.count_suggested(number) > 1 || used.count_existing(number) > usize::from(is_own);
        });
        is_contested
    }

    /// Checks the held names with `check`, and returns its last result; `None` if there is no name to hold.
    ///
    /// A number that is added to a suggested name can lead to the name that is suggested for another name. That one is held then too,
    /// and `check` is called again. Its arguments are the names, those in use, and what is known of their fingerprints.
    pub fn check<D: RereadNames, T>(
        &mut self,
        directory: &mut D,
        check: &mut dyn FnMut(&D::Batch, &mut NamesInUse<'_>, FingerprintIndex<'_>) -> T,
    ) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        loop {
            let mut of_held = HashSet::new();
            let names = directory.collect(&mut |name, new| {
                let is_held = self.has(name, new);
                if let Some(new) = new.filter(|_| is_held) {
                    self.suspects.policy.each_number(new, |number| _ = of_held.insert(number));
                }
                is_held
            })?;
            self.suggested.extend(of_held);
            let Self { used, knows_all, suggested, are_all, .. } = self;
            let mut is_complete = true;
            let in_use: &mut NamesInUse<'_> = &mut |numbers, take| {
                if numbers.is_empty() && !*are_all {
                    (*are_all, is_complete) = (true, false);
                }
                for &number in numbers {
                    if used.count_suggested(number) > 0 && suggested.insert(number) {
                        is_complete = false;
                    }
                }
                let mut numbers = numbers.iter();
                if !*knows_all || numbers.len() == 0 || numbers.any(|&number| used.count_existing(number) > 0)
                {
                    directory.each_name(take);
                }
            };
            let index = if *knows_all { FingerprintIndex::Complete(used) } else { FingerprintIndex::Unknown };
            let found = check(&names, in_use, index);
            if is_complete {
                return Some(found);
            }
        }
    }
}
