use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::policy::profile::{self, Chars, Limit, Profile, ProfileRule, ReservedNames, Test, Unit};
use crate::policy::{CheckOutcome, Normalization};

fn policy(profiles: &[&str]) -> Policy {
    let profiles: Vec<&'static Profile> = profiles.iter().map(|p| profile::by_name(p).unwrap()).collect();
    Policy::from_profiles(&profiles)
}

/// The rules and spans that `policy` reports for `name`.
fn found(policy: &Policy, name: &[u8]) -> Vec<(&'static str, usize, usize)> {
    policy.check(name).violations.iter().map(|v| (v.rule.name(), v.span.start, v.span.end)).collect()
}

/// Every rule switched on as far as it needs no parameter, and parameters for the others.
fn everything() -> Policy {
    let lines = [
        ProfileRule::error(Test::Reserved(Chars::one_of("<>:\"|?*\u{FF0F}")), "test"),
        ProfileRule::warn(Test::Reserved(Chars::Range('\u{1F600}', '\u{1F64F}')), "test"),
        ProfileRule::error(
            Test::Named(ReservedNames::new(NamePart::Base, "CON/NUL/COM1/COM\u{B9}/CONIN$")),
            "test",
        ),
        ProfileRule::error(Test::Named(ReservedNames::new(NamePart::Whole, "desktop.ini/.lock")), "test"),
        ProfileRule::error(Test::Named(ReservedNames::new(NamePart::Prefix, "~$")), "test"),
        ProfileRule::error(Test::Named(ReservedNames::new(NamePart::Suffix, ".part")), "test"),
        ProfileRule::error(Test::Named(ReservedNames::new(NamePart::Anywhere, "_vti_")), "test"),
        ProfileRule::error(Test::Length(Limit { max: 40, unit: Unit::Utf16 }), "test"),
        ProfileRule::warn(Test::Length(Limit { max: 50, unit: Unit::BytesIn(normalize::Form::Nfd) }), "test"),
        ProfileRule::warn(Test::Form(normalize::Form::Nfc), "test"),
        ProfileRule::warn(Test::Unassigned(Some((9, 0))), "test"),
    ];
    let mut builder = Policy::builder();
    for line in lines {
        builder = builder.rule(line);
    }
    let parameterless = crate::policy::rule::RULES.iter().filter(|rule| !rule.id.needs_parameter());
    for rule in parameterless {
        builder = builder.severity(rule.id, Some(rule.default));
    }
    builder.build().unwrap()
}

#[test]
fn the_encoding_rules_apply_under_every_policy_and_name_their_bytes() {
    for policy in [policy(&[]), policy(&["utf8"]), policy(&["strict"]), everything()] {
        let encoding = |name: &[u8]| -> Vec<(&'static str, usize, usize)> {
            let all = policy.check(name).violations;
            let always = all.into_iter().filter(|v| v.rule.is_always_on());
            always.map(|v| (v.rule.name(), v.span.start, v.span.end)).collect()
        };
        assert_eq!(encoding(b""), [("empty-name", 0, 0)]);
        assert_eq!(encoding(b"."), [("dot-name", 0, 1)]);
        assert_eq!(encoding(b".."), [("dot-name", 0, 2)]);
        assert_eq!(encoding(b"..."), []);
        assert_eq!(encoding(b"a\0b"), [("nul-smuggling", 1, 2)]);
        assert_eq!(encoding(b"a/b"), [("separator-smuggling", 1, 2)]);
        assert_eq!(encoding(b"\xC0\xAEa\xE9"), [("separator-smuggling", 0, 2), ("truncated", 3, 4)]);
        assert_eq!(encoding(b"x\xED\xA1\x8C\xED\xBE\xB4"), [("surrogate-pair", 1, 7)]);
    }
}

