//! One user keeps the server busy, or stuck; other users must not be delayed.

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::fcntl::{FallocateFlags, OFlag, copy_file_range, fallocate, open};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::sys::statfs::{fstatfs, statfs};

use crate::duration;
use namegate_testkit::acting::act_as;
use namegate_testkit::hung::Hung;
use namegate_testkit::mounted::{TestMount, can_mount, is_mounted, open_to_all, prepare, transport};
use namegate_testkit::wait_until;

const MIB: u64 = 1 << 20;
/// A user who takes no part in the attack.
const BYSTANDER: u32 = 20100;

/// Limits for a run of `scripts/attack` on an idle machine; the suite runs on any machine.
fn is_strict() -> bool {
    duration() > Duration::from_secs(10)
}

/// Number of measurements by the suite before it blames the server and not the machine.
const ATTEMPTS: usize = 4;

/// Durations of one kind of request, sorted.
struct Times(Vec<Duration>);

impl Times {
    /// Measures `work` until `until`, with a pause after each so that the processors are free for others.
    fn measure(until: Instant, pause: Duration, mut work: impl FnMut(usize)) -> Self {
        let mut times = Vec::new();
        while Instant::now() < until || times.is_empty() {
            let begin = Instant::now();
            work(times.len());
            times.push(begin.elapsed());
            thread::sleep(pause);
        }
        times.sort();
        Self(times)
    }

    fn percentile(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }

    fn most(&self) -> Duration {
        self.percentile(100)
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, p99, most] = [self.percentile(50), self.percentile(99), self.most()];
        write!(f, "median {median:.0?}, p99 {p99:.0?}, most {most:.1?} of {}", self.0.len())
    }
}

/// Lookups of names that were never looked up before, as another user.
fn lookups(dir: &Path, until: Instant) -> Times {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    act_as(BYSTANDER, BYSTANDER, &[], 0o022, || {
        Times::measure(until, Duration::from_millis(1), |i| {
            black_box(fs::symlink_metadata(dir.join(format!("absent-{run}-{i}"))).unwrap_err());
        })
    })
}

/// The query of the watchdog.
fn probes(mnt: &Path, until: Instant) -> Times {
    Times::measure(until, Duration::from_millis(20), |_| {
        let held = open(mnt, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).unwrap();
        fstatfs(held).unwrap();
    })
}

/// Copies, syncs and allocates in `dir` until the end.
fn make_work(dir: &Path, user: u32, size: u64, is_over: &AtomicBool, done: &AtomicU64) {
    act_as(user, user, &[], 0o022, || {
        let options = || OpenOptions::new().read(true).write(true).create(true).truncate(true).to_owned();
        let [source, target] = ["source", "target"].map(|name| options().open(dir.join(name)).unwrap());
        let block = vec![user as u8; MIB as usize];
        // Part data, part hole.
        (0..16).for_each(|i| source.write_all_at(&block, i * MIB).unwrap());
        source.set_len(size).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            let (mut from, mut to) = (0, 0);
            while (from as u64) < size && !is_over.load(Ordering::Relaxed) {
                let left = size as usize - from as usize;
                copy_file_range(&source, Some(&mut from), &target, Some(&mut to), left).unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
            match user % 3 {
                0 => target.sync_all().unwrap(),
                1 => target.sync_data().unwrap(),
                // Not every file system supports it.
                _ => drop(fallocate(&target, FallocateFlags::FALLOC_FL_ZERO_RANGE, 0, size as i64)),
            }
            done.fetch_add(1, Ordering::Relaxed);
            target.set_len(0).unwrap();
            let _ = fallocate(&target, FallocateFlags::empty(), 0, size as i64);
            done.fetch_add(2, Ordering::Relaxed);
        }
    });
}

