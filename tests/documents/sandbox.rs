//! A machine of its own for the commands of a page: the file system of this one below an overlay, with its own `/srv`, `/mnt`, `/run` and
//! processes. What the commands install, write, mount and start is gone with it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::LazyLock;

use nix::unistd::geteuid;

use super::markdown::root;

/// Seconds after which a command counts as hung, with status 124.
const MOST: &str = "120";

/// Mounts the overlay in `$1/top`, prints the number of the process, and waits in `/srv` until it is killed.
const SET_UP: &str = r#"
mount --make-rprivate /
mount -t tmpfs tmpfs "$1/top" && cd "$1/top" && mkdir upper work root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
mount --rbind /dev root/dev && mount --rbind /sys root/sys
mount --bind "$1/srv" root/srv
mount -t tmpfs tmpfs root/mnt && mount -t tmpfs -o mode=755 tmpfs root/run
for dir in "$2" "$3"; do mkdir -p "root$dir" && mount --bind "$dir" "root$dir"; done
# What namegate has kept on this machine.
rm -rf root/etc/namegate root/var/lib/namegate root/var/log/namegate
# Of the number that this process has outside: the old /proc has it.
read -r pid rest </proc/self/stat
mount -t proc proc root/proc
# Who knows the number enters, so it is said where the root is the right one.
exec chroot root sh -c 'cd /srv && echo "$1" && exec cat >/dev/null' sh "$pid"
"#;

/// Where the commands of a page run.
pub struct Sandbox {
    /// What the commands see as `/srv`, their working directory.
    pub srv: PathBuf,
    /// The process that holds the namespaces, and its number; without root there are none, and `/srv` is only a directory.
    inside: Option<(Child, BufReader<ChildStdout>, String)>,
    dir: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let srv = fs::canonicalize(dir.path()).unwrap().join("srv");
        fs::create_dir(&srv).unwrap();
        fs::create_dir(dir.path().join("top")).unwrap();
        let inside = is_possible().then(|| hold(dir.path()));
        Self { srv, inside, dir }
    }

    /// Whether `/srv` and `/mnt` are those of the sandbox, and commands may mount there.
    pub fn is_whole(&self) -> bool {
        self.inside.is_some()
    }

    /// Runs a program in `/srv`, with namegate and the programs of the system on its path.
    pub fn run(&self, program: &[&str]) -> Output {
        let mut command = match &self.inside {
            Some((_, _, pid)) => {
                let mut command = Command::new("nsenter");
                command
                    .args(["--mount", "--pid", "--root", "--wd", "--target", pid, "timeout", MOST])
                    .args(program);
                command
            }
            None => {
                let mut command = Command::new(program[0]);
                command.args(&program[1..]).current_dir(&self.srv);
                command
            }
        };
        let home = if self.is_whole() { Path::new("/srv") } else { &self.srv };
        let path = format!("{}:{}", bin().display(), std::env::var("PATH").unwrap());
        command
            .env_clear()
            .envs([("PATH", path.as_str()), ("LC_ALL", "C.UTF-8"), ("EDITOR", "true")])
            .env("HOME", home)
            // Messages of a mount about the machine vary.
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Some((unshare, _, _)) = &mut self.inside {
            // It takes its child along, and that one all processes of its namespace.
            let _ = unshare.kill();
            let _ = unshare.wait();
        }
        assert!(self.dir.path().exists(), "the commands of a page removed the sandbox");
    }
}

/// Whether this user may make one: in a container, root may lack the rights.
pub fn is_possible() -> bool {
    static IS: LazyLock<bool> = LazyLock::new(|| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "true"]).stderr(Stdio::null());
        geteuid().is_root()
            && Path::new("/dev/fuse").exists()
            && unshare.status().is_ok_and(|status| status.success())
    });
    *IS
}

/// Where the program is.
fn bin() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_namegate")).parent().unwrap()
}

fn hold(dir: &Path) -> (Child, BufReader<ChildStdout>, String) {
    let mut unshare = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", SET_UP, "sh"])
        .args([dir, bin(), root()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare starts");
    let mut said = BufReader::new(unshare.stdout.take().unwrap());
    let mut pid = String::new();
    said.read_line(&mut pid).unwrap();
    assert!(pid.trim().parse::<u32>().is_ok(), "the sandbox was not set up: see above");
    (unshare, said, pid.trim().to_owned())
}
