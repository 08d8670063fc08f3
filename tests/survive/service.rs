//! A service manager with an FD store ends the processes of a mount and starts them again: clients wait, as if a server had been replaced.
//!
//! The manager is part of this test. It does what sd_notify(3) and sd_listen_fds(3) say about descriptors, as systemd 246 and later do.
//! `scripts/test-units` does the same with systemd itself.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{IoSliceMut, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
use nix::sys::stat::{Mode, fstat};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::clients::{EndOfWork, Work};
use crate::{STUCK, is_alive, only_child};
use namegate_testkit::mounted::{can_mount, is_mounted, prepare, transport};
use namegate_testkit::wait_until;

/// What the manager has got from its service.
#[derive(Default)]
struct Received {
    store: BTreeMap<String, OwnedFd>,
    /// How many times the service was ready.
    ready: usize,
}

/// A service manager with one service.
struct Manager {
    dir: TempDir,
    received: Arc<Mutex<Received>>,
}

impl Manager {
    /// `None`, after a message, if nothing can be mounted.
    fn new() -> Option<Self> {
        if !can_mount() || transport() != "dev" {
            println!("SKIPPED: mounts survive over the transport dev alone");
            return None;
        }
        let dir = prepare();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        let received = Arc::<Mutex<Received>>::default();
        let other = received.clone();
        // It ends with the test program.
        thread::spawn(move || receive(&socket, &other));
        Some(Self { dir, received })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn stored(&self) -> Vec<String> {
        self.received.lock().unwrap().store.keys().cloned().collect()
    }

    /// Starts the service, with what is stored, and waits until it is ready.
    fn start(&self, mountpoint: &Path, args: &[&str]) -> Service {
        /// No descriptor of the next program has this number or a higher one.
        const HIGH: RawFd = 500;
        let before = self.received.lock().unwrap().ready;
        let stored: Vec<(String, OwnedFd)> = {
            let received = self.received.lock().unwrap();
            let all = received.store.iter();
            all.map(|(name, fd)| (name.clone(), copied(fd, HIGH))).collect()
        };
        let log = OpenOptions::new().append(true).create(true).open(self.at("log")).unwrap();
        let log = copied(&log.into(), HIGH);
        let mut actions = PosixSpawnFileActions::init().unwrap();
        for output in [1, 2] {
            actions.add_dup2(log.as_raw_fd(), output).unwrap();
        }
        for (number, (_, fd)) in (3..).zip(&stored) {
            actions.add_dup2(fd.as_raw_fd(), number).unwrap();
        }
        let names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
        // The program has the number of the shell that starts it.
        let script = "LISTEN_PID=$$ exec \"$@\"";
        let (program, source) = (env!("CARGO_BIN_EXE_namegate"), self.at("backing"));
        let fixed = ["sh", "-c", script, "sh", program, "mount", source.to_str().unwrap()];
        let place = [mountpoint.to_str().unwrap(), "--verbose"];
        let words = fixed.iter().chain(&place).chain(args).map(|word| CString::new(*word).unwrap());
        let words: Vec<CString> = words.collect();
        let mut environment = vec![
            format!("PATH={}", std::env::var("PATH").unwrap()),
            format!("NAMEGATE_RUNTIME_DIR={}", self.at("run").display()),
            format!("NOTIFY_SOCKET={}", self.at("notify").display()),
        ];
        if !stored.is_empty() {
            environment.push(format!("LISTEN_FDS={}", stored.len()));
            environment.push(format!("LISTEN_FDNAMES={}", names.join(":")));
        }
        let environment: Vec<CString> =
            environment.into_iter().map(|text| CString::new(text).unwrap()).collect();
        let attributes = PosixSpawnAttr::init().unwrap();
        let main = posix_spawn(c"/bin/sh", &actions, &attributes, &words, &environment).unwrap();
        drop(stored);
        let service = Service(Some(main));
        wait_until("the start of the service", || {
            assert!(is_alive(main), "{}", self.log());
            self.received.lock().unwrap().ready > before
        });
        service
    }

    fn log(&self) -> String {
        fs::read_to_string(self.at("log")).unwrap_or_default()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // The kernel ends the mount with the last of them, however the test ends.
        self.received.lock().unwrap().store.clear();
    }
}

fn copied(fd: &OwnedFd, least: RawFd) -> OwnedFd {
    let number = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(least)).unwrap();
    owned(number)
}

