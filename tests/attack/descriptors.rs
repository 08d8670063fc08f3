//! One user opens as much as possible; the others must be able to continue.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::duration;
use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, open_to_all};
use namegate_testkit::wait_until;

const ATTACKER: u32 = 64_001;
const OTHER: u32 = 64_002;
/// More than the server may have open.
const FILES: usize = 1200;
/// Maximum number of open files of a process on all systems.
const MOST: usize = 10_000;

/// A way to hold files open.
type Keep = fn(&Path, usize) -> std::io::Result<File>;

fn file(dir: &Path, i: usize) -> PathBuf {
    dir.join(format!("file {}", i % FILES))
}

/// Files that the kernel does not read and write itself.
fn set_id(dir: &Path, i: usize) -> PathBuf {
    dir.join(format!("set-id {}", i % 20))
}

fn directory(dir: &Path, i: usize) -> PathBuf {
    dir.join(format!("dir {}", i % FILES))
}

fn only_path(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)
}

const WAYS: [(&str, Keep); 8] = [
    ("files to read", |dir, i| File::open(file(dir, i))),
    ("files to write", |dir, i| OpenOptions::new().write(true).open(file(dir, i))),
    ("set-id files", |dir, i| OpenOptions::new().read(true).write(true).open(set_id(dir, i))),
    ("directories", |dir, i| File::open(directory(dir, i))),
    ("files by O_PATH", |dir, i| only_path(&file(dir, i))),
    ("directories by O_PATH", |dir, i| only_path(&directory(dir, i))),
    ("removed files", |dir, i| {
        let path = dir.join(format!("new {i}"));
        let open = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let _ = fs::remove_file(&path);
        open
    }),
    ("removed files by O_PATH", |dir, i| {
        let path = dir.join(format!("new {i}"));
        fs::write(&path, "")?;
        let held = only_path(&path);
        let _ = fs::remove_file(&path);
        held
    }),
];

/// The usual work of another user, which needs all kinds of server descriptors.
fn work(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        entry?.metadata()?;
    }
    let path = dir.join("mine");
    fs::write(&path, "content")?;
    let mut content = String::new();
    OpenOptions::new().read(true).write(true).open(&path)?.read_to_string(&mut content)?;
    if content != "content" {
        return Err(std::io::Error::new(ErrorKind::InvalidData, content));
    }
    fs::create_dir(dir.join("sub"))?;
    fs::rename(&path, dir.join("sub/other"))?;
    fs::remove_file(dir.join("sub/other"))?;
    fs::remove_dir(dir.join("sub"))
}

fn raise_own_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

#[test]
fn a_user_who_opens_as_much_as_possible_keeps_nobody_from_opening() {
    for (mounted, kind) in
        [(TestMount::new(&[]), "taken over by the kernel"), (TestMount::of_overlay(), "of an overlay")]
    {
        let Some(mounted) = mounted else { continue };
        raise_own_limit();
        let (attacked, others) = (mounted.mnt().join("attacked"), mounted.mnt().join("others"));
        for dir in [&attacked, &others] {
            fs::create_dir(dir).unwrap();
            open_to_all(dir);
        }
        for i in 0..FILES {
            fs::write(file(&attacked, i), "content").unwrap();
            chown(file(&attacked, i), Some(ATTACKER), Some(ATTACKER)).unwrap();
            fs::create_dir(directory(&attacked, i)).unwrap();
        }
        for i in 0..20 {
            fs::write(file(&others, i), "content").unwrap();
            fs::write(set_id(&attacked, i), "content").unwrap();
            chown(set_id(&attacked, i), Some(ATTACKER), Some(ATTACKER)).unwrap();
            fs::set_permissions(set_id(&attacked, i), fs::Permissions::from_mode(0o4755)).unwrap();
        }
        for limit in [1024, 256] {
            mounted.limit_descriptors(limit);
            // The kernel gives back cached inodes beyond the limit.
            wait_until("room for the others", || {
                let _ = fs::remove_dir_all(others.join("sub"));
                act_as(OTHER, OTHER, &[], 0o022, || work(&others)).is_ok()
            });
            for (what, keep) in WAYS {
                attack(&mounted, (&attacked, &others), kind, limit, (what, keep));
            }
        }
    }
}

