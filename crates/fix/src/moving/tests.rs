use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use super::*;

/// The move of `name` in `dir`, prepared now.
fn prepare(dir: &Path, name: &str, new: &str) -> Result<Move, EntryFailure> {
    let fd = File::open(dir).unwrap();
    let stat = look_up(&fd, name.as_bytes()).unwrap().unwrap();
    let missing = count_missing(fd.as_fd(), new.as_bytes(), stat.uid)?;
    let (into, leaf) = split(new.as_bytes()).unwrap();
    let mut member = GroupMember {
        id: 1,
        old: Hex(name.as_bytes().to_vec()),
        new: Hex(leaf.to_vec()),
        inode: 0,
        kind: crate::plan::FileKind::File,
        born: None,
        marked: false,
        checked_owner: None,
    };
    member.set_identity(&stat);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let since = InodeTime { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() };
    let into = into.into_iter().map(|name| Hex(name.to_vec())).collect();
    Ok(Move { directory: 0, into, missing, since, member })
}

fn execute(dir: &Path, moved: &Move, direction: Direction) -> Result<u32, EntryFailure> {
    let fd = File::open(dir).unwrap();
    let mut count = 0;
    moved.execute(fd.as_fd(), direction, &mut || count += 1).map(|()| count)
}

#[test]
fn a_file_moves_into_directories_that_are_made_and_an_undo_removes_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path(r"a\b\c"), "1").unwrap();
    fs::write(path(r"a\d"), "2").unwrap();
    let first = prepare(dir.path(), r"a\b\c", "a/b/c").unwrap();
    let second = prepare(dir.path(), r"a\d", "a/d").unwrap();
    assert_eq!((first.missing, second.missing), (2, 1));
    assert_eq!(execute(dir.path(), &first, Direction::Apply), Ok(3), "two directories and a rename");
    assert_eq!(execute(dir.path(), &first, Direction::Apply), Ok(0), "again");
    assert_eq!(execute(dir.path(), &second, Direction::Apply), Ok(1));
    assert_eq!(fs::read_to_string(path("a/b/c")).unwrap(), "1");
    // The directory stays while the other file is in it.
    assert_eq!(execute(dir.path(), &first, Direction::Undo), Ok(2));
    assert!(path("a").exists() && !path("a/b").exists());
    assert_eq!(execute(dir.path(), &second, Direction::Undo), Ok(2));
    assert_eq!(execute(dir.path(), &second, Direction::Undo), Ok(0), "again");
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [r"a\b\c", r"a\d"]);
}

#[test]
fn a_directory_that_was_there_before_stays_and_so_does_one_with_other_entries() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("old")).unwrap();
    fs::write(path(r"old\x"), "").unwrap();
    fs::write(path(r"new\x"), "").unwrap();
    let into_old = prepare(dir.path(), r"old\x", "old/x").unwrap();
    let into_new = prepare(dir.path(), r"new\x", "new/x").unwrap();
    for moved in [&into_old, &into_new] {
        execute(dir.path(), moved, Direction::Apply).unwrap();
    }
    fs::write(path("new/by somebody else"), "").unwrap();
    for moved in [&into_new, &into_old] {
        execute(dir.path(), moved, Direction::Undo).unwrap();
    }
    assert!(path("old").exists() && path("new/by somebody else").exists());
    // A directory with the name of a missing one that is older than the move was not made for it.
    let mut late = prepare(dir.path(), r"old\x", "old/x").unwrap();
    late.missing = 1;
    late.since.seconds += 10;
    execute(dir.path(), &late, Direction::Apply).unwrap();
    execute(dir.path(), &late, Direction::Undo).unwrap();
    assert!(path("old").exists());
}

#[test]
fn whatever_is_in_the_way_stops_a_move_which_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("outside")).unwrap();
    symlink("outside", path("link")).unwrap();
    fs::write(path("file"), "").unwrap();
    fs::create_dir(path("full")).unwrap();
    fs::write(path("full/x"), "").unwrap();
    for (name, new, why) in [
        (r"link\x", "link/x", "no directory"),
        (r"file\x", "file/x", "no directory"),
        (r"full\x", "full/x", "taken"),
    ] {
        fs::write(path(name), "mine").unwrap();
        let error = prepare(dir.path(), name, new).unwrap_err().to_string();
        assert!(error.contains(why), "{new}: {error}");
    }
    // What comes in between, too.
    fs::write(path(r"made\sub\x"), "mine").unwrap();
    let moved = prepare(dir.path(), r"made\sub\x", "made/sub/x").unwrap();
    symlink("outside", path("made")).unwrap();
    assert!(execute(dir.path(), &moved, Direction::Apply).is_err());
    fs::remove_file(path("made")).unwrap();
    fs::create_dir_all(path("made/sub/x")).unwrap();
    assert_eq!(execute(dir.path(), &moved, Direction::Apply), Err(EntryFailure::Taken));
    fs::remove_dir_all(path("made")).unwrap();
    fs::remove_file(path(r"made\sub\x")).unwrap();
    fs::write(path(r"made\sub\x"), "another file").unwrap();
    let is_same_inode = moved.member.inode == fs::metadata(path(r"made\sub\x")).unwrap().ino();
    let expected =
        if is_same_inode && moved.member.born.is_none() { Ok(3) } else { Err(EntryFailure::Replaced) };
    assert_eq!(execute(dir.path(), &moved, Direction::Apply), expected);
    assert_eq!(fs::read_dir(path("outside")).unwrap().count(), 0);
}

#[test]
fn in_a_sticky_directory_a_directory_of_another_user_gets_nothing() {
    if !geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(path(r"a\x"), "").unwrap();
    chown(path(r"a\x"), Some(2), None).unwrap();
    let moved = prepare(dir.path(), r"a\x", "a/x").unwrap();
    fs::create_dir(path("a")).unwrap();
    chown(path("a"), Some(1), None).unwrap();
    let refused = execute(dir.path(), &moved, Direction::Apply).unwrap_err().to_string();
    assert!(refused.contains("another user"), "{refused}");
    assert!(prepare(dir.path(), r"a\x", "a/x").is_err());
    chown(path("a"), Some(2), None).unwrap();
    assert_eq!(execute(dir.path(), &moved, Direction::Apply), Ok(1), "of the owner of the file");
}
