//! Cases of Windows, and of targets with the rules of Windows.

use super::ProfileTester;

const CHARACTERS: [char; 8] = ['<', '>', ':', '"', '\\', '|', '?', '*'];
const DEVICES: [&str; 28] = [
    "CON", "PRN", "AUX", "NUL", "COM1", "COM2", "COM3", "COM4", "COM5", "COM6", "COM7", "COM8", "COM9",
    "LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8", "LPT9", "COM¹", "COM²", "COM³", "LPT¹",
    "LPT²", "LPT³",
];

pub fn windows(tester: &ProfileTester) {
    section_1(tester, "error");
    tester.finds_each(["COM0", "com0.txt", "LPT0", "lpt0 .x", "CLOCK$", "clock$.txt"], "warn reserved-name");
    tester.passes(["COM", "LPT", "LPT10", "COM00", "CLOCK", "COM⁴", "COM₁"]);
    // Odd names that NTFS allows.
    tester.passes([
        " leading",
        "a\u{7F}b",
        "a\u{85}b",
        "\u{E000}",
        "-rf",
        "~",
        "a'b",
        "a;b,c=d+e[f]",
        "日本.txt",
    ]);
    tester.finds("name:stream", "error reserved-character");
    tester.finds("nul:stream", "error reserved-character, error reserved-name");
    written_by_clients(tester);
    lengths(tester, "error");
    tester.finds_path("d/".repeat(123) + "a", "");
    tester.finds_path("d/".repeat(123) + "ab", "warn path-too-long");
    let of = |len: usize| "d/".repeat(100) + &"a".repeat(len - 200);
    tester.finds_path_by_kind(&of(247), ["", ""]);
    tester.finds_path_by_kind(&of(248), ["warn path-too-long", ""]);
    tester.finds_path_by_kind(&of(259), ["warn path-too-long", ""]);
    tester.finds_path_by_kind(&of(260), ["warn path-too-long", "warn path-too-long"]);
    tester.finds_path("d/".repeat(129) + "ab", "warn path-too-long");
    tester.finds_path("d/".repeat(16_383) + "a", "warn path-too-long");
    tester.finds_path("d/".repeat(16_383) + "ab", "error path-too-long");
    cases(tester, "error");
}

/// The rules of Windows that other targets share: characters, endings, devices.
pub fn section_1(tester: &ProfileTester, severity: &str) {
    tester.finds_inside('\u{1}'..='\u{1F}', &format!("{severity} c0-control"));
    tester.finds_inside(CHARACTERS, &format!("{severity} reserved-character"));
    tester.finds("a/b", "error separator-smuggling");
    tester.finds_each(["a ", "a.txt ", "a. ", "日本 "], &format!("{severity} trailing-space"));
    tester.finds_each(["a.", "a..", "...", "a .", "日本."], &format!("{severity} trailing-dot"));
    tester.finds_each([".", ".."], "error dot-name");
    let reserved = format!("{severity} reserved-name");
    for device in DEVICES.into_iter().chain(["CONIN$", "CONOUT$"]) {
        tester.finds_each([device.to_owned(), device.to_lowercase()], &reserved);
        tester.finds_each(
            [format!("{device}.h"), format!("{device}.tar.gz"), format!("{device}   .txt")],
            &reserved,
        );
        tester.passes([
            format!("{device}x"),
            format!("x{device}"),
            format!("x.{device}"),
            format!(" {device}"),
        ]);
        tester.finds(format!("{device} "), &format!("{severity} reserved-name, {severity} trailing-space"));
        tester.finds(format!("{device}."), &format!("{severity} reserved-name, {severity} trailing-dot"));
    }
    tester.finds_each(["nul .txt", "aux.h", "con.tar.gz", "COM¹", "CONIN$", "Con.Txt"], &reserved);
    tester.passes([
        "CONIN",
        "CONOUT",
        "console",
        "null.txt",
        ".con",
        "COM10",
        "auxiliary.h",
        "a.b c",
        ".gitignore",
    ]);
}

/// 255 UTF-16 units; U+1F600 has two.
pub fn lengths(tester: &ProfileTester, severity: &str) {
    let too_long = format!("{severity} name-too-long");
    tester.passes(["a".repeat(255), "é".repeat(255), "日".repeat(255), "\u{1F600}".repeat(127) + "a"]);
    tester
        .finds_each(["a".repeat(256), "é".repeat(256), "日".repeat(256), "\u{1F600}".repeat(128)], &too_long);
}

/// Names that differ only in case collide, letter by letter, without regard to normalization forms.
fn cases(tester: &ProfileTester, severity: &str) {
    let collision = format!("{severity} collision-case");
    tester.finds_together(&["Makefile", "makefile"], &collision);
    tester.finds_together(&["OSCAR", "Oscar", "oscar"], &collision);
    tester.finds_together(&["É.txt", "é.txt"], &collision);
    tester.tells_apart(&["straße", "STRASSE"]);
    tester.tells_apart(&["é", "e\u{301}"]);
    tester.tells_apart(&["\u{10400}", "\u{10428}"]);
    tester.tells_apart(&["a", "b"]);
}

pub fn exfat(tester: &ProfileTester) {
    tester.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    tester.finds_inside(CHARACTERS, "error reserved-character");
    tester.finds_each(["a.", "a.."], "error trailing-dot");
    tester.passes(["CON", "nul.txt", "a ", " a", "a\u{7F}", "a\u{85}", ".a", "a.b"]);
    tester.finds("caf\u{E9}.".as_bytes(), "error trailing-dot");
    tester.finds(b"caf\xE9", "error truncated");
    lengths(tester, "error");
    cases(tester, "error");
}

pub fn android(tester: &ProfileTester) {
    tester.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    tester.finds_inside(['\u{7F}'], "error delete");
    tester.finds_inside(CHARACTERS, "error reserved-character");
    tester.passes(["a".repeat(255), "é".repeat(127)]);
    tester.finds_each(["a".repeat(256), "é".repeat(128)], "error name-too-long");
    tester.finds_each(["a.", "a.."], "warn trailing-dot");
    tester.finds_together(&["README", "Readme"], "error collision-case");
    tester.passes(["CON", "a ", " a", "a\u{85}", ".a", "日本"]);
}

pub fn smb(tester: &ProfileTester) {
    windows_parts(tester);
    written_by_clients(tester);
}

/// What clients write instead of the characters that Windows reserves.
pub fn written_by_clients(tester: &ProfileTester) {
    tester.finds_inside('\u{F001}'..='\u{F029}', "warn smb-private-use");
    // SFU: U+F000 plus the character.
    let mapped = ['*', '?', ':', '>', '<', '|', '\\']
        .map(|c| char::from_u32(0xF000 + u32::from(c)).expect("a private-use code point"));
    tester.finds_inside(mapped, "warn reserved-character");
    tester.passes_inside(['\u{F000}', '\u{F02B}', '\u{F8FF}', '\u{E000}', '¨', '¤', 'ø']);
}

fn windows_parts(tester: &ProfileTester) {
    section_1(tester, "error");
    lengths(tester, "error");
    cases(tester, "error");
    tester.finds_each(["COM0", "LPT0", "CLOCK$"], "warn reserved-name");
    tester.finds_path("d/".repeat(16_383) + "ab", "error path-too-long");
}
