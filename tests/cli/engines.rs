//! The engines that read trees: both find the same, in the scope that is asked for.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use data_encoding::BASE64;
use namegate_sys::directory;
use serde_json::Value;

use crate::trees;
use namegate_testkit::program::{namegate, status, stderr, stdout};

fn scan(dir: &Path, args: &[&str]) -> (i32, Vec<Value>) {
    let output = namegate().args(["scan", "--format", "json"]).args(args).arg(dir).output().unwrap();
    assert_eq!(stderr(&output), "");
    let objects = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (status(&output), objects)
}

/// The names of a finding below `dir`.
fn paths(dir: &Path, objects: &[Value]) -> Vec<Vec<u8>> {
    let findings = objects.iter().filter(|object| object["type"] == "finding");
    let path = |object: &Value| BASE64.decode(object["path_base64"].as_str().unwrap().as_bytes()).unwrap();
    findings.map(|object| path(object)[dir.as_os_str().len()..].to_vec()).collect()
}

fn sorted(objects: &[Value]) -> Vec<String> {
    let mut lines: Vec<String> = objects.iter().map(Value::to_string).collect();
    lines.sort_unstable();
    lines
}

fn last<'o>(objects: &'o [Value], field: &str) -> &'o Value {
    &objects.last().unwrap()[field]
}

/// What the independent checker counts.
fn counts(dir: &Path) -> Option<Vec<(String, u64)>> {
    let oracle = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    let output = Command::new("python3").args([oracle, "--count"]).arg(dir).output();
    let output = output.ok().filter(|output| output.status.success())?;
    let count = |line: &str| line.split_once(' ').map(|(kind, n)| (kind.to_owned(), n.parse().unwrap()));
    stdout(&output).lines().map(count).collect()
}

#[test]
fn both_engines_find_the_same_and_as_much_as_python_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (bad, wide) = (dir.path().join("bad"), dir.path().join("wide"));
    trees::bad(&bad).unwrap();
    trees::wide(&wide, 3000, 200, 20_000).unwrap();
    for (tree, least) in [(&bad, 90), (&wide, 30)] {
        for profile in ["utf8", "strict", "macos", "portable,security"] {
            let args = ["--profile", profile, "--engine"];
            let (status, expected) = scan(tree, &[&args[..], &["walkdir"]].concat());
            assert!(
                (status, true) == (1, paths(tree, &expected).len() >= least),
                "{}",
                expected.last().unwrap()
            );
            for jobs in ["1", "2", "7"] {
                let (_, found) = scan(tree, &[&args[..], &["getdents", "--jobs", jobs]].concat());
                assert_eq!(sorted(&found), sorted(&expected), "{profile}, {jobs} threads");
            }
        }
    }
    for tree in [&bad, &wide] {
        let Some(counted) = counts(tree) else { return println!("SKIPPED: python3 does not run") };
        for (kind, count) in counted {
            let (profile, rule) = match kind.as_str() {
                // The root has a name too.
                "names" => {
                    assert_eq!(*last(&scan(tree, &[]).1, "names"), count + 1);
                    continue;
                }
                "macos" => ("macos", "collision-"),
                kind => (kind, ""),
            };
            let (_, objects) = scan(tree, &["--profile", profile]);
            let has_rule = |object: &&Value| {
                let violations = object["violations"].as_array();
                violations.is_some_and(|all| {
                    all.iter()
                        .any(|v| v["severity"] == "error" && v["rule"].as_str().unwrap().starts_with(rule))
                })
            };
            assert_eq!(objects.iter().filter(has_rule).count() as u64, count, "{kind}");
        }
    }
}

#[test]
fn a_tree_deeper_than_path_max_is_read_to_its_end_and_walkdir_says_where_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("deep");
    trees::deep(&deep, 40, 5).unwrap();
    for jobs in ["1", "3"] {
        let (status, objects) = scan(&deep, &["--profile", "utf8", "--jobs", jobs]);
        assert_eq!(status, 1);
        let found = paths(&deep, &objects);
        assert_eq!(found.len(), 41);
        assert!(found.iter().any(|path| path.len() > 8000 && path.ends_with(b"/the end \xFF")));
        let numbers =
            ["names", "directories", "unreadable"].map(|field| last(&objects, field).as_u64().unwrap());
        assert_eq!(numbers, [1 + 40 * 6 + 1, 41, 0]);
    }
    let (status, objects) = scan(&deep, &["--profile", "utf8", "--engine", "walkdir"]);
    assert_eq!((status, last(&objects, "unreadable").as_u64()), (2, Some(1)));
    if let Some(counted) = counts(&deep) {
        assert_eq!(counted[1], ("utf8".into(), 41));
    }
    assert!(Command::new("rm").arg("-rf").arg(&deep).status().unwrap().success());
}

