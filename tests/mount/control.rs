//! The control socket of live mounts.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use namegate_testkit::mounted::{TestMount, can_mount, is_mounted, open_to_all, prepare, unmount};
use namegate_testkit::program::copy_program;
use namegate_testkit::wait_until;

/// Runs the program with the runtime directory of `mounted`.
pub fn ask<S: AsRef<OsStr>>(mounted: &TestMount, args: impl IntoIterator<Item = S>) -> Output {
    ask_at(&mounted.run_directory(), args)
}

fn ask_at<S: AsRef<OsStr>>(run: &Path, args: impl IntoIterator<Item = S>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.args(args).env("NAMEGATE_RUNTIME_DIR", run).env_remove("RUST_LOG").output().unwrap()
}

pub fn said(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The status of the only instance.
pub fn status(mounted: &TestMount) -> Value {
    let output = ask(mounted, ["status", "--json"]);
    let (_, out, err) = said(&output);
    serde_json::from_str(out).unwrap_or_else(|_| panic!("{err}"))
}

/// A mount by a configuration file, with `tables` after source and mount point.
pub fn by_file(dir: TempDir, tables: &str) -> TestMount {
    let file = write_file(dir.path(), tables);
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").arg("--config").arg(file);
    let target = dir.path().join("mnt");
    TestMount::by(dir, &target, command)
}

/// Writes the mount configuration `share.toml` in `dir`.
pub fn write_file(dir: &Path, tables: &str) -> PathBuf {
    let (source, mountpoint) = (dir.join("backing"), dir.join("mnt"));
    let file = dir.join("share.toml");
    fs::write(&file, format!("source = {source:?}\nmountpoint = {mountpoint:?}\n{tables}")).unwrap();
    file
}

fn ill_formed(dir: &Path) -> PathBuf {
    dir.join(OsStr::from_bytes(b"caf\xE9"))
}

#[test]
fn the_mode_is_switched_on_a_live_mount() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let name = ill_formed(&mounted.mnt());
    assert!(fs::create_dir(&name).is_err());
    assert_eq!(
        said(&ask(&mounted, ["mode", "permissive"])),
        (Some(0), "mode: permissive (was enforcing)\nexisting: show (was escape)\n", "")
    );
    fs::create_dir(&name).unwrap();
    let now = status(&mounted);
    assert_eq!((&now["mode"], &now["mode_is_set"]), (&"permissive".into(), &true.into()));
    // A reload does not undo `namegate mode`.
    let output = ask(&mounted, ["reload"]);
    let (code, out, _) = said(&output);
    assert_eq!(
        (code, out),
        (
            Some(0),
            "nothing has changed\nkept: mode: permissive, as set by `namegate mode`; configured is enforcing\n"
        )
    );
    let now = status(&mounted);
    assert_eq!((&now["mode"], &now["settings"]["mode"]), (&"permissive".into(), &"permissive".into()));
    assert_eq!((&now["settings"]["entry-timeout"], &now["settings"]["noexec"]), (&1.into(), &false.into()));
    assert!(ask(&mounted, ["mode", "enforcing"]).status.success());
    fs::remove_dir(mounted.mnt().join("caf\u{2426}E9")).unwrap();
    assert!(fs::create_dir(&name).is_err());
    assert_eq!(status(&mounted)["mode_is_set"], false);
    let output = ask(&mounted, ["mode", "lenient"]);
    assert!(said(&output).2.contains("[possible values: enforcing, permissive, encode]"), "{output:?}");
}

