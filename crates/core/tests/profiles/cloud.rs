//! Cases of cloud stores.

use super::{ProfileTester, summary, windows};
use namegate_core::policy::Entry;

pub fn sharepoint(tester: &ProfileTester) {
    tester.finds_inside(['"', '*', ':', '<', '>', '?', '\\', '|'], "error reserved-character");
    tester.finds("a/b", "error separator-smuggling");
    tester.finds_each([" a", "  a"], "error leading-space");
    tester.finds_each(["a ", "a.txt "], "error trailing-space");
    tester.finds_each([".lock", "CON", "prn", "Aux", "NUL"], "error reserved-name");
    tester.finds_each((0..=9).flat_map(|n| [format!("COM{n}"), format!("lpt{n}")]), "error reserved-name");
    tester.finds_each(["_vti_", "a_vti_b", "_VTI_x", "x_vti_"], "error reserved-name");
    assert!(format!("{:?}", tester.policy.suggest_names(&[b"_vti_"], None)).contains("\"vti\""));
    tester.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    tester.finds_inside(['\u{7F}'], "error delete");
    tester.finds("Internet of\nThings", "error c0-control");
    tester.finds_each(["~$", "~$draft.docx"], "warn left-behind, warn reserved-name");
    tester.finds_each(["desktop.ini", "Desktop.INI", ".DS_Store", "Thumbs.db", "a.tmp"], "warn left-behind");
    // Only a folder must not begin with a tilde, and only a library's root has no `forms`: a name alone does not say so.
    tester.finds_each(["~", "~folder"], "warn reserved-name");
    tester.finds_by_kind("~backup", ["error reserved-name", ""]);
    tester.finds_by_kind("~$draft.docx", ["error reserved-name, warn left-behind", "warn left-behind"]);
    tester.finds_each(["forms", "Forms"], "warn reserved-name");
    let at = |in_library_root| Entry { in_library_root, ..Entry::UNKNOWN };
    let forms = |entry| summary(tester.policy.check_entry(b"forms", entry).violations);
    assert_eq!(
        [Some(true), Some(false), None].map(|root| forms(at(root))),
        ["error reserved-name", "", "warn reserved-name"]
    );
    tester.finds_each(["a.", "a.."], "warn trailing-dot");
    tester.passes([
        "a#b%c",
        "a~$",
        "COM10",
        "LPT",
        "x.lock",
        "desktop.ini.txt",
        "_vti",
        "vti_",
        "forms.txt",
        "a b",
        "$~",
    ]);
    tester.passes(["a&b{c}", "a..b", ".a", "日本.txt"]);
    tester.passes(["a".repeat(255), "\u{1F600}".repeat(127)]);
    tester.finds_each(["a".repeat(256), "\u{1F600}".repeat(128)], "warn name-too-long");
    tester.finds_path("d/".repeat(199) + "ab", "");
    tester.finds_path("d/".repeat(200) + "a", "error path-too-long");
    tester.finds_together(&["README", "Readme"], "warn collision-case");
    tester.tells_apart(&["a", "b"]);
}

pub fn s3(tester: &ProfileTester) {
    tester.finds_path("d/".repeat(511) + "ab", "");
    tester.finds_path("d/".repeat(512) + "a", "error path-too-long");
    tester.finds_path("é".repeat(512), "");
    tester.finds_path("é".repeat(513), "error path-too-long");
    tester.finds_inside("\\{}^%`[]\"><~#|".chars(), "warn reserved-character");
    tester.finds_inside("&$@=;:+ ,?".chars(), "warn reserved-character");
    tester.finds_inside('\u{1}'..='\u{1F}', "warn c0-control");
    tester.finds_inside(['\u{7F}'], "warn delete");
    tester.finds_inside(['\u{80}', 'é', '日', '\u{1F600}'], "warn reserved-character");
    tester.finds("soap", "warn reserved-name");
    tester.finds_each([".", ".."], "error dot-name");
    tester.passes(["0123456789", "AZaz", "!-_.*'()", "soaps", "a.", "-a", "CON", "..."]);
    tester.passes(["a".repeat(300)]);
}

pub fn wasabi(tester: &ProfileTester) {
    tester.finds_inside(['\u{10000}', '\u{1F600}'], "error reserved-character");
    tester.finds_inside(['é', '日', '\u{FFFD}'], "warn reserved-character");
    tester.finds_inside("%<>\\#?&".chars(), "warn reserved-character");
    tester.finds_path("d/".repeat(512) + "a", "error path-too-long");
    tester.finds("a\tb", "warn c0-control");
    tester.finds("a\u{7F}b", "warn delete");
    tester.finds("soap", "warn reserved-name");
    tester.passes(["0123456789", "AZaz", "!-_.*'()"]);
}

pub fn gcs(tester: &ProfileTester) {
    tester.finds_inside(['\r', '\n'], "error reserved-character");
    tester.finds_each([".", ".."], "error dot-name");
    tester.finds(b"caf\xE9", "error truncated");
    tester.finds_path("d/".repeat(511) + "ab", "");
    tester.finds_path("d/".repeat(512) + "a", "error path-too-long");
    tester.finds_inside(
        ['#', '[', ']', '*', '?', '\u{7F}', '\u{84}', '\u{86}', '\u{9F}'],
        "warn reserved-character",
    );
    tester.passes_inside(['\t', '\u{85}', ':', '\\', ' ', '<', 'é', '\u{A0}']);
    tester.passes(["a.", "a ", "CON", "..."]);
}

