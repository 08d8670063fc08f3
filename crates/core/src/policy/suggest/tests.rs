use std::time::{Duration, Instant};

use super::*;
use crate::name::casefold::Fold;
use crate::policy::profile::{self, Chars, NamePart, ProfileRule, ReservedNames};
use crate::policy::rule::{RULES, RuleKind};
use crate::policy::{Normalization, OnMismatch};

fn policy(rules: Vec<ProfileRule>) -> Policy {
    rules.into_iter().fold(Policy::builder(), |builder, rule| builder.rule(rule)).build().unwrap()
}

fn error(test: Test) -> ProfileRule {
    ProfileRule::error(test, "test")
}

fn limit(max: usize, unit: Unit) -> ProfileRule {
    error(Test::Length(Limit { max, unit }))
}

/// Like Windows, macOS and SharePoint together.
pub(super) fn desktop() -> Policy {
    policy(vec![
        error(Test::Plain(RuleId::C0Control)),
        error(Test::Reserved(Chars::one_of("<>:\"\\|?*"))),
        error(Test::Plain(RuleId::TrailingDot)),
        error(Test::Plain(RuleId::TrailingSpace)),
        error(Test::Plain(RuleId::LeadingSpace)),
        error(Test::Named(ReservedNames::new(NamePart::Base, "CON/NUL/AUX/COM1/COM\u{B9}/CONIN$"))),
        error(Test::Named(ReservedNames::new(NamePart::Whole, "desktop.ini/.lock"))),
        error(Test::Named(ReservedNames::new(NamePart::Prefix, "~$"))),
        error(Test::Named(ReservedNames::new(NamePart::Suffix, ".part"))),
        error(Test::Named(ReservedNames::new(NamePart::Anywhere, "_vti_"))),
        limit(40, Unit::Utf16),
        limit(60, Unit::BytesIn(Form::Nfd)),
        error(Test::SameForm(Form::Nfc)),
        error(Test::SameFold { fold: Fold::Upcase, form: Some(Form::Nfc) }),
        ProfileRule::warn(Test::Plain(RuleId::SmbPrivateUse), "test"),
        ProfileRule::warn(Test::Form(Form::Nfc), "test"),
    ])
}

/// Every rule without a parameter, at `severity`.
pub(super) fn suspicious(severity: Severity) -> Policy {
    let mut builder = Policy::builder();
    for rule in RULES {
        if !rule.id.needs_parameter() && rule.kind != RuleKind::Encoding {
            builder = builder.severity(rule.id, Some(severity));
        }
    }
    builder.build().unwrap()
}

/// Like ISO 9660, level 1.
pub(super) fn optical() -> Policy {
    policy(vec![
        error(Test::Reserved(Chars::AllBut("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."))),
        limit(8, Unit::StemCodePoints),
        limit(3, Unit::ExtensionCodePoints),
        error(Test::SameFold { fold: Fold::Ascii, form: None }),
    ])
}

fn normalizing(form: Form, on_mismatch: OnMismatch) -> Policy {
    let normalization = Normalization { form, on_mismatch };
    let builder = Policy::builder().rule(error(Test::Reserved(Chars::one_of(":\u{FF1A}"))));
    let builder = builder.rule(error(Test::SameForm(form))).rule(limit(50, Unit::OstaBytes));
    builder.normalization(normalization).build().unwrap()
}

fn suggested(name: &str, confidence: Confidence) -> SuggestedName {
    SuggestedName { name: name.to_owned(), confidence, is_shortened: false, decoded: None }
}

/// The policy with suggested names for everything.
pub(super) fn thorough(policy: Policy) -> Policy {
    policy.with_repairs(RepairScope { min_severity: Severity::Warn, shortens: true })
}

