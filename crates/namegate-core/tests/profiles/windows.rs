//! Cases of Windows and what follows its rules.

use super::Judge;

const CHARACTERS: [char; 8] = ['<', '>', ':', '"', '\\', '|', '?', '*'];
const DEVICES: [&str; 28] = [
    "CON", "PRN", "AUX", "NUL", "COM1", "COM2", "COM3", "COM4", "COM5", "COM6", "COM7", "COM8", "COM9",
    "LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8", "LPT9", "COM¹", "COM²", "COM³", "LPT¹",
    "LPT²", "LPT³",
];

pub fn windows(judge: &Judge) {
    section_1(judge, "error");
    judge.finds_each(["COM0", "com0.txt", "LPT0", "lpt0 .x", "CLOCK$", "clock$.txt"], "warn reserved-name");
    judge.passes(["COM", "LPT", "LPT10", "COM00", "CLOCK", "COM⁴", "COM₁"]);
    // What NTFS takes although it looks odd.
    judge.passes([
        " leading",
        "a\u{7F}b",
        "a\u{85}b",
        "\u{E000}",
        "\u{F022}",
        "-rf",
        "~",
        "a'b",
        "a;b,c=d+e[f]",
        "日本.txt",
    ]);
    judge.finds("name:stream", "error reserved-character");
    judge.finds("nul:stream", "error reserved-character, error reserved-name");
    lengths(judge, "error");
    judge.finds_path("d/".repeat(123) + "a", "");
    judge.finds_path("d/".repeat(123) + "ab", "warn path-too-long");
    judge.finds_path("d/".repeat(129) + "a", "warn path-too-long");
    judge.finds_path("d/".repeat(129) + "ab", "warn path-too-long");
    judge.finds_path("d/".repeat(16_383) + "a", "warn path-too-long");
    judge.finds_path("d/".repeat(16_383) + "ab", "error path-too-long, warn path-too-long");
    cases(judge, "error");
}

/// What the sections on other targets call the rules of Windows: characters, endings, devices.
pub fn section_1(judge: &Judge, severity: &str) {
    judge.finds_inside('\u{1}'..='\u{1F}', &format!("{severity} c0-control"));
    judge.finds_inside(CHARACTERS, &format!("{severity} reserved-character"));
    judge.finds("a/b", "error separator-smuggling");
    judge.finds_each(["a ", "a.txt ", "a. ", "日本 "], &format!("{severity} trailing-space"));
    judge.finds_each(["a.", "a..", "...", "a .", "日本."], &format!("{severity} trailing-dot"));
    judge.finds_each([".", ".."], "error dot-name");
    let reserved = format!("{severity} reserved-name");
    for device in DEVICES.into_iter().chain(["CONIN$", "CONOUT$"]) {
        judge.finds_each([device.to_owned(), device.to_lowercase()], &reserved);
        judge.finds_each(
            [format!("{device}.h"), format!("{device}.tar.gz"), format!("{device}   .txt")],
            &reserved,
        );
        judge.passes([
            format!("{device}x"),
            format!("x{device}"),
            format!("x.{device}"),
            format!(" {device}"),
        ]);
        judge.finds(format!("{device} "), &format!("{severity} reserved-name, {severity} trailing-space"));
        judge.finds(format!("{device}."), &format!("{severity} reserved-name, {severity} trailing-dot"));
    }
    judge.finds_each(["nul .txt", "aux.h", "con.tar.gz", "COM¹", "CONIN$", "Con.Txt"], &reserved);
    judge.passes([
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

/// 255 UTF-16 units, of which U+1F600 takes two.
pub fn lengths(judge: &Judge, severity: &str) {
    let too_long = format!("{severity} name-too-long");
    judge.passes(["a".repeat(255), "é".repeat(255), "日".repeat(255), "\u{1F600}".repeat(127) + "a"]);
    judge
        .finds_each(["a".repeat(256), "é".repeat(256), "日".repeat(256), "\u{1F600}".repeat(128)], &too_long);
}

/// Names that differ in case are one, letter by letter, and normal forms play no part.
fn cases(judge: &Judge, severity: &str) {
    let collision = format!("{severity} collision-case");
    judge.finds_together(&["Makefile", "makefile"], &collision);
    judge.finds_together(&["OSCAR", "Oscar", "oscar"], &collision);
    judge.finds_together(&["É.txt", "é.txt"], &collision);
    judge.tells_apart(&["straße", "STRASSE"]);
    judge.tells_apart(&["é", "e\u{301}"]);
    judge.tells_apart(&["\u{10400}", "\u{10428}"]);
    judge.tells_apart(&["a", "b"]);
}

pub fn exfat(judge: &Judge) {
    judge.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    judge.finds_inside(CHARACTERS, "error reserved-character");
    judge.finds_each(["a.", "a.."], "error trailing-dot");
    judge.passes(["CON", "nul.txt", "a ", " a", "a\u{7F}", "a\u{85}", ".a", "a.b"]);
    judge.finds("caf\u{E9}.".as_bytes(), "error trailing-dot");
    judge.finds(b"caf\xE9", "error truncated");
    lengths(judge, "error");
    cases(judge, "error");
}

pub fn smb(judge: &Judge) {
    windows_parts(judge);
    judge.finds_inside('\u{F001}'..='\u{F029}', "warn smb-private-use");
    // SFU: U+F000 plus the character.
    let mapped = ['*', '?', ':', '>', '<', '|', '\\']
        .map(|c| char::from_u32(0xF000 + u32::from(c)).expect("a private-use code point"));
    judge.finds_inside(mapped, "warn reserved-character");
    judge.passes_inside(['\u{F000}', '\u{F02B}', '\u{F8FF}', '\u{E000}', '¨', '¤', 'ø']);
}

fn windows_parts(judge: &Judge) {
    section_1(judge, "error");
    lengths(judge, "error");
    cases(judge, "error");
    judge.finds_each(["COM0", "LPT0", "CLOCK$"], "warn reserved-name");
    judge.finds_path("d/".repeat(16_383) + "ab", "error path-too-long, warn path-too-long");
}
