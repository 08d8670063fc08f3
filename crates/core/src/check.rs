//! Checks a directory: each name alone, the names together, the paths, and suggested names.
//!
//! Every command of namegate that reports on a directory uses [`Policy::check_directory`], so that a scan, a plan and a list
//! agree. [`Siblings`] are the other names in the directory.
//!
//! ```
//! use namegate_core::check::{DirectoryNames, Siblings};
//! use namegate_core::name::arena::Arena;
//! use namegate_core::policy::{Policy, profile};
//!
//! let windows = Policy::from_profiles(&[profile::by_name("windows")?]);
//! let (mut names, mut left_out) = (Arena::new(), Arena::new());
//! for name in ["Readme.md", "a:b", "a_b"] {
//!     names.push(name.as_bytes())?;
//! }
//! left_out.push(b"README.md")?;
//! let check = windows.check_directory(&DirectoryNames::new(&names).with_siblings(Siblings::Excluded(&left_out))).unwrap();
//! assert!(check.collisions.is_empty(), "an excluded name collides with none");
//! assert_eq!(check.violations[&1][0].rule.name(), "reserved-character");
//! let suggested = check.suggested_names(&windows, None);
//! assert_eq!(suggested[&1].name, "a_b_2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod held;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::name::arena::Arena;
use crate::name::misread::SharedMisreading;
pub use crate::policy::EntryKind;
use crate::policy::rule::RuleId;
use crate::policy::{
    Collision, Confidence, EncodingHint, FingerprintIndex, Fingerprints, ImperfectName, NameCheck,
    NamesInUse, Occupants, PartsSuggester, Policy, SharedFingerprints, SuggestedName, UsedFingerprints,
    Violation,
};
pub use held::{HeldNames, RereadNames};

/// The names in a directory that are not checked.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Siblings<'n> {
    /// There are none.
    #[default]
    None,
    /// Names that are not checked and keep their names. A checked name can collide with them.
    Compared(&'n Arena),
    /// Names that the user excluded. No checked name collides with them, and none of them is suggested.
    Excluded(&'n Arena),
    /// They are unknown, so no name can be suggested.
    Unknown,
}

/// The distinct names in one directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryNames<'n> {
    /// The names to check.
    pub names: &'n Arena,
    /// Names to check that contain a NUL. An arena cannot store them, and no directory on disk has any.
    pub holding_nul: &'n [Vec<u8>],
    /// The other names in the directory.
    pub siblings: Siblings<'n>,
    /// The path on the target to which paths are relative, without a trailing separator.
    pub prefix: &'n [u8],
    /// The path of the directory below the prefix; empty for the root.
    pub path: &'n [u8],
}

impl<'n> DirectoryNames<'n> {
    /// A root directory with `names` and no other names.
    pub fn new(names: &'n Arena) -> Self {
        Self { names, holding_nul: &[], siblings: Siblings::None, prefix: b"", path: b"" }
    }

    /// Adds the other names in the directory.
    #[must_use]
    pub fn with_siblings(self, siblings: Siblings<'n>) -> Self {
        Self { siblings, ..self }
    }

    /// Whether a path in the directory may be longer than `policy` allows; `false` is certain.
    fn may_have_long_paths(&self, policy: &Policy) -> bool {
        let longest = self.holding_nul.iter().map(Vec::len).fold(self.names.longest(), usize::max);
        self.may_be_too_long(longest, policy)
    }

    /// Whether the path of a name of `len` bytes may be longer than `policy` allows; `false` is certain.
    fn may_be_too_long(&self, len: usize, policy: &Policy) -> bool {
        // A separator may follow each part.
        self.prefix.len() + 1 + self.path.len() + 1 + len > policy.harmless_path_bytes()
    }

    /// The path of the directory on the target, with a trailing separator unless it is empty.
    fn path_on_target(&self) -> Vec<u8> {
        let mut path = self.prefix.to_vec();
        for part in [self.path, b""] {
            if !path.is_empty() && path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(part.strip_prefix(b"/").unwrap_or(part));
        }
        path
    }

    /// Whether the names lie directly in the root of a document library; `None` if that is unknown.
    fn is_library_root(&self, policy: &Policy) -> Option<bool> {
        let depth = policy.library_depth()?;
        Some(self.path.split(|&b| b == b'/').filter(|part| !part.is_empty()).count() == depth)
    }

    fn add_to(&self, fingerprints: &mut Fingerprints<'_>) {
        fingerprints.add_all(self.names);
        self.holding_nul.iter().for_each(|name| fingerprints.add(name));
    }

