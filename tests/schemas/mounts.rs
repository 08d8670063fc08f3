//! Outputs of mounts and watches: audit logs, logs, status, the control protocol.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use namegate::service::control::ControlRequest;
use namegate_files::json;
use namegate_telemetry::audit::UncoveredNote;
use namegate_testkit::mounted::{TestMount, can_mount, prepare};
use namegate_testkit::program::{namegate, stdout};
use namegate_testkit::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Outputs;
use crate::commands::path_of;

pub fn check(outputs: &mut Outputs) {
    watch(outputs);
    // A watch has to lose events for it: tests/watch/lost.rs.
    outputs.check("audit", &json::to_line(&UncoveredNote::now(3)));
    // A configuration is no output. tests/cli/config.rs holds its schema against the reader.
    outputs.skipped.insert("config");
    if !can_mount() {
        for what in ["status", "list", "instance", "control", "log", "refusal", "dropped"] {
            outputs.skip(what, "nothing can be mounted");
        }
        return;
    }
    refusals(outputs);
    control(outputs);
}

fn watch(outputs: &mut Outputs) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = namegate();
    command.args(["watch", "--json", "--engine", "inotify"]).arg(dir.path());
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(watch.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("watching")));
    File::create(dir.path().join(path_of(b"caf\xE9"))).unwrap();
    let mut line = String::new();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut line).unwrap();
    kill(Pid::from_raw(watch.id().cast_signed()), Signal::SIGTERM).unwrap();
    watch.wait().unwrap();
    let schema = outputs.note("watch");
    outputs.check(schema, &line);
}

/// Refusals, long ones, damaged names that are noticed, more records than a user may have, and the log about all of it.
fn refusals(outputs: &mut Outputs) {
    let dir = prepare();
    let audit = dir.path().join("audit.log");
    let options = ["--log-format", "json", "--audit-rate", "4", "--check-targets"];
    let args = [&options[..], &["--audit", audit.to_str().unwrap()]].concat();
    let mut mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args);
    let mnt = mounted.mnt();
    File::create(mnt.join("caf\u{c3}\u{a9}")).unwrap();
    std::os::unix::fs::symlink(path_of(&b"\xE9".repeat(3000)), mnt.join("link")).unwrap_err();
    for number in 0..20_u8 {
        File::create(mnt.join(path_of(&[number + b'a', 0xE9]))).unwrap_err();
    }
    let lines = || fs::read_to_string(&audit).unwrap_or_default();
    namegate_testkit::mounted::unmount(&mnt);
    let (_, said) = mounted.ended();
    outputs.check("audit", &lines());
    outputs.check("log", &said);
}

fn control(outputs: &mut Outputs) {
    let Some(mounted) = TestMount::new(&["--survive", "--mode", "permissive"]) else { return };
    File::create(mounted.mnt().join(path_of(b"caf\xE9"))).unwrap();
    File::create(mounted.mnt().join("fine")).unwrap();
    let at = mounted.run_directory();
    let ask = |command: &str| -> Output {
        let mut program = namegate();
        program.env("NAMEGATE_RUNTIME_DIR", &at).args([command, "--json"]).output().unwrap()
    };
    let status = ask("status");
    outputs.check_command("status", &status);
    let list = ask("list");
    outputs.check_command("list", &list);
    assert!(stdout(&list).contains("\"running\""), "{}", stdout(&list));
    let mut sockets = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path());
    let socket = sockets.find(|path| path.extension().is_some_and(|end| end == "sock")).unwrap();
    for request in
        [ControlRequest::Status, ControlRequest::Counters, ControlRequest::Metrics, ControlRequest::Reload]
    {
        let line = String::from_utf8(request.to_line()).unwrap();
        outputs.check("control", &line);
        outputs.check("control", &answer(&socket, &line));
    }
    outputs.check("control", &answer(&socket, "{\"version\":1,\"do\":\"nothing\"}\n"));
    let reload =
        Command::new(env!("CARGO_BIN_EXE_namegate")).env("NAMEGATE_RUNTIME_DIR", &at).arg("reload").output();
    drop(reload.unwrap());
    outputs.check("why", &why(&mounted.mnt()));
    wait_until("the reload", || stdout(&ask("status")).contains("\"last_reload\":{"));
    outputs.check_command("status", &ask("status"));
}

/// What a mount answers to whoever asks why names were refused.
fn why(directory: &Path) -> String {
    let mut answer = vec![0; 1 << 16];
    let len =
        namegate_sys::xattr::get(&File::open(directory).unwrap(), OsStr::new("namegate.why"), &mut answer)
            .unwrap();
    answer.truncate(len);
    String::from_utf8(answer).unwrap()
}

/// The reply to one line.
fn answer(socket: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    reply
}
