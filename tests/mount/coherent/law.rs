//! The law: every answer was true not long ago, whatever changes directly in the source and through the mount.
//!
//! One thread changes entries at random, in the source or through the mount, and records what is true after each change: it looks
//! at the source itself. Others ask the mount at the same time. Entries are asked for by an open directory and one name, so that an answer
//! is about one moment. The time for it is `NAMEGATE_LAW_SECONDS`. An answer may be outdated for [`MOST_LATE`], not counting how long
//! threads waited for a processor meanwhile ([`super::delays`]), and for [`MOST_STALE`] in any case; with `NAMEGATE_LAW_MILLIS`, for an idle
//! machine, for so long in any case.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use namegate_testkit::random::Random;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, ftruncate, linkat, unlinkat};

use super::delays::Delays;
use super::{MOST_STALE, coherent, requests};

const MOST_LATE: Duration = Duration::from_millis(50);

/// What a mount is like, and how its entries are changed.
#[derive(Clone, Copy)]
struct View {
    args: &'static [&'static str],
    /// The names that the mount shows, and by which it stores them.
    names: [(&'static str, &'static [u8]); 6],
    /// The same by other spellings, which clients use too.
    spellings: [&'static str; 6],
    directories: usize,
    /// The longest pause after a change, in microseconds, and how many changes have one pause among them.
    pause: (usize, usize),
    seconds: u64,
}

const PLAIN: View = View {
    args: &[],
    names: [
        ("one", b"one"),
        ("two", b"two"),
        ("three", b"three"),
        ("caf␦E9", b"caf\xE9"),
        ("\u{E9}t\u{E9}", "\u{E9}t\u{E9}".as_bytes()),
        ("six", b"six"),
    ],
    spellings: ["one", "two", "three", "caf␦E9", "\u{E9}t\u{E9}", "six"],
    directories: 3,
    pause: (20_000, 3),
    seconds: 4,
};

/// One name is stored in the other form.
const NORMALIZING: View = View {
    args: &["--normalize", "nfc", "--on-mismatch", "match"],
    names: [
        PLAIN.names[0],
        PLAIN.names[1],
        PLAIN.names[2],
        PLAIN.names[3],
        (NFD, NFD.as_bytes()),
        PLAIN.names[5],
    ],
    ..PLAIN
};

const NFD: &str = "e\u{301}te\u{301}";

/// What is told of an entry: inode number, mode, length and links. Of a directory neither length nor links.
type Facts = (u64, u32, i64, libc::nlink_t);
/// What is true of all entries: by directory and name.
type Truth = BTreeMap<(usize, usize), Facts>;

/// The directories of the tree, each with its descriptor.
struct Place {
    view: View,
    directories: Vec<OwnedFd>,
    is_source: bool,
}

impl Place {
    fn open(view: View, root: &std::path::Path, is_source: bool) -> Self {
        let open = |number: usize| File::open(root.join(directory(number))).unwrap().into();
        Self { view, directories: (0..view.directories).map(open).collect(), is_source }
    }

    fn name(&self, name: usize) -> OsString {
        let (shown, stored) = self.view.names[name];
        if self.is_source { OsString::from_vec(stored.into()) } else { shown.into() }
    }

    fn facts(&self, dir: usize, name: usize) -> Option<Facts> {
        self.facts_of(dir, &self.name(name))
    }

    fn facts_of(&self, dir: usize, name: &OsStr) -> Option<Facts> {
        let ask = || fstatat(&self.directories[dir], name, AtFlags::AT_SYMLINK_NOFOLLOW);
        // stat(2) finds the file, and then asks for its attributes. If it is removed in the source in between, the kernel tries once more. And
        // while a client works where a directory was before it was moved in the source, the kernel cannot move it (d_splice_alias, fs/dcache.c).
        let answer = (0..100).find_map(|_| match ask() {
            Err(Errno::ESTALE) => {
                sleep(Duration::from_micros(100));
                None
            }
            answer => Some(answer),
        });
        let found = match answer.expect("no answer but ESTALE") {
            Err(Errno::ENOENT) => return None,
            found => found.unwrap(),
        };
        let is_dir = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let (len, links) = if is_dir { (0, 0) } else { (found.st_size, found.st_nlink) };
        Some((found.st_ino, found.st_mode, len, links))
    }

    fn truth(&self) -> Truth {
        let all = (0..self.directories.len()).flat_map(|dir| (0..6).map(move |name| (dir, name)));
        all.filter_map(|(dir, name)| Some(((dir, name), self.facts(dir, name)?))).collect()
    }

