//! Options, signals and the exit status.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::watching::{ENGINES, TestFileSystem, Watching, bad, is_root};
use namegate_testkit::{PATIENCE, wait_until};

const ENGINE: [&str; 2] = ["--engine", "inotify"];

fn watch(place: &TestFileSystem, args: &[&str]) -> Watching {
    Watching::new(&[&place.top()], &[&ENGINE, args].concat())
}

#[test]
fn existing_names_are_reported_once_on_request() {
    for engine in ENGINES {
        if engine == "fanotify" && !is_root() {
            continue;
        }
        let place = TestFileSystem::plain();
        let mut expected: Vec<PathBuf> =
            (0..50).map(|number| place.dir(&format!("a/b{number}")).join(bad(""))).collect();
        expected.iter().for_each(|path| fs::write(path, "").unwrap());
        let watching = Watching::new(&[&place.top()], &["--engine", engine, "--initial"]);
        watching.wait_for(50);
        let new = place.top().join(bad("new"));
        fs::write(&new, "").unwrap();
        watching.wait_for(51);
        expected.push(new);
        expected.sort();
        let ended = watching.end();
        assert_eq!(ended.paths(), expected, "{engine}: {}", ended.log);
        let initial = ended.found().iter().filter(|found| found.operation == "initial").count();
        assert_eq!(initial, 50, "{engine}");
    }
}

#[test]
fn it_ends_after_the_first_finding_a_time_or_a_signal_with_a_status_and_a_summary() {
    let place = TestFileSystem::plain();
    let watching = watch(&place, &["--for", "0.2s"]);
    let ended = watching.wait_for_end();
    assert_eq!((ended.status, ended.lines.len()), (Some(0), 0), "{}", ended.log);
    assert!(ended.log.contains("0 findings in 0 events"), "{}", ended.log);
    let watching = watch(&place, &["--once"]);
    (0..10).for_each(|number| fs::write(place.top().join(bad(&number.to_string())), "").unwrap());
    let ended = watching.wait_for_end();
    assert_eq!((ended.status, ended.lines.len()), (Some(1), 1), "{}", ended.log);
    // A signal that was ignored before the tests stays ignored.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim().to_owned();
    let ignored = u64::from_str_radix(&ignored, 16).unwrap();
    let is_heard = |signal: &Signal| ignored >> (*signal as u32 - 1) & 1 == 0;
    for signal in [Signal::SIGINT, Signal::SIGTERM].into_iter().filter(is_heard) {
        let watching = watch(&place, &[]);
        watching.signal(signal);
        assert_eq!(watching.wait_for_end().status, Some(0));
    }
    let watching = watch(&place, &[]);
    watching.signal(Signal::SIGUSR1);
    wait_until("a line", || watching.log().contains("0 findings in 0 events"));
    assert_eq!(watching.end().status, Some(0));
}

