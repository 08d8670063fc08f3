//! `namegate scan --git-all`, against what git was given.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use data_encoding::HEXLOWER;
use serde_json::Value;

use crate::git::{
    commit, errors, findings, found, git, is_ill_formed, listed, object, path_of, repository, scan, tree,
};
use namegate_testkit::program::namegate;

/// Entries of a branch while its history is made up.
type Files = BTreeSet<Vec<u8>>;

/// Every path of `files`, directories included, whose last component is not UTF-8.
fn ill_formed_of(files: &Files) -> BTreeSet<Vec<u8>> {
    let joined: Vec<u8> = files.iter().flat_map(|path| [path, &b"\0"[..]].concat()).collect();
    listed(&joined).into_iter().filter(|path| is_ill_formed(path)).collect()
}

/// Adds a file as git does: what is in its way goes.
fn add_file(files: &mut Files, path: &[u8]) {
    let below = [path, b"/"].concat();
    files.retain(|other| !other.starts_with(&below) && !path.starts_with(&[other, &b"/"[..]].concat()));
    files.insert(path.to_vec());
}

#[test]
fn the_names_of_thousands_of_commits_are_those_that_git_was_given() {
    const COMMITS: usize = 5000;
    let Some(dir) = repository(&["--bare"]) else { return };
    let dir = dir.path();
    let paths: Vec<Vec<u8>> = [&b""[..], b"d1\xFF/", b"d2\xFF/", b"d2\xFF/e\xFF/", b"d3/"]
        .iter()
        .flat_map(|dir| (0..6).map(move |n| [dir, &b"n\xFF"[..], n.to_string().as_bytes()].concat()))
        .chain([b"d1\xFF".to_vec(), b"d2\xFF/e\xFF".to_vec(), b"d1\xFF.x".to_vec(), b"d3".to_vec()])
        .collect();
    let quoted = |path: &[u8]| -> String {
        path.iter()
            .map(|b| if b.is_ascii() { char::from(*b).to_string() } else { format!("\\{b:03o}") })
            .collect()
    };
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut branches: Vec<(Files, usize)> = vec![(Files::new(), 0); 4];
    let (mut made, mut stream) = (Vec::new(), Vec::new());
    for mark in 1..=COMMITS {
        let (at, other) = (random(4), random(4));
        // Neither are dates in the order of parents, nor are they all different.
        let time = 1_700_000_000 + mark / 2 + random(100);
        write!(
            stream,
            "commit refs/heads/b{at}\nmark :{mark}\ncommitter A <a@example.org> {time} +0000\ndata 0\n"
        )
        .unwrap();
        if branches[at].1 > 0 {
            writeln!(stream, "from :{}", branches[at].1).unwrap();
        }
        if other != at && branches[other].1 > 0 && random(5) == 0 {
            writeln!(stream, "merge :{}", branches[other].1).unwrap();
        }
        for _ in 0..=random(2) {
            let path = &paths[random(paths.len())];
            let files = &mut branches[at].0;
            match random(3) {
                0 => {
                    let below = [path, &b"/"[..]].concat();
                    if files.remove(path) || files.iter().any(|other| other.starts_with(&below)) {
                        files.retain(|other| !other.starts_with(&below));
                        writeln!(stream, "D \"{}\"", quoted(path)).unwrap();
                    }
                }
                content => {
                    add_file(files, path);
                    writeln!(stream, "M 100644 inline \"{}\"\ndata 1\n{content}", quoted(path)).unwrap();
                }
            }
        }
        branches[at].1 = mark;
        made.push((time, mark, ill_formed_of(&branches[at].0)));
    }
    git(dir, &["fast-import", "--quiet", "--export-marks=marks"], &stream).unwrap();
    let marks = fs::read_to_string(dir.join("marks")).unwrap();
    let ids: BTreeMap<usize, &str> = marks
        .lines()
        .map(|line| line[1..].split_once(' ').unwrap())
        .map(|(mark, id)| (mark.parse().unwrap(), id))
        .collect();
    // What was made up is what git has.
    for (_, mark, names) in made.iter().step_by(COMMITS / 20) {
        let listing = git(dir, &["ls-tree", "-rz", "--name-only", ids[mark]], b"").unwrap();
        let expected: BTreeSet<_> = listed(&listing).into_iter().filter(|path| is_ill_formed(path)).collect();
        assert_eq!(*names, expected);
    }
    let mut expected: BTreeMap<Vec<u8>, [(usize, &str); 2]> = BTreeMap::new();
    for (time, mark, names) in made {
        for name in names {
            let commit = (time, ids[&mark]);
            let [first, last] = expected.entry(name).or_insert([commit; 2]);
            (*first, *last) = (commit.min(*first), commit.max(*last));
        }
    }
    let (status, objects) = scan(dir, &["--git-all", "--profile", "utf8"]);
    assert_eq!((status, errors(&objects)), (1, vec![]));
    let told: BTreeMap<Vec<u8>, [&str; 2]> = findings(&objects)
        .map(|f| (path_of(f), ["first_commit", "last_commit"].map(|key| f[key].as_str().unwrap())))
        .collect();
    assert_eq!(told, expected.into_iter().map(|(name, commits)| (name, commits.map(|(_, id)| id))).collect());
    assert_eq!(findings(&objects).count(), told.len());
}

