//! The directory for what outlives a process and is no setting: journals of repairs.

use std::env;
use std::path::PathBuf;

use nix::unistd::geteuid;

/// The directory `namegate` in `$XDG_STATE_HOME`, by default in `~/.local/state`; for root in `/var/lib`. `None` for a user without a
/// home. Source: XDG Base Directory Specification.
pub fn find() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| match geteuid().is_root() {
        true => Some(PathBuf::from("/var/lib")),
        false => absolute("HOME").map(|home| home.join(".local/state")),
    })?;
    Some(state.join("namegate"))
}
