//! A signal ends every command, wherever it waits.

use std::fs::{self, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::interrupt::let_signals_end_programs;
use crate::rest::wait_for_rest;
use crate::run::{namegate, status, stderr};

/// A second for the program, and the rest for a machine that does other things too. Before, these runs ended late or never.
const LIMIT: Duration = Duration::from_secs(5);

/// Sends the signal to a program, and asserts that it ends soon, with the status that shells expect.
fn assert_ended(mut child: Child, signal: Signal, what: &str) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None if begun.elapsed() > LIMIT => {
                child.kill().unwrap();
                panic!("{what}: {signal} did not end it");
            }
            None => sleep(Duration::from_millis(10)),
        }
    };
    let code = ended.code().or(ended.signal().map(|signal| 128 + signal));
    assert_eq!(code, Some(128 + signal as i32), "{what}");
}

fn start(args: &[&str], stdin: Stdio) -> Child {
    let_signals_end_programs();
    let mut command = namegate();
    command.args(args).stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until a program has read so many bytes.
fn wait_for_reading(child: &Child, bytes: u64) {
    let begun = Instant::now();
    let read = || {
        let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok()).unwrap_or_default()
    };
    while read() < bytes {
        assert!(begun.elapsed() < Duration::from_secs(60), "it reads nothing");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_ends_every_command_that_waits_for_input() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // Nobody has opened one; the other is open, and nothing comes.
    let (closed, silent, tree) = (path("closed"), path("silent"), path("tree"));
    for fifo in [&closed, &silent] {
        mkfifo(fifo.as_str(), Mode::S_IRWXU).unwrap();
    }
    fs::create_dir(&tree).unwrap();
    let _writer = OpenOptions::new().read(true).write(true).open(&silent).unwrap();
    for fifo in [&closed, &silent] {
        let commands: &[&[&str]] = &[
            &["scan", "--list", fifo],
            &["scan", "--list", fifo, "--list-format", "jsonl:name"],
            #[cfg(feature = "archive")]
            &["scan", "--archive", fifo],
            &["report", fifo],
            &["fix", "apply", fifo],
            &["fix", "plan", &tree, "--map", fifo],
            &["scan", &tree, "--baseline", fifo],
            &["check", "--config", fifo, "name"],
        ];
        for command in commands {
            for signal in [Signal::SIGTERM, Signal::SIGINT] {
                let child = start(command, Stdio::null());
                wait_for_rest(child.id());
                assert_ended(child, signal, &format!("{command:?}"));
            }
        }
    }
    for command in [&["scan", "--list", "-"][..], &["check"]] {
        let child = start(command, OpenOptions::new().read(true).write(true).open(&silent).unwrap().into());
        wait_for_rest(child.id());
        assert_ended(child, Signal::SIGTERM, &format!("{command:?} of standard input"));
    }
}

#[test]
fn a_signal_ends_every_command_that_reads_without_end() {
    let commands: &[&[&str]] = &[
        &["scan", "--list", "/dev/zero"],
        &["scan", "--list", "/dev/zero", "--null"],
        #[cfg(feature = "archive")]
        &["scan", "--archive", "/dev/zero"],
        &["report", "/dev/zero"],
        &["fix", "apply", "/dev/zero"],
    ];
    for command in commands {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let mut child = start(command, Stdio::null());
            // What ends by itself needs no signal.
            let begun = Instant::now();
            while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(1) {
                sleep(Duration::from_millis(10));
            }
            if child.try_wait().unwrap().is_none() {
                wait_for_reading(&child, 1 << 16);
                assert_ended(child, signal, &format!("{command:?}"));
            }
        }
    }
}

#[test]
fn a_run_that_a_signal_ends_while_it_waits_says_so_and_replaces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (fifo, report) = (dir.path().join("fifo"), dir.path().join("report.json"));
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    fs::write(&report, "as before").unwrap();
    let_signals_end_programs();
    let mut command = namegate();
    command.args(["scan", "--format", "json", "--list"]).arg(&fifo).arg("-o").arg(&report);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_rest(child.id());
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 143);
    assert!(stderr(&output).contains("SIGTERM: the run has ended while it waited"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&report).unwrap(), "as before");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no part of a report stays");
}
