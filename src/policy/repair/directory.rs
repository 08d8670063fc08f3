//! Proposals for all names of one directory, which must not get into each other's way.
//!
//! A proposal is free if no name of the directory and no earlier proposal is the same name, byte for byte or under an
//! equivalence that the policy looks for. Names that will move away still count: a plan may be applied in part, and in
//! any order.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::{Confidence, Legacy, Mender, Repair, room_for};
use crate::name::casefold::{self, Fold};
use crate::name::normalize::{Form, is_in_form};
use crate::name::reading::{Encoding, Evidence};
use crate::policy::collision::Equivalence;
use crate::policy::rule::RuleId;
use crate::policy::{Policy, Verdict};

/// So many names that are not UTF-8 make the guess at their encoding likely.
const ENOUGH_NAMES: usize = 3;

impl Policy {
    /// Proposals for `names`, the distinct names of one directory, each at the place of its name; `None` where
    /// [`Policy::repair`] has none.
    ///
    /// No proposal is the name of another entry or another proposal, nor equal to one under the policy's equivalences.
    /// Of names that become one by normalization or case, one keeps its name (one without violations, and in NFC,
    /// if there is such) and the others get a number. `encoding` is what names that are not UTF-8 are read in; without
    /// one it is guessed from all of them together.
    ///
    /// Takes time linear in the number of names.
    ///
    /// ```
    /// # use namegate::policy::{Policy, profile};
    /// let policy = Policy::of(&[profile::by_name("strict")?]);
    /// let names: [&[u8]; 4] = [b"na\xEFve.txt", b"caf\xE9", "café".as_bytes(), b"fa\xE7ade"];
    /// let repairs = policy.repair_all(&names, None);
    /// let repaired: Vec<_> = repairs.iter().map(|r| r.as_ref().map(|r| r.name.as_str())).collect();
    /// assert_eq!(repaired, [Some("naïve.txt"), Some("café_2"), None, Some("façade")]);
    /// # Ok::<(), namegate::policy::Unknown>(())
    /// ```
    pub fn repair_all(&self, names: &[&[u8]], encoding: Option<Encoding>) -> Vec<Option<Repair>> {
        let mender = Mender::new(self);
        let legacy = encoding.map_or_else(|| guessed(names), Legacy::Given);
        let mended = names
            .iter()
            .map(|name| if self.is_spotless(name) { None } else { mender.mend(name, legacy) })
            .collect();
        self.placed(&mender, names, mended)
    }

    /// The same, where the caller knows of some names what they stand for: at the place of each such a text and how sure it
    /// is. A text that is the name itself says nothing. Names that are not UTF-8 and stand for nothing are left as they are.
    ///
    /// ```
    /// # use namegate::policy::{Confidence, Policy, profile};
    /// let policy = Policy::of(&[profile::by_name("windows")?]);
    /// let names: [&[u8]; 3] = [b"a\xEF\x80\xA2b", b"a_b", b"con"];
    /// let meant = [Some(("a:b".to_owned(), Confidence::Certain)), None, None];
    /// let repairs = policy.repair_meant(&names, &meant);
    /// let repaired: Vec<_> = repairs.iter().map(|r| r.as_ref().map(|r| r.name.as_str())).collect();
    /// assert_eq!(repaired, [Some("a_b_2"), None, Some("con_")]);
    /// # Ok::<(), namegate::policy::Unknown>(())
    /// ```
    pub fn repair_meant(
        &self,
        names: &[&[u8]],
        meant: &[Option<(String, Confidence)>],
    ) -> Vec<Option<Repair>> {
        let mender = Mender::new(self);
        let mended = names.iter().zip(meant).map(|(name, meant)| match meant {
            Some((text, confidence)) => mender.mend_from(name, text, *confidence),
            None if self.is_spotless(name) => None,
            None => mender.mend_from(name, std::str::from_utf8(name).ok()?, Confidence::Certain),
        });
        self.placed(&mender, names, mended.collect())
    }

    /// Finds a free place for each of `mended`, which are proposed for `names`, and for those that have to make room.
    fn placed(
        &self,
        mender: &Mender<'_>,
        names: &[&[u8]],
        mended: Vec<Option<Repair>>,
    ) -> Vec<Option<Repair>> {
        let moving = self.moving(names, &mended);
        if mended.iter().all(Option::is_none) && !moving.contains(&true) {
            return mended;
        }
        let mut directory = Directory::new(self, names);
        let places = names.iter().zip(mended).zip(moving);
        places
            .map(|((name, mended), moves)| match mended {
                Some(repair) => directory.place(mender, name, repair),
                None if moves => {
                    // Only a name that is admissible can move without being mended.
                    let text = std::str::from_utf8(name).ok()?;
                    let repair = Repair { name: text.to_owned(), confidence: Confidence::Likely };
                    mender.is_accepted(text).then(|| directory.place(mender, name, repair)).flatten()
                }
                None => None,
            })
            .collect()
    }