#[test]
fn names_collide_only_if_a_commit_has_them_together() {
    let Some(dir) = repository(&["--bare"]) else { return };
    let dir = dir.path();
    let file = object(dir, "blob", b"");
    let make = |names: &[&'static str]| {
        let entries: Vec<_> = names.iter().map(|name| ("100644", name.as_bytes(), file.as_str())).collect();
        tree(dir, &entries)
    };
    let mut parent: Option<String> = None;
    for (time, names) in
        (1..).zip([&["A", "ok"][..], &["a", "ok"], &["B", "b"], &["A", "B"], &["C", "b", "c"]])
    {
        let parents: Vec<&str> = parent.iter().map(String::as_str).collect();
        parent = Some(commit(dir, &make(names), &parents, time));
    }
    let (status, objects) = scan(dir, &["--git-all", "--profile", "windows"]);
    assert_eq!(status, 1);
    let members: BTreeSet<Vec<&str>> = objects
        .iter()
        .filter(|object| object["type"] == "collision")
        .map(|group| {
            group["members"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect()
        })
        .collect();
    assert_eq!(members, BTreeSet::from([vec!["B", "b"], vec!["C", "c"]]));
    let names: BTreeSet<Vec<u8>> = [&b"B"[..], b"b", b"C", b"c"].map(<[u8]>::to_vec).into();
    assert_eq!(found(&objects), names, "`A` and `a` were never there together");
    assert_eq!(objects.last().unwrap()["names"], 7);
}

/// A tree with two entries of one name, or out of order, or cut off, is damaged or not; its other entries are checked.
#[test]
fn damaged_versions_of_a_directory_do_not_hide_the_others() {
    let Some(dir) = repository(&["--bare"]) else { return };
    let dir = dir.path();
    let file = object(dir, "blob", b"");
    let sub = tree(dir, &[("100644", b"in\xFF", &file)]);
    let entry = |name: &'static [u8]| ("100644", name, file.as_str());
    let whole = tree(dir, &[entry(b"a\xFF"), entry(b"b")]);
    let unsorted = tree(dir, &[entry(b"z\xFF"), entry(b"b"), entry(b"a\xFF")]);
    let twice = tree(dir, &[entry(b"d"), entry(b"d.x\xFF"), ("40000", b"d", &sub)]);
    let id = HEXLOWER.decode(file.as_bytes()).unwrap();
    let cut = object(dir, "tree", &[&b"100644 a\xFF\0"[..], &id, b"100644 c\xFF\0", &id[..9]].concat());
    let mut parent: Option<String> = None;
    for (time, tree) in (1..).zip([&whole, &unsorted, &whole, &twice, &whole, &cut, &whole]) {
        let parents: Vec<&str> = parent.iter().map(String::as_str).collect();
        parent = Some(commit(dir, tree, &parents, time));
    }
    let (status, objects) = scan(dir, &["--git-all", "--profile", "utf8"]);
    assert_eq!(status, 2);
    let mut told = errors(&objects);
    told.sort_by_key(|error| !error.contains("two entries with the same name"));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains(&twice)
            && told[1].contains(&format!("{cut} is damaged: the entry at byte 30 is malformed")),
        "{told:?}"
    );
    let mut names = found(&objects);
    // Of two entries of one name either may be read.
    names.remove(&b"d/in\xFF"[..]);
    assert_eq!(names, [&b"a\xFF"[..], b"d.x\xFF", b"z\xFF"].map(<[u8]>::to_vec).into());
}

