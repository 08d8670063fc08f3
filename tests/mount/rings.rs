//! The transport `uring`: when it is used, and what becomes of requests when many are stuck, or the server dies.
//!
//! All other tests of mounts run over it with NAMEGATE_TEST_TRANSPORT=uring.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::coherent::kill_under_changes;
use crate::control::status;
use namegate_testkit::mounted::{TestMount, can_mount, is_enabled, prepare, unmount};
use namegate_testkit::{PATIENCE, wait_until};

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// A mount over io_uring; `None`, after a message, if there is none.
fn over_rings(args: &[&str]) -> Option<TestMount> {
    if !is_enabled() {
        println!("SKIPPED: io_uring needs Y in {PARAMETER}");
        return None;
    }
    can_mount().then(|| mount(args, "uring"))
}

fn mount(args: &[&str], transport: &str) -> TestMount {
    let dir = prepare();
    let (source, target) = (dir.path().join("backing"), dir.path().join("mnt"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").args([&source, &target]).args(args).args(["--transport", transport]);
    TestMount::by(dir, &target, command)
}

#[test]
fn clients_of_a_server_that_is_killed_over_rings_do_not_hang() {
    // The kernel ends a request that it has given to a ring only with the ring, which lives as long as a thread of the server.
    kill_under_changes(|| {
        let mounted = over_rings(&["--cache", "coherent"])?;
        let cache = &status(&mounted)["cache"];
        assert_eq!(cache["kind"], "coherent", "{cache}");
        Some(mounted)
    });
}

#[test]
fn the_doctor_measures_what_io_uring_brings_and_leaves_nothing_behind() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let begun = Instant::now();
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_namegate"));
    let output = doctor
        .args(["doctor", "--measure", "--json"])
        .env("TMPDIR", dir.path().join("mnt"))
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let speed = checks.iter().find(|check| check["id"] == "transport-speed").unwrap();
    let (condition, found) = (&speed["condition"], speed["found"].as_str().unwrap());
    match (is_enabled(), fs::exists(PARAMETER).unwrap()) {
        (true, _) => assert!(condition == "ok" && found.contains("times as fast"), "{speed}"),
        (false, true) => assert!(condition == "unknown" && found.contains(PARAMETER), "{speed}"),
        (false, false) => assert!(condition == "ok" && found.contains("no io_uring"), "{speed}"),
    }
    println!("{found} ({:?})", begun.elapsed());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!table.contains(dir.path().to_str().unwrap()), "{table}");
    assert_eq!(fs::read_dir(dir.path().join("mnt")).unwrap().count(), 0);
}

/// The processors on which this process may run.
fn processors() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|&number| set.is_set(number) == Ok(true)).collect()
}

/// Keeps this thread on a processor.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

/// Asserts that `work` ends on each processor.
fn ends_on_each_processor(what: &str, work: impl Fn() + Clone + Send + 'static) {
    for processor in processors() {
        let (ends, ended) = mpsc::channel();
        let work = work.clone();
        thread::spawn(move || {
            stay_on(processor);
            work();
            ends.send(()).unwrap();
        });
        assert!(ended.recv_timeout(PATIENCE).is_ok(), "{what} on processor {processor}");
    }
}

#[test]
fn auto_is_io_uring_where_root_has_enabled_it_and_the_mount_need_not_survive() {
    if !can_mount() {
        return;
    }
    let expected = if is_enabled() { "uring" } else { "dev" };
    assert_eq!(status(&mount(&[], "auto"))["transport"], expected);
    assert_eq!(status(&mount(&["--survive"], "auto"))["transport"], "dev");
    assert_eq!(status(&mount(&[], "dev"))["transport"], "dev");
    if let Some(mounted) = over_rings(&[]) {
        assert_eq!(status(&mounted)["transport"], "uring");
    } else {
        let dir = prepare();
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.arg("mount").args(["backing", "mnt"].map(|name| dir.path().join(name)));
        let output = command.args(["--transport", "uring"]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("/enable_uring"), "{error}");
    }
}

