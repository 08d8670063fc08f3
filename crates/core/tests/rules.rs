//! Each rule alone: names that break it, with the exact bytes, and similar names that do not.

use std::collections::BTreeSet;

use namegate_core::name::casefold::Fold;
use namegate_core::name::normalize::Form;
use namegate_core::policy::profile::{Chars, Limit, NamePart, ProfileRule, ReservedNames, Test, Unit};
use namegate_core::policy::rule::{RULES, RuleId, Severity};
use namegate_core::policy::{EntryKind, Policy};

/// A policy with only `rule`, with a parameter if it needs one.
fn alone(rule: RuleId) -> Policy {
    let test = match rule {
        RuleId::ReservedCharacter => Test::Reserved(Chars::one_of("?\u{FF1F}")),
        RuleId::ReservedName => Test::Named(ReservedNames::new(NamePart::Base, "NUL/COM\u{B9}")),
        RuleId::LeftBehind => Test::Skipped(ReservedNames::new(NamePart::Whole, "Thumbs.db")),
        RuleId::NameTooLong => Test::Length(Limit { max: 4, unit: Unit::Utf16 }),
        RuleId::PathTooLong => Test::PathLength(Limit { max: 4, unit: Unit::Bytes }),
        RuleId::NotInForm => Test::Form(Form::Nfc),
        RuleId::CollisionNormalization => Test::SameForm(Form::Nfc),
        RuleId::CollisionCase => Test::SameFold { fold: Fold::Full, form: Some(Form::Nfc) },
        RuleId::Unassigned => Test::Unassigned(Some((9, 0))),
        _ if rule.is_always_on() => return Policy::from_profiles(&[]),
        _ => Test::Plain(rule),
    };
    Policy::builder().rule(ProfileRule::error(test, "test")).build().expect("a rule has its parameters")
}

type Breaking = &'static [(&'static [u8], usize, usize)];
type Passing = &'static [&'static [u8]];

