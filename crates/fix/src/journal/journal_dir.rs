//! The default directory of journals.

use std::env;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{self, Path, PathBuf};

use jiff::Timestamp;
use nix::unistd::geteuid;

/// The file name extension of journals.
const EXTENSION: &str = "jsonl";

/// The directory of journals: `namegate/journals` in `$XDG_STATE_HOME`, by default in `~/.local/state`; for root in `/var/lib`. `None` for a
/// user without a home. Source: XDG Base Directory Specification.
pub fn find() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| match geteuid().is_root() {
        true => Some(PathBuf::from("/var/lib")),
        false => absolute("HOME").map(|home| home.join(".local/state")),
    })?;
    Some(state.join("namegate/journals"))
}

/// A path for a new journal in `dir`. Creates `dir` if it does not exist, for its owner only. File names sort by time.
///
/// # Errors
/// The directory cannot be created.
pub fn new_path(dir: &Path, now: Timestamp) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let random = RandomState::new().hash_one(0) as u32;
    Ok(dir.join(format!("{}-{random:08x}.{EXTENSION}", now.strftime("%Y%m%dT%H%M%SZ"))))
}

/// Adds the journal `path`, which is elsewhere, to the journals in `dir`. The link may fail: then the journal is found by its path alone.
pub fn add(dir: &Path, path: &Path, now: Timestamp) {
    if let (Ok(path), Ok(link)) = (path::absolute(path), new_path(dir, now)) {
        let _ = symlink(path, link);
    }
}

/// The journals in `dir`, the newest first; none if `dir` does not exist.
pub fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let modified = fs::metadata(&path).and_then(|meta| meta.modified()).ok();
        match fs::read_link(&path) {
            // A journal elsewhere that is gone.
            Ok(_) if modified.is_none() => {}
            Ok(elsewhere) => found.push((modified, elsewhere)),
            Err(_) => found.push((modified, path)),
        }
    }
    // The name has the start of the run in seconds; the modification time decides which journal was written last.
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}
