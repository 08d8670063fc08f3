//! Measures a mount: the same work in several places, in turns, and the time of each place as a multiple of the first one's.
//!
//! `scripts/bench-mount` creates the places and runs this; by hand:
//! `bench_mount SCRATCH ROUNDS ROW,... USER NAME=SEEN=BEHIND=PID ...`, where USER is the user id that does the work, SEEN is the
//! directory for the work, BEHIND its backing directory, and PID the process that serves it, or 0. The places belong to root and
//! are writable for all: another user is not their owner. Every number is a median over the rounds; a multiple is the median of
//! the multiples of each round, so a disturbance of a whole round does not affect the ratio. After the time comes the processor
//! time of the client and the server. With a path of the program in `NAMEGATE_BENCH_PROGRAM`, the requests of the last round follow.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use namegate_core::gate::{Gate, Intent, Mode};
use namegate_core::policy::{Policy, profile};
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::stat::{Mode as Permissions, fstatat, lstat};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::{Gid, Pid, Uid, UnlinkatFlags, close, setfsgid, setfsuid, unlinkat};
use parking_lot::Mutex;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Number of files in one directory, for operations on single files.
const FILES: usize = 2000;
/// Number of directories of the tree that is listed, and of files in each.
const TREE: (usize, usize) = (40, 100);
/// Number of files of the archive and of the repository, in directories of 50.
const ARCHIVE: usize = 2500;
const MIB: usize = 1 << 20;
/// Size of the file that is read and written.
const LARGE: usize = 64 * MIB;
const RANDOM_WRITES: usize = 2000;

/// The user who does the work.
static USER: AtomicU32 = AtomicU32::new(0);

/// The process that serves the current place, or 0.
static SERVER: AtomicI32 = AtomicI32::new(0);

/// Its mount, if requests are counted.
static COUNTED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Requests by their kind.
type Requests = BTreeMap<String, u64>;

struct Place {
    name: String,
    seen: PathBuf,
    behind: PathBuf,
    server: i32,
}

/// One kind of work: its name in the table and on the command line, the goal, and the function that does it once.
struct Row {
    key: &'static str,
    title: &'static str,
    unit: Unit,
    goal: Option<f64>,
    once: fn(&Place, &Path) -> Outcome<Cost>,
}

#[derive(Clone, Copy)]
enum Unit {
    Micro,
    Milli,
}

/// The time of a number of operations, and the processor time of client and server.
struct Cost {
    took: Duration,
    processor: Duration,
    operations: usize,
    requests: Requests,
}

const ROWS: &[Row] = &[
    Row { key: "create", title: "create", unit: Unit::Micro, goal: Some(7.0), once: create },
    Row { key: "stat-cold", title: "stat, cold dentry", unit: Unit::Micro, goal: Some(4.5), once: stat_cold },
    Row { key: "stat-warm", title: "stat, warm", unit: Unit::Micro, goal: Some(1.2), once: stat_warm },
    Row { key: "open", title: "open + close", unit: Unit::Micro, goal: Some(7.0), once: open_close },
    Row {
        key: "readdir-cold",
        title: "readdir, cold, an entry",
        unit: Unit::Micro,
        goal: None,
        once: list_cold,
    },
    Row {
        key: "readdir-large",
        title: "readdir, cold, one large directory",
        unit: Unit::Micro,
        goal: None,
        once: list_large,
    },
    Row {
        key: "readdir-warm",
        title: "readdir, warm, an entry",
        unit: Unit::Micro,
        goal: Some(0.7),
        once: list_warm,
    },
    Row {
        key: "readdir-stat",
        title: "readdir + stat, cold, an entry",
        unit: Unit::Micro,
        goal: Some(2.2),
        once: list_stat,
    },
    Row {
        key: "readdir-statx",
        title: "readdir + stat with the birth time, cold, an entry",
        unit: Unit::Micro,
        goal: None,
        once: list_statx,
    },
    Row { key: "absent", title: "lookup of an absent name", unit: Unit::Micro, goal: None, once: absent },
    Row { key: "readlink", title: "readlink, warm", unit: Unit::Micro, goal: None, once: read_link },
    Row {
        key: "create-shared",
        title: "create in a directory of another user",
        unit: Unit::Micro,
        goal: None,
        once: create_shared,
    },
    Row { key: "rename", title: "rename", unit: Unit::Micro, goal: Some(3.5), once: rename },
    Row { key: "unlink", title: "unlink", unit: Unit::Micro, goal: Some(3.5), once: unlink },
    Row {
        key: "write",
        title: "sequential write, 64 × 1 MiB",
        unit: Unit::Milli,
        goal: Some(1.1),
        once: write,
    },
    Row {
        key: "read", title: "sequential read, 64 × 1 MiB", unit: Unit::Milli, goal: Some(1.1), once: read
    },
    Row {
        key: "read-again",
        title: "sequential read of what was read before, 64 × 1 MiB",
        unit: Unit::Milli,
        goal: Some(1.1),
        once: read_again,
    },
    Row {
        key: "random-read",
        title: "random read of what was read before, 4 KiB",
        unit: Unit::Micro,
        goal: Some(1.1),
        once: random_read,
    },
    Row {
        key: "mmap-again",
        title: "mmap read of what was read before, 64 MiB",
        unit: Unit::Milli,
        goal: Some(1.1),
        once: mmap_again,
    },
    Row {
        key: "random",
        title: "random write, 4 KiB",
        unit: Unit::Micro,
        goal: Some(1.1),
        once: random_write,
    },
    Row { key: "mmap", title: "mmap read, 64 MiB", unit: Unit::Milli, goal: Some(1.1), once: mmap },
    Row { key: "tar", title: "tar x, 2500 files", unit: Unit::Milli, goal: Some(5.0), once: tar },
    Row { key: "cp", title: "cp -r", unit: Unit::Milli, goal: None, once: copy },
    Row { key: "rm", title: "rm -rf", unit: Unit::Milli, goal: Some(3.5), once: remove },
    Row { key: "checkout", title: "git checkout", unit: Unit::Milli, goal: Some(2.6), once: checkout },
    Row { key: "find", title: "find, names alone, cold", unit: Unit::Milli, goal: None, once: find },
    Row { key: "ls", title: "ls -lR, cold", unit: Unit::Milli, goal: None, once: ls },
];

