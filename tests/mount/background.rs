//! `--daemon`: the command returns when the mount is live.

use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::mount::{MntFlags, umount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use namegate_testkit::mounted::{can_mount, is_mounted, prepare};
use namegate_testkit::{PATIENCE, wait_until};

/// Runs `namegate mount` with `--daemon` and these arguments.
fn daemon(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").args(args).arg("--daemon").env_remove("RUST_LOG").stdin(Stdio::null());
    // `output` waits until no process has the pipes open.
    command.output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Detaches what is mounted on the path when dropped.
pub struct Unmounted<'p>(pub &'p Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

/// The process that serves `source`, by its command line.
pub fn server_of(source: &Path) -> Option<Pid> {
    let is_it = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        let program = words.next().unwrap_or_default();
        program.ends_with(b"namegate") && words.any(|word| word == source.as_os_str().as_encoded_bytes())
    };
    let entry = fs::read_dir("/proc").unwrap().filter_map(Result::ok).find(is_it)?;
    entry.file_name().to_str()?.parse().ok().map(Pid::from_raw)
}

#[test]
fn a_background_mount_is_live_when_the_command_exits_and_keeps_nothing_of_the_caller_open() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let (source, mnt) = (dir.path().join("backing"), dir.path().join("mnt"));
    let _unmounted = Unmounted(&mnt);
    let output = daemon(&[source.to_str().unwrap(), mnt.to_str().unwrap()]);
    let (status, out, err) = said(&output);
    assert_eq!((status, out), (Some(0), ""), "{err}");
    assert!(is_mounted(&mnt));
    fs::write(mnt.join("file"), "content").unwrap();
    assert!(File::create(mnt.join("caf\u{E9}")).is_ok());
    let server = server_of(&source).expect("it runs");
    let proc = Path::new("/proc").join(server.to_string());
    assert_eq!(fs::read_link(proc.join("cwd")).unwrap(), Path::new("/"));
    for fd in 0..3 {
        assert_eq!(fs::read_link(proc.join(format!("fd/{fd}"))).unwrap(), Path::new("/dev/null"));
    }
    let stat = fs::read_to_string(proc.join("stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap();
    assert_eq!(session, server.to_string(), "it has its own session");
    kill(server, Signal::SIGTERM).unwrap();
    wait_until("the unmounting", || !is_mounted(&mnt));
    wait_until("the end of the server", || server_of(&source).is_none());
    assert_eq!(fs::read_to_string(source.join("file")).unwrap(), "content");
}

#[test]
fn a_background_mount_reports_its_failure_to_the_caller() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let (source, missing) = (dir.path().join("backing"), dir.path().join("missing"));
    let output = daemon(&[source.to_str().unwrap(), missing.to_str().unwrap()]);
    let (status, _, err) = said(&output);
    let expected =
        format!("namegate: cannot mount on {}: No such file or directory\n", missing.to_str().unwrap());
    assert_eq!((status, err), (Some(2), expected.as_str()));
    let output = daemon(&[source.to_str().unwrap(), missing.to_str().unwrap(), "--audit", "-"]);
    let (status, _, err) = said(&output);
    assert!(status == Some(2) && err.contains("standard output"), "{err}");
}

#[test]
fn a_background_mount_logs_to_syslog() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let (source, mnt, dev) = (dir.path().join("backing"), dir.path().join("mnt"), dir.path().join("dev"));
    fs::create_dir(&dev).unwrap();
    let system = UnixDatagram::bind(dev.join("log")).unwrap();
    system.set_read_timeout(Some(PATIENCE)).unwrap();
    // A separate /dev, in which the test listens.
    let script = r#"
        for device in fuse null; do : >"$1/$device" && mount --bind "/dev/$device" "$1/$device" || exit; done
        mount --rbind "$1" /dev && "$0" mount "$2" "$3" --daemon && mkdir "$3/$(printf '\200')"
        umount "$3""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_namegate")]).args([&dev, &source, &mnt]);
    let output = match command.env_remove("RUST_LOG").output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return println!("SKIPPED: no unshare"),
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{output:?}");
    let mut message = [0; 2048];
    let expected = r#"refused: mkdir of "\x80" in ".": unexpected-continuation at bytes 0..1"#;
    loop {
        let len = system.recv(&mut message).expect("it logs");
        let message = std::str::from_utf8(&message[..len]).unwrap();
        if message.contains(expected) {
            // daemon.warning, syslog(3): 3 * 8 + 4.
            assert!(message.starts_with("<28>") && message.contains(" namegate["), "{message}");
            break;
        }
    }
    let _ = umount(&mnt);
}
