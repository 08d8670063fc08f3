//! Names that a file system of Windows or macOS treats as `.git` or as a file that configures git.
//!
//! On Linux such a name is an ordinary file. Checked out elsewhere it becomes, or shadows, the repository itself
//! (CVE-2014-9390). The exact names `.git`, `.gitmodules` ... are not violations.
//!
//! Source of the tests: git's path.c (`is_ntfs_dotgit`, `is_ntfs_dot_generic`) and utf8.c (`next_hfs_char`), restated.

/// A file that configures git: its name, the start of its DOS short name, and the fallback short name.
pub(super) struct Obeyed {
    name: &'static str,
    pub(super) short: &'static str,
    pub(super) hashed: &'static str,
}

pub(super) const OBEYED: [Obeyed; 3] = [
    Obeyed { name: ".gitmodules", short: "gitmod", hashed: "gi7eba" },
    Obeyed { name: ".gitignore", short: "gitign", hashed: "gi250a" },
    Obeyed { name: ".gitattributes", short: "gitatt", hashed: "gi7d29" },
];

/// Code points that HFS+ ignores, from the first to the last.
pub(super) const IGNORED: [(char, char); 4] =
    [('\u{200C}', '\u{200F}'), ('\u{202A}', '\u{202E}'), ('\u{206A}', '\u{206F}'), ('\u{FEFF}', '\u{FEFF}')];

/// Whether Windows or macOS treats `name`, or a part of it between backslashes, as one of git's own names.
pub(super) fn is_lookalike(name: &[u8]) -> bool {
    if own_names().any(|own| name == own.as_bytes()) {
        return false;
    }
    name.split(|&b| b == b'\\').any(|part| ntfs(part) || hfs(part))
}

/// NTFS ignores case, drops dots and spaces at the end, cuts at the stream separator and knows short names.
fn ntfs(name: &[u8]) -> bool {
    let main = name.split(|&b| b == b':').next().unwrap_or_default();
    let trimmed = main.trim_end_with(b" .");
    if trimmed.eq_ignore_ascii_case(b"git~1") {
        return true;
    }
    own_names().any(|own| trimmed.eq_ignore_ascii_case(own.as_bytes()))
        || OBEYED.iter().any(|o| short_name(trimmed, o))
}

/// `.git` and the names of the files that configure git.
pub(super) fn own_names() -> impl Iterator<Item = &'static str> {
    OBEYED.iter().map(|o| o.name).chain([".git"])
}

/// `gitmod~1` to `gitmod~4`, or the hashed form: up to six of its letters, a tilde, digits, eight bytes together.
fn short_name(name: &[u8], obeyed: &Obeyed) -> bool {
    let Some(tilde) = memchr::memchr(b'~', name) else { return false };
    let (letters, digits) = (&name[..tilde], &name[tilde + 1..]);
    if letters.eq_ignore_ascii_case(obeyed.short.as_bytes()) {
        return matches!(digits, [b'1'..=b'4']);
    }
    let hashed = obeyed.hashed.as_bytes();
    name.len() == 8
        && tilde <= 6
        && letters.eq_ignore_ascii_case(&hashed[..tilde])
        && digits.first().is_some_and(|&d| d != b'0')
        && digits.iter().all(u8::is_ascii_digit)
}

/// HFS+ ignores case and code points that are not shown.
fn hfs(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let ignored = |c: &char| IGNORED.iter().any(|&(first, last)| (first..=last).contains(c));
    let seen = || name.chars().filter(|c| !ignored(c)).map(|c| c.to_ascii_lowercase());
    own_names().any(|own| seen().eq(own.chars()))
}

trait TrimEndWith {
    fn trim_end_with(&self, bytes: &[u8]) -> &Self;
}

impl TrimEndWith for [u8] {
    fn trim_end_with(&self, bytes: &[u8]) -> &Self {
        let end = self.iter().rposition(|b| !bytes.contains(b)).map_or(0, |at| at + 1);
        &self[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_ntfs_treats_as_git_are_found() {
        for name in [
            ".GIT",
            ".Git",
            ".git ",
            ".git.",
            ".git . .",
            "git~1",
            "GIT~1",
            "git~1.",
            ".git:x",
            ".git::$INDEX_ALLOCATION",
            "GIT~1:x",
            "a\\.git",
            ".git\\a",
            "..\\.git",
            ".gitmodules ",
            ".GITMODULES",
            ".gitignore.",
            ".gitattributes:a",
            "gitmod~1",
            "GITMOD~4",
            "gitign~2",
            "gitatt~3",
            "gi7eba~1",
            "GI7EBA~9",
            "gi7eb~10",
            "gi250a~1",
            "gi7d29~1",
            "gi7d29~1.",
            "~1000000",
        ] {
            assert!(is_lookalike(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_that_hfs_treats_as_git_are_found() {
        for name in [
            ".g\u{200C}it",
            "\u{FEFF}.git",
            ".git\u{202E}",
            ".G\u{206A}IT",
            ".git\u{200D}modules",
            "\u{200E}.GitIgnore",
        ] {
            assert!(is_lookalike(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn the_names_themselves_and_their_neighbours_are_not_look_alikes() {
        for name in [
            ".git",
            ".gitmodules",
            ".gitignore",
            ".gitattributes",
            ".github",
            ".gitlab-ci.yml",
            "git",
            "git~2",
            "git~10",
            ".gitt",
            ".gi",
            "gitmod~5",
            "gitmod~",
            "gitmod~01",
            "gi7eba~0",
            "gi7eba~",
            "gi7ebax~1",
            "gi7ebb~1",
            "x.git",
            "project.git",
            "...git",
            " .git",
            "",
            "~",
            ".g\u{200B}it",
        ] {
            assert!(!is_lookalike(name.as_bytes()), "{name:?}");
        }
    }
}