pub(super) fn policies() -> Vec<Policy> {
    let each = profile::ALL.iter().map(|&profile| Policy::from_profiles(&[profile]));
    let own = [
        desktop(),
        suspicious(Severity::Error),
        suspicious(Severity::Warn),
        optical(),
        normalizing(Form::Nfc, OnMismatch::Refuse),
        normalizing(Form::Nfd, OnMismatch::Convert),
        normalizing(Form::Nfkc, OnMismatch::Convert),
        normalizing(Form::Nfc, OnMismatch::Match),
        Policy::from_profiles(profile::ALL),
        Policy::from_profiles(&[]),
    ];
    let all: Vec<Policy> = each.chain(own).collect();
    all.iter().cloned().map(thorough).chain(all.iter().cloned()).collect()
}

pub(super) fn repaired(policy: &Policy, name: &[u8]) -> Option<String> {
    policy.suggest_name(name, EncodingHint::Unknown, &mut |_| false).map(|repair| repair.name)
}

#[test]
fn each_violation_has_the_smallest_change() {
    let (desktop, error) = (thorough(desktop()), suspicious(Severity::Error));
    let warn = thorough(suspicious(Severity::Warn));
    let cases: &[(&Policy, &str, Option<&str>)] = &[
        (&desktop, "good name.txt", None),
        (&desktop, "what?.txt", Some("what.txt")),
        (&desktop, "a\tb", Some("a b")),
        (&desktop, "two\nlines.txt", Some("two lines.txt")),
        (&desktop, "two\r\n\t lines.txt", Some("two lines.txt")),
        (&desktop, "\ttwo\nlines\n.txt\n", Some("two lines.txt")),
        (&desktop, "a\u{1}b", Some("ab")),
        (&error, "a\u{2028}b\u{2029}", Some("a b")),
        (&error, "\u{1B}[31mred\u{1B}[0m", Some("red")),
        (&desktop, "name. . .", Some("name")),
        (&desktop, " x ", Some("x")),
        (&desktop, "...", Some("_")),
        (&desktop, "", Some("_")),
        (&desktop, ".", Some("_")),
        (&desktop, "a/b\0", Some("a_b_")),
        (&desktop, "con", Some("con_")),
        (&desktop, "CON.tar.gz", Some("CON_.tar.gz")),
        (&desktop, "nul .txt", Some("nul_ .txt")),
        (&desktop, "COM\u{B9}", Some("COM\u{B9}_")),
        (&desktop, "CON.", Some("CON_")),
        (&desktop, "Desktop.ini", Some("Desktop_.ini")),
        (&desktop, ".lock", Some(".lock_")),
        (&desktop, "~$draft.docx", Some("_~$draft.docx")),
        (&desktop, "film.PART", Some("film.PART_")),
        (&desktop, "a_vti_b_VTI_", Some("a-vti-b-VTI")),
        (&desktop, "cafe\u{301}", Some("café")),
        (&desktop, "12\u{F022}30", Some("12_30")),
        (&desktop, "_vti_", Some("vti")),
        (&desktop, "_VTI_cnf_vti_.txt", Some("VTI-cnf-vti.txt")),
        (&desktop, "x\u{F029}", Some("x")),
        (&desktop, "x\u{F003}", Some("x")),
        (&desktop, "\u{F028}y\u{F029}z", Some("y.z")),
        (&warn, "12\u{F022}30\u{F025}", Some("12:30?")),
        (&error, "a\u{A0}b\u{3000}", Some("a b")),
        (&error, "a\u{202E}b\u{FEFF}c\u{E0041}\u{200B}", Some("abc")),
        (&error, "x\u{1B}%Gy", Some("xy")),
        (&error, "x\u{1B}%8y", Some("xy")),
        (&error, "a\u{85}\u{7F}\u{2028}b", Some("a b")),
        (&error, "-rf", Some("_-rf")),
        (&error, "~x", Some("_~x")),
        (&error, "a\u{FFFD}\u{E000}", Some("a__")),
        (&warn, "a\u{FFFD}\u{E000}", None),
        (&error, "p\u{430}ypal", Some("p_ypal")),
        (&warn, "p\u{430}ypal", None),
        (&error, "caf\u{C3}\u{A9}.txt", Some("café.txt")),
        (&error, "\u{C3}\u{A0} la carte", Some("à la carte")),
        (&error, "می\u{200C}خواهم.txt", None),
        (&error, ".git", None),
        (&error, ".GIT", Some("_.GIT")),
        (&error, ".git ", Some("_.git")),
        (&error, ".g\u{200C}it", Some("_.git")),
        (&error, "git~1", Some("_git~1")),
        (&error, ".gitmodules.", Some("_.gitmodules")),
        (&error, ".GIT\\hooks", Some(".GIT_hooks")),
        (&desktop, ".git. ", Some("_.git")),
    ];
    for &(policy, name, expected) in cases {
        assert_eq!(repaired(policy, name.as_bytes()).as_deref(), expected, "{name:?}");
    }
}

