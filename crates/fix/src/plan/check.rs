//! Checks the renames of one directory as a whole: every new name is valid and free, byte for byte and on the target.
//!
//! An edited plan and a changed directory are checked the same way. Names that move away are free; a name that stays after all,
//! because its own rename has a conflict, is in the way of others again.

use std::collections::{HashMap, HashSet};

use namegate_core::name::display::display;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{Policy, Verdict};

use super::{Rename, new_name_objection};

/// The longest new name, in bytes, unless the old name is longer: `NAME_MAX` of limits.h.
const NAME_MAX: usize = 255;

/// How often names that stay after all are checked again. Only a crafted plan needs more than a few rounds.
const MAX_ROUNDS: usize = 32;

/// Why a rename is impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameConflict {
    /// The index among the checked renames.
    pub at: usize,
    /// A sentence, escaped for display.
    pub why: String,
}

/// Checks `renames` of one directory, whose names are `listing`. Renames without a conflict are possible in the order of
/// [`order_names`](super::order::order_names). Returns at most one conflict for each rename, by index.
///
/// Names that the target merges already, and that stay, are no conflict. Without a policy only the bytes of names are compared.
/// Takes time linear in the number of names.
///
/// ```
/// # use namegate_fix::plan::{Rename, check::check_renames};
/// # fn example(renames: &[&Rename]) {
/// for conflict in check_renames(None, &[b"a", b"b"], renames) {
///     println!("{}: {}", renames[conflict.at].new, conflict.why);
/// }
/// # }
/// ```
pub fn check_renames(policy: Option<&Policy>, listing: &[&[u8]], renames: &[&Rename]) -> Vec<RenameConflict> {
    let mut check = RenameCheck { policy, listing, renames, conflicts: vec![None; renames.len()] };
    check.check_names();
    check.check_duplicates();
    for round in 0.. {
        let found = check.check_taken() | check.check_merged();
        if !found {
            break;
        }
        if round == MAX_ROUNDS {
            (0..renames.len())
                .for_each(|at| check.add(at, || "it depends on renames that are impossible".to_owned()));
        }
    }
    let conflicts = check.conflicts.into_iter().enumerate();
    conflicts.filter_map(|(at, why)| Some(RenameConflict { at, why: why? })).collect()
}

/// The names that the target would merge with another one, with errors: the index of each, and that of the other one.
pub(crate) fn find_merged(policy: &Policy, names: &[&[u8]]) -> Vec<(usize, usize)> {
    let Some(mut fingerprints) = policy.fingerprints() else { return Vec::new() };
    names.iter().for_each(|name| fingerprints.add(name));
    let shared = fingerprints.shared();
    let mut merged = Vec::new();
    if shared.is_empty() {
        return merged;
    }
    for collision in shared.collisions(names) {
        let violation = collision.violations[0];
        if is_merge_rule(violation.rule) && violation.severity == Severity::Error {
            let other = |at: usize| collision.members.iter().copied().find(|&other| other != at);
            merged.extend(collision.members.iter().filter_map(|&at| Some((at, other(at)?))));
        }
    }
    merged
}

/// Reports whether the rule is about names that the target merges, and not only about similar names.
pub(crate) const fn is_merge_rule(rule: RuleId) -> bool {
    matches!(rule, RuleId::CollisionNormalization | RuleId::CollisionCase)
}

/// Checks a new name by itself; returns why it is impossible.
pub(crate) fn check_new_name(policy: Option<&Policy>, rename: &Rename) -> Option<String> {
    let (old, new) = (&rename.old, rename.new.as_bytes());
    if let Some(why) = new_name_objection(old, rename.entry.kind, new) {
        return Some(format!("the new name {why}"));
    }
    if new.contains(&b'/') {
        return new.split(|&byte| byte == b'/').find_map(|part| check_part(policy, old, part));
    }
    check_part(policy, old, new)
}

/// Checks a new name, or a name in a new path.
fn check_part(policy: Option<&Policy>, old: &[u8], new: &[u8]) -> Option<String> {
    if new.len() > NAME_MAX.max(old.len()) {
        return Some(format!("the new name has {} bytes; the limit is {NAME_MAX}", new.len()));
    }
    match policy.map(|policy| policy.verdict(new)) {
        Some(Verdict::Reject(violation)) => {
            let rule = violation.rule.rule();
            Some(format!("the new name breaks the rule {}: {}", rule.name, rule.summary))
        }
        _ => None,
    }
}

