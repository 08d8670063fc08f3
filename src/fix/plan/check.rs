//! Whether the renames of one directory can be done as a whole: every new name admissible and free, byte for byte and for the
//! target.
//!
//! A plan that was edited, and a directory that has changed since, are judged the same way. Names that move away are free;
//! where one of them stays after all, because its own rename is objected to, it is in the way of others again.

use std::collections::{HashMap, HashSet};

use super::{Rename, name_objection};
use crate::name::display::display;
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{Policy, Verdict};

/// How long a new name may be, in bytes, unless the old one is longer: `NAME_MAX` of limits.h.
const NAME_MAX: usize = 255;

/// How often what stays after all is looked at again. More rounds than a few are a plan that was made to need them.
const MAX_ROUNDS: usize = 32;

/// Why a rename cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// Its place among the renames that were checked.
    pub at: usize,
    /// A sentence about it, escaped for display.
    pub why: String,
}

/// What is wrong with `renames`, those of one directory, whose names are `listing`; the others can be done, in the order
/// that [`steps`](super::order::steps) gives them. At most one objection for each, by their places.
///
/// Names that stay merged by the target as they are now are nobody's fault. Without a policy only the bytes of names are
/// compared. Takes time linear in the number of names.
///
/// ```
/// # use namegate::fix::plan::{Plan, check::check};
/// # fn example(plan: &Plan) {
/// let renames: Vec<_> = plan.renames.iter().collect();
/// for objection in check(None, &[b"a", b"b"], &renames) {
///     println!("{}: {}", renames[objection.at].new, objection.why);
/// }
/// # }
/// ```
pub fn check(policy: Option<&Policy>, listing: &[&[u8]], renames: &[&Rename]) -> Vec<Objection> {
    let mut check = Check { policy, listing, renames, objections: vec![None; renames.len()] };
    check.names();
    check.twins();
    for round in 0.. {
        let found = check.in_the_way() | check.merged();
        if !found {
            break;
        }
        if round == MAX_ROUNDS {
            (0..renames.len()).for_each(|at| check.object(at, || "it waits for others that stay".to_owned()));
        }
    }
    let objections = check.objections.into_iter().enumerate();
    objections.filter_map(|(at, why)| Some(Objection { at, why: why? })).collect()
}

struct Check<'c> {
    policy: Option<&'c Policy>,
    listing: &'c [&'c [u8]],
    renames: &'c [&'c Rename],
    objections: Vec<Option<String>>,
}

impl<'c> Check<'c> {
    /// The first objection counts.
    fn object(&mut self, at: usize, why: impl FnOnce() -> String) {
        self.objections[at].get_or_insert_with(why);
    }

    /// The renames without an objection.
    fn standing(&self) -> impl Iterator<Item = (usize, &'c Rename)> {
        let renames = self.renames.iter().enumerate();
        renames.filter(|(at, _)| self.objections[*at].is_none()).map(|(at, rename)| (at, *rename))
    }

    /// What is wrong with a new name by itself.
    fn names(&mut self) {
        for (at, rename) in self.renames.iter().enumerate() {
            let (old, new) = (&rename.old, rename.new.as_bytes());
            let why = if let Some(why) = name_objection(new) {
                format!("the new name {why}")
            } else if new.len() > NAME_MAX.max(old.len()) {
                format!("the new name has {} bytes; {NAME_MAX} can be stored", new.len())
            } else if let Some(Verdict::Reject(violation)) = self.policy.map(|policy| policy.verdict(new)) {
                let rule = violation.rule.rule();
                format!("the new name breaks the rule {}: {}", rule.name, rule.summary)
            } else {
                continue;
            };
            self.object(at, || why);
        }
    }

    /// What is to get the same name twice, or to leave it twice.
    fn twins(&mut self) {
        for is_old in [false, true] {
            let mut first = HashMap::<&[u8], usize>::new();
            for (at, rename) in self.renames.iter().enumerate() {
                let name = if is_old { &*rename.old } else { rename.new.as_bytes() };
                if let Some(&other) = first.get(name) {
                    let [one, two] = [other, at].map(|at| self.renames[at].id);
                    let what = if is_old { "move the same entry" } else { "give the same name" };
                    let why = || format!("the renames {one} and {two} {what}: {}", display(name));
                    self.object(at, why);
                    self.object(other, why);
                } else {
                    first.insert(name, at);
                }
            }
        }
    }

    /// Objects to new names that an entry has which stays; whether there are any.
    fn in_the_way(&mut self) -> bool {
        let mut by_new: HashMap<&[u8], usize> =
            self.standing().map(|(at, rename)| (rename.new.as_bytes(), at)).collect();
        let moving: HashSet<&[u8]> = self.standing().map(|(_, rename)| &*rename.old).collect();
        let mut staying: Vec<&[u8]> = self.listing.iter().copied().filter(|n| !moving.contains(n)).collect();
        let mut found = false;
        while let Some(name) = staying.pop() {
            let Some(at) = by_new.remove(name) else { continue };
            found = true;
            self.object(at, || format!("{} is there and stays", display(name)));
            // What was to move stays too, and may be in the way itself.
            staying.push(&self.renames[at].old);
        }
        found
    }

