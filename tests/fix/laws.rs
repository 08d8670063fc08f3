//! Laws, checked on random hostile trees.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use namegate_fix::apply::ApplyOptions;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::tree::{OPTIONS, Recorder, apply_plan, inventory, make_tree, names, plan, snapshot, undo_journal};
use namegate_testkit::random::Random;

/// A random name that is difficult to handle.
fn hostile(random: &mut Random) -> Vec<u8> {
    let parts: [&[u8]; 12] = [
        b"a",
        b"b",
        b"\xFF",
        b"\xE9",
        b"\n",
        b"\x1b[2J",
        b" ",
        b"-rf",
        b"..",
        "\u{202E}".as_bytes(),
        "é".as_bytes(),
        b"\\",
    ];
    let mut name = Vec::new();
    for _ in 0..=random.below(4) {
        name.extend_from_slice(parts[random.below(parts.len())]);
    }
    if random.chance(12) {
        name.resize(255, b'x');
    }
    if name == b".." { b"...".to_vec() } else { name }
}

/// Fills `dir` with random entries and adds their paths from the root to `all`.
fn fill(random: &mut Random, root: &Path, dir: &[u8], depth: usize, all: &mut Vec<Vec<u8>>) {
    let mut files = Vec::new();
    for _ in 0..random.below(8) {
        let name = hostile(random);
        let path = if dir.is_empty() { name.clone() } else { [dir, b"/", &name].concat() };
        let full = root.join(OsStr::from_bytes(&path));
        if fs::symlink_metadata(&full).is_ok() || path.len() > 3000 {
            continue;
        }
        match random.below(8) {
            0..=1 if depth < 4 => {
                fs::create_dir(&full).unwrap();
                fill(random, root, &path, depth + 1, all);
            }
            2 if !files.is_empty() => {
                let other: &Vec<u8> = &files[random.below(files.len())];
                fs::hard_link(root.join(OsStr::from_bytes(other)), &full).unwrap();
            }
            3 => mkfifo(&full, Mode::from_bits_truncate(0o600)).unwrap(),
            4..=5 if !all.is_empty() => {
                // The target is an entry below the directory of the link, if there is one.
                let below: Vec<&Vec<u8>> = all.iter().filter(|path| path.starts_with(dir)).collect();
                let target = match below.get(random.below(below.len().max(1))) {
                    Some(target) => {
                        target[dir.len()..].strip_prefix(b"/").unwrap_or(&target[dir.len()..]).to_vec()
                    }
                    None => b"nowhere".to_vec(),
                };
                if target.is_empty() || target.len() > 3000 {
                    continue;
                }
                symlink(OsStr::from_bytes(&target), &full).unwrap();
            }
            _ => {
                fs::write(&full, &path).unwrap();
                files.push(path.clone());
            }
        }
        all.push(path);
    }
}

/// New names for some of the entries: unused names, chains, swaps and longer cycles.
fn renames(random: &mut Random, all: &[Vec<u8>]) -> Vec<(Vec<u8>, String)> {
    let mut by_dir = BTreeMap::<&[u8], Vec<&[u8]>>::new();
    for path in all {
        let at = path.iter().rposition(|&byte| byte == b'/');
        let (dir, name) = at.map_or((&b""[..], &path[..]), |at| (&path[..at], &path[at + 1..]));
        by_dir.entry(dir).or_default().push(name);
    }
    let mut found = Vec::new();
    for (dir, names) in by_dir {
        let chosen: Vec<&[u8]> = names.iter().copied().filter(|_| !random.chance(3)).collect();
        // A new name can be the old name of another chosen entry, if that is UTF-8. No name is used twice.
        let mut texts: Vec<&str> = chosen.iter().filter_map(|name| std::str::from_utf8(name).ok()).collect();
        let mut used = HashSet::new();
        for (number, name) in chosen.into_iter().enumerate() {
            let new = match random.below(2) {
                0 if !texts.is_empty() => texts.swap_remove(random.below(texts.len())).to_owned(),
                _ => format!("new {number}"),
            };
            if new.as_bytes() != name && used.insert(new.clone()) {
                let path = if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() };
                found.push((path, new));
            }
        }
    }
    // An entry cannot get the name of an entry that keeps it.
    loop {
        let moved: HashSet<Vec<u8>> = found.iter().map(|(path, _)| path.clone()).collect();
        let before = found.len();
        found.retain(|(path, new)| {
            let dir = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            let target = [&path[..dir], new.as_bytes()].concat();
            moved.contains(&target) || !all.contains(&target)
        });
        if found.len() == before {
            return found;
        }
    }
}