struct RenameCheck<'c> {
    policy: Option<&'c Policy>,
    listing: &'c [&'c [u8]],
    renames: &'c [&'c Rename],
    conflicts: Vec<Option<String>>,
}

impl<'c> RenameCheck<'c> {
    /// Keeps the first conflict of a rename.
    fn add(&mut self, at: usize, why: impl FnOnce() -> String) {
        self.conflicts[at].get_or_insert_with(why);
    }

    /// The renames without a conflict.
    fn possible(&self) -> impl Iterator<Item = (usize, &'c Rename)> {
        let renames = self.renames.iter().enumerate();
        renames.filter(|(at, _)| self.conflicts[*at].is_none()).map(|(at, rename)| (at, *rename))
    }

    /// Checks each new name by itself.
    fn check_names(&mut self) {
        for (at, rename) in self.renames.iter().enumerate() {
            if let Some(why) = check_new_name(self.policy, rename) {
                self.add(at, || why);
            }
        }
    }

    /// Finds two renames with the same old or new name.
    fn check_duplicates(&mut self) {
        for is_old in [false, true] {
            let mut first = HashMap::<&[u8], usize>::new();
            for (at, rename) in self.renames.iter().enumerate() {
                let name = if is_old { &*rename.old } else { rename.new.as_bytes() };
                if let Some(&other) = first.get(name) {
                    // By name, not by id: a draft has no ids yet.
                    let why = |other: usize| match is_old {
                        true => "another rename moves the same entry".to_owned(),
                        false => {
                            format!("{} would get the same new name", display(&self.renames[other].old))
                        }
                    };
                    self.add(at, || why(other));
                    self.add(other, || why(at));
                } else {
                    first.insert(name, at);
                }
            }
        }
    }

    /// Finds new names of entries that stay; reports whether there are any.
    fn check_taken(&mut self) -> bool {
        let mut by_new: HashMap<&[u8], usize> =
            self.possible().map(|(at, rename)| (rename.new.as_bytes(), at)).collect();
        let moving: HashSet<&[u8]> = self.possible().map(|(_, rename)| &*rename.old).collect();
        let mut staying: Vec<&[u8]> = self.listing.iter().copied().filter(|n| !moving.contains(n)).collect();
        let mut found = false;
        while let Some(name) = staying.pop() {
            let Some(at) = by_new.remove(name) else { continue };
            found = true;
            self.add(at, || format!("{} exists and stays", display(name)));
            // The entry that was to move stays too, and may be in the way itself.
            staying.push(&self.renames[at].old);
        }
        found
    }

