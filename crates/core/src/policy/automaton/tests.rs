use std::collections::BTreeSet;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::policy::compile::Normalization;
use crate::policy::profile::{self, Chars, NamePart, Profile, ProfileRule, ReservedNames};
use crate::policy::{PolicyBuilder, Verdict};

/// A policy, its automaton, and the policy of the covered rules alone, by which the automaton is checked.
struct Subject {
    name: String,
    automaton: Automaton,
    covered: Policy,
}

impl Subject {
    fn new(name: &str, policy: PolicyBuilder) -> Self {
        let policy = policy.build().unwrap();
        let coverage = Coverage::new(&policy);
        let mut covered = Policy::builder();
        for rule in &coverage.covered {
            covered = covered.rule(ProfileRule::error(rule.test.clone(), rule.source));
        }
        let automaton = Automaton::new(&coverage).unwrap();
        Self { name: name.into(), automaton, covered: covered.build().unwrap() }
    }

    fn check(&self, name: &[u8]) {
        let refused = matches!(self.covered.verdict(name), Verdict::Reject(_));
        assert_eq!(
            self.automaton.refuses(name),
            refused,
            "{}: {:?}",
            self.name,
            name.escape_ascii().to_string()
        );
    }
}

/// A policy of profiles in which every rule is an error, warnings too.
fn with_errors_only(profiles: &[&str]) -> PolicyBuilder {
    let profiles: Vec<_> = profiles.iter().map(|name| profile::by_name(name).unwrap()).collect();
    let rules = profiles.iter().flat_map(|p| p.all_rules()).map(|rule| rule.test.rule());
    rules.fold(Policy::builder().profiles(&profiles), |b, id| b.severity(id, Some(Severity::Error)))
}

/// The policies of the quick tests: those with the most different rules.
static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let profiles = ["utf8", "windows", "sharepoint", "iso9660"].map(|name| profile::by_name(name).unwrap());
    let mut subjects: Vec<Subject> =
        profiles.iter().map(|p| Subject::new(p.name, Policy::builder().profiles(&[*p]))).collect();
    subjects
        .push(Subject::new("errors only", with_errors_only(&["strict", "security", "macos", "nextcloud"])));
    subjects.push(Subject::new("configured", configured()));
    subjects
});

/// Rules that no profile has.
fn configured() -> PolicyBuilder {
    let words = |part, words| ProfileRule::error(Test::Named(ReservedNames::new(part, words)), "a test");
    Policy::builder()
        .rule(words(NamePart::Base, "a b/c./d:/e /Ä/x"))
        .rule(words(NamePart::Suffix, "~/.TMP"))
        .rule(words(NamePart::Repeated, "ab/\u{2003}"))
        .rule(words(NamePart::Anywhere, "aab"))
        .severity(RuleId::Mojibake, Some(Severity::Error))
        .severity(RuleId::TagCharacter, Some(Severity::Error))
        .severity(RuleId::DotGitLookalike, Some(Severity::Error))
        .severity(RuleId::Iso2022Escape, Some(Severity::Error))
        .rule(ProfileRule::error(Test::Reserved(Chars::one_of("\u{E0062}z")), "a test"))
        .rule(ProfileRule::error(Test::Length(Limit { max: 9, unit: Unit::Utf16 }), "a test"))
}

/// Names of `len` bytes out of `bytes`.
fn strings(bytes: &[u8], len: usize, check: &mut dyn FnMut(&[u8])) {
    let mut at = vec![0; len];
    loop {
        let name: Vec<u8> = at.iter().map(|&at| bytes[at]).collect();
        check(&name);
        let Some(place) = at.iter().rposition(|&at: &usize| at + 1 < bytes.len()) else { return };
        at[place] += 1;
        at[place + 1..].fill(0);
    }
}

/// Where the grammar of UTF-8 changes, and ASCII that rules name.
const BOUNDARIES: [u8; 34] = [
    0x00, 0x1B, b'%', b'.', b'/', b'A', b'~', 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2,
    0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF7, 0xF8, 0xFC, 0xFE, 0xFF,
];

fn all_bytes() -> Vec<u8> {
    (0..=0xFF).collect()
}

#[test]
fn short_strings_are_refused_by_the_automaton_as_by_the_policy() {
    SUBJECTS.iter().for_each(|subject| {
        (0..=1).for_each(|len| strings(&all_bytes(), len, &mut |name| subject.check(name)));
        (2..=3).for_each(|len| strings(&BOUNDARIES, len, &mut |name| subject.check(name)));
    });
}