fn main() -> Outcome<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [scratch, rounds, rows, user, places @ ..] = args.as_slice() else {
        return Err("bench_mount SCRATCH ROUNDS ROW,...|all USER NAME=SEEN=BEHIND=PID...".into());
    };
    let (scratch, rounds) = (Path::new(scratch), rounds.parse::<usize>()?.max(1));
    let places: Vec<Place> = places
        .iter()
        .map(|place| match place.split('=').collect::<Vec<_>>()[..] {
            [name, seen, behind, server] => Ok(Place {
                name: name.into(),
                seen: seen.into(),
                behind: behind.into(),
                server: server.parse().map_err(|error| format!("{place}: {error}"))?,
            }),
            _ => Err(format!("not NAME=SEEN=BEHIND=PID: {place}")),
        })
        .collect::<Result<_, _>>()?;
    prepare(scratch, &places)?;
    USER.store(user.parse()?, Ordering::Relaxed);
    nix::sys::stat::umask(Permissions::from_bits_truncate(0o022));

    let heads: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
    println!("| work | {} | goal |", heads.join(" | "));
    println!("|{}", "---|".repeat(heads.len() + 2));
    let chosen = |key: &str| rows == "all" || rows.split(',').any(|row| row == key);
    let program = env::var_os("NAMEGATE_BENCH_PROGRAM");
    let mut counted = Vec::new();
    for row in ROWS.iter().filter(|row| chosen(row.key)) {
        let mut times = vec![Vec::new(); places.len()];
        for round in 0..=rounds {
            for (place, times) in places.iter().zip(&mut times) {
                SERVER.store(place.server, Ordering::Relaxed);
                *COUNTED.lock() = (program.is_some() && place.server != 0).then(|| place.seen.clone());
                let done = as_user(USER.load(Ordering::Relaxed), || (row.once)(place, scratch));
                let Cost { took, processor, operations, requests } =
                    done.map_err(|error| format!("{}: {error}", row.key))?;
                // The first round starts with the state that the previous row left.
                if round > 0 {
                    times.push([took, processor].map(|time| time.as_secs_f64() / operations as f64));
                }
                if round == rounds && !requests.is_empty() {
                    let all: Vec<String> =
                        requests.iter().map(|(op, count)| format!("{op} {count}")).collect();
                    counted.push(format!("| {} | {} | {} |", row.title, place.name, all.join(", ")));
                }
            }
        }
        println!("{}", line(row, &times));
    }
    if program.is_some() {
        println!("\n| work | place | requests |\n|---|---|---|\n{}", counted.join("\n"));
    }
    if chosen("gate") {
        gate();
    }
    Ok(())
}