    /// Asks for the names in a directory.
    fn list(&self, dir: usize) -> impl Iterator<Item = Given> {
        let asked = Instant::now();
        let path = format!("/proc/self/fd/{}", self.directories[dir].as_raw_fd());
        let names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let answered = Instant::now();
        let is_there = move |name: usize| names.contains(&self.name(name));
        (0..6).map(move |name| (asked, answered, Answer::Listed(dir, name, is_there(name))))
    }

    /// Asks for an entry, perhaps by its other spelling.
    fn look(&self, dir: usize, name: usize, is_spelled: bool) -> impl Iterator<Item = Given> {
        let asked = Instant::now();
        let facts = match is_spelled {
            true => self.facts_of(dir, self.view.spellings[name].as_ref()),
            false => self.facts(dir, name),
        };
        let answered = Instant::now();
        let entry = Answer::Entry(dir, name, facts.map(|facts| facts.0));
        let attributes =
            facts.filter(|facts| facts.1 & libc::S_IFMT != libc::S_IFDIR).map(Answer::Attributes);
        [Some(entry), attributes].into_iter().flatten().map(move |answer| (asked, answered, answer))
    }

    /// A random change; it may fail.
    fn change(&self, random: &mut Random) {
        let dir = |random: &mut Random| &self.directories[random.below(self.directories.len())];
        let (one, other) = (dir(random), dir(random));
        let (name, new) = (self.name(random.below(6)), self.name(random.below(6)));
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

#[derive(Debug)]
enum Answer {
    /// Which inode the name led to.
    Entry(usize, usize, Option<u64>),
    /// Attributes of an inode, which stat(2) reads after it has found the name, also in a plain directory.
    Attributes(Facts),
    /// Whether the name was in the listing, which is no single moment in a plain directory either.
    Listed(usize, usize, bool),
}

impl Answer {
    fn is_true(&self, truth: &Truth) -> bool {
        match self {
            Self::Entry(dir, name, ino) => truth.get(&(*dir, *name)).map(|it| it.0) == *ino,
            // No name tells what it was when it had none any more.
            Self::Attributes((.., links)) if *links == 0 => true,
            Self::Attributes(facts) => truth.values().any(|it| it == facts),
            Self::Listed(dir, name, is_there) => truth.contains_key(&(*dir, *name)) == *is_there,
        }
    }
}

/// An answer, and when the question began and the answer came.
type Given = (Instant, Instant, Answer);

/// Since when the answer was outdated, if it was when the question began; an error if it was never true.
fn outdated_since(history: &[Moment], (asked, answered, answer): &Given) -> Result<Option<Instant>, ()> {
    let first = history.partition_point(|moment| moment.begun <= *answered);
    let true_then = (0..first).rev().find(|&number| answer.is_true(&history[number].truth)).ok_or(())?;
    Ok(history.get(true_then + 1).map(|next| next.done).filter(|end| end < asked))
}

fn from_environment(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// The path of a directory below the root, which is the first one.
fn directory(number: usize) -> String {
    if number == 0 { String::new() } else { format!("dir{number}") }
}

#[test]
fn every_answer_was_true_not_long_ago() {
    every_answer_holds(&PLAIN);
}

#[test]
fn every_answer_of_a_normalizing_mount_was_true_not_long_ago() {
    every_answer_holds(&NORMALIZING);
}

#[test]
fn every_answer_of_a_converting_mount_was_true_not_long_ago() {
    let spellings = ["one", "two", "three", "caf␦E9", NFD, "six"];
    every_answer_holds(&View {
        args: &["--normalize", "nfc", "--on-mismatch", "convert"],
        spellings,
        ..PLAIN
    });
}

#[test]
fn every_answer_in_any_case_was_true_not_long_ago() {
    let spellings = ["ONE", "Two", "three", "caf␦E9", "\u{C9}T\u{C9}", "sIX"];
    every_answer_holds(&View { args: &["--ignore-case"], spellings, ..PLAIN });
}

#[test]
fn every_answer_of_an_encoding_mount_was_true_not_long_ago() {
    let mut view = View { args: &["--mode", "encode", "--profile", "windows"], ..PLAIN };
    view.names[..2].copy_from_slice(&[("a:b", "a：b".as_bytes()), ("x.", "x．".as_bytes())]);
    view.spellings[..2].copy_from_slice(&["a:b", "x."]);
    every_answer_holds(&view);
}

/// So many directories that some do not change for longer than the kernel needs to cache their listings.
#[test]
fn every_cached_listing_was_true_not_long_ago() {
    let view = View { directories: 80, pause: (200_000, 1), seconds: 10, ..PLAIN };
    let Some((listings, read)) = every_answer_holds(&view) else { return };
    println!("{listings} listings, {read} requests to read them");
    assert!(read < listings, "the kernel caches listings");
}

/// Returns the number of listings, and of requests for them; `None` if the mount is not coherent here.
fn every_answer_holds(view: &View) -> Option<(f64, f64)> {
    let (mounted, port) = coherent(view.args)?;
    let millis = from_environment("NAMEGATE_LAW_MILLIS").map(Duration::from_millis);
    let (most, deducts) = (millis.unwrap_or(MOST_STALE), millis.is_none());
    let seconds = from_environment("NAMEGATE_LAW_SECONDS").unwrap_or(view.seconds).max(view.seconds);
    let until = Instant::now() + Duration::from_secs(seconds);
    (1..view.directories).for_each(|dir| fs::create_dir(mounted.backing().join(directory(dir))).unwrap());
    let source = Place::open(*view, &mounted.backing(), true);
    let mount = Place::open(*view, &mounted.mnt(), false);
    let (mut all, mut counted, mut listings, mut round) = (Vec::new(), Vec::new(), 0, 0);
    while Instant::now() < until {
        let delays = Delays::watch(mounted.server());
        let (answers, history) = one_round(&source, &mount, round);
        let delays = delays.end();
        let late = |since: Instant, asked: Instant| {
            let stale = asked - since;
            (stale, if deducts { stale.saturating_sub(delays.between(since, asked)) } else { stale })
        };
        for given in &answers {
            listings += usize::from(matches!(given.2, Answer::Listed(_, 0, _)));
            let since = outdated_since(&history, given);
            let since = since.unwrap_or_else(|()| panic!("never true: {:?}", given.2));
            let (stale, counts) = since.map_or_else(Default::default, |since| late(since, given.0));
            assert!(
                stale < most && counts < most.min(MOST_LATE.max(millis.unwrap_or_default())),
                "outdated for {stale:?}, {counts:?} of it without waiting for a processor: {:?}",
                given.2
            );
            all.push(stale);
            counted.push(counts);
        }
        round += 1;
        // The history begins anew: what is outdated by then was never true in the next round.
        sleep(most);
    }
    all.sort();
    counted.sort();
    let (count, p99) = (all.len(), all[all.len() * 99 / 100]);
    println!(
        "{count} answers, {:?}: outdated p99 {p99:?}, worst {:?}; without waiting for a processor {:?}",
        view.args,
        all[count - 1],
        counted[count - 1]
    );
    let read = ["readdir", "readdirplus"].map(|op| requests(&mounted, port, op)).iter().sum();
    Some((listings as f64, read))
}

/// Changes and asks for some seconds, and asks for a rest.
fn one_round(source: &Place, mount: &Place, round: u64) -> (Vec<Given>, Vec<Moment>) {
    const ROUND: Duration = Duration::from_secs(2);
    let is_over = AtomicBool::new(false);
    let ask = &|seed| {
        let (mut random, mut answers) = (Random(seed), Vec::new());
        while !is_over.load(Ordering::Relaxed) {
            let (dir, name) = (random.below(mount.directories.len()), random.below(6));
            match random.chance(6) {
                true => answers.extend(mount.list(dir)),
                false => answers.extend(mount.look(dir, name, random.chance(2))),
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
    let mut answers = thread::scope(|scope| {
        let askers = [1, 2].map(|asker| scope.spawn(move || ask(10 * round + asker)));
        let (longest, of) = mount.view.pause;
        while now.elapsed() < ROUND {
            let begun = Instant::now();
            let place = if random.chance(3) { mount } else { source };
            place.change(&mut random);
            history.push(Moment { begun, done: Instant::now(), truth: source.truth() });
            if random.chance(of) {
                sleep(Duration::from_micros(random.below(longest) as u64));
            }
        }
        sleep(MOST_LATE);
        is_over.store(true, Ordering::Relaxed);
        askers.map(|asker| asker.join().unwrap()).into_iter().flatten().collect::<Vec<_>>()
    });
    for dir in 0..mount.directories.len() {
        answers.extend(mount.list(dir));
        (0..6).for_each(|name| answers.extend(mount.look(dir, name, false)));
    }
    (answers, history)
}
