use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;
use crate::name::normalize::Form;
use crate::policy::{Normalization, OnMismatch, profile};

fn gate(profile: &str, mode: Mode) -> Gate {
    Gate::new(Arc::new(Policy::from_profiles(&[profile::by_name(profile).unwrap()])), mode)
}

fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[test]
fn a_new_name_must_satisfy_the_policy_and_an_old_one_must_only_be_able_to_exist() {
    let gate = gate("strict", Mode::Enforcing);
    assert_eq!(gate.admit(Intent::Create, os(b"ok")).unwrap().as_os_str(), "ok");
    for name in [&b"a\nb"[..], "\u{FFFE}".as_bytes()] {
        assert!(matches!(gate.admit(Intent::Create, os(name)), Err(Refusal::Violates(_))));
        assert_eq!(gate.admit(Intent::Address, os(name)).unwrap().as_os_str(), os(name));
    }
    for name in [&b"caf\xE9"[..], b"\xC0\xAF", b"\n\xFF"] {
        assert!(matches!(gate.admit(Intent::Create, os(name)), Err(Refusal::Violates(_))));
        let refusal = gate.admit(Intent::Address, os(name)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::CannotExist(_)) && refusal.rule().is_some_and(RuleId::is_always_on),
            "{refusal:?}"
        );
    }
}

#[test]
fn names_that_no_file_system_stores_are_refused_in_every_mode() {
    for mode in [Mode::Enforcing, Mode::Permissive] {
        let gate = gate("utf8", mode);
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", b"\xFF/"] {
            assert!(gate.admit(Intent::Create, os(name)).is_err(), "{name:?}");
            assert!(
                matches!(gate.admit(Intent::Address, os(name)), Err(Refusal::CannotExist(_))),
                "{name:?}"
            );
        }
        for intent in [Intent::Create, Intent::Address] {
            let refusal = gate.admit(intent, os(&[b'a'; 257])).unwrap_err();
            assert_eq!(refusal, Refusal::TooLong { bytes: 257, span: Span::new(255, 257) });
        }
        assert!(gate.admit(Intent::Create, os(&[b'a'; 255])).is_ok());
    }
}

#[test]
fn a_permissive_gate_admits_a_violation_and_reports_it() {
    let gate = gate("strict", Mode::Permissive);
    for (name, rule) in [(&b"caf\xE9"[..], RuleId::Truncated), (b"a\nb", RuleId::C0Control)] {
        let admitted = gate.admit(Intent::Create, os(name)).unwrap();
        assert_eq!(admitted.as_os_str(), os(name));
        assert_eq!(admitted.noted().map(|v| v.rule), Some(rule));
    }
    assert_eq!(gate.admit(Intent::Create, os(b"ok")).unwrap().noted(), None);
}

fn normalizing(form: Form, on_mismatch: OnMismatch) -> Gate {
    let normalization = Normalization { form, on_mismatch };
    let policy = Policy::builder().normalization(normalization).build().unwrap();
    Gate::new(Arc::new(policy), Mode::Enforcing)
}

/// The names to look up, in order: the name and the key.
fn spellings(gate: &Gate, intent: Intent, name: &str) -> (String, String) {
    let admitted = gate.admit(intent, OsStr::new(name)).unwrap();
    (admitted.as_os_str().to_str().unwrap().into(), admitted.key().to_str().unwrap().into())
}

#[test]
fn a_converting_gate_stores_the_form_and_checks_its_length() {
    let gate = normalizing(Form::Nfd, OnMismatch::Convert);
    assert_eq!(spellings(&gate, Intent::Create, "é"), ("e\u{301}".into(), "e\u{301}".into()));
    // 127 × 2 bytes are 254; in NFD each character has three bytes.
    let long = "é".repeat(127);
    let refusal = gate.admit(Intent::Create, OsStr::new(&long)).unwrap_err();
    assert_eq!(refusal, Refusal::TooLong { bytes: 381, span: Span::new(0, 254) });
    assert_eq!(refusal.rule(), Some(RuleId::NameTooLong));
    assert_eq!(refusal.span(), Span::new(0, long.len()), "the span is within the given name");
    // As given it has just NAME_MAX bytes: all of it is the excess, not the nothing behind it.
    let full = format!("{long}x");
    let refusal = gate.admit(Intent::Create, OsStr::new(&full)).unwrap_err();
    assert_eq!(refusal, Refusal::TooLong { bytes: 382, span: Span::new(0, NAME_MAX) });
}