/// Runs `work` with the file access rights of this user.
fn as_user<T>(user: u32, work: impl FnOnce() -> T) -> T {
    let become_user = |uid, gid| {
        // First the group: only root may change it.
        let gid = setfsgid(gid);
        (setfsuid(uid), gid)
    };
    let (uid, gid) = match user {
        0 => (setfsuid(Uid::from_raw(0)), setfsgid(Gid::from_raw(0))),
        user => become_user(Uid::from_raw(user), Gid::from_raw(user)),
    };
    let done = work();
    setfsuid(Uid::from_raw(0));
    setfsgid(gid);
    setfsuid(uid);
    done
}

fn line(row: &Row, times: &[Vec<[f64; 2]>]) -> String {
    let (factor, unit) = match row.unit {
        Unit::Micro => (1e6, "µs"),
        Unit::Milli => (1e3, "ms"),
    };
    let mut line = format!("| {} ", row.title);
    for (i, own) in times.iter().enumerate() {
        let [shown, processor] = [0, 1].map(|which| median(own.iter().map(|times| times[which])) * factor);
        let ratio = median(own.iter().zip(&times[0]).map(|(own, native)| own[0] / native[0]));
        line += &match i {
            0 => format!("| {shown:.2} {unit}; {processor:.2} "),
            _ => format!("| {shown:.2} ({ratio:.2}); {processor:.2} "),
        };
    }
    line + &row.goal.map_or("| |".into(), |goal| format!("| {goal} |"))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// The gate's part of a creation.
fn gate() {
    let gate = Gate::new(Arc::new(Policy::from_profiles(&[&profile::UTF8])), Mode::Enforcing);
    let names: Vec<String> =
        (0..FILES).map(name).chain((0..FILES).map(|i| format!("отчёт-{i}-été.txt"))).collect();
    let times: Vec<f64> = (0..101)
        .map(|_| {
            let begin = Instant::now();
            for name in &names {
                black_box(gate.admit(Intent::Create, OsStr::new(black_box(name))).is_ok());
            }
            begin.elapsed().as_secs_f64() * 1e9 / names.len() as f64
        })
        .collect();
    println!(
        "\ngate.admit, profile utf8, half of the names ASCII: {:.0} ns a name",
        median(times.into_iter())
    );
}

// The data.

fn name(i: usize) -> String {
    format!("a file of some name {i:05}.txt")
}

fn prepare(scratch: &Path, places: &[Place]) -> Outcome<()> {
    let source = scratch.join("archive");
    if source.exists() {
        // For the other user, in the same run.
        return places.iter().try_for_each(|place| match fs::remove_dir_all(place.behind.join("fresh")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        });
    }
    for i in 0..ARCHIVE {
        let dir = source.join(format!("directory {:02}", i / 50));
        fs::create_dir_all(&dir)?;
        // Sizes from 0 to 16 KiB, as in source code.
        fs::write(dir.join(name(i)), vec![b'x'; i * 7919 % 16384])?;
    }
    run(Command::new("tar").arg("-cf").arg(scratch.join("archive.tar")).arg("-C").arg(&source).arg("."))?;
    fs::write(scratch.join("gitconfig"), "[safe]\n\tdirectory = *\n")?;
    let git = |args: &[&str]| run(Command::new("git").arg("-C").arg(&source).args(args));
    git(&["init", "-q"])?;
    git(&["add", "."])?;
    git(&["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-qm", "all"])?;

    for place in places {
        let files = place.behind.join("files");
        fs::create_dir(&files)?;
        for i in 0..FILES {
            fs::write(files.join(name(i)), "")?;
        }
        for dir in 0..TREE.0 {
            let dir = place.behind.join(format!("tree/{dir:02}"));
            fs::create_dir_all(&dir)?;
            for i in 0..TREE.1 {
                fs::write(dir.join(name(i)), "")?;
            }
        }
        for name in ["large", "old"] {
            fs::write(place.behind.join(name), vec![b'x'; LARGE])?;
        }
        fs::set_permissions(place.behind.join("large"), fs::Permissions::from_mode(0o666))?;
        fs::set_permissions(&place.behind, fs::Permissions::from_mode(0o777))?;
    }
    // Old enough that no rule about recently changed directories applies.
    sleep(Duration::from_secs(3));
    Ok(())
}

fn run(command: &mut Command) -> Outcome<()> {
    let user = USER.load(Ordering::Relaxed);
    if user != 0 {
        command.uid(user).gid(user);
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// Drops all cached dentries and inodes of the machine, for all places, but no cached pages: directories and inodes
/// are read again from the buffer cache.
fn cool(place: &Place) -> Outcome<()> {
    // Dirty ones are not dropped.
    nix::unistd::syncfs(directory(&place.behind)?)?;
    as_user(0, || fs::write("/proc/sys/vm/drop_caches", "2"))?;
    // The kernel sends FORGET to the servers asynchronously.
    sleep(Duration::from_millis(100));
    Ok(())
}

fn timed(operations: usize, mut work: impl FnMut() -> Outcome<()>) -> Outcome<Cost> {
    let counted = requests()?;
    let (begin, before) = (Instant::now(), processor_time()?);
    work()?;
    let (took, processor) = (begin.elapsed(), processor_time()?.saturating_sub(before));
    let mut requests = requests()?;
    requests.iter_mut().for_each(|(op, count)| *count -= counted.get(op).unwrap_or(&0));
    requests.retain(|_, count| *count > 0);
    Ok(Cost { took, processor, operations, requests })
}

/// The requests so far that a client waited for, where they are counted.
fn requests() -> Outcome<Requests> {
    let mut requests = Requests::new();
    let (Some(mount), Some(program)) = (COUNTED.lock().clone(), env::var_os("NAMEGATE_BENCH_PROGRAM")) else {
        return Ok(requests);
    };
    let output = as_user(0, || Command::new(program).arg("metrics").arg(mount).output())?;
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some(labels) = line.strip_prefix("namegate_fuse_requests_total{") else { continue };
        let op = labels.split("op=\"").nth(1).and_then(|rest| rest.split('"').next()).ok_or("no op")?;
        let count: f64 = labels.rsplit(' ').next().unwrap_or_default().parse()?;
        if !["release", "releasedir", "forget", "batch_forget"].contains(&op) {
            *requests.entry(op.to_owned()).or_default() += count as u64;
        }
    }
    Ok(requests)
}

/// The processor time so far of this process, its children that have ended, and the server.
fn processor_time() -> Outcome<Duration> {
    let children = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let children = [children.user_time(), children.system_time()]
        .map(|time| Duration::new(time.tv_sec() as u64, 1000 * time.tv_usec() as u32));
    let own = Duration::from(ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?);
    Ok(children.iter().sum::<Duration>() + own + server_time()?)
}

fn server_time() -> Outcome<Duration> {
    Ok(match SERVER.load(Ordering::Relaxed) {
        0 => Duration::ZERO,
        pid => clock_getcpuclockid(Pid::from_raw(pid))?.now()?.into(),
    })
}

fn directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path)
}

