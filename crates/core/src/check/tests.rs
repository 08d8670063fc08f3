use super::*;
use crate::name::normalize::Form;
use crate::policy::{Normalization, OnMismatch, profile};

fn arena(names: &[&[u8]]) -> Arena {
    let mut arena = Arena::new();
    names.iter().for_each(|name| assert!(arena.push(name).is_ok()));
    arena
}

fn windows() -> Policy {
    Policy::from_profiles(&[profile::by_name("windows").unwrap()])
}

fn has_one_of(policy: &Policy, name: &[u8], numbers: &[u64]) -> bool {
    let mut has = false;
    if let Ok(name) = std::str::from_utf8(name) {
        policy.each_number(name, |number| has |= numbers.contains(&number));
    }
    has
}

/// The suggested names of the directory.
fn suggested(policy: &Policy, directory: &DirectoryNames<'_>) -> Vec<Option<String>> {
    let check = policy.check_directory(directory).unwrap();
    let mut suggested = check.suggested_names(policy, None);
    (0..check.checked).map(|at| Some(suggested.remove(&at)?.name)).collect()
}

#[test]
fn a_sibling_collides_or_is_left_out_and_no_suggested_name_is_its_own() {
    let (policy, names, other) = (windows(), arena(&[b"Readme.md", b"x"]), arena(&[b"README.md"]));
    let directory = DirectoryNames::new(&names);
    assert!(policy.check_directory(&directory).is_none());
    assert!(policy.check_directory(&directory.with_siblings(Siblings::Excluded(&other))).is_none());
    assert!(policy.check_directory(&directory.with_siblings(Siblings::Unknown)).is_none());
    let compared = directory.with_siblings(Siblings::Compared(&other));
    assert_eq!(policy.check_directory(&compared).unwrap().collisions[0].members, [0, 2]);
    assert_eq!(
        suggested(&policy, &compared),
        [Some("Readme_2.md".into()), None],
        "the sibling keeps its name, because it is not checked"
    );

    let names = arena(&[b"Read:me.md"]);
    for siblings in [arena(&[b"Read_me.md"]), arena(&[b"READ_ME.MD"])] {
        for siblings in [Siblings::Compared(&siblings), Siblings::Excluded(&siblings)] {
            let directory = DirectoryNames::new(&names).with_siblings(siblings);
            assert_eq!(suggested(&policy, &directory), [Some("Read_me_2.md".into())], "{siblings:?}");
        }
    }
    assert_eq!(suggested(&policy, &DirectoryNames::new(&names).with_siblings(Siblings::Unknown)), [None]);
}

#[test]
fn siblings_have_no_violations_of_their_own() {
    let (policy, names) = (windows(), arena(&[b"good"]));
    let others = arena(&[b"a:b", b"Makefile", b"makefile", b"caf\xE9"]);
    for siblings in [Siblings::Compared(&others), Siblings::Excluded(&others)] {
        assert!(
            policy.check_directory(&DirectoryNames::new(&names).with_siblings(siblings)).is_none(),
            "{siblings:?}"
        );
    }
}

#[test]
fn paths_are_counted_from_the_prefix_on() {
    let policy = Policy::from_profiles(&[profile::by_name("s3").unwrap()]);
    let (names, path) = (arena(&[b"12345", b"1"]), "d/".repeat(507));
    let directory =
        DirectoryNames { path: path.trim_end_matches('/').as_bytes(), ..DirectoryNames::new(&names) };
    assert!(policy.check_directory(&directory).is_none(), "1,019 bytes");
    let check = policy.check_directory(&DirectoryNames { prefix: b"homes", ..directory }).unwrap();
    assert_eq!(check.path_violations.keys().collect::<Vec<_>>(), [&0], "1,024 bytes are allowed");
    assert_eq!(check.path_on_target(0), format!("homes/{path}12345").into_bytes());
    assert_eq!(check.path_violations[&0][0].span.start, 1024);
}

