use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use super::*;
use crate::daemon::metrics::Snapshot;
use crate::gate::Mode;

/// Says of each request what it was.
struct Echo;

impl Instance for Echo {
    fn status(&self) -> Status {
        Status {
            name: "echo".into(),
            version: "1".into(),
            pid: 1,
            uid: 2,
            since: "now".into(),
            source: Bytes::new("/a"),
            mountpoint: Bytes::new(b"/b\xFF\x1b"),
            config: None,
            mode: "enforcing".into(),
            mode_is_set: false,
            existing: "show".into(),
            errno: "EPERM".into(),
            policy: PolicyInForce::of(&crate::policy::Policy::of(&[])),
            last_reload: None,
            counters: Snapshot::default(),
        }
    }

    fn reload(&self) -> Result<Reloaded, String> {
        Err("site.toml:1:1: no\n  | \x1b[2J".into())
    }

    fn set_mode(&self, mode: Mode) -> Result<Reloaded, String> {
        Ok(Reloaded { changed: vec![format!("{mode:?}")], needs_mount: vec![] })
    }

    fn metrics(&self) -> String {
        "x".repeat(3 << 20)
    }

    fn counters(&self) -> Counters {
        let counters = Snapshot::default();
        Counters { name: "echo".into(), mountpoint: Bytes::new("/b"), counters, refusals: vec![] }
    }
}

struct Running {
    dir: tempfile::TempDir,
    serving: Option<Serving>,
}

fn name(word: &str) -> Name {
    Name::new(word).unwrap()
}

fn running() -> Running {
    let dir = tempfile::tempdir().unwrap();
    let reserved = reserve(&dir.path().join("run"), &name("echo"), false).unwrap();
    Running { serving: Some(reserved.serve(Arc::new(Echo)).unwrap()), dir }
}

impl Running {
    fn socket(&self) -> PathBuf {
        self.dir.path().join("run/echo.sock")
    }

    /// What comes back for these bytes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        // It may have heard enough before all of it is written.
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
    assert_eq!(ask::<Status>(&socket, Request::Status).unwrap(), Echo.status());
    assert_eq!(ask::<Counters>(&socket, Request::Counters).unwrap(), Echo.counters());
    let changed: Reloaded = ask(&socket, Request::Mode(Mode::Permissive)).unwrap();
    assert_eq!(changed.changed, ["Permissive"]);
    assert_eq!(ask::<String>(&socket, Request::Metrics).unwrap().len(), 3 << 20);
    let Failure::Refused(why) = ask::<Reloaded>(&socket, Request::Reload).unwrap_err() else { panic!() };
    assert_eq!(why, "site.toml:1:1: no\n  | \\u{1B}[2J");
    let mountpoint = ask::<Status>(&socket, Request::Status).unwrap().mountpoint;
    assert_eq!(mountpoint.bytes().as_deref(), Some(&b"/b\xFF\x1b"[..]));
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
    assert!(matches!(ask::<Status>(&running.socket(), Request::Status), Err(Failure::Gone)));
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
        b"{\"v\":1}\n",
        b"{\"v\":-1,\"do\":\"status\"}\n",
        b"{\"v\":1,\"do\":\"stauts\"}\n",
        b"{\"v\":1,\"do\":\"mode\"}\n",
        b"{\"v\":1,\"do\":\"mode\",\"mode\":\"\\u001b[2J\"}\n",
        b"{\"v\":1,\"do\":\"status\",\"mode\":\"permissive\"}\n",
        b"{\"v\":1,\"do\":\"reload\",\"file\":\"/etc/shadow\"}\n",
        b"{\"v\":2,\"do\":\"new\",\"with\":[1]}\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        deep.as_bytes(),
        &long,
    ];
    for bytes in hostile {
        let answer = running.raw(bytes);
        let Ok(reply) = serde_json::from_str::<Reply>(&answer) else {
            // The rest of a request that nobody reads any more takes the answer with it.
            assert!(answer.is_empty() && bytes.len() > 4096, "{answer:?} to {} bytes", bytes.len());
            continue;
        };
        assert!(!reply.ok && reply.error.is_some_and(|why| !why.contains('\x1b')), "{answer}");
    }
    assert!(running.raw(b"{\"v\":1,\"do\":\"stauts\"}\n").contains("did you mean `status`?"));
    assert!(ask::<Status>(&running.socket(), Request::Status).is_ok());
}

#[test]
fn who_says_nothing_or_too_slowly_holds_nobody_up_and_is_let_go() {
    let running = running();
    let mut silent: Vec<_> = (0..3).map(|_| UnixStream::connect(running.socket()).unwrap()).collect();
    let begin = Instant::now();
    assert!(ask::<Status>(&running.socket(), Request::Status).is_ok());
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    // One byte again and again does not make the time longer.
    let mut slow = silent.pop().unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let ended = loop {
        let _ = slow.write_all(b" ");
        match slow.read(&mut [0; 64]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => break begin.elapsed(),
        }
        assert!(begin.elapsed() < Duration::from_secs(30));
    };
    assert!(ended >= PATIENCE - Duration::from_secs(1) && ended < PATIENCE * 3, "{ended:?}");
    for mut stream in silent {
        assert!(matches!(stream.read(&mut [0; 64]), Ok(0)), "it is let go");
    }
}

#[test]
fn of_two_servers_of_one_name_the_second_is_told_or_gets_another() {
    let running = running();
    let directory = running.dir.path().join("run");
    let error = reserve(&directory, &name("echo"), false).unwrap_err();
    assert_eq!(error.get_ref().unwrap().downcast_ref(), Some(&Taken(name("echo"))));
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
    // Closing it leaves the file, as being killed does.
    drop(UnixListener::bind(&socket).unwrap());
    let reserved = reserve(&directory, &name("a"), false).unwrap();
    assert!(UnixStream::connect(&socket).is_ok());
    // Another server's socket that has come to the same place stays.
    fs::remove_file(&socket).unwrap();
    let other = UnixListener::bind(&socket).unwrap();
    drop(reserved);
    assert!(socket.exists());
    drop(other);
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "precious").unwrap();
    // A file refuses to be connected to, as a dead socket does; it is not one.
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
        "{\"v\":9,\"ok\":true}\n",
        "{\"v\":1,\"ok\":true,\"result\":[]}\n",
        "{\"v\":1,\"ok\":true}",
    ] {
        let path = dir.path().join("server");
        let listener = UnixListener::bind(&path).unwrap();
        let answers = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        });
        assert!(ask::<Status>(&path, Request::Status).is_err(), "{answer:?}");
        answers.join().unwrap();
        fs::remove_file(&path).unwrap();
    }
}
