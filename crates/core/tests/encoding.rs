//! Laws of a gate that encodes: what a client writes is what it lists, and every entry has one name.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::sync::Arc;

use namegate_core::gate::{EncodingConflict, Existing, Gate, Intent, Mode, NAME_MAX, Refusal};
use namegate_core::name::normalize::Form;
use namegate_core::name::substitutes::KnownMap;
use namegate_core::policy::{Normalization, OnMismatch, Policy, Verdict, profile};
use proptest::prelude::*;

const TABLES: [KnownMap; 4] = [KnownMap::TO_RCLONE, KnownMap::TO_SFM, KnownMap::TO_SFU, KnownMap::TO_CATIA];

fn gate(profiles: &str, table: KnownMap, normalization: Option<Normalization>) -> Gate {
    let profiles: Vec<_> = profiles.split(',').map(|name| profile::by_name(name).unwrap()).collect();
    let policy = Policy::builder().profiles(&profiles);
    let policy = normalization.into_iter().fold(policy, |policy, form| policy.normalization(form));
    Gate::new(Arc::new(policy.build().unwrap()), Mode::Encoding).with_substitutes(table)
}

fn windows() -> Gate {
    gate("windows", KnownMap::TO_RCLONE, None)
}

/// Checks the laws for `name` as the name of a client and as a stored name.
fn check_laws(gate: &Gate, name: &[u8]) {
    let (shown, admitted) = gate.show_bytes(name).expect("no name is hidden");
    assert_eq!(admitted.as_bytes(), name);
    if !gate.is_shortened_bytes(&shown) {
        let found = gate.admit_bytes(Intent::Address, &shown).map(|found| found.as_bytes().to_vec());
        assert_eq!(found.as_deref(), Ok(name), "{shown:?} leads back, so no other entry is shown so");
    }
    let new = gate.admit_bytes(Intent::Create, name);
    if let Ok(new) = &new {
        assert!(matches!(gate.policy().verdict(new.as_bytes()), Verdict::Accept(_)), "{new:?} is stored");
        assert!(new.as_bytes().len() <= NAME_MAX);
    }
    let Ok(text) = std::str::from_utf8(name) else {
        assert!(matches!(new, Err(Refusal::Violates(_))));
        return;
    };
    let encoded = gate.encoded_bytes(name);
    if let Err(Refusal::Violates(violation)) = &new {
        assert!(violation.span.end <= name.len() && text.is_char_boundary(violation.span.start));
        assert!(matches!(gate.policy().verdict(&encoded), Verdict::Reject(_)));
    }
    match gate.admit_bytes(Intent::Address, name) {
        // The name as it was written, or an escaped one.
        Ok(found) => {
            assert_eq!(*gate.show_bytes(found.as_bytes()).unwrap().0, *name, "{found:?}");
            assert!(new.is_err() || new.is_ok_and(|new| new.as_bytes() == found.as_bytes()));
        }
        Err(Refusal::NotShown { .. }) => assert!(new.is_err()),
        Err(refusal) => panic!("{refusal}"),
    }
}

/// Reserved characters and controls, their substitutes in the table, and all that has a meaning beside them.
fn nasty(table: KnownMap) -> Vec<String> {
    let mapped = [(':', false), ('"', false), ('\t', false), (' ', true), ('.', true)];
    let substitutes = mapped.iter().filter_map(|&(c, is_last)| table.substitute(c, is_last));
    let beside = ["‛", "␦", "3A", "E9", "~0123456789ABCDEF", "／", "␀", "x", "é"];
    let own = mapped.iter().map(|&(c, _)| c).chain(substitutes).map(String::from);
    own.chain(beside.map(String::from)).collect()
}

fn each_string(symbols: &[String], len: usize, check: &mut impl FnMut(&str), prefix: &str) {
    for symbol in symbols {
        let name = format!("{prefix}{symbol}");
        if !matches!(&*name, "." | "..") {
            check(&name);
        }
        if len > 1 {
            each_string(symbols, len - 1, check, &name);
        }
    }
}

#[test]
fn laws_hold_for_all_strings_of_four_nasty_symbols_under_windows() {
    for table in TABLES {
        let gate = gate("windows", table, None);
        each_string(&nasty(table), 4, &mut |name| check_laws(&gate, name.as_bytes()), "");
    }
}

