//! The start and the end of mounts.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use namegate_testkit::mounted::{TestMount, can_mount, is_mounted, prepare, unmount};
use namegate_testkit::wait_until;
use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::sys::signal::Signal;
use nix::sys::statfs::statfs;

#[test]
fn a_signal_unmounts_and_ends_the_server_without_an_error() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let Some(mut mounted) = TestMount::new(&[]) else { return };
        fs::write(mounted.mnt().join("file"), "content").unwrap();
        mounted.signal(signal);
        let (status, said) = mounted.ended();
        assert_eq!((status.code(), said.as_str()), (Some(0), ""), "{signal}");
        assert!(!is_mounted(&mounted.mnt()), "{signal}");
        assert_eq!(fs::read_to_string(mounted.backing().join("file")).unwrap(), "content");
    }
}

#[test]
fn umount_ends_the_server_without_an_error() {
    let Some(mut mounted) = TestMount::new(&[]) else { return };
    unmount(&mounted.mnt());
    assert_eq!(mounted.ended().0.code(), Some(0));
}

#[test]
fn a_later_mount_at_the_same_directory_stays_when_the_server_ends() {
    let Some(mut mounted) = TestMount::new(&[]) else { return };
    let mnt = mounted.mnt();
    // The server notices the end of its mount after the next file system is mounted.
    mounted.signal(Signal::SIGSTOP);
    unmount(&mnt);
    nix::mount::mount(None::<&str>, &mnt, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    fs::write(mnt.join("file"), "of another file system").unwrap();
    mounted.signal(Signal::SIGCONT);
    assert_eq!(mounted.ended().0.code(), Some(0));
    let read = fs::read_to_string(mnt.join("file"));
    unmount(&mnt);
    assert_eq!(read.unwrap(), "of another file system");
}

/// Where autofs or x-systemd.automount has unmounted, a lookup of the mount point would have it mounted again, for ever.
#[test]
fn a_server_whose_mount_is_gone_does_not_look_its_mount_point_up() {
    let Some(mut mounted) = TestMount::new(&[]) else { return };
    let (mnt, trace) = (mounted.mnt(), mounted.plain().join("trace"));
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-s", "4096", "-e", "trace=%file", "-p", &mounted.server().to_string(), "-o"])
        .arg(&trace);
    let Ok(mut tracer) = strace.stderr(Stdio::null()).spawn() else { return println!("SKIPPED: no strace") };
    let tasks = format!("/proc/{}/task", mounted.server());
    let is_traced = |task: &Path| {
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    };
    let all_traced = || fs::read_dir(&tasks).unwrap().all(|task| is_traced(&task.unwrap().path()));
    wait_until("the tracing", || all_traced() || tracer.try_wait().unwrap().is_some());
    if tracer.try_wait().unwrap().is_some() {
        return println!("SKIPPED: strace may not trace here");
    }
    unmount(&mnt);
    assert_eq!(mounted.ended().0.code(), Some(0));
    tracer.wait().unwrap();
    let trace = fs::read_to_string(trace).unwrap();
    assert!(trace.contains("mountinfo"), "the server has looked whether its mount is there: {trace}");
    assert!(!trace.contains(mnt.to_str().unwrap()), "{trace}");
}

#[test]
fn a_signal_while_files_are_open_detaches_and_serves_them_until_they_are_closed() {
    let Some(mut mounted) = TestMount::new(&[]) else { return };
    let path = mounted.mnt().join("file");
    fs::write(&path, "content").unwrap();
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    mounted.signal(Signal::SIGTERM);
    wait_until("the detaching", || !is_mounted(&mounted.mnt()));
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "content");
    file.write_all(b" and more").unwrap();
    file.sync_all().unwrap();
    drop(file);
    let (status, said) = mounted.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(fs::read_to_string(mounted.backing().join("file")).unwrap(), "content and more");
}

/// A process in a mount namespace of its own, which has a copy of a mount; ended on drop.
struct Container(Child);

impl Container {
    /// `None`, after a message, if there is no unshare(1).
    fn of(mounted: &TestMount) -> Option<Self> {
        // The mounts of other tests must not wait for this one.
        const SCRIPT: &str = r#"grep -F fuse.namegate /proc/self/mountinfo | cut -d' ' -f5 | grep -vxF "$0" |
            while read -r other; do umount -l "$other"; done
            exec sleep 600"#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT]).arg(mounted.mnt());
        let Ok(child) = command.spawn() else {
            println!("SKIPPED: no unshare");
            return None;
        };
        let container = Self(child);
        wait_until("the container", || container.command() == "sleep" && container.has(mounted));
        Some(container)
    }

