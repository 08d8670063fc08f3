//! Repositories of version control: what is inside one is found by its name, so no other name may be suggested for it.

use std::fs;
use std::path::Path;

/// The directories in which Git, Mercurial, Subversion, Bazaar, Jujutsu, Darcs and Pijul keep a repository. `CVS` is not
/// one of them: it names too many directories that have nothing to do with CVS.
const METADATA: [&str; 7] = [".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", ".pijul"];

/// What a bare Git repository has at its top (gitrepository-layout(5)).
const BARE: [&str; 3] = ["HEAD", "objects", "refs"];

/// Whether the directory `dir` is part of a repository by its path.
pub(crate) fn is_metadata(dir: &Path) -> bool {
    dir.components().any(|part| METADATA.iter().any(|name| part.as_os_str() == *name))
}

/// Whether the directory `dir` is part of a repository by its full path, or a directory above is a bare repository.
pub fn is_within(dir: &Path) -> bool {
    let Ok(dir) = fs::canonicalize(dir) else { return is_metadata(dir) };
    let is_bare = |dir: &Path| BARE.iter().all(|name| dir.join(name).exists());
    is_metadata(&dir) || dir.ancestors().skip(1).any(is_bare)
}

/// The names of a directory, as far as they show a repository.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepositorySigns {
    bare: u8,
    /// Whether it is the top of a Git work tree.
    pub has_work_tree: bool,
}

impl RepositorySigns {
    /// Adds a name of the directory.
    pub fn add(&mut self, name: &[u8]) {
        // Most names have other lengths.
        if matches!(name.len(), 4 | 7) {
            self.has_work_tree |= name == METADATA[0].as_bytes();
            if let Some(at) = BARE.iter().position(|known| known.as_bytes() == name) {
                self.bare |= 1 << at;
            }
        }
    }

    /// Whether it is a bare repository.
    pub(crate) fn is_bare(self) -> bool {
        self.bare == 0b111
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_known_by_their_path_and_by_what_is_at_their_top() {
        for (path, expected) in [
            ("a/.git/refs", true),
            (".hg", true),
            ("x/.svn/y", true),
            ("a/_darcs/z", true),
            ("a/git/.github", false),
            ("", false),
        ] {
            assert_eq!(is_metadata(Path::new(path)), expected, "{path}");
        }
        let mut signs = RepositorySigns::default();
        for name in ["HEAD", "refs", "config"] {
            signs.add(name.as_bytes());
        }
        assert!(!signs.is_bare() && !signs.has_work_tree);
        signs.add(b"objects");
        signs.add(b".git");
        assert!(signs.is_bare() && signs.has_work_tree);
    }
}
