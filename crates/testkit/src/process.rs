//! Processes that tests start: which signals end them, and what they are doing.

use std::fs;

use nix::sys::signal::{SigHandler, Signal, signal};

use crate::wait_until;

/// Programs that this process starts from now on are ended by SIGINT and SIGHUP, even if this process ignores them because whoever started
/// the tests did (a shell does so for `command &` in a script, and nohup(1)): a program inherits what is ignored.
pub fn let_signals_end_programs() {
    for of in [Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: the default action runs no code of this process.
        #[allow(unsafe_code, reason = "a handler would have to be vouched for; the default action is none")]
        let changed = unsafe { signal(of, SigHandler::SigDfl) };
        changed.expect("it has a default action");
    }
}

/// Reports whether all threads of a process are in one of these states of proc_pid_stat(5).
pub fn are_all_threads(process: u32, states: &str) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(|state| states.contains(state)))
    })
}

/// Waits until a process has ended or is idle: for half a second none of its threads has run or waited for a processor or a
/// disk.
pub fn wait_for_rest(process: u32) {
    let mut quiet = 0;
    wait_until(&format!("rest of process {process}"), || {
        quiet = if are_all_threads(process, "SZ") { quiet + 1 } else { 0 };
        quiet == 100
    });
}