    /// The violations of the names in the arena, each with the offset of its name.
    fn check_alone<'a>(
        &self,
        policy: &'a Policy,
    ) -> impl Iterator<Item = (usize, NameCheck<'n>)> + use<'a, 'n>
    where
        'n: 'a,
    {
        policy.check_arena_with(self.names, self.is_library_root(policy), |_| {})
    }

    /// The violations of the names in the arena, each with the offset of its name; adds the fingerprints of all names to `fingerprints`.
    fn check_each(
        &self,
        policy: &Policy,
        fingerprints: &mut Option<Fingerprints<'_>>,
    ) -> Vec<(usize, NameCheck<'n>)> {
        let Some(fingerprints) = fingerprints else {
            return self.check_alone(policy).collect();
        };
        fingerprints.reserve(self.names);
        let in_library_root = self.is_library_root(policy);
        let found = policy
            .check_arena_with(self.names, in_library_root, |text| fingerprints.add_text(text))
            .collect();
        self.holding_nul.iter().for_each(|name| fingerprints.add(name));
        found
    }
}

/// All violations in one directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DirectoryCheck<'n> {
    /// The checked names (those of the arena, then those that contain a NUL), followed by the siblings that were compared.
    pub names: Vec<&'n [u8]>,
    /// How many of `names` were checked.
    pub checked: usize,
    /// The violations of each checked name alone, by its index in `names`.
    pub violations: BTreeMap<usize, Vec<Violation>>,
    /// The violations of the path of each checked name, by its index in `names`. Their spans are bytes of the
    /// path ([`DirectoryCheck::path_on_target`]).
    pub path_violations: BTreeMap<usize, Vec<Violation>>,
    /// The collisions that involve a checked name; their members are indexes in `names`.
    pub collisions: Vec<Collision>,
    left_out: Vec<&'n [u8]>,
    is_listed: bool,
    /// The fingerprints of all names in use, if they were computed.
    used: Option<UsedFingerprints>,
    path: Vec<u8>,
    misreading: OnceLock<Option<Arc<SharedMisreading>>>,
}

impl<'n> DirectoryCheck<'n> {
    /// A check without violations, for callers that report violations of their own.
    pub fn without_violations(directory: &DirectoryNames<'n>) -> Self {
        let mut names: Vec<&[u8]> = directory.names.iter().map(|(_, name)| name).collect();
        names.extend(directory.holding_nul.iter().map(Vec::as_slice));
        let checked = names.len();
        let all = |arena: &'n Arena| arena.iter().map(|(_, name)| name);
        let mut left_out = Vec::new();
        match directory.siblings {
            Siblings::Compared(others) => names.extend(all(others)),
            Siblings::Excluded(others) => left_out.extend(all(others)),
            Siblings::None | Siblings::Unknown => {}
        }
        Self {
            names,
            checked,
            violations: BTreeMap::new(),
            path_violations: BTreeMap::new(),
            collisions: Vec::new(),
            left_out,
            is_listed: !matches!(directory.siblings, Siblings::Unknown),
            used: None,
            path: directory.path_on_target(),
            misreading: OnceLock::new(),
        }
    }

