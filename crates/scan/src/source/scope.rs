//! The part of a directory tree that is read.

use std::fmt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The part of a tree that is read; by default all of it.
#[derive(Debug)]
pub struct Scope {
    /// Number of levels below the roots to read: 0 reads only the names of the roots, 1 also their entries.
    pub max_depth: usize,
    /// Stay on the file systems of the roots. The name of a mount point is checked; its contents are not read.
    pub one_file_system: bool,
    /// Excluded entries.
    pub exclude: Exclude,
}

impl Default for Scope {
    fn default() -> Self {
        Self { max_depth: usize::MAX, one_file_system: false, exclude: Exclude::default() }
    }
}

/// Patterns in the syntax of gitignore(5), relative to the roots. Entries that match are neither checked nor read.
#[derive(Clone, Debug)]
pub struct Exclude(Gitignore);

impl Default for Exclude {
    fn default() -> Self {
        Self(Gitignore::empty())
    }
}

#[derive(Debug)]
pub struct BadPattern(ignore::Error);

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for BadPattern {}

impl Exclude {
    /// Compiles the patterns: of those that match, the last decides, and one that begins with `!` includes again.
    ///
    /// # Errors
    /// The first invalid pattern.
    ///
    /// ```
    /// use namegate_scan::source::scope::Exclude;
    /// let exclude = Exclude::new(["*.o", "/build/", "!keep.o"])?;
    /// assert!(exclude.matches("sub/x.o".as_ref(), false) && exclude.matches("build".as_ref(), true));
    /// assert!(!exclude.matches("keep.o".as_ref(), false) && !exclude.matches("sub/build".as_ref(), true));
    /// # Ok::<(), namegate_scan::source::scope::BadPattern>(())
    /// ```
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Self, BadPattern> {
        let mut builder = GitignoreBuilder::new("");
        for pattern in patterns {
            builder.add_line(None, pattern).map_err(BadPattern)?;
        }
        builder.build().map(Self).map_err(BadPattern)
    }

    /// Reports whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether the entry at `path`, relative to the root of the scan, is excluded. Entries of an excluded directory
    /// are never looked up.
    pub fn matches(&self, path: &Path, is_dir: bool) -> bool {
        !self.is_empty() && self.0.matched(path, is_dir).is_ignore()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn patterns_match_any_bytes_and_a_bad_one_is_refused() {
        let exclude = Exclude::new(["*.bak", "caf?", "a/**/z"]).unwrap();
        let matches = |path: &[u8]| exclude.matches(Path::new(OsStr::from_bytes(path)), false);
        assert!(
            matches(b"\xFF\n.bak") && matches(b"deep/\xE9/x.bak") && matches(b"a/b/c/z") && matches(b"a/z")
        );
        assert!(
            matches(b"caf\xE9") && !matches("café".as_bytes()),
            "a question location stands for one byte"
        );
        assert!(!matches(b"x.bak.txt") && !matches(b"b/z"));
        assert!(Exclude::new(["[z-a]"]).is_err());
        assert!(Exclude::default().is_empty() && !Exclude::default().matches("x".as_ref(), false));
        assert!(Exclude::new(["# a comment"]).unwrap().is_empty());
    }
}
