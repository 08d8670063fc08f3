//! A signal ends every command, wherever it waits.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo, pipe};

use namegate_testkit::process::let_signals_end_programs;
use namegate_testkit::process::wait_for_rest;
use namegate_testkit::program::{namegate, status, stderr};

/// A second for the program, and the rest for a machine that does other things too. Before, these runs ended late or never.
const LIMIT: Duration = Duration::from_secs(5);

/// Sends the signal to a program, and waits until the program has received it. A program that then waits for the reader of its output
/// waits less than a second.
pub fn send(child: &Child, signal: Signal) {
    let process = child.id();
    kill(Pid::from_raw(i32::try_from(process).unwrap()), signal).unwrap();
    let begun = Instant::now();
    let is_pending = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        pending >> (signal as u32 - 1) & 1 == 1 && !status.contains("State:\tZ")
    };
    while is_pending() {
        assert!(begun.elapsed() < Duration::from_secs(100), "{process} does not receive {signal}");
        sleep(Duration::from_millis(1));
    }
}

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

/// A full pipe, or the writing end of a FIFO: what is written to it waits.
fn fill(pipe: &File) {
    fcntl(pipe, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while (&*pipe).write(&[b'x'; 512]).is_ok() {}
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
}

#[test]
fn a_signal_ends_every_command_that_waits_for_the_reader_of_its_output() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (tree, list, plan, findings, good) =
        (path("tree"), path("list"), path("plan"), path("findings"), path("good.json"));
    fs::create_dir(&tree).unwrap();
    for number in 0..300 {
        fs::write(format!("{tree}/bad \u{7}{number}"), "").unwrap();
    }
    fs::write(&list, "bad\u{7}\n".repeat(3000)).unwrap();
    fs::write(&good, "as before").unwrap();
    let done = namegate().args(["fix", "plan", &tree, "-o", &plan]).status().unwrap();
    assert!(done.code().is_some_and(|code| code < 2));
    let done =
        namegate().args(["scan", &tree, "--quiet", "-o", &format!("json:{findings}")]).status().unwrap();
    assert_eq!(done.code(), Some(1));
    let fifo = path("fifo");
    mkfifo(fifo.as_str(), Mode::S_IRWXU).unwrap();
    let (fifo_end, to_fifo) =
        (OpenOptions::new().read(true).write(true).open(&fifo).unwrap(), format!("csv:{fifo}"));
    fill(&fifo_end);
    let commands: &[&[&str]] = &[
        &["scan", &tree, "-o", &good],
        &["scan", &tree, "--format", "html"],
        &["scan", &tree, "--quiet", "-o", &to_fifo, "-o", &good],
        &["scan", &tree, "--quiet", "-o", &format!("html:{fifo}")],
        &["scan", "--list", &list, "--format", "sarif"],
        &["scan", "--list", &list, "--quiet", "-o", &to_fifo],
        &["report", &findings, "--format", "json"],
        &["report", &findings, "--quiet", "-o", &to_fifo],
        &["fix", "plan", &tree],
        &["fix", "plan", &tree, "-o", &to_fifo],
        &["fix", "apply", "--dry-run", &plan],
        &["rules"],
        &["profiles"],
        &["man"],
        &["completions", "bash"],
    ];
    for command in commands {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            // Standard error goes there too.
            let (_reader, writer) = pipe().unwrap();
            let (out, err) = (File::from(writer.try_clone().unwrap()), File::from(writer));
            fill(&out);
            let_signals_end_programs();
            let mut program = namegate();
            program.args(*command).stdin(Stdio::null()).stdout(out).stderr(err);
            let child = program.spawn().unwrap();
            drop(program);
            wait_for_rest(child.id());
            assert_ended(child, signal, &format!("{command:?} with a full pipe"));
        }
    }
    assert_eq!(fs::read_to_string(&good).unwrap(), "as before");
    let left = fs::read_dir(dir.path()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_str().is_some_and(|name| name.starts_with(".namegate"))
    });
    assert_eq!(left.count(), 0, "no part of a report stays");
}

#[test]
fn a_signal_ends_a_watch_that_waits_for_the_reader_of_its_output() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = pipe().unwrap();
    let out = File::from(writer);
    fill(&out);
    let_signals_end_programs();
    let mut program = namegate();
    program.args(["watch", "--engine", "inotify"]).arg(dir.path()).stdin(Stdio::null()).stdout(out);
    let mut child = program.stderr(Stdio::piped()).spawn().unwrap();
    drop(program);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("watching"), "it says that it begins");
    for number in 0..200 {
        fs::write(dir.path().join(format!("bad\u{7}{number}")), "").unwrap();
    }
    wait_for_rest(child.id());
    assert_ended(child, Signal::SIGTERM, "watch with a full pipe");
    drop(reader);
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
