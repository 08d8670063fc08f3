//! Cases of optical discs.

use super::Judge;

pub fn iso9660(judge: &Judge) {
    judge.passes(["README.TXT", "A", "A.B", "12345678.123", "UPPER_8", "DIR", "_.___"]);
    let inside = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '/');
    for c in ('\u{1}'..='\u{FF}').filter(|&c| !inside(c)) {
        judge.finds(format!("A{c}B"), "error reserved-character");
    }
    judge.finds_each(["readme", "A-B", "A B", "É", "日", "A;1"], "error reserved-character");
    judge.finds_each(["A.B.C", "..A", "A.."], "error name-too-long");
    // Level 1.
    judge.finds_each(["123456789", "123456789.TXT", "A.HTML", "A.1234"], "warn name-too-long");
    // Levels 2 and 3: 30 and the dot. Both limits warn; the longer name breaks two.
    judge.finds("A".repeat(27) + ".TXT", "warn name-too-long");
    judge.finds("A".repeat(28) + ".TXT", "warn name-too-long");
    let broken = |name: String| judge.policy.check(name.as_bytes()).violations.len();
    assert_eq!((broken("A".repeat(27) + ".TXT"), broken("A".repeat(28) + ".TXT")), (1, 2));
    judge.finds_path("A/B/C/D/E/F/G/H", "");
    judge.finds_path("A/B/C/D/E/F/G/H/I", "warn path-too-long");
    judge.finds_path("A".repeat(255), "");
    judge.finds_path("A".repeat(256), "warn path-too-long");
    judge.tells_apart(&["A", "B"]);
}

pub fn joliet(judge: &Judge) {
    judge.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    judge.finds_inside(['*', ':', ';', '?', '\\'], "error reserved-character");
    judge.finds("a/b", "error separator-smuggling");
    judge.finds_inside(['\u{10000}', '\u{1F600}', '\u{10FFFD}'], "error reserved-character");
    judge.passes_inside(['<', '>', '"', '|', '\u{7F}', '\u{FFFD}', 'é', '日', ' ']);
    judge.passes(["a".repeat(64), "日".repeat(64)]);
    judge.finds_each(["a".repeat(65), "日".repeat(65), "a".repeat(103)], "warn name-too-long");
}

pub fn udf(judge: &Judge) {
    // 254 characters of eight bits, or 127 units of sixteen.
    judge.passes([
        "a".repeat(254),
        "é".repeat(254),
        "\u{FF}".repeat(254),
        "日".repeat(127),
        "a".repeat(126) + "日",
    ]);
    judge.passes(["\u{1F600}".repeat(63) + "a"]);
    judge.finds_each(["a".repeat(255), "é".repeat(255), "\u{100}".repeat(128)], "error name-too-long");
    judge.finds_each(
        ["日".repeat(128), "a".repeat(127) + "日", "\u{1F600}".repeat(64)],
        "error name-too-long",
    );
    judge.finds_path("d/".repeat(511) + "a", "");
    judge.finds_path("d/".repeat(511) + "ab", "warn path-too-long");
    judge.passes(["a:b", "a ", "a\n", "CON"]);
}
