//! Finds the names in a directory that can collide: a number for each name, whatever its length, in four bytes where there are many.
//!
//! Names that collide on a target share a number ([`crate::name::fingerprint`]). In a directory without shared numbers no
//! names collide; elsewhere only the few names that share a number need to be compared.

mod numbers;

use super::collision::Equivalence;
use super::{Collision, Policy};
use crate::name::arena::Arena;
use crate::name::fingerprint::fingerprint;
use numbers::Numbers;

/// The fingerprints of the names in one directory.
#[derive(Clone, Debug)]
pub struct Fingerprints<'p> {
    policy: &'p Policy,
    numbers: Numbers,
}

/// The fingerprints that several names of a directory share.
#[derive(Clone, Debug)]
pub struct SharedFingerprints<'p> {
    policy: &'p Policy,
    numbers: Numbers,
    used: UsedFingerprints,
}

/// The fingerprints of all names of a directory, by which most other names are known to be free.
#[derive(Clone, Debug, Default)]
pub struct UsedFingerprints {
    /// A number that several names share is there several times.
    existing: Numbers,
    /// Those of the names that were suggested without regard to each other.
    suggested: Numbers,
}

impl UsedFingerprints {
    /// Adds the fingerprints of names that were suggested without regard to each other.
    #[must_use]
    pub fn with_suggested(self, suggested: Fingerprints<'_>) -> Self {
        let mut suggested = suggested.numbers;
        suggested.sort();
        Self { suggested, ..self }
    }

    /// Adds the fingerprints of those names that `each_name` gives which a suggested name may equal.
    pub fn add_wanted(&mut self, policy: &Policy, each_name: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        each_name(&mut |name| {
            let Ok(text) = std::str::from_utf8(name) else { return };
            policy.each_number(text, |number| {
                if self.suggested.count(number) > 0 {
                    self.existing.push(number);
                }
            });
        });
        self.existing.sort();
    }

    /// How many names have this number, suggested ones included.
    pub(super) fn count(&self, number: u64) -> usize {
        self.count_existing(number) + self.count_suggested(number)
    }

    /// How many names of the directory have this number.
    pub fn count_existing(&self, number: u64) -> usize {
        self.existing.count(number)
    }

    /// How many suggested names have this number.
    pub fn count_suggested(&self, number: u64) -> usize {
        self.suggested.count(number)
    }

    /// Whether a suggested name may equal another one or a name of the directory; `false` is certain.
    pub fn may_be_contested(&self) -> bool {
        let mut existing = self.existing.iter().peekable();
        let mut is_existing = |number: u64| {
            while existing.next_if(|&other| other < number).is_some() {}
            existing.peek() == Some(&number)
        };
        !self.suggested.repeated().is_empty() || self.suggested.iter().any(&mut is_existing)
    }
}

impl Policy {
    /// Starts to compare the names in one directory; `None` if the policy does not compare names.
    ///
    /// ```
    /// # use namegate_core::{name::arena::Arena, policy::{Policy, profile}};
    /// let windows = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
    /// let mut names = Arena::new();
    /// for name in [&b"Makefile"[..], b"readme", b"README"] {
    ///     names.push(name).unwrap();
    /// }
    /// let mut fingerprints = windows.fingerprints().unwrap();
    /// fingerprints.add_all(&names);
    /// let shared = fingerprints.shared();
    /// assert!(shared.has(b"readme") && shared.has(b"README") && !shared.has(b"Makefile"));
    /// ```
    pub fn fingerprints(&self) -> Option<Fingerprints<'_>> {
        self.finds_collisions().then(|| Fingerprints::new(self))
    }

    /// Computes the fingerprints of a name. Two names that are equal, byte for byte or under an equivalence of the policy, share one of
    /// them; names that share one are seldom different. They are the same in every process of one version.
    pub fn each_number(&self, text: &str, mut give: impl FnMut(u64)) {
        if self.tables.compares_spellings || self.tables.other_equivalences.is_empty() {
            give(fingerprint(text));
        }
        for &(equivalence, seed) in &self.tables.other_equivalences {
            give(fingerprint(&equivalence.key(text)) ^ seed);
        }
    }
}

impl<'p> Fingerprints<'p> {
    /// Starts to compare names, even if the policy finds no collisions.
    pub fn new(policy: &'p Policy) -> Self {
        Self { policy, numbers: Numbers::default() }
    }