#[test]
fn a_service_manager_is_notified_of_the_start_a_reload_and_the_end() {
    let place = TestFileSystem::plain();
    let address = place.beside("manager").join("socket");
    let socket = UnixDatagram::bind(&address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = |what: &str| {
        let mut buffer = [0; 4096];
        let begin = Instant::now();
        loop {
            let filled = socket.recv(&mut buffer).unwrap();
            let message = String::from_utf8_lossy(&buffer[..filled]).into_owned();
            if message.lines().any(|line| line.starts_with(what)) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "no notification of {what}");
        }
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("watch").arg(place.top()).args(ENGINE).env("NOTIFY_SOCKET", &address);
    command.env("WATCHDOG_USEC", "600000").env_remove("WATCHDOG_PID");
    let watching = Watching::spawn(command);
    heard("READY=1");
    heard("WATCHDOG=1");
    heard("STATUS=0 findings");
    watching.signal(Signal::SIGHUP);
    heard("RELOADING=1");
    heard("READY=1");
    watching.signal(Signal::SIGTERM);
    heard("STOPPING=1");
    assert_eq!(watching.wait_for_end().status, Some(0));
}

#[test]
fn names_that_appeared_before_a_signal_are_reported_before_the_end() {
    let place = TestFileSystem::plain();
    let watching = watch(&place, &[]);
    watching.while_it_sleeps(|| {
        fs::write(place.top().join(bad("")), "").unwrap();
        watching.signal(Signal::SIGTERM);
    });
    let ended = watching.wait_for_end();
    assert_eq!((ended.status, ended.lines.len()), (Some(1), 1), "{}", ended.log);
}

#[test]
fn a_path_that_cannot_be_watched_is_an_error() {
    let place = TestFileSystem::plain();
    for path in [place.top().join("none"), "/proc/self/status".into()] {
        let output = Command::new(env!("CARGO_BIN_EXE_namegate")).arg("watch").arg(&path).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{log}");
        assert!(log.contains("cannot watch"), "{log}");
    }
}

#[test]
fn a_hangup_reopens_files_and_reloads_the_policy_each_if_the_other_fails() {
    let place = TestFileSystem::plain();
    let beside = place.beside("etc");
    let (policy, output, audit) = (beside.join("policy.toml"), beside.join("out"), beside.join("audit"));
    fs::write(&policy, "profiles = [\"utf8\"]\n").unwrap();
    let paths = [&policy, &output, &audit].map(|path| path.to_str().unwrap().to_owned());
    let watching = watch(&place, &["--config", &paths[0], "--output", &paths[1], "--audit", &paths[2]]);
    let lines = |path: &PathBuf| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let touch = |name: &str| fs::write(place.top().join(name), "").unwrap();
    touch("CON");
    fs::write(place.top().join(bad("")), "").unwrap();
    wait_until("a finding", || lines(&output) == 1 && lines(&audit) == 1);
    fs::write(&policy, "profiles = [\"nonsense\"]\n").unwrap();
    fs::rename(&output, beside.join("out.1")).unwrap();
    watching.signal(Signal::SIGHUP);
    wait_until("the error", || watching.log().contains("still checking by the previous policy: "));
    touch("AUX");
    fs::write(place.top().join(bad("reopened")), "").unwrap();
    wait_until("a finding in the new file", || lines(&output) == 1 && lines(&audit) == 2);
    fs::rename(&output, beside.join("out.2")).unwrap();
    fs::create_dir(&output).unwrap();
    fs::write(&policy, "profiles = [\"windows\"]\n").unwrap();
    fs::rename(&audit, beside.join("audit.1")).unwrap();
    watching.signal(Signal::SIGHUP);
    wait_until("the error", || watching.log().contains("still writing to the previous output files: "));
    touch("NUL");
    let (output, audit) = (beside.join("out.2"), beside.join("audit.1"));
    wait_until("a finding of the new policy", || lines(&output) == 2 && lines(&audit) == 3);
    assert_eq!(watching.end().status, Some(1));
    assert!(fs::read_to_string(&audit).unwrap().contains("\"reserved-name\""));
}

#[test]
fn globs_and_warnings_select_what_is_reported() {
    let place = TestFileSystem::plain();
    place.dir("cache/deep");
    let args =
        ["--exclude", "cache/", "--exclude", "*.tmp\u{E9}", "--exclude", "*.part", "--profile", "security"];
    let watching = watch(&place, &[&args[..], &["--warnings"]].concat());
    fs::write(place.top().join("cache/deep").join(bad("")), "").unwrap();
    let mut part = bad("");
    part.push(".part");
    fs::write(place.top().join(part), "").unwrap();
    fs::write(place.top().join("a\u{202E}b"), "").unwrap();
    watching.wait_for(1);
    let ended = watching.end();
    assert_eq!(ended.paths(), [place.top().join("a\u{202E}b")], "{}", ended.log);
}

#[test]
fn text_is_one_line_for_each_finding_whatever_the_name() {
    let place = TestFileSystem::plain();
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("watch").arg(place.top()).args(ENGINE);
    let watching = Watching::spawn(command);
    let hostile = "x\" in \".\": nothing\n2026-01-01T00:00:00Z seen: \u{1b}[2J\u{202E}";
    fs::create_dir(place.top().join(hostile)).unwrap();
    watching.wait_for(1);
    wait_until("the directory's mark", || {
        let _ = fs::write(place.top().join(hostile).join(bad("")), "");
        watching.lines().len() == 2
    });
    let ended = watching.end();
    assert_eq!(ended.lines.len(), 2, "{:?}", ended.lines);
    for line in &ended.lines {
        assert!(line.contains(" seen: ") && line.contains(r#"x\" in \".\": nothing\n2026"#), "{line}");
        assert!(!line.contains(['\x1b', '\u{202E}']), "{line}");
    }
}

#[test]
fn a_closed_pipe_ends_it_without_an_error() {
    let place = TestFileSystem::plain();
    let mut child = Command::new(env!("CARGO_BIN_EXE_namegate"))
        .arg("watch")
        .arg(place.top())
        .args(ENGINE)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let begin = Instant::now();
    let status = loop {
        fs::write(place.top().join(bad("")), "").unwrap();
        fs::remove_file(place.top().join(bad(""))).unwrap();
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begin.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}