/// Objects are read from packs directly, and from everywhere else by the repository.
#[test]
fn objects_of_a_history_are_found_in_packs_and_beside_them_and_replaced_ones_are_not_read() {
    for format in ["--object-format=sha1", "--object-format=sha256"] {
        let Some(origin) = repository(&["--bare", format]) else { return };
        let dir = origin.path();
        let file = object(dir, "blob", b"");
        let with = |name: &[u8]| {
            let names: Vec<String> = (0..50).map(|n| format!("a file {n}")).collect();
            let mut entries: Vec<_> = names.iter().map(|n| ("100644", n.as_bytes(), file.as_str())).collect();
            entries.push(("100644", name, &file));
            entries.sort_unstable();
            tree(dir, &entries)
        };
        let trees = [&b"one\xFF"[..], b"two\xFF", b"three\xFF"].map(with);
        let first = commit(dir, &trees[0], &[], 1);
        let second = commit(dir, &trees[1], &[&first], 2);
        git(dir, &["repack", "-adq"], b"").unwrap();
        let third = commit(dir, &trees[2], &[&second], 3);
        git(dir, &["repack", "-dq"], b"").unwrap();
        let clone = tempfile::tempdir().unwrap();
        let clone = clone.path();
        git(clone, &["clone", "-q", "--bare", "--shared", dir.to_str().unwrap(), "."], b"").unwrap();
        let sub = tree(clone, &[("100644", b"in\xFF", &file)]);
        let beside = tree(clone, &[("40000", b"sub", &sub)]);
        let fourth = commit(clone, &beside, &[&third], 4);
        let names = |objects: &[Value]| -> BTreeMap<Vec<u8>, [String; 2]> {
            let ids =
                |f: &Value| ["first_commit", "last_commit"].map(|key| f[key].as_str().unwrap().to_owned());
            findings(objects).map(|f| (path_of(f), ids(f))).collect()
        };
        let (status, objects) = scan(clone, &["--git-all", "--profile", "utf8"]);
        assert_eq!((status, errors(&objects)), (1, vec![]), "{format}");
        let mut expected = BTreeMap::from([
            (b"one\xFF".to_vec(), [first.clone(), first.clone()]),
            (b"two\xFF".to_vec(), [second.clone(), second.clone()]),
            (b"three\xFF".to_vec(), [third.clone(), third.clone()]),
            (b"sub/in\xFF".to_vec(), [fourth.clone(), fourth]),
        ]);
        assert_eq!(names(&objects), expected, "{format}");

        // git shows the tree of the third commit as that of the second.
        git(clone, &["replace", &trees[1], &trees[2]], b"").unwrap();
        let shown = git(clone, &["ls-tree", "-rz", "--name-only", &second], b"").unwrap();
        assert!(listed(&shown).contains(&b"three\xFF"[..]) && !listed(&shown).contains(&b"two\xFF"[..]));
        expected.remove(&b"two\xFF"[..]);
        let (_, objects) = scan(clone, &["--git-all", "--profile", "utf8"]);
        let mut found = names(&objects);
        // The ref of a replacement leads to it: the tree is in the history without a commit, too.
        let three = found.remove(&b"three\xFF"[..]).unwrap();
        expected.remove(&b"three\xFF"[..]);
        assert_eq!((found, three[1].as_str()), (expected, third.as_str()), "{format}");
    }
}

