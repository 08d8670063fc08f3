//! What the quick look must not let pass: one test for each way in which it did.

use super::*;
use crate::policy::profile::{self, Limit, NamePart, ReservedNames, Unit};
use crate::policy::{CheckOutcome, Verdict};

fn rules(policy: &Policy, name: &str) -> Vec<&'static str> {
    policy.check(name.as_bytes()).violations.iter().map(|v| v.rule.name()).collect()
}

fn with_limit(max: usize, unit: Unit) -> Policy {
    Policy::builder().rule(ProfileRule::error(Test::Length(Limit { max, unit }), "test")).build().unwrap()
}

#[test]
fn look_alikes_that_begin_with_neither_dot_nor_g_are_looked_at() {
    let policy = Policy::builder().severity(RuleId::DotGitLookalike, Some(Severity::Error)).build().unwrap();
    for name in ["~1000000", "a\\.git", "x\\y\\GIT~1"] {
        assert_eq!(rules(&policy, name), ["dot-git-lookalike"], "{name}");
        assert!(matches!(policy.verdict(name.as_bytes()), Verdict::Reject(_)), "{name}");
    }
}

#[test]
fn lengths_are_measured_before_a_form_can_grow_past_its_limit() {
    for (name, max, unit) in [
        ("\u{FDFA}".repeat(8), 255, Unit::BytesIn(Form::Nfkd)),
        ("\u{FDFA}".repeat(8), 255, Unit::BytesIn(Form::Nfkc)),
        ("\u{FDFA}".repeat(15), 255, Unit::Utf16In(Form::Nfkd)),
        ("\u{390}".repeat(43), 255, Unit::BytesIn(Form::Nfd)),
        ("a".repeat(255), 255, Unit::OstaBytes),
        ("日".repeat(128), 255, Unit::OstaBytes),
        ("a.b.c".to_owned(), 1, Unit::Dots),
    ] {
        assert_eq!(rules(&with_limit(max, unit), &name), ["name-too-long"], "{name} in {unit:?}");
    }
    for (name, max, unit) in [
        ("\u{FDFA}".repeat(7), 255, Unit::BytesIn(Form::Nfkd)),
        ("\u{FDFA}".repeat(14), 255, Unit::Utf16In(Form::Nfkd)),
        ("\u{390}".repeat(42), 255, Unit::BytesIn(Form::Nfd)),
        ("a".repeat(254), 255, Unit::OstaBytes),
        ("日".repeat(127), 255, Unit::OstaBytes),
    ] {
        assert_eq!(rules(&with_limit(max, unit), &name), [] as [&str; 0], "{name} in {unit:?}");
    }
}

#[test]
fn a_base_name_ends_before_spaces_and_not_before_other_white_space() {
    let names = ReservedNames::new(NamePart::Base, "NUL");
    let policy = Policy::builder().rule(ProfileRule::error(Test::Named(names), "test")).build().unwrap();
    assert_eq!(rules(&policy, "nul  .txt"), ["reserved-name"]);
    assert_eq!(rules(&policy, "nul\t.txt"), [] as [&str; 0]);
    assert_eq!(rules(&policy, "nul\t"), [] as [&str; 0]);
}

#[test]
fn a_repeated_word_is_the_whole_name() {
    let names = ReservedNames::new(NamePart::Repeated, " /ab");
    let policy = Policy::builder().rule(ProfileRule::error(Test::Named(names), "test")).build().unwrap();
    for name in [" ", "   ", "ab", "ABab"] {
        assert_eq!(rules(&policy, name), ["reserved-name"], "{name:?}");
    }
    for name in [" a", "a ", "aba", " ab", "b"] {
        assert_eq!(rules(&policy, name), [] as [&str; 0], "{name:?}");
    }
}

#[test]
fn a_name_is_converted_even_if_the_rule_is_off() {
    let normalization = Normalization { form: Form::Nfc, on_mismatch: OnMismatch::Convert };
    let policy =
        Policy::builder().normalization(normalization).severity(RuleId::NotInForm, None).build().unwrap();
    assert_eq!(policy.verdict("e\u{301}".as_bytes()), Verdict::Rewrite("é".into()));
    assert_eq!(policy.check("e\u{301}".as_bytes()).outcome(), CheckOutcome::Accept);
}

#[test]
fn everyone_who_misses_a_code_point_is_named() {
    let profiles = ["macos", "ext4-casefold"].map(|p| profile::by_name(p).unwrap());
    let violations = Policy::from_profiles(&profiles).check("\u{378}".as_bytes()).violations;
    let by: Vec<Vec<&str>> = violations.iter().map(|v| v.profiles.names().collect()).collect();
    assert_eq!(by, [["macos", "ext4-casefold"]]);
}
