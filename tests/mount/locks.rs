//! Locks between processes: all kinds work through the mount, and waiting for one delays no other client.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};

use namegate_testkit::mounted::{TestMount, transport};
use namegate_testkit::{PATIENCE, wait_until};

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
    let Some(mounted) = TestMount::new(&[]) else { return };
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
    let Some(mounted) = TestMount::new(&[]) else { return };
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

/// Both ends: a program that uses the mount, and one that uses the source.
fn ends(mounted: &TestMount, name: &str) -> [(PathBuf, PathBuf); 2] {
    let (here, there) = (mounted.mnt().join(name), mounted.backing().join(name));
    [(here.clone(), there.clone()), (there, here)]
}

#[test]
fn locks_kept_by_the_backing_file_exclude_programs_in_the_source() {
    for args in [&["--locks", "backing"][..], &["--locks", "backing", "--no-passthrough"]] {
        if transport() == "fuser" {
            return println!("SKIPPED: fuser passes no interrupts on, so it has no such locks");
        }
        let Some(mounted) = TestMount::new(args) else { return };
        let before = mounted.descriptors();
        for kind in KINDS {
            fs::write(mounted.backing().join(kind), "").unwrap();
            for (one, other) in ends(&mounted, kind) {
                let mut holder = Other::new(&one, kind);
                holder.has_it();
                for path in [&one, &other] {
                    let mine = lock(path, kind, false);
                    assert_eq!(mine.unwrap_err(), Errno::EAGAIN, "{kind} of {}", path.display());
                }
                // Killed, it has no lock any more. The kernel does not wait until the server has heard of that.
                drop(holder);
                let mut mine = None;
                wait_until("the release", || {
                    mine = lock(&other, kind, false).ok();
                    mine.is_some()
                });
                let mut waiter = Other::new(&one, kind);
                sleep(Duration::from_millis(100));
                assert_eq!(lock(&one, kind, false).unwrap_err(), Errno::EAGAIN, "{kind}: nobody has two");
                drop(mine);
                waiter.has_it();
            }
            wait_until("the release of all", || lock(&mounted.mnt().join(kind), kind, false).is_ok());
        }
        // Nothing keeps the file open when all is closed.
        wait_until("the closing", || mounted.descriptors() < before + 16);
    }
}

#[test]
fn closing_any_descriptor_releases_posix_locks_and_no_others_where_the_backing_file_keeps_them() {
    if transport() == "fuser" {
        return println!("SKIPPED: fuser passes no interrupts on, so it has no such locks");
    }
    let Some(mounted) = TestMount::new(&["--locks", "backing"]) else { return };
    for (kind, is_released) in [("posix", true), ("ofd", false), ("flock", false)] {
        let (here, there) = (mounted.mnt().join(kind), mounted.backing().join(kind));
        fs::write(&there, "").unwrap();
        let mine = lock(&here, kind, false).unwrap();
        assert_eq!(lock(&there, kind, false).unwrap_err(), Errno::EAGAIN, "{kind}");
        drop(File::open(&here).unwrap());
        assert_eq!(lock(&there, kind, false).is_ok(), is_released, "{kind}");
        drop(mine);
        wait_until("the release", || lock(&there, kind, false).is_ok());
    }
}

#[test]
fn a_program_that_waits_for_a_lock_of_the_backing_file_can_be_killed() {
    if transport() == "fuser" {
        return println!("SKIPPED: fuser passes no interrupts on, so it has no such locks");
    }
    let Some(mounted) = TestMount::new(&["--locks", "backing"]) else { return };
    for kind in KINDS {
        let (here, there) = (mounted.mnt().join(kind), mounted.backing().join(kind));
        fs::write(&there, "").unwrap();
        let mine = lock(&there, kind, false).unwrap();
        let many: Vec<Other> = (0..40).map(|_| Other::new(&here, kind)).collect();
        sleep(Duration::from_millis(100));
        // Each says so if it cannot be killed.
        drop(many);
        fs::write(mounted.mnt().join("another"), "served").unwrap();
        drop(mine);
        lock(&here, kind, true).unwrap();
    }
}
