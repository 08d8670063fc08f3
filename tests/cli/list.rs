//! `namegate scan --list`: what other programs list, against what a scan of the same tree finds.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use data_encoding::{BASE64, HEXLOWER};
use namegate_testkit::program::{run, run_with, status, stderr, stdout};
use serde_json::Value;

fn list(args: &[&str], stdin: &[u8]) -> (i32, Vec<Value>) {
    let output = run_with(["scan", "--list", "-", "--format", "json"].iter().chain(args), stdin);
    (status(&output), stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The exact path, the item and the rules of each finding.
fn findings(objects: &[Value]) -> BTreeSet<(Vec<u8>, Option<u64>, Vec<String>)> {
    let of_type = objects.iter().filter(|object| object["type"] == "finding");
    of_type
        .map(|finding| {
            let path = BASE64.decode(finding["path_base64"].as_str().unwrap().as_bytes()).unwrap();
            let rules = finding["violations"].as_array().unwrap().iter();
            let rules = rules.map(|violation| violation["rule"].as_str().unwrap().to_owned()).collect();
            (path, finding["item"].as_u64(), rules)
        })
        .collect()
}

#[test]
fn what_find_lists_is_found_as_in_the_tree_itself() {
    let dir = tempfile::tempdir().unwrap();
    for name in [&b"a/README"[..], b"a/Readme", b"b\xE9/c\nd", b"b\xE9/ok", b"CON/x", b"good/CON.txt/y "] {
        let path = dir.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap();
    }
    let listed = Command::new("find").arg(".").arg("-print0").current_dir(dir.path()).output().unwrap();
    let profile = ["--profile", "windows,strict"];
    let (of_list, from_list) = list(&[&["-0"], &profile[..]].concat(), &listed.stdout);
    let tree = run(["scan", "--format", "json", "--profile", "windows,strict"]
        .iter()
        .map(OsStr::new)
        .chain([dir.path().as_os_str()]));
    let from_tree: Vec<Value> =
        stdout(&tree).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let below = |path: Vec<u8>| path[dir.path().as_os_str().len() + 1..].to_vec();
    let expected: BTreeSet<_> =
        findings(&from_tree).into_iter().map(|(path, _, rules)| (below(path), rules)).collect();
    assert_eq!(
        findings(&from_list).into_iter().map(|(path, _, rules)| (path, rules)).collect::<BTreeSet<_>>(),
        expected
    );
    assert_eq!((of_list, status(&tree)), (1, 1));
    assert_eq!(expected.len(), 7);
    let repairs = |objects: &[Value]| -> BTreeSet<String> {
        objects.iter().filter_map(|object| object["repair"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(repairs(&from_list), repairs(&from_tree));
}

#[test]
fn a_finding_tells_its_item_and_the_list_it_stands_in() {
    let (status, objects) = list(&[], b"a/ok\nb/bad\xFF\nb/bad\xFF\n\nc\0d/e");
    assert_eq!(status, 1);
    let found = findings(&objects);
    let rule = |rule: &str| vec![rule.to_owned()];
    let expected = [
        (b"b/bad\xFF".to_vec(), Some(2), rule("invalid-octet")),
        (b"c\0d".to_vec(), Some(5), rule("nul-smuggling")),
    ];
    assert_eq!(found, BTreeSet::from(expected));
    let bad = objects.iter().find(|object| object["item"] == 2).unwrap();
    assert_eq!((&bad["source"], &bad["container"]), (&"list".into(), &"-".into()));
    assert_eq!(bad["name_hex"], HEXLOWER.encode(b"bad\xFF"));
    assert_eq!(bad["parent_inode"], Value::Null);
    let summary = objects.last().unwrap();
    assert_eq!((&summary["names"], &summary["directories"]), (&6.into(), &4.into()));
    let output = run_with(["scan", "--list", "-"], b"b/bad\xFF\n");
    assert!(stdout(&output).starts_with("-: b\n  bad\\xFF  item 1\n"), "{}", stdout(&output));
}

#[test]
fn items_are_paths_keys_or_names() {
    let items = b"a//b\n/c/../d\n";
    let rules = |objects: &[Value]| -> Vec<(Vec<u8>, String)> {
        findings(objects)
            .into_iter()
            .flat_map(|(path, _, rules)| rules.into_iter().map(move |r| (path.clone(), r)))
            .collect()
    };
    assert_eq!(rules(&list(&[], items).1), []);
    let keys = [(&b""[..], "empty-name"), (b"/c/..", "dot-name"), (b"a/", "empty-name")];
    assert_eq!(
        rules(&list(&["--list-as", "keys"], items).1),
        keys.map(|(path, rule)| (path.to_vec(), rule.to_owned()))
    );
    let names = list(&["--list-as", "names"], items).1;
    assert!(rules(&names).iter().all(|(_, rule)| rule == "separator-smuggling"));
    assert_eq!((rules(&names).len(), names.last().unwrap()["names"].as_u64()), (5, Some(2)));
}

#[test]
fn an_inventory_is_read_from_its_column_and_decoded() {
    let csv = b"\"bucket\",\"photos/caf%E9.jpg\",\"12\"\n\"bucket\",\"photos/caf%C3%A9.jpg\",\"12\"\n\"bucket\",\"100%\",\"1\"\n\"bucket\"\n";
    let (status, objects) =
        list(&["--list-format", "csv:2", "--decode", "percent", "--list-as", "keys"], csv);
    assert_eq!(
        findings(&objects),
        BTreeSet::from([(b"photos/caf\xE9.jpg".to_vec(), Some(1), vec!["truncated".to_owned()])])
    );
    let errors: Vec<&str> =
        objects.iter().filter(|o| o["type"] == "error").map(|o| o["message"].as_str().unwrap()).collect();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].contains("item 3: it is not encoded as"), "{errors:?}");
    assert!(errors[1].contains("item 4: it has no such field"), "{errors:?}");
    assert_eq!(status, 2);
    let lines = b"{\"path\":\"ZGlyL2JhZP8=\"}\n";
    let (_, objects) = list(&["--list-format", "jsonl:path", "--decode", "base64"], lines);
    assert_eq!(findings(&objects).first().unwrap().0, b"dir/bad\xFF");
}

#[test]
fn a_list_that_cannot_be_read_is_trouble_and_the_others_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (good, missing) = (dir.path().join("list"), dir.path().join("missing"));
    fs::write(&good, b"x\xFF\n").unwrap();
    let output = run([
        OsStr::new("scan"),
        "--list".as_ref(),
        missing.as_os_str(),
        "--list".as_ref(),
        good.as_os_str(),
    ]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("cannot read the list"), "{}", stderr(&output));
    assert!(stdout(&output).contains("x\\xFF"));
    let long = [&b"x".repeat(70_000)[..], b"\ngood\n"].concat();
    let (status, objects) = list(&[], &long);
    assert_eq!((status, objects.last().unwrap()["names"].as_u64()), (2, Some(1)));
}

#[test]
fn a_tree_and_a_list_are_checked_in_one_scan_and_what_concerns_trees_is_refused_without_one() {
    let dir = tempfile::tempdir().unwrap();
    for name in [&b"bad\xE9"[..], b"left out\xE9"] {
        File::create(dir.path().join(OsStr::from_bytes(name))).unwrap();
    }
    let (tree, only_utf8) = (dir.path().to_str().unwrap(), ["--profile", "utf8"]);
    let (status_of_both, objects) =
        list(&[&only_utf8[..], &["--exclude", "left*", tree]].concat(), b"listed\xE9\n");
    let paths: BTreeSet<Vec<u8>> = findings(&objects).into_iter().map(|(path, ..)| path).collect();
    let expected = [[tree.as_bytes(), b"/bad\xE9"].concat(), b"listed\xE9".to_vec()];
    assert_eq!((status_of_both, paths), (1, expected.into()));
    let alone: [&[&str]; 6] = [
        &["--exclude", "*"],
        &["--max-depth", "1"],
        &["--one-file-system"],
        &["--follow"],
        &["--sort"],
        &["--engine", "getdents"],
    ];
    for args in alone {
        let refused = run_with(["scan", "--list", "-"].iter().chain(args), b"");
        assert_eq!(status(&refused), 2, "{args:?}");
        assert!(stderr(&refused).contains("name its PATH"), "{args:?}: {}", stderr(&refused));
    }
    let state = dir.path().join("state");
    for paths in [&[][..], &[tree]] {
        let args = ["scan", "--list", "-", "--resume", state.to_str().unwrap()];
        let refused = run_with(args.iter().chain(paths), b"");
        assert_eq!(status(&refused), 2);
        assert!(stderr(&refused).contains("cannot be used with"), "{}", stderr(&refused));
    }
    assert!(!state.exists());
}

#[test]
fn an_error_of_a_list_is_reported_once_with_a_count() {
    let lines = "{}\n".repeat(5000) + "{\"k\":\"a\"}\nnonsense\n";
    let output =
        run_with(["scan", "--list", "-", "--list-format", "jsonl:k", "--format", "json"], lines.as_bytes());
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "error")
        .map(|line| line["message"].as_str().unwrap())
        .collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].ends_with("item 1 and 4999 more: it has no such field"), "{errors:?}");
    assert!(errors[1].ends_with("item 5002: it is not JSON"), "{errors:?}");
    let summary = lines.last().unwrap();
    assert_eq!((&summary["unreadable"], &summary["names"]), (&5001.into(), &1.into()));
    assert_eq!(output.status.code(), Some(2));
}