    /// Whether there is no violation.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.path_violations.is_empty() && self.collisions.is_empty()
    }

    /// The path of the name at index `at` on the target.
    pub fn path_on_target(&self, at: usize) -> Vec<u8> {
        [&self.path, self.names[at]].concat()
    }

    /// All known names of the directory; excluded names are last.
    pub fn all_names(&self) -> impl Iterator<Item = &'n [u8]> {
        self.names.iter().chain(&self.left_out).copied()
    }

    /// How those of the checked names were read wrongly that were. It is found once, by the violations that there are then.
    pub fn shared_misreading(&self) -> Option<Arc<SharedMisreading>> {
        let find = || {
            let is_misread = |violations: &[Violation]| violations.iter().any(|v| v.rule == RuleId::Mojibake);
            let found = self.violations.iter().filter(|(_, violations)| is_misread(violations));
            let names = found.filter_map(|(&at, _)| std::str::from_utf8(self.names[at]).ok());
            SharedMisreading::of_names(names).map(Arc::new)
        };
        self.misreading.get_or_init(find).clone()
    }

    /// Whether all names of the directory are known. If not, no name can be suggested.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Suggests names for the checked names, as [`Policy::suggest_names`] does: by the index of each name that needs another
    /// one. No suggested name equals the name of a sibling. Without a hint the encoding of names that are not UTF-8 is guessed from them.
    pub fn suggested_names(
        &self,
        policy: &Policy,
        hint: Option<EncodingHint<'_>>,
    ) -> BTreeMap<usize, SuggestedName> {
        let in_use: &mut NamesInUse<'_> = &mut |_, take| self.all_names().for_each(take);
        self.suggest(policy, hint, in_use, self.used.as_ref().into(), self.shared_misreading().as_deref())
    }

    /// Suggests names for the checked names without regard to any other name of the directory.
    pub fn suggested_names_alone(
        &self,
        policy: &Policy,
        suggester: &PartsSuggester<'_>,
    ) -> BTreeMap<usize, SuggestedName> {
        match self.is_listed {
            true => suggester.suggest(&self.names, &self.imperfect(policy)),
            false => BTreeMap::new(),
        }
    }

    /// [`DirectoryCheck::suggested_names`] for a directory of which only suspects are stored ([`SuspectNames`]). `in_use` gives the
    /// other names of the directory; it is called a few times. `used` is what is known of their fingerprints
    /// ([`SuspectNames::take_used`]). Without a hint the encoding is guessed from the suspects.
    pub fn suggested_names_among(
        &self,
        policy: &Policy,
        hint: Option<EncodingHint<'_>>,
        in_use: &mut NamesInUse<'_>,
        used: FingerprintIndex<'_>,
    ) -> BTreeMap<usize, SuggestedName> {
        self.suggest(policy, hint, in_use, used, None)
    }

    fn suggest(
        &self,
        policy: &Policy,
        hint: Option<EncodingHint<'_>>,
        in_use: &mut NamesInUse<'_>,
        used: FingerprintIndex<'_>,
        misreading: Option<&SharedMisreading>,
    ) -> BTreeMap<usize, SuggestedName> {
        match self.is_listed {
            true => {
                policy.suggest_among(self.occupants(in_use, used), &self.imperfect(policy), hint, misreading)
            }
            false => BTreeMap::new(),
        }
    }

    /// Suggests names for a caller that decoded some names itself, as [`Policy::suggest_names_for_meanings`] does. Each text is freed
    /// when the name is suggested that it leads to.
    pub fn suggested_names_for_meanings(
        &self,
        policy: &Policy,
        meant: Vec<Option<(String, Confidence)>>,
    ) -> BTreeMap<usize, SuggestedName> {
        let in_use: &mut NamesInUse<'_> = &mut |_, take| self.all_names().for_each(take);
        self.suggested_names_for_meanings_among(policy, meant, in_use, self.used.as_ref().into())
    }

    /// [`DirectoryCheck::suggested_names_for_meanings`] for a directory of which only some names are stored. `in_use` and `used` are as
    /// in [`DirectoryCheck::suggested_names_among`].
    pub fn suggested_names_for_meanings_among(
        &self,
        policy: &Policy,
        meant: Vec<Option<(String, Confidence)>>,
        in_use: &mut NamesInUse<'_>,
        used: FingerprintIndex<'_>,
    ) -> BTreeMap<usize, SuggestedName> {
        match self.is_listed {
            true => {
                let there = self.occupants(in_use, used);
                policy.suggest_for_meanings_among(there, &self.imperfect(policy), meant)
            }
            false => BTreeMap::new(),
        }
    }

    /// [`DirectoryCheck::suggested_names_for_meanings`] without regard to any other name of the directory.
    pub fn suggested_names_for_meanings_alone(
        &self,
        policy: &Policy,
        meant: Vec<Option<(String, Confidence)>>,
    ) -> BTreeMap<usize, SuggestedName> {
        match self.is_listed {
            true => policy.suggest_for_meanings_alone(&self.names, &self.imperfect(policy), meant),
            false => BTreeMap::new(),
        }
    }

    fn occupants<'a>(
        &'a self,
        in_use: &'a mut NamesInUse<'a>,
        used: FingerprintIndex<'a>,
    ) -> Occupants<'a, 'n> {
        Occupants { names: &self.names, movable: self.checked, collisions: &self.collisions, in_use, used }
    }

    /// The checked names that have violations or are not stored as they are.
    fn imperfect(&self, policy: &Policy) -> Vec<ImperfectName<'_>> {
        match policy.converts() {
            true => policy.imperfect(&self.names[..self.checked]),
            false => {
                let found = self.violations.iter();
                // The caller may have taken the violations of a name, but never some of them.
                let imperfect = found.map(|(&at, found)| ImperfectName {
                    at,
                    violations: Some(&found[..]).filter(|found| !found.is_empty()),
                });
                imperfect.collect()
            }
        }
    }
}

