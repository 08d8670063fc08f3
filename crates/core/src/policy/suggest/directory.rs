//! Suggests names for all names in one directory.
//!
//! A suggested name is free if no name of the directory and no other suggested name equals it, byte for byte or under an
//! equivalence of the policy. Names that are to be renamed still count: a plan may be applied in part and in any order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Confidence, EncodingHint, SuggestedName, Suggester, room_for};
use crate::name::casefold::{self, Fold};
use crate::name::misread::SharedMisreading;
use crate::name::normalize::{Form, is_in_form};
use crate::name::reading::{Encoding, EncodingCounts, EncodingGuess};
use crate::policy::collision::{Collision, Equivalence};
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{Policy, SharedFingerprints, UsedFingerprints, Verdict, Violation};

/// Calls its second argument with each name in use in a directory that has one of the fingerprints in the first, or with more names.
/// Without fingerprints all names are asked for. It may be called several times.
pub type NamesInUse<'f> = dyn FnMut(&[u64], &mut dyn FnMut(&[u8])) + 'f;

/// What is known of the fingerprints of all names in use in a directory.
#[derive(Clone, Copy, Debug)]
pub enum FingerprintIndex<'a> {
    /// Nothing: names are compared with all names.
    Unknown,
    /// All of them.
    Complete(&'a UsedFingerprints),
    /// Names are found by their fingerprints: [`NamesInUse`] is called with those that matter, as often as needed, and never for all
    /// names.
    ByLookup,
}

impl<'a> From<Option<&'a UsedFingerprints>> for FingerprintIndex<'a> {
    fn from(used: Option<&'a UsedFingerprints>) -> Self {
        used.map_or(Self::Unknown, Self::Complete)
    }
}

/// A name that may need another one.
#[derive(Clone, Copy)]
pub(crate) struct ImperfectName<'v> {
    /// Its index.
    pub(crate) at: usize,
    /// Its violations, if it was checked.
    pub(crate) violations: Option<&'v [Violation]>,
}

/// The names in one directory.
pub(crate) struct Occupants<'a, 'n> {
    /// Names that are compared with each other; at least those that need another name, and those that collide with these.
    pub(crate) names: &'a [&'n [u8]],
    /// How many of `names`, from the first, can be renamed.
    pub(crate) movable: usize,
    /// The collisions of `names`.
    pub(crate) collisions: &'a [Collision],
    /// All names in use, `names` included.
    pub(crate) in_use: &'a mut NamesInUse<'a>,
    /// What is known of the fingerprints of all names in use.
    pub(crate) used: FingerprintIndex<'a>,
}

impl Policy {
    /// Suggests names for `names`, the distinct names in one directory, each at the index of its name; `None` where
    /// [`Policy::suggest_name`] has none.
    ///
    /// No suggested name equals the name of another entry or another suggested name, byte for byte or under an equivalence
    /// of the policy. Of names that collide by normalization or case, one keeps its name (preferably one without violations
    /// and in NFC) and the others get a number. Names that are not UTF-8 are decoded in `encoding`; without one the encoding
    /// is guessed from all of them together.
    ///
    /// The suggested names do not depend on the order of `names`. The time is that of sorting them.
    ///
    /// ```
    /// # use namegate_core::policy::{Policy, profile};
    /// let policy = Policy::from_profiles(&[profile::by_name("strict")?]);
    /// let names: [&[u8]; 4] = [b"na\xEFve.txt", b"caf\xE9", "café".as_bytes(), b"fa\xE7ade"];
    /// let repairs = policy.suggest_names(&names, None);
    /// let repaired: Vec<_> = repairs.iter().map(|r| r.as_ref().map(|r| r.name.as_str())).collect();
    /// assert_eq!(repaired, [Some("naïve.txt"), Some("café_2"), None, Some("façade")]);
    /// # Ok::<(), namegate_core::policy::UnknownWord>(())
    /// ```
    pub fn suggest_names(&self, names: &[&[u8]], encoding: Option<Encoding>) -> Vec<Option<SuggestedName>> {
        let imperfect = self.imperfect(names);
        let hint = encoding.map(EncodingHint::Given);
        let misreading = self.shared_misreading(imperfect.iter().map(|imperfect| names[imperfect.at]));
        self.among_all(names, |there| self.suggest_among(there, &imperfect, hint, misreading.as_ref()))
    }