/// What a person would choose: the words stay apart, the extension stays, and nothing more changes than has to.
#[test]
fn names_as_people_have_them_become_names_as_people_would_write_them() {
    let policy = ["portable", "strict", "security"].map(|p| profile::by_name(p).unwrap());
    let policy = thorough(Policy::from_profiles(&policy));
    let cases: &[(&[u8], &str)] = &[
        (b"two\nlines.txt", "two lines.txt"),
        (b"tab\tseparated.csv", "tab separated.csv"),
        (b"\tindented.txt", "indented.txt"),
        (b"end\n", "end"),
        (b"file.txt\r\n", "file.txt"),
        (b"file\n.txt", "file.txt"),
        (b"one\r\ntwo\r\nthree", "one two three"),
        (b"one \n two", "one  two"),
        (b"Icon\r", "Icon"),
        (b"\r\n", "_"),
        (b"a\x0B\x0Cb", "a b"),
        ("a\u{2028}b.txt".as_bytes(), "a b.txt"),
        ("a\u{85}b.txt".as_bytes(), "a b.txt"),
        (b"bell\x07.txt", "bell.txt"),
        (b"AC\x7FDC.mp3", "ACDC.mp3"),
        (b"\x1B[31mred\x1B[0m.txt", "red.txt"),
        (b"\x1B[1;32mgreen", "green"),
        (b"\x1B]0;title", "]0;title"),
        (b"x\x1B%Gy.txt", "xy.txt"),
        (b"x\x1B$B_y\x1B(B.txt", "x_y.txt"),
        (b"\x1B$(Da\x1B.Ab\x1B-Ac", "abc"),
        (b"x\x1B%/Gy\x1B%/Fz", "xyz"),
        (b"\x1B(copy).txt", "(copy).txt"),
        (b"a\x1B.txt", "a.txt"),
        (b"report .", "report"),
        (b"file.txt ", "file.txt"),
        (b"file.txt.", "file.txt"),
        (b"file...", "file"),
        (b"...", "_"),
        (b" ", "_"),
        (b" leading.txt", "leading.txt"),
        (b"what?.txt", "what.txt"),
        (b"a:b.txt", "a_b.txt"),
        (b"12:30 meeting.ics", "12_30 meeting.ics"),
        (b"2024-01-01T12:00:00.log", "2024-01-01T12_00_00.log"),
        (b"Q&A <final>.docx", "Q&A final.docx"),
        (b"\"quoted\".txt", "quoted.txt"),
        (b"Dr. Who: Ep. 1.", "Dr. Who Ep. 1"),
        (b"C:\\me\\file.txt", "C__me_file.txt"),
        (b"a / b", "a _ b"),
        (b"a\0b", "a_b"),
        (b"*.tmp", "_.tmp"),
        (b"CON", "CON_"),
        (b"con.", "con_"),
        (b"aux.h", "aux_.h"),
        (b"nul .txt", "nul_ .txt"),
        (b"prn.tar.gz", "prn_.tar.gz"),
        (b"-rf", "_-rf"),
        (b"~backup", "_~backup"),
        (b"caf\xE9.txt", "café.txt"),
        (b"na\xEFve r\xE9sum\xE9.pdf", "naïve résumé.pdf"),
        (b"\xDCbersicht.doc", "Übersicht.doc"),
        (b"\xCF\xF0\xE8\xE2\xE5\xF2.txt", "Привет.txt"),
        (b"\x83e\x83X\x83g.txt", "テスト.txt"),
        (b"\xED\xA0\xBD\xED\xB8\x80.png", "\u{1F600}.png"),
        (b"\xC0\xAF..\xC0\xAFetc", "␦C0␦AF..␦C0␦AFetc"),
        ("zero\u{200B}width.txt".as_bytes(), "zerowidth.txt"),
        ("gnp.\u{202E}exe".as_bytes(), "gnp.exe"),
        ("\u{FEFF}bom.txt".as_bytes(), "bom.txt"),
        ("soft\u{AD}hyphen.txt".as_bytes(), "softhyphen.txt"),
        ("nb\u{A0}space.txt".as_bytes(), "nb space.txt"),
        ("\u{3000}全角\u{3000}空白.txt".as_bytes(), "全角 空白.txt"),
        ("x\u{FFFE}y.txt".as_bytes(), "xy.txt"),
        ("12\u{F022}30.txt".as_bytes(), "12_30.txt"),
        ("name\u{F028}".as_bytes(), "name"),
        (b".g\xE2\x80\x8Cit", "_.git"),
    ];
    for &(name, expected) in cases {
        assert_eq!(repaired(&policy, name).as_deref(), Some(expected), "{:?}", String::from_utf8_lossy(name));
        assert!(matches!(policy.verdict(expected.as_bytes()), Verdict::Accept(_)), "{expected}");
    }
    let posix = Policy::from_profiles(&[profile::by_name("posix").unwrap()]);
    assert_eq!(repaired(&posix, b"a\nb.txt").as_deref(), Some("a_b.txt"), "a space is not taken there");
}

