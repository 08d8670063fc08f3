//! Locks between processes: all kinds work through the mount, and waiting for one delays no other client.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};

use crate::mounted::{Mounted, PATIENCE};

const KINDS: [&str; 3] = ["flock", "posix", "ofd"];

/// A lock, released on drop.
#[derive(Debug)]
enum Lock {
    Whole(#[expect(dead_code, reason = "dropped")] Flock<File>),
    Range(#[expect(dead_code, reason = "dropped")] File),
}

/// Takes an exclusive lock on the file; waits for it, if asked to.
fn lock(path: &Path, kind: &str, wait: bool) -> nix::Result<Lock> {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let range = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 10,
        l_len: 10,
        l_pid: 0,
    };
    let how = match (kind, wait) {
        ("flock", wait) => {
            let how = if wait { FlockArg::LockExclusive } else { FlockArg::LockExclusiveNonblock };
            return Flock::lock(file, how).map(Lock::Whole).map_err(|(_, errno)| errno);
        }
        ("posix", true) => FcntlArg::F_SETLKW(&range),
        ("posix", false) => FcntlArg::F_SETLK(&range),
        (_, true) => FcntlArg::F_OFD_SETLKW(&range),
        (_, false) => FcntlArg::F_OFD_SETLK(&range),
    };
    fcntl(&file, how).map(|_| Lock::Range(file))
}

/// Another process that waits for a lock, prints a line before and after, and keeps the lock until its input ends.
struct Other {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Other {
    fn new(path: &Path, kind: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "locks::a_process_that_waits_for_a_lock", "--nocapture"])
            .env("NAMEGATE_LOCK", kind)
            .env("NAMEGATE_LOCKED", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut says = BufReader::new(process.stdout.take().unwrap());
        Self::wait_for(&mut says, "waits");
        Self { process, says }
    }

    fn wait_for(says: &mut BufReader<ChildStdout>, word: &str) {
        let mut line = String::new();
        while !line.ends_with(&format!("{word}\n")) {
            line.clear();
            assert!(says.read_line(&mut line).unwrap() > 0, "it ended before it said `{word}`");
        }
    }

    fn has_it(&mut self) {
        Self::wait_for(&mut self.says, "locked");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let begin = Instant::now();
        self.process.wait().unwrap();
        assert!(begin.elapsed() < PATIENCE, "a process that waited for a lock could not be killed");
    }
}

/// Not a test, but the process of [`Other`].
#[test]
fn a_process_that_waits_for_a_lock() {
    let (Some(kind), Some(path)) = (std::env::var_os("NAMEGATE_LOCK"), std::env::var_os("NAMEGATE_LOCKED"))
    else {
        return;
    };
    println!("waits");
    let _lock = lock(&PathBuf::from(path), kind.to_str().unwrap(), true).unwrap();
    println!("locked");
    std::io::stdout().flush().unwrap();
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn a_lock_excludes_other_processes_until_it_is_released() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    for kind in KINDS {
        let path = mounted.mnt().join(kind);
        fs::write(&path, "").unwrap();
        let mut other = Other::new(&path, kind);
        other.has_it();
        assert_eq!(lock(&path, kind, false).unwrap_err(), Errno::EAGAIN, "{kind}");
        drop(other);
        let mine = lock(&path, kind, false).unwrap();
        let mut other = Other::new(&path, kind);
        sleep(Duration::from_millis(50));
        drop(mine);
        other.has_it();
    }
}

#[test]
fn waiting_for_a_lock_blocks_no_worker() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    for kind in KINDS {
        let path = mounted.mnt().join(kind);
        fs::write(&path, "").unwrap();
        let mine = lock(&path, kind, false).unwrap();
        // More than the number of workers.
        let many = 2 * thread::available_parallelism().unwrap().get() + 3;
        let others: Vec<Other> = (0..many).map(|_| Other::new(&path, kind)).collect();
        sleep(Duration::from_millis(50));
        let begin = Instant::now();
        for i in 0..20 {
            fs::write(mounted.mnt().join(format!("{kind}-{i}")), "served").unwrap();
        }
        assert!(begin.elapsed() < PATIENCE);
        // Kill them while they wait; dropping them fails if that is not possible.
        drop(others);
        drop(mine);
        lock(&path, kind, false).unwrap();
    }
}
