//! Suggests names for all names in one directory.
//!
//! A suggested name is free if no name of the directory and no other suggested name equals it, byte for byte or under an
//! equivalence of the policy. Names that are to be renamed still count: a plan may be applied in part and in any order.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::{Confidence, EncodingHint, SuggestedName, Suggester, room_for};
use crate::name::casefold::{self, Fold};
use crate::name::normalize::{Form, is_in_form};
use crate::name::reading::{Encoding, Evidence};
use crate::policy::collision::Equivalence;
use crate::policy::rule::RuleId;
use crate::policy::{Policy, Verdict};

/// From this number of names that are not UTF-8 on, the guessed encoding counts as likely.
const ENOUGH_NAMES: usize = 3;

/// The names in one directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupants<'a, 'n> {
    /// Names that are compared with each other.
    pub(crate) names: &'a [&'n [u8]],
    /// How many of `names`, from the first, can be renamed.
    pub(crate) movable: usize,
    /// Names that are in use but not compared.
    pub(crate) left_out: &'a [&'n [u8]],
}

impl<'a, 'n> Occupants<'a, 'n> {
    fn all(names: &'a [&'n [u8]]) -> Self {
        Self { names, movable: names.len(), left_out: &[] }
    }

    fn movable(self) -> &'a [&'n [u8]] {
        &self.names[..self.movable]
    }

    /// Every name that is in use.
    fn in_use(self) -> impl Iterator<Item = &'n [u8]> {
        self.names.iter().chain(self.left_out).copied()
    }
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
        self.suggest_among(Occupants::all(names), encoding)
    }

    /// [`Policy::suggest_names`] for the names of `there` that can be renamed.
    pub(crate) fn suggest_among(
        &self,
        there: Occupants<'_, '_>,
        encoding: Option<Encoding>,
    ) -> Vec<Option<SuggestedName>> {
        let suggester = Suggester::new(self);
        let legacy = encoding.map_or_else(|| guessed(there), EncodingHint::Given);
        let suggest =
            |name: &&[u8]| if self.is_spotless(name) { None } else { suggester.suggest(name, legacy) };
        self.placed(&suggester, there, there.movable().iter().map(suggest).collect())
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
        self.suggest_for_meanings_among(Occupants::all(names), meant)
    }

    /// [`Policy::suggest_names_for_meanings`] for the names of `there` that can be renamed.
    pub(crate) fn suggest_for_meanings_among(
        &self,
        there: Occupants<'_, '_>,
        meant: &[Option<(String, Confidence)>],
    ) -> Vec<Option<SuggestedName>> {
        let suggester = Suggester::new(self);
        let suggested = there.movable().iter().zip(meant).map(|(name, meant)| match meant {
            Some((text, confidence)) => suggester.suggest_for_text(name, text, *confidence),
            None if self.is_spotless(name) => None,
            None => suggester.suggest_for_text(name, std::str::from_utf8(name).ok()?, Confidence::Certain),
        });
        self.placed(&suggester, there, suggested.collect())
    }

    /// Finds a free name for each of `suggested`, and for the names that must change because they collide.
    fn placed(
        &self,
        suggester: &Suggester<'_>,
        there: Occupants<'_, '_>,
        suggested: Vec<Option<SuggestedName>>,
    ) -> Vec<Option<SuggestedName>> {
        let moving = self.moving(there, &suggested);
        if suggested.iter().all(Option::is_none) && !moving.contains(&true) {
            return suggested;
        }
        let mut directory = NamesInUse::new(self, there);
        let mut placed = vec![None; there.movable];
        // Sorted by their bytes: which name gets a number must not depend on the order of the directory.
        let mut entries: Vec<_> = (0..).zip(there.movable()).zip(suggested).zip(moving).collect();
        entries.sort_unstable_by_key(|(((_, name), _), _)| **name);
        for (((at, name), suggested), moves) in entries {
            placed[at] = match suggested {
                Some(repair) => directory.place(suggester, name, repair),
                // Only a valid name can get a number without another repair.
                None => std::str::from_utf8(name)
                    .ok()
                    .filter(|text| moves && suggester.is_accepted(text))
                    .and_then(|text| {
                        let repair = SuggestedName { name: text.to_owned(), confidence: Confidence::Likely };
                        directory.place(suggester, name, repair)
                    }),
            };
        }
        placed
    }

    /// Whether `name` has no violation and is stored as it is.
    fn is_spotless(&self, name: &[u8]) -> bool {
        // A name without a violation changes only if the policy converts.
        self.check(name).violations.is_empty()
            && (self.normalization.is_none() || matches!(self.verdict(name), Verdict::Accept(_)))
    }

    /// The names that must change because they collide with a name that stays.
    fn moving(&self, there: Occupants<'_, '_>, suggested: &[Option<SuggestedName>]) -> Vec<bool> {
        let Occupants { names, movable, .. } = there;
        let mut moving = vec![false; movable];
        let mut groups = self.collisions(names);
        groups.retain(|group| {
            matches!(group.violations[0].rule, RuleId::CollisionNormalization | RuleId::CollisionCase)
        });
        // Collisions by normalization are resolved before collisions by case.
        groups.sort_by_key(|group| group.violations[0].rule);
        for group in groups {
            let staying: Vec<usize> =
                group.members.into_iter().filter(|&at| at >= movable || !moving[at]).collect();
            let is_odd =
                |at: usize| std::str::from_utf8(names[at]).is_ok_and(|name| !is_in_form(name, Form::Nfc));
            // A name that cannot be renamed keeps its name, whatever it is.
            let has_suggestion = |at: usize| suggested.get(at).is_some_and(Option::is_some);
            let keeper = staying
                .iter()
                .copied()
                .min_by_key(|&at| (at < movable, has_suggestion(at), is_odd(at), names[at]))
                .filter(|&at| at < movable);
            staying
                .into_iter()
                .filter(|&at| at < movable && Some(at) != keeper)
                .for_each(|at| moving[at] = true);
        }
        moving
    }
}

