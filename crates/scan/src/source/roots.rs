//! The paths to read: roots of trees, and names that stand alone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use namegate_core::name::arena::Arena;

use super::{DirectoryBatch, Fault, SiblingNames, repository_signs};

/// The paths of a tree source, resolved.
#[derive(Debug, Default)]
pub(super) struct RootPaths {
    /// The directories, each once.
    pub(super) trees: Vec<TreeRoot>,
    /// The names of the roots themselves, grouped by directory.
    pub(super) singles: Vec<DirectoryBatch>,
    /// The paths that could not be examined.
    pub(super) faults: Vec<Fault>,
}

#[derive(Clone, Debug)]
pub(super) struct TreeRoot {
    /// The path as given.
    pub(super) path: PathBuf,
    /// Number of bytes of a path below it that are the path of the root, including the separator.
    pub(super) prefix_len: usize,
    /// The device of its file system.
    pub(super) device: u64,
    /// Whether it is inside a repository.
    pub(super) in_repository: bool,
}

impl RootPaths {
    /// Resolves `paths`. A symbolic link is followed; a directory that is given twice is used once.
    pub(super) fn look_up(paths: &[PathBuf]) -> Self {
        let (mut roots, mut known) = (Self::default(), HashSet::new());
        let mut singles = BTreeMap::<&Path, BTreeSet<&OsStr>>::new();
        for path in paths {
            let mut error = None;
            match std::fs::metadata(path) {
                Ok(meta) if meta.is_dir() => {
                    if known.insert((meta.dev(), meta.ino())) {
                        let (path, device) = (path.clone(), meta.dev());
                        let (prefix_len, in_repository) =
                            (prefix_len(&path), repository_signs::is_within(&path));
                        roots.trees.push(TreeRoot { path, prefix_len, device, in_repository });
                    }
                }
                Ok(_) => {}
                Err(found) => error = Some(found),
            }
            // The target of a link may be missing or inaccessible; the name of the link can still be checked.
            let is_there = error.is_none() || std::fs::symlink_metadata(path).is_ok();
            // A root has a name like everything found below it; `.`, `..` and `/` have none.
            if let Some(name) = path.file_name().filter(|_| is_there) {
                singles.entry(path.parent().unwrap_or(Path::new(""))).or_default().insert(name);
            }
            // A dangling link hides nothing.
            if let Some(error) = error.filter(|error| !is_there || error.kind() != io::ErrorKind::NotFound) {
                roots.faults.push(Fault { path: path.clone(), attempt: "read", error });
            }
        }
        roots.singles = singles.into_iter().map(|(dir, names)| some_of(dir, &names)).collect();
        roots
    }
}

/// The batch of those `names` in `dir` that are roots.
fn some_of(dir: &Path, names: &BTreeSet<&OsStr>) -> DirectoryBatch {
    let mut batch = DirectoryBatch::new(dir.to_path_buf(), prefix_len(dir));
    for name in names {
        batch.push(name.as_bytes());
    }
    let others = || -> io::Result<Arena> {
        let mut others = Arena::new();
        for entry in std::fs::read_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })? {
            let name = entry?.file_name();
            if !names.contains(&*name) {
                others.push(name.as_bytes()).expect(NO_NUL);
            }
        }
        Ok(others)
    };
    batch.siblings = others().map_or(SiblingNames::Unknown, SiblingNames::Compared);
    batch
}

/// Number of bytes of a path below `root` that are the path of the root, including the separator.
fn prefix_len(root: &Path) -> usize {
    let bytes = root.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.ends_with(b"/") { bytes.len() } else { bytes.len() + 1 }
}

pub(super) const NO_NUL: &str = "names from the system end with NUL";