#[test]
fn a_large_directory_is_checked_like_a_small_one() {
    let dir = tempfile::tempdir().unwrap();
    let name = |number: usize| format!("{number:0>200}");
    // More than is held at a time.
    for number in 0..6000 {
        File::create(dir.path().join(name(number))).unwrap();
    }
    fs::create_dir(dir.path().join(name(9000))).unwrap();
    File::create(dir.path().join(name(9000)).join(OsStr::from_bytes(b"below\xE9"))).unwrap();
    let (status, objects) = scan(dir.path(), &["--profile", "portable"]);
    assert_eq!(
        (status, last(&objects, "names"), last(&objects, "directories")),
        (1, &6003.into(), &2.into())
    );
    for twin in ["A", "a"] {
        File::create(dir.path().join(format!("{}{twin}", name(7000)))).unwrap();
    }
    File::create(dir.path().join(OsStr::from_bytes(b"caf\xE9"))).unwrap();
    File::create(dir.path().join("caf\u{E9}")).unwrap();
    File::create(dir.path().join("left.out")).unwrap();
    let args = ["--profile", "portable", "--exclude", "*.out", "--engine"];
    let (_, found) = scan(dir.path(), &[&args[..], &["getdents"]].concat());
    let (_, expected) = scan(dir.path(), &[&args[..], &["walkdir"]].concat());
    assert_eq!(sorted(&found), sorted(&expected));
    assert_eq!(last(&found, "names"), 6007);
    // Findings that are only counted are counted part by part. Here each name has a warning, and some have two violations.
    for profile in ["portable", "windows,macos,s3"] {
        for more in [&[][..], &["--prefix", &"p".repeat(900)]] {
            let args = [&["--profile", profile, "--exclude", "*.out"], more].concat();
            let (_, shown) = scan(dir.path(), &args);
            let (_, counted) = scan(dir.path(), &[&args[..], &["--summary"]].concat());
            assert_eq!(counted.len(), 1);
            assert_eq!(counted.last(), shown.last(), "{args:?}");
        }
    }
    let bad = found.iter().find(|object| object["name_hex"] == "636166e9").unwrap();
    assert_eq!(bad["repair"], "caf\u{E9}_2", "a name in another part of the directory is not taken");
    let repository = tempfile::tempdir().unwrap();
    fs::rename(dir.path(), repository.path().join(".git")).unwrap();
    fs::create_dir(dir.path()).unwrap();
    let output = namegate().arg("scan").arg(repository.path()).output().unwrap();
    let text = stdout(&output);
    assert!(text.contains("2 names are inside repositories"), "{text}");
}

#[test]
fn depth_and_globs_say_what_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::create_dir_all(root.join("target/a")).unwrap();
    for sub in ["", "a", "a/b", "a/b/c", "target", "target/a"] {
        File::create(root.join(sub).join(OsStr::from_bytes(b"bad\xE9.o"))).unwrap();
        File::create(root.join(sub).join(OsStr::from_bytes(b"bad\xE9"))).unwrap();
    }
    let found = |args: &[&str]| -> BTreeSet<String> {
        let of = |engine| {
            let (_, objects) = scan(root, &[args, &["--profile", "utf8", "--engine", engine]].concat());
            let paths = paths(root, &objects).into_iter();
            let paths: BTreeSet<String> = paths.map(|p| String::from_utf8_lossy(&p[1..]).into()).collect();
            (paths, last(&objects, "directories").clone(), last(&objects, "names").clone())
        };
        assert_eq!(of("getdents"), of("walkdir"), "{args:?}");
        of("auto").0
    };
    let set =
        |paths: &[&str]| paths.iter().map(|path| path.replace('E', "\u{FFFD}")).collect::<BTreeSet<_>>();
    assert_eq!(found(&["--max-depth", "0"]), set(&[]));
    assert_eq!(found(&["--max-depth", "1"]), set(&["badE", "badE.o"]));
    assert_eq!(found(&["--max-depth", "2", "--exclude", "*.o"]), set(&["badE", "a/badE", "target/badE"]));
    assert_eq!(
        found(&["--exclude", "*.o", "--exclude", "/target/", "--exclude", "c"]),
        set(&["badE", "a/badE", "a/b/badE"])
    );
    assert_eq!(
        found(&["--exclude", "*.o", "--exclude", "!/a/*.o", "--exclude", "a/b", "--exclude", "target"]),
        set(&["badE", "a/badE", "a/badE.o"])
    );
    let refused = namegate().args(["scan", "--exclude", "[z-a]"]).arg(root).output().unwrap();
    assert_eq!(status(&refused), 2);
    assert!(stderr(&refused).starts_with("namegate: --exclude: "), "{}", stderr(&refused));
}

