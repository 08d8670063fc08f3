//! Cases of POSIX and of Linux file systems.

use super::ProfileTester;

pub fn posix(tester: &ProfileTester) {
    tester.passes([
        "ABCDEFGHIJKLM",
        "NOPQRSTUVWXYZ",
        "abcdefghijklm",
        "nopqrstuvwxyz",
        "0123456789._-",
        "12345678901234",
    ]);
    let portable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    tester
        .finds_inside(('\u{1}'..='\u{A0}').filter(|&c| !portable(c) && c != '/'), "error reserved-character");
    tester.finds_inside(['é', '日', '\u{301}', '\u{1F600}'], "error reserved-character");
    tester.finds_each(["-rf", "-"], "error leading-dash");
    tester.passes(["a-", "_-", ".a", "a.", "CON", "A.b"]);
    tester.finds("123456789012345", "warn name-too-long");
    tester.finds("a".repeat(255), "warn name-too-long");
    tester.finds("a".repeat(256), "error name-too-long, warn name-too-long");
    tester.finds_path("d/".repeat(127) + "a", "");
    tester.finds_path("d/".repeat(127) + "ab", "warn path-too-long");
    tester.finds_path("d/".repeat(2047) + "a", "warn path-too-long");
    tester.finds_path("d/".repeat(2047) + "ab", "error path-too-long, warn path-too-long");
    tester.tells_apart(&["a", "A"]);
}

pub fn ext4_casefold(tester: &ProfileTester) {
    tester.finds(b"caf\xE9", "error truncated");
    tester.passes(["a".repeat(255), "é".repeat(127), "日".repeat(85)]);
    tester.finds_each(["a".repeat(256), "é".repeat(128), "日".repeat(86)], "error name-too-long");
    tester.finds_together(&["é", "e\u{301}"], "error collision-normalization");
    tester.finds_together(&["README", "Readme"], "error collision-case");
    tester.finds_together(&["STRASSE", "straße"], "error collision-case");
    tester.finds_together(&["É", "e\u{301}"], "error collision-case");
    tester.tells_apart(&["①", "1"]);
    // U+32FF was added in Unicode 12.1, U+1F972 in 13.0; U+378 is unassigned.
    tester.finds_inside(['\u{1F972}', '\u{378}'], "warn unassigned");
    tester.passes_inside(['\u{32FF}', '\u{1F992}', ':', '?', '\n']);
}

pub fn ecryptfs(tester: &ProfileTester) {
    tester.passes(["a".repeat(143), "日".repeat(47), "é".repeat(71)]);
    tester.finds_each(["a".repeat(144), "日".repeat(48), "é".repeat(72)], "error name-too-long");
    tester.tells_apart(&["a", "A"]);
}

pub fn cryptomator(tester: &ProfileTester) {
    // 16 bytes more in base64, and the extension: 220 characters.
    assert_eq!((146_usize + 16).div_ceil(3) * 4 + ".c9r".len(), 220);
    tester.passes(["a".repeat(146), "é".repeat(73), "e\u{301}".repeat(73)]);
    tester.finds_each(["a".repeat(147), "é".repeat(74)], "warn name-too-long");
    tester.finds_together(&["é", "e\u{301}"], "warn collision-normalization");
}

pub fn zfs_utf8only(tester: &ProfileTester) {
    tester.finds(b"\xC0\xAF", "error separator-smuggling");
    tester.finds(b"\xC0\x81", "error overlong");
    tester.passes(["a".repeat(255), "é".repeat(85)]);
    tester.finds("a".repeat(256), "error name-too-long, warn name-too-long");
    // 86 letters of two bytes have three each in NFD.
    tester.finds("é".repeat(86), "warn name-too-long");
    tester.finds("é".repeat(127), "warn name-too-long");
    tester.finds("é".repeat(128), "error name-too-long, warn name-too-long");
    // U+FDFA has three bytes; its compatibility decomposition has 33, and it has no canonical one.
    tester.finds("\u{FDFA}".repeat(8), "warn name-too-long");
    tester.passes(["\u{FDFA}".repeat(7)]);
    tester.finds_together(&["é", "e\u{301}"], "warn collision-normalization");
    tester.finds_together(&["ﬁ", "fi"], "warn collision-normalization");
    tester.finds_together(&["a", "A"], "warn collision-case");
    tester.tells_apart(&["straße", "STRASSE"]);
    tester.passes(["a:b", "a.", "a ", "-"]);
}
