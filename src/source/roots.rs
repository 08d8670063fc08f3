//! What is asked to be read: the roots of trees, and names that stand alone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{DirectoryBatch, Fault, SiblingNames};
use crate::name::arena::Arena;

/// Paths that a tree is read from, looked up.
#[derive(Debug, Default)]
pub(super) struct RootPaths {
    /// The directories, each once.
    pub(super) trees: Vec<TreeRoot>,
    /// The names of the roots themselves, those of one directory together.
    pub(super) singles: Vec<DirectoryBatch>,
    /// Those that could not be looked at.
    pub(super) faults: Vec<Fault>,
}

/// A directory that a tree is read from.
#[derive(Clone, Debug)]
pub(super) struct TreeRoot {
    /// As it was given.
    pub(super) path: PathBuf,
    /// How many bytes of a path below it lead to it, the separator included.
    pub(super) prefix_len: usize,
    /// The file system that it is on.
    pub(super) device: u64,
}

impl RootPaths {
    /// Looks at `paths`. One that is a symbolic link is followed; a directory that is given twice is taken once.
    pub(super) fn look_up(paths: &[PathBuf]) -> Self {
        let (mut roots, mut known) = (Self::default(), HashSet::new());
        let mut singles = BTreeMap::<&Path, BTreeSet<&OsStr>>::new();
        for path in paths {
            let mut error = None;
            match std::fs::metadata(path) {
                Ok(meta) if meta.is_dir() => {
                    if known.insert((meta.dev(), meta.ino())) {
                        let (path, device) = (path.clone(), meta.dev());
                        roots.trees.push(TreeRoot { prefix_len: prefix_len(&path), path, device });
                    }
                }
                Ok(_) => {}
                Err(found) => error = Some(found),
            }
            // What a link names may be missing or out of reach; its own name is there.
            let is_there = error.is_none() || std::fs::symlink_metadata(path).is_ok();
            // A root has a name as everything has that is found below it; `.`, `..` and `/` have none.
            if let Some(name) = path.file_name().filter(|_| is_there) {
                singles.entry(path.parent().unwrap_or(Path::new(""))).or_default().insert(name);
            }
            // A link that leads nowhere hides nothing.
            if let Some(error) = error.filter(|error| !is_there || error.kind() != io::ErrorKind::NotFound) {
                roots.faults.push(Fault { path: path.clone(), attempt: "read", error });
            }
        }
        roots.singles = singles.into_iter().map(|(dir, names)| some_of(dir, &names)).collect();
        roots
    }
}

/// Those `names` of `dir` that are roots themselves.
fn some_of(dir: &Path, names: &BTreeSet<&OsStr>) -> DirectoryBatch {
    let mut batch = DirectoryBatch::new(dir.to_path_buf(), prefix_len(dir));
    for name in names {
        add(&mut batch, name);
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

/// How many bytes of a path below `root` lead to it, the separator included.
fn prefix_len(root: &Path) -> usize {
    let bytes = root.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.ends_with(b"/") { bytes.len() } else { bytes.len() + 1 }
}

pub(super) const NO_NUL: &str = "the system hands over names as strings that end in NUL";

pub(super) fn add(batch: &mut DirectoryBatch, name: &OsStr) {
    batch.push(name.as_bytes());
}
