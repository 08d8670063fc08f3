//! Mounts by users other than root, with fusermount3(1).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::User;
use tempfile::TempDir;

use crate::background::{Unmounted, server_of};
use namegate_testkit::mounted::{can_mount, is_mounted, prepare};
use namegate_testkit::program::copy_program;
use namegate_testkit::wait_until;

/// Users with a name, as fusermount3 requires; every system has these two.
const USER: &str = "nobody";
const ANOTHER: &str = "daemon";

fn own(path: &Path, user: &str) {
    let user = User::from_name(user).unwrap().unwrap();
    chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
}

/// The directories of a user's mount, and a copy of the program that the user can run.
struct Place {
    dir: TempDir,
}

impl Place {
    /// `None`, after a message, if this cannot be tested.
    fn new() -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let mode = fs::metadata("/dev/fuse").unwrap().permissions().mode();
        if mode & 0o006 != 0o006 {
            println!("SKIPPED: /dev/fuse is not open to all users");
            return None;
        }
        for program in ["fusermount3", "setpriv"] {
            if Command::new(program).arg("--version").output().is_err() {
                println!("SKIPPED: no {program}");
                return None;
            }
        }
        let dir = prepare();
        for name in ["backing", "mnt"] {
            own(&dir.path().join(name), USER);
        }
        let program = dir.path().join("namegate");
        copy_program(env!("CARGO_BIN_EXE_namegate").as_ref(), &program);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { dir })
    }

    fn of(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a script as `user`; `$0` is the program, `$1` the directory.
    fn sh(&self, user: &str, script: &str) -> Output {
        let gid = User::from_name(user).unwrap().unwrap().gid;
        let (user, group) = (format!("--reuid={user}"), format!("--regid={gid}"));
        let mut command = Command::new("setpriv");
        command.args([user.as_str(), &group, "--clear-groups", "--", "sh", "-c", script]);
        command
            .args([&self.of("namegate"), &self.dir.path().to_owned()])
            .env_remove("RUST_LOG")
            .env("LC_ALL", "C");
        command.current_dir("/").stdin(Stdio::null()).output().unwrap()
    }

    /// Unmounts; tries again while the mount is busy.
    fn unmount(&self) {
        wait_until("the unmounting", || self.sh(USER, r#"fusermount3 -u "$1/mnt""#).status.success());
    }

    fn mount(&self, args: &str) -> Output {
        self.sh(USER, &format!("\"$0\" mount \"$1/backing\" \"$1/mnt\" --daemon {args}"))
    }
}

fn text(output: &Output) -> String {
    format!(
        "{:?} {}{}",
        output.status.code(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn a_user_mounts_uses_and_unmounts_a_tree_that_others_cannot_enter() {
    let Some(place) = Place::new() else { return };
    let mnt = place.of("mnt");
    let _unmounted = Unmounted(&mnt);
    let output = place.mount("");
    assert!(output.status.success() && is_mounted(&mnt), "{}", text(&output));
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.split(' ').nth(4) == mnt.to_str()).unwrap();
    let expected = format!("fuse.namegate {} ", place.of("backing").to_str().unwrap());
    assert!(
        line.contains(&expected) && line.contains("nosuid,nodev") && !line.contains("allow_other"),
        "{line}"
    );
    let output = place
        .sh(USER, r#"echo content >"$1/mnt/file" && cat "$1/mnt/file" && mkdir "$1/mnt/$(printf '\200')""#);
    let said = text(&output);
    assert!(said.contains("content\n") && said.contains("Invalid or incomplete multibyte"), "{said}");
    assert_eq!(fs::read_to_string(place.of("backing/file")).unwrap(), "content\n");
    let said = text(&place.sh(ANOTHER, r#"ls "$1/mnt""#));
    assert!(said.contains("Permission denied"), "{said}");
    assert_eq!(
        File::open(mnt.join("file")).unwrap_err().kind(),
        io::ErrorKind::PermissionDenied,
        "root neither"
    );
    place.unmount();
    assert!(!is_mounted(&mnt));
    wait_until("the end of the server", || server_of(&place.of("backing")).is_none());
}

#[test]
fn a_signal_unmounts_the_tree_of_a_user_and_a_dead_mount_is_replaced() {
    let Some(place) = Place::new() else { return };
    let (source, mnt) = (place.of("backing"), place.of("mnt"));
    let _unmounted = Unmounted(&mnt);
    let mount = || {
        let output = place.mount("");
        assert!(output.status.success(), "{}", text(&output));
        server_of(&source).expect("it serves")
    };
    kill(mount(), Signal::SIGKILL).unwrap();
    wait_until("the end of the server", || server_of(&source).is_none());
    assert!(is_mounted(&mnt));
    // A request during the end of the server is aborted.
    let said = || text(&place.sh(USER, r#"ls "$1/mnt""#));
    wait_until("the end of the connection", || said().contains("not connected"));
    let server = mount();
    let output = place.sh(USER, r#"mkdir "$1/mnt/dir""#);
    assert!(output.status.success(), "{}", text(&output));
    kill(server, Signal::SIGTERM).unwrap();
    wait_until("the unmounting", || !is_mounted(&mnt));
    wait_until("the end of the server", || server_of(&source).is_none());
}

#[test]
fn options_forbidden_to_users_give_a_one_line_error() {
    let Some(place) = Place::new() else { return };
    let mnt = place.of("mnt");
    let _unmounted = Unmounted(&mnt);
    let refused = |args: &str, expected: &str| {
        let output = place.mount(args);
        let said = text(&output);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{args}: {said}");
        let message = said.find("namegate: ").map_or("", |at| &said[at..]);
        assert_eq!(message.lines().count(), 1, "{said}");
        assert!(!is_mounted(&mnt));
    };
    refused("-o suid", "the mount options suid and dev are for root alone");
    refused("-o dev", "the mount options suid and dev are for root alone");
    refused("-o noatime", "the mount option noatime, which needs root");
    let allows_others = fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"));
    if !allows_others {
        refused("-o allow_other", "user_allow_other");
    }
    own(&mnt, "root");
    refused("", "no write access");
    own(&mnt, USER);
    let output = place.sh(USER, r#"PATH=/nonexistent "$0" mount "$1/backing" "$1/mnt" --daemon"#);
    assert!(text(&output).contains("needs root, or fusermount3"), "{}", text(&output));
}

#[test]
fn a_user_who_cannot_read_the_source_gets_an_error() {
    let Some(place) = Place::new() else { return };
    fs::set_permissions(place.of("backing"), fs::Permissions::from_mode(0o700)).unwrap();
    own(&place.of("backing"), "root");
    let output = place.sh(USER, r#""$0" mount "$1/backing/sub" "$1/mnt""#);
    let said = text(&output);
    assert!(said.contains("cannot serve") && said.contains("Permission denied"), "{said}");
    assert!(!is_mounted(Path::new(&place.of("mnt"))));
}

#[test]
fn users_query_and_reload_only_their_own_mounts() {
    let Some(place) = Place::new() else { return };
    let mnt = place.of("mnt");
    let _unmounted = Unmounted(&mnt);
    for name in ["run", "config", "config/namegate"] {
        fs::create_dir(place.of(name)).unwrap();
        own(&place.of(name), USER);
    }
    fs::set_permissions(place.of("run"), fs::Permissions::from_mode(0o700)).unwrap();
    let write = |profile: &str| {
        let (source, mountpoint) = (place.of("backing"), mnt.clone());
        let text =
            format!("source = {source:?}\nmountpoint = {mountpoint:?}\npolicy.profiles = [\"{profile}\"]\n");
        fs::write(place.of("config/namegate/mine.toml"), text).unwrap();
    };
    write("utf8");
    let with_places = |user: &str, script: &str| {
        place.sh(user, &format!("export XDG_RUNTIME_DIR=\"$1/run\" XDG_CONFIG_HOME=\"$1/config\"; {script}"))
    };
    let output = with_places(USER, r#""$0" mount --config mine --daemon"#);
    assert!(output.status.success() && is_mounted(&mnt), "{}", text(&output));
    let mode = |path: &str| fs::metadata(place.of(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("run/namegate"), mode("run/namegate/mine.sock")), (0o700, 0o600));
    let said = text(&with_places(USER, r#""$0" status && mkdir "$1/mnt/a:b""#));
    assert!(said.starts_with("Some(0)") && said.contains("mine") && said.contains("enforcing"), "{said}");
    write("windows");
    let said = text(&with_places(USER, r#""$0" reload mine && mkdir "$1/mnt/c:d""#));
    assert!(said.contains("policy: windows;") && said.contains("Invalid argument"), "{said}");
    let said = text(&with_places(ANOTHER, r#""$0" mode permissive "#));
    assert!(said.starts_with("Some(2)"), "{said}");
    let said = text(&with_places(USER, r#""$0" status"#));
    assert!(said.contains("enforcing") && said.contains("windows"), "{said}");
    place.unmount();
    wait_until("the end of the socket", || !place.of("run/namegate/mine.sock").exists());
}