#[test]
fn a_name_whose_stored_form_reads_as_an_escape_is_refused() {
    let gate = normalizing(Form::Nfc, OnMismatch::Convert);
    for name in ["e\u{301}\u{2426}E9", "é\u{2426}E9"] {
        let bytes = name.len();
        let refused = gate.admit(Intent::Create, OsStr::new(name));
        assert_eq!(refused, Err(Refusal::ReadsAsEscape { bytes }), "{name}");
    }
}

#[test]
fn a_gate_knows_spellings_if_it_converts_or_matches() {
    for (on_mismatch, knows) in
        [(OnMismatch::Convert, true), (OnMismatch::Match, true), (OnMismatch::Refuse, false)]
    {
        assert_eq!(normalizing(Form::Nfc, on_mismatch).knows_spellings(), knows, "{on_mismatch:?}");
    }
    for mode in [Mode::Encoding, Mode::Enforcing, Mode::Permissive] {
        assert!(!gate("strict", mode).knows_spellings(), "{mode:?}");
    }
}

#[test]
fn only_a_gate_that_escapes_knows_shortened_names() {
    let mark = OsStr::new("x\u{2426}~0123456789ABCDEF");
    let escaping = gate("utf8", Mode::Enforcing);
    assert!(escaping.is_shortened(mark));
    for name in [&b"x"[..], "x\u{2426}~0123456789ABCDE".as_bytes(), b"\xFF\xE2\x90\xA6~0123456789ABCDEF"] {
        assert!(!escaping.is_shortened(os(name)), "{name:02X?}");
    }
    for existing in [Existing::Show, Existing::Hide] {
        assert!(!gate("utf8", Mode::Enforcing).with_existing(existing).is_shortened(mark), "{existing:?}");
    }
}

#[test]
fn all_spellings_of_a_name_have_one_key_and_the_given_one_is_looked_up_first() {
    for on_mismatch in [OnMismatch::Convert, OnMismatch::Match] {
        let gate = normalizing(Form::Nfc, on_mismatch);
        for name in ["\u{C5}", "\u{212B}", "A\u{30A}"] {
            let found = spellings(&gate, Intent::Address, name);
            assert_eq!(found, (name.into(), "\u{C5}".into()), "an entry stored as {name:?} stays reachable");
            assert_eq!(gate.key(OsStr::new(name)), OsStr::new("\u{C5}"));
        }
    }
    let matching = normalizing(Form::Nfc, OnMismatch::Match);
    assert_eq!(
        spellings(&matching, Intent::Create, "e\u{301}"),
        ("e\u{301}".into(), "é".into()),
        "it is stored as given, and finds an equivalent entry by its key"
    );
    for gate in [normalizing(Form::Nfc, OnMismatch::Refuse), gate("strict", Mode::Enforcing)] {
        assert_eq!(spellings(&gate, Intent::Address, "e\u{301}"), ("e\u{301}".into(), "e\u{301}".into()));
    }
}

#[test]
fn a_key_is_never_a_path_and_bytes_that_are_not_utf8_are_their_own() {
    let gate = normalizing(Form::Nfkc, OnMismatch::Convert);
    for name in ["a\u{FF0F}b", "\u{2025}", "\u{FF0E}", "\u{2024}\u{2024}"] {
        assert_eq!(gate.key(OsStr::new(name)), OsStr::new(name));
        assert_eq!(spellings(&gate, Intent::Address, name), (name.into(), name.into()));
        assert!(matches!(gate.admit(Intent::Create, OsStr::new(name)), Err(Refusal::Violates(_))), "{name}");
    }
    assert_eq!(gate.key(os(b"\xE9\xEF\xBC\x81")), os(b"\xE9\xEF\xBC\x81"));
}

#[test]
fn a_name_whose_stored_form_is_shorter_is_found_as_given() {
    // 85 times é: in NFC 170 bytes, as given 255; and one more.
    let given = "e\u{301}".repeat(86);
    let gate = normalizing(Form::Nfc, OnMismatch::Convert);
    for intent in [Intent::Create, Intent::Address] {
        assert_eq!(spellings(&gate, intent, &given), ("é".repeat(86), "é".repeat(86)), "{intent:?}");
    }
    let matching = normalizing(Form::Nfc, OnMismatch::Match);
    assert!(matching.admit(Intent::Create, OsStr::new(&given)).is_err(), "it would be stored as given");
    assert_eq!(spellings(&matching, Intent::Address, &given).0, "é".repeat(86));
    // Its form does not fit either, but a third spelling may: `e` and U+0344 decompose to four code points.
    let beyond = "e\u{301}".repeat(128);
    for gate in [&gate, &matching] {
        assert_eq!(spellings(gate, Intent::Address, &beyond), (beyond.clone(), "é".repeat(128)));
        let new = gate.admit(Intent::Create, OsStr::new(&beyond));
        assert!(matches!(new, Err(Refusal::TooLong { .. })), "{new:?}");
    }
    let too_long = "日".repeat(86);
    let refusal = gate.admit(Intent::Address, OsStr::new(&too_long)).unwrap_err();
    assert!(matches!(refusal, Refusal::TooLong { bytes: 258, .. }), "it has no other spelling");
}

