//! Deaths of the server at chosen moments, for tests: in debug builds alone.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

/// Kills this process if the first line of the file that the environment variable `NAMEGATE_TEST_FAULT` names is this moment and this
/// operation. The line is removed, and with the last one the file.
pub(super) fn die_at(moment: &str, opcode: u64) {
    static FILE: OnceLock<Option<OsString>> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(file) = FILE.get_or_init(|| env::var_os("NAMEGATE_TEST_FAULT")) else { return };
    let Ok(text) = fs::read_to_string(file) else { return };
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    if first == format!("{moment} {opcode}") {
        let done = if rest.is_empty() { fs::remove_file(file) } else { fs::write(file, rest) };
        if done.is_ok() {
            let _ = kill(getpid(), Signal::SIGKILL);
        }
    }
}