#[test]
fn letters_that_a_target_lacks_become_the_nearest_that_it_has() {
    for (name, expected) in [
        ("readme.txt", "README.TXT"),
        ("café.md", "CAFE.MD"),
        ("cafe\u{301}", "CAFE"),
        ("a long name.jpeg", "A_LONG_N.JPE"),
        ("über-größe", "UBER_GRO"),
        ("archive.tar.gz", "ARCHIVE.GZ"),
    ] {
        let policy = thorough(optical());
        assert_eq!(repaired(&policy, name.as_bytes()).as_deref(), Some(expected), "{name}");
    }
}

#[test]
fn letters_are_given_up_only_where_they_are_errors_and_then_with_little_confidence() {
    let ascii = Chars::AllBut("abcdefghijklmnopqrstuvwxyz0123456789_.");
    let refusing = policy(vec![error(Test::Reserved(ascii.clone()))]);
    let repair = refusing.suggest_name("日本!.txt".as_bytes(), EncodingHint::Unknown, &mut |_| false);
    assert_eq!(repair, Some(suggested("__.txt", Confidence::Guess)));
    let warning = thorough(policy(vec![ProfileRule::warn(Test::Reserved(ascii), "test")]));
    assert_eq!(repaired(&warning, "日本!é.txt".as_bytes()).as_deref(), Some("日本_e.txt"));
    assert_eq!(repaired(&warning, "日本.txt".as_bytes()), None);
}

#[test]
fn a_name_that_no_change_makes_valid_has_no_suggested_name() {
    let nothing = policy(vec![error(Test::Reserved(Chars::AllBut("")))]);
    assert_eq!(repaired(&nothing, b"abc"), None);
    let both = policy(vec![error(Test::Form(Form::Nfc)), error(Test::Form(Form::Nfd))]);
    assert_eq!(repaired(&both, "é".as_bytes()), None);
    let empty = policy(vec![limit(0, Unit::Bytes)]);
    assert_eq!(repaired(&empty, b"abc"), None);
}