#[test]
fn code_points_are_refused_by_the_automaton_as_by_the_policy() {
    // Every code point stands in for its neighbours, each time another one.
    SUBJECTS.iter().for_each(|subject| check_code_points(subject, 199));
}

/// Each `step`th code point alone and in context.
fn check_code_points(subject: &Subject, step: usize) {
    let mut name = String::new();
    for c in ('\0'..=char::MAX).skip(subject.name.len() % step).step_by(step) {
        for (before, after) in
            [("", ""), ("a", ".txt"), ("\u{1F3F4}", ""), ("com1 ", ""), (".g", "it"), (" ", " ")]
        {
            name.clear();
            name.extend([before, c.encode_utf8(&mut [0; 4]), after]);
            subject.check(name.as_bytes());
        }
    }
}

/// All strings up to three bytes, the boundaries with four, all code points, reserved names in all cases, and random names, under every
/// profile, once as it is and once with errors only: over twenty million names each.
#[test]
#[ignore = "takes minutes even when optimized: scripts/test-exhaustive runs it"]
fn all_short_strings_and_all_code_points_are_refused_by_the_automaton_as_by_the_policy() {
    let words = reserved_words();
    let check = |subject: Subject| {
        (0..=3).for_each(|len| strings(&all_bytes(), len, &mut |name| subject.check(name)));
        strings(&BOUNDARIES, 4, &mut |name| subject.check(name));
        check_code_points(&subject, 1);
        check_reserved_names(&subject, &words, 12);
        check_random_names(std::slice::from_ref(&subject), 200_000);
        let states = subject.automaton.state_count();
        println!("{}: {states} states, {} classes of bytes", subject.name, subject.automaton.stride());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let as_it_is = |p: &&'static Profile| Subject::new(p.name, Policy::builder().profiles(&[*p]));
            profile::ALL.iter().map(as_it_is).for_each(check);
        });
        let warns = |p: &&&'static Profile| p.all_rules().iter().any(|rule| rule.severity == Severity::Warn);
        let errors_only =
            |p: &&'static Profile| Subject::new(&format!("{p}, errors only"), with_errors_only(&[p.name]));
        profile::ALL.iter().filter(warns).map(errors_only).for_each(check);
        check(Subject::new("configured", configured()));
    });
}

#[test]
fn reserved_names_are_refused_by_the_automaton_as_by_the_policy_in_every_case_and_context() {
    let words = reserved_words();
    SUBJECTS.iter().for_each(|subject| check_reserved_names(subject, &words, 4));
}

/// The reserved names of all profiles, and names that look like them.
fn reserved_words() -> BTreeSet<String> {
    let named = |rule: &ProfileRule| match &rule.test {
        Test::Named(names) => names.iter().map(str::to_owned).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let words = profile::ALL.iter().flat_map(|p| p.all_rules()).flat_map(named);
    words
        .chain(crate::policy::dotgit::own_names().map(str::to_owned))
        .chain(["git~1", "gitmod~1", "GI7EB~10", "gi250a~9", "~1000000", "a b", "x", "Ä"].map(str::to_owned))
        .collect()
}

/// Each word in context, with its first `most` letters in every combination of upper and lower case.
fn check_reserved_names(subject: &Subject, words: &BTreeSet<String>, most: usize) {
    for word in words {
        let letters: Vec<usize> =
            (0..word.len()).filter(|&at| word.as_bytes()[at].is_ascii_alphabetic()).take(most).collect();
        for cases in 0..1_u32 << letters.len() {
            let mut name = word.to_ascii_lowercase().into_bytes();
            for (bit, &at) in letters.iter().enumerate() {
                if cases >> bit & 1 == 1 {
                    name[at].make_ascii_uppercase();
                }
            }
            for (before, after) in CONTEXTS {
                subject.check(&[before, name.as_slice(), after].concat());
            }
        }
    }
}

const CONTEXTS: [(&[u8], &[u8]); 18] = [
    (b"", b""),
    (b"", b"."),
    (b"", b" "),
    (b"", b".txt"),
    (b"", b" .txt"),
    (b"", b" :txt"),
    (b"", b":x\\y"),
    (b"", b"\\x"),
    (b"", b"x"),
    (b"", b". . "),
    (b"", "\u{200C}".as_bytes()),
    (b"x\\", b""),
    (b"x\\", b" .:"),
    (b".", b""),
    (b" ", b""),
    (b"x", b""),
    (b"x", b"x"),
    (b"", b"\xFF"),
];

/// What rules look for, and parts of it.
const PIECES: [&[u8]; 27] = [
    b"con",
    b"aux",
    b"COM1",
    b".git",
    b"gitmod",
    b"~1",
    b".",
    b" ",
    b":",
    b"\\",
    b"-",
    b"~",
    b"aab",
    b"_vti_",
    b".part",
    b"\x1B%G",
    b"\x1B%/H",
    "\u{1F3F4}\u{E0067}\u{E0063}\u{E0065}".as_bytes(),
    "\u{E007F}".as_bytes(),
    "\u{E0067}".as_bytes(),
    "\u{200D}".as_bytes(),
    "\u{202E}".as_bytes(),
    "\u{1F600}".as_bytes(),
    "é".as_bytes(),
    b"\xE2\x80",
    b"\xF0\x9F",
    b"\xED\xA0\x80",
];

/// Names of such pieces, and names about as long as the limits.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => select(PIECES.as_slice()).prop_map(<[u8]>::to_vec),
        2 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    let long = (select(["a", "é", "日", "\u{1F600}"].as_slice()), 60..260_usize)
        .prop_map(|(c, n)| c.repeat(n).into_bytes());
    prop_oneof![
        6 => prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat()),
        1 => long,
    ]
}

