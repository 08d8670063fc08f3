//! `namegate explain` as a user meets it: the program is run, and what it prints is read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

use serde_json::Value;

fn explain(args: &[&[u8]]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namegate"))
        .arg("explain")
        .args(args.iter().map(|arg| OsStr::from_bytes(arg)))
        .output()
        .expect("the program was built for this test")
}

fn text(args: &[&[u8]]) -> String {
    String::from_utf8(explain(args).stdout).expect("the output is UTF-8")
}

fn json(hex: &str) -> Value {
    let output = explain(&[b"--json", b"--hex", hex.as_bytes()]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{hex}: {e}"))
}

/// The words of the line of the octet table that is about `offset`.
fn octet_line(text: &str, offset: usize) -> Vec<&str> {
    let offset = offset.to_string();
    let table = text.split("\nOctets\n").nth(1).expect("there is a table");
    let line = table.lines().find(|l| l.split_whitespace().next() == Some(&offset)).expect("there is a row");
    line.split_whitespace().filter(|word| !matches!(*word, "┌" | "├" | "└")).collect()
}

#[test]
fn a_name_in_latin_1_is_told_from_the_same_name_in_utf_8() {
    let bad = explain(&[b"caf\xE9"]);
    assert_eq!(bad.status.code(), Some(1));
    let bad = String::from_utf8(bad.stdout).unwrap();
    let sentences = bad.lines().take(3).collect::<Vec<_>>().join(" ");
    assert!(
        sentences.starts_with(
            r"caf\xE9 not UTF-8: at byte 3, E9 begins a sequence of 3 bytes, but no continuation byte follows"
        ),
        "{sentences}"
    );
    assert!(bad.contains("Reads as `café` in "), "{bad}");
    assert_eq!(octet_line(&bad, 0), ["0", "63", "0·1100011", "single", "00000063", "ok", "c"]);
    assert_eq!(octet_line(&bad, 3), ["3", "E9", "1110·1001", "lead", "of", "3", "truncated,", "class", "1"]);
    assert!(bad.contains("class 1 of ISO/IEC 10646-1, R.7"), "{bad}");
    assert!(bad.contains("refused by every profile"), "{bad}");

    let good = explain(&["café".as_bytes()]);
    assert_eq!(good.status.code(), Some(0));
    let good = String::from_utf8(good.stdout).unwrap();
    assert!(good.contains("UTF-8: 5 bytes, 4 code points"), "{good}");
    assert_eq!(octet_line(&good, 3), ["3", "C3", "110·00011", "lead", "of", "2", "000000E9", "ok", "é"]);
    assert_eq!(octet_line(&good, 4), ["4", "A9", "10·101001", "continuation", "1", "of", "1"]);
    assert!(good.contains("LATIN SMALL LETTER E WITH ACUTE"), "{good}");
    assert!(good.contains("lowercase letter · script Latin · bidi left to right"), "{good}");
    assert!(good.contains("not in NFD, NFKD, which is `cafe\u{301}`"), "{good}");
    assert!(good.contains("bytes 3 to 4: U+00E9 becomes U+0065 U+0301"), "{good}");
}

/// The bytes, the words of the row of byte 0 behind the bits, and what the name means as a code point.
const FOUNDING: &[(&str, &str, &str)] = &[
    ("C0 80", "lead of 2 00000000 nul-smuggling", "U+0000"),
    ("C0 AF", "lead of 2 0000002F separator-smuggling", "U+002F"),
    ("C0 AE", "lead of 2 0000002E separator-smuggling", "U+002E"),
    ("ED A1 8C ED BE B4", "lead of 3 0000D84C surrogate-pair", "U+233B4"),
    ("ED A0 80", "lead of 3 0000D800 surrogate", "U+D800"),
    ("F4 90 80 80", "lead of 4 00110000 above-max", ""),
    ("F8 88 80 80 80", "lead of 5 00200000 five-or-six-octets", ""),
    ("FD BF BF BF BF BF", "lead of 6 7FFFFFFF five-or-six-octets", ""),
    ("FE", "invalid ill-formed, class 3", ""),
    ("FF", "invalid ill-formed, class 3", ""),
    ("80", "unexpected continuation ill-formed, class 2", ""),
    ("E9", "lead of 3 truncated, class 1", ""),
    ("C0 8A", "lead of 2 0000000A overlong", "U+000A"),
    ("E0 80 8A", "lead of 3 0000000A overlong", "U+000A"),
    ("F0 80 80 8A", "lead of 4 0000000A overlong", "U+000A"),
    ("F8 80 80 80 8A", "lead of 5 0000000A overlong", "U+000A"),
    ("FC 80 80 80 80 8A", "lead of 6 0000000A overlong", "U+000A"),
];

#[test]
fn the_examples_of_the_founding_documents_are_explained() {
    for &(hex, row, code_point) in FOUNDING {
        let output = explain(&[b"--hex", hex.as_bytes()]);
        assert_eq!(output.status.code(), Some(1), "{hex}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(octet_line(&text, 0)[3..].join(" "), row, "{hex}");

        let json = json(hex);
        assert_eq!(json["name_hex"], hex.replace(' ', "").to_lowercase());
        let sequence = &json["sequences"][0];
        assert_eq!(sequence["well_formed"], false, "{hex}");
        assert_eq!(sequence["code_point"]["code_point"].as_str().unwrap_or(""), code_point, "{hex}");
        assert_eq!(json["objections"][0]["rule"], sequence["malformation"], "{hex}");
    }
}

#[test]
fn only_a_scalar_value_has_a_form_in_utf8_and_only_a_code_point_is_written_as_one() {
    let of = |hex: &str| text(&[b"--hex", hex.as_bytes()]).replace('\n', " ");
    for (hex, expected) in [
        ("F0 8D A0 80", "U+D800, a surrogate, which has no form in UTF-8"),
        ("F4 90 80 80", "encodes UCS-4 value 0x110000, above the last code point U+10FFFF"),
        ("F7 BF BF BF", "UCS-4 value 0x1FFFFF"),
        ("FB BF BF BF BF", "UCS-4 value 0x3FFFFFF"),
        ("FC 80 84 90 80 80", "overlong form of UCS-4 value 0x110000, which has no form in UTF-8"),
        ("F0 82 82 AC", "U+20AC, whose only form in UTF-8 is E2 82 AC"),
    ] {
        let text = of(hex);
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("U+110000") && !text.contains("U+3FFFFFF"), "{text}");
        assert!(!text.contains("only form in UTF-8 is ED"), "{text}");
    }
}

#[test]
fn what_a_surrogate_pair_means_is_said_with_its_only_good_form() {
    let text = text(&[b"--hex", b"ED:A1:8C:ED:BE:B4"]);
    assert!(text.contains("U+233B4 (CESU-8)"), "{text}");
    assert!(text.contains("UTF-8 is F0 A3 8E B4"), "{text}");
    assert_eq!(octet_line(&text, 3)[3..], ["lead", "of", "3", "0000DFB4", "surrogate-pair"]);
}

#[test]
fn code_points_that_cannot_be_seen_are_named() {
    let shown = text(&["\u{FEFF}\u{233B4}".as_bytes()]);
    assert!(shown.contains("ZERO WIDTH NO-BREAK SPACE"), "{shown}");
    assert!(shown.contains("byte-order-mark"), "{shown}");
    assert!(shown.contains("CJK UNIFIED IDEOGRAPH-233B4"), "{shown}");

    let family = "\u{1F469}\u{200D}\u{1F4BB}";
    let shown = text(&[family.as_bytes()]);
    for part in ["WOMAN", "ZERO WIDTH JOINER", "PERSONAL COMPUTER", "in NFC, NFD, NFKC, NFKD"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{200D}'), "{shown}");

    let shown = text(&["e\u{301}".as_bytes()]);
    assert!(shown.contains("\u{25CC}\u{301}  COMBINING ACUTE ACCENT"), "{shown}");
    assert!(shown.contains("bytes 0 to 2: U+0065 U+0301 becomes U+00E9"), "{shown}");
}

#[test]
fn the_columns_of_octets_line_up_behind_wide_and_combining_characters() {
    use unicode_width::UnicodeWidthStr as _;
    for name in ["日本語x", "e\u{301}\u{1F600}", "a\u{202E}b"] {
        let text = text(&[name.as_bytes()]);
        let table = text.split("\nOctets\n").nth(1).and_then(|t| t.split("\n\n").next()).unwrap();
        let places: Vec<usize> =
            table.lines().filter_map(|l| l.find(" ok").map(|at| l[..at].width())).collect();
        assert!(places.len() >= 3 && places.iter().all(|at| *at == places[0]), "{places:?}\n{table}");
    }
}

#[test]
fn lines_fit_a_terminal_of_80_columns() {
    use unicode_width::UnicodeWidthStr as _;
    let all: Vec<Vec<u8>> = FOUNDING
        .iter()
        .map(|(hex, ..)| hex.as_bytes().to_vec())
        .chain(
            ["e\u{301}\u{FB01} \u{202E}日本語", "Füße\u{1F469}\u{200D}\u{1F4BB}.txt"]
                .map(|name| name.bytes().map(|b| format!("{b:02x}")).collect::<String>().into_bytes()),
        )
        .chain([b"63 61 80 81 C0 AF ED A0 80 FE E9".to_vec()])
        .collect();
    for hex in all {
        let text = text(&[b"--hex", &hex]);
        for line in text.lines() {
            assert!(line.width() <= 80, "{}: {line}", line.width());
            assert!(!line.ends_with(' '), "{line:?}");
        }
    }
}

#[test]
fn nothing_of_a_name_acts_on_the_terminal() {
    const NASTY: &[&str] =
        &["00", "0a", "1b", "7f", "c29b", "e280ae", "efbbbf", "cc81", "61", "80", "c0", "ed", "fe", "5c"];
    let mut names: Vec<String> = Vec::new();
    for first in NASTY {
        for second in NASTY {
            names.extend(NASTY.iter().map(|third| format!("{first}{second}{third}")));
        }
    }
    // A stride that is prime to 256 meets every value of each of the three bytes.
    names.extend((0..1 << 24).step_by(24_007).map(|bytes| format!("{bytes:06x}")));
    for batch in names.chunks(500) {
        let hex: Vec<String> = batch.iter().map(|name| format!("--hex={name}")).collect();
        for modes in [&["--color=never"][..], &["--color=always"], &["--json"]] {
            let args: Vec<&[u8]> =
                modes.iter().map(|m| m.as_bytes()).chain(hex.iter().map(|h| h.as_bytes())).collect();
            let output = explain(&args);
            assert_eq!(output.status.code(), Some(1));
            let out = String::from_utf8(output.stdout).expect("the output is UTF-8");
            let out = if modes[0].ends_with("always") { without_styles(&out) } else { out };
            let acting =
                |c: char| c != '\n' && c.is_control() || "\u{202E}\u{2066}\u{FEFF}\u{2028}".contains(c);
            if let Some(at) = out.find(acting) {
                panic!("{modes:?}: {:?} in {:?}", &out[at..].chars().next(), out[..at].lines().last());
            }
            if modes[0] == "--json" {
                let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                let exact: Vec<&str> = lines.iter().map(|line| line["name_hex"].as_str().unwrap()).collect();
                assert_eq!(exact, batch);
            }
        }
    }
}

/// Takes out SGR sequences (ESC `[` digits and semicolons `m`) and no other.
fn without_styles(text: &str) -> String {
    let mut parts = text.split("\u{1B}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        plain += rest.strip_prefix('m').unwrap_or("\u{1B}");
    }
    plain
}

#[test]
fn the_json_holds_every_octet_and_reads_back_as_the_same_text() {
    let name = "cafe\u{301} \u{202E}\u{1F600}\u{9B}";
    let hex: String = name.bytes().map(|b| format!("{b:02X}")).collect();
    let json = json(&hex);
    assert_eq!(json["type"], "explanation");
    assert_eq!(json["name"], name);
    assert_eq!(json["is_utf8"], true);
    let octets = json["octets"].as_array().unwrap();
    let bits: String = octets
        .iter()
        .map(|o| o["marker_bits"].as_str().unwrap().to_owned() + o["value_bits"].as_str().unwrap())
        .collect();
    let expected: String = name.bytes().map(|b| format!("{b:08b}")).collect();
    assert_eq!(bits, expected);
    let points: String = json["sequences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["code_point"]["character"].as_str().unwrap())
        .collect();
    assert_eq!(points, name);
    assert_eq!(json["forms"][0]["form"], "NFC");
    assert_eq!(json["forms"][0]["changes"][0]["becomes"], serde_json::json!(["U+00E9"]));
    let bidi = json["objections"].as_array().unwrap().iter().find(|o| o["rule"] == "c1-control").unwrap();
    assert_eq!(bidi["start"], name.find('\u{9B}').unwrap());
}

#[test]
fn a_name_of_many_bytes_is_explained_in_part_and_says_so() {
    for hex in ["61", "e9", "80", "c3a9", "ff", "e697a5"] {
        let long = hex.repeat(60_000 / hex.len() * 2);
        let args: &[&[u8]] = &[b"--hex", long.as_bytes()];
        let text = text(args);
        assert!(text.lines().count() < 5_000, "{hex}: {}", text.lines().count());
        let shown = if hex.len() == 6 { 4098 } else { 4096 };
        let rest = long.len() / 2 - shown;
        assert!(text.contains(&format!("bytes not shown: {rest}")), "{hex}");
        let json = json(&long);
        assert_eq!(json["explained_bytes"], shown);
        assert_eq!(json["octets"].as_array().unwrap().len(), shown);
        assert_eq!(json["name_hex"], long);
    }
}

#[test]
fn names_that_no_entry_can_have_are_explained_too() {
    for (name, words) in
        [("", "empty"), (".", "the directory itself"), ("..", "the parent"), ("a/b", "separates names")]
    {
        let output = explain(&[name.as_bytes()]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(words), "{text}");
    }
    assert!(text(&[b"--hex", b"610062"]).contains("a NUL byte ends a name"));
}

#[test]
fn one_name_that_is_not_utf_8_decides_the_status_of_several() {
    let output = explain(&[b"good", b"--hex", b"ff", b"fine"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
    assert!(at("good\n") < at("fine\n") && at("fine\n") < at("\\xFF\n"), "names come before octets");
}

#[test]
fn mistyped_octets_are_named_with_their_place() {
    let cases: &[(&[u8], &str)] = &[
        (b"6g", "`g`, character 2,"),
        (b"63:61 z6", "`z`, character 7,"),
        ("é1".as_bytes(), "`é`, character 1,"),
        (b"63\x1b[31m", "`\\u{1B}`, character 3,"),
        (b"63 6", "odd number of digits"),
    ];
    for &(hex, words) in cases {
        let output = explain(&[b"good", b"--hex", hex]);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(output.stdout.is_empty(), "{words}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(words), "{message}");
        assert!(!message.contains('\u{1B}'), "{message}");
    }
    assert_eq!(explain(&[]).status.code(), Some(2));
    assert_eq!(explain(&[b"--json"]).status.code(), Some(2));
}

#[test]
fn what_the_structure_tells_is_not_guessed_at() {
    let encodings = |hex: &str| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let object = json(hex);
        let readings = object["readings"].as_array().expect("an array").iter();
        readings.map(|row| (text(&row["encoding"]), text(&row["text"]))).collect()
    };
    assert_eq!(encodings("61 ED A1 8C ED BE B4"), [("CESU-8".to_owned(), "a\u{233B4}".to_owned())]);
    assert_eq!(encodings("61 C1 A1"), [], "what an overlong form decodes to is no reading");
    assert_eq!(encodings("61 C0 AF"), [], "no slash comes of it");
}

#[test]
fn a_name_is_checked_against_profiles_that_are_named() {
    let plain = text(&[b"README.md"]);
    assert!(plain.contains("Rules that it breaks\n  none\n"), "only ISO 9660 minds: {plain}");
    assert!(plain.contains("checked against strict, security, portable"), "{plain}");
    let disc = text(&[b"--profile", b"iso9660", b"README.md"]);
    assert!(disc.contains("checked against iso9660") && !disc.contains("  none\n"), "{disc}");
    let output = explain(&[b"--json", b"--profile", b"windows,macos", b"aux.txt"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["profiles"], serde_json::json!(["windows", "macos"]));
    assert_eq!(json["objections"][0]["profiles"], serde_json::json!(["windows"]));
}