// The work.

/// A directory with files that the work may use up.
fn fresh(place: &Path, filled: bool) -> Outcome<File> {
    let dir = place.join("fresh");
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir(&dir)?,
    }
    let dir = directory(&dir)?;
    if filled {
        make_files(&dir)?;
    }
    Ok(dir)
}

fn make_files(dir: &File) -> Outcome<()> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    for i in 0..FILES {
        close(openat(dir, name(i).as_str(), flags, Permissions::from_bits_truncate(0o644))?)?;
    }
    Ok(())
}

fn create(place: &Place, _: &Path) -> Outcome<Cost> {
    let dir = fresh(&place.seen, false)?;
    timed(FILES, || make_files(&dir))
}

fn stat_all(dir: &File) -> Outcome<()> {
    for i in 0..FILES {
        fstatat(dir, name(i).as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn stat_cold(place: &Place, _: &Path) -> Outcome<Cost> {
    cool(place)?;
    let dir = directory(&place.seen.join("files"))?;
    timed(FILES, || stat_all(&dir))
}

fn stat_warm(place: &Place, _: &Path) -> Outcome<Cost> {
    let dir = directory(&place.seen.join("files"))?;
    stat_all(&dir)?;
    timed(5 * FILES, || (0..5).try_for_each(|_| stat_all(&dir)))
}

fn open_close(place: &Place, _: &Path) -> Outcome<Cost> {
    let dir = directory(&place.seen.join("files"))?;
    stat_all(&dir)?;
    timed(FILES, || {
        for i in 0..FILES {
            close(openat(&dir, name(i).as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Permissions::empty())?)?;
        }
        Ok(())
    })
}

fn list(path: &Path, look: fn(&DirEntry) -> Outcome<()>) -> Outcome<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), look)?;
        } else {
            look(&entry)?;
        }
    }
    Ok(())
}

fn no_look(_: &DirEntry) -> Outcome<()> {
    Ok(())
}

