//! `namegate scan --git`, against what git itself lists.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use data_encoding::{BASE64, HEXLOWER};
use namegate_testkit::program::{namegate, status, stderr, stdout};
use serde_json::Value;

/// git without the configuration of whoever runs the test; `None` where there is no git.
pub fn git(dir: &Path, args: &[&str], stdin: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["-c", "init.defaultBranch=main", "-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(["-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", "-c", "commit.gpgSign=false"])
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).unwrap().trim().to_owned()
}

/// An object made of bytes, whatever git thinks of it; its id.
pub fn object(dir: &Path, kind: &str, bytes: &[u8]) -> String {
    text(git(dir, &["hash-object", "-t", kind, "-w", "--stdin", "--literally"], bytes).unwrap())
}

/// A tree of entries (mode, name, id).
pub fn tree(dir: &Path, entries: &[(&str, &[u8], &str)]) -> String {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend([mode.as_bytes(), b" ", name, b"\0"].concat());
        bytes.extend(HEXLOWER.decode(id.as_bytes()).unwrap());
    }
    object(dir, "tree", &bytes)
}

/// A commit of a tree at a time, on the branch `main`.
pub fn commit(dir: &Path, tree: &str, parents: &[&str], time: u64) -> String {
    let mut bytes = format!("tree {tree}\n");
    for parent in parents {
        bytes += &format!("parent {parent}\n");
    }
    let who = format!("A <a@example.org> {time} +0000");
    bytes += &format!("author {who}\ncommitter {who}\n\nx\n");
    let id = object(dir, "commit", bytes.as_bytes());
    git(dir, &["update-ref", "refs/heads/main", &id], b"").unwrap();
    id
}

/// A new repository; `None` where there is no git.
pub fn repository(args: &[&str]) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    let made = git(dir.path(), &[&["init", "-q"], args].concat(), b"");
    if made.is_none() {
        println!("SKIPPED: git does not run, so its repositories cannot be made");
    }
    made.map(|_| dir)
}

