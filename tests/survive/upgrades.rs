//! A server is replaced as it is asked to: nothing is in flight then.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clients::Work;
use crate::{kill_server, server_of, surviving};
use namegate_testkit::hung::Hung;
use namegate_testkit::mounted::{TestMount, can_mount, is_mounted, prepare, transport};
use namegate_testkit::program::copy_program;
use namegate_testkit::wait_until;

#[test]
fn an_upgrade_goes_on_with_open_files_and_under_load() {
    if !can_mount() || transport() != "dev" {
        return println!("SKIPPED: mounts survive over the transport dev alone");
    }
    let dir = prepare();
    let program = dir.path().join("namegate");
    copy_program(Path::new(env!("CARGO_BIN_EXE_namegate")), &program);
    let mut command = Command::new(&program);
    command.arg("mount").arg(dir.path().join("backing")).arg(dir.path().join("mnt")).arg("--survive");
    let target = dir.path().join("mnt");
    let mounted = TestMount::by(dir, &target, command);
    let upgrade = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.arg("upgrade").arg(mounted.mnt()).env("NAMEGATE_RUNTIME_DIR", mounted.run_directory());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let mut open = File::create_new(mounted.mnt().join("open")).unwrap();
    fs::remove_file(mounted.mnt().join("open")).unwrap();
    fs::create_dir(mounted.mnt().join("a")).unwrap();
    let work = Work::default();
    thread::scope(|scope| {
        let client = scope.spawn(|| work.change_names(&mounted.mnt().join("a")));
        for _ in 0..5 {
            // Another file at the same place.
            fs::remove_file(&program).unwrap();
            copy_program(Path::new(env!("CARGO_BIN_EXE_namegate")), &program);
            let (status, said) = upgrade();
            assert!(status == Some(0) && said.contains("version"), "{said}");
            let running = fs::read_link(format!("/proc/{}/exe", server_of(&mounted))).unwrap();
            assert_eq!(running, program, "the file that is there now");
            open.write_all(b"and on ").unwrap();
        }
        // Where there is no program, the old one goes on.
        fs::remove_file(&program).unwrap();
        let (status, said) = upgrade();
        assert!(status == Some(2) && said.contains("the previous program goes on"), "{said}");
        open.write_all(b"and on ").unwrap();
        work.ends.store(true, std::sync::atomic::Ordering::Relaxed);
        client.join().unwrap();
    });
    kill_server(&mounted);
    assert_eq!(open.metadata().unwrap().len(), 42);
    let Some(other) = TestMount::new(&[]) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("upgrade").arg(other.mnt()).env("NAMEGATE_RUNTIME_DIR", other.run_directory());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("without --survive"), "{said}");
}

#[test]
fn a_mount_in_the_background_survives_and_is_upgraded() {
    if !can_mount() || transport() != "dev" {
        return println!("SKIPPED: mounts survive over the transport dev alone");
    }
    let dir = prepare();
    let namegate = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.args(args).current_dir(dir.path()).env("NAMEGATE_RUNTIME_DIR", dir.path().join("run"));
        command.output().unwrap()
    };
    let mnt = dir.path().join("mnt");
    // In relative paths: each server must find the same places.
    assert!(namegate(&["mount", "backing", "mnt", "--survive", "--daemon"]).status.success());
    let at = mnt.to_str().unwrap();
    let status = || -> serde_json::Value {
        serde_json::from_slice(&namegate(&["status", at, "--json"]).stdout).unwrap_or_default()
    };
    let pid = |field: &serde_json::Value| Pid::from_raw(i32::try_from(field.as_i64().unwrap()).unwrap());
    let first = status();
    fs::write(mnt.join("file"), "content").unwrap();
    kill(pid(&first["pid"]), Signal::SIGKILL).unwrap();
    assert_eq!(fs::read_to_string(mnt.join("file")).unwrap(), "content");
    wait_until("an answer of the next server", || status()["holder"]["previous"] == "SIGKILL");
    let upgraded = namegate(&["upgrade", at]);
    assert!(upgraded.status.success(), "{upgraded:?}");
    let last = status();
    assert_eq!(
        (&last["holder"]["pid"], &last["mountpoint"]),
        (&first["holder"]["pid"], &first["mountpoint"])
    );
    assert_eq!(fs::read_link(format!("/proc/{}/cwd", pid(&last["pid"]))).unwrap(), Path::new("/"));
    assert_eq!(fs::read_to_string(mnt.join("file")).unwrap(), "content");
    kill(pid(&last["holder"]["pid"]), Signal::SIGTERM).unwrap();
    wait_until("the unmounting", || !is_mounted(&mnt));
}

