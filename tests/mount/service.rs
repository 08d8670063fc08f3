//! Notifications of a mount to its service manager (sd_notify(3)), and mounts whose server is killed.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::statfs::statfs;
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::background::Unmounted;
use namegate_testkit::mounted::{TestMount, can_mount, is_mounted, prepare};
use namegate_testkit::{PATIENCE, wait_until};

/// Watchdog interval of these tests: long enough for a busy machine.
const WATCHDOG: Duration = Duration::from_secs(6);

/// A socket in place of a service manager.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(dir: &Path) -> Self {
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Self { socket, path }
    }

    /// The next message within `patience`.
    fn heard(&self, patience: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut message = [0; 512];
        let len = self.socket.recv(&mut message).ok()?;
        Some(String::from_utf8(message[..len].to_vec()).unwrap())
    }

    /// Waits for a message that contains `what`, and returns it.
    #[track_caller]
    fn hears(&self, what: &str) -> String {
        let begin = Instant::now();
        let mut all = Vec::new();
        while let Some(message) = self.heard(PATIENCE.saturating_sub(begin.elapsed())) {
            if message.contains(what) {
                return message;
            }
            all.push(message);
        }
        panic!("no message contains {what}: {all:?}");
    }

    /// Whether a message that contains `what` arrives within this time.
    fn hears_within(&self, what: &str, time: Duration) -> bool {
        let begin = Instant::now();
        loop {
            match self.heard(time.saturating_sub(begin.elapsed()).max(Duration::from_millis(1))) {
                Some(message) if message.contains(what) => return true,
                _ if begin.elapsed() >= time => return false,
                _ => {}
            }
        }
    }

    /// Starts `command` as a service of this manager. A shell is replaced by the server, so that its process id is known.
    fn start(&self, command: &mut Command) -> Child {
        command.env("NOTIFY_SOCKET", &self.path).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        command.env_remove("RUST_LOG").stdin(Stdio::null()).spawn().unwrap()
    }
}

/// Stops the process, and waits until all its threads have stopped.
fn stop(child: &Child) {
    kill(pid(child), Signal::SIGSTOP).unwrap();
    wait_until("the stop", || of_all_threads(child.id(), "State").iter().all(|state| state.starts_with('T')));
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().unwrap())
}

fn serve(source: &Path, target: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").args([source, target]);
    command
}

/// Kills the process on drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = kill(pid(&self.0), Signal::SIGCONT);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_service_manager_is_notified_of_readiness_liveness_and_end() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let manager = Manager::new(dir.path());
    let (source, mnt) = (dir.path().join("backing"), dir.path().join("mnt"));
    let _unmounted = Unmounted(&mnt);
    let server = Ended(manager.start(&mut serve(&source, &mnt)));
    let ready = manager.hears("READY=1");
    assert_eq!(ready, format!("READY=1\nMAINPID={}", server.0.id()));
    assert!(is_mounted(&mnt));
    fs::write(mnt.join("file"), "content").unwrap();
    manager.hears("WATCHDOG=1");
    // The interval is half of this, but the machine may be busy.
    let is_heard_in_time = || {
        let begin = Instant::now();
        manager.hears("WATCHDOG=1");
        begin.elapsed() < WATCHDOG
    };
    assert!((0..3).any(|_| is_heard_in_time()));
    kill(pid(&server.0), Signal::SIGHUP).unwrap();
    let reloading = manager.hears("RELOADING=1");
    assert!(reloading.contains("\nMONOTONIC_USEC="), "{reloading}");
    manager.hears("READY=1");
    fs::write(mnt.join("file"), "still there").unwrap();
    kill(pid(&server.0), Signal::SIGTERM).unwrap();
    manager.hears("STOPPING=1");
    wait_until("the unmounting", || !is_mounted(&mnt));
}