#[test]
fn strict_refuses_controls_escapes_noncharacters_and_line_separators() {
    let strict = policy(&["strict"]);
    assert_eq!(found(&strict, b"a\nb\x7F"), [("c0-control", 1, 2), ("delete", 3, 4)]);
    assert_eq!(found(&strict, "\u{85}".as_bytes()), [("c1-control", 0, 2)]);
    assert_eq!(found(&strict, b"\x1B%G"), [("c0-control", 0, 1), ("iso-2022-escape", 0, 3)]);
    // Its slash cannot stand in a directory entry, but in a list of names or in an archive.
    let levels = [("c0-control", 1, 2), ("iso-2022-escape", 1, 5), ("separator-smuggling", 3, 4)];
    assert_eq!(found(&strict, b"x\x1B%/I"), levels);
    assert_eq!(found(&strict, b"\x1B%/J"), [("c0-control", 0, 1), ("separator-smuggling", 2, 3)]);
    assert_eq!(
        found(&strict, "\u{2028}\u{FFFE}".as_bytes()),
        [("line-separator", 0, 3), ("noncharacter", 3, 6)]
    );
    assert_eq!(found(&policy(&["utf8"]), "\u{FFFE}\u{FFFF}\n".as_bytes()), []);
}

#[test]
fn well_formed_parts_of_an_ill_formed_name_are_checked_too() {
    assert_eq!(
        found(&policy(&["strict"]), b"\xFFa\n\xFF"),
        [("invalid-octet", 0, 1), ("c0-control", 2, 3), ("invalid-octet", 3, 4)]
    );
}

#[test]
fn reserved_names_are_found_in_the_part_of_the_name_that_their_rule_names() {
    let all = everything();
    let reserved = |name: &str| {
        let all = found(&all, name.as_bytes());
        all.into_iter().filter(|f| f.0 == "reserved-name").map(|f| (f.1, f.2)).collect::<Vec<_>>()
    };
    for (name, span) in [
        ("con", (0, 3)),
        ("CON.tar.gz", (0, 3)),
        ("nul .txt", (0, 3)),
        ("nul:stream", (0, 3)),
        ("COM\u{B9}.x", (0, 5)),
        ("conin$", (0, 6)),
        ("Desktop.INI", (0, 11)),
        ("~$draft", (0, 2)),
        ("film.PART", (4, 9)),
        ("a_VTI_b", (1, 6)),
    ] {
        assert_eq!(reserved(name), [span], "{name}");
    }
    for name in
        ["cons", "console.txt", "null", "desktop.ini.txt", "xdesktop.ini", "a~$", "part", "_vti", "con1.txt"]
    {
        assert_eq!(reserved(name), [], "{name}");
    }
}

#[test]
fn a_reserved_base_name_may_contain_a_space() {
    let words = Test::Named(ReservedNames::new(NamePart::Base, "system volume"));
    let policy = Policy::builder().rule(ProfileRule::error(words, "test")).build().unwrap();
    assert_eq!(found(&policy, b"System Volume .x"), [("reserved-name", 0, 13)]);
    assert!(matches!(policy.verdict(b"system volume"), Verdict::Reject(_)));
    assert_eq!(found(&policy, b"system"), []);
}

#[test]
fn two_limits_with_the_same_excess_give_one_violation() {
    let line = |unit| ProfileRule::error(Test::Length(Limit { max: 3, unit }), "test");
    let policy = Policy::builder().rule(line(Unit::Bytes)).rule(line(Unit::Utf16)).build().unwrap();
    assert_eq!(found(&policy, b"abcd"), [("name-too-long", 3, 4)]);
    let check = policy.check(b"abcd");
    assert_eq!(
        check.message(&policy, &check.violations[0]),
        "4 bytes, at most 3 (config); 4 UTF-16 units, at most 3 (config)"
    );
    assert_eq!(found(&policy, "äb".as_bytes()), []);
    assert_eq!(found(&policy, "äbc".as_bytes()), [("name-too-long", 3, 4)]);
}