#[test]
fn status_metrics_and_top_show_requests_and_refused_users() {
    let Some(mounted) = TestMount::new(&["--profile", "strict", "--normalize", "nfc"]) else { return };
    fs::create_dir(mounted.mnt().join("dir")).unwrap();
    let hostile = OsStr::from_bytes(b"\x1b[2J\xE9");
    assert!(fs::create_dir(mounted.mnt().join("dir").join(hostile)).is_err());
    let outcomes = |status: &Value| {
        let requests = status["counters"]["requests"].as_array().unwrap();
        requests.iter().find(|op| op["op"] == "mkdir").map(|op| op["outcomes"].clone())
    };
    // A request is counted when its reply has been sent.
    wait_until("the count of both", || {
        outcomes(&status(&mounted)) == Some(serde_json::json!({ "ok": 1, "EILSEQ": 1 }))
    });
    let now = status(&mounted);
    assert_eq!(now["mountpoint"]["shown"], mounted.mnt().to_str().unwrap());
    assert_eq!(now["source"]["shown"], mounted.backing().to_str().unwrap());
    assert_eq!(now["policy"]["normalization"], "nfc refuse");
    assert_eq!((&now["mode"], &now["last_reload"]), (&"enforcing".into(), &Value::Null));
    assert_eq!(now["pid"], mounted.server());
    let output = ask(&mounted, ["metrics"]);
    let (code, out, _) = said(&output);
    assert!(code == Some(0) && out.contains("op=\"mkdir\""), "{out}");
    // A separate thread writes the record of the refusal.
    wait_until("the refusal in the view", || {
        let output = ask(&mounted, ["top", "--interval", "0.1"]);
        let (code, out, err) = said(&output);
        assert_eq!((code, err), (Some(0), ""));
        assert!(out.contains("mkdir") && !out.contains('\x1b'), "{out}");
        out.contains(r#"refused: mkdir "\u{1B}[2J\xE9" in dir"#)
    });
    let by_path = ask(&mounted, ["status".as_ref(), mounted.mnt().as_os_str()]);
    let (code, out, _) = said(&by_path);
    assert!(code == Some(0) && out.contains("1 refused, 0 let through"), "{out}");
}

#[test]
fn two_mounts_run_side_by_side_and_are_distinguished() {
    if !can_mount() {
        return;
    }
    let first = by_file(prepare(), "[mount]\nmode = \"permissive\"\n");
    // The second mount has its socket in the same directory.
    let run = first.run_directory();
    let dir = prepare();
    let (source, target) = (dir.path().join("backing"), dir.path().join("mnt"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").args([&source, &target]);
    let second = TestMount::by_at(dir, &target, command, &run);
    let modes = || {
        let output = ask_at(&run, ["list", "--json"]);
        let rows = said(&output).1.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let modes: Vec<_> = [&first, &second]
            .iter()
            .map(|mounted| {
                let is_it = |row: &Value| row["mountpoint"]["shown"] == mounted.mnt().to_str().unwrap();
                rows.clone().find(is_it).unwrap()["mode"].clone()
            })
            .collect();
        modes
    };
    assert_eq!(modes(), ["permissive", "enforcing"]);
    let output = ask_at(&run, ["status"]);
    let (code, _, err) = said(&output);
    assert!(code == Some(2) && err.contains("say which: share, "), "{err}");
    let place = second.mnt();
    assert!(ask_at(&run, ["mode".as_ref(), "permissive".as_ref(), place.as_os_str()]).status.success());
    assert!(ask_at(&run, ["mode", "enforcing", "share"]).status.success());
    assert_eq!(modes(), ["enforcing", "permissive"]);
    // A mount point below the working directory needs no slash, nor does the working directory itself.
    for (which, cwd) in [("mnt", second.mnt().parent().unwrap()), (".", &second.mnt())] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.args(["status", "--json", which]).current_dir(cwd).env("NAMEGATE_RUNTIME_DIR", &run);
        let output = command.output().unwrap();
        let (code, out, err) = said(&output);
        assert_eq!(code, Some(0), "{which}: {err}");
        let status: Value = serde_json::from_str(out).unwrap();
        assert_eq!(status["mountpoint"]["shown"], second.mnt().to_str().unwrap(), "{which}");
    }
    // A configuration can be mounted only once, whatever the mount point.
    let file = first.mnt().parent().unwrap().join("share.toml");
    let (other_source, other_place) = (second.backing(), second.plain());
    let again = ask_at(
        &run,
        [
            "mount".as_ref(),
            "--config".as_ref(),
            file.as_os_str(),
            other_source.as_os_str(),
            other_place.as_os_str(),
        ],
    );
    let (code, _, err) = said(&again);
    assert!(code == Some(2) && err.contains("an instance called share is running already"), "{err}");
    assert!(!is_mounted(&second.plain()));
}

#[test]
fn a_killed_server_is_shown_as_dead_and_replaced_by_the_next() {
    if !can_mount() {
        return;
    }
    let mut mounted = by_file(prepare(), "");
    let (mnt, run) = (mounted.mnt(), mounted.run_directory());
    let socket = run.join("share.sock");
    mounted.signal(Signal::SIGKILL);
    mounted.ended();
    assert!(socket.exists() && UnixStream::connect(&socket).is_err());
    let output = ask_at(&run, ["list", "--json"]);
    let (code, out, _) = said(&output);
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = rows.iter().find(|row| row["mountpoint"]["shown"] == mnt.to_str().unwrap()).unwrap();
    assert_eq!((code, &row["state"], &row["name"]), (Some(1), &"dead".into(), &Value::Null));
    let output = ask_at(&run, ["status", "share"]);
    assert!(said(&output).2.contains("share: it is not running"), "{output:?}");

    let mut again = by_file(mounted.into_dir(), "");
    assert_eq!(status(&again)["name"], "share");
    unmount(&again.mnt());
    assert_eq!(again.ended().0.code(), Some(0));
    assert!(!socket.exists(), "a server that ends removes its socket");
}

#[test]
fn a_signal_frees_the_name_while_open_files_are_still_served() {
    if !can_mount() {
        return;
    }
    let mounted = by_file(prepare(), "");
    let open = fs::File::create(mounted.mnt().join("file")).unwrap();
    mounted.signal(Signal::SIGTERM);
    wait_until("the detaching", || !is_mounted(&mounted.mnt()));
    wait_until("the end of the socket", || !mounted.run_directory().join("share.sock").exists());
    open.sync_all().unwrap();
}

#[test]
fn a_server_whose_program_was_replaced_is_marked_in_the_list() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let (program, target) = (dir.path().join("plain/namegate"), dir.path().join("mnt"));
    copy_program(env!("CARGO_BIN_EXE_namegate").as_ref(), &program);
    let mut command = Command::new(&program);
    command.arg("mount").arg(dir.path().join("backing")).arg(&target);
    let mounted = TestMount::by(dir, &target, command);
    let listed = || said(&ask(&mounted, ["list"])).1.to_owned();
    wait_until("the list", || listed().contains("running"));
    assert!(!listed().contains("replaced"), "{}", listed());
    fs::remove_file(&program).unwrap();
    assert!(listed().contains("(replaced program)"), "{}", listed());
}

#[test]
fn other_users_are_refused_by_the_mode_of_the_socket_and_by_the_server() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        return println!("SKIPPED: no setpriv");
    }
    let run = mounted.run_directory();
    let program = mounted.plain().join("namegate");
    copy_program(env!("CARGO_BIN_EXE_namegate").as_ref(), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=65534", "--clear-groups", "--"]).arg(&program).args(args);
        command.env("NAMEGATE_RUNTIME_DIR", &run).env_remove("RUST_LOG").output().unwrap()
    };
    let output = nobody(&["mode", "permissive"]);
    let (code, _, err) = said(&output);
    assert!(code == Some(2) && err.contains("it belongs to another user"), "{err}");
    let output = nobody(&["status", mounted.mnt().to_str().unwrap()]);
    let (code, _, err) = said(&output);
    assert!(code == Some(2) && err.contains("is a mount of root, whose instance answers only them"), "{err}");
    // Even if the socket is open to everyone.
    let socket = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path());
    let socket = socket.filter(|path| path.extension() == Some("sock".as_ref())).last().unwrap();
    open_to_all(&socket);
    let output = nobody(&["mode", "permissive"]);
    let (code, _, err) = said(&output);
    assert!(code == Some(2) && err.contains("only root and the user of the instance"), "{err}");
    assert_eq!(status(&mounted)["mode"], "enforcing");
}
