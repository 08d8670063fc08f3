//! Commands that wait for a file system that hangs.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use namegate_testkit::hung::Hung;

#[test]
fn a_signal_ends_every_command_that_waits_for_a_hung_file_system() {
    if !geteuid().is_root() || File::open("/dev/fuse").is_err() {
        eprintln!("SKIPPED: mounting needs root and /dev/fuse");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let on = dir.path().join("hung");
    let hung = Hung::new(on.clone());
    hung.falls_silent();
    let (tree, file) = (on.to_str().unwrap(), on.join("file-1"));
    let file = file.to_str().unwrap();
    for command in [
        &["scan", tree][..],
        &["scan", dir.path().to_str().unwrap()],
        &["scan", "--list", file],
        &["scan", "--archive", file],
        &["scan", "--git", tree],
        &["fix", "plan", tree],
        &["fix", "apply", file],
        &["report", file],
    ] {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let mut command_line = Command::new(env!("CARGO_BIN_EXE_namegate"));
            command_line.args(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command_line.spawn().unwrap();
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            // It waits as soon as it has asked for anything.
            sleep(Duration::from_millis(300));
            kill(pid, signal).unwrap();
            let begun = Instant::now();
            let ended = loop {
                match child.try_wait().unwrap() {
                    Some(ended) => break ended,
                    None if begun.elapsed() > Duration::from_secs(5) => {
                        // Waiting requests end with the file system.
                        drop(hung);
                        let _ = child.kill();
                        panic!("{command:?}: {signal} did not end it");
                    }
                    None => sleep(Duration::from_millis(10)),
                }
            };
            let code = ended.code().or(ended.signal().map(|signal| 128 + signal));
            assert_eq!(code, Some(128 + signal as i32), "{command:?}");
        }
    }
}
