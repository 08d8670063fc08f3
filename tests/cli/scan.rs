//! `namegate scan` on real trees with hostile names.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use data_encoding::{BASE64, HEXLOWER};
use namegate_testkit::program::{namegate, run, status, stderr, stdout};
use serde_json::Value;

/// Names of every kind that a Linux directory can hold.
const NAMES: &[&[u8]] = &[
    b"plain.txt",
    "café.txt".as_bytes(),
    "cafe\u{301}.txt".as_bytes(),
    b"caf\xE9.txt",
    b"na\xEFve r\xE9sum\xE9.doc",
    b"..\xC0\xAF..\xC0\xAFetc",
    b"nul\xC0\x80",
    b"\xED\xA0\x80",
    b"\xED\xA1\x8C\xED\xBE\xB4",
    b"\xF4\x90\x80\x80",
    b"\xF8\x88\x80\x80\x80",
    b"\xFE\xFF",
    b"\x80",
    b"line\nfeed",
    b"esc\x1B[31m",
    "gnp.\u{202E}exe".as_bytes(),
    b"trailing ",
    b"-rf",
    b"CON.txt",
    b"README",
    b"readme",
    "\u{1F600}".as_bytes(),
];

/// A tree with all of them at two depths.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for sub in
        [dir.path().to_path_buf(), dir.path().join("sub"), dir.path().join(OsStr::from_bytes(b"sub/b\xE4d"))]
    {
        fs::create_dir_all(&sub).unwrap();
        for name in NAMES {
            File::create(sub.join(OsStr::from_bytes(name))).unwrap();
        }
    }
    dir
}

/// Every path below `dir`, by the standard library alone.
fn paths(dir: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path().as_os_str().as_bytes().to_vec());
        if entry.file_type().unwrap().is_dir() {
            found.extend(paths(&entry.path()));
        }
    }
    found
}

