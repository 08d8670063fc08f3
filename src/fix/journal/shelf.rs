//! Where journals are, unless a file is named.

use std::env;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::unistd::geteuid;

/// What the name of a journal ends with.
const ENDING: &str = "jsonl";

/// The directory of journals: `namegate/journals` in `$XDG_STATE_HOME`, by default in `~/.local/state`; for root in
/// `/var/lib`. `None` for a user without a home. Source: XDG Base Directory Specification.
pub fn directory() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| match geteuid().is_root() {
        true => Some(PathBuf::from("/var/lib")),
        false => absolute("HOME").map(|home| home.join(".local/state")),
    })?;
    Some(state.join("namegate/journals"))
}

/// A name for a new journal in `dir`, which is made if it is not there, for its owner alone. Names sort by time.
///
/// # Errors
/// The directory cannot be made.
pub fn new_file(dir: &Path, now: Timestamp) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let random = RandomState::new().hash_one(0) as u32;
    Ok(dir.join(format!("{}-{random:08x}.{ENDING}", now.strftime("%Y%m%dT%H%M%SZ"))))
}

/// The journals in `dir`, the newest first; none if it is not there.
///
/// # Errors
/// It cannot be read.
pub fn journals(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == ENDING) {
            found.push((fs::metadata(&path).and_then(|meta| meta.modified()).ok(), path));
        }
    }
    // The time of a name is that of its beginning, to the second; which of two was written last is told by the file.
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}
