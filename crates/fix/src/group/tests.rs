use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;

/// A group in `dir` from old to new names; with a temporary name, a cycle.
fn group(dir: &fs::File, renames: &[(&[u8], &[u8])], temp_name: Option<&[u8]>) -> RenameGroup {
    let member = |&(old, new): &(&[u8], &[u8])| {
        let stat = look_up(dir, old).unwrap().unwrap();
        let InodeIdentity { ino: inode, kind, born } = InodeIdentity::from_stat(&stat);
        GroupMember {
            id: 0,
            old: Hex(old.to_vec()),
            new: Hex(new.to_vec()),
            inode,
            kind,
            born,
            marked: false,
            checked_owner: None,
        }
    };
    let temp_name = temp_name.map(|name| Hex(name.to_vec()));
    RenameGroup { directory: 0, members: renames.iter().map(member).collect(), temp_name }
}

/// What each file holds, by name.
fn contents(dir: &Path) -> BTreeMap<Vec<u8>, String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().as_bytes().to_vec(), fs::read_to_string(entry.path()).unwrap()))
        .collect()
}

fn filled(names: &[&[u8]]) -> (tempfile::TempDir, fs::File) {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        let path = dir.path().join(OsStr::from_bytes(name));
        fs::write(path, String::from_utf8_lossy(name).as_ref()).unwrap();
    }
    let file = fs::File::open(dir.path()).unwrap();
    (dir, file)
}

/// Cycles of one to four entries, with the temporary name; and single renames.
fn groups() -> Vec<(Vec<(&'static [u8], &'static [u8])>, Option<&'static [u8]>)> {
    let names: [&[u8]; 4] = [b"a\xE9", b"b", b"c", b"d"];
    let mut all =
        vec![(vec![(names[0], &b"new"[..])], None), (vec![(names[0], &b"new"[..])], Some(&b"via"[..]))];
    for len in 2..=4 {
        let cycle = (0..len).map(|at| (names[at], names[(at + 1) % len])).collect();
        all.push((cycle, Some(&b"via"[..])));
    }
    all
}

/// The number of moves that are done.
fn moves_done(group: &RenameGroup, dir: &fs::File) -> Option<usize> {
    group.progress(dir).unwrap().map(|progress| progress.done)
}

#[test]
fn the_names_show_which_moves_are_done() {
    for (renames, via) in groups() {
        let (temporary, dir) = filled(&renames.iter().map(|&(old, _)| old).collect::<Vec<_>>());
        let before = contents(temporary.path());
        let group = group(&dir, &renames, via);
        for done in 0..=group.moves() {
            assert_eq!(moves_done(&group, &dir), Some(done), "{renames:?}");
            assert_eq!(contents(temporary.path()).len(), renames.len(), "nothing is overwritten");
            if done < group.moves() {
                assert_eq!(group.make_move(&dir, Direction::Apply, done, None), Some(Ok(done + 1)));
            }
        }
        assert_eq!(group.make_move(&dir, Direction::Apply, group.moves(), None), None);
        let after = contents(temporary.path());
        for (old, new) in &renames {
            assert_eq!(after[*new], before[*old]);
        }
        let progress = group.progress(&dir).unwrap().unwrap();
        group.execute(&dir, Direction::Undo, progress, &mut || {}).unwrap();
        assert_eq!((contents(temporary.path()), moves_done(&group, &dir)), (before, Some(0)));
    }
}

#[test]
fn a_group_is_renamed_as_a_whole_or_not_at_all_and_no_other_entry_changes() {
    for (renames, via) in groups() {
        for number in
            0..group(&filled(&renames.iter().map(|r| r.0).collect::<Vec<_>>()).1, &renames, via).moves()
        {
            let (temporary, dir) = filled(&renames.iter().map(|&(old, _)| old).collect::<Vec<_>>());
            let group = group(&dir, &renames, via);
            // Another process takes the name that this move needs, right before it.
            let at = group.moved(number);
            let needed = temporary.path().join(OsStr::from_bytes(group.name(at, number + 1)));
            let mut moves = 0;
            let take = || fs::write(&needed, "a stranger").unwrap();
            if number == 0 {
                take();
            }
            let mut changed = || {
                moves += 1;
                if moves == number {
                    take();
                }
            };
            let result = group.execute(&dir, Direction::Apply, group.not_begun(), &mut changed);
            // A foreign entry under a name of the cycle can block the way back, too.
            match result {
                Err(EntryFailure::Taken) => {
                    for (old, _) in &renames {
                        let content =
                            fs::read_to_string(temporary.path().join(OsStr::from_bytes(old))).unwrap();
                        assert_eq!(content, String::from_utf8_lossy(old), "{renames:?} {number}");
                    }
                }
                Err(EntryFailure::Stranded(_)) => {}
                other => panic!("{other:?}"),
            }
            let mut all: Vec<String> = contents(temporary.path()).into_values().collect();
            all.sort();
            let names = renames.iter().map(|(old, _)| String::from_utf8_lossy(old).into_owned());
            let mut expected: Vec<String> = names.chain(["a stranger".into()]).collect();
            expected.sort();
            assert_eq!(all, expected, "nothing is lost");
        }
    }
}

#[test]
fn an_entry_that_is_gone_or_replaced_stays() {
    let (temporary, dir) = filled(&[b"old", b"other"]);
    let group = group(&dir, &[(b"old", b"new")], None);
    fs::rename(temporary.path().join("old"), temporary.path().join("away")).unwrap();
    assert_eq!(group.progress(&dir), Ok(None));
    assert_eq!(group.execute(&dir, Direction::Apply, group.not_begun(), &mut || {}), Err(EntryFailure::Gone));
    fs::rename(temporary.path().join("other"), temporary.path().join("old")).unwrap();
    assert_eq!(
        group.execute(&dir, Direction::Apply, group.not_begun(), &mut || {}),
        Err(EntryFailure::Replaced)
    );
    assert_eq!(group.progress(&dir), Ok(None));
}

#[test]
fn hard_links_of_one_file_are_not_a_finished_rename() {
    let (temporary, dir) = filled(&[b"old"]);
    let group = group(&dir, &[(b"old", b"new")], None);
    fs::hard_link(temporary.path().join("old"), temporary.path().join("new")).unwrap();
    assert_eq!(moves_done(&group, &dir), Some(0));
    assert_eq!(
        group.execute(&dir, Direction::Apply, group.not_begun(), &mut || {}),
        Err(EntryFailure::Taken)
    );
    assert_eq!(contents(temporary.path()).len(), 2);
}