pub fn scan(repository: &Path, more: &[&str]) -> (i32, Vec<Value>) {
    let mut command = namegate();
    let output =
        command.args(["scan", "--format", "json", "--git"]).arg(repository).args(more).output().unwrap();
    (status(&output), stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

pub fn findings(objects: &[Value]) -> impl Iterator<Item = &Value> {
    objects.iter().filter(|object| object["type"] == "finding")
}

pub fn path_of(finding: &Value) -> Vec<u8> {
    BASE64.decode(finding["path_base64"].as_str().unwrap().as_bytes()).unwrap()
}

pub fn found(objects: &[Value]) -> BTreeSet<Vec<u8>> {
    findings(objects).map(path_of).collect()
}

fn rules(finding: &Value) -> Vec<&str> {
    finding["violations"].as_array().unwrap().iter().map(|v| v["rule"].as_str().unwrap()).collect()
}

pub fn errors(objects: &[Value]) -> Vec<&str> {
    objects.iter().filter(|o| o["type"] == "error").map(|o| o["message"].as_str().unwrap()).collect()
}

/// Every path of `git ls-tree`'s or `ls-files`' output, and every directory on the way.
pub fn listed(output: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut all = BTreeSet::new();
    for path in output.split(|&b| b == 0).filter(|path| !path.is_empty()) {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).chain([path.len()]);
        all.extend(ends.map(|end| path[..end].to_vec()));
    }
    all
}

pub fn is_ill_formed(path: &[u8]) -> bool {
    std::str::from_utf8(path.rsplit(|&b| b == b'/').next().unwrap()).is_err()
}

/// Names of every kind that a Linux directory can hold, in a work tree.
fn fill(dir: &Path) {
    for name in [
        &b"ok"[..],
        b"caf\xE9",
        b"a\nb",
        b"d\xFF/e\x80",
        b"d\xFF/f/ok",
        b"sub/README",
        b"sub/Readme",
        b"x/y/z\xC0\xAF",
    ] {
        let path = dir.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
}

#[test]
fn a_revision_and_the_index_hold_the_names_that_git_lists() {
    for format in ["sha1", "sha256"] {
        let Some(dir) = repository(&["--object-format", format]) else { return };
        let dir = dir.path();
        fill(dir);
        git(dir, &["add", "-A"], b"").unwrap();
        git(dir, &["commit", "-qm", "x"], b"").unwrap();
        git(dir, &["repack", "-adq"], b"").unwrap();
        fs::write(dir.join(OsStr::from_bytes(b"staged\xFE")), "").unwrap();
        git(dir, &["add", "-A"], b"").unwrap();
        let profile = ["--profile", "utf8"];
        for (args, oracle) in [
            (&["--rev", "main"][..], &["ls-tree", "-rz", "--name-only", "main"][..]),
            (&["--git-index"], &["ls-files", "-z"]),
            (&["--git-all"], &["ls-tree", "-rz", "--name-only", "HEAD"]),
        ] {
            let all = listed(&git(dir, oracle, b"").unwrap());
            let (status, objects) = scan(dir, &[args, &profile[..]].concat());
            let bad: BTreeSet<Vec<u8>> = all.iter().filter(|path| is_ill_formed(path)).cloned().collect();
            assert_eq!(found(&objects), bad, "{format} {args:?}");
            assert_eq!(
                (status, objects.last().unwrap()["names"].as_u64()),
                (1, Some(all.len() as u64)),
                "{args:?}"
            );
            let first = findings(&objects).next().unwrap();
            assert_eq!(first["source"], "git");
            assert_eq!(first["container"], dir.to_str().unwrap());
        }
        let (_, objects) = scan(dir, &["--profile", "windows"]);
        let both = [b"sub/README".to_vec(), b"sub/Readme".to_vec()];
        assert!(found(&objects).is_superset(&BTreeSet::from(both)), "collisions are found per tree");
        let bare = tempfile::tempdir().unwrap();
        git(bare.path(), &["clone", "-q", "--bare", dir.to_str().unwrap(), "r.git"], b"").unwrap();
        let (_, of_bare) = scan(&bare.path().join("r.git"), &["--profile", "windows"]);
        assert_eq!(found(&of_bare), found(&objects), "a bare repository holds the same");
    }
}

#[test]
fn names_that_no_checkout_could_hold_are_found_where_they_stand() {
    let Some(dir) = repository(&["--bare"]) else { return };
    let dir = dir.path();
    let file = object(dir, "blob", b"");
    let inner =
        tree(dir, &[("100644", b".git", &file), ("100644", b"a/b", &file), ("160000", b"module\xFF", &file)]);
    let top = tree(
        dir,
        &[
            ("40000", b"", &inner),
            ("40000", b".", &inner),
            ("40000", b"..", &inner),
            ("40000", b"good", &inner),
            ("120000", b"link\x80", &file),
        ],
    );
    commit(dir, &top, &[], 1);
    let (status, objects) = scan(dir, &["--profile", "utf8"]);
    assert_eq!((status, errors(&objects).len()), (1, 0), "{objects:#?}");
    let told: Vec<(Vec<u8>, Vec<&str>)> = findings(&objects)
        .map(|f| (HEXLOWER.decode(f["name_hex"].as_str().unwrap().as_bytes()).unwrap(), rules(f)))
        .collect();
    for (name, rule, count) in [
        (&b""[..], "empty-name", 1),
        (b".", "dot-name", 1),
        (b"..", "dot-name", 1),
        (b".git", "dot-git-lookalike", 4),
        (b"a/b", "separator-smuggling", 4),
        (b"module\xFF", "invalid-octet", 4),
        (b"link\x80", "unexpected-continuation", 1),
    ] {
        let same = told.iter().filter(|(found, rules)| found == name && rules[..] == [rule]);
        assert_eq!(same.count(), count, "{name:?} {told:?}");
    }
    assert_eq!(told.len(), 16);
}

#[test]
fn a_name_that_is_bad_only_where_it_stands_is_found_among_good_ones() {
    let Some(dir) = repository(&["--bare"]) else { return };
    let dir = dir.path();
    let file = object(dir, "blob", b"");
    let top = tree(dir, &[("100644", b".git", &file), ("100644", b"good", &file)]);
    commit(dir, &top, &[], 1);
    let (status, objects) = scan(dir, &["--profile", "utf8"]);
    let told: Vec<_> = findings(&objects).map(|f| (&f["name_hex"], rules(f))).collect();
    assert_eq!((status, told), (1, vec![(&HEXLOWER.encode(b".git").into(), vec!["dot-git-lookalike"])]));
}

#[test]
fn each_name_of_a_history_is_told_once_with_its_first_and_its_last_commit() {
    let Some(dir) = repository(&[]) else { return };
    let dir = dir.path();
    let file = object(dir, "blob", b"");
    let other = object(dir, "blob", b"other");
    let entry = |name: &'static [u8], id: &str| ("100644", name, id.to_owned());
    let make = |entries: &[(&str, &[u8], String)]| {
        let entries: Vec<(&str, &[u8], &str)> =
            entries.iter().map(|(m, n, i)| (*m, *n, i.as_str())).collect();
        tree(dir, &entries)
    };
    let early = make(&[entry(b"bad\xFF", &file), entry(b"ok", &file)]);
    let changed = make(&[entry(b"bad\xFF", &other), entry(b"ok", &file)]);
    let without = make(&[entry(b"README", &file), entry(b"ok", &file)]);
    let twins = make(&[entry(b"README", &file), entry(b"Readme", &file)]);
    let sub = |id: &str| make(&[("40000", b"sub", id.to_owned())]);
    let commits: Vec<String> = [sub(&early), sub(&changed), sub(&early), sub(&without), sub(&twins)]
        .iter()
        .zip(1..)
        .scan(None, |parent: &mut Option<String>, (tree, time)| {
            let id = commit(dir, tree, &parent.iter().map(String::as_str).collect::<Vec<_>>(), time);
            Some(parent.insert(id).clone())
        })
        .collect();
    // A side branch, named by a tag alone.
    let side = commit(dir, &sub(&early), &[&commits[0]], 9);
    git(dir, &["tag", "side", &side], b"").unwrap();
    git(dir, &["update-ref", "refs/heads/main", &commits[4]], b"").unwrap();
    let (status, objects) = scan(dir, &["--git-all", "--profile", "windows"]);
    assert_eq!(status, 1);
    let told: BTreeSet<(Vec<u8>, String, String)> = findings(&objects)
        .map(|f| {
            let id = |key: &str| f[key].as_str().unwrap().to_owned();
            (path_of(f), id("first_commit"), id("last_commit"))
        })
        .collect();
    let expected = [
        (b"sub/bad\xFF".to_vec(), commits[0].clone(), side),
        (b"sub/README".to_vec(), commits[3].clone(), commits[4].clone()),
        (b"sub/Readme".to_vec(), commits[4].clone(), commits[4].clone()),
    ];
    assert_eq!(told, BTreeSet::from(expected));
    assert_eq!(findings(&objects).count(), 3);
    let summary = objects.last().unwrap();
    assert_eq!(
        (&summary["names"], &summary["directories"], &summary["findings"]),
        (&5.into(), &2.into(), &3.into())
    );

    // Known findings are met in many versions of their directory, and are one each.
    let known = dir.join("known.jsonl");
    let args = ["--git-all", "--profile", "windows"];
    let written = scan(dir, &[&args[..], &["--write-baseline", known.to_str().unwrap()]].concat());
    // The first line says what the file is.
    let entries = fs::read_to_string(&known).unwrap().lines().count() - 1;
    fs::write(
        &known,
        fs::read_to_string(&known).unwrap() + "{\"path\":\"gone\",\"rule\":\"trailing-dot\"}\n",
    )
    .unwrap();
    let (status, objects) = scan(dir, &[&args[..], &["--baseline", known.to_str().unwrap()]].concat());
    assert_eq!((written.0, status, findings(&objects).count()), (1, 0, 0));
    let summary = objects.last().unwrap();
    assert_eq!((&summary["baseline_accepted"], &summary["baseline_stale"]), (&entries.into(), &1.into()));
}

#[test]
fn what_is_missing_or_damaged_is_trouble_and_the_rest_is_checked() {
    let Some(origin) = repository(&[]) else { return };
    let dir = origin.path();
    fill(dir);
    git(dir, &["add", "-A"], b"").unwrap();
    git(dir, &["commit", "-qm", "one"], b"").unwrap();
    fs::write(dir.join("more"), "").unwrap();
    git(dir, &["add", "-A"], b"").unwrap();
    git(dir, &["commit", "-qm", "two"], b"").unwrap();
    let shallow = tempfile::tempdir().unwrap();
    let from = format!("file://{}", dir.display());
    git(shallow.path(), &["clone", "-q", "--depth", "1", &from, "r"], b"").unwrap();
    let (status_of_all, objects) = scan(&shallow.path().join("r"), &["--git-all", "--profile", "utf8"]);
    assert_eq!(status_of_all, 2);
    assert!(errors(&objects)[0].contains("it is a shallow clone"), "{:?}", errors(&objects));
    assert_eq!(found(&objects).len(), 4);
    assert_eq!(scan(&shallow.path().join("r"), &["--profile", "utf8"]).0, 1, "HEAD is whole");

    let sub = text(git(dir, &["rev-parse", "HEAD:x"], b"").unwrap());
    let lost = dir.join(".git/objects").join(&sub[..2]).join(&sub[2..]);
    fs::remove_file(&lost).unwrap();
    for args in [&[][..], &["--git-all"]] {
        let (status, objects) = scan(dir, &[args, &["--profile", "utf8"]].concat());
        assert_eq!((status, errors(&objects).len(), found(&objects).len()), (2, 1, 3), "{objects:#?}");
        assert!(errors(&objects)[0].contains(&format!("the object {sub} is missing")));
    }
    fs::write(&lost, "no object").unwrap();
    let (status, objects) = scan(dir, &["--profile", "utf8"]);
    assert_eq!((status, found(&objects).len()), (2, 3));
    assert!(errors(&objects)[0].contains("is damaged"), "{:?}", errors(&objects));

    let file = object(dir, "blob", b"");
    let mut cut = [b"100644 a\xFF\0", &HEXLOWER.decode(file.as_bytes()).unwrap()[..]].concat();
    cut.extend(b"100644 b");
    let cut = object(dir, "tree", &cut);
    commit(dir, &cut, &[], 3);
    let (status, objects) = scan(dir, &["--profile", "utf8"]);
    assert_eq!((status, found(&objects)), (2, BTreeSet::from([b"a\xFF".to_vec()])));

    for (path, revision) in [("nowhere", "HEAD"), (dir.to_str().unwrap(), "no-such-branch")] {
        let (status, objects) = scan(Path::new(path), &["--rev", revision]);
        assert_eq!((status, errors(&objects).len()), (2, 1));
    }
}

#[test]
fn directories_of_the_same_directory_many_times_over_end() {
    let Some(dir) = repository(&["--bare"]) else { return };
    let dir = dir.path();
    let leaf = tree(dir, &[("100644", b"bad\xFF", &object(dir, "blob", b""))]);
    let names: Vec<String> = (0..300).map(|n| format!("{n:03}")).collect();
    let many = |id: &str| tree(dir, &names.iter().map(|n| ("40000", n.as_bytes(), id)).collect::<Vec<_>>());
    let id = many(&many(&leaf));
    commit(dir, &id, &[], 1);
    let output =
        namegate().args(["scan", "--quiet", "--profile", "utf8", "--git"]).arg(dir).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("it is in more than 65536"), "{}", stderr(&output));
}

#[test]
fn only_what_a_base_does_not_have_is_checked_and_collides_with_what_it_has() {
    let Some(dir) = repository(&[]) else { return };
    let dir = dir.path();
    fill(dir);
    git(dir, &["add", "-A"], b"").unwrap();
    git(dir, &["commit", "-qm", "old"], b"").unwrap();
    for name in [&b"x/y/new\xFF"[..], b"OK", b"fresh/CON.txt", b"x/fine"] {
        let path = dir.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    git(dir, &["add", "-A"], b"").unwrap();
    let expected = BTreeSet::from([b"x/y/new\xFF".to_vec(), b"OK".to_vec(), b"fresh/CON.txt".to_vec()]);
    let index = scan(dir, &["--git-index", "--git-base", "HEAD", "--profile", "windows"]).1;
    assert_eq!(found(&index), expected);
    git(dir, &["commit", "-qm", "new"], b"").unwrap();
    let (status, revision) = scan(dir, &["--rev", "HEAD", "--git-base", "HEAD~1", "--profile", "windows"]);
    assert_eq!((found(&revision), status), (expected, 1));
    for objects in [index, revision] {
        assert_eq!(objects.last().unwrap()["names"], 5, "fresh is a name too");
        let twin = findings(&objects).find(|f| path_of(f) == b"OK").unwrap();
        assert!(twin["violations"][0]["message"].as_str().unwrap().contains("`ok`"), "{twin}");
    }
}