#[test]
fn directories_are_found_where_the_file_system_does_not_tell_types() {
    let dir = tempfile::tempdir().unwrap();
    let (image, mounted) = (dir.path().join("image"), dir.path().join("mounted"));
    fs::create_dir(&mounted).unwrap();
    File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let ran = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !ran(Command::new("mkfs.ext4").args(["-q", "-O", "^filetype"]).arg(&image))
        || !ran(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mounted))
    {
        return println!(
            "SKIPPED: no file system without types of entries: no mkfs.ext4, or no right to mount"
        );
    }
    let found = std::panic::catch_unwind(|| {
        trees::bad(&mounted.join("tree")).unwrap();
        let mut buffer = [0; 4096];
        let filled = directory::read(File::open(&mounted).unwrap(), &mut buffer).unwrap();
        let (entry, _) = directory::first(&buffer[..filled]).unwrap();
        assert_eq!(entry.kind, 0, "DT_UNKNOWN (readdir(3))");
        let of = |engine| scan(&mounted.join("tree"), &["--profile", "portable", "--engine", engine]);
        let (getdents, walkdir) = (of("getdents"), of("walkdir"));
        assert_eq!((getdents.0, sorted(&getdents.1)), (walkdir.0, sorted(&walkdir.1)));
        paths(&mounted.join("tree"), &getdents.1).len()
    });
    assert!(ran(Command::new("umount").arg(&mounted)));
    let beside = dir.path().join("tree");
    trees::bad(&beside).unwrap();
    let expected = paths(&beside, &scan(&beside, &["--profile", "portable"]).1).len();
    assert_eq!(found.unwrap(), expected, "as where types are told");
}

#[test]
fn links_are_followed_where_that_is_asked_for_and_a_loop_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("tree/sub")).unwrap();
    fs::create_dir(root.join("elsewhere")).unwrap();
    File::create(root.join("elsewhere").join(OsStr::from_bytes(b"bad\xE9"))).unwrap();
    symlink("../elsewhere", root.join("tree/link")).unwrap();
    symlink("nowhere", root.join("tree/dangling")).unwrap();
    let tree = root.join("tree");
    assert_eq!(scan(&tree, &[]).0, 0);
    let (status, objects) = scan(&tree, &["--follow"]);
    assert_eq!((status, paths(&tree, &objects)), (1, vec![b"/link/bad\xE9".to_vec()]));
    assert_eq!(last(&objects, "names"), 5);
    symlink("..", root.join("tree/sub/up")).unwrap();
    let (status, objects) = scan(&tree, &["--follow"]);
    assert_eq!((status, last(&objects, "unreadable")), (2, &1.into()));
    let fault = objects.iter().find(|object| object["type"] == "error").unwrap();
    assert!(
        fault["message"].as_str().unwrap().ends_with("sub/up: it leads back to a directory above it"),
        "{fault}"
    );
    let refused = namegate().args(["scan", "--follow", "--engine", "getdents"]).arg(&tree).output().unwrap();
    assert_eq!(namegate_testkit::program::status(&refused), 2);
}

#[test]
fn sorted_findings_come_in_the_order_of_their_paths() {
    let dir = tempfile::tempdir().unwrap();
    trees::wide(&dir.path().join("wide"), 500, 100, 200_000).unwrap();
    let (_, objects) = scan(dir.path(), &["--profile", "utf8", "--sort", "--jobs", "8"]);
    let found = paths(dir.path(), &objects);
    assert!(found.len() > 50);
    let dir_of = |path: &[u8]| path[..path.iter().rposition(|&b| b == b'/').unwrap()].to_vec();
    let dirs: Vec<Vec<Vec<u8>>> =
        found.iter().map(|path| dir_of(path).split(|&b| b == b'/').map(<[u8]>::to_vec).collect()).collect();
    assert!(dirs.is_sorted(), "each directory before those below it, and those by their names");
    assert!(found.chunk_by(|a, b| dir_of(a) == dir_of(b)).all(<[Vec<u8>]>::is_sorted));
}

#[test]
fn another_file_system_is_told_of_and_not_entered_when_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let point = dir.path().join("mount point");
    fs::create_dir(&point).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&point).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: a tmpfs cannot be mounted here");
    }
    let outcome = std::panic::catch_unwind(|| {
        File::create(point.join(OsStr::from_bytes(b"bad\xE9"))).unwrap();
        for engine in ["getdents", "walkdir"] {
            let args = ["scan", "--profile", "utf8", "--format", "json", "--engine", engine];
            let told = namegate().args(args).arg(dir.path()).output().unwrap();
            assert_eq!(status(&told), 1);
            assert!(stderr(&told).contains("other file systems"), "{}", stderr(&told));
            assert!(stderr(&told).contains("mount point (tmpfs)"), "{}", stderr(&told));
            let (status, objects) =
                scan(dir.path(), &["--profile", "utf8", "--one-file-system", "--engine", engine]);
            assert_eq!(
                (status, last(&objects, "names"), last(&objects, "directories")),
                (0, &2.into(), &1.into())
            );
        }
    });
    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    outcome.unwrap();
}
