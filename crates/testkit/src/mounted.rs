//! A mount that is unmounted on drop, however the test ends.

use std::fmt::Debug;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{JoinHandle, spawn};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::statfs::statfs;
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;

use crate::program::program;
use crate::wait_until;

/// A temporary directory with `backing`, `mnt` and `plain` in it, and a server that mounts `backing` on `mnt`.
pub struct TestMount {
    dir: TempDir,
    server: Child,
    /// Reads the messages of the server, so that it never blocks on a full pipe.
    said: Option<JoinHandle<String>>,
}

/// Whether mounts can be tested here; prints SKIPPED if not.
pub fn can_mount() -> bool {
    if !geteuid().is_root() {
        println!("SKIPPED: mounting needs root");
    } else if !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: mounting needs /dev/fuse");
    } else if transport() == "uring" && !is_enabled() {
        println!("SKIPPED: io_uring needs Y in /sys/module/fuse/parameters/enable_uring");
    } else {
        return true;
    }
    false
}

/// The transport to test: the default, or that of the environment.
pub fn transport() -> String {
    std::env::var("NAMEGATE_TEST_TRANSPORT").unwrap_or_else(|_| "dev".into())
}

/// Whether root has enabled io_uring for FUSE.
pub fn is_enabled() -> bool {
    fs::read_to_string("/sys/module/fuse/parameters/enable_uring").is_ok_and(|value| value.trim() == "Y")
}

/// Whether contents go through the server on every mount, for a run of all tests.
pub fn has_no_passthrough() -> bool {
    std::env::var_os("NAMEGATE_TEST_NO_PASSTHROUGH").is_some()
}

/// Creates the directories for a mount.
pub fn prepare() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["backing", "mnt", "plain"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    // Other users must be able to pass.
    open_to_all(dir.path());
    ["backing", "plain"].iter().for_each(|name| open_to_all(&dir.path().join(name)));
    dir
}

pub fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

/// Unmounts `path`. It may be busy: `namegate list` in another test opens every mount.
pub fn unmount(path: &Path) {
    wait_until("the unmounting", || umount2(path, MntFlags::empty()).is_ok());
}

impl TestMount {
    /// A mount with these arguments; `None`, after a message, if nothing can be mounted.
    pub fn new(args: &[&str]) -> Option<Self> {
        can_mount().then(|| Self::of(prepare(), |dir| (dir.join("backing"), dir.join("mnt")), args))
    }

    /// A mount with the source and mount point that `places` returns.
    pub fn of(dir: TempDir, places: impl Fn(&Path) -> (PathBuf, PathBuf), args: &[&str]) -> Self {
        let (source, target) = places(dir.path());
        let mut command = Command::new(program());
        command.arg("mount").arg(source).arg(&target).args(args);
        command.args(["--transport", &transport()]);
        if has_no_passthrough() && !args.contains(&"--no-passthrough") {
            command.arg("--no-passthrough");
        }
        Self::by(dir, &target, command)
    }

    /// The mount that `command` creates on `target`.
    pub fn by(dir: TempDir, target: &Path, command: Command) -> Self {
        let run = dir.path().join("run");
        Self::by_at(dir, target, command, &run)
    }

    /// The mount that `command` creates on `target`, with its control socket in `run`.
    pub fn by_at(dir: TempDir, target: &Path, mut command: Command, run: &Path) -> Self {
        command.env("NAMEGATE_RUNTIME_DIR", run);
        let mut server = command.env_remove("RUST_LOG").stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = server.stderr.take().unwrap();
        let said = spawn(move || {
            let mut said = String::new();
            stderr.read_to_string(&mut said).unwrap();
            said
        });
        let mounted = Self { dir, server, said: Some(said) };
        // An earlier, dead mount is in the mount table too, but does not answer.
        wait_until("the mount", || is_mounted(target) && statfs(target).is_ok());
        mounted
    }

    /// A mount of an overlay. The kernel does not read and write its files by itself, and it has no file handles: file
    /// contents go through the server, and inodes are held by descriptors.
    pub fn of_overlay() -> Option<Self> {
        Self::of_overlay_with(&[])
    }

    /// A mount of an overlay with these arguments.
    pub fn of_overlay_with(args: &[&str]) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let dir = prepare();
        for name in ["lower", "upper", "work"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        open_to_all(&dir.path().join("upper"));
        let layer = |option: &str, name: &str| format!("{option}={}", dir.path().join(name).display());
        let layers =
            [layer("lowerdir", "lower"), layer("upperdir", "upper"), layer("workdir", "work")].join(",");
        let (target, kind) = (dir.path().join("backing"), Some("overlay"));
        match mount(kind, &target, kind, MsFlags::empty(), Some(layers.as_str())) {
            Ok(()) => Some(Self::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), args)),
            Err(errno) => {
                println!("SKIPPED: no overlay can be mounted: {errno}");
                None
            }
        }
    }

    /// The mounts to test file contents on: one where the kernel reads and writes the backing files by itself, if
    /// it can, one where it may not, and one where it cannot. In a run where it may not on any mount they would all be
    /// alike: there is one.
    pub fn both_ways() -> impl Iterator<Item = Self> {
        let ways: [fn() -> Option<Self>; 3] =
            [|| Self::new(&[]), || Self::new(&["--no-passthrough"]), Self::of_overlay];
        ways.into_iter().take(if has_no_passthrough() { 1 } else { ways.len() }).filter_map(|way| way())
    }

    /// The result of `work` through the mount. Panics if it differs from the result in a plain directory.
    #[track_caller]
    pub fn same<T: PartialEq + Debug>(&self, work: impl Fn(&Path) -> T) -> T {
        let (expected, found) = (work(&self.plain()), work(&self.mnt()));
        assert_eq!(found, expected, "through the mount, and in a plain directory");
        found
    }

    pub fn server(&self) -> u32 {
        self.server.id()
    }

    pub fn backing(&self) -> PathBuf {
        self.dir.path().join("backing")
    }

    pub fn mnt(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// The directory of its control socket.
    pub fn run_directory(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub fn plain(&self) -> PathBuf {
        self.dir.path().join("plain")
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.server.id()).unwrap()), signal).unwrap();
    }

    /// Limits the number of descriptors that the server may have open. The server cannot raise the limit.
    pub fn limit_descriptors(&self, most: usize) {
        let limit = format!("--nofile={most}:{most}");
        let set =
            Command::new("prlimit").args(["--pid", &self.server().to_string(), &limit]).status().unwrap();
        assert!(set.success());
    }

    /// Number of descriptors that the server has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.server())).unwrap().count()
    }

    /// Waits for the end of the server. Returns its status and messages.
    pub fn ended(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        wait_until("the end of the server", || {
            status = self.server.try_wait().unwrap();
            status.is_some()
        });
        (status.unwrap(), self.said.take().unwrap().join().unwrap())
    }

    /// Returns the directories of a mount whose server has ended.
    pub fn into_dir(mut self) -> TempDir {
        assert!(self.server.try_wait().unwrap().is_some(), "the server still runs");
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        // At most one is mounted. Detach it, because a failed test may have left files open.
        for place in ["mnt", "backing"] {
            let _ = umount2(&self.dir.path().join(place), MntFlags::MNT_DETACH);
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Whether something is mounted on `path`, according to the mount table (proc_pid_mountinfo(5)).
pub fn is_mounted(path: &Path) -> bool {
    // The table may have names that are not UTF-8, from other tests.
    let list = fs::read("/proc/self/mountinfo").unwrap();
    let mut points =
        list.split(|&byte| byte == b'\n').filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    points.any(|point| point == path.as_os_str().as_encoded_bytes())
}
