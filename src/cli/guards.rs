//! The guards in force, for commands that show them beside mounts and watches.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use namegate_files::json::JsonBytes;
use serde::Serialize;

/// A guard, as far as it is known without a look at its directory, which may be on a file system that does not answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(not(feature = "guard"), allow(dead_code, reason = "without the feature there are no guards"))]
pub(super) struct GuardSummary {
    /// Its directory, as it was when the guard was turned on.
    pub(super) path: JsonBytes,
    /// `enforcing` or `audit`.
    pub(super) mode: &'static str,
    /// Names that were refused.
    pub(super) refused: u64,
    /// Names that were reported and allowed.
    pub(super) audited: u64,
    /// Of both, those whose event found no room.
    pub(super) lost_events: u64,
    /// The file system, if all of it is guarded.
    #[serde(skip)]
    pub(super) filesystem: Option<u32>,
}

impl GuardSummary {
    /// Its directory.
    pub(super) fn directory(&self) -> PathBuf {
        OsString::from_vec(self.path.base64.0.clone()).into()
    }

    /// Where it judges names that appear below `path`, in words for after "in"; `None` if nowhere. A part of a file system is
    /// recognized by its path alone, not where it is mounted a second time.
    pub(super) fn place_below(&self, path: &Path) -> Option<String> {
        let directory = self.directory();
        if self.filesystem.is_some() && self.filesystem == device(path) {
            return Some(format!("the file system of {}", self.path.shown));
        }
        (path.starts_with(&directory) || directory.starts_with(path)).then(|| self.path.shown.clone())
    }
}

/// The device number of the file system at `path`, as guards know it.
#[cfg(feature = "guard")]
fn device(path: &Path) -> Option<u32> {
    namegate_guard::target::GuardTarget::from_path(path, true).ok().map(|target| target.device)
}

#[cfg(not(feature = "guard"))]
fn device(_path: &Path) -> Option<u32> {
    None
}

/// Reads the guards in force. Only root can: for other users there are none.
///
/// # Errors
/// What is wrong with them.
#[cfg(feature = "guard")]
pub(super) fn read_guards() -> Result<Vec<GuardSummary>, String> {
    use namegate_guard::guards::{GuardError, Guards, SlotGuard};
    use namegate_guard::note::GuardNote;

    if !nix::unistd::geteuid().is_root() {
        return Ok(Vec::new());
    }
    let summary = |guard: &SlotGuard| GuardSummary {
        path: GuardNote::from_bytes(&guard.note).map(|note| note.path).unwrap_or_default(),
        mode: guard.scope.mode(),
        refused: guard.counts.refused,
        audited: guard.counts.audited,
        lost_events: guard.counts.lost,
        filesystem: guard.scope.root.is_none().then_some(guard.scope.device),
    };
    let read = || match Guards::open() {
        Ok(Some(guards)) => Ok(guards.list()?.iter().filter(|guard| !guard.has_ended).map(summary).collect()),
        // Without a BPF file system nothing holds a guard.
        Ok(None) | Err(GuardError::NoFileSystem(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    read().map_err(|error: GuardError| error.to_string())
}

/// There are none in a program without them.
#[cfg(not(feature = "guard"))]
pub(super) fn read_guards() -> Result<Vec<GuardSummary>, String> {
    Ok(Vec::new())
}

/// The guards in force; if they cannot be read, none, and the log says why.
pub(super) fn known_guards() -> Vec<GuardSummary> {
    read_guards().unwrap_or_else(|error| {
        log::warn!("the guards are not shown: {error}");
        Vec::new()
    })
}

/// What an error about a mount says in addition, if a guard may have been meant: one of `place`, or any.
pub(super) fn guard_hint(place: Option<&Path>) -> &'static str {
    match read_guards().unwrap_or_default() {
        guards if place.is_some_and(|place| guards.iter().any(|guard| guard.directory() == place)) => {
            "; a guard is on there, which `namegate guard status` shows"
        }
        guards if place.is_none() && !guards.is_empty() => "; `namegate guard status` shows the guards",
        _ => "",
    }
}
