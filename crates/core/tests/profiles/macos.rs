//! Cases of macOS, and of the union with Windows and Linux.

use super::{ProfileTester, windows};

pub fn macos(tester: &ProfileTester) {
    tester.finds_inside([':'], "warn reserved-character");
    tester.finds_inside(['\u{378}', '\u{2065}', '\u{1FFFD}'], "error unassigned");
    // Assigned after Unicode 9.0: U+20BF in 10.0, U+1F992 in 10.0, U+1F9E0 in 10.0, U+32FF in 12.1.
    tester.finds_inside(['\u{20BF}', '\u{1F992}', '\u{1F9E0}', '\u{32FF}'], "warn unassigned");
    tester.passes_inside([
        '\u{1F951}',
        '\u{E000}',
        '?',
        '*',
        '"',
        '<',
        '|',
        '\\',
        '\n',
        '\u{7F}',
        '\u{2126}',
    ]);
    tester.passes(["a ", "a.", "CON", "-", "~", "e\u{301}", "é"]);
    // "é" is one unit, in NFD two; two bytes.
    tester.passes(["é".repeat(127) + "a", "a".repeat(255), "日".repeat(85), "\u{D55C}".repeat(85)]);
    tester.finds_each(
        ["a".repeat(256), "é".repeat(128), "日".repeat(256), "\u{D55C}".repeat(86)],
        "error name-too-long",
    );
    tester.finds_each(["日".repeat(86), "\u{1F600}".repeat(64)], "warn name-too-long");
    tester.finds("\u{1F600}".repeat(127) + "aa", "error name-too-long");
    // The length in NFC counts for the warning: as stored these are 300 bytes, in NFC 200.
    tester.passes(["e\u{301}".repeat(100)]);
    tester.finds_together(&["é", "e\u{301}"], "error collision-normalization");
    tester.finds_together(&["\u{212B}", "\u{C5}", "A\u{30A}"], "error collision-normalization");
    tester.finds_together(&["README", "Readme"], "error collision-case");
    tester.finds_together(&["STRASSE", "straße"], "error collision-case");
    tester.finds_together(&["É", "e\u{301}"], "error collision-case");
    tester.tells_apart(&["①", "1"]);
    tester.tells_apart(&["scope", "ѕсоре"]);
}

pub fn portable(tester: &ProfileTester) {
    windows::section_1(tester, "error");
    windows::written_by_clients(tester);
    tester.finds_each(["COM0", "LPT0", "CLOCK$"], "warn reserved-name");
    tester.finds_inside(['\u{378}'], "error unassigned");
    tester.finds_inside(['\u{1F992}'], "warn unassigned");
    tester.passes(["a".repeat(255), "é".repeat(127) + "a", "日".repeat(85)]);
    tester.finds_each(["a".repeat(256), "é".repeat(128)], "error name-too-long");
    tester.finds("日".repeat(86), "error name-too-long, warn name-too-long");
    // In NFC short enough for macOS, but too long for Linux.
    tester.finds("e\u{301}".repeat(100), "error name-too-long");
    // Longer than the minimum lengths of POSIX.
    tester.passes(["a-name-longer-than-fourteen.txt", "café", " a", "a b"]);
    tester.finds_path("d/".repeat(123) + "a", "");
    tester.finds_path("d/".repeat(123) + "ab", "warn path-too-long");
    tester.finds_path("d/".repeat(2047) + "a", "warn path-too-long");
    tester.finds_path("d/".repeat(2047) + "ab", "error path-too-long");
    tester.finds_path("d/".repeat(16_384), "error path-too-long");
    tester.finds_together(&["é", "e\u{301}"], "error collision-normalization");
    tester.finds_together(&["README", "Readme"], "error collision-case");
    tester.finds_together(&["STRASSE", "straße"], "error collision-case");
    tester.tells_apart(&["a", "b", "①", "1"]);
}