#[test]
fn users_who_copy_sync_and_allocate_delay_nobody_else() {
    if !can_mount() {
        return;
    }
    // In memory, so that a slow disk does not count against the server.
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return println!("SKIPPED: no /dev/shm") };
    for name in ["backing", "mnt"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    open_to_all(dir.path());
    let Some(source) = Ext4::new(dir.path(), &dir.path().join("backing"), 2048) else { return };
    open_to_all(&source.on);
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &[]);
    let (mnt, behind) = (mounted.mnt(), mounted.backing());
    let size = 128 * MIB;
    for user in 20001..=20008 {
        let dir = behind.join(user.to_string());
        fs::create_dir(&dir).unwrap();
        chown(&dir, Some(user), Some(user)).unwrap();
    }
    let idle = lookups(&mnt, Instant::now() + duration() / 2);
    let attempts = if is_strict() { 1 } else { ATTEMPTS };
    let slow: Vec<String> = (0..attempts).map_while(|_| delays(&mnt, &behind, size, &idle).err()).collect();
    drop(mounted);
    assert!(slow.len() < attempts, "{}", slow.join("\n"));
}

/// Users copy, sync and allocate; returns by how much the delay of others exceeds the limit.
fn delays(mnt: &Path, behind: &Path, size: u64, idle: &Times) -> Result<(), String> {
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (busy, native, probes) = thread::scope(|scope| {
        for user in 20001..=20008 {
            let (dir, is_over, done) = (mnt.join(user.to_string()), &is_over, &done);
            scope.spawn(move || make_work(&dir, user, size, is_over, done));
        }
        wait_until("the first copies", || done.load(Ordering::Relaxed) > 8);
        let until = Instant::now() + duration();
        let native = scope.spawn(move || lookups(behind, until));
        let probes = scope.spawn(move || probes(mnt, until));
        let busy = lookups(mnt, until);
        is_over.store(true, Ordering::Relaxed);
        (busy, native.join().unwrap(), probes.join().unwrap())
    });
    println!(
        "{} copies, syncs and allocations by 8 users; lookups of another: {busy}; idle: {idle}; natively meanwhile: {native}; \
         probes: {probes}",
        done.into_inner()
    );
    let (bar, most) = match is_strict() {
        true => (idle.percentile(99) * 20, Duration::from_millis(250)),
        // On a busy machine the numbers are different, but not a request of the server that takes this long.
        false => (Duration::from_millis(400), Duration::from_millis(1500)),
    };
    let (bar, most) = (bar.max(native.percentile(99)), most.max(native.most()));
    let is_fast =
        busy.percentile(99) <= bar && busy.most() <= most && probes.most() <= Duration::from_secs(2);
    is_fast
        .then_some(())
        .ok_or_else(|| format!("lookups: {busy}, {bar:?} and {most:?} are allowed; probes: {probes}"))
}

/// Threads that make requests and get stuck.
struct Stuck(Vec<JoinHandle<()>>);

impl Stuck {
    fn new(count: usize, work: impl Fn(usize) + Send + Sync + 'static) -> Self {
        let work = Arc::new(work);
        let spawn = |i| {
            let work = work.clone();
            thread::spawn(move || act_as(20001, 20001, &[], 0o022, || work(i)))
        };
        Self((0..count).map(spawn).collect())
    }

    fn count_left(&self) -> usize {
        self.0.iter().filter(|thread| !thread.is_finished()).count()
    }

