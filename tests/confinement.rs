//! What a confined process can still do, tried in separate processes, because confinement cannot be removed.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]
#![allow(unsafe_code, reason = "calls that no library makes are what is tried")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::thread;

use namegate::service::confinement::{Confinement, confine};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;

/// Tells the process of [`confined`] what to do.
const DEED: &str = "NAMEGATE_TEST_DEED";

/// Runs only the test `confined`, in a separate process.
fn run(deed: &str) -> (ExitStatus, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "confined", "--ignored", "--nocapture", "--test-threads=1"]).env(DEED, deed);
    let output = command.output().unwrap();
    let messages = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&messages).into_owned())
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
    // A thread that existed before is confined as well.
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
            makes_no_namespace_and_reaches_no_other_process();
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

/// The system call `number` with these arguments; the errno, or `None` if it succeeds.
fn call(number: i64, arguments: [u64; 5]) -> Option<Errno> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the arguments are numbers; where one is the address of something (clone3, and none of the others gets that far),
    // the filter answers before the kernel reads it.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    Errno::result(result).err()
}

/// Every known way to create or enter a namespace, or to reach other processes.
fn makes_no_namespace_and_reaches_no_other_process() {
    let parent = nix::unistd::getppid().as_raw() as u64;
    let signal = libc::SIGCHLD as u64;
    for (name, flag) in [
        ("mounts", libc::CLONE_NEWNS),
        ("control groups", libc::CLONE_NEWCGROUP),
        ("host names", libc::CLONE_NEWUTS),
        ("queues", libc::CLONE_NEWIPC),
        ("users", libc::CLONE_NEWUSER),
        ("processes", libc::CLONE_NEWPID),
        ("networks", libc::CLONE_NEWNET),
    ] {
        let flag = flag as u64;
        assert_eq!(call(libc::SYS_clone, [flag | signal, 0, 0, 0, 0]), Some(Errno::ENOSYS), "{name}");
        assert_eq!(
            call(libc::SYS_clone, [flag | signal | 1 << 40, 0, 0, 0, 0]),
            Some(Errno::ENOSYS),
            "{name}"
        );
        assert_eq!(call(libc::SYS_unshare, [flag, 0, 0, 0, 0]), Some(Errno::ENOSYS), "{name}");
    }
    let set_owner = libc::F_SETOWN as u64;
    for (name, number, arguments) in [
        ("clone3", libc::SYS_clone3, [0; 5]),
        ("clocks", libc::SYS_unshare, [0x80, 0, 0, 0, 0]),
        ("a descriptor of a process", libc::SYS_pidfd_open, [parent, 0, 0, 0, 0]),
        ("signals by descriptor", libc::SYS_pidfd_send_signal, [0; 5]),
        ("memory of others", libc::SYS_process_madvise, [0; 5]),
        ("rings", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        ("page faults", libc::SYS_userfaultfd, [0; 5]),
        ("keys", libc::SYS_keyctl, [0; 5]),
        ("keys", libc::SYS_add_key, [0; 5]),
        ("keys", libc::SYS_request_key, [0; 5]),
        ("limits of others", libc::SYS_prlimit64, [parent, 7, 0, 0, 0]),
        ("processors of others", libc::SYS_sched_setaffinity, [parent, 0, 0, 0, 0]),
        ("priorities of others", libc::SYS_setpriority, [0, parent, 19, 0, 0]),
        ("signals on input", libc::SYS_fcntl, [0, set_owner, parent, 0, 0]),
        ("signals on input", libc::SYS_fcntl, [0, 15, 0, 0, 0]),
        ("another signal on input", libc::SYS_fcntl, [0, 10, 9, 0, 0]),
        ("signals on input of sockets", libc::SYS_ioctl, [0, 0x8901, 0, 0, 0]),
        ("fanotify", libc::SYS_fanotify_init, [0; 5]),
        ("open_tree_attr", 467, [0; 5]),
    ] {
        assert_eq!(call(number, arguments), Some(Errno::ENOSYS), "{name}");
    }
    // pthread_create does this if clone3 fails with ENOSYS.
    thread::spawn(|| ()).join().unwrap();
}

#[test]
fn a_confined_process_does_its_work_and_starts_nothing_signals_nobody_and_leaves_no_namespace() {
    if can_be_confined() {
        let (status, messages) = run("serve");
        assert!(status.success(), "{messages}");
    }
}

#[test]
fn a_confined_process_that_does_what_no_server_does_is_ended() {
    if !can_be_confined() {
        return;
    }
    for deed in ["mount", "enter"] {
        let (status, messages) = run(deed);
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{deed}: {messages}");
    }
}