#[test]
fn a_long_name_is_shortened_to_every_limit() {
    let (desktop, thorough) = (desktop(), thorough(desktop()));
    let name = format!("{}.txt", "é".repeat(50));
    assert_eq!(repaired(&desktop, name.as_bytes()), None, "no name is shortened unless that is requested");
    // Three bytes each in NFD, and the extension.
    let shorter = thorough.suggest_name(name.as_bytes(), EncodingHint::Unknown, &mut |_| false).unwrap();
    assert_eq!(shorter.name, format!("{}.txt", "é".repeat(18)));
    assert_eq!((shorter.confidence, shorter.is_shortened), (Confidence::Guess, true));
    let name = format!("{}.txt", "\u{1F600}".repeat(50));
    assert_eq!(repaired(&thorough, name.as_bytes()), Some(format!("{}.txt", "\u{1F600}".repeat(14))));
    // No limit was asked for, but what was read must be a name that can be given.
    let cyrillic = b"\xC6\xCF\xD4\xCF ".repeat(40);
    let koi8 = EncodingHint::Given("koi8-r".parse().unwrap());
    let utf8 = Policy::from_profiles(&[]);
    assert_eq!(utf8.suggest_name(&cyrillic, koi8, &mut |_| false), None);
    let read = self::thorough(utf8).suggest_name(&cyrillic, koi8, &mut |_| false).unwrap();
    assert!(
        read.name.starts_with("фото фото") && (240..=255).contains(&read.name.len()),
        "{}",
        read.name.len()
    );
}

#[test]
fn bytes_are_read_by_structure_by_the_encoding_or_escaped() {
    use Confidence::{Certain, Guess, Likely};
    let policy = policy(vec![]);
    let cases: &[(&[u8], Option<&str>, &str, Confidence)] = &[
        (b"\xED\xA0\xBD\xED\xB8\x80.txt", None, "\u{1F600}.txt", Certain),
        (b"\xED\xA0\xBD\xED\xB8\x80.txt", Some("koi8-r"), "\u{1F600}.txt", Certain),
        // Overlong forms of ASCII: never `abc`, `x;rm` and `-rf`.
        (b"\xC1\xA1bc", None, "\u{2426}C1\u{2426}A1bc", Guess),
        (b"\xC1\xA1bc", Some("latin1"), "\u{2426}C1\u{2426}A1bc", Guess),
        (b"x\xC0\xBBrm", None, "x\u{2426}C0\u{2426}BBrm", Guess),
        (b"\xC0\xADrf", None, "\u{2426}C0\u{2426}ADrf", Guess),
        // The same bytes are a syllable to a Korean.
        (b"\xC1\xB6.txt", Some("euc-kr"), "조.txt", Likely),
        (b"caf\xE9", None, "café", Guess),
        (b"caf\xE9", Some("latin1"), "café", Likely),
        (b"caf\xE9", Some("ibm866"), "cafщ", Likely),
        (b"caf\xE9.", Some("shift_jis"), "caf\u{2426}E9.", Guess),
        (b"a\xED\xA0\x80b", None, "a\u{2426}ED\u{2426}A0\u{2426}80b", Guess),
        (b"a\xED\xA0\x80b", Some("latin1"), "a\u{2426}ED\u{2426}A0\u{2426}80b", Guess),
        (b"\xED\xAA\xAE", Some("ibm866"), "эко", Likely),
        (b"..\xC0\xAF..", None, "..\u{2426}C0\u{2426}AF..", Guess),
        (b"\xC0\xAE", None, "\u{2426}C0\u{2426}AE", Guess),
        (b"x\xC0\x80", None, "x\u{2426}C0\u{2426}80", Guess),
        (b"\xC3\xA9\xE9", None, "éé", Guess),
        // Python's surrogateescape of two encodings, and a lone surrogate of another block.
        (b"\xED\xB3\x90\xED\xB2\xBF", None, "п", Likely),
        (b"caf\xED\xB3\xA9", None, "café", Guess),
        (
            b"x\xED\xB3\x80\xED\xB2\xBBrm",
            None,
            "x\u{2426}ED\u{2426}B3\u{2426}80\u{2426}ED\u{2426}B2\u{2426}BBrm",
            Guess,
        ),
        // wget before 1.19.
        (b"\xE8\xAF%98\xE6\xA3%8B", None, "诘棋", Likely),
        // Cut inside a character.
        (b"f\xC3\xA5r p\xC3\xA5 r\xC3.ts", None, "får på r.ts", Likely),
        (b"p\xC3.ts", None, "p.ts", Guess),
    ];
    for &(name, label, expected, confidence) in cases {
        let encoding = label.map(|label| label.parse().unwrap());
        let found = policy.suggest_name(
            name,
            encoding.map_or(EncodingHint::Unknown, EncodingHint::Given),
            &mut |_| false,
        );
        let found = found.map(|found| (found.name, found.confidence));
        assert_eq!(found, Some((expected.into(), confidence)), "{name:02X?} in {label:?}");
    }
}