    fn end(self) {
        self.0.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// All kinds of requests outside of the hung file system, and the duration of the longest.
fn use_mount(mnt: &Path, user: u32) -> Duration {
    let dir = mnt.join(user.to_string());
    if !dir.exists() {
        fs::create_dir(&dir).unwrap();
        chown(&dir, Some(user), Some(user)).unwrap();
    }
    let most = Mutex::new(Duration::ZERO);
    let timed = |work: &dyn Fn()| {
        let begin = Instant::now();
        work();
        let mut most = most.lock().unwrap();
        *most = most.max(begin.elapsed());
    };
    act_as(user, user, &[], 0o022, || {
        for i in 0..50 {
            let (file, other) = (dir.join(i.to_string()), dir.join(format!("{i}-other")));
            timed(&|| fs::write(&file, "content").unwrap());
            timed(&|| File::open(&file).unwrap().sync_all().unwrap());
            timed(&|| assert_eq!(fs::read_to_string(&file).unwrap(), "content"));
            timed(&|| assert_eq!(fs::copy(&file, &other).unwrap(), 7));
            timed(&|| fs::rename(&other, dir.join("renamed")).unwrap());
            timed(&|| assert!(!mnt.join(format!("absent-{user}-{i}")).exists()));
            // The hung file system is among the names.
            timed(&|| assert!(fs::read_dir(mnt).unwrap().count() > 0));
            timed(&|| assert!(statfs(mnt).unwrap().blocks() > 0));
            timed(&|| fs::remove_file(&file).unwrap());
        }
    });
    most.into_inner().unwrap()
}

/// Maximum duration of a request outside of the hung file system. A request that waits for that one waits for ever.
fn time_limit() -> Duration {
    if is_strict() { Duration::from_millis(250) } else { Duration::from_secs(15) }
}

/// A mount with a hung file system in its source, and 40 stuck requests of one user.
fn stuck_below() -> Option<(TestMount, Hung, Stuck)> {
    let mounted = TestMount::new(&[])?;
    let hung = Hung::new(mounted.backing().join("hung"));
    let below = mounted.mnt().join("hung");
    open_to_all(&mounted.backing());
    for i in 0..40 {
        assert!(fs::metadata(below.join(format!("file-{i}"))).unwrap().is_file());
    }
    hung.falls_silent();
    // The kernel does not ask for names that it has cached.
    thread::sleep(Duration::from_millis(1100));
    let stuck = Stuck::new(40, move |i| {
        let file = below.join(format!("file-{i}"));
        match i % 4 {
            0 => drop(fs::metadata(file)),
            1 => drop(fs::read(file)),
            2 => drop(fs::write(below.join(format!("new-{i}")), "")),
            _ => drop(fs::read_dir(&below)),
        }
    });
    thread::sleep(Duration::from_millis(300));
    assert_eq!(stuck.count_left(), 40);
    Some((mounted, hung, stuck))
}

#[test]
fn a_file_system_that_hangs_below_the_source_keeps_nobody_from_the_rest() {
    let Some((mounted, hung, stuck)) = stuck_below() else { return };
    let mnt = mounted.mnt();
    let end = Instant::now() + duration();
    let (mut rounds, mut most, mut natively) = (0, Duration::ZERO, Duration::ZERO);
    while Instant::now() < end || rounds == 0 {
        // Another user, the stuck one, and root.
        for user in [BYSTANDER, 20001, 0] {
            most = most.max(use_mount(&mnt, user));
            // The disk itself may take long to sync.
            natively = natively.max(use_mount(&mounted.plain(), user));
        }
        rounds += 1;
    }
    let probes = probes(&mnt, Instant::now() + Duration::from_millis(200));
    println!(
        "40 requests stuck below; {rounds} rounds of three users outside: most {most:.1?}, natively {natively:.1?}; \
         probes: {probes}"
    );
    assert_eq!(stuck.count_left(), 40);
    assert!(most <= time_limit().max(2 * natively) && probes.most() <= time_limit(), "{most:?}, {probes}");
    // When the file system is gone, all waiting requests end.
    drop(hung);
    stuck.end();
    assert!(use_mount(&mnt, 20001) <= time_limit());
}

/// During a lookup the client's kernel locks the directory of the name, so a lookup must not wait for what is mounted there.
#[test]
fn a_first_look_at_a_file_system_that_hangs_keeps_nobody_from_the_directory_above() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    open_to_all(&mounted.backing());
    let hung = Hung::new(mounted.backing().join("hung"));
    assert!(fs::metadata(mounted.backing().join("hung")).unwrap().is_dir());
    hung.falls_silent();
    let (mnt, below) = (mounted.mnt(), mounted.mnt().join("hung"));
    let stuck = Stuck::new(4, move |_| drop(fs::metadata(&below)));
    thread::sleep(Duration::from_millis(300));
    let made = thread::spawn(move || {
        let begin = Instant::now();
        fs::create_dir(mnt.join("beside")).unwrap();
        fs::rename(mnt.join("beside"), mnt.join("renamed")).unwrap();
        begin.elapsed()
    });
    let end = Instant::now() + time_limit();
    while !made.is_finished() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    let (is_made, left) = (made.is_finished(), stuck.count_left());
    // When the file system is gone, all waiting requests end.
    drop(hung);
    stuck.end();
    assert!(is_made, "a change in the directory waits for what is mounted in it");
    assert_eq!(left, 4, "the file system itself does not answer");
    println!("4 first looks stuck: a directory is made and renamed beside in {:.1?}", made.join().unwrap());
}

#[test]
fn a_server_with_stuck_requests_ends_when_it_is_told_to() {
    let Some((mut mounted, hung, stuck)) = stuck_below() else { return };
    let held = File::create(mounted.mnt().join("held")).unwrap();
    let begin = Instant::now();
    mounted.signal(Signal::SIGTERM);
    wait_until("the end of the mount", || !is_mounted(&mounted.mnt()));
    let gone = begin.elapsed();
    let (status, messages) = mounted.ended();
    println!("40 requests stuck below: unmounted after {gone:.1?}, ended after {:.1?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(45));
    assert_eq!(status.code(), Some(2), "{messages}");
    assert!(messages.contains("requests were stuck (") && messages.contains(" getattr"), "{messages}");
    // Clients of the mount do not wait for the file system that is gone.
    stuck.end();
    assert!(held.sync_all().is_err() || held.metadata().is_err());
    drop(hung);
}

/// A separate ext4 on a loop device, which can be frozen.
struct Ext4 {
    image: PathBuf,
    on: PathBuf,
    is_frozen: AtomicBool,
}

impl Ext4 {
    fn new(dir: &Path, on: &Path, mib: u64) -> Option<Self> {
        let image = dir.join("image");
        File::create(&image).unwrap().set_len(mib * MIB).unwrap();
        let run = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).output();
            output.is_ok_and(|output| output.status.success())
        };
        let (file, place) = (image.to_str().unwrap(), on.to_str().unwrap());
        if !run("mkfs.ext4", &["-q", file]) || !run("mount", &["-o", "loop", file, place]) {
            println!("SKIPPED: no ext4 on a loop device");
            return None;
        }
        Some(Self { image, on: on.into(), is_frozen: AtomicBool::new(false) })
    }