/// Names of a directory, not sorted, more than stay in memory; `is_bad` tells which are not UTF-8.
fn names_beyond_memory(is_bad: &dyn Fn(usize) -> bool) -> Vec<Vec<u8>> {
    (0..70_000)
        .map(|at: usize| {
            // Reversed digits make the order another one than that of the bytes.
            let digits: String = format!("{at:06}").chars().rev().collect();
            let mut name = format!("{digits} {}", "x".repeat(234)).into_bytes();
            name.extend_from_slice(if is_bad(at) { b"\xE9" } else { b"y" });
            name
        })
        .collect()
}

#[test]
fn a_directory_that_does_not_fit_into_memory_has_the_findings_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let (clean, one, many) = (|_: usize| false, |at: usize| at == 60_000, |at: usize| at.is_multiple_of(100));
    for is_bad in [&clean as &dyn Fn(usize) -> bool, &one, &many] {
        let file = dir.path().join("list");
        let names = names_beyond_memory(is_bad);
        let items: Vec<Vec<u8>> =
            names.iter().chain([&names[0]]).map(|name| [b"dir/", &name[..], b"\n"].concat()).collect();
        fs::write(&file, items.concat()).unwrap();
        let expected: BTreeSet<_> = names
            .iter()
            .enumerate()
            .filter(|(at, _)| is_bad(*at))
            .map(|(at, name)| {
                ([b"dir/", &name[..]].concat(), Some(at as u64 + 1), vec!["truncated".to_owned()])
            })
            .collect();
        let args = ["scan", "--profile", "utf8", "--format", "json", "--list", file.to_str().unwrap()];
        let output = run(args);
        let objects: Vec<Value> =
            stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(findings(&objects), expected);
        assert_eq!(status(&output), i32::from(!expected.is_empty()));
        let repairs = objects.iter().filter(|object| object["repair"].is_string()).count();
        assert_eq!(repairs, expected.len());
        let summary = objects.last().unwrap();
        assert_eq!(summary["names"].as_u64(), Some(70_001), "the directory is a name too: {summary}");
    }
}