#[test]
fn a_suggested_name_that_is_in_use_gets_a_number_before_its_extension() {
    let (desktop, thorough) = (desktop(), thorough(desktop()));
    let with = |name: &str, taken: &[&str]| {
        thorough
            .suggest_name(name.as_bytes(), EncodingHint::Unknown, &mut |other| taken.contains(&other))
            .unwrap()
            .name
    };
    assert_eq!(with("a?.tar.gz", &["a.tar.gz"]), "a_2.tar.gz");
    assert_eq!(with("a.", &["a", "a_2", "a_3"]), "a_4");
    assert_eq!(with("T.N.T.", &["T.N.T"]), "T.N.T_2");
    let long = format!("{}?.txt", "x".repeat(60));
    let cut = format!("{}_{}.txt", "x".repeat(27), "x".repeat(8));
    assert_eq!(with(&long, &[]), cut);
    let numbered = with(&long, &[&cut]);
    assert!(numbered.len() == 40 && numbered.ends_with("xxx_2.txt"), "{numbered}");
    assert_eq!(desktop.suggest_name(b"a.", EncodingHint::Unknown, &mut |_| true), None);
    assert_eq!(
        desktop.suggest_name(b"good", EncodingHint::Unknown, &mut |_| true),
        None,
        "a good name is not asked about"
    );
}

#[test]
fn a_character_is_replaced_with_all_that_belongs_to_it() {
    let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}";
    let scotland = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}";
    let rainbow = "\u{1F3F3}\u{FE0F}\u{200D}\u{1F308}";
    let basic = policy(vec![error(Test::Reserved(Chars::one_of(
        "\u{1F468}\u{1F469}\u{1F467}\u{1F3F4}\u{1F3F3}\u{1F308}\u{20E3}:",
    )))]);
    for (name, expected) in [
        (format!("a {family}.txt"), "a _.txt"),
        (family.to_owned(), "_"),
        (format!("{family}{family}x"), "__x"),
        (format!("{scotland}.png"), "_.png"),
        (format!("x{rainbow}"), "x_"),
        ("1\u{FE0F}\u{20E3}".to_owned(), "1"),
        ("a:\u{301}b".to_owned(), "a_b"),
        ("\u{1F468}\u{1F3FD}a".to_owned(), "_a"),
    ] {
        assert_eq!(repaired(&basic, name.as_bytes()).as_deref(), Some(expected), "{name}");
    }
    for profile in ["dropbox", "joliet"] {
        let policy = thorough(Policy::from_profiles(&[profile::by_name(profile).unwrap()]));
        for name in [family, scotland, rainbow, "\u{1F1E9}\u{1F1EA}"] {
            let new = repaired(&policy, name.as_bytes());
            assert!(new.as_deref().is_none_or(|new| new == "_"), "{profile}: {new:?}");
        }
    }
}