#[test]
fn a_background_server_reports_its_process_to_the_service_manager() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let manager = Manager::new(dir.path());
    let (source, mnt) = (dir.path().join("backing"), dir.path().join("mnt"));
    let _unmounted = Unmounted(&mnt);
    let mut starter = manager.start(serve(&source, &mnt).arg("--daemon"));
    let ready = manager.hears("READY=1");
    assert_ne!(ready, format!("READY=1\nMAINPID={}", starter.id()));
    let server = crate::background::server_of(&source).expect("it serves");
    // The probing process has the same command line.
    let main: i32 = ready.strip_prefix("READY=1\nMAINPID=").unwrap().parse().unwrap();
    assert!(Path::new("/proc").join(main.to_string()).exists() && server.as_raw() > 0);
    assert!(starter.wait().unwrap().success());
}

#[test]
fn a_stopped_server_sends_nothing_until_it_continues() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let manager = Manager::new(dir.path());
    let (source, mnt) = (dir.path().join("backing"), dir.path().join("mnt"));
    let _unmounted = Unmounted(&mnt);
    let server = Ended(manager.start(&mut serve(&source, &mnt)));
    manager.hears("WATCHDOG=1");
    stop(&server.0);
    // Skip messages from before the stop.
    while manager.heard(Duration::from_millis(100)).is_some() {}
    assert!(!manager.hears_within("WATCHDOG=1", WATCHDOG));
    kill(pid(&server.0), Signal::SIGCONT).unwrap();
    manager.hears("WATCHDOG=1");
}

/// A mount of a mount: the second server depends on the first, which can be stopped.
struct Stacked {
    dir: TempDir,
    first: Ended,
    second: Ended,
    manager: Manager,
}

impl Stacked {
    fn new() -> Self {
        let dir = prepare();
        let manager = Manager::new(dir.path());
        let (source, middle, top) =
            (dir.path().join("backing"), dir.path().join("plain"), dir.path().join("mnt"));
        let first = Ended(serve(&source, &middle).stdin(Stdio::null()).spawn().unwrap());
        wait_until("the first mount", || is_mounted(&middle));
        let second = Ended(manager.start(&mut serve(&middle, &top)));
        manager.hears("WATCHDOG=1");
        Self { dir, first, second, manager }
    }
}

impl Drop for Stacked {
    fn drop(&mut self) {
        // Requests that wait for the first server end when it continues.
        let _ = kill(pid(&self.first.0), Signal::SIGCONT);
        for place in ["mnt", "plain"] {
            let _ = umount2(&self.dir.path().join(place), MntFlags::MNT_DETACH);
        }
    }
}

#[test]
fn a_server_with_a_hung_source_reports_only_that_it_does_not_answer() {
    if !can_mount() {
        return;
    }
    let stacked = Stacked::new();
    stop(&stacked.first.0);
    while stacked.manager.heard(Duration::from_millis(100)).is_some() {}
    let begin = Instant::now();
    stacked.manager.hears("STATUS=the mount has not answered for");
    while let Some(message) = stacked.manager.heard(Duration::from_secs(1)) {
        assert!(!message.contains("WATCHDOG=1"), "after {:?}", begin.elapsed());
        if begin.elapsed() > WATCHDOG {
            break;
        }
    }
    kill(pid(&stacked.first.0), Signal::SIGCONT).unwrap();
    stacked.manager.hears("WATCHDOG=1");
}

#[test]
fn a_server_killed_during_a_probe_leaves_no_process_behind() {
    if !can_mount() {
        return;
    }
    let mut stacked = Stacked::new();
    let children = format!("/proc/{0}/task/{0}/children", stacked.second.0.id());
    let prober = fs::read_to_string(children).unwrap().trim().to_owned();
    assert!(!prober.is_empty(), "there is a probing process");
    stop(&stacked.first.0);
    stacked.manager.hears("STATUS=the mount has not answered for");
    kill(pid(&stacked.second.0), Signal::SIGKILL).unwrap();
    kill(pid(&stacked.first.0), Signal::SIGCONT).unwrap();
    wait_until("the end of the server", || stacked.second.0.try_wait().unwrap().is_some());
    let proc = Path::new("/proc").join(&prober);
    let is_gone = || {
        let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
        // A zombie has ended; its new parent may be slow to reap it.
        stat.is_empty() || stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
    };
    wait_until("the end of the probing process", is_gone);
}