    /// Finds new names that the target would merge with another name; reports whether there are any.
    fn check_merged(&mut self) -> bool {
        let Some(policy) = self.policy else { return false };
        let moving: HashSet<&[u8]> = self.possible().map(|(_, rename)| &*rename.old).collect();
        let staying = self.listing.iter().copied().filter(|name| !moving.contains(name));
        let mut names: Vec<(&[u8], Option<usize>)> = staying.map(|name| (name, None)).collect();
        names.extend(self.possible().map(|(at, rename)| (rename.new.as_bytes(), Some(at))));
        let only: Vec<&[u8]> = names.iter().map(|(name, _)| *name).collect();
        let mut found = false;
        for (member, other) in find_merged(policy, &only) {
            let Some(at) = names[member].1 else { continue };
            let other = display(only[other]);
            self.add(at, || format!("the target cannot tell the new name and {other} apart"));
            found = true;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use namegate_core::policy::profile;
    use proptest::prelude::*;

    use super::super::order::order_names;
    use super::super::tests::rename;
    use super::*;

    fn checked(profile: Option<&str>, listing: &[&str], renames: &[(&str, &str)]) -> Vec<(usize, String)> {
        let policy = profile.map(|name| Policy::from_profiles(&[profile::by_name(name).unwrap()]));
        let renames: Vec<Rename> =
            (1..).zip(renames).map(|(id, (old, new))| rename(id, b"/d", old.as_bytes(), new)).collect();
        let listing: Vec<&[u8]> = listing.iter().map(|name| name.as_bytes()).collect();
        let found = check_renames(policy.as_ref(), &listing, &renames.iter().collect::<Vec<_>>());
        found.into_iter().map(|conflict| (conflict.at, conflict.why)).collect()
    }

    type Case<'c> = (Option<&'c str>, &'c [&'c str], &'c [(&'c str, &'c str)], &'c [(usize, &'c str)]);

    #[test]
    fn only_impossible_renames_have_conflicts() {
        let long = "é".repeat(128);
        let cases: &[Case<'_>] = &[
            (None, &["a"], &[("a", "b")], &[]),
            (None, &["a", "b"], &[("a", "b")], &[(0, "b exists and stays")]),
            (None, &["a", "b"], &[("a", "b"), ("b", "c")], &[]),
            (None, &["a", "b"], &[("a", "b"), ("b", "a")], &[]),
            // An entry that stays is in the way of all that wait for its name.
            (
                None,
                &["a", "b", "c", "d"],
                &[("a", "b"), ("b", "c"), ("c", "d")],
                &[(0, "b exists"), (1, "c exists"), (2, "d exists")],
            ),
            (
                None,
                &["a", "b"],
                &[("a", "x"), ("b", "x")],
                &[(0, "b would get the same"), (1, "a would get the same")],
            ),
            (None, &["a"], &[("a", "x"), ("a", "y")], &[(0, "another rename moves"), (1, "moves the same")]),
            (None, &["a"], &[("a", "x/y")], &[(0, "contains a `/`")]),
            (None, &["a"], &[("a", &long)], &[(0, "256 bytes")]),
            (None, &["a"], &[("a", "\u{1}")], &[]),
            (Some("strict"), &["a"], &[("a", "\u{1}")], &[(0, "c0-control")]),
            (Some("windows"), &["a"], &[("a", "nul")], &[(0, "reserved-name")]),
            (Some("windows"), &["a", "README"], &[("a", "readme")], &[(0, "and README apart")]),
            (Some("windows"), &["a", "README"], &[("a", "readme"), ("README", "b")], &[]),
            // Names that are merged already are no conflict.
            (Some("windows"), &["a", "README", "readme"], &[("a", "b")], &[]),
            (Some("macos"), &["a", "caf\u{e9}"], &[("a", "cafe\u{301}")], &[(0, "apart")]),
            (Some("windows"), &["a"], &[("a", "A")], &[]),
            // The conflict of one rename is the cause of another.
            (
                Some("windows"),
                &["a", "B", "x"],
                &[("a", "nul"), ("x", "A")],
                &[(0, "reserved-name"), (1, "and a apart")],
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
            (0..COUNT).map(|n| rename(n as u64, b"/d", names[n].as_bytes(), &names[n + 1])).collect();
        let listing: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let policy = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
        let found = check_renames(Some(&policy), &listing, &renames.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), COUNT);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Renames that pass the check lose no entry and merge none, whatever the plan says.
        #[test]
        fn renames_without_conflict_give_every_entry_a_name_of_its_own(
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
                .map(|(id, (old, new))| rename(id as u64, b"/d", old.as_bytes(), new))
                .collect();
            let conflicts = check_renames(policy.as_ref(), &names, &renames.iter().collect::<Vec<_>>());
            let kept: Vec<&Rename> = renames
                .iter()
                .enumerate()
                .filter(|(at, _)| conflicts.iter().all(|o| o.at != *at))
                .map(|(_, rename)| rename)
                .collect();
            let pairs: Vec<(&[u8], &[u8])> = kept.iter().map(|r| (&*r.old, r.new.as_bytes())).collect();
            let mut after: HashMap<Vec<u8>, &[u8]> = names.iter().map(|name| (name.to_vec(), *name)).collect();
            for group in order_names(&pairs) {
                // The last of a cycle moves first, when the first is out of the way.
                let entries: Vec<&[u8]> = group.iter().map(|&at| after.remove(pairs[at].0).unwrap()).collect();
                prop_assert!(group.len() == 1 || group.iter().zip(group.iter().cycle().skip(1)).all(|(&at, &next)| pairs[at].1 == pairs[next].0));
                for (&at, entry) in group.iter().zip(entries) {
                    prop_assert!(after.insert(pairs[at].1.to_vec(), entry).is_none());
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