/// Names that break the rule, with the span of the violation, and names that do not.
const CASES: &[(&str, Breaking, Passing)] = &[
    (
        "unexpected-continuation",
        &[(b"\x80", 0, 1), (b"a\xBFb", 1, 2), (b"a\x80\x9F\xBF", 1, 4), (b"\xC3\xA9\xA9", 2, 3)],
        &[b"\xC2\x80", b"\xF4\x8F\xBF\xBF"],
    ),
    (
        "truncated",
        &[
            (b"caf\xC3", 3, 4),
            (b"\xC0a", 0, 1),
            (b"\xE2\x82.txt", 0, 2),
            (b"\xF0\x9F\x98", 0, 3),
            (b"\xF8\x88\x80\x80x", 0, 4),
            (b"\xE0\xE0\x80\x80", 0, 1),
        ],
        &[b"caf\xC3\xA9", b"\xE2\x82\xAC.txt"],
    ),
    (
        "overlong",
        &[
            (b"a\xC1\xBF", 1, 3),
            (b"\xC0\x81", 0, 2),
            (b"\xE0\x82\x80", 0, 3),
            (b"\xE0\x9F\xBF", 0, 3),
            (b"\xF0\x80\x81\x81", 0, 4),
            (b"\xF0\x8F\xBF\xBF", 0, 4),
            (b"\xF8\x87\xBF\xBF\xBF", 0, 5),
            (b"\xFC\x83\xBF\xBF\xBF\xBF", 0, 6),
        ],
        &[b"\xC2\x80", b"\xE0\xA0\x80", b"\xF0\x90\x80\x80"],
    ),
    (
        "nul-smuggling",
        &[(b"a\0b", 1, 2), (b"\xC0\x80", 0, 2), (b"\xE0\x80\x80", 0, 3), (b"\xFC\x80\x80\x80\x80\x80", 0, 6)],
        &[b"a0b", b"\x01"],
    ),
    (
        "separator-smuggling",
        &[
            (b"a/b", 1, 2),
            (b"\xC0\xAF", 0, 2),
            (b"a\xC0\xAE", 1, 3),
            (b"\xE0\x80\xAF", 0, 3),
            (b"\xF0\x80\x80\xAE", 0, 4),
            (b"\xF8\x80\x80\x80\xAF", 0, 5),
            (b"\xFC\x80\x80\x80\x80\xAE", 0, 6),
        ],
        &[b"a.b", "\u{2044}\u{2215}\u{FF0F}\u{2024}".as_bytes()],
    ),
    (
        "surrogate",
        &[(b"\xED\xA0\x80", 0, 3), (b"a\xED\xBF\xBFb", 1, 4), (b"\xED\xA0\x80x\xED\xB0\x80", 0, 3)],
        &["\u{D7FF}\u{E000}".as_bytes()],
    ),
    (
        "surrogate-pair",
        &[(b"\xED\xA0\x80\xED\xB0\x80", 0, 6), (b"a\xED\xAF\xBF\xED\xBF\xBF", 1, 7)],
        &["\u{10000}\u{10FFFF}".as_bytes()],
    ),
    (
        "above-max",
        &[(b"\xF4\x90\x80\x80", 0, 4), (b"a\xF5\x80\x80\x80", 1, 5), (b"\xF7\xBF\xBF\xBF", 0, 4)],
        &[b"\xF4\x8F\xBF\xBF"],
    ),
    (
        "five-or-six-octets",
        &[
            (b"\xF8\x88\x80\x80\x80", 0, 5),
            (b"a\xFB\xBF\xBF\xBF\xBF", 1, 6),
            (b"\xFC\x84\x80\x80\x80\x80", 0, 6),
            (b"\xFD\xBF\xBF\xBF\xBF\xBF", 0, 6),
        ],
        &[b"\xF4\x8F\xBF\xBF"],
    ),
    ("invalid-octet", &[(b"\xFE", 0, 1), (b"a\xFFb", 1, 2)], &["\u{FE}\u{FF}".as_bytes()]),
    ("empty-name", &[(b"", 0, 0)], &[b" "]),
    ("dot-name", &[(b".", 0, 1), (b"..", 0, 2)], &[b"...", b".a", b". "]),
    ("c0-control", &[(b"\x01", 0, 1), (b"a\nb", 1, 2), (b"a\x1F", 1, 2)], &[b" ", b"\x7F", b"\xC2\x80"]),
    ("delete", &[(b"a\x7F", 1, 2)], &[b"~", b"\x1F", b"\xC2\x80"]),
    ("c1-control", &[(b"a\xC2\x80", 1, 3), (b"\xC2\x9Fb", 0, 2)], &[b"\x7F", b"\xC2\xA0"]),
    (
        "iso-2022-escape",
        &[(b"\x1B%G", 0, 3), (b"a\x1B%@", 1, 4), (b"\x1B%/G", 0, 4), (b"\x1B%/H", 0, 4), (b"\x1B%/I", 0, 4)],
        &[b"%G", b"\x1B%A", b"\x1B%/F", b"\x1B%", b"\x1B"],
    ),
    (
        "line-separator",
        &[("a\u{2028}".as_bytes(), 1, 4), ("\u{2029}".as_bytes(), 0, 3)],
        &["\u{2027}\u{202A}\u{85}".as_bytes(), b"\n"],
    ),
    (
        "noncharacter",
        &[("\u{FDD0}".as_bytes(), 0, 3), ("a\u{FFFE}".as_bytes(), 1, 4), ("\u{10FFFF}".as_bytes(), 0, 4)],
        &["\u{FDCF}\u{FDF0}\u{FFFD}\u{10000}\u{10FFFD}".as_bytes()],
    ),
    (
        "byte-order-mark",
        &[("\u{FEFF}a".as_bytes(), 0, 3), ("a\u{FEFF}".as_bytes(), 1, 4)],
        &["\u{2060}".as_bytes(), "\u{FFFE}".as_bytes()],
    ),
    (
        "bidi-control",
        &[
            ("\u{61C}".as_bytes(), 0, 2),
            ("a\u{200E}".as_bytes(), 1, 4),
            ("\u{202E}".as_bytes(), 0, 3),
            ("\u{2066}".as_bytes(), 0, 3),
        ],
        &["\u{200D}\u{202F}\u{2065}\u{206A}".as_bytes(), "שלום".as_bytes()],
    ),
    (
        "default-ignorable",
        &[
            ("a\u{200D}b".as_bytes(), 1, 4),
            ("a\u{AD}".as_bytes(), 1, 3),
            ("\u{200B}".as_bytes(), 0, 3),
            ("a\u{FE0F}".as_bytes(), 1, 4),
        ],
        &["می\u{200C}خواهم".as_bytes(), "👩\u{200D}👧".as_bytes(), "❤\u{FE0F}".as_bytes(), b"ab"],
    ),
    (
        "tag-character",
        &[("a\u{E0041}".as_bytes(), 1, 5), ("\u{E0001}".as_bytes(), 0, 4)],
        &["🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}".as_bytes(), "\u{E0100}".as_bytes()],
    ),
    (
        "private-use",
        &[("a\u{E000}".as_bytes(), 1, 4), ("\u{F02A}".as_bytes(), 0, 3), ("\u{10FFFD}".as_bytes(), 0, 4)],
        &["\u{F001}\u{F029}\u{F900}".as_bytes()],
    ),
    (
        "smb-private-use",
        &[("a\u{F001}".as_bytes(), 1, 4), ("\u{F029}".as_bytes(), 0, 3)],
        &["\u{F000}\u{F02A}".as_bytes()],
    ),
    ("replacement-character", &[("a\u{FFFD}".as_bytes(), 1, 4)], &["\u{FFFC}".as_bytes(), b"?"]),
    (
        "unassigned",
        &[("a\u{378}".as_bytes(), 1, 3), ("\u{1F992}".as_bytes(), 0, 4)],
        &["\u{1F951}\u{E000}\u{FFFE}".as_bytes()],
    ),
    (
        "non-ascii-space",
        &[("a\u{A0}b".as_bytes(), 1, 3), ("\u{3000}".as_bytes(), 0, 3)],
        &[b"a b", b"\t", "\u{200B}".as_bytes()],
    ),
    ("reserved-character", &[(b"a?", 1, 2), ("\u{FF1F}".as_bytes(), 0, 3)], &[b"a!", "\u{FF1E}".as_bytes()]),
    ("leading-space", &[(b" a", 0, 1)], &[b"a b ", b"a"]),
    ("trailing-space", &[(b"a ", 1, 2), (b"a  ", 2, 3)], &[b" a", b"a .x"]),
    ("leading-dash", &[(b"-rf", 0, 1)], &[b"a-b", b"_-"]),
    ("leading-tilde", &[(b"~a", 0, 1)], &[b"a~"]),
    ("trailing-dot", &[(b"a.", 1, 2), (b"...", 2, 3)], &[b".a", b"a.b"]),
    (
        "reserved-name",
        &[(b"nul", 0, 3), (b"NUL .txt", 0, 3), (b"Nul.tar.gz", 0, 3), ("com\u{B9}.x".as_bytes(), 0, 5)],
        &[b"null", b"a.nul", b"nu", b" nul", b"com1"],
    ),
    (
        "left-behind",
        &[(b"Thumbs.db", 0, 9), (b"thumbs.DB", 0, 9)],
        &[b"aThumbs.db", b"Thumbs.dbx", b"Thumbs"],
    ),
    (
        "name-too-long",
        &[(b"abcde", 4, 5), ("\u{1F600}\u{1F600}a".as_bytes(), 8, 9), ("aaa\u{1F600}".as_bytes(), 3, 7)],
        &[b"abcd", "日本語字".as_bytes(), "\u{1F600}\u{1F600}".as_bytes()],
    ),
    (
        "not-in-form",
        &[("ae\u{301}b".as_bytes(), 1, 4), ("\u{212B}".as_bytes(), 0, 3)],
        &["é".as_bytes(), b"e"],
    ),
    (
        "mixed-script",
        &[("my p\u{430}ypal".as_bytes(), 3, 10)],
        &["отчёт report".as_bytes(), "東京Tower".as_bytes()],
    ),
    (
        "dot-git-lookalike",
        &[(b".GIT", 0, 4), (b"git~1", 0, 5), (b".git. ", 0, 6), (".g\u{200C}it".as_bytes(), 0, 7)],
        &[b".git", b"git~2", b".github"],
    ),
    ("lost-characters", &[(b"??.txt", 0, 2), (b"a ???-b", 2, 5), (b"?", 0, 1)], &[b"what??", b"a ?", b"?a"]),
    ("mojibake", &[("caf\u{C3}\u{A9}".as_bytes(), 3, 7)], &["café".as_bytes(), "N\u{C3}O".as_bytes()]),
];

