//! Event queues that overflow.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::watching::{ENGINES, Found, TestFileSystem, Watching, bad, is_root};
use namegate_testkit::process::wait_for_rest;
use namegate_testkit::wait_until;

/// Larger than any queue: fs.inotify.max_queued_events and fs.fanotify.max_queued_events.
fn more_than_a_queue() -> Option<usize> {
    let limit = |of: &str| {
        let text = fs::read_to_string(format!("/proc/sys/fs/{of}/max_queued_events")).unwrap_or_default();
        text.trim().parse::<usize>().unwrap_or(16384)
    };
    let most = limit("inotify").max(limit("fanotify"));
    if most > 40_000 {
        println!("SKIPPED: a queue keeps {most} events here, too many to fill in a test");
        return None;
    }
    Some(most + 2000)
}

#[test]
fn names_that_appeared_while_events_were_lost_are_found_and_reported_once() {
    if !is_root() {
        return;
    }
    let Some(count) = more_than_a_queue() else { return };
    // In parallel: each of them waits most of the time.
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || lose_events(engine, count));
        }
    });
}

fn lose_events(engine: &str, count: usize) {
    let Some(place) = TestFileSystem::tmpfs() else { return };
    {
        let (top, outside) = (place.dir(engine).join("in"), place.dir(engine).join("out"));
        for dir in [top.join("old"), top.join("quiet/below"), outside.join("brought/along")] {
            fs::create_dir_all(dir).unwrap();
        }
        // Existing names, which are not to be reported.
        fs::write(top.join("quiet").join(bad("before")), "").unwrap();
        fs::write(top.join("old").join(bad("before")), "").unwrap();
        fs::write(outside.join("brought/along").join(bad("old")), "").unwrap();
        let watching = Watching::new(&[&top], &["--engine", engine]);
        // Longer than the margin for coarse time stamps.
        sleep(Duration::from_millis(3500));
        let mut expected: Vec<PathBuf> = vec![top.join("old").join(bad("first"))];
        File::create(&expected[0]).unwrap();
        watching.wait_for(1);
        // Wait until the watch has handled all events so far.
        wait_for_rest(watching.pid());
        watching.while_it_sleeps(|| {
            for number in 0..count {
                let name = format!("{number}-");
                let path = match number % 1000 {
                    999 => top.join("old").join(bad(&name)),
                    _ => top.join("old").join(name),
                };
                File::create(&path).unwrap();
                if number % 1000 == 999 {
                    expected.push(path);
                }
            }
            // The queue is full: there are no events for what follows.
            fs::create_dir_all(top.join("new/new")).unwrap();
            for path in [top.join("new/new").join(bad("late")), top.join("quiet/below").join(bad("late"))] {
                File::create(&path).unwrap();
                expected.push(path);
            }
            fs::rename(outside.join("brought"), top.join("brought")).unwrap();
            expected.push(top.join("brought/along").join(bad("old")));
        });
        watching.wait_for(expected.len());
        if engine == "fanotify" {
            // This directory and the one above it changed: it may have been moved here, with its content.
            expected.push(top.join("old").join(bad("before")));
        }
        // It continues as before, also in new directories.
        expected.push(top.join("new/new").join(bad("after")));
        File::create(expected.last().unwrap()).unwrap();
        watching.wait_for(expected.len());
        let ended = watching.end();
        expected.sort();
        let found = ended.paths();
        let missing: Vec<_> = expected.iter().filter(|path| !found.contains(path)).collect();
        let surplus: Vec<_> = found.iter().filter(|path| !expected.contains(path)).collect();
        assert!(missing.is_empty() && surplus.is_empty(), "{engine}: {missing:?} {surplus:?}\n{}", ended.log);
        assert_eq!(found, expected, "{engine}: each once");
        assert!(ended.log.contains("events were lost"), "{engine}: {}", ended.log);
        let again: Vec<Found> =
            ended.found().into_iter().filter(|found| found.operation == "rescan").collect();
        assert!(!again.is_empty(), "{engine}: {:?}", ended.lines);
        assert_eq!(ended.status, Some(1), "{engine}: nothing is missing, so this is not an error");
    }
}

#[test]
fn a_queue_without_a_limit_loses_nothing() {
    if !is_root() {
        return;
    }
    let (Some(count), Some(place)) = (more_than_a_queue(), TestFileSystem::tmpfs()) else { return };
    let watching = Watching::new(&[&place.top()], &["--engine", "fanotify", "--unlimited-queue"]);
    watching.while_it_sleeps(|| {
        for number in 0..count {
            File::create(place.top().join(number.to_string())).unwrap();
        }
        // Removed before it is looked up: only its event shows it.
        File::create(place.top().join(bad("brief"))).unwrap();
        fs::remove_file(place.top().join(bad("brief"))).unwrap();
    });
    watching.wait_for(1);
    let ended = watching.end();
    assert_eq!(ended.paths(), [place.top().join(bad("brief"))]);
    assert!(!ended.log.contains("lost"), "{}", ended.log);
}

/// A tree in which directories are moved with their content.
struct Restless {
    dirs: Vec<PathBuf>,
    made: usize,
    random: u64,
    bad: Vec<Vec<u8>>,
}