    /// [`Policy::suggest_names`] for the names of `there` at the indexes `imperfect`, and for those that must change because
    /// they collide. The result has the index of each name for which another is suggested. Without a hint the encoding is guessed
    /// from these names. `misreading` says how some of them were read wrongly.
    pub(crate) fn suggest_among(
        &self,
        there: Occupants<'_, '_>,
        imperfect: &[ImperfectName<'_>],
        hint: Option<EncodingHint<'_>>,
        misreading: Option<&SharedMisreading>,
    ) -> BTreeMap<usize, SuggestedName> {
        let suggester = Suggester { misreading, ..Suggester::new(self) };
        let guess = match hint {
            Some(_) => None,
            None => {
                let names = imperfect.iter().map(|imperfect| there.names[imperfect.at]);
                let undecoded = names.filter(|name| std::str::from_utf8(name).is_err());
                EncodingGuess::for_names(undecoded, &EncodingCounts::default())
            }
        };
        let guessed = guess.as_ref().map_or(EncodingHint::Unknown, EncodingHint::Guessed);
        let suggested = suggester.suggest_all(there.names, imperfect, hint.unwrap_or(guessed)).collect();
        self.placed(&suggester, there, suggested)
    }

    /// [`Policy::suggest_names`] for a caller that decoded some names itself: `meant` has the text of each such name at its
    /// index, with a confidence. A text that equals the name has no effect. Names that are not UTF-8 and have no text keep
    /// their names.
    ///
    /// ```
    /// # use namegate_core::policy::{Confidence, Policy, profile};
    /// let policy = Policy::from_profiles(&[profile::by_name("windows")?]);
    /// let names: [&[u8]; 3] = [b"a\xEF\x80\xA2b", b"a_b", b"con"];
    /// let meant = [Some(("a:b".to_owned(), Confidence::Certain)), None, None];
    /// let repairs = policy.suggest_names_for_meanings(&names, &meant);
    /// let repaired: Vec<_> = repairs.iter().map(|r| r.as_ref().map(|r| r.name.as_str())).collect();
    /// assert_eq!(repaired, [Some("a_b_2"), None, Some("con_")]);
    /// # Ok::<(), namegate_core::policy::UnknownWord>(())
    /// ```
    pub fn suggest_names_for_meanings(
        &self,
        names: &[&[u8]],
        meant: &[Option<(String, Confidence)>],
    ) -> Vec<Option<SuggestedName>> {
        let imperfect = self.imperfect(names);
        let meant = meant.iter().map(|meant| meant.as_ref().map(|(text, sure)| (text, *sure)));
        self.among_all(names, |there| self.suggest_for_meanings_among(there, &imperfect, meant))
    }

    /// [`Policy::suggest_names_for_meanings`], as [`Policy::suggest_among`] does it.
    pub(crate) fn suggest_for_meanings_among(
        &self,
        there: Occupants<'_, '_>,
        imperfect: &[ImperfectName<'_>],
        meant: impl IntoIterator<Item = Option<(impl AsRef<str>, Confidence)>>,
    ) -> BTreeMap<usize, SuggestedName> {
        let suggester = Suggester::new(self);
        let suggested = suggester.suggest_for_meanings(there.names, imperfect, meant);
        self.placed(&suggester, there, suggested)
    }

    /// [`Policy::suggest_names_for_meanings`] without regard to other names.
    pub(crate) fn suggest_for_meanings_alone(
        &self,
        names: &[&[u8]],
        imperfect: &[ImperfectName<'_>],
        meant: impl IntoIterator<Item = Option<(impl AsRef<str>, Confidence)>>,
    ) -> BTreeMap<usize, SuggestedName> {
        Suggester::new(self).suggest_for_meanings(names, imperfect, meant)
    }

    /// Calls `suggest` with a directory that has `names` and no others. Each suggested name gets the index of its name.
    fn among_all(
        &self,
        names: &[&[u8]],
        suggest: impl FnOnce(Occupants<'_, '_>) -> BTreeMap<usize, SuggestedName>,
    ) -> Vec<Option<SuggestedName>> {
        let mut shared = self.fingerprints().map(|mut fingerprints| {
            names.iter().for_each(|name| fingerprints.add(name));
            fingerprints.shared()
        });
        let collisions = shared.as_ref().map(|shared| shared.collisions(names)).unwrap_or_default();
        let used = shared.as_mut().map(SharedFingerprints::take_used);
        let mut in_use = |_: &[u64], take: &mut dyn FnMut(&[u8])| names.iter().for_each(|name| take(name));
        let there = Occupants {
            names,
            movable: names.len(),
            collisions: &collisions,
            in_use: &mut in_use,
            used: used.as_ref().into(),
        };
        let mut suggested = suggest(there);
        (0..names.len()).map(|at| suggested.remove(&at)).collect()
    }

    /// Finds a free name for each of `suggested`, and for the names that must change because they collide.
    fn placed(
        &self,
        suggester: &Suggester<'_>,
        there: Occupants<'_, '_>,
        mut suggested: BTreeMap<usize, SuggestedName>,
    ) -> BTreeMap<usize, SuggestedName> {
        let names = there.names;
        for at in moving(&there, &suggested, self.repairs.min_severity) {
            // Only a valid name can get a number without another repair.
            if let Entry::Vacant(entry) = suggested.entry(at)
                && let Ok(text) = std::str::from_utf8(names[at])
                && suggester.is_accepted(text)
            {
                let (name, confidence) = (text.to_owned(), Confidence::Likely);
                entry.insert(SuggestedName { name, confidence, is_shortened: false, decoded: None });
            }
        }
        if let FingerprintIndex::Complete(used) = there.used
            && self.are_free(names, &suggested, used)
        {
            return suggested;
        }
        // Sorted by their bytes: which name gets a number must not depend on the order of the directory.
        let mut entries: Vec<_> = suggested.into_iter().collect();
        entries.sort_unstable_by_key(|&(at, _)| names[at]);
        let mut contested = OccupiedNames::new(suggester, &entries, there).place_contested();
        let place = |(entry, (at, new))| match contested.remove(&entry) {
            Some(placed) => placed.map(|new| (at, new)),
            None => Some((at, new)),
        };
        entries.into_iter().enumerate().filter_map(place).collect()
    }

    /// Whether no name of the directory and no other suggested name equals one of `suggested`; `true` is certain. In most directories all
    /// suggested names are free, and need neither be sorted nor compared.
    fn are_free(
        &self,
        names: &[&[u8]],
        suggested: &BTreeMap<usize, SuggestedName>,
        used: &UsedFingerprints,
    ) -> bool {
        let mut numbers = Vec::with_capacity(suggested.len());
        for (&at, new) in suggested {
            if self.may_be_used(used, names[at], &new.name) {
                return false;
            }
            self.each_number(&new.name, |number| numbers.push(number));
        }
        numbers.sort_unstable();
        numbers.windows(2).all(|two| two[0] != two[1])
    }

    /// Whether another name of the directory than `own` may equal `new`; `false` is certain.
    fn may_be_used(&self, used: &UsedFingerprints, own: &[u8], new: &str) -> bool {
        let mut may_be_used = false;
        self.each_number(new, |number| {
            if !may_be_used && let count @ 1.. = used.count(number) {
                let mut is_own = false;
                if let Ok(own) = std::str::from_utf8(own) {
                    self.each_number(own, |other| is_own |= other == number);
                }
                may_be_used = count > usize::from(is_own);
            }
        });
        may_be_used
    }

    /// How those of `names` were read wrongly that were; `None` if the policy does not look for that.
    pub(crate) fn shared_misreading<'n>(
        &self,
        names: impl Iterator<Item = &'n [u8]>,
    ) -> Option<SharedMisreading> {
        self.tables.plain[RuleId::Mojibake as usize]?;
        SharedMisreading::of_names(names.filter_map(|name| std::str::from_utf8(name).ok()))
    }

    /// Those of `names` that have violations or are not stored as they are.
    pub(crate) fn imperfect(&self, names: &[&[u8]]) -> Vec<ImperfectName<'static>> {
        let imperfect = (0..names.len()).filter(|&at| !self.is_spotless(names[at]));
        imperfect.map(|at| ImperfectName { at, violations: None }).collect()
    }

    /// Whether `name` has no violation and is stored as it is.
    pub(crate) fn is_spotless(&self, name: &[u8]) -> bool {
        // A name without a violation changes only if the policy converts.
        self.check(name).violations.is_empty()
            && (self.normalization.is_none() || matches!(self.verdict(name), Verdict::Accept(_)))
    }
}

impl Suggester<'_> {
    /// Suggests names for `imperfect` without regard to other names, each with the index of its name in `names`.
    pub(super) fn suggest_all(
        &self,
        names: &[&[u8]],
        imperfect: &[ImperfectName<'_>],
        hint: EncodingHint<'_>,
    ) -> impl Iterator<Item = (usize, SuggestedName)> {
        let mut legacy = hint.reader();
        imperfect.iter().filter_map(move |&ImperfectName { at, violations }| {
            Some((at, self.suggest(names[at], violations, &mut legacy)?))
        })
    }

    /// Suggests names for those of `names` that have a text, and for the `imperfect` names without one, without regard to other names.
    fn suggest_for_meanings(
        &self,
        names: &[&[u8]],
        imperfect: &[ImperfectName<'_>],
        meant: impl IntoIterator<Item = Option<(impl AsRef<str>, Confidence)>>,
    ) -> BTreeMap<usize, SuggestedName> {
        let mut suggested = BTreeMap::new();
        let mut has_meaning = vec![false; names.len()];
        for (at, meant) in meant.into_iter().enumerate() {
            if let Some((text, confidence)) = meant {
                has_meaning[at] = true;
                let new = self.suggest_for_text(names[at], text.as_ref(), confidence, None);
                suggested.extend(new.map(|new| (at, new)));
            }
        }
        for &ImperfectName { at, violations } in imperfect.iter().filter(|name| !has_meaning[name.at]) {
            if let Ok(text) = std::str::from_utf8(names[at]) {
                let new = self.suggest_for_text(names[at], text, Confidence::Certain, violations);
                suggested.extend(new.map(|new| (at, new)));
            }
        }
        suggested
    }
}

/// The names that must change because they collide with a name that stays, in collisions of at least `min_severity`.
fn moving(
    there: &Occupants<'_, '_>,
    suggested: &BTreeMap<usize, SuggestedName>,
    min_severity: Severity,
) -> BTreeSet<usize> {
    let &Occupants { names, movable, collisions, .. } = there;
    let mut moving = BTreeSet::new();
    let is_merge = |rule: RuleId| matches!(rule, RuleId::CollisionNormalization | RuleId::CollisionCase);
    let is_resolved = |group: &Collision| {
        let Violation { rule, severity, .. } = group.violations[0];
        is_merge(rule) && severity >= min_severity
    };
    let mut groups: Vec<&Collision> = collisions.iter().filter(|group| is_resolved(group)).collect();
    // Collisions by normalization are resolved before collisions by case.
    groups.sort_by_key(|group| group.violations[0].rule);
    for group in groups {
        let staying: Vec<usize> = group.members.iter().copied().filter(|at| !moving.contains(at)).collect();
        let is_odd =
            |at: usize| std::str::from_utf8(names[at]).is_ok_and(|name| !is_in_form(name, Form::Nfc));
        // A name that cannot be renamed keeps its name, whatever it is.
        let keeper = staying
            .iter()
            .copied()
            .min_by_key(|&at| (at < movable, suggested.contains_key(&at), is_odd(at), names[at]))
            .filter(|&at| at < movable);
        moving.extend(staying.into_iter().filter(|&at| at < movable && Some(at) != keeper));
    }
    moving
}

/// Decides whether a name is free.
///
/// Most suggested names are: no name of the directory and no other suggested name has their fingerprint. Only the others are
/// contested, and compared with the names that have the same fingerprint. For that the directory is read again, for many
/// contested names together.
struct OccupiedNames<'s, 'a, 'n> {
    policy: &'s Policy,
    suggester: &'s Suggester<'s>,
    names: &'s [&'n [u8]],
    /// The suggested names and the indexes of their names, sorted by the names.
    entries: &'s [(usize, SuggestedName)],
    in_use: &'s mut NamesInUse<'a>,
    used: FingerprintIndex<'s>,
    /// The fingerprints of the suggested names, each with the index of its entry; sorted.
    numbers: Vec<(u64, usize)>,
    /// Whether each entry must be compared.
    contested: Vec<bool>,
    /// How many entries have their final names.
    placed: usize,
    /// The fingerprints that were looked up; `None` after all names were read in.
    looked_up: Option<HashSet<u64>>,
    passes: usize,
    /// The names with fingerprints that were looked up, and the suggested names that were contested.
    exact: HashSet<Box<[u8]>>,
    /// For each equivalence: how many of these names have a key.
    held: Vec<(Equivalence, HashMap<Box<str>, usize>)>,
    /// The next number to try for each group of equal names. Without it the time for a directory of equal names would grow
    /// with the square of their number.
    next: HashMap<String, usize>,
}

