//! Watches under difficult conditions: no privileges, too few watches, paths that are too long, and the source of a mount.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::fcntl::{OFlag, openat};
use nix::mount::{MntFlags, umount2};
use nix::sys::stat::{Mode, mkdirat};

use crate::watching::{ENGINES, TestFileSystem, Watching, bad, is_root};
use namegate_testkit::wait_until;

/// The program, in a place where every user can run it.
fn program_for_all(place: &TestFileSystem) -> PathBuf {
    let program = place.beside("bin").join("namegate");
    // Copied by a separate process: a program that another test starts meanwhile must not hold the copy open for writing
    // (ETXTBSY).
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_namegate")).arg(&program).status().unwrap();
    assert!(copied.success());
    for path in [place.beside("."), place.top(), program.clone()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    program
}

#[test]
fn a_user_without_privileges_watches_each_directory_and_learns_why() {
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        return println!("SKIPPED: no setpriv to become another user");
    }
    for engine in ["auto", "inotify"] {
        let place = TestFileSystem::plain();
        let program = program_for_all(&place);
        let closed = place.dir("closed");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]);
        command.arg(program).arg("watch").arg(place.top()).args(["--format", "json", "--engine", engine]);
        let watching = Watching::spawn(command);
        fs::create_dir(place.top().join("sub")).unwrap();
        fs::write(place.top().join("sub").join(bad("")), "").unwrap();
        watching.wait_for(1);
        let ended = watching.end();
        let expected = if engine == "auto" {
            "fanotify-dirs, directory by directory; fanotify cannot: it needs"
        } else {
            "inotify, "
        };
        assert!(ended.log.contains(expected), "{}", ended.log);
        assert_eq!(ended.paths(), [place.top().join("sub").join(bad(""))]);
        assert!(ended.log.contains("closed"), "what cannot be read is reported: {}", ended.log);
        assert_eq!(ended.status, Some(2), "{}", ended.log);
    }
}

#[test]
fn too_few_watches_are_reported_clearly_as_an_error() {
    // A user namespace has its own limit.
    let script = "echo 20 >/proc/sys/user/max_inotify_watches && exec \"$@\"";
    let place = TestFileSystem::plain();
    (0..40).for_each(|number| drop(place.dir(&number.to_string())));
    let mut command = Command::new("unshare");
    command.args(["-U", "-r", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_namegate"), "watch"]);
    command.arg(place.top()).args(["--format", "json", "--engine", "inotify"]);
    let probe = Command::new("unshare")
        .args(["-U", "-r", "sh", "-c", "echo 20 >/proc/sys/user/max_inotify_watches"])
        .stderr(Stdio::null())
        .status();
    if !probe.is_ok_and(|status| status.success()) {
        return println!("SKIPPED: no user namespace with its own limit of watches");
    }
    let watching = Watching::spawn(command);
    fs::write(place.top().join(bad("")), "").unwrap();
    watching.wait_for(1);
    let ended = watching.end();
    assert_eq!(ended.status, Some(2), "{}", ended.log);
    assert!(ended.log.contains("fs.inotify.max_user_watches=NUMBER"), "{}", ended.log);
    assert!(ended.log.contains("21 directories are not watched"), "{}", ended.log);
}

/// Nested directories, created by descriptor; returns the last one.
fn dig(top: &Path, names: usize) -> (PathBuf, OwnedFd) {
    let name = "n".repeat(200);
    let (mut path, mut dir) = (top.to_path_buf(), OwnedFd::from(File::open(top).unwrap()));
    for _ in 0..names {
        mkdirat(&dir, name.as_str(), Mode::S_IRWXU).unwrap();
        dir = openat(
            &dir,
            name.as_str(),
            OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .unwrap();
        path.push(&name);
    }
    (path, dir)
}

fn create_at(dir: &OwnedFd, name: &OsString) {
    openat(dir, name.as_os_str(), OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::S_IRWXU)
        .unwrap();
}

#[test]
fn deep_directories_are_watched() {
    for engine in ENGINES {
        if engine == "fanotify" && !is_root() {
            continue;
        }
        let place = TestFileSystem::plain();
        let (path, dir) = dig(&place.top(), 60);
        let watching = Watching::new(&[&place.top()], &["--engine", engine]);
        create_at(&dir, &bad("old"));
        watching.wait_for(1);
        // And further below.
        mkdirat(&dir, "new", Mode::S_IRWXU).unwrap();
        let new = openat(&dir, "new", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
            .unwrap();
        create_at(&new, &bad("new"));
        watching.wait_for(2);
        let mut expected = [path.join(bad("old")), path.join("new").join(bad("new"))];
        expected.sort();
        let ended = watching.end();
        assert_eq!(ended.paths(), expected, "{engine}: {}", ended.log);
    }
}

#[test]
fn only_the_mounted_part_of_a_file_system_is_watched() {
    if !is_root() {
        return;
    }
    let Some(place) = TestFileSystem::tmpfs() else { return };
    let (part, other) = (place.dir("part/sub"), place.dir("other"));
    let bound = place.beside("bound");
    let done =
        Command::new("mount").arg("--bind").arg(place.top().join("part")).arg(&bound).status().unwrap();
    assert!(done.success());
    let watching = Watching::new(&[&bound], &["--engine", "fanotify"]);
    fs::write(other.join(bad("other")), "").unwrap();
    fs::write(part.join(bad("by its other path")), "").unwrap();
    fs::write(bound.join(bad("top")), "").unwrap();
    watching.wait_for(2);
    let ended = watching.end();
    let _ = umount2(&bound, MntFlags::MNT_DETACH);
    let mut expected = [bound.join("sub").join(bad("by its other path")), bound.join(bad("top"))];
    expected.sort();
    assert_eq!(ended.paths(), expected, "{}", ended.log);
}

struct Server(Child, PathBuf);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = umount2(&self.1, MntFlags::MNT_DETACH);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn names_created_in_the_source_are_reported_and_names_that_the_mount_refuses_are_not() {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        return println!("SKIPPED: mounting needs root and /dev/fuse");
    }
    let Some(place) = TestFileSystem::tmpfs() else { return };
    let mnt = place.beside("mnt");
    let server = Command::new(env!("CARGO_BIN_EXE_namegate"))
        .arg("mount")
        .args([&place.top(), &mnt])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server(server, mnt.clone());
    wait_until("the mount", || {
        fs::read_to_string("/proc/self/mountinfo").unwrap().contains(mnt.to_str().unwrap())
    });
    let watching = Watching::new(&[&place.top()], &[]);
    assert!(File::create(mnt.join(bad("through"))).is_err());
    fs::write(mnt.join("good"), "").unwrap();
    fs::write(place.top().join(bad("behind")), "").unwrap();
    watching.wait_for(1);
    let ended = watching.end();
    assert_eq!(ended.paths(), [place.top().join(bad("behind"))]);
    assert!(ended.lines[0].contains(&format!("\"pid\":{}", std::process::id())), "{}", ended.lines[0]);
    drop(server);
}
