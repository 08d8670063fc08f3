//! What is reported, on which file system, by which engine.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::watching::{ENGINES, Found, TestFileSystem, Watching, bad, is_root};

fn found(operation: &str, path: PathBuf) -> Found {
    Found { operation: operation.into(), path: Some(path) }
}

/// Creates a bad name in each possible way, and records what should be reported.
fn make(top: &Path, outside: &Path) -> Vec<Found> {
    let mut expected = Vec::new();
    let mut expect = |operation: &str, path: PathBuf| expected.push(found(operation, path));
    let sub = top.join("sub");
    File::create(sub.join(bad("created"))).unwrap();
    expect("create", sub.join(bad("created")));
    fs::create_dir(top.join(bad("dir"))).unwrap();
    expect("mkdir", top.join(bad("dir")));
    symlink("nowhere", sub.join(bad("symlink"))).unwrap();
    expect("symlink", sub.join(bad("symlink")));
    mkfifo(&sub.join(bad("fifo")), Mode::S_IRWXU).unwrap();
    expect("mknod", sub.join(bad("fifo")));
    fs::write(top.join("linked"), "").unwrap();
    fs::hard_link(top.join("linked"), sub.join(bad("link"))).unwrap();
    expect("link", sub.join(bad("link")));
    File::create(top.join("good")).unwrap();
    fs::rename(top.join("good"), sub.join(bad("renamed"))).unwrap();
    expect("rename", sub.join(bad("renamed")));
    // Below new directories.
    let deep = sub.join("new/new/new");
    fs::create_dir_all(&deep).unwrap();
    File::create(deep.join(bad("deep"))).unwrap();
    expect("create", deep.join(bad("deep")));
    // In a directory that is moved in from outside.
    fs::rename(outside.join("brought"), top.join("brought")).unwrap();
    expect("rename", top.join("brought/along").join(bad("old")));
    // Names created outside, names that leave, and good names are not reported.
    File::create(outside.join(bad("outside"))).unwrap();
    fs::create_dir(top.join("leaves")).unwrap();
    fs::rename(top.join("leaves"), outside.join("left")).unwrap();
    File::create(sub.join("gut.txt")).unwrap();
    expected
}

#[test]
fn every_way_to_create_a_bad_name_is_reported_once_on_every_file_system() {
    if !is_root() {
        return;
    }
    for (name, place) in TestFileSystem::all() {
        for engine in ENGINES {
            if (name, engine) == ("overlay", "fanotify") {
                continue;
            }
            let (top, outside) = (place.dir(engine).join("in"), place.dir(engine).join("out"));
            fs::create_dir_all(top.join("sub")).unwrap();
            fs::create_dir_all(outside.join("brought/along")).unwrap();
            File::create(outside.join("brought/along").join(bad("old"))).unwrap();
            fs::write(top.join(bad("before")), "").unwrap();
            let watching = Watching::new(&[&top], &["--engine", engine]);
            let mut expected = make(&top, &outside);
            watching.wait_for(expected.len());
            let ended = watching.end();
            expected.sort();
            assert_eq!(ended.found(), expected, "{engine} on {name}\n{}", ended.log);
            assert_eq!(ended.status, Some(1), "{}", ended.log);
            assert!(ended.log.contains(&format!("({name}) by {engine}, ")), "{}", ended.log);
        }
    }
}

#[test]
fn the_engine_is_the_first_that_works_and_is_reported_with_the_reason() {
    if !is_root() {
        return;
    }
    for (name, place) in TestFileSystem::all() {
        let top = place.top();
        let watching = Watching::new(&[&top], &[]);
        fs::write(top.join(bad("")), "").unwrap();
        watching.wait_for(1);
        let ended = watching.end();
        let (engine, reason) = match name {
            "overlay" => ("fanotify-dirs", "; fanotify cannot: the file system cannot be watched as a whole"),
            _ => ("fanotify", ""),
        };
        assert!(ended.log.contains(&format!("({name}) by {engine}, ")), "{}", ended.log);
        assert!(ended.log.contains(reason), "{}", ended.log);
        assert_eq!(ended.found(), [found("create", top.join(bad("")))]);
    }
}

#[test]
fn two_trees_on_two_file_systems_are_watched_at_once() {
    if !is_root() {
        return;
    }
    let (Some(first), Some(second)) = (TestFileSystem::ext4(), TestFileSystem::tmpfs()) else { return };
    let tops = [first.top(), second.top()];
    let watching = Watching::new(&[&tops[0], &tops[1]], &[]);
    tops.iter().for_each(|top| drop(File::create(top.join(bad(""))).unwrap()));
    watching.wait_for(2);
    let mut expected = tops.map(|top| top.join(bad("")));
    expected.sort();
    assert_eq!(watching.end().paths(), expected);
}

