//! The control socket: what another user can do to root's client, and what idle connections do to a server.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use namegate::service::control::ANSWER_TIMEOUT;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::duration;
use namegate_testkit::mounted::{TestMount, can_mount, prepare};
use namegate_testkit::wait_until;

/// Maximum time of an answer on a busy machine; a client that waits for a stuck server gets none.
const ATTENDED: Duration = Duration::from_secs(15);

/// Two users of this run only: their runtime directories are where systemd creates them.
fn users() -> [u32; 2] {
    let first = 1_000_000 + 2 * std::process::id();
    [first, first + 1]
}

/// The program of an impostor: it creates the sockets that its arguments name, and gives every client the same answer, or none.
const IMPOSTOR: &str = r#"
import os, select, socket, sys
answer, listeners = sys.argv[1].encode(), {}
for path in sys.argv[2:]:
    one = socket.socket(socket.AF_UNIX)
    one.bind(path)
    os.chmod(path, 0o777)
    one.listen(64)
    listeners[one.fileno()] = (one, "silent" in path)
kept = []
print("ready", flush=True)
while True:
    for fd in select.select(list(listeners), [], [])[0]:
        one, is_silent = listeners[fd]
        peer = one.accept()[0]
        if is_silent:
            kept = kept[-200:] + [peer]
        else:
            peer.settimeout(1)
            try:
                peer.recv(4096)
                peer.sendall(answer + b"\n")
            except OSError:
                pass
            peer.close()
"#;

/// A process that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn impostor(uid: u32, answer: &str, sockets: &[PathBuf]) -> Option<Server> {
    let mut command = Command::new("python3");
    command.args(["-c", IMPOSTOR, answer]).args(sockets).uid(uid).gid(uid).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut ready = [0; 6];
    child.stdout.take()?.read_exact(&mut ready).ok()?;
    Some(Server(child))
}

/// A runtime directory of a user, like those of systemd.
struct RuntimeDirectory(PathBuf);

impl RuntimeDirectory {
    fn new(uid: u32) -> Self {
        let path = PathBuf::from(format!("/run/user/{uid}"));
        fs::create_dir_all(path.join("namegate")).unwrap();
        for path in [&path, &path.join("namegate")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            chown(path, Some(uid), Some(uid)).unwrap();
        }
        Self(path)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.0.join("namegate").join(format!("{name}.sock"))
    }
}