#[test]
fn converting_rewrites_and_checks_the_stored_spelling() {
    let policy = |form| {
        let normalization = Normalization { form, on_mismatch: OnMismatch::Convert };
        Policy::builder()
            .rule(ProfileRule::error(Test::Reserved(Chars::one_of("?")), "test"))
            .rule(ProfileRule::error(Test::Named(ReservedNames::new(NamePart::Base, "COM1")), "test"))
            .normalization(normalization)
            .build()
            .unwrap()
    };
    let nfc = policy(normalize::Form::Nfc);
    assert_eq!(nfc.verdict("e\u{301}".as_bytes()), Verdict::Rewrite("é".into()));
    assert_eq!(nfc.verdict("é".as_bytes()), Verdict::Accept("é"));
    assert_eq!(nfc.check("e\u{301}".as_bytes()).outcome(), CheckOutcome::Warn);
    // The compatibility forms make separators and devices of harmless looks.
    let nfkc = policy(normalize::Form::Nfkc);
    for (name, rule) in [
        ("a\u{FF0F}b", RuleId::SeparatorSmuggling),
        ("\u{2025}", RuleId::DotName),
        ("CO\u{FF2D}1", RuleId::ReservedName),
        ("a\u{FF1F}", RuleId::ReservedCharacter),
    ] {
        let Verdict::Reject(violation) = nfkc.verdict(name.as_bytes()) else { panic!("{name} passes") };
        assert_eq!((violation.rule, violation.span), (rule, Span::new(0, name.len())), "{name}");
        let check = nfkc.check(name.as_bytes());
        assert!(check.violations.contains(&violation), "{name}");
        let message = check.message(&nfkc, &violation);
        assert!(message.starts_with("stored as `"), "{name}: {message}");
    }
}

#[test]
fn the_given_and_the_stored_spelling_report_what_each_breaks_and_nothing_twice() {
    let policy = |form, test| {
        let normalization = Normalization { form, on_mismatch: OnMismatch::Convert };
        let line = ProfileRule::error(test, "test");
        Policy::builder().rule(line).normalization(normalization).build().unwrap()
    };
    let found = |policy: &Policy, name: &str| -> Vec<(&'static str, usize, usize)> {
        found(policy, name.as_bytes()).into_iter().filter(|found| found.0 != "not-in-form").collect()
    };
    // Both spellings are too long, and each as a whole.
    let limit = Test::Length(Limit { max: 3, unit: Unit::Utf16In(normalize::Form::Nfd) });
    let nfc = policy(normalize::Form::Nfc, limit);
    assert_eq!(found(&nfc, "e\u{301}bc"), [("name-too-long", 0, 5)]);
    // The one character is there as given, the other only as stored.
    let nfkc = policy(normalize::Form::Nfkc, Test::Reserved(Chars::one_of("?")));
    let both = [("reserved-character", 0, 1), ("reserved-character", 0, 4)];
    assert_eq!(found(&nfkc, "?\u{FF1F}"), both);
}

#[test]
fn a_word_for_which_entries_are_skipped_is_found_where_it_stands() {
    let sharepoint = policy(&["sharepoint"]);
    for name in [&b"desktop.ini"[..], b"a.tmp"] {
        let violations = sharepoint.check(name).violations;
        let left = violations.iter().find(|violation| violation.rule == RuleId::LeftBehind).unwrap();
        let word = sharepoint.skipped_at(name, left.span).expect("the rule has a word");
        assert!(name.ends_with(&word.word), "{name:?}");
        assert!(sharepoint.skipped_at(b"other", Span::new(0, 5)).is_none());
    }
}

#[test]
fn paths_are_checked_only_under_policies_that_limit_them() {
    let (s3, utf8) = (policy(&["s3"]), policy(&["utf8"]));
    assert_eq!((s3.checks_paths(), s3.harmless_path_bytes()), (true, 1024));
    assert_eq!((utf8.checks_paths(), utf8.harmless_path_bytes()), (false, usize::MAX));
    assert!(policy(&["windows"]).finds_collisions() && !utf8.finds_collisions());
}