#[allow(unsafe_code, reason = "the kernel has just created it")]
fn owned(number: RawFd) -> OwnedFd {
    // SAFETY: nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

fn receive(socket: &UnixDatagram, received: &Mutex<Received>) {
    let mut bytes = [0; 4096];
    loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!([RawFd; 16]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).unwrap();
        let fds = message.cmsgs().unwrap().find_map(|control| match control {
            ControlMessageOwned::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let mut fds: Vec<OwnedFd> = fds.into_iter().flatten().map(owned).collect();
        let len = message.bytes;
        let text = String::from_utf8(bytes[..len].to_vec()).unwrap();
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let mut received = received.lock().unwrap();
        let name = || value("FDNAME").unwrap().to_owned();
        if value("FDSTORE").is_some() {
            assert_eq!((fds.len(), value("FDPOLL")), (1, Some("0")));
            received.store.insert(name(), fds.remove(0));
        } else if value("FDSTOREREMOVE").is_some() {
            received.store.remove(&name());
        } else if value("READY").is_some() && value("MAINPID").is_some() {
            received.ready += 1;
        }
        // What came with BARRIER is closed here.
    }
}

/// Ends a service that a failed test has left.
impl Drop for Service {
    fn drop(&mut self) {
        if let Some(main) = self.0.take() {
            for process in only_child(main).into_iter().chain([main]) {
                let _ = kill(process, Signal::SIGKILL);
            }
            let _ = waitpid(main, None);
        }
    }
}

/// The service: the process that the manager has started.
struct Service(Option<Pid>);

impl Service {
    fn main(&self) -> Pid {
        self.0.unwrap()
    }

    fn waited(&mut self) -> WaitStatus {
        waitpid(self.0.take().unwrap(), None).unwrap()
    }

    /// As `systemctl restart` with the unit of this project: ExecStop=, then SIGTERM.
    fn leave(&mut self) {
        let main = self.main();
        kill(main, Signal::SIGUSR1).unwrap();
        kill(main, Signal::SIGTERM).unwrap();
        assert_eq!(self.waited(), WaitStatus::Exited(main, 0));
    }

    /// Kills all processes.
    fn kill(&mut self) {
        let server = only_child(self.main()).unwrap();
        kill(self.main(), Signal::SIGKILL).unwrap();
        self.waited();
        kill(server, Signal::SIGKILL).unwrap();
        wait_until("the end of the server", || !is_alive(server));
    }

    fn end(&mut self) {
        let main = self.main();
        kill(main, Signal::SIGTERM).unwrap();
        assert_eq!(self.waited(), WaitStatus::Exited(main, 0));
    }
}

/// Ends the service by `end` and starts it again, several times, while clients work.
fn goes_on(
    manager: &Manager,
    args: &[&str],
    clients: &[&(dyn Fn(&Work, &Path) + Sync)],
    end: impl Fn(&mut Service),
    after: impl Fn(),
) {
    const ROUNDS: usize = 5;
    let (mnt, work) = (manager.at("mnt"), Work::default());
    let mut service = manager.start(&mnt, args);
    let stored = manager.stored();
    assert!(stored.iter().any(|name| name.starts_with("namegate-state-")) && stored.len() > 2, "{stored:?}");
    let mut longest = Duration::ZERO;
    thread::scope(|scope| {
        let end_of_work = EndOfWork(&work);
        let mut running = Vec::new();
        for (number, &client) in clients.iter().enumerate() {
            let (place, work) = (mnt.join(number.to_string()), &work);
            fs::create_dir(&place).unwrap();
            running.push(scope.spawn(move || client(work, &place)));
        }
        let is_well = || !running.iter().any(|client| client.is_finished());
        for round in 0..ROUNDS {
            let calls = work.calls.load(Ordering::Relaxed) + 100;
            wait_until("progress of the clients", || {
                !is_well() || work.calls.load(Ordering::Relaxed) > calls
            });
            let begin = Instant::now();
            end(&mut service);
            service = manager.start(&mnt, args);
            longest = longest.max(begin.elapsed());
            assert!(longest < STUCK && is_well(), "{}", manager.log());
            assert_eq!(manager.stored(), stored, "round {round}");
            after();
        }
        drop(end_of_work);
        running.into_iter().for_each(|client| client.join().unwrap());
    });
    println!("{} calls, longest pause {longest:?}", work.calls.load(Ordering::Relaxed));
    service.end();
    assert!(!is_mounted(&mnt), "{}", manager.log());
}

#[test]
fn a_service_that_is_restarted_goes_on_with_all_that_is_open() {
    for args in [&["--survive"][..], &["--survive", "--no-passthrough"]] {
        let Some(manager) = Manager::new() else { return };
        let held = Mutex::new(None);
        let hold = |_: &Work, place: &Path| {
            let path = place.join("removed");
            fs::create_dir(&path).unwrap();
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let dir = open(&path, flags, Mode::empty()).unwrap();
            fs::remove_dir(&path).unwrap();
            let file = File::options().read(true).append(true).create_new(true).open(&path).unwrap();
            fs::remove_file(&path).unwrap();
            *held.lock().unwrap() = Some((dir, file));
        };
        goes_on(
            &manager,
            args,
            &[
                &Work::change_names,
                &Work::change_files,
                &|work, place| work.map(&place.join("mapped")),
                &|work, place| {
                    hold(work, place);
                    // It must not end before the others.
                    while !work.ends.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(5));
                    }
                    let (dir, file) = held.lock().unwrap().take().unwrap();
                    assert_eq!((fstat(&dir).unwrap().st_nlink, file.metadata().unwrap().len()), (0, 35));
                },
            ],
            |service| {
                service.leave();
                assert!(manager.stored().contains(&"namegate-more".to_owned()), "{}", manager.log());
            },
            || {
                let held = held.lock().unwrap();
                let (dir, mut file) = held.as_ref().map(|(dir, file)| (dir, file)).unwrap();
                assert_eq!(fstat(dir).unwrap().st_nlink, 0);
                file.write_all(b"content").unwrap();
            },
        );
        let log = manager.log();
        assert_eq!(log.matches("a restart of the service").count(), 5, "{log}");
        assert_eq!(log.matches(" 0 unfinished requests").count(), 5, "{log}");
    }
}

