use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use namegate_core::gate::Mode;
use namegate_files::json::JsonBytes;
use namegate_telemetry::metrics::MetricsSnapshot;

use super::directory::{in_directory, of_users};
use super::protocol::ControlReply;
use super::server::ControlServer;
use super::*;

/// Replies with the name of each request.
struct Echo;

impl ControlHandler for Echo {
    fn status(&self) -> InstanceStatus {
        InstanceStatus {
            name: "echo".into(),
            namegate: "1".into(),
            pid: 1,
            uid: 2,
            since: "now".into(),
            source: JsonBytes::new("/a"),
            mountpoint: JsonBytes::new(b"/b\xFF\x1b"),
            config: None,
            mode: "enforcing".into(),
            mode_is_set: false,
            existing: "show".into(),
            errno: "EPERM".into(),
            policy: ActivePolicy::from_policy(&namegate_core::policy::Policy::from_profiles(&[])),
            settings: serde_json::Map::new(),
            transport: "dev".into(),
            cache: None,
            last_reload: None,
            holder: None,
            counters: MetricsSnapshot::default(),
        }
    }

    fn reload(&self) -> Result<ReloadOutcome, String> {
        Err("site.toml:1:1: no\n  | \x1b[2J".into())
    }

    fn set_mode(&self, mode: Mode) -> Result<ReloadOutcome, String> {
        Ok(ReloadOutcome { changed: vec![format!("{mode:?}")], ..ReloadOutcome::default() })
    }

    fn metrics(&self) -> String {
        "x".repeat(3 << 20)
    }

    fn counters(&self) -> InstanceCounters {
        let counters = MetricsSnapshot::default();
        InstanceCounters { name: "echo".into(), mountpoint: JsonBytes::new("/b"), counters, refusals: vec![] }
    }
}

struct Running {
    dir: tempfile::TempDir,
    serving: Option<ControlServer>,
}

fn name(word: &str) -> InstanceName {
    InstanceName::new(word).unwrap()
}

fn running() -> Running {
    let dir = tempfile::tempdir().unwrap();
    let reserved = reserve(&dir.path().join("run"), &name("echo"), false).unwrap();
    Running { serving: Some(reserved.serve(Arc::new(Echo)).unwrap()), dir }
}

/// Sends a request to the instance whose socket is at `path`.
fn ask<T: serde::de::DeserializeOwned>(path: &Path, request: ControlRequest) -> Result<T, RequestError> {
    let wanted = name(path.file_stem().unwrap().to_str().unwrap());
    let found = in_directory(path.parent().unwrap()).unwrap().into_iter().find(|one| *one.name() == wanted);
    found.ok_or(RequestError::Gone)?.ask(request)
}

impl Running {
    fn socket(&self) -> PathBuf {
        self.dir.path().join("run/echo.sock")
    }

    /// The reply to these bytes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        // The server may close the connection before all of it is written.
        let _ = stream.write_all(bytes);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }
}

#[test]
fn what_is_asked_is_answered() {
    let running = running();
    let socket = running.socket();
    assert_eq!(ask::<InstanceStatus>(&socket, ControlRequest::Status).unwrap(), Echo.status());
    assert_eq!(ask::<InstanceCounters>(&socket, ControlRequest::Counters).unwrap(), Echo.counters());
    let changed: ReloadOutcome = ask(&socket, ControlRequest::Mode(Mode::Permissive)).unwrap();
    assert_eq!(changed.changed, ["Permissive"]);
    assert_eq!(ask::<String>(&socket, ControlRequest::Metrics).unwrap().len(), 3 << 20);
    let RequestError::Refused(why) = ask::<ReloadOutcome>(&socket, ControlRequest::Reload).unwrap_err()
    else {
        panic!()
    };
    assert_eq!(why, "site.toml:1:1: no\n  | \\u{1B}[2J");
    let mountpoint = ask::<InstanceStatus>(&socket, ControlRequest::Status).unwrap().mountpoint;
    assert_eq!(mountpoint.base64.0, b"/b\xFF\x1b");
}

#[test]
fn the_socket_is_for_its_owner_alone_and_goes_with_the_server() {
    let mut running = running();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&running.socket()), 0o600);
    let expected = if nix::unistd::geteuid().is_root() { 0o755 } else { 0o700 };
    assert_eq!(mode(&running.dir.path().join("run")), expected);
    drop(running.serving.take());
    assert!(!running.socket().exists());
    assert!(matches!(
        ask::<InstanceStatus>(&running.socket(), ControlRequest::Status),
        Err(RequestError::Gone)
    ));
}