impl Policy {
    /// Checks a directory; `None` if there is no violation. Little is allocated for a directory without violations.
    ///
    /// ```
    /// use namegate_core::check::DirectoryNames;
    /// use namegate_core::name::arena::Arena;
    /// use namegate_core::policy::{Policy, profile};
    ///
    /// let windows = Policy::from_profiles(&[profile::by_name("windows")?]);
    /// let mut names = Arena::new();
    /// names.push(b"Makefile")?;
    /// assert!(windows.check_directory(&DirectoryNames::new(&names)).is_none());
    /// names.push(b"makefile")?;
    /// let check = windows.check_directory(&DirectoryNames::new(&names)).unwrap();
    /// assert_eq!(check.collisions[0].members, [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_directory<'n>(&self, directory: &DirectoryNames<'n>) -> Option<DirectoryCheck<'n>> {
        let mut fingerprints = self.fingerprints();
        let suspects = directory.check_each(self, &mut fingerprints);
        if let (Some(fingerprints), Siblings::Compared(others)) = (&mut fingerprints, directory.siblings) {
            fingerprints.add_all(others);
        }
        let mut fingerprints = fingerprints.map(Fingerprints::shared);
        let shared = fingerprints.as_ref().filter(|shared| !shared.is_empty());
        let has_long_paths = directory.may_have_long_paths(self);
        let has_suspects = !suspects.is_empty() || !directory.holding_nul.is_empty();
        if !has_suspects && shared.is_none() && !has_long_paths {
            return None;
        }
        let mut check = DirectoryCheck::without_violations(directory);
        let mut offsets = directory.names.iter().map(|(offset, _)| offset).enumerate();
        let mut index_of = |wanted: usize| {
            offsets.find(|&(_, offset)| offset == wanted).expect("the arena gave the offset").0
        };
        check.violations =
            suspects.into_iter().map(|(offset, found)| (index_of(offset), found.violations)).collect();
        let in_arena = check.checked - directory.holding_nul.len();
        for (at, name) in (in_arena..).zip(directory.holding_nul) {
            check.violations.insert(at, self.check(name).violations);
        }
        check.collisions = shared.map(|shared| shared.collisions(&check.names)).unwrap_or_default();
        check.collisions.retain(|collision| collision.members.iter().any(|&at| at < check.checked));
        if has_long_paths {
            for at in 0..check.checked {
                let kind = directory.names.kind_of(check.names[at]);
                let too_long = self.check_path(&check.path_on_target(at), kind);
                if !too_long.is_empty() {
                    check.path_violations.insert(at, too_long);
                }
            }
        }
        // The names that were left out have no fingerprints.
        check.used =
            fingerprints.as_mut().filter(|_| check.left_out.is_empty()).map(SharedFingerprints::take_used);
        (!check.is_clean()).then_some(check)
    }

    /// Adds the names of `part` to `found` that may have violations by themselves or by their paths, without regard to the other names
    /// of the directory; and those that are not stored as they are.
    pub fn add_suspects(&self, found: &mut Arena, part: &DirectoryNames<'_>) {
        SuspectNames { policy: self, shared: None, has_left_out: false }.add_to(found, part);
    }

    /// Finds the names that may have violations in a directory whose names come in parts, without storing all of them.
    ///
    /// If the policy compares names, four bytes are stored for each name of a large directory, whatever its length.
    ///
    /// ```
    /// use namegate_core::check::DirectoryNames;
    /// use namegate_core::name::arena::Arena;
    /// use namegate_core::policy::{Policy, profile};
    ///
    /// let windows = Policy::from_profiles(&[profile::by_name("windows")?]);
    /// let (mut first, mut second) = (Arena::new(), Arena::new());
    /// first.push(b"Makefile")?;
    /// second.push(b"readme")?;
    /// second.push(b"makefile")?;
    /// let parts = [DirectoryNames::new(&first), DirectoryNames::new(&second)];
    /// let mut check = windows.check_in_parts();
    /// parts.iter().for_each(|part| check.add(part));
    /// let suspects = check.suspects().expect("two names collide");
    /// let mut found = Arena::new();
    /// parts.iter().for_each(|part| suspects.add_to(&mut found, part));
    /// assert_eq!(found.iter().map(|(_, name)| name).collect::<Vec<_>>(), [&b"Makefile"[..], b"makefile"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_in_parts(&self) -> PartsCheck<'_> {
        PartsCheck {
            policy: self,
            fingerprints: self.fingerprints(),
            may_have_violations: false,
            has_left_out: false,
        }
    }
}