impl Restless {
    fn new(top: &Path, count: usize) -> Self {
        let mut tree = Self { dirs: vec![top.into()], made: 0, random: 0x9E37_79B9, bad: Vec::new() };
        for number in 0..count {
            let above = tree.any();
            let dir = tree.dirs[above].join(format!("d{number}"));
            fs::create_dir(&dir).unwrap();
            tree.dirs.push(dir);
        }
        tree
    }

    fn any(&mut self) -> usize {
        // Xorshift, with a fixed seed.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % self.dirs.len() as u64) as usize
    }

    fn make(&mut self, count: usize) {
        for _ in 0..count {
            self.made += 1;
            let (dir, name) = (self.any(), bad(&format!("{}-", self.made)));
            File::create(self.dirs[dir].join(&name)).unwrap();
            self.bad.push(name.into_encoded_bytes());
        }
    }

    fn rename(&mut self, count: usize) {
        for _ in 0..count {
            self.made += 1;
            let (from, to) = (self.any(), self.any());
            let (from, to) = (self.dirs[from].clone(), self.dirs[to].clone());
            // Not the top, nothing below itself, and no path that is too long.
            if from == self.dirs[0] || to.starts_with(&from) || to.as_os_str().len() > 1000 {
                continue;
            }
            let new = to.join(format!("m{}", self.made));
            fs::rename(&from, &new).unwrap();
            for dir in &mut self.dirs {
                if let Ok(below) = dir.strip_prefix(&from) {
                    *dir = if below.as_os_str().is_empty() { new.clone() } else { new.join(below) };
                }
            }
        }
    }
}

#[test]
fn names_in_directories_renamed_during_and_after_a_loss_are_not_missed() {
    if !is_root() {
        return;
    }
    let Some(count) = more_than_a_queue() else { return };
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || rename_while_events_are_lost(engine, count));
        }
    });
}

fn rename_while_events_are_lost(engine: &str, count: usize) {
    let Some(place) = TestFileSystem::tmpfs() else { return };
    let top = place.dir(engine);
    let mut tree = Restless::new(&top, 400);
    let watching = Watching::new(&[&top], &["--engine", engine]);
    // Longer than the margin for coarse time stamps.
    sleep(Duration::from_millis(3500));
    for _ in 0..3 {
        watching.while_it_sleeps(|| {
            for part in 0..count.div_ceil(500) {
                (0..480).for_each(|number| drop(File::create(top.join(format!("{part}-{number}"))).unwrap()));
                tree.make(20);
                tree.rename(4);
            }
        });
        // It reads the trees again while they change; with pauses, so that no further event is lost.
        for _ in 0..60 {
            tree.make(5);
            tree.rename(5);
            sleep(Duration::from_millis(5));
        }
    }
    watching.wait_for(tree.bad.len());
    // On a busy machine the last pass takes longer than a watch that ends goes on.
    wait_until("the last pass", || {
        let before = watching.log().lines().count();
        watching.signal(Signal::SIGUSR1);
        wait_until("the progress", || watching.log().lines().count() > before);
        watching.log().lines().last().is_some_and(|line| !line.contains("not read to the end"))
    });
    let ended = watching.end();
    assert!(ended.log.contains("events were lost"), "{engine}: {}", ended.log);
    assert_eq!(ended.status, Some(1), "{engine}: nothing is missing\n{}", ended.log);
    let mut found: Vec<Vec<u8>> = ended.names();
    found.sort();
    tree.bad.sort();
    assert!(found == tree.bad, "{engine}: {} of {}\n{}", found.len(), tree.bad.len(), ended.log);
}

#[test]
fn directories_that_were_not_read_are_reported_as_an_error() {
    if !is_root() {
        return;
    }
    let (Some(count), Some(place)) = (more_than_a_queue(), TestFileSystem::tmpfs()) else { return };
    let top = place.dir("top");
    for number in 0..20_000 {
        fs::create_dir(top.join(format!("d{number}"))).unwrap();
    }
    let trail = place.beside("trail").join("trail");
    let watching = Watching::new(&[&top], &["--engine", "inotify", "--audit", trail.to_str().unwrap()]);
    wait_until("it watches", || watching.log().contains("directories are watched one by one"));
    watching.while_it_sleeps(|| {
        for number in 0..count {
            File::create(top.join("d1").join(number.to_string())).unwrap();
        }
        // When the watch continues, lost events and two signals to end are pending, so it does not read the trees again.
        watching.signal(Signal::SIGTERM);
    });
    let ended = watching.wait_for_end();
    let last = ended.lines.last().cloned().unwrap_or_default();
    if ended.log.contains("were not read to the end") {
        assert_eq!(ended.status, Some(2), "{}", ended.log);
        assert!(last.contains("\"type\":\"uncovered\""), "{last}");
        assert_eq!(fs::read_to_string(&trail).unwrap().lines().last(), Some(last.as_str()));
    } else {
        // Two seconds were enough to read everything.
        assert_eq!((ended.status, ended.lines.len()), (Some(0), 0), "{}", ended.log);
    }
}