fn attack(
    mounted: &TestMount,
    (attacked, others): (&Path, &Path),
    kind: &str,
    limit: usize,
    (what, keep): (&str, Keep),
) {
    let (is_over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    /// Ends the other user's work, even if this test fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (most, held, refusals) = thread::scope(|scope| {
        let _over = Over(&is_over);
        let working = scope.spawn(|| {
            act_as(OTHER, OTHER, &[], 0o022, || {
                while !is_over.load(Ordering::Relaxed) {
                    work(others)
                        .unwrap_or_else(|error| panic!("{what} {kind}, {limit} descriptors: {error}"));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        let (held, refusals) = act_as(ATTACKER, ATTACKER, &[], 0o022, || {
            let (begin, mut held, mut refusals, mut i) = (Instant::now(), Vec::new(), 0, 0);
            // All ways share the time, for each of two limits and two mounts.
            let time = duration() / (2 * WAYS.len() as u32);
            while begin.elapsed() < time || i < limit + limit / 8 || done.load(Ordering::Relaxed) == 0 {
                if held.len() == MOST {
                    sleep(Duration::from_millis(1));
                    continue;
                }
                match keep(attacked, i) {
                    Ok(file) => held.push(file),
                    Err(error) => {
                        let errno = error.raw_os_error().map(Errno::from_raw);
                        assert!(
                            matches!(errno, Some(Errno::ENFILE | Errno::ESTALE | Errno::EEXIST)),
                            "{what} {kind}: {error}"
                        );
                        refusals += 1;
                    }
                }
                i += 1;
                if working.is_finished() {
                    break;
                }
            }
            (held, refusals)
        });
        let most = mounted.descriptors();
        is_over.store(true, Ordering::Relaxed);
        working.join().unwrap();
        (most, held.len(), refusals)
    });
    println!(
        "{what} {kind}, {limit} descriptors: {held} held and {refusals} refused, with {most} descriptors; others did {} rounds, \
         0 of them with an error",
        done.load(Ordering::Relaxed)
    );
    assert!(most < limit, "{most} descriptors");
}

/// Tells a process of this test where to open files.
const OPENS_IN: &str = "NAMEGATE_ATTACK_OPENS_IN";
const OPEN: usize = 10_500;

/// How many processes open files: ten times what one of them may have open if there is a minute for it.
fn processes() -> usize {
    if duration() < Duration::from_secs(10) { 2 } else { 10 }
}

/// Not a test but a process of the next test, which needs several: a single one may not have so many open files.
#[test]
fn opens_files() {
    let Some(dir) = std::env::var_os(OPENS_IN) else { return };
    let dir = Path::new(&dir);
    raise_own_limit();
    let open = |i| OpenOptions::new().read(true).write(true).open(file(dir, i)).unwrap();
    let open: Vec<File> = (0..OPEN).map(open).collect();
    eprintln!("open");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for (i, opened) in open.iter().enumerate().step_by(997) {
        opened.write_all_at(b"C", 0).unwrap();
        opened.sync_all().unwrap();
        assert_eq!(fs::read_to_string(file(dir, i)).unwrap(), "Content");
    }
}

#[test]
fn more_open_files_than_descriptors_cost_a_few_hundred_descriptors() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(9)) {
        return println!("SKIPPED: Linux {release} does not take file contents over");
    }
    let Some(mounted) = TestMount::new(&[]) else { return };
    let before = mounted.descriptors();
    mounted.limit_descriptors(1024);
    let dir = mounted.mnt();
    (0..FILES).for_each(|i| fs::write(file(&dir, i), "content").unwrap());
    let begin = Instant::now();
    let start = || {
        let mut opener = Command::new(std::env::current_exe().unwrap());
        let opener = opener.args(["--exact", "descriptors::opens_files", "--nocapture"]).env(OPENS_IN, &dir);
        opener.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut openers: Vec<Child> = (0..processes()).map(|_| start()).collect();
    for opener in &mut openers {
        let mut messages = BufReader::new(opener.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
        let messages = messages.find(|line| line == "open" || line.contains("panicked"));
        assert_eq!(messages.as_deref(), Some("open"), "a process may open {OPEN} files");
    }
    let most = mounted.descriptors();
    println!(
        "{} files open after {:?}: {most} descriptors, {before} before",
        processes() * OPEN,
        begin.elapsed()
    );
    assert!(most < 400, "{most} descriptors");
    for mut opener in openers {
        opener.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        assert!(opener.wait().unwrap().success());
    }
}