#[test]
fn laws_hold_for_all_strings_of_two_nasty_symbols_under_every_profile() {
    for table in TABLES {
        let all: Vec<String> = TABLES.into_iter().flat_map(nasty).collect();
        for profile in profile::ALL {
            for existing in [Existing::Escape, Existing::Show] {
                let gate = gate(profile.name, table, None).with_existing(existing);
                each_string(&all, 2, &mut |name| check_laws(&gate, name.as_bytes()), "");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laws_hold_for_any_name(
        parts in prop::collection::vec(prop_oneof![
            "[\u{1}-\u{1F}\"*:<>?\\\\| .~0-9A-Fa-z‛␦␀／．␠：＂＊é\u{301}\u{F020}-\u{F029}\u{F03A}¨¤÷ÿ日]{1,4}".prop_map(String::into_bytes),
            prop::collection::vec(1_u8.., 1..3),
        ], 1..80),
        at in 0..profile::ALL.len(),
        table in 0..TABLES.len(),
    ) {
        let name: Vec<u8> = parts.concat().into_iter().filter(|&byte| byte != b'/').take(NAME_MAX).collect();
        prop_assume!(!matches!(&*name, b"" | b"." | b".."));
        let gate = gate(profile::ALL[at].name, TABLES[table], None);
        // An encoded name of more than 255 bytes is that of no entry.
        if gate.encoded_bytes(&name).len() <= NAME_MAX {
            check_laws(&gate, &name);
        }
    }
}

#[test]
fn what_the_policy_refuses_and_the_table_has_is_encoded() {
    for (profile, table, name, stored) in [
        ("windows", KnownMap::TO_RCLONE, "a\"*:<>?\\|b", "a＂＊：＜＞？＼｜b"),
        ("windows", KnownMap::TO_RCLONE, "a‛ ", "a‛‛␠"),
        ("windows", KnownMap::TO_SFM, "a:b.", "a\u{F022}b\u{F029}"),
        ("windows", KnownMap::TO_SFM, "a\u{F022}：", "a‛\u{F022}："),
        ("windows", KnownMap::TO_SFU, "a:b ", "a\u{F03A}b\u{F020}"),
        ("windows", KnownMap::TO_CATIA, "a\\b", "aÿb"),
        ("windows", KnownMap::TO_CATIA, "aÿb", "a‛ÿb"),
        ("utf8", KnownMap::TO_RCLONE, "a:b：‛", "a:b：‛"),
    ] {
        let gate = gate(profile, table, None);
        let new = gate.admit_bytes(Intent::Create, name.as_bytes()).unwrap();
        assert_eq!(std::str::from_utf8(new.as_bytes()), Ok(stored), "{name}");
        assert_eq!(*gate.show_bytes(stored.as_bytes()).unwrap().0, *name.as_bytes());
    }
}

/// By rclone 1.60.1: `rclone copy DIR ":local,encoding='Slash,Dot,LtGt,DoubleQuote,Colon,Question,Asterisk,Pipe,BackSlash,Ctl,RightSpace,RightPeriod':TO"`
/// of all strings of three of sixteen symbols. What differs has `‛‛` or a dot alone, which rclone reads otherwise on Linux already.
#[test]
fn names_are_encoded_as_rclone_encodes_them() {
    let gate = windows();
    for (name, stored) in [
        (":\"\t", "：＂␉"),
        ("：＂␉", "‛：‛＂‛␉"),
        (" . ", " .␠"),
        ("a .", "a ．"),
        ("a..", "a.．"),
        ("␠．␠", "␠．‛␠"),
        ("．␠．", "．␠‛．"),
        ("‛a‛", "‛‛a‛‛"),
        ("a‛:", "a‛‛："),
        ("a‛：", "a‛‛‛："),
        ("‛／␀", "‛／␀"),
        ("／‛␀", "／‛␀"),
        ("a‛.", "a‛‛．"),
        ("?＼\\", "？‛＼＼"),
    ] {
        assert_eq!(*gate.encoded_bytes(name.as_bytes()), *stored.as_bytes(), "{name}");
    }
}

#[test]
fn a_stored_name_that_no_client_could_write_is_shown_escaped() {
    let gate = windows();
    for (stored, shown) in [
        ("a:b", "a␦3Ab"),
        ("a:b：c", "a␦3Ab：c"),
        ("end.", "end␦2E"),
        ("a‛b", "a␦E2␦80␦9Bb"),
        ("a‛", "a␦E2␦80␦9B"),
        ("．", "␦EF␦BC␦8E"),
        (".．", ".␦EF␦BC␦8E"),
        ("␦3A", "␦E2␦90␦A63A"),
        ("：␦3A", "：␦E2␦90␦A63A"),
    ] {
        assert_eq!(*gate.show_bytes(stored.as_bytes()).unwrap().0, *shown.as_bytes(), "{stored}");
        let found = gate.admit_bytes(Intent::Address, shown.as_bytes()).unwrap();
        assert_eq!(found.as_bytes(), stored.as_bytes());
        let bytes = shown.len();
        assert_eq!(gate.admit_bytes(Intent::Create, shown.as_bytes()), Err(Refusal::ReadsAsEscape { bytes }));
    }
    let long = ":".repeat(NAME_MAX);
    let shown = gate.show_bytes(long.as_bytes()).unwrap().0;
    assert!(shown.len() <= NAME_MAX && gate.is_shortened_bytes(&shown));
}

#[test]
fn what_is_invalid_once_encoded_is_refused_where_it_stands() {
    let gate = gate("windows,strict", KnownMap::TO_RCLONE, None);
    let long = ":".repeat(86);
    for (name, rule, start, end) in [
        ("aux.a:b", "reserved-name", 0, 3),
        ("：a\u{7F}b", "delete", 4, 5),
        (":\u{7F}:", "delete", 1, 2),
        ("::\u{7F}", "delete", 2, 3),
        (&long, "name-too-long", 0, 86),
    ] {
        let refusal = gate.admit_bytes(Intent::Create, name.as_bytes()).unwrap_err();
        let (found, span) = (refusal.rule().unwrap().name(), refusal.span());
        assert_eq!((found, span.start, span.end), (rule, start, end), "{name}");
    }
}

#[test]
fn substitutes_that_cannot_stay_exclude_the_mode() {
    for table in TABLES {
        for form in Form::ALL {
            for on_mismatch in OnMismatch::ALL {
                let gate = gate("windows", table, Some(Normalization { form, on_mismatch }));
                let is_changed =
                    table == KnownMap::TO_CATIA || table == KnownMap::TO_RCLONE && form.is_compatibility();
                let expected = if is_changed { Err(EncodingConflict::Unstable(table, form)) } else { Ok(()) };
                assert_eq!(gate.check_encoding(), expected, "{table} {form}");
                assert_eq!(gate.with_mode(Mode::Enforcing).check_encoding(), Ok(()));
            }
        }
        let check = |profile| gate(profile, table, None).check_encoding();
        assert_eq!(check("posix"), Err(EncodingConflict::Refused(table)));
        assert_eq!(check("utf8"), Err(EncodingConflict::Nothing(table)));
    }
}
