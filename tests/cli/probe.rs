//! `namegate probe` and `--for`: the target asked itself.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use namegate_testkit::mounted::{TestMount, can_mount};
use namegate_testkit::program::{namegate, run, status, stderr, stdout};
use namegate_testkit::wait_until;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;

/// A tmpfs, unmounted on drop.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        if !geteuid().is_root() {
            println!("SKIPPED: mounting needs root");
            return None;
        }
        mount(Some("none"), dir.path(), Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
        Some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

fn probe_json(path: &Path, expected: i32) -> Value {
    let output = run([Path::new("probe"), path, Path::new("--json")]);
    assert_eq!(status(&output), expected, "{}{}", stdout(&output), stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn results<'p>(probe: &'p Value, result: &str) -> Vec<&'p str> {
    let names = probe["names"].as_array().unwrap().iter().filter(|name| name["result"] == result);
    names.map(|name| name["name"]["shown"].as_str().unwrap()).collect()
}

#[test]
fn a_tmpfs_keeps_every_name_of_255_bytes() {
    let Some(tmpfs) = Tmpfs::new("size=4m") else { return };
    let found = probe_json(tmpfs.path(), 0);
    assert_eq!((&found["kind"], &found["profile"]), (&"tmpfs".into(), &"utf8".into()));
    assert!(results(&found, "kept").len() > 190 && results(&found, "changed").is_empty());
    assert!(results(&found, "refused").iter().all(|name| name.len() > 255), "{found}");
    assert_eq!(found["longest"][1], serde_json::json!({ "character": "é", "count": 127 }));
    let policy = found["policy"].as_str().unwrap();
    assert!(policy.contains("name-bytes = 255"), "{policy}");
    assert!(entries(tmpfs.path()).is_empty());
}

#[test]
fn the_policy_is_a_file_that_scans_and_plans_take_as_they_take_the_target() {
    let Some(served) = TestMount::new(&["--profile", "windows"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.toml");
    let output = run(["probe".as_ref(), served.mnt().as_os_str(), "-o".as_ref(), policy.as_os_str()]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("fuse.namegate"), "{}", stdout(&output));
    assert!(entries(&served.mnt()).is_empty());
    let text = fs::read_to_string(&policy).unwrap();
    assert!(text.starts_with("# What /") && stdout(&output).ends_with(&text), "{text}");
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["a:b", "nul", "dot.", "good", "tab\there"] {
        fs::write(tree.join(name), "").unwrap();
    }
    for (command, expected) in [(&["scan", "--format", "csv"][..], 1), (&["fix", "plan"], 0)] {
        let outputs = [("--config", &policy), ("--for", &served.mnt())].map(|(option, value)| {
            let output = namegate().args(command).arg(&tree).arg(option).arg(value).output().unwrap();
            assert_eq!(status(&output), expected, "{}", stderr(&output));
            let lines = stdout(&output).lines().filter(|line| !line.contains("\"type\":\"plan\""));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(outputs[0], outputs[1]);
    }
    let scanned = run(["scan".as_ref(), tree.as_os_str(), "--for".as_ref(), served.mnt().as_os_str()]);
    assert!(stdout(&scanned).contains("4 rejected"), "{}", stdout(&scanned));
    assert!(entries(&served.mnt()).is_empty());
    let twice = run(["scan", ".", "--for", "/tmp", "--target", "windows"]);
    assert!(status(&twice) == 2 && stderr(&twice).contains("cannot be used with"), "{}", stderr(&twice));
}

#[test]
fn a_target_that_takes_nothing_is_not_judged_by_it() {
    let Some(tmpfs) = Tmpfs::new("size=4m,nr_inodes=8") else { return };
    let full = probe_json(tmpfs.path(), 2);
    assert!(full["not_tried"].as_str().unwrap().contains("ENOSPC"), "{full}");
    assert_eq!((&full["profile"], &full["left_behind"]), (&"utf8".into(), &Value::Null));
    assert!(entries(tmpfs.path()).is_empty());
    let tree = tempfile::tempdir().unwrap();
    (0..20).for_each(|number| fs::write(tree.path().join(number.to_string()), "").unwrap());
    let crowded = run(["scan".as_ref(), tree.path().as_os_str(), "--for".as_ref(), tmpfs.path().as_os_str()]);
    assert_eq!(status(&crowded), 1, "{}", stdout(&crowded));
    for expected in ["not everything was tried", "free inodes, fewer than the 2"] {
        assert!(stderr(&crowded).contains(expected), "{}", stderr(&crowded));
    }
    let large = tree.path().join("large");
    File::create(&large).unwrap().set_len(3 << 20).unwrap();
    let scanned = run(["scan".as_ref(), tree.path().as_os_str(), "--for".as_ref(), tmpfs.path().as_os_str()]);
    assert!(!stderr(&scanned).contains("of the files"), "{}", stderr(&scanned));
    fs::hard_link(&large, tree.path().join("again")).unwrap();
    let linked = run(["scan".as_ref(), tree.path().as_os_str(), "--for".as_ref(), tmpfs.path().as_os_str()]);
    assert!(!stderr(&linked).contains("of the files"), "one file, counted once: {}", stderr(&linked));
    File::create(&large).unwrap().set_len(5 << 20).unwrap();
    let full = run(["scan".as_ref(), tree.path().as_os_str(), "--for".as_ref(), tmpfs.path().as_os_str()]);
    assert_eq!(status(&full), 1);
    assert!(stderr(&full).contains("less than the 5.00 MiB of the files"), "{}", stderr(&full));
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, tmpfs.path(), None::<&str>, flags, None::<&str>).unwrap();
    let read_only = probe_json(tmpfs.path(), 2);
    assert!(read_only["not_tried"].as_str().unwrap().contains("EROFS"), "{read_only}");
    assert_eq!(read_only["read_only"], true);
    let only_read = run(["probe".as_ref(), tmpfs.path().as_os_str(), "--no-write".as_ref()]);
    assert_eq!(status(&only_read), 0);
    assert!(stdout(&only_read).contains("nothing was written"), "{}", stdout(&only_read));
    for wrong in ["/dev/null", "/nonexistent"] {
        assert_eq!(status(&run(["probe", wrong])), 2);
    }
}

#[test]
fn a_signal_ends_the_trials_and_nothing_is_left_behind() {
    if !can_mount() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let dir = tempfile::tempdir().unwrap();
        // Without the kernel's help each of 250 files takes long enough to come in between.
        let mut strace = Command::new("strace");
        strace.args([
            "-f",
            "-qq",
            "-e",
            "trace=openat",
            "-e",
            "inject=openat:delay_enter=20000",
            "-o/dev/null",
        ]);
        let command = strace.arg(namegate_testkit::program::program()).arg("probe").arg(dir.path());
        let Ok(mut child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            return println!("SKIPPED: strace is not installed: a slow target was not tried");
        };
        let inside = || entries(dir.path()).first().map(|private| entries(private).len());
        wait_until("names that are tried", || inside().is_some_and(|count| count > 3));
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        let process = children.split_whitespace().next().unwrap().parse().unwrap();
        kill(Pid::from_raw(process), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal as i32));
        assert!(entries(dir.path()).is_empty());
    }
}

#[test]
fn what_a_killed_probe_left_is_named_and_what_others_put_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    let left = dir.path().join(".namegate-probe-0123456789ab");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("of somebody"), "data").unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o700)).unwrap();
    let found = probe_json(dir.path(), 0);
    assert_eq!(found["leftovers"][0]["shown"], ".namegate-probe-0123456789ab");
    assert_eq!(fs::read(left.join("of somebody")).unwrap(), b"data");
    assert_eq!(entries(dir.path()).len(), 1);
}

#[test]
fn ntfs_keeps_names_of_255_utf16_units() {
    let dir = tempfile::tempdir().unwrap();
    let (image, point) = (dir.path().join("image"), dir.path().join("mnt"));
    fs::create_dir(&point).unwrap();
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let ran = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !can_mount()
        || !ran(Command::new("mkfs.ntfs").args(["-q", "-F", "-f"]).arg(&image))
        || !ran(Command::new("ntfs-3g").arg(&image).arg(&point))
    {
        return println!("SKIPPED: no NTFS: ntfs-3g is not installed, or nothing can be mounted");
    }
    let found = probe_json(&point, 0);
    umount2(&point, MntFlags::MNT_DETACH).unwrap();
    assert!(found["policy"].as_str().unwrap().contains("name-utf16 = 255"), "{found}");
    assert_eq!(found["longest"][3], serde_json::json!({ "character": "\u{1F600}", "count": 127 }));
    assert!(results(&found, "refused").contains(&"0163\\xFFx"), "{:?}", results(&found, "refused"));
}