#[test]
fn a_supervisor_restarts_a_killed_server_and_the_mount_works() {
    if !can_mount() {
        return;
    }
    const ROUNDS: usize = 5;
    let dir = prepare();
    let (source, mnt) = (dir.path().join("backing"), dir.path().join("mnt"));
    let _unmounted = Unmounted(&mnt);
    for round in 0..ROUNDS {
        let manager_dir = tempfile::tempdir().unwrap();
        let manager = Manager::new(manager_dir.path());
        // The mount of the previous round is dead; only the next start removes it.
        assert_eq!(is_mounted(&mnt), round > 0);
        let mut server = manager.start(&mut serve(&source, &mnt));
        manager.hears("READY=1");
        assert!(statfs(&mnt).is_ok());
        fs::write(mnt.join(round.to_string()), "content").unwrap();
        for earlier in 0..round {
            assert_eq!(fs::read_to_string(mnt.join(earlier.to_string())).unwrap(), "content");
        }
        // Kill the server in the middle of work.
        let busy = Command::new("sh")
            .args(["-c", "while :; do echo x >\"$1/busy\" || exit; done", "sh"])
            .arg(&mnt)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _busy = Ended(busy);
        sleep(Duration::from_millis(50));
        kill(pid(&server), Signal::SIGKILL).unwrap();
        server.wait().unwrap();
        assert!(fs::write(mnt.join("lost"), "").is_err(), "nothing is written below a dead mount");
    }
    assert!(!source.join("lost").exists());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let left = table.lines().filter(|line| line.split(' ').nth(4) == mnt.to_str()).count();
    assert_eq!(left, 1, "one dead mount, not one for each round");
}

/// This line of proc_pid_status(5) for each thread of `process`.
fn of_all_threads(process: u32, line: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads
        .filter_map(|thread| {
            // Threads of the pool may end meanwhile.
            let status = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
            let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
            Some(value.unwrap_or_default().trim().to_owned())
        })
        .collect()
}

#[test]
fn every_thread_of_a_server_is_confined_unless_disabled() {
    use namegate::service::confinement::FOR_SERVING;
    const PTRACE: u64 = 1 << 19;
    for (args, kept) in [
        (&[][..], Some(FOR_SERVING.0)),
        (&["--ignore-case"], Some(FOR_SERVING.0 | PTRACE)),
        (&["--no-sandbox"], None),
        (&["-o", "no_sandbox"], None),
    ] {
        let Some(mounted) = TestMount::new(args) else { return };
        fs::create_dir(mounted.mnt().join("dir")).unwrap();
        let of_test = of_all_threads(std::process::id(), "CapPrm")[0].clone();
        let possible = u64::from_str_radix(&of_test, 16).unwrap();
        for set in ["CapEff", "CapPrm", "CapBnd"] {
            let all = of_all_threads(mounted.server(), set);
            assert!(!all.is_empty());
            for capabilities in all {
                let found = u64::from_str_radix(&capabilities, 16).unwrap();
                // The effective set may be smaller: a thread may have dropped capabilities for a moment.
                let expected = kept.map_or(possible, |kept| kept & possible);
                assert_eq!(found & !expected, 0, "{args:?} {set}");
                assert!(set == "CapEff" || found == expected, "{args:?} {set}: {found:x}, not {expected:x}");
            }
        }
        let expected = if kept.is_some() { ["1", "2"] } else { ["0", "0"] };
        for (line, expected) in ["NoNewPrivs", "Seccomp"].iter().zip(expected) {
            // The server confines itself when the mount is live, while it already serves the first requests.
            wait_until(&format!("{line}: {expected} of all threads, with {args:?}"), || {
                of_all_threads(mounted.server(), line).iter().all(|found| found == expected)
            });
        }
    }
}