#[test]
fn every_entry_is_shown_under_one_name_that_addresses_it_and_cannot_be_created() {
    let stored: &[&[u8]] = &[
        b"plain",
        b"caf\xE9",
        b"\xC0\xAF",
        b"\xFF",
        "\u{2426}41".as_bytes(),
        "\u{2426}7F".as_bytes(),
        "\u{2426}2F".as_bytes(),
        "\u{2426}00".as_bytes(),
        "\u{2426}2E".as_bytes(),
        "\u{2426}2E\u{2426}2E".as_bytes(),
        "\u{2426}7F\u{2426}E9".as_bytes(),
        b"\xE2\x90\xA67F\xE9",
        b"\x7F\xE9",
        "\u{2426}E2\u{2426}90\u{2426}A6E9".as_bytes(),
        "\u{2426}E9".as_bytes(),
        "\u{2426}~0123456789ABCDEF".as_bytes(),
        "\u{2426}quoted".as_bytes(),
        &[0xFF; 51],
    ];
    let gate = gate("utf8", Mode::Enforcing);
    let mut seen = std::collections::BTreeSet::new();
    for name in stored {
        let shown = gate.show(os(name)).unwrap();
        assert_eq!(shown.admitted.as_os_str(), os(name));
        assert!(shown.name.to_str().is_some());
        assert_eq!(gate.admit(Intent::Address, &shown.name).unwrap().as_os_str(), os(name));
        assert!(seen.insert(shown.name.clone()));
        let may_come_in = shown.name == os(name);
        assert_eq!(gate.admit(Intent::Create, &shown.name).is_ok(), may_come_in, "{name:?}");
    }
    let long = [0xFF; 200];
    let shown = gate.show(os(&long)).unwrap();
    assert!(shown.name.len() <= NAME_MAX && gate.is_shortened(&shown.name));
    for name in
        ["\u{2426}7F", "\u{2426}2F", "\u{2426}00", "\u{2426}2E", "\u{2426}41.txt", "a\u{2426}2E\u{2426}2E"]
    {
        let name = OsStr::new(name);
        assert_eq!(gate.show(name).unwrap().name, name, "no name is escaped like this");
        for intent in [Intent::Create, Intent::Address] {
            assert_eq!(gate.admit(intent, name).unwrap().as_os_str(), name);
        }
    }
    for absent in
        ["\u{2426}2F\u{2426}E9", "\u{2426}41\u{2426}E9", "\u{2426}E9\u{2426}00", "\u{2426}~0123456789ABCDEF"]
    {
        let bytes = absent.len();
        assert_eq!(gate.admit(Intent::Create, OsStr::new(absent)), Err(Refusal::ReadsAsEscape { bytes }));
        assert_eq!(gate.admit(Intent::Address, OsStr::new(absent)), Err(Refusal::NotShown { bytes }));
    }
}

#[test]
fn names_that_are_not_utf8_are_shown_or_hidden_as_configured() {
    let (bad, quoted) = (os(b"caf\xE9"), OsStr::new("\u{2426}41"));
    let show = gate("utf8", Mode::Enforcing).with_existing(Existing::Show);
    assert_eq!(show.show(bad).unwrap().name, bad);
    assert_eq!(show.admit(Intent::Address, bad).unwrap().as_os_str(), bad);
    assert!(matches!(show.admit(Intent::Create, bad), Err(Refusal::Violates(_))));
    let hide = gate("utf8", Mode::Enforcing).with_existing(Existing::Hide);
    assert_eq!(hide.show(bad), None);
    assert!(matches!(hide.admit(Intent::Address, bad), Err(Refusal::CannotExist(_))));
    for gate in [show, hide, gate("utf8", Mode::Permissive)] {
        assert_eq!(gate.show(quoted).unwrap().name, quoted);
        for intent in [Intent::Create, Intent::Address] {
            assert_eq!(gate.admit(intent, quoted).unwrap().as_os_str(), quoted);
        }
    }
    assert_eq!(gate("utf8", Mode::Permissive).existing(), Existing::Show);
}
