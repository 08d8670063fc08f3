use super::*;
use crate::policy::profile;
use crate::policy::rule::RULES;
use crate::policy::{Entry, EntryKind, NameCheck};

/// Under all profiles together, and the rules that none of them has.
fn everything() -> Policy {
    let rest = [RuleId::Mojibake, RuleId::MixedScript];
    let builder = rest
        .into_iter()
        .fold(Policy::builder(), |builder, rule| builder.severity(rule, Some(Severity::Warn)));
    builder
        .profiles(
            &["security", "strict", "windows", "macos", "smb", "git"].map(|p| profile::by_name(p).unwrap()),
        )
        .rule(profile::ProfileRule::warn(Test::Form(crate::name::normalize::Form::Nfc), "test"))
        .build()
        .unwrap()
}

fn messages(policy: &Policy, name: &[u8]) -> Vec<String> {
    let check = policy.check(name);
    check.violations.iter().map(|v| format!("{}: {}", v.rule, check.message(policy, v))).collect()
}

/// Names, and the messages about them under [`everything`].
const MESSAGES: &[(&[u8], &[&str])] = &[
    (b"", &["empty-name: the name is empty"]),
    (b"a\0b", &["nul-smuggling: a NUL byte, which ends a name for the operating system"]),
    (b"a/b", &["separator-smuggling: `/`, which separates names"]),
    (b"a\x80\xBFb", &["unexpected-continuation: 80 BF: continuation bytes where a sequence should begin"]),
    (b"a\x80b", &["unexpected-continuation: 80: a continuation byte where a sequence should begin"]),
    (b"caf\xE9.txt", &["truncated: E9: only 1 of 3 bytes"]),
    (b"x\xC1\x81", &["overlong: C1 81: an overlong form of U+0041 `A`"]),
    (b"x\xC0\x8A", &["overlong: C0 8A: an overlong form of U+000A"]),
    (b"x\xC0\x80", &["nul-smuggling: C0 80: an overlong form of U+0000"]),
    (b"x\xC0\xAF", &["separator-smuggling: C0 AF: an overlong form of U+002F `/`"]),
    (b"x\xED\xA0\x80", &["surrogate: ED A0 80: the surrogate U+D800, which is not a character"]),
    (
        b"x\xED\xA1\x8C\xED\xBE\xB4",
        &["surrogate-pair: ED A1 8C ED BE B4: two surrogates that mean U+233B4 (CESU-8)"],
    ),
    (b"x\xF4\x90\x80\x80", &["above-max: F4 90 80 80: UCS-4 value 0x110000 is above U+10FFFF"]),
    (
        b"x\xF8\x88\x80\x80\x80",
        &[
            "five-or-six-octets: F8 88 80 80 80: 5 bytes for UCS-4 value 0x200000, a form that RFC 3629 abolished",
        ],
    ),
    (b"x\xFF", &["invalid-octet: FF: a byte that UTF-8 never uses"]),
    (b"a\nb", &["c0-control: U+000A, a control character (line feed)"]),
    (b"a\x01b", &["c0-control: U+0001, a control character"]),
    (b"a\x7Fb", &["delete: U+007F, a control character (delete)"]),
    ("a\u{85}b".as_bytes(), &["c1-control: U+0085, a control character"]),
    (
        b"a\x1B%Gb",
        &[
            "c0-control: U+001B, a control character (escape)",
            "iso-2022-escape: 1B 25 47: an escape sequence that announces UTF-8",
        ],
    ),
    (
        b"a\x1B%@b",
        &[
            "c0-control: U+001B, a control character (escape)",
            "iso-2022-escape: 1B 25 40: an escape sequence that returns from UTF-8 to ISO 2022",
        ],
    ),
    ("a\u{2028}b".as_bytes(), &["line-separator: U+2028, a line separator"]),
    ("a\u{2029}b".as_bytes(), &["line-separator: U+2029, a paragraph separator"]),
    ("a\u{FFFE}b".as_bytes(), &["noncharacter: U+FFFE, a noncharacter, which no text should contain"]),
    (
        "\u{FEFF}a".as_bytes(),
        &["byte-order-mark: U+FEFF, a byte order mark, which no name needs: names are always UTF-8"],
    ),
    (
        "a\u{FEFF}b".as_bytes(),
        &[
            "byte-order-mark: U+FEFF, a zero width no-break space, which is invisible; U+2060 replaces it in text",
        ],
    ),
    (
        "a\u{202E}b".as_bytes(),
        &[
            "bidi-control: U+202E, a bidirectional control, which can change the order in which the name is shown",
        ],
    ),
    ("a\u{200B}b".as_bytes(), &["default-ignorable: U+200B, an invisible code point"]),
    ("a\u{E0041}b".as_bytes(), &["tag-character: U+E0041, a tag character, which is invisible"]),
    (
        "a\u{E000}b".as_bytes(),
        &["private-use: U+E000, a private-use code point, which other machines may show differently"],
    ),
    (
        "a\u{F022}b".as_bytes(),
        &[
            "smb-private-use: U+F022, written by an SMB client instead of `:` (`fix plan --map sfm`) or `\"` (`fix plan --map sfu`)",
        ],
    ),
    ("a\u{F00A}b".as_bytes(), &["smb-private-use: U+F00A, written by an SMB client instead of U+000A"]),
    (
        "a\u{FFFD}b".as_bytes(),
        &[
            "replacement-character: U+FFFD, the replacement character: an earlier conversion lost the original",
        ],
    ),
    ("a\u{1F992}b".as_bytes(), &["unassigned: U+1F992 `🦒`, not assigned in Unicode 9.0"]),
    ("a\u{378}b".as_bytes(), &["unassigned: U+0378, not assigned in Unicode 18.0"]),
    ("a\u{A0}b".as_bytes(), &["non-ascii-space: U+00A0, a space other than U+0020"]),
    (b"a?b", &["reserved-character: U+003F `?` is not allowed in names (windows, smb)"]),
    (b"CON.txt", &["reserved-name: `CON` is a reserved name (windows, smb)"]),
    (b"-rf", &["leading-dash: the name begins with `-`: commands read it as an option"]),
    (b"a.", &["trailing-dot: the name ends with `.`"]),
    ("e\u{301}".as_bytes(), &["not-in-form: U+0065 U+0301 would be U+00E9 in NFC"]),
    ("p\u{430}y".as_bytes(), &["mixed-script: the word `p\u{430}y` mixes scripts"]),
    ("caf\u{C3}\u{A9}".as_bytes(), &["mojibake: probably `café`: UTF-8 read as windows-1252"]),
    (
        b"GIT~1",
        &[
            "dot-git-lookalike: a name that Windows or macOS treats as `.git` or as a file that configures git",
        ],
    ),
];

