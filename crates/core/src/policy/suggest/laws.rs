//! Properties of every suggested name, tried on random names that break as many rules as possible.

use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::EncodingHint;
use super::tests::{desktop, optical, policies, repaired, suspicious, thorough};
use crate::name::casefold;
use crate::name::confusable::skeleton;
use crate::policy::profile::Test;
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{CheckOutcome, Policy, Verdict};

/// Text and bytes that trip over as many rules as possible.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"a",
        b"A",
        b"x.txt",
        b".",
        b" ",
        b"~",
        b"-",
        b"_",
        b"_2",
        b"?",
        b"/",
        b"\0",
        b"\n",
        b"\x7F",
        b"\\",
        b":",
        b"CON",
        b"nul",
        b"_vti_",
        b".part",
        b"~$",
        b"desktop.ini",
        b".git",
        b"git~1",
        b"\xE9",
        b"\xC0\xAF",
        b"\xC1\xA1",
        b"\xED\xA0\x80",
        b"\xED\xA0\xBD\xED\xB8\x80",
        b"\xFF",
        b"\x93\xFA",
        b"\xF8\x88\x80\x80\x80",
        "é".as_bytes(),
        "e\u{301}".as_bytes(),
        "\u{301}".as_bytes(),
        "Ã©".as_bytes(),
        "\u{A0}".as_bytes(),
        "\u{202E}".as_bytes(),
        "\u{200D}".as_bytes(),
        "\u{FEFF}".as_bytes(),
        "\u{F022}".as_bytes(),
        "\u{F028}".as_bytes(),
        "\u{FF0F}".as_bytes(),
        "\u{FF0E}".as_bytes(),
        "\u{FDFA}".as_bytes(),
        "\u{2426}41".as_bytes(),
        "\u{FFFE}".as_bytes(),
        "\u{E000}".as_bytes(),
        "\u{430}".as_bytes(),
        "日本".as_bytes(),
        "\u{1F600}".as_bytes(),
        "\u{85}".as_bytes(),
        "\u{FFFD}".as_bytes(),
        "\x1B%G".as_bytes(),
        "\u{FF1A}".as_bytes(),
        "\u{E0041}".as_bytes(),
        "ß".as_bytes(),
        "\u{212A}".as_bytes(),
        "\u{1F3FB}".as_bytes(),
        "\u{1100}\u{1161}".as_bytes(),
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".as_bytes(),
    ];
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(pieces), 0..6).prop_map(|parts| parts.concat()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
        1 => "\\PC{0,12}".prop_map(String::into_bytes),
        1 => ("[ab]{1,2}", 90_usize..300).prop_map(|(text, n)| text.repeat(n).into_bytes()),
    ]
}

/// The keys under which no two names may be equal, written down once more.
fn keys(policy: &Policy, name: &str) -> Vec<String> {
    let keys = policy.rules().iter().filter_map(|rule| match rule.test {
        Test::SameForm(form) => Some(casefold::key(name, Some(form), None).into_owned()),
        Test::SameFold { fold, form } => Some(casefold::key(name, form, Some(fold)).into_owned()),
        Test::Plain(RuleId::CollisionConfusable) => Some(skeleton(name)),
        _ => None,
    });
    keys.chain([name.to_owned()]).collect()
}

/// A policy takes longer to build than a name to repair.
static POLICIES: LazyLock<Vec<Policy>> = LazyLock::new(policies);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_suggested_name_is_valid_and_has_no_suggested_name(name in hostile()) {
        for policy in POLICIES.iter() {
            let outcome = policy.check(&name).outcome();
            let is_good = outcome == CheckOutcome::Accept && matches!(policy.verdict(&name), Verdict::Accept(_));
            let Some(repair) = policy.suggest_name(&name, EncodingHint::Unknown, &mut |_| false) else { continue };
            prop_assert!(!is_good, "{:?} for a good name", repair);
            let suggested = repair.name.as_bytes();
            prop_assert_eq!(policy.verdict(suggested), Verdict::Accept(&repair.name));
            prop_assert_eq!(policy.suggest_name(suggested, EncodingHint::Unknown, &mut |_| false), None, "{:?}", repair);
            prop_assert!(suggested.len() <= 255.max(name.len()));
        }
    }

    #[test]
    fn no_hostile_name_is_beyond_repair_where_the_policy_leaves_something_to_write(name in hostile()) {
        for policy in [Policy::from_profiles(&[]), desktop(), suspicious(Severity::Error), optical()].map(thorough) {
            if policy.check(&name).outcome() == CheckOutcome::Reject {
                prop_assert!(repaired(&policy, &name).is_some(), "{:?}", String::from_utf8_lossy(&name));
            }
        }
    }

    #[test]
    fn suggested_names_never_collide_and_a_repaired_directory_has_no_suggestions(
        names in prop::collection::btree_set(hostile(), 0..12)
    ) {
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        for policy in POLICIES.iter() {
            let repairs = policy.suggest_names(&names, None);
            prop_assert_eq!(repairs.len(), names.len());
            // The keys of the names as they are, and of the suggested names.
            let mut holders: HashMap<(usize, String), Vec<usize>> = HashMap::new();
            let offered = repairs.iter().map(|r| r.as_ref().map(|r| r.name.as_str()));
            let given = names.iter().map(|name| std::str::from_utf8(name).ok());
            for (at, name) in given.enumerate().chain(offered.enumerate()) {
                for key in name.into_iter().flat_map(|name| keys(policy, name)).enumerate() {
                    holders.entry(key).or_default().push(at);
                }
            }
            let mut after: Vec<Vec<u8>> = Vec::new();
            for (at, (name, repair)) in names.iter().zip(&repairs).enumerate() {
                after.push(repair.as_ref().map_or(name.to_vec(), |r| r.name.clone().into_bytes()));
                let Some(repair) = repair else { continue };
                prop_assert_ne!(repair.name.as_bytes(), *name);
                prop_assert_eq!(policy.verdict(repair.name.as_bytes()), Verdict::Accept(&repair.name));
                for key in keys(policy, &repair.name).into_iter().enumerate() {
                    prop_assert!(holders[&key].iter().all(|&other| other == at), "{:?} {:?}", repair, names);
                }
            }
            let after: Vec<&[u8]> = after.iter().map(Vec::as_slice).collect();
            let again = policy.suggest_names(&after, None);
            // A name without room for a number is free after the other names have changed.
            let again = again.into_iter().filter(|_| policy.repairs().shortens);
            for (first, second) in repairs.iter().zip(again) {
                prop_assert!(second.is_none() , "{:?} then {:?}", first, second);
            }
        }
    }
}