#[test]
fn random_names_are_refused_by_the_automaton_as_by_the_policy() {
    check_random_names(&SUBJECTS, 500);
}

fn check_random_names(subjects: &[Subject], cases: u32) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(name in name())| {
        subjects.iter().for_each(|subject| subject.check(&name));
    });
}

#[test]
fn automata_are_as_small_as_they_can_be() {
    let states = |profiles: &[&str]| {
        let profiles: Vec<_> = profiles.iter().map(|name| profile::by_name(name).unwrap()).collect();
        let policy = Policy::from_profiles(&profiles);
        Automaton::new(&Coverage::new(&policy)).unwrap().state_count()
    };
    // The start, `.` and `..`, a whole code point, what may follow a lead byte (eight kinds), and refusal: no two are equal.
    assert_eq!(states(&["utf8"]), 12);
    assert_eq!(states(&["strict"]), 19);
    assert_eq!(states(&["windows"]), 29);
    assert_eq!(states(&["portable"]), 341);
}

#[test]
fn what_no_automaton_can_check_is_named() {
    let left_out = |policy: &Policy| {
        let coverage = Coverage::new(policy);
        coverage.left_out.iter().map(|left| format!("{}: {}", left.rule, left.obstacle)).collect::<Vec<_>>()
    };
    let of = |name| left_out(&Policy::from_profiles(&[profile::by_name(name).unwrap()]));
    assert!(
        of("utf8").is_empty() && of("strict").is_empty() && of("git").is_empty() && of("security").is_empty()
    );
    assert_eq!(of("udf"), ["name-too-long: it counts in a unit of its own"]);
    assert_eq!(
        of("portable"),
        [
            "name-too-long: it depends on a normalization form",
            "collision-normalization: it depends on other names",
            "collision-case: it depends on other names",
            "path-too-long: it depends on other names",
        ]
    );
    let converts =
        Normalization { form: crate::name::normalize::Form::Nfc, on_mismatch: OnMismatch::Convert };
    let converts = Policy::builder().normalization(converts).build().unwrap();
    assert_eq!(left_out(&converts), ["not-in-form: it depends on a normalization form"]);
    let deceptive = with_errors_only(&["security"]).build().unwrap();
    assert_eq!(
        left_out(&deceptive),
        [
            "default-ignorable: it depends on the text around a code point",
            "mixed-script: it reads words",
            "mojibake: it reads words",
            "collision-normalization: it depends on other names",
            "collision-confusable: it depends on other names",
        ]
    );
}

#[test]
fn a_policy_that_needs_too_much_memory_is_an_error() {
    let words: Vec<String> =
        (0..100_000_u32).map(|n| format!("{:08x}", n.wrapping_mul(0x9E37_79B9))).collect();
    let names = ReservedNames {
        part: NamePart::Anywhere,
        words: words.join("/").into(),
        applies_to: AppliesTo::Everything,
    };
    let policy = Policy::builder().rule(ProfileRule::error(Test::Named(names), "a test")).build().unwrap();
    let error = Automaton::new(&Coverage::new(&policy)).unwrap_err();
    assert!(error.to_string().starts_with("the policy is too large for an automaton: "), "{error}");
}
