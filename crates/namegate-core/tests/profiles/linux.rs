//! Cases of POSIX and of Linux file systems.

use super::Judge;

pub fn posix(judge: &Judge) {
    judge.passes([
        "ABCDEFGHIJKLM",
        "NOPQRSTUVWXYZ",
        "abcdefghijklm",
        "nopqrstuvwxyz",
        "0123456789._-",
        "12345678901234",
    ]);
    let portable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    judge
        .finds_inside(('\u{1}'..='\u{A0}').filter(|&c| !portable(c) && c != '/'), "error reserved-character");
    judge.finds_inside(['é', '日', '\u{301}', '\u{1F600}'], "error reserved-character");
    judge.finds_each(["-rf", "-"], "error leading-dash");
    judge.passes(["a-", "_-", ".a", "a.", "CON", "A.b"]);
    judge.finds("123456789012345", "warn name-too-long");
    judge.finds("a".repeat(255), "warn name-too-long");
    judge.finds("a".repeat(256), "error name-too-long, warn name-too-long");
    judge.finds_path("d/".repeat(127) + "a", "");
    judge.finds_path("d/".repeat(127) + "ab", "warn path-too-long");
    judge.finds_path("d/".repeat(2047) + "a", "warn path-too-long");
    judge.finds_path("d/".repeat(2047) + "ab", "error path-too-long, warn path-too-long");
    judge.tells_apart(&["a", "A"]);
}

pub fn ext4_casefold(judge: &Judge) {
    judge.finds(b"caf\xE9", "error truncated");
    judge.passes(["a".repeat(255), "é".repeat(127), "日".repeat(85)]);
    judge.finds_each(["a".repeat(256), "é".repeat(128), "日".repeat(86)], "error name-too-long");
    judge.finds_together(&["é", "e\u{301}"], "error collision-normalization");
    judge.finds_together(&["README", "Readme"], "error collision-case");
    judge.finds_together(&["STRASSE", "straße"], "error collision-case");
    judge.finds_together(&["É", "e\u{301}"], "error collision-case");
    judge.tells_apart(&["①", "1"]);
    // Unicode 12.1 brought U+32FF; U+1F972 came with 13.0, U+378 with none.
    judge.finds_inside(['\u{1F972}', '\u{378}'], "warn unassigned");
    judge.passes_inside(['\u{32FF}', '\u{1F992}', ':', '?', '\n']);
}

pub fn zfs_utf8only(judge: &Judge) {
    judge.finds(b"\xC0\xAF", "error separator-smuggling");
    judge.finds(b"\xC0\x81", "error overlong");
    judge.passes(["a".repeat(255), "é".repeat(85)]);
    judge.finds("a".repeat(256), "error name-too-long, warn name-too-long");
    // 86 letters of two bytes have three each in NFD.
    judge.finds("é".repeat(86), "warn name-too-long");
    judge.finds("é".repeat(127), "warn name-too-long");
    judge.finds("é".repeat(128), "error name-too-long, warn name-too-long");
    // U+FDFA has three bytes, its compatibility decomposition 33, its canonical one is itself.
    judge.finds("\u{FDFA}".repeat(8), "warn name-too-long");
    judge.passes(["\u{FDFA}".repeat(7)]);
    judge.finds_together(&["é", "e\u{301}"], "warn collision-normalization");
    judge.finds_together(&["ﬁ", "fi"], "warn collision-normalization");
    judge.finds_together(&["a", "A"], "warn collision-case");
    judge.tells_apart(&["straße", "STRASSE"]);
    judge.passes(["a:b", "a.", "a ", "-"]);
}
