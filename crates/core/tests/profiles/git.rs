//! Cases of git: every name that NTFS or HFS+ treats as one of git's own.

use super::ProfileTester;

const LOOKALIKE: &str = "error dot-git-lookalike";

pub fn git(tester: &ProfileTester) {
    own_directory(tester);
    own_files(tester);
    similar_names(tester);
    // fsck: hasDot, hasDotdot, fullPathname.
    tester.finds_each([".", ".."], "error dot-name");
    tester.finds("a/b", "error separator-smuggling");
    tester.finds_path("d/".repeat(129) + "a", "");
    tester.finds_path("d/".repeat(129) + "ab", "warn path-too-long");
    tester.finds_together(&["Makefile", "makefile"], "warn collision-case");
    tester.finds_together(&["é", "e\u{301}"], "warn collision-normalization");
    tester.tells_apart(&["a", "b"]);
}

fn own_directory(tester: &ProfileTester) {
    // NTFS: `.git` or `git~1`, then dots and spaces, then the end, a backslash or a colon.
    for own in [".git", "git~1"] {
        for end in
            [" ", ".", ". .", "  ..", ":", ":x", "::$INDEX_ALLOCATION", " .:x", "\\", "\\hooks", ". \\x"]
        {
            for name in [own.to_owned(), own.to_uppercase(), own.replace("gi", "Gi")] {
                tester.finds(format!("{name}{end}"), LOOKALIKE);
            }
        }
    }
    tester.finds_each(
        [".GIT", ".Git", ".giT", "git~1", "GIT~1", "a\\.git", "a\\..\\.GIT ", "x\\git~1"],
        LOOKALIKE,
    );
    // HFS+: the code points that it ignores.
    let unseen = ('\u{200C}'..='\u{200F}').chain('\u{202A}'..='\u{202E}').chain('\u{206A}'..='\u{206F}');
    for c in unseen.chain(['\u{FEFF}']) {
        tester.finds_each(
            [format!("{c}.git"), format!(".g{c}it"), format!(".git{c}"), format!(".G{c}{c}I{c}T")],
            LOOKALIKE,
        );
        tester.finds_each(
            [format!(".git{c}modules"), format!(".gitign{c}ore"), format!("{c}.gitattributes")],
            LOOKALIKE,
        );
    }
}

fn own_files(tester: &ProfileTester) {
    // The files that configure git, and their short names.
    for own in [".gitmodules", ".gitignore", ".gitattributes"] {
        tester.finds_each(
            [own.to_uppercase(), format!("{own} "), format!("{own}."), format!("{own}:x")],
            LOOKALIKE,
        );
    }
    for short in ["gitmod", "gitign", "gitatt"] {
        tester.finds_each((1..=4).map(|n| format!("{short}~{n}")), LOOKALIKE);
        tester.finds_each([format!("{}~1", short.to_uppercase()), format!("{short}~1. ")], LOOKALIKE);
        tester.passes([
            format!("{short}~5"),
            format!("{short}~0"),
            format!("{short}~"),
            format!("{short}~11"),
        ]);
    }
    tester.finds_each(
        ["gi7eba~1", "gi250a~9", "gi7d29~1", "GI7EBA~2", "gi7eb~10", "gi7~1234", "~1000000"],
        LOOKALIKE,
    );
    tester.passes([
        "gi7eba~",
        "gi7eba~0",
        "gi7ebb~1",
        "gi251a~1",
        "gi7eba",
        "~100000",
        "~10000000",
        "~0000000",
    ]);
}

fn similar_names(tester: &ProfileTester) {
    tester.passes([
        ".git",
        ".gitmodules",
        ".gitignore",
        ".gitattributes",
        ".github",
        ".gitkeep",
        "git",
        "git~2",
        "git~10",
    ]);
    tester.passes([
        " .git",
        "x.git",
        "..git",
        ".gitx",
        ".git-",
        ".g\u{200B}it",
        ".g\u{2060}it",
        "a\\b",
        "a:b",
        "CON",
        "a.",
    ]);
}