fn list_cold(place: &Place, _: &Path) -> Outcome<Cost> {
    cool(place)?;
    timed(TREE.0 * TREE.1, || list(&place.seen.join("tree"), no_look))
}

fn list_large(place: &Place, _: &Path) -> Outcome<Cost> {
    cool(place)?;
    timed(FILES, || list(&place.seen.join("files"), no_look))
}

fn list_warm(place: &Place, _: &Path) -> Outcome<Cost> {
    list(&place.seen.join("tree"), no_look)?;
    timed(TREE.0 * TREE.1, || list(&place.seen.join("tree"), no_look))
}

fn list_stat(place: &Place, _: &Path) -> Outcome<Cost> {
    cool(place)?;
    let look = |entry: &DirEntry| Ok(lstat(&entry.path()).map(drop)?);
    timed(TREE.0 * TREE.1, || list(&place.seen.join("tree"), look))
}

/// The standard library of Rust asks for the birth time, by statx(2).
fn list_statx(place: &Place, _: &Path) -> Outcome<Cost> {
    cool(place)?;
    timed(TREE.0 * TREE.1, || list(&place.seen.join("tree"), |entry| Ok(entry.metadata().map(drop)?)))
}

fn absent(place: &Place, _: &Path) -> Outcome<Cost> {
    cool(place)?;
    let dir = directory(&place.seen.join("files"))?;
    timed(FILES, || {
        for i in 0..FILES {
            let found = fstatat(&dir, format!("none {i}").as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
            assert_eq!(found.map(drop), Err(nix::errno::Errno::ENOENT));
        }
        Ok(())
    })
}

fn read_link(place: &Place, _: &Path) -> Outcome<Cost> {
    let link = place.seen.join("fresh/link");
    fresh(&place.seen, false)?;
    std::os::unix::fs::symlink("a target of some length", &link)?;
    timed(FILES, || {
        for _ in 0..FILES {
            black_box(fs::read_link(&link)?);
        }
        Ok(())
    })
}

/// In a directory that the caller does not own, as in a directory of a group.
fn create_shared(place: &Place, _: &Path) -> Outcome<Cost> {
    fresh(&place.seen, false)?;
    let shared = place.behind.join("fresh/shared");
    as_user(0, || {
        fs::create_dir(&shared)?;
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777))
    })?;
    let dir = directory(&place.seen.join("fresh/shared"))?;
    timed(FILES, || make_files(&dir))
}

fn rename(place: &Place, _: &Path) -> Outcome<Cost> {
    let dir = fresh(&place.seen, true)?;
    timed(FILES, || {
        for i in 0..FILES {
            renameat(&dir, name(i).as_str(), &dir, format!("renamed {i}").as_str())?;
        }
        Ok(())
    })
}

fn unlink(place: &Place, _: &Path) -> Outcome<Cost> {
    let dir = fresh(&place.seen, true)?;
    timed(FILES, || {
        for i in 0..FILES {
            unlinkat(&dir, name(i).as_str(), UnlinkatFlags::NoRemoveDir)?;
        }
        Ok(())
    })
}

fn write(place: &Place, _: &Path) -> Outcome<Cost> {
    let dir = fresh(&place.seen, false)?;
    let block = vec![b'x'; MIB];
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let file = File::from(openat(&dir, "written", flags, Permissions::from_bits_truncate(0o644))?);
    timed(1, || {
        (0..LARGE / MIB).try_for_each(|i| file.write_all_at(&block, (i * MIB) as u64))?;
        Ok(())
    })
}

fn read_all(path: &Path) -> Outcome<()> {
    let file = File::open(path)?;
    let mut block = vec![0; MIB];
    (0..LARGE / MIB).try_for_each(|i| file.read_exact_at(&mut block, (i * MIB) as u64))?;
    Ok(())
}

fn read(place: &Place, _: &Path) -> Outcome<Cost> {
    timed(1, || read_all(&place.seen.join("large")))
}

/// A file that has not changed for so long that its content may be kept when it is opened again, and was read before.
fn old(place: &Place) -> Outcome<PathBuf> {
    const OLD: Duration = Duration::from_secs(50);
    let path = place.seen.join("old");
    sleep(OLD.saturating_sub(fs::metadata(&path)?.modified()?.elapsed().unwrap_or_default()));
    read_all(&path)?;
    Ok(path)
}

fn read_again(place: &Place, _: &Path) -> Outcome<Cost> {
    let path = old(place)?;
    timed(1, || read_all(&path))
}