#[test]
fn applying_and_undoing_restores_a_random_hostile_tree_byte_for_byte() {
    let (mut renamed, mut retargeted) = (0, 0);
    for seed in 0..120 {
        let mut random = Random(seed);
        let (dir, root) = make_tree(&[]);
        let mut all = Vec::new();
        fill(&mut random, &root, b"", 0, &mut all);
        let wanted = renames(&mut random, &all);
        let borrowed: Vec<(&[u8], &str)> = wanted.iter().map(|(path, new)| (&path[..], &new[..])).collect();
        let plan = plan(&root, &borrowed);
        let keep_times = random.chance(2);
        let options = ApplyOptions {
            keep_times,
            keep_original: random.chance(2),
            batch_size: 1 + random.below(5),
            ..OPTIONS
        };
        let before = snapshot(&root);
        let journal = dir.path().join("journal");
        let recorder = Recorder::default();
        let tally = apply_plan(&plan, &journal, options, &recorder).unwrap();
        assert_eq!(recorder.remaining(), [], "seed {seed}");
        assert_eq!(tally.renamed, plan.renames.len() as u64, "seed {seed}");
        assert_eq!(tally.retargeted, plan.retargets.len() as u64, "seed {seed}");
        let after = snapshot(&root);
        assert_eq!(inventory(&after), inventory(&before), "seed {seed}: nothing is lost");
        for (path, new) in &wanted {
            let entry = &before[path];
            let is_there = |(now, other): (&Vec<u8>, &crate::tree::Entry)| {
                let name = now.rsplit(|&byte| byte == b'/').next().unwrap();
                name == new.as_bytes()
                    && (other.ino == entry.ino || matches!(entry.what, crate::tree::EntryContent::Link(_)))
            };
            assert!(after.iter().any(is_there), "seed {seed}: {path:?} is not called {new}");
        }
        // A second run has nothing to do.
        let again = Recorder::default();
        let second = apply_plan(&plan, &dir.path().join("second"), options, &again).unwrap();
        assert_eq!((again.remaining(), second.renamed, second.retargeted), (Vec::new(), 0, 0), "seed {seed}");
        assert_eq!(second.already, tally.renamed + tally.retargeted);
        assert_eq!(snapshot(&root), after, "seed {seed}");
        // Undo.
        let back = Recorder::default();
        let undo_tally = undo_journal(&journal, &back).unwrap();
        assert_eq!((back.remaining(), undo_tally.remaining), (Vec::new(), 0), "seed {seed}");
        assert_eq!(undo_tally.restored, tally.renamed + tally.retargeted);
        let restored = snapshot(&root);
        assert_eq!(names(&restored), names(&before), "seed {seed}");
        for (path, entry) in &before {
            let is_directory = entry.what == crate::tree::EntryContent::Directory;
            if keep_times || !is_directory {
                assert_eq!(restored[path].mtime, entry.mtime, "seed {seed}: {path:?}");
            }
        }
        renamed += tally.renamed;
        retargeted += tally.retargeted;
        // Undoing what was undone changes nothing.
        undo_journal(&journal, &Recorder::default()).unwrap();
        assert_eq!(names(&snapshot(&root)), names(&before), "seed {seed}");
    }
    assert!(renamed > 500 && retargeted > 30, "too few changes to be a test: {renamed} {retargeted}");
}

#[test]
fn a_link_keeps_leading_to_its_target() {
    let lines: &[&[u8]] =
        &[b"d\xE9/", b"d\xE9/f\xFF", b"link -> d\xE9/f\xFF", b"absolute -> /nowhere", b"d\xE9/up -> f\xFF"];
    let (dir, root) = make_tree(lines);
    let plan =
        plan(&root, &[(b"d\xE9", "dé"), (b"d\xE9/f\xFF", "f"), (b"link", "Link"), (b"d\xE9/up", "Up")]);
    assert_eq!(plan.retargets.len(), 2);
    let before = snapshot(&root);
    let recorder = Recorder::default();
    let tally = apply_plan(&plan, &dir.path().join("journal"), OPTIONS, &recorder).unwrap();
    assert_eq!((recorder.remaining().len(), tally.renamed, tally.retargeted), (0, 4, 2));
    assert_eq!(fs::read(root.join("Link")).unwrap(), fs::read(root.join("dé/f")).unwrap());
    assert_eq!(fs::read(root.join("dé/Up")).unwrap(), fs::read(root.join("dé/f")).unwrap());
    undo_journal(&dir.path().join("journal"), &Recorder::default()).unwrap();
    assert_eq!(names(&snapshot(&root)), names(&before));
}