#[test]
fn what_a_target_advises_against_stays_unless_it_is_requested() {
    let builder = Policy::builder().rule(ProfileRule::warn(Test::Reserved(Chars::one_of(" ")), "test"));
    let builder = builder.rule(ProfileRule::warn(Test::SameFold { fold: Fold::Ascii, form: None }, "test"));
    let builder = builder.severity(RuleId::Mojibake, Some(Severity::Warn));
    let advising = builder.rule(error(Test::Reserved(Chars::one_of(":")))).build().unwrap();
    let requested = thorough(advising.clone());
    for (name, by_default, with_advice) in [
        (&b"a b"[..], None, Some("a_b")),
        (b"1:2 b", Some("1_2 b"), Some("1_2_b")),
        (b"caf\xE9 b", Some("café b"), Some("café_b")),
        ("cafÃ© b".as_bytes(), Some("café b"), Some("café_b")),
    ] {
        assert_eq!(repaired(&advising, name).as_deref(), by_default);
        assert_eq!(repaired(&requested, name).as_deref(), with_advice);
    }
    assert_eq!(directory(&advising, &["README", "readme"]), [None, None]);
    assert_eq!(directory(&requested, &["README", "readme"]), [None, Some("readme_2".to_owned())]);
}

fn directory(policy: &Policy, names: &[&str]) -> Vec<Option<String>> {
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    policy.suggest_names(&names, None).into_iter().map(|repair| repair.map(|r| r.name)).collect()
}

#[test]
fn suggested_names_of_a_directory_never_collide() {
    let desktop = desktop();
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(directory(&desktop, &["a?", "a*", "A_", "b"]), [some("a_2"), some("a"), None, None]);
    assert_eq!(
        directory(&desktop, &["README", "readme", "Readme.", "x"]),
        [None, some("readme_3"), some("Readme_2"), None]
    );
    let thorough = thorough(self::desktop());
    assert_eq!(directory(&thorough, &["cafe\u{301}", "café"]), [some("café_2"), None]);
    assert_eq!(
        directory(&thorough, &["e\u{301}.x", "b"]),
        [some("é.x"), None],
        "its own old name is no obstacle"
    );
    assert_eq!(directory(&desktop, &["con", "CON", "con_"]), [some("con__3"), some("CON__2"), None]);
    assert_eq!(directory(&Policy::from_profiles(&[]), &["README", "readme"]), [None, None]);
}

#[test]
fn the_encoding_is_guessed_from_all_names_of_a_directory() {
    let directories: &[(&str, &[&str])] = &[
        ("latin1", &["café.txt", "Übersicht 2019.doc", "Größe.xls", "señor.jpg"]),
        ("shift_jis", &["報告書.txt", "写真", "会議の議事録.doc", "ソフトウェア"]),
        ("koi8-r", &["отчёт.txt", "фотографии", "письмо маме.doc", "музыка"]),
        ("ibm866", &["отчет.txt", "фотографии", "управление проектом.doc", "музыка"]),
        ("euc-kr", &["보고서.txt", "사진", "회의록 타조.doc", "음악 파일"]),
    ];
    let strict = Policy::from_profiles(&[profile::by_name("strict").unwrap()]);
    for &(label, texts) in directories {
        let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
        let mut names: Vec<Vec<u8>> = texts.iter().map(|text| encoding.encode(text).0.into_owned()).collect();
        names.push("good – name".as_bytes().to_vec());
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let mut expected: Vec<_> = texts.iter().map(|&text| Some((text, Confidence::Likely))).collect();
        expected.push(None);
        for given in [None, label.parse().ok()] {
            let found = strict.suggest_names(&names, given);
            let found: Vec<_> =
                found.iter().map(|new| new.as_ref().map(|new| (&*new.name, new.confidence))).collect();
            assert_eq!(found, expected, "{label}, {given:?}");
        }
    }
}

