//! What a confined process can still do: tried out in processes of their own, because nothing loosens it again.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::thread;

use namegate::daemon::privileges::{Confinement, confine};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;

/// Names what the process of [`confined`] is to do.
const DEED: &str = "NAMEGATE_TEST_DEED";

/// Runs the test `confined` alone, in a process of its own.
fn run(deed: &str) -> (ExitStatus, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "confined", "--ignored", "--nocapture", "--test-threads=1"]).env(DEED, deed);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&said).into_owned())
}

fn can_be_confined() -> bool {
    if !geteuid().is_root() {
        println!("SKIPPED: filters of system calls need root");
    } else if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        println!("SKIPPED: there are no filters for this kind of processor");
    } else {
        return true;
    }
    false
}

#[test]
#[ignore = "run by the others, in a process of its own"]
fn confined() {
    let Ok(deed) = std::env::var(DEED) else { return };
    // A thread that is there before is confined as well.
    let (say, heard) = std::sync::mpsc::channel::<()>();
    let before = thread::spawn(move || {
        let _ = heard.recv();
        unshare(CloneFlags::CLONE_NEWNET)
    });
    assert_eq!(confine().unwrap(), Confinement::Done);
    match deed.as_str() {
        "serve" => {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("file"), "content").unwrap();
            fs::rename(dir.path().join("file"), dir.path().join("other")).unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
            thread::spawn(|| unshare(CloneFlags::CLONE_FS)).join().unwrap().unwrap();
            std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::os::unix::net::UnixDatagram::unbound().unwrap();
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGWINCH).unwrap();
            drop(say);
            assert_eq!(before.join().unwrap(), Err(Errno::ENOSYS), "the older thread");
            assert_eq!(unshare(CloneFlags::CLONE_NEWNS), Err(Errno::ENOSYS));
            let parent = nix::unistd::getppid();
            assert_eq!(nix::sys::signal::kill(parent, None), Err(Errno::ENOSYS), "signals to others");
            let refused = Command::new("/bin/true").status().unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(Errno::ENOSYS as i32), "other programs");
        }
        "mount" => {
            let _ = mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REMOUNT, None::<&str>);
        }
        "enter" => {
            let _ = nix::sched::setns(fs::File::open("/proc/self/ns/net").unwrap(), CloneFlags::CLONE_NEWNET);
        }
        _ => unreachable!("{deed}"),
    }
}

#[test]
fn a_confined_process_does_its_work_and_starts_nothing_signals_nobody_and_leaves_no_namespace() {
    if can_be_confined() {
        let (status, said) = run("serve");
        assert!(status.success(), "{said}");
    }
}

#[test]
fn a_confined_process_that_does_what_no_server_does_is_ended() {
    if !can_be_confined() {
        return;
    }
    for deed in ["mount", "enter"] {
        let (status, said) = run(deed);
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{deed}: {said}");
    }
}