impl Drop for RuntimeDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Root's client, with its default paths.
fn namegate(args: &[&str]) -> (Output, Duration) {
    let begin = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.args(args).env_remove("NAMEGATE_RUNTIME_DIR").env_remove("RUST_LOG");
    (command.output().unwrap(), begin.elapsed())
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// A server of root, where root's client looks: its name comes from its configuration file.
fn serve(dir: &Path, name: &str) -> Server {
    let (source, mnt, file) = (dir.join("backing"), dir.join("mnt"), dir.join(format!("{name}.toml")));
    fs::write(&file, format!("source = {source:?}\nmountpoint = {mnt:?}\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").arg("--config").arg(&file).stderr(Stdio::null());
    let server = Server(command.env_remove("NAMEGATE_RUNTIME_DIR").env_remove("RUST_LOG").spawn().unwrap());
    wait_until("the socket", || {
        let (output, _) = namegate(&["status", name]);
        output.status.success()
    });
    server
}

struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

#[test]
fn impostors_are_not_trusted_and_silent_sockets_cost_one_deadline() {
    if !can_mount() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("SKIPPED: no python3 for an impostor");
    }
    let dir = prepare();
    let mnt = dir.path().join("mnt");
    let name = format!("attack-{}", std::process::id());
    let _unmounted = Unmounted(mnt.clone());
    let server = serve(dir.path(), &name);
    // The server's own answer, except for the facts about itself and an attempted terminal escape.
    let (honest, _) = namegate(&["status", "--json", &name]);
    let mut status = object(&honest);
    assert_eq!(status["pid"], server.0.id());
    status["pid"] = 1.into();
    status["mode"] = "\u{1b}[2Jpermissive\u{9b}1m".into();
    status["namegate"] = "\u{202e}0.1\r\n".into();
    let forged = serde_json::json!({ "version": 1, "ok": true, "result": status }).to_string();

    let [attacker, accomplice] = users();
    let (theirs, accomplices) = (RuntimeDirectory::new(attacker), RuntimeDirectory::new(accomplice));
    let mut sockets = vec![theirs.socket(&name), theirs.socket("other"), theirs.socket("share")];
    sockets.extend((0..40).map(|number| theirs.socket(&format!("silent{number}"))));
    let Some(_impostor) = impostor(attacker, &forged, &sockets) else {
        return println!("SKIPPED: no impostor can be started");
    };
    // A server of another user in the directory of this user, and links to servers of others.
    fs::set_permissions(&accomplices.0, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(accomplices.0.join("namegate"), fs::Permissions::from_mode(0o777)).unwrap();
    let foreign = impostor(attacker, &forged, &[accomplices.socket("lent")]);
    fs::set_permissions(accomplices.0.join("namegate"), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(foreign.is_some());
    symlink(format!("/run/namegate/{name}.sock"), theirs.socket("link")).unwrap();
    symlink(theirs.socket("share"), accomplices.socket("link")).unwrap();

    let (mut asked, mut believed, mut fastest, mut slowest_list) = (0, 0, [Duration::MAX; 2], Duration::ZERO);
    let mut wrong = Vec::new();
    let place = mnt.to_str().unwrap();
    let end = Instant::now() + duration();
    while asked == 0 || Instant::now() < end {
        for (which, fastest) in [name.as_str(), place].into_iter().zip(&mut fastest) {
            let (output, took) = namegate(&["status", "--json", which]);
            asked += 1;
            *fastest = took.min(*fastest);
            if object(&output)["pid"] != server.0.id() {
                believed += 1;
            }
            let text = namegate(&["status", which]).0;
            wrong.extend(text.stdout.into_iter().filter(|byte| *byte == 0x1b));
        }
        // A user's server is queried only if root names the user.
        let (output, _) = namegate(&["status", "share"]);
        believed += usize::from(output.status.success());
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(messages.contains(&format!("--user {attacker} share")), "{messages}");
        let (output, took) = namegate(&["list", "--json"]);
        slowest_list = slowest_list.max(took);
        let text = String::from_utf8(output.stdout).unwrap();
        wrong.extend(text.bytes().filter(|byte| *byte != b'\n' && byte.is_ascii_control()));
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |uid: u32, name: &str| rows.iter().find(|row| row["uid"] == uid && row["name"] == name);
        assert_eq!(of(0, &name).unwrap()["pid"], server.0.id());
        // They name a mount point on which this user has mounted nothing.
        assert_eq!(of(attacker, &name).unwrap()["state"], "unverified");
        assert_eq!(of(attacker, "silent7").unwrap()["state"], "silent");
        assert_eq!(of(accomplice, "lent").unwrap()["state"], "impostor");
        assert!(of(attacker, "link").is_none() && of(accomplice, "link").is_none(), "{text}");
        let output = namegate(&["list"]).0;
        wrong.extend(output.stdout.into_iter().filter(|byte| *byte == 0x1b));
    }
    // A request that names the user is answered, and harmless.
    let user = attacker.to_string();
    let output = namegate(&["status", "--user", &user, "share"]).0;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains(r"\u{1B}[2Jpermissive"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\r']), "{text}");
    println!(
        "{asked} questions among 45 sockets of impostors: {believed} impostors believed; fastest answers {fastest:?}, \
         slowest list {slowest_list:?}"
    );
    assert_eq!((believed, wrong.len()), (0, 0));
    // Instances of root do not wait for those of others: otherwise no answer would come before the deadline of a silent one. The
    // list waits for all of them together.
    assert!(fastest.iter().all(|took| *took < ANSWER_TIMEOUT), "{fastest:?}");
    assert!(slowest_list < 8 * ANSWER_TIMEOUT, "{slowest_list:?}");
}

#[test]
fn idle_slow_and_greedy_connections_delay_no_status() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let run = mounted.run_directory();
    let socket = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path());
    let socket = socket.filter(|path| path.extension() == Some("sock".as_ref())).last().unwrap();
    let (is_over, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut slowest, mut asked, mut refused) = (Duration::ZERO, 0, Vec::new());
    thread::scope(|scope| {
        for kind in 0..4 {
            let (is_over, connections, socket) = (&is_over, &connections, &socket);
            scope.spawn(move || {
                let mut held = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut stream) = UnixStream::connect(socket) else { continue };
                    connections.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.set_nonblocking(true);
                    let _ = match kind {
                        // Silent; half a request; endless garbage; a request whose answer nobody reads.
                        0 => Ok(()),
                        1 => stream.write_all(b"{\"version\":1,\"do\":"),
                        2 => stream.write_all(&[b'{'; 1 << 16]),
                        _ => stream.write_all(b"{\"version\":1,\"do\":\"metrics\"}\n"),
                    };
                    held.push(stream);
                    if held.len() > 300 {
                        held.drain(..150);
                    }
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
        let end = Instant::now() + duration();
        while Instant::now() < end {
            let begin = Instant::now();
            let output = ask(&run, &["status"]);
            slowest = slowest.max(begin.elapsed());
            if !output.status.success() {
                refused.push(String::from_utf8_lossy(&output.stderr).into_owned());
            }
            asked += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(refused, [""; 0]);
    println!(
        "{asked} answers among {} idle or greedy connections, the slowest after {slowest:?}",
        connections.into_inner()
    );
    assert!(slowest < ATTENDED, "{slowest:?}");
}

/// Runs root's client with the sockets of the test mounts.
fn ask(run: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.args(args).env("NAMEGATE_RUNTIME_DIR", run).env_remove("RUST_LOG").output().unwrap()
}

#[test]
fn status_is_answered_while_the_whole_mount_is_stuck() {
    if !can_mount() {
        return;
    }
    // A file system below the source that never answers: a mount of namegate whose server is stopped.
    let outer = prepare();
    let below = outer.path().join("backing/below");
    fs::create_dir(&below).unwrap();
    let inner = TestMount::of(prepare(), |dir| (dir.join("backing"), below.clone()), &["-o", "allow_other"]);
    let _below = Unmounted(below.clone());
    let mut mounted = TestMount::of(outer, |dir| (dir.join("backing"), dir.join("mnt")), &[]);
    let run = mounted.run_directory();
    let seen = mounted.mnt().join("below");
    let _ = fs::metadata(seen.join("x"));
    inner.signal(Signal::SIGSTOP);
    let stuck: Vec<_> = (0..16)
        .map(|number| {
            let path = seen.join(format!("stuck{number}"));
            thread::spawn(move || drop(fs::metadata(path)))
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    let (mut slowest, mut asked) = (Duration::ZERO, 0);
    let end = Instant::now() + duration();
    while asked == 0 || Instant::now() < end {
        for request in ["status", "metrics"] {
            let begin = Instant::now();
            let output = ask(&run, &[request]);
            slowest = slowest.max(begin.elapsed());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            asked += 1;
        }
    }
    let begin = Instant::now();
    let output = ask(&run, &["list", "--json"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"running\""), "{output:?}");
    assert!(begin.elapsed() < ATTENDED, "{:?}", begin.elapsed());
    println!("{asked} answers while 16 requests were stuck, the slowest after {slowest:?}");
    kill(Pid::from_raw(inner.server() as i32), Signal::SIGCONT).unwrap();
    stuck.into_iter().for_each(|stuck| stuck.join().unwrap());
    assert!(slowest < ATTENDED, "{slowest:?}");
    mounted.signal(Signal::SIGTERM);
    mounted.ended();
}