#[test]
fn a_hundred_thousand_bytes_are_repaired_in_bounded_time() {
    let names: Vec<Vec<u8>> = vec![
        vec![0xE9; 100_000],
        b"\xC3\xA9\xE9".repeat(33_000),
        "p\u{430} ".repeat(25_000).into_bytes(),
        "_vti_".repeat(20_000).into_bytes(),
        "\u{202E}".repeat(33_000).into_bytes(),
        "e\u{301}".repeat(33_000).into_bytes(),
        "\u{301}".repeat(50_000).into_bytes(),
        "\u{FDFA}".repeat(33_000).into_bytes(),
        "Ã©".repeat(25_000).into_bytes(),
        " .".repeat(50_000).into_bytes(),
        "?".repeat(100_000).into_bytes(),
        "con.".repeat(25_000).into_bytes(),
        "\\.git".repeat(20_000).into_bytes(),
        vec![0; 100_000],
    ];
    for policy in [desktop(), suspicious(Severity::Error), normalizing(Form::Nfkc, OnMismatch::Convert)] {
        let policy = thorough(policy);
        for name in &names {
            let started = Instant::now();
            let repair = repaired(&policy, name);
            let took = started.elapsed();
            let is_bad = matches!(policy.verdict(name), Verdict::Reject(_));
            assert_eq!(repair.is_some(), is_bad, "{:02X?}", &name[..6]);
            assert!(took < Duration::from_secs(20), "{took:?} {:02X?}", &name[..6]);
        }
    }
}

#[test]
fn a_directory_of_names_that_all_collide_takes_linear_time() {
    let desktop = desktop();
    let bad: Vec<String> = (0..12_u32)
        .flat_map(|length| (0..1 << length).map(move |bits| (length, bits)))
        .map(|(length, bits)| (0..length).map(|at| if bits >> at & 1 == 0 { '?' } else { '*' }).collect())
        .filter(|name: &String| !name.is_empty())
        .collect();
    let cased = (0..1_u32 << 11).map(|bits| {
        let letter = |at: u32| if bits >> at & 1 == 0 { 'a' } else { 'A' };
        (0..11).map(letter).chain(['.']).collect::<String>()
    });
    let bad: Vec<String> = bad.into_iter().chain(cased).collect();
    let names: Vec<&[u8]> = bad.iter().map(|name| name.as_bytes()).collect();
    let started = Instant::now();
    let repairs = desktop.suggest_names(&names, None);
    assert!(started.elapsed() < Duration::from_secs(20));
    let keys: std::collections::BTreeSet<String> =
        repairs.iter().map(|r| r.as_ref().unwrap().name.to_ascii_lowercase()).collect();
    assert_eq!(keys.len(), names.len());
}

#[test]
fn a_suggestion_says_what_bytes_that_are_not_utf8_were_taken_for() {
    let strict = Policy::from_profiles(&[profile::by_name("strict").unwrap()]);
    let names: [&[u8]; 5] =
        [b"Gr\xF6\xDFe 2004.txt", b"Men\xFC.pdf", b"Stra\xDFe?", b"x\xED\xA1\x8C\xED\xBE\xB4", b"plain\n"];
    let decoded: Vec<_> =
        strict.suggest_names(&names, None).into_iter().map(|new| new.unwrap().decoded).collect();
    for (decoded, expected) in
        decoded.iter().zip(["not UTF-8, probably ", "not UTF-8, probably ", "not UTF-8, "])
    {
        let decoded = decoded.unwrap();
        assert!(decoded.to_string().starts_with(expected), "{decoded}");
        assert_eq!(decoded.explanation.to_string().parse(), Ok(decoded.explanation));
    }
    assert_eq!(decoded[3].map(|decoded| decoded.explanation.contents), Some(Contents::SurrogatePairs));
    assert_eq!(decoded[4], None);
    for explanation in [
        "CESU-8",
        "escape",
        "cut UTF-8",
        "half-escaped UTF-8",
        "half-escaped cut UTF-8",
        "UTF-8 with lost bytes",
        "UTF-8 and ISO-8859-15",
        "surrogate-escaped IBM866",
        "Shift_JIS",
    ] {
        assert_eq!(explanation.parse::<Damage>().unwrap().to_string(), explanation);
    }
}