#[test]
fn each_message_explains_the_violation_in_a_few_words() {
    let policy = everything();
    for (name, expected) in MESSAGES {
        assert_eq!(messages(&policy, name), *expected, "{}", display(name));
    }
    let s3 = Policy::from_profiles(&[profile::by_name("s3").unwrap()]);
    assert_eq!(messages(&s3, b"a&b"), ["reserved-character: U+0026 `&` should be avoided (s3)"]);
}

#[test]
fn messages_about_lengths_and_places_name_the_limit_and_the_target() {
    let long = "a".repeat(256);
    let windows = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
    assert_eq!(
        messages(&windows, long.as_bytes()),
        ["name-too-long: 256 UTF-16 units, at most 255 (windows)"]
    );
    let reserving = Policy::builder().profiles(windows.profiles()).reserve(20).build().unwrap();
    assert_eq!(
        messages(&reserving, "a".repeat(236).as_bytes()),
        ["name-too-long: 236 UTF-16 units, at most 235 (windows), beside the reserved 20"]
    );
    let sharepoint = Policy::from_profiles(&[profile::by_name("sharepoint").unwrap()]);
    assert_eq!(
        messages(&sharepoint, b"forms"),
        [
            "reserved-name: `forms` is a reserved name at the root of a document library (sharepoint); --library-depth says where that is"
        ]
    );
    assert_eq!(
        messages(&sharepoint, b"~old"),
        [
            "reserved-name: `~` is reserved at the beginning of a name for a directory (sharepoint); its kind is not known"
        ]
    );
    let check = sharepoint.check_entry(b"~old", Entry::of_kind(EntryKind::Directory));
    assert_eq!(
        check.message(&sharepoint, &check.violations[0]),
        "`~` is reserved at the beginning of a name for a directory (sharepoint)"
    );
    assert_eq!(
        messages(&sharepoint, b"Desktop.ini"),
        ["left-behind: `Desktop.ini`: programs of the target skip it (sharepoint)"]
    );
    let (long, windows) = ("d/".repeat(124), Policy::from_profiles(windows.profiles()));
    let of_path = |kind| {
        let check =
            NameCheck { name: long.as_bytes(), violations: windows.check_path(long.as_bytes(), kind) };
        check.violations.iter().map(|v| check.message(&windows, v)).collect::<Vec<_>>()
    };
    assert_eq!(of_path(EntryKind::Directory), ["248 UTF-16 units, at most 247 for a directory (windows)"]);
    assert_eq!(
        of_path(EntryKind::Unknown),
        ["248 UTF-16 units, at most 247 for a directory (windows); its kind is not known"]
    );
}

#[test]
fn no_message_about_one_code_point_repeats_the_summary_of_its_rule() {
    for rule in RULES.iter().filter(|rule| rule.kind == RuleKind::Scalar) {
        let said = scalar(&Policy::from_profiles(&[]), rule.id, 'x', true);
        assert!(said != rule.summary || matches!(rule.id, RuleId::ReservedCharacter | RuleId::Iso2022Escape));
    }
}