/// Numbers that are looked up together at first.
const NUMBERS_TOGETHER: usize = 8;
/// After this many comparisons with the whole directory, all its names are stored instead.
const MAX_PASSES: usize = 8;

impl<'s, 'a: 's, 'n> OccupiedNames<'s, 'a, 'n> {
    fn new(
        suggester: &'s Suggester<'s>,
        entries: &'s [(usize, SuggestedName)],
        there: Occupants<'a, 'n>,
    ) -> Self {
        let policy = suggester.policy;
        let mut kinds: Vec<Equivalence> = Vec::new();
        for same in policy.rules.iter().filter_map(|rule| Equivalence::for_test(&rule.test)) {
            if !kinds.contains(&same) {
                kinds.push(same);
            }
        }
        let mut numbers = Vec::with_capacity(entries.len());
        for (entry, (_, new)) in entries.iter().enumerate() {
            policy.each_number(&new.name, |number| numbers.push((number, entry)));
        }
        numbers.sort_unstable();
        let mut contested = vec![false; entries.len()];
        for same in numbers.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            same.iter().for_each(|&(_, entry)| contested[entry] = true);
        }
        Self {
            policy,
            suggester,
            names: there.names,
            entries,
            in_use: there.in_use,
            used: there.used,
            numbers,
            contested,
            placed: 0,
            looked_up: Some(HashSet::new()),
            passes: 0,
            exact: HashSet::new(),
            held: kinds.into_iter().map(|same| (same, HashMap::new())).collect(),
            next: HashMap::new(),
        }
    }

    /// Finds a free name for each contested entry, by its index; `None` if there is none. The other entries have free names.
    fn place_contested(mut self) -> HashMap<usize, Option<SuggestedName>> {
        let mut wanted = Vec::new();
        match self.used {
            FingerprintIndex::Complete(used) => {
                for entry in 0..self.entries.len() {
                    let (at, new) = &self.entries[entry];
                    self.contested[entry] |= self.policy.may_be_used(used, self.names[*at], &new.name);
                    if self.contested[entry] {
                        wanted.push(&*new.name);
                    }
                }
            }
            FingerprintIndex::Unknown | FingerprintIndex::ByLookup => {
                wanted.extend(self.entries.iter().map(|(_, new)| &*new.name));
            }
        }
        self.read(self.fingerprints(&wanted));
        let (mut seen, mut numbered) = (HashSet::new(), Vec::new());
        for (entry, (at, new)) in self.entries.iter().enumerate().filter(|(entry, _)| self.contested[*entry])
        {
            let mut is_again = false;
            self.policy.each_number(&new.name, |number| is_again |= !seen.insert(number));
            if is_again || self.is_in_use(&new.name, self.names[*at]) {
                numbered.extend(self.with_numbers(entry, 2, NUMBERS_TOGETHER));
            }
        }
        self.look_up(&numbered);
        let mut placed = HashMap::new();
        for entry in 0..self.entries.len() {
            if self.contested[entry] {
                placed.insert(entry, self.place(entry));
            }
            self.placed = entry + 1;
        }
        placed
    }

    /// The suggested name of this entry with `count` numbers, the first of them `from`.
    fn with_numbers(&self, entry: usize, from: usize, count: usize) -> Vec<String> {
        let (at, new) = &self.entries[entry];
        let room = room_for(self.names[*at]);
        let candidate = |number| Some(self.suggester.with_number(&new.name, room, number)?.name);
        (from..from + count).map_while(candidate).collect()
    }

    /// The fingerprints of `names`, sorted.
    fn fingerprints(&self, names: &[impl AsRef<str>]) -> Vec<u64> {
        let mut numbers = Vec::new();
        for name in names {
            self.policy.each_number(name.as_ref(), |number| numbers.push(number));
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Adds the names that may equal one of `candidates`: those of the directory, and suggested ones.
    fn look_up(&mut self, candidates: &[impl AsRef<str>]) {
        let numbers = self.fingerprints(candidates);
        for &number in &numbers {
            self.contest(number);
        }
        self.read(numbers);
    }

    /// Adds the names of the directory with these fingerprints, unless they were added before.
    fn read(&mut self, mut numbers: Vec<u64>) {
        let Some(looked_up) = &mut self.looked_up else { return };
        let used = self.used;
        let may_be_used = |number| match used {
            FingerprintIndex::Complete(used) => used.count(number) > 0,
            FingerprintIndex::Unknown | FingerprintIndex::ByLookup => true,
        };
        numbers.retain(|&number| may_be_used(number) && looked_up.insert(number));
        if numbers.is_empty() {
            return;
        }
        self.passes += 1;
        let is_last = self.passes > MAX_PASSES && !matches!(used, FingerprintIndex::ByLookup);
        let Self { policy, in_use, exact, held, contested, numbers: suggested, .. } = self;
        in_use(if is_last { &[] } else { &numbers }, &mut |name| {
            let Ok(text) = std::str::from_utf8(name) else { return };
            let mut may_be_equal = is_last;
            policy.each_number(text, |number| {
                if numbers.binary_search(&number).is_ok() {
                    may_be_equal = true;
                    with_number(suggested, number).for_each(|entry| contested[entry] = true);
                }
            });
            if may_be_equal && !exact.contains(name) {
                occupy(exact, held, text);
            }
        });
        if is_last {
            self.looked_up = None;
        }
    }

    /// Has the suggested names with this fingerprint compared with others from now on.
    fn contest(&mut self, number: u64) {
        let Self { numbers, contested, entries, exact, held, placed, .. } = self;
        for entry in with_number(numbers, number) {
            if !std::mem::replace(&mut contested[entry], true) && entry < *placed {
                occupy(exact, held, &entries[entry].1.name);
            }
        }
    }

    /// Whether `candidate`, which was looked up, is in use by another entry than `own`.
    fn is_in_use(&self, candidate: &str, own: &[u8]) -> bool {
        if self.exact.contains(candidate.as_bytes()) {
            return true;
        }
        let own = std::str::from_utf8(own).ok();
        self.held.iter().any(|(same, keys)| {
            let key = same.key(candidate);
            let holders = keys.get(&*key).copied().unwrap_or_default();
            holders > usize::from(own.is_some_and(|own| same.key(own) == key))
        })
    }

    /// Finds a free name for a contested entry, and marks it as used.
    fn place(&mut self, entry: usize) -> Option<SuggestedName> {
        let (at, new) = &self.entries[entry];
        let placed = match self.is_in_use(&new.name, self.names[*at]) {
            true => self.numbered(entry)?,
            false => new.clone(),
        };
        occupy(&mut self.exact, &mut self.held, &placed.name);
        Some(placed)
    }

    fn numbered(&mut self, entry: usize) -> Option<SuggestedName> {
        let (at, new) = &self.entries[entry];
        let (own, suggester) = (self.names[*at], self.suggester);
        let room = room_for(own);
        let first = suggester.with_number(&new.name, room, 2)?;
        let family = casefold::key(&first.name, Some(Form::Nfkc), Some(Fold::Full)).into_owned();
        let from = self.next.get(&family).copied().unwrap_or(2);
        self.look_up(&self.with_numbers(entry, from, NUMBERS_TOGETHER));
        let mut tried = 0;
        let mut in_use = |candidate: &str| {
            // Each time the numbers that are looked up double: a look can be a pass over the directory.
            if tried >= NUMBERS_TOGETHER && tried.is_power_of_two() {
                self.look_up(&self.with_numbers(entry, from + tried, tried));
            }
            tried += 1;
            self.look_up(&[candidate]);
            self.is_in_use(candidate, own)
        };
        // The directory has an end, and so have the numbers in use.
        let (numbered, number) = suggester.numbered(new, room, from, usize::MAX, &mut in_use)?;
        self.next.insert(family, number + 1);
        Some(numbered)
    }
}

/// The entries whose suggested names have this fingerprint.
fn with_number(numbers: &[(u64, usize)], number: u64) -> impl Iterator<Item = usize> {
    let from = numbers.partition_point(|&(other, _)| other < number);
    numbers[from..].iter().take_while(move |&&(other, _)| other == number).map(|&(_, entry)| entry)
}

/// Adds a name that is in use.
fn occupy(exact: &mut HashSet<Box<[u8]>>, held: &mut [(Equivalence, HashMap<Box<str>, usize>)], text: &str) {
    for (same, keys) in held {
        *keys.entry(Box::from(&*same.key(text))).or_default() += 1;
    }
    exact.insert(Box::from(text.as_bytes()));
}