    /// Objects to new names that the target would merge with another; whether there are any.
    fn merged(&mut self) -> bool {
        let Some(policy) = self.policy else { return false };
        let Some(mut fingerprints) = policy.fingerprints() else { return false };
        let moving: HashSet<&[u8]> = self.standing().map(|(_, rename)| &*rename.old).collect();
        let staying = self.listing.iter().copied().filter(|name| !moving.contains(name));
        let mut names: Vec<(&[u8], Option<usize>)> = staying.map(|name| (name, None)).collect();
        names.extend(self.standing().map(|(at, rename)| (rename.new.as_bytes(), Some(at))));
        let only: Vec<&[u8]> = names.iter().map(|(name, _)| *name).collect();
        only.iter().for_each(|name| fingerprints.add(name));
        let shared = fingerprints.shared();
        if shared.is_empty() {
            return false;
        }
        let mut found = false;
        for collision in shared.collisions(&only) {
            let violation = collision.violations[0];
            let merges = matches!(violation.rule, RuleId::CollisionNormalization | RuleId::CollisionCase);
            if !merges || violation.severity != Severity::Error {
                continue;
            }
            for &member in &collision.members {
                let Some(at) = names[member].1 else { continue };
                let other = collision.members.iter().find(|&&other| other != member);
                let other = other.map_or(Default::default(), |&other| display(only[other]).to_string());
                self.object(at, || format!("the target takes the new name and {other} for one"));
                found = true;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::{Ctime, Directory, Identity, Kind, order::steps};
    use super::*;
    use crate::policy::{Confidence, profile};

    fn rename(id: usize, old: &[u8], new: &str) -> Rename {
        let identity = Identity { inode: 1, ctime: Ctime { seconds: 0, nanoseconds: 0 }, kind: Kind::File };
        Rename {
            id: id as u64,
            directory: Arc::new(Directory { path: b"/d".to_vec(), inode: 1, handle: None }),
            old: old.to_vec(),
            new: new.into(),
            identity,
            reasons: Vec::new(),
            confidence: Confidence::Likely,
            reading: String::new(),
            evidence: None,
            alternatives: Vec::new(),
        }
    }

    fn checked(profile: Option<&str>, listing: &[&str], renames: &[(&str, &str)]) -> Vec<(usize, String)> {
        let policy = profile.map(|name| Policy::from_profiles(&[profile::by_name(name).unwrap()]));
        let renames: Vec<Rename> =
            (1..).zip(renames).map(|(id, (old, new))| rename(id, old.as_bytes(), new)).collect();
        let listing: Vec<&[u8]> = listing.iter().map(|name| name.as_bytes()).collect();
        let found = check(policy.as_ref(), &listing, &renames.iter().collect::<Vec<_>>());
        found.into_iter().map(|objection| (objection.at, objection.why)).collect()
    }

    type Case<'c> = (Option<&'c str>, &'c [&'c str], &'c [(&'c str, &'c str)], &'c [(usize, &'c str)]);

    #[test]
    fn what_cannot_be_done_is_objected_to_and_nothing_else() {
        let long = "é".repeat(128);
        let cases: &[Case<'_>] = &[
            (None, &["a"], &[("a", "b")], &[]),
            (None, &["a", "b"], &[("a", "b")], &[(0, "b is there and stays")]),
            (None, &["a", "b"], &[("a", "b"), ("b", "c")], &[]),
            (None, &["a", "b"], &[("a", "b"), ("b", "a")], &[]),
            // What stays after all is in the way of all that wait for it.
            (
                None,
                &["a", "b", "c", "d"],
                &[("a", "b"), ("b", "c"), ("c", "d")],
                &[(0, "b is there"), (1, "c is there"), (2, "d is there")],
            ),
            (
                None,
                &["a", "b"],
                &[("a", "x"), ("b", "x")],
                &[(0, "1 and 2 give the same"), (1, "1 and 2 give")],
            ),
            (None, &["a"], &[("a", "x"), ("a", "y")], &[(0, "1 and 2 move the same"), (1, "move the same")]),
            (None, &["a"], &[("a", "x/y")], &[(0, "holds a `/`")]),
            (None, &["a"], &[("a", &long)], &[(0, "256 bytes")]),
            (None, &["a"], &[("a", "\u{1}")], &[]),
            (Some("strict"), &["a"], &[("a", "\u{1}")], &[(0, "c0-control")]),
            (Some("windows"), &["a"], &[("a", "nul")], &[(0, "reserved-name")]),
            (Some("windows"), &["a", "README"], &[("a", "readme")], &[(0, "and README for one")]),
            (Some("windows"), &["a", "README"], &[("a", "readme"), ("README", "b")], &[]),
            // Those that are merged already stay as they are, and trouble nobody.
            (Some("windows"), &["a", "README", "readme"], &[("a", "b")], &[]),
            (Some("macos"), &["a", "caf\u{e9}"], &[("a", "cafe\u{301}")], &[(0, "for one")]),
            (Some("windows"), &["a"], &[("a", "A")], &[]),
            // The objection to one puts another in the way of it.
            (
                Some("windows"),
                &["a", "B", "x"],
                &[("a", "nul"), ("x", "A")],
                &[(0, "reserved-name"), (1, "and a for one")],
            ),
        ];
        for (profile, listing, renames, expected) in cases {
            let found = checked(*profile, listing, renames);
            let is_met = found.len() == expected.len()
                && found.iter().zip(*expected).all(|(f, e)| f.0 == e.0 && f.1.contains(e.1));
            assert!(is_met, "{listing:?} {renames:?}: {found:?}, not {expected:?}");
        }
    }

    #[test]
    fn a_long_chain_that_cannot_move_takes_little_time() {
        const COUNT: usize = 50_000;
        let names: Vec<String> = (0..=COUNT).map(|n| format!("n{n}")).collect();
        let renames: Vec<Rename> =
            (0..COUNT).map(|n| rename(n, names[n].as_bytes(), &names[n + 1])).collect();
        let listing: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let policy = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
        let found = check(Some(&policy), &listing, &renames.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), COUNT);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// What passes the check loses no entry and merges none, whatever the plan says.
        #[test]
        fn what_is_not_objected_to_moves_every_entry_to_a_name_of_its_own(
            listing in prop::collection::btree_set("[a-dA-D]{1,2}", 1..12),
            wanted in prop::collection::vec(("[a-dA-D]{1,2}", "[a-dA-D.]{1,2}"), 0..12),
            is_windows: bool,
        ) {
            let policy = is_windows.then(|| Policy::from_profiles(&[profile::by_name("windows").unwrap()]));
            let names: Vec<&[u8]> = listing.iter().map(String::as_bytes).collect();
            let renames: Vec<Rename> = wanted
                .iter()
                .filter(|(old, new)| listing.contains(old) && old != new)
                .enumerate()
                .map(|(id, (old, new))| rename(id, old.as_bytes(), new))
                .collect();
            let objections = check(policy.as_ref(), &names, &renames.iter().collect::<Vec<_>>());
            let kept: Vec<&Rename> = renames
                .iter()
                .enumerate()
                .filter(|(at, _)| objections.iter().all(|o| o.at != *at))
                .map(|(_, rename)| rename)
                .collect();
            let pairs: Vec<(&[u8], &[u8])> = kept.iter().map(|r| (&*r.old, r.new.as_bytes())).collect();
            let mut after: HashMap<Vec<u8>, &[u8]> = names.iter().map(|name| (name.to_vec(), *name)).collect();
            let mut aside = HashMap::new();
            for step in steps(&pairs) {
                use super::super::Step;
                match step {
                    Step::Rename(at) => {
                        let entry = after.remove(pairs[at].0).unwrap();
                        prop_assert!(after.insert(pairs[at].1.to_vec(), entry).is_none());
                    }
                    Step::Exchange(one, two) => {
                        let (a, b) = (after.remove(pairs[one].0).unwrap(), after.remove(pairs[two].0).unwrap());
                        prop_assert!(after.insert(pairs[one].1.to_vec(), a).is_none());
                        prop_assert!(after.insert(pairs[two].1.to_vec(), b).is_none());
                    }
                    Step::Aside(at) => {
                        aside.insert(at, after.remove(pairs[at].0).unwrap());
                    }
                    Step::Settle(at) => {
                        let entry = aside.remove(&at).unwrap();
                        prop_assert!(after.insert(pairs[at].1.to_vec(), entry).is_none());
                    }
                }
            }
            prop_assert_eq!(after.len(), names.len());
            for (new, old) in &after {
                let planned = kept.iter().find(|rename| rename.old == *old);
                prop_assert_eq!(&**new, planned.map_or(*old, |rename| rename.new.as_bytes()));
            }
            if let Some(policy) = policy {
                let before: HashSet<&[u8]> = names.iter().copied().collect();
                let all: Vec<&[u8]> = after.keys().map(Vec::as_slice).collect();
                for collision in policy.collisions(&all) {
                    let is_old = |at: &usize| after[all[*at]] == all[*at] && before.contains(all[*at]);
                    prop_assert!(collision.members.iter().all(is_old), "{:?}", collision);
                }
            }
        }
    }
}