    fn freeze(&self, how: &str) {
        assert!(Command::new("fsfreeze").args([how, self.on.to_str().unwrap()]).status().unwrap().success());
        self.is_frozen.store(how == "-f", Ordering::Relaxed);
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        if self.is_frozen.load(Ordering::Relaxed) {
            self.freeze("-u");
        }
        let _ = umount2(&self.on, MntFlags::MNT_DETACH);
        let _ = fs::remove_file(&self.image);
    }
}

#[test]
fn a_source_that_accepts_no_changes_can_still_be_read() {
    if !can_mount() {
        return;
    }
    if transport() == "uring" {
        return println!("SKIPPED: over io_uring a stuck thread holds up the clients of its processor");
    }
    let dir = prepare();
    let Some(source) = Ext4::new(dir.path(), &dir.path().join("backing"), 64) else { return };
    open_to_all(&source.on);
    for i in 0..40 {
        fs::write(source.on.join(i.to_string()), "content").unwrap();
        fs::set_permissions(source.on.join(i.to_string()), fs::Permissions::from_mode(0o666)).unwrap();
        chown(source.on.join(i.to_string()), Some(20001), Some(20001)).unwrap();
    }
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &[]);
    let mnt = mounted.mnt();
    let idle = lookups(&mnt, Instant::now() + Duration::from_millis(300));
    source.freeze("-f");
    // All at once, so that no thread of the server learns of the others. No directory is changed: the kernel would keep it
    // locked.
    let changed = mnt.clone();
    let stuck = Stuck::new(40, move |i| {
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(changed.join(i.to_string()), mode).unwrap();
    });
    let until = Instant::now() + duration();
    let read = thread::scope(|scope| {
        let read = scope.spawn(|| {
            Times::measure(until, Duration::from_millis(5), |i| {
                assert!(fs::symlink_metadata(mnt.join((i % 40).to_string())).unwrap().is_file());
                assert!(fs::read_dir(&mnt).unwrap().count() >= 40);
            })
        });
        let looked_up = lookups(&mnt, until);
        let read = read.join().unwrap();
        println!(
            "40 changes stuck on a frozen file system; lookups of another: {looked_up}; idle: {idle}; listings: {read}"
        );
        read.most().max(looked_up.most())
    });
    assert_eq!(stuck.count_left(), 40);
    assert!(read <= time_limit(), "{read:?}");
    source.freeze("-u");
    stuck.end();
    drop(mounted);
}