#[test]
fn a_file_system_mounted_below_is_watched_unless_excluded() {
    if !is_root() {
        return;
    }
    let Some(place) = TestFileSystem::tmpfs() else { return };
    let above = place.top().parent().unwrap().to_path_buf();
    for (args, count) in [(&[][..], 2), (&["-x"][..], 1)] {
        let watching = Watching::new(&[&above], args);
        fs::write(place.top().join(bad(&count.to_string())), "").unwrap();
        fs::write(above.join(bad(&count.to_string())), "").unwrap();
        watching.wait_for(count);
        let ended = watching.end();
        assert_eq!(ended.lines.len(), count, "{:?}\n{}", ended.lines, ended.log);
    }
}

#[test]
fn of_tens_of_thousands_per_second_no_bad_name_is_missed_or_reported_twice() {
    const EACH: usize = 10_000;
    const THREADS: usize = 2;
    if !is_root() {
        return;
    }
    let Some(place) = TestFileSystem::tmpfs() else { return };
    for args in [
        &["--engine", "fanotify"][..],
        &["--engine", "fanotify", "--unlimited-queue"],
        &["--engine", "inotify"],
    ] {
        let top = place.dir(&args.join(""));
        let watching = Watching::new(&[&top], args);
        let begin = Instant::now();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let dir = top.join(thread.to_string());
                scope.spawn(move || {
                    fs::create_dir(&dir).unwrap();
                    for number in 0..EACH {
                        let name = format!("{number}-");
                        let name = if number % 10 == 0 { bad(&name) } else { name.into() };
                        File::create(dir.join(name)).unwrap();
                    }
                });
            }
        });
        let took = begin.elapsed();
        watching.wait_for(THREADS * EACH / 10);
        let ended = watching.end();
        let rate = (THREADS * EACH) as f64 / took.as_secs_f64();
        println!("{args:?}: {rate:.0} creates a second; {}", ended.log.lines().last().unwrap());
        let mut expected: Vec<PathBuf> = (0..THREADS)
            .flat_map(|thread| (0..EACH).step_by(10).map(move |number| (thread, number)))
            .map(|(thread, number)| top.join(thread.to_string()).join(bad(&format!("{number}-"))))
            .collect();
        expected.sort();
        assert_eq!(ended.paths(), expected, "{}", ended.log);
    }
}

#[test]
fn a_directory_renamed_before_its_event_is_read_is_reported_under_one_of_its_names() {
    for engine in ENGINES {
        if engine == "fanotify" && !is_root() {
            continue;
        }
        let place = TestFileSystem::plain();
        let (old, new) = (place.dir("old/sub"), place.top().join("new"));
        let watching = Watching::new(&[&place.top()], &["--engine", engine]);
        watching.while_it_sleeps(|| {
            File::create(old.join(bad("first"))).unwrap();
            fs::rename(place.top().join("old"), &new).unwrap();
            File::create(new.join("sub").join(bad("second"))).unwrap();
        });
        watching.wait_for(2);
        let paths = watching.end().paths();
        assert_eq!(paths.len(), 2, "{engine}: {paths:?}");
        assert!(paths.contains(&new.join("sub").join(bad("second"))), "{engine}: {paths:?}");
        let first = [old.join(bad("first")), new.join("sub").join(bad("first"))];
        assert!(first.iter().any(|path| paths.contains(path)), "{engine}: {paths:?}");
    }
}

#[test]
fn a_directory_removed_before_its_event_is_read_is_reported_with_its_last_path() {
    for engine in ["fanotify", "fanotify-dirs", "inotify"] {
        if engine == "fanotify" && !is_root() {
            continue;
        }
        let place = TestFileSystem::plain();
        let known = place.dir("known");
        let watching = Watching::new(&[&place.top()], &["--engine", engine]);
        watching.while_it_sleeps(|| {
            for dir in [known.clone(), place.dir("known/new")] {
                File::create(dir.join(bad(""))).unwrap();
            }
            fs::remove_dir_all(&known).unwrap();
        });
        let ended = watching.end();
        // When watching by directory, a new directory was never marked; with a mark on the file system, an old one was never
        // looked up.
        let expected = match engine {
            "fanotify" => 0..=2,
            _ => 1..=1,
        };
        assert!(expected.contains(&ended.lines.len()), "{engine}: {:?}\n{}", ended.lines, ended.log);
        let is_counted = ended.log.contains("vanished before");
        assert!(ended.lines.len() == 2 || is_counted || engine != "fanotify", "{engine}: {}", ended.log);
    }
}
