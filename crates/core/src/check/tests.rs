use super::*;
use crate::policy::profile;

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
