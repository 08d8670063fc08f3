//! The law: every answer was true not long ago, whatever changes directly in the source and through the mount.
//!
//! One thread changes entries at random, in the source or through the mount, and records what is true after each change: it looks
//! at the source itself. Others ask the mount at the same time. Entries are asked for by an open directory and one name, so that an answer
//! is about one moment. The time for it is `NAMEGATE_LAW_SECONDS`, and how long an answer may be outdated `NAMEGATE_LAW_MILLIS`.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use namegate_testkit::random::Random;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, ftruncate, linkat, unlinkat};

use super::coherent;

const NAMES: [&str; 6] = ["one", "two", "three", "caf␦E9", "five", "six"];
/// The names by which they are stored, where that differs.
const STORED: [&[u8]; 6] = [b"one", b"two", b"three", b"caf\xE9", b"five", b"six"];

/// What is told of an entry: inode number, mode, length and links. Of a directory neither length nor links.
type Facts = (u64, u32, i64, libc::nlink_t);
/// What is true of all entries: by directory and name.
type Truth = BTreeMap<(usize, usize), Facts>;

/// The directories of the tree, each with its descriptor.
struct Place {
    directories: Vec<OwnedFd>,
    is_source: bool,
}

impl Place {
    fn open(root: &std::path::Path, is_source: bool) -> Self {
        let open = |path: &str| File::open(root.join(path)).unwrap().into();
        Self { directories: ["", "x", "y"].map(open).into(), is_source }
    }

    fn name(&self, name: usize) -> OsString {
        use std::os::unix::ffi::OsStringExt;
        if self.is_source { OsString::from_vec(STORED[name].into()) } else { NAMES[name].into() }
    }

    fn facts(&self, dir: usize, name: usize) -> Option<Facts> {
        let found = fstatat(&self.directories[dir], &*self.name(name), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let is_dir = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let (len, links) = if is_dir { (0, 0) } else { (found.st_size, found.st_nlink) };
        Some((found.st_ino, found.st_mode, len, links))
    }

    fn truth(&self) -> Truth {
        let all = (0..self.directories.len()).flat_map(|dir| (0..NAMES.len()).map(move |name| (dir, name)));
        all.filter_map(|(dir, name)| Some(((dir, name), self.facts(dir, name)?))).collect()
    }

    fn listed(&self, dir: usize) -> BTreeSet<OsString> {
        let names = fs::read_dir(format!("/proc/self/fd/{}", self.directories[dir].as_raw_fd())).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name());
        names.filter(|name| NAMES.iter().any(|it| name == it)).collect()
    }

    /// A random change; it may fail.
    fn change(&self, random: &mut Random) {
        let dir = |random: &mut Random| &self.directories[random.below(3)];
        let (one, other) = (dir(random), dir(random));
        let (name, new) = (self.name(random.below(NAMES.len())), self.name(random.below(NAMES.len())));
        let mode = Mode::from_bits_truncate(0o600 | random.below(64) as u32);
        let _ = match random.below(8) {
            0 => openat(one, &*name, OFlag::O_CREAT | OFlag::O_WRONLY, mode).map(drop),
            1 => openat(one, &*name, OFlag::O_WRONLY, mode)
                .and_then(|file| ftruncate(&file, random.below(1000) as i64)),
            2 => renameat(one, &*name, other, &*new),
            3 => unlinkat(one, &*name, UnlinkatFlags::NoRemoveDir),
            4 => fchmodat(one, &*name, mode, FchmodatFlags::FollowSymlink),
            5 => linkat(one, &*name, other, &*new, AtFlags::empty()),
            6 => mkdirat(one, &*name, Mode::from_bits_truncate(0o755)),
            _ => unlinkat(one, &*name, UnlinkatFlags::RemoveDir),
        };
    }
}

/// What was true from the first time, when the change to it began, until the second one of the next.
struct Moment {
    begun: Instant,
    done: Instant,
    truth: Truth,
}

enum Answer {
    /// Which inode the name led to.
    Entry(usize, usize, Option<u64>),
    /// Attributes of an inode, which stat(2) reads after it has found the name, also in a plain directory.
    Attributes(Facts),
    Listing(usize, BTreeSet<OsString>),
}