#[test]
fn a_damaged_object_in_a_pack_is_reported_with_its_id() {
    let Some(dir) = repository(&["--bare"]) else { return };
    let dir = dir.path();
    let file = object(dir, "blob", b"");
    let damaged = tree(dir, &[("100644", b"in\xFF", &file)]);
    let top = tree(dir, &[("100644", b"beside\xFF", &file), ("40000", b"sub", &damaged)]);
    commit(dir, &top, &[], 1);
    git(dir, &["repack", "-adq"], b"").unwrap();
    let packs: Vec<_> = fs::read_dir(dir.join("objects/pack")).unwrap().map(|e| e.unwrap().path()).collect();
    let pack = packs.iter().find(|path| path.extension().is_some_and(|ext| ext == "pack")).unwrap();
    let index = fs::read(pack.with_extension("idx")).unwrap();
    let entries = String::from_utf8(git(dir, &["show-index"], &index).unwrap()).unwrap();
    let line = entries.lines().find(|line| line.contains(&damaged)).unwrap();
    let offset: usize = line.split(' ').next().unwrap().parse().unwrap();
    let mut bytes = fs::read(pack).unwrap();
    bytes[offset + 2..offset + 12].fill(0xFF);
    fs::remove_file(pack).unwrap();
    fs::write(pack, bytes).unwrap();
    let (status, objects) = scan(dir, &["--git-all", "--profile", "utf8"]);
    assert_eq!((status, errors(&objects).len(), found(&objects)), (2, 1, [b"beside\xFF".to_vec()].into()));
    assert!(errors(&objects)[0].contains(&format!("the object {damaged} is damaged")), "{objects:?}");
}

/// A chain of trees, each of which has the next one by all names.
fn chain(dir: &Path, levels: usize, names: &[Vec<u8>]) {
    let mut next = tree(dir, &[("100644", b"file\xFF", &object(dir, "blob", b""))]);
    for _ in 0..levels {
        let entries: Vec<_> = names.iter().map(|name| ("40000", &name[..], next.as_str())).collect();
        next = tree(dir, &entries);
    }
    commit(dir, &next, &[], 1);
}

#[test]
fn a_tree_that_contains_itself_twice_many_levels_deep_takes_little_memory() {
    const FINDINGS: usize = 20_000;
    let Some(dir) = repository(&["--bare"]) else { return };
    chain(dir.path(), 41, &[b"a\xFF".to_vec(), b"b\xFF".to_vec()]);
    let mut child = namegate()
        .args(["scan", "--format", "json", "--git-all", "--git"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let findings = BufReader::new(child.stdout.take().unwrap()).lines().take(FINDINGS).count();
    let memory = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(findings, FINDINGS);
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    assert!(kib < 120 << 10, "{kib} KiB after {FINDINGS} findings");
}

#[test]
fn long_paths_of_a_tree_that_contains_itself_are_bounded_and_reported() {
    let Some(dir) = repository(&["--bare"]) else { return };
    let names: Vec<Vec<u8>> = (b'a'..b'i').map(|first| [&[first][..], &[b'x'; 1500]].concat()).collect();
    chain(dir.path(), 41, &names);
    let (status, objects) = scan(dir.path(), &["--git-all"]);
    assert_eq!(status, 2);
    let errors = errors(&objects);
    assert!(errors.iter().all(|error| error.contains("was not checked in all its places")), "{errors:?}");
    let summary = objects.last().unwrap();
    assert!((500..5000).contains(&summary["directories"].as_u64().unwrap()), "{summary}");
}