#[test]
fn a_directory_for_temporary_files_that_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("list");
    let names = names_beyond_memory(&|_| false);
    fs::write(&file, names.join(&b'\n')).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_namegate"))
        .args(["scan", "--quiet", "--list", file.to_str().unwrap()])
        .env("TMPDIR", dir.path().join("missing"))
        .output()
        .unwrap();
    assert_eq!(status(&output), 2);
    let error = stderr(&output);
    assert!(error.contains("/missing'") && error.contains("set TMPDIR"), "{error}");
}

/// The paths of a list, its directory in a second file, and the lines of a plan: each fills the disk at another time.
#[test]
fn a_full_directory_for_temporary_files_is_named_once() {
    let dir = tempfile::tempdir().unwrap();
    let (list, tree) = (dir.path().join("list"), dir.path().join("tree"));
    let names = names_beyond_memory(&|_| true);
    fs::write(&list, names.join(&b'\n')).unwrap();
    fs::create_dir(&tree).unwrap();
    for name in &names[..9000] {
        File::create(tree.join(OsStr::from_bytes(name))).unwrap();
    }
    let commands =
        [["scan", "--quiet", "--list"], ["scan", "--quiet", "--list"], ["fix", "plan", "-o/dev/null"]];
    for ((size, args), path) in
        ["size=1m", "size=24m", "size=1m"].iter().zip(commands).zip([&list, &list, &tree])
    {
        let full = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", size, "none"]).arg(full.path()).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            return println!("SKIPPED: a tmpfs cannot be mounted here");
        }
        let output = Command::new(env!("CARGO_BIN_EXE_namegate"))
            .args(args)
            .arg(path)
            .env("TMPDIR", full.path())
            .output()
            .unwrap();
        assert!(Command::new("umount").arg(full.path()).status().unwrap().success());
        let error = stderr(&output);
        assert_eq!(status(&output), 2, "{size}: {error}");
        let expected = format!("cannot write a temporary file in '{}': No space left", full.path().display());
        assert!(error.lines().count() == 1 && error.contains(&expected), "{size}: {error}");
        assert!(error.contains("set TMPDIR"), "{size}: {error}");
    }
}