impl Answer {
    fn is_true(&self, truth: &Truth) -> bool {
        match self {
            Self::Entry(dir, name, ino) => truth.get(&(*dir, *name)).map(|it| it.0) == *ino,
            // No name tells what it was when it had none any more.
            Self::Attributes((.., links)) if *links == 0 => true,
            Self::Attributes(facts) => truth.values().any(|it| it == facts),
            Self::Listing(dir, names) => {
                let expected =
                    truth.keys().filter(|(it, _)| it == dir).map(|(_, name)| OsString::from(NAMES[*name]));
                expected.collect::<BTreeSet<_>>() == *names
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Entry(dir, name, ino) => format!("{dir}/{}: {ino:?}", NAMES[*name]),
            Self::Attributes(facts) => format!("{facts:?}"),
            Self::Listing(dir, names) => format!("{dir}: {names:?}"),
        }
    }
}

/// How long the answer was outdated when it came; `None` if it was never true.
fn staleness(history: &[Moment], asked: Instant, answered: Instant, answer: &Answer) -> Option<Duration> {
    let first = history.partition_point(|moment| moment.begun <= answered);
    let ends = history.iter().skip(1).map(|moment| Some(moment.done)).chain([None]);
    let all: Vec<_> = history.iter().zip(ends).take(first).collect();
    let (_, end) = all.iter().rev().find(|(moment, _)| answer.is_true(&moment.truth))?;
    Some(end.map_or(Duration::ZERO, |end| asked.saturating_duration_since(end)))
}

fn from_environment(name: &str, otherwise: u64) -> Duration {
    Duration::from_millis(env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise))
}

#[test]
fn every_answer_was_true_not_long_ago() {
    every_answer_holds(&[]);
}

#[test]
fn every_answer_of_a_normalizing_mount_was_true_not_long_ago() {
    every_answer_holds(&["--normalize", "nfc", "--on-mismatch", "match"]);
}

fn every_answer_holds(args: &[&str]) {
    let Some((mounted, _)) = coherent(args) else { return };
    let most = from_environment("NAMEGATE_LAW_MILLIS", 900);
    let until = Instant::now() + from_environment("NAMEGATE_LAW_SECONDS", 4) * 1000;
    for dir in ["x", "y"] {
        fs::create_dir(mounted.backing().join(dir)).unwrap();
    }
    let (source, mount) = (Place::open(&mounted.backing(), true), Place::open(&mounted.mnt(), false));
    let (mut all, mut round) = (Vec::new(), 0);
    while Instant::now() < until {
        all.extend(one_round(&source, &mount, round, most));
        round += 1;
        assert_eq!(mount.truth(), source.truth(), "after a rest everything is true");
        (0..3).for_each(|dir| assert!(Answer::Listing(dir, mount.listed(dir)).is_true(&source.truth())));
    }
    all.sort();
    let (count, p99) = (all.len(), all[all.len() * 99 / 100]);
    println!("{count} answers, outdated p99 {p99:?}, worst {:?}", all[count - 1]);
}

/// Changes and asks for some seconds; returns how long the answers were outdated, after a rest.
fn one_round(source: &Place, mount: &Place, round: u64, most: Duration) -> Vec<Duration> {
    const ROUND: Duration = Duration::from_secs(2);
    let is_over = AtomicBool::new(false);
    let ask = &|seed| {
        let (mut random, mut answers) = (Random(seed), Vec::new());
        while !is_over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let (dir, name) = (random.below(3), random.below(NAMES.len()));
            if random.chance(6) {
                let listing = Answer::Listing(dir, mount.listed(dir));
                answers.push((asked, Instant::now(), listing));
            } else {
                let facts = mount.facts(dir, name);
                let (answered, is_dir) =
                    (Instant::now(), |facts: &Facts| facts.1 & libc::S_IFMT == libc::S_IFDIR);
                answers.push((asked, answered, Answer::Entry(dir, name, facts.map(|facts| facts.0))));
                let attributes = facts.filter(|facts| !is_dir(facts)).map(Answer::Attributes);
                answers.extend(attributes.map(|attributes| (asked, answered, attributes)));
            }
            // The server runs on the same processors.
            if random.chance(8) {
                sleep(Duration::from_micros(random.below(2000) as u64));
            }
        }
        answers
    };
    let (mut random, now) = (Random(1000 + round), Instant::now());
    let mut history = vec![Moment { begun: now, done: now, truth: source.truth() }];
    let answers = thread::scope(|scope| {
        let askers = [1, 2].map(|asker| scope.spawn(move || ask(10 * round + asker)));
        while now.elapsed() < ROUND {
            let begun = Instant::now();
            let place = if random.chance(3) { mount } else { source };
            place.change(&mut random);
            history.push(Moment { begun, done: Instant::now(), truth: source.truth() });
            if random.chance(3) {
                sleep(Duration::from_micros(random.below(20_000) as u64));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        askers.map(|asker| asker.join().unwrap())
    });
    sleep(most);
    let judge = |(asked, answered, answer): &(Instant, Instant, Answer)| {
        let stale = staleness(&history, *asked, *answered, answer);
        let stale = stale.unwrap_or_else(|| panic!("never true: {}", answer.describe()));
        assert!(stale < most, "outdated for {stale:?}: {}", answer.describe());
        stale
    };
    answers.iter().flatten().map(judge).collect()
}