#[test]
fn a_directory_in_parts_has_the_violations_and_suggestions_of_the_whole() {
    let cases: [&[&[u8]]; 10] = [
        // A number leads to the suggested name of a later name, or of an earlier one.
        &[b"a_b", b"a:b", b"a:b_2", b"x"],
        &[b"A_B", b"a*b_2", b"a:b", b"x:"],
        &[b"A_B", b"A*B_2", b"a:b", b"a|b_3", b"a<b"],
        &[b"a", b"b", b"c"],
        &[b"a", b"b:", b"c"],
        &[b"a", b"b", b"A"],
        &[b"a", b"caf\xE9"],
        &["e\u{301}".as_bytes(), "é".as_bytes(), b"x", b"y"],
        &[b"a_b", b"x", b"a:b", b"A?B", b"a_b_2", b"A_B_3", b"a.", b"a"],
        &[b"na\xEFve", b"na\xC3\xAFve", b"NAIVE", b"fa\xE7ade", b"caf\xE9"],
    ];
    for (names, profile) in cases.iter().flat_map(|names| profile::ALL.iter().map(move |p| (names, p))) {
        let policy = Policy::from_profiles(&[profile]);
        let arenas: Vec<Arena> = names.iter().map(|name| arena(&[name])).collect();
        let parts: Vec<DirectoryNames<'_>> = arenas.iter().map(DirectoryNames::new).collect();
        let mut check = policy.check_in_parts();
        parts.iter().for_each(|part| check.add(part));
        let whole = arena(names);
        let expected = policy.check_directory(&DirectoryNames::new(&whole));
        let mut kept = Arena::new();
        let mut suspects = check.suspects();
        if let Some(suspects) = &suspects {
            parts.iter().for_each(|part| suspects.add_to(&mut kept, part));
        }
        assert_eq!(kept.is_empty(), suspects.is_none(), "{names:?}: not read again for nothing");
        let used = suspects.as_mut().and_then(SuspectNames::take_used);
        let found = policy.check_directory(&DirectoryNames::new(&kept));
        let suggested = |check: Option<&DirectoryCheck<'_>>,
                         used: FingerprintIndex<'_>|
         -> BTreeMap<Vec<u8>, (Vec<Violation>, Option<SuggestedName>)> {
            let Some(check) = check else { return BTreeMap::new() };
            let by_lookup = matches!(used, FingerprintIndex::ByLookup);
            let in_use: &mut NamesInUse<'_> = &mut |numbers, take| {
                assert!(!by_lookup || !numbers.is_empty(), "never all names");
                names
                    .iter()
                    .filter(|name| !by_lookup || has_one_of(&policy, name, numbers))
                    .for_each(|name| take(name));
            };
            let mut suggested = check.suggested_names_among(&policy, None, in_use, used);
            let mut all = check.violations.clone();
            for collision in &check.collisions {
                for (at, violation) in collision.members.iter().zip(&collision.violations) {
                    all.entry(*at).or_default().push(*violation);
                }
            }
            all.into_iter().map(|(at, v)| (check.names[at].to_vec(), (v, suggested.remove(&at)))).collect()
        };
        let all = suggested(expected.as_ref(), FingerprintIndex::Unknown);
        assert_eq!(suggested(found.as_ref(), used.as_ref().into()), all, "{names:?} {}", profile.name);
        assert_eq!(
            suggested(found.as_ref(), FingerprintIndex::ByLookup),
            all,
            "{names:?} {}: only names with the fingerprints that are asked for",
            profile.name
        );
    }
}