    /// Adds names of the directory.
    pub fn add_all(&mut self, names: &Arena) {
        self.reserve(names);
        match names.texts() {
            Some(texts) => texts.for_each(|(_, text)| self.add_text(text)),
            None => names.iter().for_each(|(_, name)| self.add(name)),
        }
    }

    /// Adds one name of the directory.
    pub fn add(&mut self, name: &[u8]) {
        if let Ok(text) = std::str::from_utf8(name) {
            self.add_text(text);
        }
    }

    /// Adds one name that was decoded.
    pub fn add_text(&mut self, text: &str) {
        self.policy.each_number(text, |number| self.numbers.push(number));
    }

    /// Reserves memory for `names`.
    pub(crate) fn reserve(&mut self, names: &Arena) {
        // Names are rarely shorter than that; the limit keeps large directories from reserving too much.
        self.numbers.reserve((names.len() / 16).min(1024));
    }

    /// The fingerprints that several of the added names share.
    pub fn shared(self) -> SharedFingerprints<'p> {
        let Self { policy, mut numbers } = self;
        numbers.sort();
        let used = UsedFingerprints { existing: numbers, suggested: Numbers::default() };
        SharedFingerprints { policy, numbers: used.existing.repeated(), used }
    }
}

impl SharedFingerprints<'_> {
    /// Whether no fingerprint is shared.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Takes the fingerprints of all names that were added.
    pub fn take_used(&mut self) -> UsedFingerprints {
        std::mem::take(&mut self.used)
    }

    /// The collisions of `names`, the distinct names in the directory, as [`Policy::collisions`] finds them. Compares only
    /// the names that share a fingerprint.
    pub fn collisions(&self, names: &[&[u8]]) -> Vec<Collision> {
        let (places, few): (Vec<usize>, Vec<&[u8]>) =
            names.iter().enumerate().filter(|(_, name)| self.has(name)).unzip();
        let mut collisions = self.policy.collisions(&few);
        for member in collisions.iter_mut().flat_map(|collision| &mut collision.members) {
            *member = places[*member];
        }
        collisions
    }

    /// Whether `name` may collide with another name; `false` is certain.
    pub fn has(&self, name: &[u8]) -> bool {
        let mut is_shared = false;
        if let Ok(text) = std::str::from_utf8(name) {
            self.policy.each_number(text, |n| is_shared |= self.numbers.count(n) > 0);
        }
        is_shared
    }
}

impl Equivalence {
    /// Whether equal names have the same fingerprint.
    pub(super) fn is_in_fingerprint(self) -> bool {
        match self {
            Self::Form(form) | Self::Fold(_, Some(form)) => !form.is_compatibility(),
            Self::Fold(_, None) => true,
            Self::Look => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::profile;

    #[test]
    fn all_names_that_collide_share_a_number_under_every_profile() {
        let names: Vec<String> = [
            "a",
            "A",
            "ß",
            "ss",
            "SS",
            "ẞ",
            "é",
            "e\u{301}",
            "É",
            "ﬁ",
            "fi",
            "ı",
            "i",
            "I",
            "İ",
            "\u{212A}",
            "k",
            "ͅ",
            "ι",
            "각",
            "\u{1100}\u{1161}\u{11A8}",
            "раураl",
            "paypal",
            "1",
            "l",
            "Ⅷ",
            "VIII",
            "x.txt",
            "X.TXT",
        ]
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("pre{name}"), format!("{name}\u{301}post")])
        .collect();
        let mut arena = Arena::new();
        names.iter().for_each(|name| assert!(arena.push(name.as_bytes()).is_ok()));
        let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let mut compared = 0;
        for profile in profile::ALL {
            let policy = Policy::from_profiles(&[profile]);
            let collisions = policy.collisions(&bytes);
            let Some(mut fingerprints) = policy.fingerprints() else {
                assert!(collisions.is_empty());
                continue;
            };
            fingerprints.add_all(&arena);
            let shared = fingerprints.shared();
            for at in collisions.iter().flat_map(|collision| &collision.members) {
                assert!(shared.has(bytes[*at]), "{} {}", profile.name, names[*at]);
                compared += 1;
            }
            assert_eq!(shared.collisions(&bytes), collisions, "{}", profile.name);
        }
        assert!(compared > 100, "{compared}");
    }
}