#[test]
fn entries_that_changed_after_the_plan_was_made_are_skipped_with_the_reason() {
    let lines: &[&[u8]] = &[
        b"gone",
        b"replaced",
        b"changed",
        b"taken",
        b"fine",
        b"swap1",
        b"swap2",
        b"d/",
        b"d/x",
        b"e/",
        b"e/x",
    ];
    let (dir, root) = make_tree(lines);
    let wanted: &[(&[u8], &str)] = &[
        (b"gone", "1"),
        (b"replaced", "2"),
        (b"changed", "3"),
        (b"taken", "4"),
        (b"fine", "5"),
        (b"swap1", "swap2"),
        (b"swap2", "swap1"),
        (b"d/x", "6"),
        (b"e/x", "7"),
        (b"e", "E"),
    ];
    let plan = plan(&root, wanted);
    fs::remove_file(root.join("gone")).unwrap();
    fs::rename(root.join("replaced"), root.join("elsewhere")).unwrap();
    fs::write(root.join("replaced"), "another").unwrap();
    fs::write(root.join("changed"), "new content").unwrap();
    fs::write(root.join("4"), "in the way").unwrap();
    fs::write(root.join("swap2"), "changed").unwrap();
    fs::rename(root.join("d"), root.join("elsewhere2")).unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("e/new"), "a directory changes whenever something in it does").unwrap();
    let before = snapshot(&root);
    let recorder = Recorder::default();
    let tally = apply_plan(&plan, &dir.path().join("journal"), OPTIONS, &recorder).unwrap();
    let left = recorder.remaining();
    let expected = [
        ("changed", "the entry was changed after the plan was made"),
        ("gone", "the name no longer exists"),
        ("replaced", "another entry has the name now"),
        ("swap1", "the entry was changed after the plan was made"),
        ("swap2", "the entry was changed after the plan was made"),
        ("taken", "4 exists and stays"),
        ("x", "its directory is not the one of the plan"),
    ];
    let expected: Vec<(Vec<u8>, String)> =
        expected.iter().map(|(old, reason)| (old.as_bytes().to_vec(), (*reason).to_owned())).collect();
    assert_eq!(left, expected);
    assert_eq!((tally.renamed, tally.remaining), (3, 7));
    assert_eq!(inventory(&snapshot(&root)), inventory(&before));
    assert_eq!(fs::read(root.join("E/7")).unwrap(), b"content of e/x");
    undo_journal(&dir.path().join("journal"), &Recorder::default()).unwrap();
    assert_eq!(names(&snapshot(&root)), names(&before));
}

#[test]
fn names_that_are_in_use_again_are_reported_and_nothing_is_overwritten() {
    let (dir, root) = make_tree(&[b"d\xE9/", b"d\xE9/a\xFF", b"b\xFF", b"c\xFF", b"s", b"t"]);
    let wanted: &[(&[u8], &str)] =
        &[(b"d\xE9", "d"), (b"d\xE9/a\xFF", "a"), (b"b\xFF", "b"), (b"c\xFF", "c"), (b"s", "t"), (b"t", "s")];
    let plan = plan(&root, wanted);
    let journal = dir.path().join("journal");
    let original = snapshot(&root);
    apply_plan(&plan, &journal, OPTIONS, &Recorder::default()).unwrap();
    // Another process uses an old name, removes an entry, and moves one of two entries that swapped names.
    fs::create_dir(root.join(OsStr::from_bytes(b"d\xE9"))).unwrap();
    fs::remove_file(root.join("b")).unwrap();
    fs::rename(root.join("s"), root.join("moved away")).unwrap();
    let before = snapshot(&root);
    let recorder = Recorder::default();
    let tally = undo_journal(&journal, &recorder).unwrap();
    let left = recorder.remaining();
    let expected = [
        (&b"b"[..], "the name no longer exists"),
        (b"d", "the new name is taken"),
        (b"s", "the name no longer exists"),
        (b"t", "the name no longer exists"),
    ];
    let expected: Vec<(Vec<u8>, String)> =
        expected.iter().map(|(old, reason)| (old.to_vec(), (*reason).to_owned())).collect();
    assert_eq!((left, tally.remaining), (expected, 4));
    let after = snapshot(&root);
    assert_eq!(inventory(&after), inventory(&before), "nothing is lost");
    assert!(after.contains_key(&b"d/a\xFF"[..]), "also below a directory that keeps its new name");
    assert!(after.contains_key(&b"c\xFF"[..]));
    // When the obstacles are gone, the undo can be repeated.
    fs::remove_dir(root.join(OsStr::from_bytes(b"d\xE9"))).unwrap();
    fs::rename(root.join("moved away"), root.join("s")).unwrap();
    let tally = undo_journal(&journal, &Recorder::default()).unwrap();
    assert_eq!(tally.remaining, 1);
    let mut expected = names(&original);
    expected.remove(&b"b\xFF"[..]);
    assert_eq!(names(&snapshot(&root)), expected);
}