#[test]
fn a_service_whose_processes_are_all_killed_goes_on() {
    for args in [&["--survive"][..], &["--survive", "--no-passthrough"]] {
        let Some(manager) = Manager::new() else { return };
        let change_names = |work: &Work, place: &Path| {
            let (one, other) = (place.join("one"), place.join("other"));
            while !work.ends.load(Ordering::Relaxed) {
                fs::create_dir(&one).unwrap();
                fs::rename(&one, &other).unwrap();
                fs::remove_dir(&other).unwrap();
                work.calls.fetch_add(3, Ordering::Relaxed);
            }
        };
        goes_on(
            &manager,
            args,
            &[
                &change_names,
                &Work::change_files,
                &|work, place| work.append(&place.join("appended")),
                &|work, place| work.map(&place.join("mapped")),
            ],
            Service::kill,
            || {},
        );
        let log = manager.log();
        assert_eq!(log.matches("the end of all its processes").count(), 5, "{log}");
    }
}

#[test]
fn a_mount_that_was_left_is_made_anew_if_it_is_to_be_another_one() {
    let Some(manager) = Manager::new() else { return };
    let (mnt, other) = (manager.at("mnt"), manager.at("plain"));
    let mut service = manager.start(&mnt, &["--survive"]);
    fs::write(mnt.join("file"), "content").unwrap();
    let open = File::open(mnt.join("file")).unwrap();
    service.leave();
    // At another place.
    let mut service = manager.start(&other, &["--survive"]);
    let log = manager.log();
    assert!(log.contains("source or mount point have changed") && !is_mounted(&mnt), "{log}");
    assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "content");
    assert!(!manager.stored().is_empty() && !manager.stored().contains(&"namegate-more".to_owned()));
    open.sync_all().unwrap_err();
    service.leave();
    // Without --survive, and with nothing stored then.
    let mut service = manager.start(&other, &[]);
    assert!(manager.log().contains("`survive` is off now") && manager.stored().is_empty());
    assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "content");
    // Such a service cannot be left, and ends as before.
    kill(service.main(), Signal::SIGUSR1).unwrap();
    service.end();
    assert!(!is_mounted(&other), "{}", manager.log());
    // A state that is none.
    let mut service = manager.start(&mnt, &["--survive"]);
    service.leave();
    {
        let mut received = manager.received.lock().unwrap();
        let state = received.store.iter_mut().find(|(name, _)| name.starts_with("namegate-state-")).unwrap();
        *state.1 = File::open("/dev/null").unwrap().into();
    }
    let mut service = manager.start(&mnt, &["--survive"]);
    assert!(manager.log().contains("keeps its state in another way"), "{}", manager.log());
    assert_eq!(fs::read_to_string(mnt.join("file")).unwrap(), "content");
    service.end();
}
