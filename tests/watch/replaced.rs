//! A PATH that leads to another directory after the watch has begun.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::watching::{ENGINES, TestFileSystem, Watching, bad, is_root};
use namegate_testkit::wait_until;

const AGAIN: &str = "leads to another directory now";
const GONE: &str = "nothing in it is watched until it is back";

/// Runs `replace` on a watched directory and on its parent with each engine, and expects what appears in the new directory to be
/// reported: once, whether it appeared before or after it was noticed. Returns the log.
fn is_watched_again(replace: impl Fn(&Path, &Path)) -> Vec<String> {
    let mut logs = Vec::new();
    for engine in ENGINES.into_iter().filter(|engine| *engine != "fanotify" || is_root()) {
        let place = TestFileSystem::plain();
        let (above, path) = (place.dir("above"), place.dir("above/watched"));
        let old = path.join(bad("old"));
        fs::write(&old, "").unwrap();
        let watching = Watching::new(&[&path], &["--engine", engine]);
        replace(&path, &above);
        let (early, deep) = (path.join(bad("early")), path.join("deep").join(bad("early")));
        fs::create_dir(path.join("deep")).unwrap();
        fs::write(&early, "").unwrap();
        fs::write(&deep, "").unwrap();
        wait_until("a watch of the new directory", || watching.log().contains(AGAIN));
        watching.wait_for(2);
        let late = path.join("deep").join(bad("late"));
        fs::write(&late, "").unwrap();
        watching.wait_for(3);
        let ended = watching.end();
        let mut expected = [early, deep, late];
        expected.sort();
        assert_eq!(ended.paths(), expected, "{engine}: {}", ended.log);
        assert_eq!(ended.status, Some(1), "{engine}: {}", ended.log);
        logs.push(ended.log);
    }
    logs
}

#[test]
fn a_path_that_is_removed_and_made_again_is_watched_again() {
    is_watched_again(|path, _| {
        fs::remove_dir_all(path).unwrap();
        fs::create_dir(path).unwrap();
    });
}

#[test]
fn a_path_whose_parent_is_renamed_away_is_watched_again_and_the_old_tree_is_not() {
    is_watched_again(|path, above| {
        let aside = above.with_file_name("aside");
        fs::rename(above, &aside).unwrap();
        fs::create_dir_all(path).unwrap();
        fs::create_dir(aside.join("watched/more")).unwrap();
    });
}

#[test]
fn a_symbolic_link_that_is_changed_is_followed() {
    for engine in ENGINES.into_iter().filter(|engine| *engine != "fanotify" || is_root()) {
        let place = TestFileSystem::plain();
        let (first, second, link) = (place.dir("first"), place.dir("second"), place.top().join("current"));
        symlink(&first, &link).unwrap();
        let watching = Watching::new(&[&link], &["--engine", engine]);
        symlink(&second, place.top().join("next")).unwrap();
        fs::rename(place.top().join("next"), &link).unwrap();
        wait_until("a watch of the new directory", || watching.log().contains(AGAIN));
        fs::write(first.join(bad("")), "").unwrap();
        fs::write(second.join(bad("")), "").unwrap();
        watching.wait_for(1);
        let ended = watching.end();
        assert_eq!(ended.paths(), [second.join(bad(""))], "{engine}: {}", ended.log);
    }
}

#[test]
fn a_path_that_is_gone_is_reported_and_the_watch_fails_unless_it_comes_back() {
    for engine in ENGINES.into_iter().filter(|engine| *engine != "fanotify" || is_root()) {
        let place = TestFileSystem::plain();
        let (path, other) = (place.dir("watched"), place.dir("other"));
        let watching = Watching::new(&[&path, &other], &["--engine", engine]);
        fs::remove_dir(&path).unwrap();
        wait_until("a warning", || watching.log().contains(GONE));
        // Another directory goes on.
        fs::write(other.join(bad("")), "").unwrap();
        watching.wait_for(1);
        fs::create_dir(&path).unwrap();
        wait_until("a watch of the new directory", || watching.log().contains(AGAIN));
        fs::write(path.join(bad("")), "").unwrap();
        watching.wait_for(2);
        fs::rename(&path, place.top().join("aside")).unwrap();
        // Noticed at the end, too.
        let ended = watching.end();
        assert_eq!((ended.status, ended.lines.len()), (Some(2), 2), "{engine}: {}", ended.log);
        assert!(ended.log.contains("1 path could not be watched"), "{engine}: {}", ended.log);
    }
}
