//! Cases of optical discs.

use super::ProfileTester;

pub fn iso9660(tester: &ProfileTester) {
    tester.passes(["README.TXT", "A", "A.B", "12345678.123", "UPPER_8", "DIR", "_.___"]);
    let inside = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '/');
    for c in ('\u{1}'..='\u{FF}').filter(|&c| !inside(c)) {
        tester.finds(format!("A{c}B"), "error reserved-character");
    }
    tester.finds_each(["readme", "A-B", "A B", "É", "日", "A;1"], "error reserved-character");
    tester.finds_each(["A.B.C", "..A", "A.."], "error name-too-long");
    // Level 1.
    tester.finds_each(["123456789", "123456789.TXT", "A.HTML", "A.1234"], "warn name-too-long");
    // Levels 2 and 3: 30 and the dot. Both limits warn; the longer name breaks two.
    tester.finds("A".repeat(27) + ".TXT", "warn name-too-long");
    tester.finds("A".repeat(28) + ".TXT", "warn name-too-long");
    let broken = |name: String| tester.policy.check(name.as_bytes()).violations.len();
    assert_eq!((broken("A".repeat(27) + ".TXT"), broken("A".repeat(28) + ".TXT")), (1, 2));
    tester.finds_path("A/B/C/D/E/F/G/H", "");
    tester.finds_path("A/B/C/D/E/F/G/H/I", "warn path-too-long");
    tester.finds_path("A".repeat(255), "");
    tester.finds_path("A".repeat(256), "warn path-too-long");
    tester.tells_apart(&["A", "B"]);
}

pub fn joliet(tester: &ProfileTester) {
    tester.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    tester.finds_inside(['*', ':', ';', '?', '\\'], "error reserved-character");
    tester.finds("a/b", "error separator-smuggling");
    tester.finds_inside(['\u{10000}', '\u{1F600}', '\u{10FFFD}'], "error reserved-character");
    tester.passes_inside(['<', '>', '"', '|', '\u{7F}', '\u{FFFD}', 'é', '日', ' ']);
    tester.passes(["a".repeat(64), "日".repeat(64)]);
    tester.finds_each(["a".repeat(65), "日".repeat(65), "a".repeat(103)], "warn name-too-long");
}

pub fn udf(tester: &ProfileTester) {
    // 254 characters of eight bits, or 127 units of sixteen.
    tester.passes([
        "a".repeat(254),
        "é".repeat(254),
        "\u{FF}".repeat(254),
        "日".repeat(127),
        "a".repeat(126) + "日",
    ]);
    tester.passes(["\u{1F600}".repeat(63) + "a"]);
    tester.finds_each(["a".repeat(255), "é".repeat(255), "\u{100}".repeat(128)], "error name-too-long");
    tester.finds_each(
        ["日".repeat(128), "a".repeat(127) + "日", "\u{1F600}".repeat(64)],
        "error name-too-long",
    );
    tester.finds_path("d/".repeat(511) + "a", "");
    tester.finds_path("d/".repeat(511) + "ab", "warn path-too-long");
    tester.passes(["a:b", "a ", "a\n", "CON"]);
}
