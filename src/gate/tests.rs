use super::*;
use crate::name::normalize::Form;
use crate::policy::{Normalization, OnMismatch, profile};

fn gate(profile: &str, mode: Mode) -> Gate {
    Gate::new(Arc::new(Policy::of(&[profile::by_name(profile).unwrap()])), mode)
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
        assert!(matches!(refusal, Refusal::CannotExist(_)) && refusal.rule().is_always_on(), "{refusal:?}");
    }
}

#[test]
fn what_no_file_system_stores_never_passes_in_any_mode() {
    for mode in [Mode::Enforcing, Mode::Permissive] {
        let gate = gate("utf8", mode);
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", b"\xFF/"] {
            assert!(gate.admit(Intent::Create, os(name)).is_err(), "{name:?}");
            assert!(
                matches!(gate.admit(Intent::Address, os(name)), Err(Refusal::CannotExist(_))),
                "{name:?}"
            );
        }
        assert_eq!(gate.admit(Intent::Create, os(&[b'a'; 256])), Err(Refusal::TooLong { bytes: 256 }));
        assert_eq!(gate.admit(Intent::Address, os(&[b'a'; 256])), Err(Refusal::TooLong { bytes: 256 }));
        assert!(gate.admit(Intent::Create, os(&[b'a'; 255])).is_ok());
    }
}

#[test]
fn a_permissive_gate_lets_pass_what_it_notes() {
    let gate = gate("strict", Mode::Permissive);
    for (name, rule) in [(&b"caf\xE9"[..], RuleId::Truncated), (b"a\nb", RuleId::C0Control)] {
        let admitted = gate.admit(Intent::Create, os(name)).unwrap();
        assert_eq!(admitted.as_os_str(), os(name));
        assert_eq!(admitted.noted().map(|v| v.rule), Some(rule));
    }
    assert_eq!(gate.admit(Intent::Create, os(b"ok")).unwrap().noted(), None);
}

#[test]
fn a_converting_gate_stores_the_form_and_judges_its_length() {
    let normalization = Normalization { form: Form::Nfd, on_mismatch: OnMismatch::Convert };
    let policy = Policy::builder().normalization(normalization).build().unwrap();
    let gate = Gate::new(Arc::new(policy), Mode::Enforcing);
    assert_eq!(gate.admit(Intent::Create, OsStr::new("é")).unwrap().as_os_str(), "e\u{301}");
    // 127 × 2 bytes are 254; in NFD each takes three.
    let long = "é".repeat(127);
    let refusal = gate.admit(Intent::Create, OsStr::new(&long)).unwrap_err();
    assert_eq!(refusal, Refusal::TooLong { bytes: 381 });
    assert_eq!(refusal.rule(), RuleId::NameTooLong);
    assert_eq!(refusal.span(), Span::new(255, 381));
}