/// The objects of a run in JSON.
fn objects(output: &std::process::Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn json(path: &Path, more: &[&str]) -> (i32, Vec<Value>) {
    let output = namegate().arg("scan").arg(path).args(["--format", "json"]).args(more).output().unwrap();
    (status(&output), objects(&output))
}

fn path_of(finding: &Value) -> Vec<u8> {
    BASE64.decode(finding["path_base64"].as_str().unwrap().as_bytes()).unwrap()
}

fn findings(objects: &[Value]) -> impl Iterator<Item = &Value> {
    objects.iter().filter(|object| object["type"] == "finding")
}

#[test]
fn under_utf8_exactly_the_names_are_found_that_std_refuses() {
    let dir = tree();
    let bad = |path: &Vec<u8>| std::str::from_utf8(path.rsplit(|&b| b == b'/').next().unwrap()).is_err();
    let all = paths(dir.path());
    let expected: BTreeSet<Vec<u8>> = all.iter().filter(|path| bad(path)).cloned().collect();
    for jobs in ["1", "2", "8"] {
        let (status, objects) = json(dir.path(), &["--profile", "utf8", "--jobs", jobs]);
        let found: Vec<Vec<u8>> = findings(&objects).map(path_of).collect();
        assert_eq!(found.len(), expected.len(), "each name once");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(status, 1);
        let summary = objects.last().unwrap();
        assert_eq!(summary["type"], "summary");
        assert_eq!(summary["names"], all.len() + 1, "the root has a name too");
        assert_eq!(summary["directories"], 3);
        assert_eq!(summary["rejected"], expected.len());
        assert_eq!(summary["unreadable"], 0);
    }
}

#[test]
fn a_finding_has_its_exact_bytes_its_directory_and_its_reasons() {
    let dir = tree();
    let (_, objects) = json(dir.path(), &["--profile", "utf8"]);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let latin = findings(&objects)
        .find(|f| path_of(f) == [dir.path().as_os_str().as_bytes(), b"/caf\xE9.txt"].concat());
    let latin = latin.expect("the Latin-1 name is found");
    assert_eq!(latin["name_hex"], HEXLOWER.encode(b"caf\xE9.txt"));
    assert_eq!(latin["parent_inode"], inode(dir.path()));
    assert_eq!(latin["verdict"], "reject");
    assert_eq!(latin["path"], Value::Null, "a path that is not UTF-8 is not shown as one");
    let violation = &latin["violations"][0];
    assert_eq!(
        (&violation["rule"], &violation["start"], &violation["end"]),
        (&"truncated".into(), &3.into(), &4.into())
    );
    assert_eq!(violation["profiles"], serde_json::json!(["utf8"]));
    assert_eq!(latin["repair"], "café_2.txt", "`café.txt` is taken");
}

#[test]
fn names_that_collide_on_the_target_are_found_with_their_twins() {
    let dir = tree();
    let (_, objects) = json(&dir.path().join("sub"), &["--profile", "macos"]);
    let rules = |name: &[u8]| -> Vec<(String, String)> {
        let path = [dir.path().as_os_str().as_bytes(), b"/sub/", name].concat();
        let Some(finding) = findings(&objects).find(|f| path_of(f) == path) else { return Vec::new() };
        let violations = finding["violations"].as_array().unwrap().iter();
        violations
            .map(|v| (v["rule"].as_str().unwrap().into(), v["message"].as_str().unwrap().into()))
            .collect()
    };
    let has = |name: &[u8], rule: &str, message: &str| {
        rules(name).iter().any(|(r, m)| r == rule && m.contains(message))
    };
    assert!(has(b"README", "collision-case", "`readme`"), "{:?}", rules(b"README"));
    assert!(has(b"readme", "collision-case", "`README`"));
    assert!(has("café.txt".as_bytes(), "collision-normalization", "`cafe\\u{301}.txt`"));
    assert!(has("cafe\u{301}.txt".as_bytes(), "collision-normalization", "`caf\\u{e9}.txt`"));
    assert!(rules(b"plain.txt").is_empty());
}

#[test]
fn repairs_are_distinct_within_their_directory_and_free() {
    let dir = tree();
    let (_, objects) = json(dir.path(), &["--profile", "portable"]);
    let mut taken: BTreeSet<Vec<u8>> = paths(dir.path()).into_iter().collect();
    let mut repaired = 0;
    for finding in findings(&objects) {
        if let Some(repair) = finding["repair"].as_str() {
            let path = path_of(finding);
            let parent = &path[..path.iter().rposition(|&b| b == b'/').unwrap() + 1];
            assert!(taken.insert([parent, repair.as_bytes()].concat()), "{repair} is taken");
            repaired += 1;
        }
    }
    assert!(repaired > 30, "{repaired} repairs");
}

#[test]
fn nothing_of_a_name_acts_on_the_terminal_in_any_format() {
    let dir = tree();
    for (format, color) in [("text", "never"), ("text", "always"), ("json", "always")] {
        let args = ["--format", format, "--color", color, "--profile", "security,portable"];
        let output = namegate().arg("scan").arg(dir.path()).args(args).output().unwrap();
        let mut text = stdout(&output).to_owned();
        if color == "always" {
            // The program's own colours: ESC [ digits m.
            let parts: Vec<&str> = text.split("\x1B[").collect();
            let rest = |part: &str| {
                part.split_once('m').map(|(sgr, rest)| {
                    assert!(sgr.bytes().all(|b| b.is_ascii_digit() || b == b';'), "{sgr:?}");
                    rest.to_owned()
                })
            };
            let tail: Vec<String> =
                parts[1..].iter().map(|part| rest(part).expect("a colour ends in m")).collect();
            text = format!("{}{}", parts[0], tail.concat());
        }
        let acts = |c: char| c.is_control() && c != '\n' || ('\u{202A}'..='\u{202E}').contains(&c);
        assert_eq!(text.chars().find(|&c| acts(c)), None, "{format} {color}");
    }
}

#[test]
fn a_clean_tree_is_exit_status_0_and_says_what_was_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    File::create(dir.path().join("sub/ok.txt")).unwrap();
    let output = run([OsStr::new("scan"), dir.path().as_os_str()]);
    assert_eq!(status(&output), 0);
    assert!(stdout(&output).contains("no finding among 3 names in 2 directories"), "{}", stdout(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn what_cannot_be_read_is_reported_and_the_rest_is_checked() {
    let dir = tree();
    let missing = dir.path().join("missing");
    let output = namegate().arg("scan").arg(&missing).arg(dir.path()).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(
        stderr(&output).contains("cannot read") && stderr(&output).contains("missing"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains(r"caf\xE9.txt"));
    let output = namegate().arg("scan").arg(&missing).args(["--format", "json"]).output().unwrap();
    let objects = objects(&output);
    assert_eq!((&objects[0]["type"], &objects[1]["unreadable"]), (&"error".into(), &1.into()));
}

#[test]
fn links_are_checked_and_not_followed_but_a_root_that_is_one_is() {
    let dir = tree();
    let links = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(dir.path(), links.path().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", links.path().join(OsStr::from_bytes(b"dangling\xE9"))).unwrap();
    let (_, objects) = json(links.path(), &["--profile", "utf8"]);
    let summary = objects.last().unwrap();
    assert_eq!((&summary["names"], &summary["findings"]), (&3.into(), &1.into()));
    let (_, objects) = json(&links.path().join("link"), &["--profile", "utf8"]);
    assert_eq!(objects.last().unwrap()["directories"], 3);
    let (status, objects) =
        json(&links.path().join(OsStr::from_bytes(b"dangling\xE9")), &["--profile", "utf8"]);
    assert_eq!((status, &objects.last().unwrap()["names"]), (1, &1.into()), "the link's own name is checked");
}

#[test]
fn a_reader_that_goes_away_is_no_trouble() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..3000 {
        let mut name = format!("{number:0200}").into_bytes();
        name.push(0xE9);
        File::create(dir.path().join(OsStr::from_bytes(&name))).unwrap();
    }
    let mut command = namegate();
    command.arg("scan").arg(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_ne!(status(&output), 2);
    assert_eq!(stderr(&output), "");
}

#[test]
fn paths_are_checked_from_the_root_of_the_scan() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d".repeat(200));
    fs::create_dir(&deep).unwrap();
    File::create(deep.join("f".repeat(198))).unwrap();
    File::create(deep.join("g".repeat(200))).unwrap();
    // 400 characters with the name are the limit of SharePoint.
    let (_, objects) = json(dir.path(), &["--profile", "sharepoint"]);
    let long: Vec<_> = findings(&objects).collect();
    assert_eq!(long.len(), 1);
    assert_eq!(long[0]["violations"][0]["rule"], "path-too-long");
    assert!(long[0]["violations"][0]["message"].as_str().unwrap().contains("401"));
    assert!(long[0]["path"].as_str().unwrap().ends_with('g'));
}

#[test]
fn the_name_of_a_root_is_checked_and_so_is_what_lies_below() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join(OsStr::from_bytes(b"b\xE4d"));
    fs::create_dir(&bad).unwrap();
    File::create(bad.join(OsStr::from_bytes(b"caf\xE9"))).unwrap();
    fs::create_dir(dir.path().join("b\u{e4}d")).unwrap();
    let (status, objects) = json(&bad, &[]);
    // Both wait for the names of each other as evidence, and are checked by two threads then.
    let mut found: Vec<_> = findings(&objects).map(|object| (path_of(object), object)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let paths: Vec<_> = found.iter().map(|(path, _)| path.clone()).collect();
    let root = bad.as_os_str().as_bytes();
    assert_eq!((status, paths), (1, vec![root.to_vec(), [root, b"/caf\xE9"].concat()]));
    let (_, root) = found[0];
    assert_eq!(root["repair"], "b\u{e4}d_2", "a name beside the root is not taken from it");
    let output = namegate().args(["scan", "."]).current_dir(&bad).output().unwrap();
    assert!(stdout(&output).contains("among 1 name in 1 directory"), "{}", stdout(&output));
}

#[test]
fn names_with_encoded_text_are_noted_and_are_no_findings() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["%E5%85%A8.txt", r"a\b%20c", "Q&amp;A", "=?utf-8?B?w6k=?=", "100%", "Tom & Jerry"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    fs::create_dir(dir.path().join("plain")).unwrap();
    let scan = |name: &str| {
        let path = dir.path().join(name);
        run(["scan", "--profile", "utf8", "--format", "text", path.to_str().unwrap()])
    };
    let output = scan("");
    assert_eq!(status(&output), 0);
    let text = stdout(&output);
    assert!(text.contains("clean"), "{text}");
    let note =
        "4 names have encoded text, which `namegate fix plan --decode percent,mime,html,backslash` decodes\n";
    assert!(text.ends_with(note), "{text}");
    assert!(!stdout(&scan("plain")).contains("encoded"));
}