    fn command(&self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.0.id())).unwrap().trim_end().to_owned()
    }

    /// Whether it sees the mount.
    fn has(&self, mounted: &TestMount) -> bool {
        let table = fs::read(format!("/proc/{}/mountinfo", self.0.id())).unwrap();
        String::from_utf8_lossy(&table).contains(mounted.mnt().to_str().unwrap())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_mount_of_which_a_container_has_a_copy_is_served_until_the_copy_is_gone() {
    let Some(mut mounted) = TestMount::new(&[]) else { return };
    fs::write(mounted.mnt().join("file"), "content").unwrap();
    let Some(container) = Container::of(&mounted) else { return };
    mounted.signal(Signal::SIGTERM);
    wait_until("the unmounting", || !is_mounted(&mounted.mnt()));
    let within = format!("/proc/{}/root{}", container.0.id(), mounted.mnt().join("file").display());
    assert_eq!(fs::read_to_string(within).unwrap(), "content");
    drop(container);
    assert_eq!(mounted.ended().0.code(), Some(0));
}

#[test]
fn a_stop_timeout_ends_a_mount_that_is_in_use_and_says_who_uses_it() {
    let Some(mut mounted) = TestMount::new(&["--stop-timeout", "3"]) else { return };
    let path = mounted.mnt().join("file");
    fs::write(&path, "content").unwrap();
    let Some(container) = Container::of(&mounted) else { return };
    let file = File::open(&path).unwrap();
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    let pid = container.0.id();
    let users = format!(
        "1 open file, a copy of the mount on {}, seen by process {pid} (sleep)",
        mounted.mnt().display()
    );
    for what in ["still served because it is in use", "ends as its stop timeout says"] {
        let line = said.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {said}"));
        assert!(line.contains(&users), "{line}");
    }
    assert!(file.metadata().is_err(), "it is not served any more");
}

#[test]
fn a_dead_mount_is_replaced_by_the_next_mount() {
    let Some(mut mounted) = TestMount::new(&[]) else { return };
    let mnt = mounted.mnt();
    fs::write(mnt.join("file"), "content").unwrap();
    mounted.signal(Signal::SIGKILL);
    mounted.ended();
    // Over io_uring the connection ends shortly after the server.
    wait_until("the end of the connection", || statfs(&mnt).is_err_and(|errno| errno == Errno::ENOTCONN));
    let again = TestMount::of(mounted.into_dir(), |dir| (dir.join("backing"), dir.join("mnt")), &[]);
    assert_eq!(fs::read_to_string(again.mnt().join("file")).unwrap(), "content");
}

#[test]
fn a_tree_can_be_mounted_over_itself() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    fs::create_dir(dir.path().join("backing/sub")).unwrap();
    fs::write(dir.path().join("backing/sub/file"), "content").unwrap();
    let inode = fs::metadata(dir.path().join("backing/sub/file")).unwrap().ino();
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("backing")), &[]);
    let file = mounted.backing().join("sub/file");
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
    assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
    fs::create_dir(mounted.backing().join("caf\u{E9}")).unwrap();
}

#[test]
fn a_mount_over_a_mount_of_namegate_is_refused() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    for source in [mounted.plain(), mounted.mnt()] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        let output = command.arg("mount").args([&source, &mounted.mnt()]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = format!(
            "namegate: cannot mount on {}: namegate is mounted there already, with the source {}; unmount it first\n",
            mounted.mnt().to_str().unwrap(),
            mounted.backing().to_str().unwrap()
        );
        assert_eq!((output.status.code(), said), (Some(2), expected));
    }
    fs::write(mounted.mnt().join("file"), "still there").unwrap();
}

#[test]
fn without_the_device_the_error_says_what_to_do() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    fs::create_dir(dir.path().join("dev")).unwrap();
    // A separate /dev with only the devices that every program needs.
    let script = r#"
        : >"$1/dev/null" && mount --bind /dev/null "$1/dev/null" && mount --rbind "$1/dev" /dev || exit
        exec "$0" mount "$1/backing" "$1/mnt""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_namegate")]).arg(dir.path());
    let Ok(output) = command.output() else { return println!("SKIPPED: no unshare") };
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "namegate: cannot open /dev/fuse: No such file or directory; load the kernel's module";
    assert!(output.status.code() == Some(2) && said.starts_with(expected), "{said}");
}

#[test]
fn the_error_says_which_right_is_missing() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let said = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_namegate")]).arg(dir.path());
        command.output().ok().map(|output| String::from_utf8(output.stderr).unwrap())
    };
    let script = r#"
        mknod -m 0600 "$1/fuse" c 10 229 && mount --bind "$1/fuse" /dev/fuse || exit
        exec setpriv --reuid 1 --regid 1 --clear-groups "$0" mount "$1/backing" "$1/backing""#;
    let Some(by_mode) = said(script) else { return println!("SKIPPED: no unshare") };
    assert!(by_mode.contains("Permission denied; all users need it: chmod 0666 /dev/fuse"), "{by_mode}");
    let script = r#"exec setpriv --bounding-set -sys_admin "$0" mount "$1/backing" "$1/mnt""#;
    let by_capability = said(script).unwrap();
    assert!(by_capability.contains("root has no CAP_SYS_ADMIN here"), "{by_capability}");
}

#[test]
fn with_timeouts_of_zero_every_change_is_seen_at_once() {
    let Some(mounted) = TestMount::new(&["-o", "entry_timeout=0,attr_timeout=0"]) else { return };
    let (here, there) = (mounted.mnt().join("file"), mounted.backing().join("file"));
    for round in 0..5 {
        fs::write(&there, "x".repeat(round)).unwrap();
        assert_eq!(fs::metadata(&here).unwrap().len(), round as u64);
        fs::remove_file(&there).unwrap();
        assert!(!here.exists());
    }
}

#[test]
fn the_mount_table_shows_source_and_options() {
    let Some(mounted) = TestMount::new(&["-o", "ro,noexec"]) else { return };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mnt = mounted.mnt();
    let line = mounts.lines().find(|line| line.split(' ').nth(4) == mnt.to_str()).unwrap();
    for word in
        ["ro,nosuid,nodev,noexec", "default_permissions", "allow_other", mounted.backing().to_str().unwrap()]
    {
        assert!(line.contains(word), "{word} in {line}");
    }
    let refused = fs::write(mnt.join("file"), "").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EROFS as i32));
}