#[test]
fn each_rule_finds_its_bytes_and_allows_similar_names() {
    for &(rule, breaking, passing) in CASES {
        let rule: RuleId = rule.parse().expect("a rule");
        let policy = alone(rule);
        let spans = |name: &[u8]| -> Vec<(usize, usize)> {
            let all = policy.check(name).violations.into_iter().filter(|v| v.rule == rule);
            all.map(|v| (v.span.start, v.span.end)).collect()
        };
        for &(name, start, end) in breaking {
            assert_eq!(spans(name).first(), Some(&(start, end)), "{rule}: {name:02X?}");
            // After a valid prefix the same bytes are found, except by rules about the ends or the whole of a name.
            if rule.rule().kind.as_str() == "scalar" {
                let shifted = [b"xy ", name].concat();
                assert_eq!(spans(&shifted).first(), Some(&(start + 3, end + 3)), "{rule}: {shifted:02X?}");
            }
        }
        for name in passing {
            assert_eq!(spans(name), [], "{rule}: {name:02X?}");
        }
        assert!(!breaking.is_empty() && !passing.is_empty());
    }
}

#[test]
fn the_rules_of_directories_and_paths_find_their_violations() {
    let together = |rule: RuleId, names: &[&str]| {
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let groups = alone(rule).collisions(&names);
        groups.iter().flat_map(|g| g.violations.iter().map(|v| (v.rule, v.span.end))).collect::<Vec<_>>()
    };
    for (rule, same, apart) in [
        (RuleId::CollisionNormalization, ["é", "e\u{301}"], ["e", "E"]),
        (RuleId::CollisionCase, ["straße", "STRASSE"], ["é", "e\u{301}"]),
        (RuleId::CollisionConfusable, ["scope", "ѕсоре"], ["scope", "Scope"]),
    ] {
        assert_eq!(together(rule, &same), same.map(|name| (rule, name.len())), "the whole of both names");
        assert_eq!(together(rule, &apart), []);
    }
    let path = alone(RuleId::PathTooLong);
    let spans = |text: &str| {
        path.check_path(text.as_bytes(), EntryKind::Unknown)
            .iter()
            .map(|v| (v.span.start, v.span.end))
            .collect::<Vec<_>>()
    };
    assert_eq!((spans("ab/cd"), spans("a/cd")), (vec![(4, 5)], vec![]));
}

#[test]
fn every_rule_has_its_cases() {
    let listed: BTreeSet<&str> = CASES.iter().map(|case| case.0).collect();
    // Those of directories and paths are in other tests; `collision-kind` is found where paths are put together.
    let others = [
        "collision-normalization",
        "collision-case",
        "collision-confusable",
        "collision-kind",
        "path-too-long",
    ];
    let all: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(listed.union(&BTreeSet::from(others)).copied().collect::<BTreeSet<_>>(), all);
}

#[test]
fn an_encoding_rule_is_an_error_under_every_policy_and_no_setting_weakens_it() {
    for rule in RULES.iter().filter(|rule| rule.id.is_always_on()) {
        for severity in [None, Some(Severity::Warn)] {
            let policy =
                Policy::builder().severity(rule.id, severity).build().expect("no parameter is missing");
            let (_, breaking, _) =
                CASES.iter().find(|case| case.0 == rule.name).expect("every rule has cases");
            for (name, ..) in *breaking {
                let found = policy.check(name).violations;
                assert!(
                    found.iter().any(|v| v.rule == rule.id && v.severity == Severity::Error),
                    "{}",
                    rule.name
                );
            }
        }
    }
}