#[test]
fn refusing_and_matching_leave_the_name_alone() {
    let policy = |on_mismatch| {
        let normalization = Normalization { form: normalize::Form::Nfc, on_mismatch };
        Policy::builder().normalization(normalization).build().unwrap()
    };
    let name = "e\u{301}";
    let refuse = policy(OnMismatch::Refuse);
    assert!(matches!(refuse.verdict(name.as_bytes()), Verdict::Reject(v) if v.rule == RuleId::NotInForm));
    assert_eq!(policy(OnMismatch::Match).verdict(name.as_bytes()), Verdict::Accept(name));
    assert_eq!(policy(OnMismatch::Match).check(name.as_bytes()).outcome(), CheckOutcome::Accept);
}

#[test]
fn severities_can_be_set_but_an_encoding_rule_stays_an_error() {
    let policy = Policy::builder()
        .profiles(&[profile::by_name("strict").unwrap()])
        .severity(RuleId::C0Control, Some(Severity::Warn))
        .severity(RuleId::Delete, None)
        .severity(RuleId::LeadingDash, Some(Severity::Error))
        .severity(RuleId::Overlong, None)
        .build()
        .unwrap();
    assert_eq!(policy.verdict(b"a\nb\x7F"), Verdict::Accept("a\nb\x7F"));
    assert_eq!(found(&policy, b"a\nb\x7F"), [("c0-control", 1, 2)]);
    assert!(matches!(policy.verdict(b"-rf"), Verdict::Reject(_)));
    assert!(matches!(policy.verdict(b"\xC1\x81"), Verdict::Reject(_)));
    let error = Policy::builder().severity(RuleId::ReservedName, Some(Severity::Error)).build().unwrap_err();
    assert!(error.to_string().contains("`reserved-name`"));
}

/// Names that come near every rule.
fn names() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "a",
        "b.txt",
        "CON",
        "nul",
        ".",
        " ",
        "-",
        "~",
        "~$",
        "g",
        ".git",
        "_vti_",
        ".part",
        "é",
        "e\u{301}",
        "日本",
        "\u{1F600}",
        "\u{200D}",
        "\u{202E}",
        "\u{FEFF}",
        "\n",
        "\u{7F}",
        "\u{1B}%G",
        "?",
        "Ã©",
        "\u{FF0F}",
        "\u{2025}",
        "\u{FFFD}",
        "а",
        "\u{E000}",
        "\u{F020}",
        "\u{378}",
        "\u{A0}",
        "0123456789012345678901234567890123456789",
    ]);
    let bad =
        prop::sample::select(vec![&b"\xC0\xAF"[..], b"\xE9", b"\xED\xA0\x80", b"\x80", b"\xFF", b"\0", b"/"]);
    let piece =
        prop_oneof![9 => pieces.prop_map(|s| s.as_bytes().to_vec()), 1 => bad.prop_map(<[u8]>::to_vec)];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// `verdict` and `check` agree, the prefilter hides no violation, and spans lie within the name.
fn agree(policy: &Policy, name: &[u8]) {
    let check = policy.check(name);
    match policy.verdict(name) {
        Verdict::Accept(text) => {
            assert_eq!(text.as_bytes(), name);
            assert_ne!(check.outcome(), CheckOutcome::Reject, "{name:02X?}");
        }
        Verdict::Rewrite(stored) => {
            assert_ne!(check.outcome(), CheckOutcome::Reject, "{name:02X?}");
            assert_eq!(policy.verdict(stored.as_bytes()), Verdict::Accept(&stored));
        }
        Verdict::Reject(violation) => {
            assert_eq!(violation.severity, Severity::Error);
            assert!(check.violations.contains(&violation), "{name:02X?}: {violation:?} not in {check:?}");
        }
    }
    if let Ok(text) = std::str::from_utf8(name)
        && !policy.prefilter.is_suspect(text, &policy.tables)
        && policy.damage(text).is_none()
    {
        let end = policy.each_violation(name, Some(text), Entry::UNKNOWN, &mut Break);
        assert_eq!(end, Continue(()), "the quick look let {name:02X?} pass");
    }
    for violation in &check.violations {
        assert!(violation.span.end <= name.len() && violation.span.start <= violation.span.end);
        let message = check.message(policy, violation);
        assert!(!message.is_empty() && !message.chars().any(char::is_control), "{message:?}");
    }
    let distinct: std::collections::BTreeSet<_> = check.violations.iter().map(|v| (v.span, v.rule)).collect();
    assert_eq!(distinct.len(), check.violations.len(), "one rule, one span, one violation: {check:?}");
}

