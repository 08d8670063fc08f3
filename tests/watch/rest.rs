//! Detects whether a started process is idle.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

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
    let (begun, mut quiet) = (Instant::now(), 0);
    while quiet < 100 {
        assert!(begun.elapsed() < Duration::from_secs(100), "{process} does not come to rest");
        quiet = if are_all_threads(process, "SZ") { quiet + 1 } else { 0 };
        sleep(Duration::from_millis(5));
    }
}