#[test]
fn settings_that_need_a_new_mount_are_reported_by_the_server_that_takes_over() {
    if !can_mount() || transport() != "dev" {
        return println!("SKIPPED: mounts survive over the transport dev alone");
    }
    let (dir, files) = (prepare(), tempfile::tempdir().unwrap());
    let (config, target) = (files.path().join("share.toml"), dir.path().join("mnt"));
    let source = dir.path().join("backing");
    let write = |settings: &str| {
        let text =
            format!("source = {source:?}\nmountpoint = {target:?}\n[mount]\nsurvive = true\n{settings}");
        fs::write(&config, text).unwrap();
    };
    write("noexec = true\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").arg("--config").arg(&config);
    let mut mounted = TestMount::by(dir, &target, command);
    let namegate = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.args(args).arg(mounted.mnt()).env("NAMEGATE_RUNTIME_DIR", mounted.run_directory());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let status =
        || -> serde_json::Value { serde_json::from_str(&namegate(&["status", "--json"]).1).unwrap() };
    // A setting that a server reads when it takes over is none of them.
    write("noexec = false\nfsname = \"other\"\nentry-timeout = 7\n");
    let lines = ["noexec: false (was true)", "fsname: other (was path of the source)"];
    for step in ["upgrade", "kill"] {
        if step == "upgrade" {
            let (code, said) = namegate(&["upgrade"]);
            assert_eq!(code, Some(1), "{said}");
            assert!(
                lines.iter().all(|line| said.contains(&format!("not before the next mount: {line}"))),
                "{said}"
            );
        } else {
            kill_server(&mounted);
            wait_until("an answer of the next server", || namegate(&["status"]).0 == Some(0));
        }
        let status = status();
        assert_eq!(status["holder"]["needs_mount"], serde_json::json!(lines), "{step}");
        assert_eq!(status["settings"]["noexec"], true, "{step}: what is in effect");
        assert_eq!(status["settings"]["entry-timeout"], 7, "{step}");
    }
    // Compared with what the mount was made with, nothing differs any more.
    write("noexec = true\n");
    let (code, said) = namegate(&["upgrade"]);
    assert!(code == Some(0) && !said.contains("next mount"), "{said}");
    assert_eq!(status()["holder"]["needs_mount"], serde_json::json!([]));
    mounted.signal(Signal::SIGTERM);
    let (_, said) = mounted.ended();
    assert_eq!(said.matches("not before the next mount: noexec").count(), 2, "{said}");
}

/// Has the server replaced as `namegate upgrade` does, and waits for the next one. Here, another program would have the open files of
/// this process, and would have to close them before it starts.
fn upgrade(mounted: &TestMount) {
    let server = server_of(mounted);
    mounted.signal(Signal::SIGUSR2);
    wait_until("the start of another server", || server_of(mounted) != server);
}

/// A file on a file system of its own below the source, whose syncs take `time`.
fn slow_file(mounted: &TestMount, time: Duration) -> (Hung, File) {
    let slow = Hung::new(mounted.backing().join("slow"));
    let file = File::options().write(true).open(mounted.mnt().join("slow/file-1")).unwrap();
    slow.syncs_in(time);
    (slow, file)
}

#[test]
fn an_upgrade_waits_for_slow_requests_while_others_are_served() {
    const SLOW: Duration = Duration::from_secs(2);
    let Some(mut mounted) = surviving(&["--verbose"]) else { return };
    let (slow, file) = slow_file(&mounted, SLOW);
    let first = server_of(&mounted);
    thread::scope(|scope| {
        let begun = Instant::now();
        let sync = scope.spawn(move || file.sync_all().map(|()| begun.elapsed()));
        wait_until("the begin of a slow request", || slow.syncs() == 1);
        let upgrade = scope.spawn(|| upgrade(&mounted));
        let mut longest = Duration::ZERO;
        while !upgrade.is_finished() {
            let begun = Instant::now();
            fs::create_dir(mounted.mnt().join("dir")).unwrap();
            fs::remove_dir(mounted.mnt().join("dir")).unwrap();
            longest = longest.max(begun.elapsed());
        }
        upgrade.join().unwrap();
        let took = sync.join().unwrap().unwrap();
        println!("the slow request took {took:?}, the longest pause of others was {longest:?}");
        assert!((SLOW..SLOW * 2).contains(&took) && longest < SLOW / 2, "{took:?}, {longest:?}");
    });
    assert_eq!(slow.syncs(), 1, "it was made once");
    assert_ne!(server_of(&mounted), first);
    drop(slow);
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert!(status.success() && said.contains(" 0 unfinished requests"), "{status}: {said}");
}

#[test]
fn a_request_that_takes_too_long_for_an_upgrade_is_finished_by_the_next_server() {
    let Some(mut mounted) = surviving(&["--verbose"]) else { return };
    let (slow, file) = slow_file(&mounted, Duration::from_secs(10));
    thread::scope(|scope| {
        let sync = scope.spawn(move || file.sync_all());
        wait_until("the begin of a slow request", || slow.syncs() == 1);
        slow.syncs_in(Duration::ZERO);
        upgrade(&mounted);
        sync.join().unwrap().unwrap();
    });
    let syncs = slow.syncs();
    drop(slow);
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert_eq!(syncs, 2, "{said}");
    assert!(status.success() && !said.contains(" 0 unfinished requests"), "{status}: {said}");
}