/// A policy takes longer to build than the check of a name.
static PROFILES: LazyLock<Vec<Policy>> =
    LazyLock::new(|| profile::ALL.iter().map(|profile| Policy::from_profiles(&[profile])).collect());

static NORMALIZATIONS: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let pairs = normalize::Form::ALL.into_iter().flat_map(|form| OnMismatch::ALL.map(|m| (form, m)));
    let policies = pairs.map(|(form, on_mismatch)| {
        let normalization = Normalization { form, on_mismatch };
        Policy::builder().normalization(normalization).build().unwrap()
    });
    policies.chain([everything()]).collect()
});

#[test]
fn code_points_that_pass_the_quick_look_have_no_violation_in_any_company() {
    let profiles = ["portable", "security", "strict"].map(|name| policy(&[name]));
    for policy in profiles.iter().chain(&*NORMALIZATIONS) {
        let (mut text, mut passed) = (String::new(), 0);
        for c in ('\u{80}'..='\u{2FFFF}').rev() {
            let before = text.len();
            text.push(c);
            if policy.prefilter.is_suspect(&text, &policy.tables) || policy.damage(&text).is_some() {
                text.truncate(before);
            } else {
                passed += 1;
            }
            // Short enough for every limit.
            if text.len() > 30 || c == '\u{80}' && !text.is_empty() {
                let end = policy.each_violation(text.as_bytes(), Some(&text), Entry::UNKNOWN, &mut Break);
                assert_eq!(end, Continue(()), "the quick look let {text:?} pass");
                text.clear();
                text.push('e');
            }
        }
        assert!(passed > 0 || policy.tables.plain[RuleId::MixedScript as usize].is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn verdict_and_check_agree_under_every_profile(name in names()) {
        PROFILES.iter().for_each(|policy| agree(policy, &name));
    }

    #[test]
    fn verdict_and_check_agree_with_every_rule_on_and_with_every_normalization(name in names()) {
        NORMALIZATIONS.iter().for_each(|policy| agree(policy, &name));
    }

    #[test]
    fn an_arena_has_the_violations_of_its_names_one_by_one(
        names in prop::collection::vec(names(), 0..4), at in 0..PROFILES.len()
    ) {
        let mut arena = Arena::new();
        for name in &names {
            // An arena stores no NUL.
            let _ = arena.push(name);
        }
        for policy in [&PROFILES[at], &policy(&["utf8"])] {
            let found: Vec<_> = policy.check_arena(&arena).map(|(at, check)| (at, check.violations)).collect();
            let one_by_one = arena.iter().map(|(at, name)| (at, policy.check(name).violations));
            let expected: Vec<_> = one_by_one.filter(|(_, violations)| !violations.is_empty()).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn utf8_accepts_exactly_what_std_accepts_and_a_system_can_store(
        name in prop::collection::vec(any::<u8>(), 0..12)
    ) {
        let storable = !name.is_empty() && name != b"." && name != b".." && !name.contains(&0) && !name.contains(&b'/');
        let accepted = matches!(policy(&["utf8"]).verdict(&name), Verdict::Accept(_));
        prop_assert_eq!(accepted, storable && std::str::from_utf8(&name).is_ok());
    }
}
