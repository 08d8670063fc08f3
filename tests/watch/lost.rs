//! Queues that overflow.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use crate::watching::{ENGINES, Found, Place, Watching, bad, is_root};

/// More than any queue keeps: fs.inotify.max_queued_events and fs.fanotify.max_queued_events.
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
fn what_came_while_events_were_lost_is_found_and_told_once() {
    if !is_root() {
        return;
    }
    let Some(count) = more_than_a_queue() else { return };
    // At once: each of them waits most of the time.
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || lose_events(engine, count));
        }
    });
}

fn lose_events(engine: &str, count: usize) {
    let Some(place) = Place::tmpfs() else { return };
    {
        let (top, outside) = (place.dir(engine).join("in"), place.dir(engine).join("out"));
        for dir in [top.join("old"), top.join("quiet/below"), outside.join("brought/along")] {
            fs::create_dir_all(dir).unwrap();
        }
        // There before, and not to be told.
        fs::write(top.join("quiet").join(bad("before")), "").unwrap();
        fs::write(top.join("old").join(bad("before")), "").unwrap();
        fs::write(outside.join("brought/along").join(bad("old")), "").unwrap();
        let watching = Watching::new(&[&top], &["--engine", engine]);
        // Longer than what time stamps are trusted for.
        sleep(Duration::from_millis(3500));
        let mut expected: Vec<PathBuf> = vec![top.join("old").join(bad("told"))];
        File::create(&expected[0]).unwrap();
        watching.wait_for(1);
        // It looks once more and finds nothing: until here it has seen everything.
        sleep(Duration::from_millis(500));
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
            // By now nothing is told any more.
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
            // Both this directory and the one above it changed: it may have been moved here, with what it holds.
            expected.push(top.join("old").join(bad("before")));
        }
        // It goes on as before, also in what was new.
        expected.push(top.join("new/new").join(bad("after")));
        File::create(expected.last().unwrap()).unwrap();
        watching.wait_for(expected.len());
        let ended = watching.end();
        expected.sort();
        let found = ended.paths();
        let missing: Vec<_> = expected.iter().filter(|path| !found.contains(path)).collect();
        let surplus: Vec<_> = found.iter().filter(|path| !expected.contains(path)).collect();
        assert!(
            missing.is_empty() && surplus.is_empty(),
            "{engine}: {missing:?} {surplus:?}\n{}",
            ended.said
        );
        assert_eq!(found, expected, "{engine}: each once");
        assert!(ended.said.contains("events were lost"), "{engine}: {}", ended.said);
        let again: Vec<Found> =
            ended.found().into_iter().filter(|found| found.operation == "rescan").collect();
        assert!(!again.is_empty(), "{engine}: {:?}", ended.lines);
        assert_eq!(ended.status, Some(1), "{engine}: nothing is missing, so that it is no trouble");
    }
}

#[test]
fn a_queue_without_a_limit_loses_nothing() {
    if !is_root() {
        return;
    }
    let (Some(count), Some(place)) = (more_than_a_queue(), Place::tmpfs()) else { return };
    let watching = Watching::new(&[&place.top()], &["--engine", "fanotify", "--unlimited-queue"]);
    watching.while_it_sleeps(|| {
        for number in 0..count {
            File::create(place.top().join(number.to_string())).unwrap();
        }
        // Gone before it is looked for: only its event tells.
        File::create(place.top().join(bad("brief"))).unwrap();
        fs::remove_file(place.top().join(bad("brief"))).unwrap();
    });
    watching.wait_for(1);
    let ended = watching.end();
    assert_eq!(ended.paths(), [place.top().join(bad("brief"))]);
    assert!(!ended.said.contains("lost"), "{}", ended.said);
}