fn random_read(place: &Place, _: &Path) -> Outcome<Cost> {
    let path = old(place)?;
    let mut block = [0; 4096];
    timed(RANDOM_WRITES, || {
        let file = File::open(&path)?;
        for i in 0..RANDOM_WRITES {
            let at = i * 7919 % (LARGE / block.len()) * block.len();
            file.read_exact_at(&mut block, at as u64)?;
        }
        Ok(())
    })
}

fn mmap_again(place: &Place, _: &Path) -> Outcome<Cost> {
    map(&old(place)?)
}

fn random_write(place: &Place, _: &Path) -> Outcome<Cost> {
    let file = OpenOptions::new().write(true).open(place.seen.join("large"))?;
    let block = [b'y'; 4096];
    timed(RANDOM_WRITES, || {
        for i in 0..RANDOM_WRITES {
            // The same blocks in the same order everywhere: multiples of an odd number, modulo a power of two.
            let at = i * 7919 % (LARGE / block.len());
            file.write_all_at(&block, (at * block.len()) as u64)?;
        }
        Ok(())
    })
}

fn mmap(place: &Place, _: &Path) -> Outcome<Cost> {
    map(&place.seen.join("large"))
}

/// In Python: safe Rust cannot map memory, and one call of the C part touches all pages.
fn map(path: &Path) -> Outcome<Cost> {
    const SCRIPT: &str = "import mmap, sys, time
file = open(sys.argv[1], 'rb')
begin, used = time.perf_counter_ns(), time.process_time_ns()
mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
assert len(mapped[::4096]) > 0
print(time.perf_counter_ns() - begin, time.process_time_ns() - used)";
    let before = server_time()?;
    let output = Command::new("python3").args(["-c", SCRIPT]).arg(path).output()?;
    let printed = String::from_utf8(output.stdout)?;
    let (took, used) = printed.trim().split_once(' ').ok_or("python3 has failed")?;
    let [took, used] = [took.parse()?, used.parse()?].map(Duration::from_nanos);
    let processor = used + server_time()?.saturating_sub(before);
    Ok(Cost { took, processor, operations: 1, requests: Requests::new() })
}

fn extract(place: &Place, scratch: &Path) -> Outcome<()> {
    fresh(&place.seen, false)?;
    run(Command::new("tar")
        .arg("-xf")
        .arg(scratch.join("archive.tar"))
        .arg("-C")
        .arg(place.seen.join("fresh")))
}

fn tar(place: &Place, scratch: &Path) -> Outcome<Cost> {
    fresh(&place.seen, false)?;
    let mut command = Command::new("tar");
    command.arg("-xf").arg(scratch.join("archive.tar")).arg("-C").arg(place.seen.join("fresh"));
    timed(1, || run(&mut command))
}

fn copy(place: &Place, scratch: &Path) -> Outcome<Cost> {
    extract(place, scratch)?;
    let fresh = place.seen.join("fresh");
    fs::create_dir(fresh.join("copy"))?;
    let mut command = Command::new("cp");
    command.arg("-r");
    command.args((0..ARCHIVE / 50).map(|i| fresh.join(format!("directory {i:02}")))).arg(fresh.join("copy"));
    timed(1, || run(&mut command))
}

fn remove(place: &Place, scratch: &Path) -> Outcome<Cost> {
    extract(place, scratch)?;
    timed(1, || run(Command::new("rm").arg("-rf").arg(place.seen.join("fresh"))))
}

fn checkout(place: &Place, scratch: &Path) -> Outcome<Cost> {
    fresh(&place.seen, false)?;
    let repository = place.seen.join("fresh/repository");
    let mut clone = Command::new("git");
    // The repository belongs to root. git does not pass settings of GIT_CONFIG_COUNT on to the process that reads it.
    clone.env("GIT_CONFIG_GLOBAL", scratch.join("gitconfig"));
    run(clone.args(["clone", "-qn"]).arg(scratch.join("archive")).arg(&repository))?;
    timed(1, || run(Command::new("git").arg("-C").arg(&repository).args(["checkout", "-q", "HEAD"])))
}

fn find(place: &Place, _: &Path) -> Outcome<Cost> {
    cool(place)?;
    timed(1, || run(Command::new("find").arg(place.seen.join("tree"))))
}

fn ls(place: &Place, _: &Path) -> Outcome<Cost> {
    cool(place)?;
    timed(1, || run(Command::new("ls").arg("-lR").arg(place.seen.join("tree"))))
}