    /// Whether there is nothing at all to say about `name`.
    fn is_spotless(&self, name: &[u8]) -> bool {
        // Only where names are converted can there be something to do about one without a violation.
        self.check(name).violations.is_empty()
            && (self.normalization.is_none() || matches!(self.verdict(name), Verdict::Accept(_)))
    }

    /// Which names have to make room for another one that becomes the same.
    fn moving(&self, names: &[&[u8]], mended: &[Option<Repair>]) -> Vec<bool> {
        let mut moving = vec![false; names.len()];
        let mut groups = self.collisions(names);
        groups.retain(|group| {
            matches!(group.violations[0].rule, RuleId::CollisionNormalization | RuleId::CollisionCase)
        });
        // What is one in every case is settled before what is one only without regard to case.
        groups.sort_by_key(|group| group.violations[0].rule);
        for group in groups {
            let staying: Vec<usize> = group.members.into_iter().filter(|&at| !moving[at]).collect();
            let is_odd =
                |at: usize| std::str::from_utf8(names[at]).is_ok_and(|name| !is_in_form(name, Form::Nfc));
            let keeper = staying.iter().copied().min_by_key(|&at| (mended[at].is_some(), is_odd(at), at));
            staying.into_iter().filter(|&at| Some(at) != keeper).for_each(|at| moving[at] = true);
        }
        moving
    }
}

fn guessed(names: &[&[u8]]) -> Legacy {
    let mut evidence = Evidence::default();
    names.iter().for_each(|name| evidence.add(name));
    let confidence = if evidence.names() < ENOUGH_NAMES { Confidence::Guess } else { Confidence::Likely };
    evidence.guess().map_or(Legacy::Unknown, |encoding| Legacy::Guessed(encoding, confidence))
}

/// The names in use.
struct Directory<'n> {
    exact: HashSet<Cow<'n, [u8]>>,
    /// By equivalence: how many names have a key.
    held: Vec<(Equivalence, HashMap<Cow<'n, str>, usize>)>,
    /// The next number to try for names that differ in nothing that matters. Without it a directory of names that all
    /// become the same would take time by the square of their number.
    next: HashMap<String, usize>,
    names: usize,
}

impl<'n> Directory<'n> {
    fn new(policy: &Policy, names: &[&'n [u8]]) -> Self {
        let mut kinds: Vec<Equivalence> = Vec::new();
        for same in policy.lines.iter().filter_map(|line| Equivalence::of(&line.test)) {
            if !kinds.contains(&same) {
                kinds.push(same);
            }
        }
        let mut held: Vec<_> = kinds.into_iter().map(|same| (same, HashMap::new())).collect();
        for text in names.iter().filter_map(|name| std::str::from_utf8(name).ok()) {
            for (same, keys) in &mut held {
                *keys.entry(same.key(text)).or_default() += 1;
            }
        }
        let exact = names.iter().map(|&name| Cow::Borrowed(name)).collect();
        Self { exact, held, next: HashMap::new(), names: names.len() }
    }

    /// Whether `candidate` is in use by another entry than `own`.
    fn is_taken(&self, candidate: &str, own: &[u8]) -> bool {
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

    /// Finds a free place for `repair`, which is proposed for `own`, and takes it.
    fn place(&mut self, mender: &Mender<'_>, own: &[u8], repair: Repair) -> Option<Repair> {
        let placed =
            if self.is_taken(&repair.name, own) { self.numbered(mender, own, repair)? } else { repair };
        for (same, keys) in &mut self.held {
            *keys.entry(Cow::Owned(same.key(&placed.name).into_owned())).or_default() += 1;
        }
        self.exact.insert(Cow::Owned(placed.name.clone().into_bytes()));
        Some(placed)
    }

    fn numbered(&mut self, mender: &Mender<'_>, own: &[u8], repair: Repair) -> Option<Repair> {
        let room = room_for(own);
        let first = mender.with_number(&repair.name, room, 2)?;
        let family = casefold::key(&first, Some(Form::Nfkc), Some(Fold::Full)).into_owned();
        let from = self.next.get(&family).copied().unwrap_or(2);
        // Every name and every proposal can hold one number of each equivalence, and one byte for byte.
        let attempts = (2 * self.names + 1).saturating_mul(self.held.len() + 1);
        let mut taken = |candidate: &str| self.is_taken(candidate, own);
        let (name, number) = mender.numbered(&repair.name, room, from, attempts, &mut taken)?;
        self.next.insert(family, number + 1);
        Some(Repair { name, confidence: repair.confidence.max(Confidence::Likely) })
    }
}
