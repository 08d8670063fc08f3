//! Cases of git: every name that NTFS or HFS+ takes for one of git's own.

use super::Judge;

pub fn git(judge: &Judge) {
    let lookalike = "error dot-git-lookalike";
    // NTFS: `.git` or `git~1`, then dots and spaces, then the end, a backslash or a colon.
    for own in [".git", "git~1"] {
        for end in
            [" ", ".", ". .", "  ..", ":", ":x", "::$INDEX_ALLOCATION", " .:x", "\\", "\\hooks", ". \\x"]
        {
            for name in [own.to_owned(), own.to_uppercase(), own.replace("gi", "Gi")] {
                judge.finds(format!("{name}{end}"), lookalike);
            }
        }
    }
    judge.finds_each(
        [".GIT", ".Git", ".giT", "git~1", "GIT~1", "a\\.git", "a\\..\\.GIT ", "x\\git~1"],
        lookalike,
    );
    // HFS+: the code points that it does not see.
    let unseen = ('\u{200C}'..='\u{200F}').chain('\u{202A}'..='\u{202E}').chain('\u{206A}'..='\u{206F}');
    for c in unseen.chain(['\u{FEFF}']) {
        judge.finds_each(
            [format!("{c}.git"), format!(".g{c}it"), format!(".git{c}"), format!(".G{c}{c}I{c}T")],
            lookalike,
        );
        judge.finds_each(
            [format!(".git{c}modules"), format!(".gitign{c}ore"), format!("{c}.gitattributes")],
            lookalike,
        );
    }
    // The files that git obeys, and their short names.
    for own in [".gitmodules", ".gitignore", ".gitattributes"] {
        judge.finds_each(
            [own.to_uppercase(), format!("{own} "), format!("{own}."), format!("{own}:x")],
            lookalike,
        );
    }
    for short in ["gitmod", "gitign", "gitatt"] {
        judge.finds_each((1..=4).map(|n| format!("{short}~{n}")), lookalike);
        judge.finds_each([format!("{}~1", short.to_uppercase()), format!("{short}~1. ")], lookalike);
        judge.passes([
            format!("{short}~5"),
            format!("{short}~0"),
            format!("{short}~"),
            format!("{short}~11"),
        ]);
    }
    judge.finds_each(
        ["gi7eba~1", "gi250a~9", "gi7d29~1", "GI7EBA~2", "gi7eb~10", "gi7~1234", "~1000000"],
        lookalike,
    );
    judge.passes([
        "gi7eba~",
        "gi7eba~0",
        "gi7ebb~1",
        "gi251a~1",
        "gi7eba",
        "~100000",
        "~10000000",
        "~0000000",
    ]);
    // The names themselves, and what only resembles them.
    judge.passes([
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
    judge.passes([
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
    // fsck: hasDot, hasDotdot, fullPathname.
    judge.finds_each([".", ".."], "error dot-name");
    judge.finds("a/b", "error separator-smuggling");
    judge.finds_path("d/".repeat(129) + "a", "");
    judge.finds_path("d/".repeat(129) + "ab", "warn path-too-long");
    judge.finds_together(&["Makefile", "makefile"], "warn collision-case");
    judge.finds_together(&["é", "e\u{301}"], "warn collision-normalization");
    judge.tells_apart(&["a", "b"]);
}
