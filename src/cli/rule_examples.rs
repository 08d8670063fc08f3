//! Names that break each rule, for `namegate rules NAME` and `namegate profiles NAME`.

use namegate_core::policy::rule::RuleId;

/// Names that break `rule`; those of a directory rule break it together, and a path is one item.
pub fn examples(rule: RuleId) -> &'static [&'static [u8]] {
    EXAMPLES.iter().find(|(broken, _)| *broken == rule).map_or(&[], |(_, names)| names)
}

/// The names for each rule; a test finds a rule that has none.
static EXAMPLES: &[(RuleId, &[&[u8]])] = &[
    (RuleId::UnexpectedContinuation, &[b"M\x81nchen.txt"]),
    (RuleId::Truncated, &[b"caf\xE9.txt"]),
    (RuleId::Overlong, &[b"a\xC1\xBF"]),
    (RuleId::NulSmuggling, &[b"a\xC0\x80.txt"]),
    (RuleId::SeparatorSmuggling, &[b"..\xC0\xAFetc"]),
    (RuleId::Surrogate, &[b"caf\xED\xB3\xA9"]),
    (RuleId::SurrogatePair, &[b"\xED\xA0\xBD\xED\xB8\x80.png"]),
    (RuleId::AboveMax, &[b"a\xF4\x90\x80\x80"]),
    (RuleId::FiveOrSixOctets, &[b"a\xF8\x88\x80\x80\x80"]),
    (RuleId::InvalidOctet, &[b"\xFE\xFFa"]),
    (RuleId::EmptyName, &[b""]),
    (RuleId::DotName, &[b".."]),
    (RuleId::C0Control, &[b"line\nbreak.txt"]),
    (RuleId::Delete, &[b"a\x7F.txt"]),
    (RuleId::C1Control, &["a\u{85}.txt".as_bytes()]),
    (RuleId::Iso2022Escape, &[b"\x1B%Ga.txt"]),
    (RuleId::LineSeparator, &["a\u{2028}b.txt".as_bytes()]),
    (RuleId::Noncharacter, &["a\u{FFFE}.txt".as_bytes()]),
    (RuleId::ByteOrderMark, &["\u{FEFF}a.txt".as_bytes()]),
    (RuleId::BidiControl, &["invoice\u{202E}fdp.exe".as_bytes()]),
    (RuleId::DefaultIgnorable, &["a\u{200B}b.txt".as_bytes()]),
    (RuleId::TagCharacter, &["a\u{E0041}.txt".as_bytes()]),
    (RuleId::PrivateUse, &["a\u{E000}.txt".as_bytes()]),
    (RuleId::SmbPrivateUse, &["a\u{F022}b.txt".as_bytes()]),
    (RuleId::ReplacementCharacter, &["caf\u{FFFD}.txt".as_bytes()]),
    (RuleId::Unassigned, &["a\u{378}.txt".as_bytes()]),
    (RuleId::NonAsciiSpace, &["a\u{A0}b.txt".as_bytes()]),
    (RuleId::ReservedCharacter, &[b"report?.txt", b"a:b", b"a\\b", b"a#b", b"a+b"]),
    (RuleId::LeadingSpace, &[b" a.txt"]),
    (RuleId::TrailingSpace, &[b"minutes.txt "]),
    (RuleId::LeadingDash, &[b"-rf"]),
    (RuleId::LeadingTilde, &[b"~a.txt"]),
    (RuleId::TrailingDot, &[b"Inc."]),
    (RuleId::ReservedName, &[b"aux.txt", b".lock", b".htaccess", b"soap"]),
    (RuleId::LeftBehind, &[b"desktop.ini", b"~$report.docx"]),
    (RuleId::NameTooLong, &[&[b'a'; 300]]),
    (RuleId::NotInForm, &["cafe\u{301}.txt".as_bytes()]),
    (RuleId::MixedScript, &["p\u{430}ypal.txt".as_bytes()]),
    (RuleId::DotGitLookalike, &[b"git~1"]),
    (RuleId::LostCharacters, &[b"??.txt", b"report ????.pdf"]),
    (RuleId::Mojibake, &["caf\u{C3}\u{A9}.txt".as_bytes()]),
    (RuleId::CollisionNormalization, &["é".as_bytes(), "e\u{301}".as_bytes()]),
    (RuleId::CollisionCase, &[b"Makefile", b"makefile"]),
    (RuleId::CollisionConfusable, &[b"scope", "ѕсоре".as_bytes()]),
    (RuleId::CollisionKind, &[b"something", b"something/page.html"]),
    (RuleId::PathTooLong, &[&LONG_PATH]),
];

/// Nine letters and a separator, again and again.
const LONG_PATH: [u8; 5000] = {
    let mut path = [b'a'; 5000];
    let mut at = 9;
    while at < path.len() {
        path[at] = b'/';
        at += 10;
    }
    path
};
