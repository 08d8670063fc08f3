//! Deaths of the server at chosen moments, for tests: in debug builds alone.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

/// Kills this process if the file that the environment variable `NAMEGATE_TEST_FAULT` names contains this moment and this operation. The
/// file is removed.
pub(super) fn die_at(moment: &str, opcode: u64) {
    static FILE: OnceLock<Option<OsString>> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(file) = FILE.get_or_init(|| env::var_os("NAMEGATE_TEST_FAULT")) else { return };
    if fs::read_to_string(file).is_ok_and(|wanted| wanted == format!("{moment} {opcode}"))
        && fs::remove_file(file).is_ok()
    {
        let _ = kill(getpid(), Signal::SIGKILL);
    }
}