#[test]
fn a_file_and_a_directory_of_one_name_are_found_in_keys_and_not_in_paths() {
    let keys = b"something\nother/\nother/page.html\nsomething/page.html\nlast/page\nlast\nLast2/a\nlast2\n";
    let (code, found) = list(&["--list-as", "keys"], keys);
    let both = |name: &str, item| (name.as_bytes().to_vec(), Some(item), vec!["collision-kind".to_owned()]);
    let wanted = BTreeSet::from([both("something", 1), both("last", 5)]);
    assert_eq!((code, findings(&found)), (1, wanted.clone()));
    let something = found.iter().find(|o| o["path"] == "something").unwrap();
    let message = "the name of a file and of a directory: no directory can have both";
    assert_eq!(something["violations"][0]["message"], message);
    for target in ["posix", "macos", "git"] {
        let (_, found) = list(&["--list-as", "keys", "--target", target, "--profile", "utf8"], keys);
        let verdict = &found.last().unwrap()["targets"][0];
        assert_eq!((&verdict["refused"], &verdict["verdict"]), (&2.into(), &"not-ready".into()), "{target}");
    }
    assert_eq!(list(&["--list-as", "keys", "--target", "s3,gcs,azure"], keys).0, 0, "legal in the store");
    assert_eq!(findings(&list(&["--list-as", "files"], keys).1), wanted, "a list of files alone");
    assert_eq!(findings(&list(&[], keys).1), BTreeSet::new(), "find lists directories without a `/`");
    let rule_off = "[rules]\ncollision-kind = \"off\"\n";
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("policy.toml");
    fs::write(&config, rule_off).unwrap();
    let (code, _) = list(&["--list-as", "keys", "--config", config.to_str().unwrap()], keys);
    assert_eq!(code, 0);
}

/// Windows: 259 UTF-16 units for files, 247 for directories.
#[test]
fn limits_of_paths_are_certain_where_the_list_says_what_an_entry_is() {
    let path = |len: usize| format!("{}/{}", "p".repeat(120), "q".repeat(len - 121));
    let (file, directory) = (path(248), path(250));
    let below = format!("{directory}/x");
    let long = |args: &[&str], items: &str| {
        let (_, found) = list(&[&["--target", "windows"], args].concat(), items.as_bytes());
        let of = |o: &Value| {
            let len = o["path"].as_str()?.len();
            let violation = &o["violations"][0];
            assert_eq!(violation["rule"], "path-too-long", "{o}");
            Some((len, violation["certain"].as_bool().unwrap_or(true)))
        };
        found.iter().filter(|o| o["type"] == "finding").filter_map(of).collect::<Vec<_>>()
    };
    for form in ["keys", "files"] {
        assert_eq!(long(&["--list-as", form], &file), [], "{form}: a file");
        assert_eq!(long(&["--list-as", form], &format!("{file}/")), [(248, true)], "{form}: a directory");
        assert_eq!(long(&["--list-as", form], &below), [(250, true)], "{form}: a directory above");
    }
    assert_eq!(long(&[], &file), [(248, false)], "a path of either");
    assert_eq!(long(&[], &format!("{file}/")), [(248, true)]);
    assert_eq!(long(&[], &below), [(250, true), (252, false)]);
    assert_eq!(long(&[], &format!("{directory}\n{below}"))[0], (250, true), "listed and implied");
}

/// ESC % / G announces UTF-8 (ISO/IEC 10646-1 Amd. 2, R.6).
#[test]
fn an_escape_sequence_across_a_separator_is_found_in_the_name_behind_it() {
    let paths = b"a\x1b%/Gb\na\x1b%/other\nplain/Gb\n";
    for form in ["paths", "keys"] {
        let (_, found) = list(&["--list-as", form], paths);
        let rules = |rule: &str| vec![rule.to_owned()];
        let wanted = [
            (b"a\x1b%".to_vec(), Some(1), rules("c0-control")),
            (b"a\x1b%/Gb".to_vec(), Some(1), rules("iso-2022-escape")),
        ];
        assert_eq!(findings(&found), BTreeSet::from(wanted), "{form}");
    }
}