/// The check of a directory whose names come in parts.
#[derive(Clone, Debug)]
pub struct PartsCheck<'p> {
    policy: &'p Policy,
    fingerprints: Option<Fingerprints<'p>>,
    may_have_violations: bool,
    has_left_out: bool,
}

impl<'p> PartsCheck<'p> {
    /// Adds some names of the directory.
    pub fn add(&mut self, part: &DirectoryNames<'_>) {
        self.may_have_violations |= part.may_have_long_paths(self.policy) || !part.holding_nul.is_empty();
        match &mut self.fingerprints {
            // Which names have violations is asked later.
            Some(fingerprints) if self.may_have_violations => part.add_to(fingerprints),
            Some(_) => {
                let found = part.check_each(self.policy, &mut self.fingerprints);
                self.may_have_violations = !found.is_empty();
            }
            None => {
                self.may_have_violations |= part.check_alone(self.policy).next().is_some();
            }
        }
        self.has_left_out |= matches!(part.siblings, Siblings::Excluded(_));
    }

    /// Records a violation that the policy does not know, such as one of the container of the directory.
    pub fn add_violation(&mut self) {
        self.may_have_violations = true;
    }

    /// Finds the suspects when the parts are read again; `None` if the directory has no violation.
    pub fn suspects(self) -> Option<SuspectNames<'p>> {
        let may_have_violations = self.may_have_violations;
        Some(self.into_suspects()).filter(|suspects| may_have_violations || suspects.has_alike())
    }

    /// Finds the suspects when the parts are read again, for a caller that renames names without violations too.
    pub fn into_suspects(self) -> SuspectNames<'p> {
        let Self { policy, fingerprints, has_left_out, .. } = self;
        SuspectNames { policy, shared: fingerprints.map(Fingerprints::shared), has_left_out }
    }
}

/// The names that may have violations, in a directory whose names come in parts. [`Policy::check_directory`] finds the same
/// violations in these names as in all.
#[derive(Clone, Debug)]
pub struct SuspectNames<'p> {
    policy: &'p Policy,
    shared: Option<SharedFingerprints<'p>>,
    has_left_out: bool,
}

impl SuspectNames<'_> {
    /// Takes the fingerprints of all names of the directory; `None` if they were not computed.
    pub fn take_used(&mut self) -> Option<UsedFingerprints> {
        self.shared.as_mut().filter(|_| !self.has_left_out).map(SharedFingerprints::take_used)
    }

    /// Whether any names may collide.
    pub fn has_alike(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.is_empty())
    }

    /// Whether `name` may collide with another name of the directory; `false` is certain.
    pub fn is_alike(&self, name: &[u8]) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.has(name))
    }

    /// Adds the suspects of `part` to `found`, except names that contain a NUL.
    pub fn add_to(&self, found: &mut Arena, part: &DirectoryNames<'_>) {
        self.each_of_arena(part, &|_| false, &mut |_, name| {
            found.push(name).expect("it comes from an arena");
        });
    }

    /// Calls `take` with the suspects of `part` and the names of which `is_other` is true, each with its index: the names of the arena
    /// come first, then those that contain a NUL, which are all suspects.
    pub fn each_of(
        &self,
        part: &DirectoryNames<'_>,
        is_other: &dyn Fn(&[u8]) -> bool,
        take: &mut dyn FnMut(usize, &[u8]),
    ) {
        let in_arena = self.each_of_arena(part, is_other, take);
        (in_arena..).zip(part.holding_nul).for_each(|(at, name)| take(at, name));
    }

    /// [`SuspectNames::each_of`] without the names that contain a NUL; returns the number of names in the arena.
    fn each_of_arena(
        &self,
        part: &DirectoryNames<'_>,
        is_other: &dyn Fn(&[u8]) -> bool,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> usize {
        let mut violating = part.check_alone(self.policy).map(|(offset, _)| offset).peekable();
        let has_long_paths = part.may_have_long_paths(self.policy);
        let mut count = 0;
        for (at, (offset, name)) in part.names.iter().enumerate() {
            let is_suspect = violating.next_if_eq(&offset).is_some()
                || self.is_alike(name)
                || has_long_paths && part.may_be_too_long(name.len(), self.policy)
                || self.policy.converts() && !self.policy.is_spotless(name)
                || is_other(name);
            if is_suspect {
                take(at, name);
            }
            count = at + 1;
        }
        count
    }
}

#[cfg(test)]
mod tests;