#[test]
fn the_same_names_get_the_same_suggestions_in_any_order() {
    let (policy, mut names) =
        (windows(), vec![&b"trailing."[..], b"trailing ", b"A:", b"a?", b"x", b"X", b"x_2"]);
    let mut answers = std::collections::BTreeSet::new();
    for _ in 0..names.len() {
        names.rotate_left(1);
        let arena = arena(&names);
        let suggested = suggested(&policy, &DirectoryNames::new(&arena));
        answers.insert(
            names.iter().zip(suggested).map(|(name, new)| (name.to_vec(), new)).collect::<BTreeMap<_, _>>(),
        );
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[test]
fn names_that_contain_a_nul_are_checked_behind_those_of_the_arena() {
    let policy = windows();
    for names in [arena(&[]), arena(&[b"good"])] {
        let holding_nul = [b"a\0b".to_vec()];
        let directory = DirectoryNames { holding_nul: &holding_nul, ..DirectoryNames::new(&names) };
        let check = policy.check_directory(&directory).expect("a NUL is a violation");
        let at = check.checked - 1;
        assert_eq!(check.names[at], b"a\0b");
        assert_eq!(check.violations.keys().collect::<Vec<_>>(), [&at]);
        assert!(check.violations[&at].iter().any(|violation| violation.rule == RuleId::NulSmuggling));

        let mut parts = policy.check_in_parts();
        parts.add(&directory);
        let suspects = parts.suspects().expect("a NUL is a violation");
        let mut found = Vec::new();
        suspects.each_of(&directory, &|_| false, &mut |at, name| found.push((at, name.to_vec())));
        assert_eq!(found, [(at, b"a\0b".to_vec())]);
    }
}

#[test]
fn checked_names_collide_with_each_other_whatever_their_indexes() {
    let (policy, names, others) = (windows(), arena(&[b"a", b"x", b"A", b"X", b"y"]), arena(&[b"b", b"B"]));
    for siblings in [Siblings::None, Siblings::Compared(&others)] {
        let check = policy.check_directory(&DirectoryNames::new(&names).with_siblings(siblings)).unwrap();
        let members: Vec<_> = check.collisions.iter().map(|collision| collision.members.clone()).collect();
        assert_eq!(members, [[0, 2], [1, 3]], "the siblings collide with no checked name: {siblings:?}");
    }
}

#[test]
fn a_path_may_end_exactly_at_the_limit_with_and_without_each_part() {
    let policy = Policy::from_profiles(&[profile::by_name("s3").unwrap()]);
    let names = arena(&[b"12345"]);
    let parts = |prefix: usize, path: usize| ("p".repeat(prefix), "d".repeat(path));
    for ((prefix, path), is_long) in [
        (parts(1018, 0), false),
        (parts(1019, 0), true),
        (parts(0, 1018), false),
        (parts(0, 1019), true),
        (parts(9, 1008), false),
        (parts(9, 1009), true),
    ] {
        let (prefix, path) = (prefix.as_bytes(), path.as_bytes());
        let directory = DirectoryNames { prefix, path, ..DirectoryNames::new(&names) };
        assert_eq!(policy.check_directory(&directory).is_some(), is_long, "{}, {}", prefix.len(), path.len());
        let mut check = policy.check_in_parts();
        check.add(&directory);
        let suspects = check.into_suspects();
        let mut found = Arena::new();
        suspects.add_to(&mut found, &directory);
        assert!(!is_long || !found.is_empty(), "{}, {}", prefix.len(), path.len());
    }
}

#[test]
fn the_root_of_a_library_lies_as_deep_as_the_policy_says() {
    let sharepoint = profile::by_name("sharepoint").unwrap();
    let names = arena(&[b"forms"]);
    for (depth, path, is_root) in [
        (0, "", true),
        (0, "a", false),
        (1, "", false),
        (1, "a", true),
        (1, "/a/", true),
        (1, "a/b", false),
        (2, "a//b", true),
    ] {
        let policy = Policy::builder().profiles(&[sharepoint]).library_depth(Some(depth)).build().unwrap();
        let directory = DirectoryNames { path: path.as_bytes(), ..DirectoryNames::new(&names) };
        assert_eq!(policy.check_directory(&directory).is_some(), is_root, "{depth} above {path:?}");
    }
}

#[test]
fn suspects_without_regard_to_others_have_violations_of_their_own_or_are_stored_otherwise() {
    let names = arena(&[b"good", b"a:b", b"A", b"a", "e\u{301}".as_bytes(), "é".as_bytes(), b"caf\xE9"]);
    let nfc = Normalization { form: Form::Nfc, on_mismatch: OnMismatch::Convert };
    let converting = Policy::builder().normalization(nfc).build().unwrap();
    let expected: [(&Policy, &[&[u8]]); 2] =
        [(&windows(), &[b"a:b", b"caf\xE9"]), (&converting, &["e\u{301}".as_bytes(), b"caf\xE9"])];
    for (policy, expected) in expected {
        let mut found = Arena::new();
        policy.add_suspects(&mut found, &DirectoryNames::new(&names));
        assert_eq!(found.iter().map(|(_, name)| name).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn fingerprints_of_a_directory_in_parts_are_complete_unless_names_were_excluded() {
    let (policy, names, others) = (windows(), arena(&[b"a:b"]), arena(&[b"c"]));
    let plain = DirectoryNames::new(&names);
    let excluding = plain.with_siblings(Siblings::Excluded(&others));
    for (parts, are_complete) in
        [([plain, plain], true), ([plain, excluding], false), ([excluding, plain], false)]
    {
        let mut check = policy.check_in_parts();
        parts.iter().for_each(|part| check.add(part));
        assert_eq!(check.into_suspects().take_used().is_some(), are_complete);
    }
}