#[test]
fn more_requests_are_stuck_on_a_processor_than_its_queue_has_at_first_and_others_are_answered() {
    const STUCK: usize = 200;
    let Some(mounted) = over_rings(&["--locks", "backing"]) else { return };
    let file = mounted.backing().join("file");
    let open = |path: &Path| {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    };
    let held = Flock::lock(open(&file), FlockArg::LockExclusive).unwrap();
    let seen = mounted.mnt().join("file");
    let processor = processors()[0];
    let waiting: Vec<_> = (0..STUCK)
        .map(|_| {
            let file = open(&seen);
            thread::spawn(move || {
                stay_on(processor);
                drop(Flock::lock(file, FlockArg::LockShared).unwrap());
            })
        })
        .collect();
    // Waiting for a lock is counted when it ends; so only time tells that all wait.
    thread::sleep(Duration::from_millis(500));
    assert!(!waiting.iter().any(thread::JoinHandle::is_finished));
    let mnt = mounted.mnt();
    ends_on_each_processor("creating, listing and removing", move || {
        let name = mnt.join(format!("dir-{:?}", thread::current().id()));
        fs::create_dir(&name).unwrap();
        assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
        fs::remove_dir(&name).unwrap();
    });
    drop(held);
    waiting.into_iter().for_each(|waiter| waiter.join().unwrap());
}

#[test]
fn clients_of_every_processor_are_served_and_long_contents_arrive_whole() {
    let Some(mounted) = over_rings(&["--no-passthrough"]) else { return };
    let content: Vec<u8> = (0..3_000_001u32).map(|i| (i / 7) as u8).collect();
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    ends_on_each_processor("writing and reading", move || {
        let name = format!("{:?}", thread::current().id());
        fs::write(mnt.join(&name), &content).unwrap();
        assert!(fs::read(backing.join(&name)).unwrap() == content, "written");
        assert!(fs::read(mnt.join(&name)).unwrap() == content, "read");
        // The longest value of an attribute, and the longest target of a link.
        let target = "x".repeat(4095);
        std::os::unix::fs::symlink(&target, mnt.join(format!("{name}-link"))).unwrap();
        assert_eq!(fs::read_link(mnt.join(format!("{name}-link"))).unwrap(), Path::new(&target));
    });
}

#[test]
fn when_the_server_is_killed_clients_get_errors_and_when_it_is_unmounted_it_ends() {
    let Some(mut mounted) = over_rings(&[]) else { return };
    fs::write(mounted.mnt().join("file"), "content").unwrap();
    unmount(&mounted.mnt());
    assert!(mounted.ended().0.success());
    let Some(mut mounted) = over_rings(&["--locks", "backing"]) else { return };
    let file = mounted.backing().join("file");
    fs::write(&file, "content").unwrap();
    let held =
        Flock::lock(OpenOptions::new().write(true).open(&file).unwrap(), FlockArg::LockExclusive).unwrap();
    let seen = OpenOptions::new().write(true).open(mounted.mnt().join("file")).unwrap();
    let waiting = thread::spawn(move || {
        Flock::lock(seen, FlockArg::LockExclusive).map(drop).map_err(|(_, errno)| errno)
    });
    thread::sleep(Duration::from_millis(200));
    mounted.signal(Signal::SIGKILL);
    mounted.ended();
    wait_until("an error for the client that waits", || waiting.is_finished());
    assert!(waiting.join().unwrap().is_err());
    let error = fs::metadata(mounted.mnt().join("file")).unwrap_err();
    assert!(
        [Errno::ENOTCONN, Errno::ECONNABORTED]
            .map(|errno| errno as i32)
            .contains(&error.raw_os_error().unwrap()),
        "{error}"
    );
    drop(held);
}