#[test]
fn connections_that_say_nothing_delay_nobody_however_many_there_are() {
    let running = running();
    let (mut idle, mut longest) = (Vec::new(), Duration::ZERO);
    for number in 0..300 {
        let mut stream = UnixStream::connect(running.socket()).unwrap();
        // Silent, half a request, and half open: these clients send nothing more.
        match number % 3 {
            0 => {}
            1 => stream.write_all(b"{\"version\":1,").unwrap(),
            _ => stream.shutdown(std::net::Shutdown::Read).unwrap(),
        }
        idle.push(stream);
        if number % 10 == 0 {
            let begin = Instant::now();
            assert!(ask::<InstanceStatus>(&running.socket(), ControlRequest::Status).is_ok(), "{number}");
            longest = longest.max(begin.elapsed());
        }
    }
    assert!(longest < ANSWER_TIMEOUT, "{longest:?}");
}

#[test]
fn a_change_that_hangs_delays_no_status() {
    struct Stuck(parking_lot::Mutex<std::sync::mpsc::Receiver<()>>);
    impl ControlHandler for Stuck {
        fn status(&self) -> InstanceStatus {
            Echo.status()
        }
        fn reload(&self) -> Result<ReloadOutcome, String> {
            let _ = self.0.lock().recv();
            Err("over".into())
        }
        fn set_mode(&self, _: Mode) -> Result<ReloadOutcome, String> {
            self.reload()
        }
        fn metrics(&self) -> String {
            Echo.metrics()
        }
        fn counters(&self) -> InstanceCounters {
            Echo.counters()
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (ends, end) = std::sync::mpsc::channel();
    let reserved = reserve(&dir.path().join("run"), &name("stuck"), false).unwrap();
    let _serving = reserved.serve(Arc::new(Stuck(end.into()))).unwrap();
    let socket = dir.path().join("run/stuck.sock");
    thread::scope(|scope| {
        let changes: Vec<_> =
            (0..10).map(|_| scope.spawn(|| ask::<ReloadOutcome>(&socket, ControlRequest::Reload))).collect();
        let begin = Instant::now();
        while !changes.iter().any(|change| change.is_finished()) {
            assert!(begin.elapsed() < Duration::from_secs(20), "some find no place");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(ask::<InstanceStatus>(&socket, ControlRequest::Status).is_ok());
        assert!(ask::<String>(&socket, ControlRequest::Metrics).is_ok());
        drop(ends);
        for change in changes {
            let Err(RequestError::Refused(why)) = change.join().unwrap() else { panic!() };
            assert!(why == "over" || why.contains("too many requests"), "{why}");
        }
    });
}

#[test]
fn all_are_asked_at_once_and_silent_ones_cost_one_deadline_together() {
    let running = running();
    let directory = running.dir.path().join("run");
    let silent: Vec<_> =
        (0..20).map(|n| UnixListener::bind(directory.join(format!("silent{n}.sock"))).unwrap()).collect();
    // The queue of connections is full.
    let full = UnixListener::bind(directory.join("full.sock")).unwrap();
    nix::sys::socket::listen(&full, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let _waiting = UnixStream::connect(directory.join("full.sock")).unwrap();
    let found = in_directory(&directory).unwrap();
    assert_eq!(found.len(), silent.len() + 2);
    let all: Vec<&FoundSocket> = found.iter().collect();
    let begin = Instant::now();
    let patience = Duration::from_secs(3);
    let answers = ask_all::<InstanceStatus>(&all, ControlRequest::Status, patience, |_, _| None);
    assert!((patience..patience * 7).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    for (found, answer) in found.iter().zip(&answers) {
        match (found.name().as_str(), answer) {
            ("echo", Ok(status)) => assert_eq!(*status, Echo.status()),
            (_, Err(RequestError::Unreachable(error))) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            (name, answer) => panic!("{name}: {answer:?}"),
        }
    }
    // Nothing more is waited for once the wanted instance has answered.
    let begin = Instant::now();
    let soon = |_, answer: &Result<InstanceStatus, RequestError>| answer.is_ok().then_some(Duration::ZERO);
    ask_all(&all, ControlRequest::Status, Duration::from_secs(20), soon);
    // Nor for a socket that does not exist.
    let gone = in_directory(&directory).unwrap();
    drop(silent);
    let gone: Vec<&FoundSocket> =
        gone.iter().filter(|found| found.name().as_str().starts_with("silent")).collect();
    let answers =
        ask_all::<InstanceStatus>(&gone, ControlRequest::Status, Duration::from_secs(20), |_, _| None);
    assert!(answers.iter().all(|answer| matches!(answer, Err(RequestError::Gone))));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn only_sockets_are_asked_and_only_in_directories_of_their_user() {
    use std::os::unix::fs::{chown, symlink};
    if !nix::unistd::geteuid().is_root() {
        return println!("SKIPPED: directories of other users need root");
    }
    let running = running();
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path();
    let make = |user: &str, owner: u32, mode: u32| {
        let directory = users.join(user).join("namegate");
        fs::create_dir_all(&directory).unwrap();
        for path in [users.join(user), directory.clone()] {
            chown(&path, Some(owner), Some(owner)).unwrap();
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        directory
    };
    let good = make("12345", 12345, 0o700);
    let listener = UnixListener::bind(good.join("a.sock")).unwrap();
    // A link to the socket of another server, and a file that is no socket.
    symlink(running.socket(), good.join("b.sock")).unwrap();
    fs::write(good.join("c.sock"), "").unwrap();
    fs::write(good.join("d"), "").unwrap();
    for (user, owner, mode) in [("12346", 12345, 0o700), ("12347", 12347, 0o777), ("012345", 12345, 0o700)] {
        drop(UnixListener::bind(make(user, owner, mode).join("e.sock")).unwrap());
    }
    fs::create_dir(users.join("12348")).unwrap();
    chown(users.join("12348"), Some(12348), None).unwrap();
    symlink(running.dir.path().join("run"), users.join("12348/namegate")).unwrap();
    symlink(users.join("12345"), users.join("12349")).unwrap();
    let mut sockets = FoundSockets::default();
    of_users(users, &mut sockets);
    let names: Vec<_> = sockets.others.iter().map(|one| (one.uid(), one.name().as_str())).collect();
    assert_eq!(names, [(12345, "a"), (12345, "b"), (12345, "c")], "{sockets:?}");
    assert_eq!(sockets.ignored.len(), 4, "{:?}", sockets.ignored);
    let all: Vec<&FoundSocket> = sockets.others.iter().collect();
    let answers =
        ask_all::<InstanceStatus>(&all, ControlRequest::Status, Duration::from_secs(1), |_, _| None);
    // The listener is root's and the socket is not: the server is certainly not user 12345.
    assert!(
        matches!(
            answers[..],
            [Err(RequestError::Impostor(0)), Err(RequestError::Gone), Err(RequestError::Gone)]
        ),
        "{answers:?}"
    );
    listener.set_nonblocking(true).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    assert!(matches!(stream.read(&mut [0]), Ok(0)), "nothing was said to it");
}

#[test]
fn a_flood_of_sockets_of_one_user_is_bounded() {
    use std::os::unix::fs::chown;
    if !nix::unistd::geteuid().is_root() {
        return println!("SKIPPED: directories of other users need root");
    }
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("12345/namegate");
    fs::create_dir_all(&directory).unwrap();
    for number in 0..500 {
        fs::write(directory.join(format!("{number}.sock")), "").unwrap();
    }
    for path in [directory.parent().unwrap(), &directory] {
        chown(path, Some(12345), None).unwrap();
    }
    let mut sockets = FoundSockets::default();
    of_users(dir.path(), &mut sockets);
    assert!(sockets.others.len() == 64 && sockets.ignored.len() == 1, "{:?}", sockets.ignored);
}

#[test]
fn what_other_killed_servers_have_left_is_removed_by_the_next_one() {
    let running = running();
    let directory = running.dir.path().join("run");
    for name in ["dead", "dead~2"] {
        drop(UnixListener::bind(directory.join(format!("{name}.sock"))).unwrap());
    }
    let other = UnixListener::bind(directory.join("alive.sock")).unwrap();
    fs::write(directory.join("file.sock"), "precious").unwrap();
    std::os::unix::fs::symlink("dead.sock", directory.join("link.sock")).unwrap();
    let _next = reserve(&directory, &name("next"), false).unwrap();
    let mut left: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [".lock", "alive.sock", "echo.sock", "file.sock", "link.sock", "next.sock"]);
    assert!(ask::<InstanceStatus>(&running.socket(), ControlRequest::Status).is_ok());
    drop(other);
}

#[test]
fn whatever_is_sent_gets_an_answer_and_the_next_one_is_served() {
    let running = running();
    let long = vec![b'a'; 1 << 20];
    let deep = "[".repeat(4000) + "\n";
    let hostile: &[&[u8]] = &[
        b"\n",
        b"\0\n",
        b"\xFF\xFE\n",
        b"{}\n",
        b"null\n",
        b"{\"version\":1}\n",
        b"{\"version\":-1,\"do\":\"status\"}\n",
        b"{\"version\":1,\"do\":\"stauts\"}\n",
        b"{\"version\":1,\"do\":\"mode\"}\n",
        b"{\"version\":1,\"do\":\"mode\",\"mode\":\"\\u001b[2J\"}\n",
        b"{\"version\":1,\"do\":\"status\",\"mode\":\"permissive\"}\n",
        b"{\"version\":1,\"do\":\"reload\",\"file\":\"/etc/shadow\"}\n",
        b"{\"version\":2,\"do\":\"new\",\"with\":[1]}\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        deep.as_bytes(),
        &long,
    ];
    for bytes in hostile {
        let answer = running.raw(bytes);
        let Ok(reply) = serde_json::from_str::<ControlReply>(&answer) else {
            // Unread data of a request can make the client lose the reply.
            assert!(answer.is_empty() && bytes.len() > 4096, "{answer:?} to {} bytes", bytes.len());
            continue;
        };
        assert!(!reply.ok && reply.error.is_some_and(|why| !why.contains('\x1b')), "{answer}");
    }
    assert!(running.raw(b"{\"version\":1,\"do\":\"stauts\"}\n").contains("did you mean `status`?"));
    assert!(ask::<InstanceStatus>(&running.socket(), ControlRequest::Status).is_ok());
}

#[test]
fn who_says_nothing_or_too_slowly_holds_nobody_up_and_is_let_go() {
    let running = running();
    let begin = Instant::now();
    let mut silent: Vec<_> = (0..3).map(|_| UnixStream::connect(running.socket()).unwrap()).collect();
    assert!(ask::<InstanceStatus>(&running.socket(), ControlRequest::Status).is_ok());
    assert!(begin.elapsed() < ANSWER_TIMEOUT, "{:?}", begin.elapsed());
    // One byte at a time does not extend the deadline.
    let mut slow = silent.pop().unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let ended = loop {
        let _ = slow.write_all(b" ");
        match slow.read(&mut [0; 64]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => break begin.elapsed(),
        }
        assert!(begin.elapsed() < ANSWER_TIMEOUT * 8);
    };
    assert!(ended >= ANSWER_TIMEOUT, "{ended:?}");
    for mut stream in silent {
        assert!(matches!(stream.read(&mut [0; 64]), Ok(0)), "it is let go");
    }
}

#[test]
fn of_two_servers_of_one_name_the_second_is_told_or_gets_another() {
    let running = running();
    let directory = running.dir.path().join("run");
    let error = reserve(&directory, &name("echo"), false).unwrap_err();
    assert_eq!(error.get_ref().unwrap().downcast_ref(), Some(&NameTaken(name("echo"))));
    let second = reserve(&directory, &name("echo"), true).unwrap();
    let third = reserve(&directory, &name("echo"), true).unwrap();
    assert_eq!((second.name().as_str(), third.name().as_str()), ("echo~2", "echo~3"));
    drop(second);
    assert_eq!(reserve(&directory, &name("echo"), true).unwrap().name().as_str(), "echo~2");
}

#[test]
fn a_socket_that_nobody_listens_at_is_replaced_and_no_other_file_is() {
    let dir = tempfile::tempdir().unwrap();
    let (directory, socket) = (dir.path().join("run"), dir.path().join("run/a.sock"));
    fs::create_dir(&directory).unwrap();
    // Closing it leaves the file, as a killed server does.
    drop(UnixListener::bind(&socket).unwrap());
    let reserved = reserve(&directory, &name("a"), false).unwrap();
    assert!(UnixStream::connect(&socket).is_ok());
    // The socket of another server at the same path stays.
    fs::remove_file(&socket).unwrap();
    let other = UnixListener::bind(&socket).unwrap();
    drop(reserved);
    assert!(socket.exists());
    drop(other);
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "precious").unwrap();
    // Connecting to a file is refused, as to a dead socket, but it is no socket.
    assert!(reserve(&directory, &name("a"), false).is_err());
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
}

#[test]
fn servers_that_start_at_once_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("run");
    fs::create_dir(&directory).unwrap();
    drop(UnixListener::bind(directory.join("a.sock")).unwrap());
    let winners: Vec<_> = thread::scope(|scope| {
        let start = || reserve(&directory, &name("a"), false).ok();
        let all: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        all.into_iter().filter_map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(winners.len(), 1);
}

#[test]
fn a_directory_that_others_can_write_to_is_no_place_for_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("run");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(reserve(&directory, &name("a"), false).is_err());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(reserve(&link, &name("a"), false).is_err());
    assert!(reserve(&dir.path().join("missing/run"), &name("a"), false).is_err());
}

#[test]
fn a_server_that_answers_nonsense_is_an_error_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    for answer in [
        "",
        "\n",
        "{}\n",
        "{\"version\":9,\"ok\":true}\n",
        "{\"version\":1,\"ok\":true,\"result\":[]}\n",
        "{\"version\":1,\"ok\":true}",
    ] {
        let path = dir.path().join("server.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let answers = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        });
        assert!(ask::<InstanceStatus>(&path, ControlRequest::Status).is_err(), "{answer:?}");
        answers.join().unwrap();
        fs::remove_file(&path).unwrap();
    }
}