fn guessed(there: Occupants<'_, '_>) -> EncodingHint {
    let mut evidence = Evidence::default();
    there.in_use().for_each(|name| evidence.add(name));
    let confidence = if evidence.names() < ENOUGH_NAMES { Confidence::Guess } else { Confidence::Likely };
    evidence.guess().map_or(EncodingHint::Unknown, |encoding| EncodingHint::Guessed(encoding, confidence))
}

/// The names in use.
struct NamesInUse<'n> {
    exact: HashSet<Cow<'n, [u8]>>,
    /// For each equivalence: how many names have a key.
    held: Vec<(Equivalence, HashMap<Cow<'n, str>, usize>)>,
    /// The next number to try for each group of equal names. Without it the time for a directory of equal names would grow
    /// with the square of their number.
    next: HashMap<String, usize>,
    names: usize,
}

impl<'n> NamesInUse<'n> {
    fn new(policy: &Policy, there: Occupants<'_, 'n>) -> Self {
        let mut kinds: Vec<Equivalence> = Vec::new();
        for same in policy.rules.iter().filter_map(|rule| Equivalence::for_test(&rule.test)) {
            if !kinds.contains(&same) {
                kinds.push(same);
            }
        }
        let mut held: Vec<_> = kinds.into_iter().map(|same| (same, HashMap::new())).collect();
        for text in there.in_use().filter_map(|name| std::str::from_utf8(name).ok()) {
            for (same, keys) in &mut held {
                *keys.entry(same.key(text)).or_default() += 1;
            }
        }
        let exact = there.in_use().map(Cow::Borrowed).collect();
        Self { exact, held, next: HashMap::new(), names: there.in_use().count() }
    }

    /// Whether `candidate` is in use by another entry than `own`.
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

    /// Finds a free name for `own`, starting from `repair`, and marks it as used.
    fn place(
        &mut self,
        suggester: &Suggester<'_>,
        own: &[u8],
        repair: SuggestedName,
    ) -> Option<SuggestedName> {
        let placed =
            if self.is_in_use(&repair.name, own) { self.numbered(suggester, own, repair)? } else { repair };
        for (same, keys) in &mut self.held {
            *keys.entry(Cow::Owned(same.key(&placed.name).into_owned())).or_default() += 1;
        }
        self.exact.insert(Cow::Owned(placed.name.clone().into_bytes()));
        Some(placed)
    }

    fn numbered(
        &mut self,
        suggester: &Suggester<'_>,
        own: &[u8],
        repair: SuggestedName,
    ) -> Option<SuggestedName> {
        let room = room_for(own);
        let first = suggester.with_number(&repair.name, room, 2)?;
        let family = casefold::key(&first, Some(Form::Nfkc), Some(Fold::Full)).into_owned();
        let from = self.next.get(&family).copied().unwrap_or(2);
        // Every name and every suggested name can use one number of each equivalence, and one byte for byte.
        let attempts = (2 * self.names + 1).saturating_mul(self.held.len() + 1);
        let mut in_use = |candidate: &str| self.is_in_use(candidate, own);
        let (name, number) = suggester.numbered(&repair.name, room, from, attempts, &mut in_use)?;
        self.next.insert(family, number + 1);
        Some(SuggestedName { name, confidence: repair.confidence.max(Confidence::Likely) })
    }
}