pub fn azure(tester: &ProfileTester) {
    tester.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    tester.finds_inside(['\u{7F}'], "error delete");
    tester.finds_inside(['\\'], "error reserved-character");
    tester.finds_each(["a.", "a.."], "error trailing-dot");
    tester.finds_inside(['"', ':', '|', '<', '>', '*', '?'], "warn reserved-character");
    tester.finds(b"caf\xE9", "error truncated");
    tester.passes(["a ", " a", "CON", "é", "a\u{85}", "a#b%c"]);
}

pub fn gdrive(tester: &ProfileTester) {
    tester.finds(b"caf\xE9", "error truncated");
    windows::section_1(tester, "warn");
    windows::lengths(tester, "warn");
    tester.finds_path("d/".repeat(129) + "a", "");
    tester.finds_path("d/".repeat(129) + "ab", "warn path-too-long");
    tester.finds_together(&["README", "Readme"], "warn collision-case");
    tester.tells_apart(&["é", "e\u{301}"]);
}

pub fn dropbox(tester: &ProfileTester) {
    tester.finds_inside(['\\'], "error reserved-character");
    tester.finds_inside(['\u{7F}'], "error delete");
    tester.finds_each(["a ", "a.txt "], "error trailing-space");
    tester.finds("a\0", "error nul-smuggling");
    // Characters are counted, not units: U+20000 is one.
    tester.passes(["a".repeat(255), "é".repeat(255), "\u{20000}".repeat(255)]);
    tester.finds_each(["a".repeat(256), "é".repeat(256), "\u{20000}".repeat(256)], "error name-too-long");
    tester.finds_inside('\u{1}'..='\u{1F}', "warn c0-control");
    tester.finds_inside(['<', '>', ':', '"', '|', '?', '*'], "warn reserved-character");
    tester.finds_each(["a.", "a.."], "warn trailing-dot");
    tester.finds_each(["desktop.ini", "THUMBS.DB", ".dropbox", "~$a.docx", ".~lock.a"], "warn left-behind");
    tester.finds_inside(['\u{1F600}', '\u{1F469}'], "warn reserved-character");
    tester.finds_path("d/".repeat(129) + "a", "");
    tester.finds_path("d/".repeat(129) + "ab", "warn path-too-long");
    tester.finds_path("d/".repeat(128) + "\u{1F600}\u{1F600}", "warn path-too-long");
    tester.finds_together(&["README", "Readme"], "error collision-case");
    tester.finds_together(&["É", "é"], "error collision-case");
    tester.tells_apart(&["é", "e\u{301}"]);
    tester.passes([" a", "CON", "é", "日本", "a#b%c"]);
}

pub fn box_(tester: &ProfileTester) {
    tester.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    tester.finds_inside(['\u{7F}'], "error delete");
    tester.finds_inside(['\\'], "error reserved-character");
    tester.finds("a/b", "error separator-smuggling");
    tester.finds_each([".", ".."], "error dot-name");
    tester.finds_each(["a ", "a.txt "], "error trailing-space");
    tester.finds_together(&["README", "Readme"], "warn collision-case");
    tester.passes([" a", "a.", "CON", "a:b?", "é", "a\u{85}"]);
    tester.finds_each(["desktop.ini", "a.tmp", "a.BAK", "x.lnk"], "warn left-behind");
    tester.finds_by_kind("~a", ["", "warn left-behind"]);
    tester.finds_by_kind(".git", ["", "warn left-behind"]);
    tester.finds(".a", "warn left-behind");
}

pub fn nextcloud(tester: &ProfileTester) {
    tester.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    tester.finds_inside(['\\'], "error reserved-character");
    tester.finds("a/b", "error separator-smuggling");
    tester.finds_each([".", ".."], "error dot-name");
    tester.finds_each([" ", "  ", "     "], "error reserved-name, warn trailing-space");
    tester.passes(["a".repeat(250), "é".repeat(125)]);
    tester.finds_each(["a".repeat(251), "é".repeat(126)], "error name-too-long");
    tester.finds_each([".htaccess", ".HTACCESS"], "error reserved-name");
    tester.finds_each(["film.part", "film.filepart", ".part", "a.PART"], "error reserved-name");
    tester.passes([
        "htaccess",
        ".htaccess2",
        "a.htaccess",
        "part",
        "a.part2",
        "apart",
        "a.parts",
        " a",
        "a\u{7F}",
    ]);
    // Windows-compatible mode.
    tester.finds_inside(['<', '>', ':', '"', '|', '?', '*'], "warn reserved-character");
    tester.finds_each(["a ", "  a "], "warn trailing-space");
    tester.finds_each(["a.", "a.."], "warn trailing-dot");
    tester.finds_each(
        ["con", "PRN.txt", "aux.tar.gz", "nul", "com¹", "lpt².x", "com³", "lpt³"],
        "warn reserved-name",
    );
    tester.finds_each((0..=9).flat_map(|n| [format!("com{n}"), format!("LPT{n}.txt")]), "warn reserved-name");
    tester.passes(["console", "com10", ".con", "conin$", "clock$"]);
    tester.finds_each(
        [".DS_Store", "Desktop.ini", "~$a.docx", ".~lock.a#", "a~", "a.crdownload"],
        "warn left-behind",
    );
    tester.finds("a_conflict-20260101-b.txt", "warn left-behind");
    // Decomposed names.
    tester.finds("e\u{301}.txt", "warn not-in-form");
    tester.passes(["é.txt", "日本.txt"]);
}
