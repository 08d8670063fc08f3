use std::collections::BTreeSet;

use namegate_core::policy::profile;
use proptest::prelude::*;

use super::*;
use crate::plan::check::check_new_name;
use crate::plan::order::order_names;
use crate::plan::tests::rename;

fn find<'p>(
    policy: Option<&'p Policy>,
    listing: Option<&BTreeSet<Vec<u8>>>,
    renames: &[Rename],
) -> SuspectRenames<'p> {
    let names = |take: &mut dyn FnMut(&[u8])| {
        listing.into_iter().flatten().for_each(|name| take(name));
        listing.is_some()
    };
    let each = |take: &mut dyn FnMut(&Rename)| {
        renames.iter().for_each(take);
        Ok(())
    };
    SuspectRenames::find(policy, &names, &each).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The comparison of all names finds the same conflicts, and a rename that is no suspect is in no chain and no cycle.
    #[test]
    fn only_suspects_depend_on_each_other(
        listing in prop::collection::btree_set(prop::collection::vec(prop::sample::select(&b"abAB\xE9"[..]), 1..3), 1..10),
        wanted in prop::collection::btree_map(prop::collection::vec(prop::sample::select(&b"abAB\xE9"[..]), 1..3), "[abcABC.]{1,2}", 0..10),
        is_windows: bool,
        is_readable in prop::bool::weighted(0.9),
    ) {
        let policy = is_windows.then(|| Policy::from_profiles(&[profile::by_name("windows").unwrap()]));
        let policy = policy.as_ref();
        let renames: Vec<Rename> = wanted
            .iter()
            .filter(|(old, new)| new.as_bytes() != *old)
            .enumerate()
            .map(|(at, (old, new))| rename(at as u64 + 1, b"/d", old, new))
            .collect();
        let suspects = find(policy, Some(&listing).filter(|_| is_readable), &renames);
        let conflict = |rename: &Rename| {
            let known = suspects.renames.iter().position(|other| other.id == rename.id);
            assert_eq!(known.is_some(), suspects.has(rename));
            known.map_or_else(|| check_new_name(policy, rename), |at| suspects.conflicts[at].clone())
        };
        if is_readable {
            let names: Vec<&[u8]> = listing.iter().map(Vec::as_slice).collect();
            let pending: Vec<&Rename> = renames.iter().filter(|rename| listing.contains(&rename.old)).collect();
            let mut expected = vec![None; pending.len()];
            for conflict in check_renames(policy, &names, &pending) {
                expected[conflict.at] = Some(conflict.why);
            }
            let found: Vec<Option<String>> = pending.iter().map(|rename| conflict(rename)).collect();
            prop_assert_eq!(found, expected);
        }
        let is_waited_for = |rename: &Rename| {
            listing.contains(&rename.old) && renames.iter().any(|other| other.new.as_bytes() == rename.old)
        };
        for rename in renames.iter().filter(|rename| is_waited_for(rename)) {
            prop_assert!(suspects.has(rename), "{:?}", rename);
        }
        let pairs: Vec<(&[u8], &[u8])> = renames.iter().map(|r| (&*r.old, r.new.as_bytes())).collect();
        for cycle in order_names(&pairs).into_iter().filter(|group| group.len() > 1) {
            let is_there = cycle.iter().all(|&at| !is_readable || listing.contains(pairs[at].0));
            prop_assert!(!is_there || cycle.iter().all(|&at| suspects.has(&renames[at])));
        }
    }
}

#[test]
fn names_that_change_only_for_the_target_are_no_suspects() {
    let policy = Policy::from_profiles(&[profile::by_name("macos").unwrap()]);
    let decomposed: Vec<String> = (0..1000).map(|number| format!("cafe\u{301} {number}")).collect();
    let listing = decomposed.iter().map(|name| name.clone().into_bytes()).collect();
    let renames: Vec<Rename> = decomposed
        .iter()
        .enumerate()
        .map(|(at, old)| rename(at as u64, b"/d", old.as_bytes(), &old.replace("e\u{301}", "\u{e9}")))
        .collect();
    assert_eq!(find(Some(&policy), Some(&listing), &renames).renames, []);
}
