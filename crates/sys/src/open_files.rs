//! The limit of open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The limit if the system does not tell it.
const UNKNOWN: u64 = 1024;

/// Raises the limit of open files as far as this process may.
pub fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // The lower limit remains.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

pub fn limit() -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((UNKNOWN, UNKNOWN));
    usize::try_from(soft).unwrap_or(usize::MAX)
}
