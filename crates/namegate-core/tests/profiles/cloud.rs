//! Cases of cloud stores.

use super::{Judge, windows};

pub fn sharepoint(judge: &Judge) {
    judge.finds_inside(['"', '*', ':', '<', '>', '?', '\\', '|'], "error reserved-character");
    judge.finds("a/b", "error separator-smuggling");
    judge.finds_each([" a", "  a"], "error leading-space");
    judge.finds_each(["a ", "a.txt "], "error trailing-space");
    judge.finds_each(
        [".lock", "CON", "prn", "Aux", "NUL", "desktop.ini", "Desktop.INI"],
        "error reserved-name",
    );
    judge.finds_each((0..=9).flat_map(|n| [format!("COM{n}"), format!("lpt{n}")]), "error reserved-name");
    judge.finds_each(["_vti_", "a_vti_b", "_VTI_x", "x_vti_"], "error reserved-name");
    judge.finds_each(["~$", "~$draft.docx"], "error reserved-name, warn leading-tilde");
    judge.finds_each(["~", "~folder"], "warn leading-tilde");
    judge.finds_each(["forms", "Forms"], "warn reserved-name");
    judge.finds_each(["a.", "a.."], "warn trailing-dot");
    judge.passes([
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
    judge.passes(["a&b{c}", "a..b", ".a", "日本.txt"]);
    judge.passes(["a".repeat(255), "\u{1F600}".repeat(127)]);
    judge.finds_each(["a".repeat(256), "\u{1F600}".repeat(128)], "warn name-too-long");
    judge.finds_path("d/".repeat(199) + "ab", "");
    judge.finds_path("d/".repeat(200) + "a", "error path-too-long");
    judge.finds_together(&["README", "Readme"], "warn collision-case");
    judge.tells_apart(&["a", "b"]);
}

pub fn s3(judge: &Judge) {
    judge.finds_path("d/".repeat(511) + "ab", "");
    judge.finds_path("d/".repeat(512) + "a", "error path-too-long");
    judge.finds_path("é".repeat(512), "");
    judge.finds_path("é".repeat(513), "error path-too-long");
    judge.finds_inside("\\{}^%`[]\"><~#|".chars(), "warn reserved-character");
    judge.finds_inside("&$@=;:+ ,?".chars(), "warn reserved-character");
    judge.finds_inside('\u{1}'..='\u{1F}', "warn c0-control");
    judge.finds_inside(['\u{7F}'], "warn delete");
    judge.finds_inside(['\u{80}', 'é', '日', '\u{1F600}'], "warn reserved-character");
    judge.finds("soap", "warn reserved-name");
    judge.finds_each([".", ".."], "error dot-name");
    judge.passes(["0123456789", "AZaz", "!-_.*'()", "soaps", "a.", "-a", "CON", "..."]);
    judge.passes(["a".repeat(300)]);
}

pub fn gcs(judge: &Judge) {
    judge.finds_inside(['\r', '\n'], "error reserved-character");
    judge.finds_each([".", ".."], "error dot-name");
    judge.finds(b"caf\xE9", "error truncated");
    judge.finds_path("d/".repeat(511) + "ab", "");
    judge.finds_path("d/".repeat(512) + "a", "error path-too-long");
    judge.finds_inside(
        ['#', '[', ']', '*', '?', '\u{7F}', '\u{84}', '\u{86}', '\u{9F}'],
        "warn reserved-character",
    );
    judge.passes_inside(['\t', '\u{85}', ':', '\\', ' ', '<', 'é', '\u{A0}']);
    judge.passes(["a.", "a ", "CON", "..."]);
}

pub fn azure(judge: &Judge) {
    judge.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    judge.finds_inside(['\u{7F}'], "error delete");
    judge.finds_inside(['\\'], "error reserved-character");
    judge.finds_each(["a.", "a.."], "error trailing-dot");
    judge.finds_inside(['"', ':', '|', '<', '>', '*', '?'], "warn reserved-character");
    judge.finds(b"caf\xE9", "error truncated");
    judge.passes(["a ", " a", "CON", "é", "a\u{85}", "a#b%c"]);
}

pub fn gdrive(judge: &Judge) {
    judge.finds(b"caf\xE9", "error truncated");
    windows::section_1(judge, "warn");
    windows::lengths(judge, "warn");
    judge.finds_path("d/".repeat(129) + "a", "");
    judge.finds_path("d/".repeat(129) + "ab", "warn path-too-long");
    judge.finds_together(&["README", "Readme"], "warn collision-case");
    judge.tells_apart(&["é", "e\u{301}"]);
}

pub fn dropbox(judge: &Judge) {
    judge.finds_inside(['\\'], "error reserved-character");
    judge.finds_inside(['\u{7F}'], "error delete");
    judge.finds_each(["a ", "a.txt "], "error trailing-space");
    judge.finds("a\0", "error nul-smuggling");
    // Characters are counted, not units: U+20000 is one.
    judge.passes(["a".repeat(255), "é".repeat(255), "\u{20000}".repeat(255)]);
    judge.finds_each(["a".repeat(256), "é".repeat(256), "\u{20000}".repeat(256)], "error name-too-long");
    judge.finds_inside('\u{1}'..='\u{1F}', "warn c0-control");
    judge.finds_inside(['<', '>', ':', '"', '|', '?', '*'], "warn reserved-character");
    judge.finds_each(["a.", "a.."], "warn trailing-dot");
    judge.finds_inside(['\u{1F600}', '\u{1F469}'], "warn reserved-character");
    judge.finds_path("d/".repeat(129) + "a", "");
    judge.finds_path("d/".repeat(129) + "ab", "warn path-too-long");
    judge.finds_path("d/".repeat(128) + "\u{1F600}\u{1F600}", "warn path-too-long");
    judge.finds_together(&["README", "Readme"], "error collision-case");
    judge.finds_together(&["É", "é"], "error collision-case");
    judge.tells_apart(&["é", "e\u{301}"]);
    judge.passes([" a", "CON", "é", "日本", "a#b%c"]);
}

pub fn box_(judge: &Judge) {
    judge.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    judge.finds_inside(['\u{7F}'], "error delete");
    judge.finds_inside(['\\'], "error reserved-character");
    judge.finds("a/b", "error separator-smuggling");
    judge.finds_each([".", ".."], "error dot-name");
    judge.finds_each(["a ", "a.txt "], "error trailing-space");
    judge.finds_together(&["README", "Readme"], "warn collision-case");
    judge.passes([" a", "a.", "...", "CON", "a:b?", "é", "a\u{85}"]);
}

pub fn nextcloud(judge: &Judge) {
    judge.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    judge.finds_inside(['\\'], "error reserved-character");
    judge.finds("a/b", "error separator-smuggling");
    judge.finds_each([".", ".."], "error dot-name");
    judge.finds_each([" ", "  ", "     "], "error reserved-name, warn trailing-space");
    judge.passes(["a".repeat(250), "é".repeat(125)]);
    judge.finds_each(["a".repeat(251), "é".repeat(126)], "error name-too-long");
    judge.finds_each([".htaccess", ".HTACCESS"], "error reserved-name");
    judge.finds_each(["film.part", "film.filepart", ".part", "a.PART"], "error reserved-name");
    judge.passes([
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
    judge.finds_inside(['<', '>', ':', '"', '|', '?', '*'], "warn reserved-character");
    judge.finds_each(["a ", "  a "], "warn trailing-space");
    judge.finds_each(["a.", "a.."], "warn trailing-dot");
    judge.finds_each(
        ["con", "PRN.txt", "aux.tar.gz", "nul", "com¹", "lpt².x", "com³", "lpt³"],
        "warn reserved-name",
    );
    judge.finds_each((0..=9).flat_map(|n| [format!("com{n}"), format!("LPT{n}.txt")]), "warn reserved-name");
    judge.passes(["console", "com10", ".con", "conin$", "clock$"]);
    // Decomposed names.
    judge.finds("e\u{301}.txt", "warn not-in-form");
    judge.passes(["é.txt", "日本.txt"]);
}
