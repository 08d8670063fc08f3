//! `namegate verify`: what arrived, compared with its source.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use namegate_testkit::mounted::TestMount;
use namegate_testkit::program::{namegate, program, run, status, stderr, stdout};
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

/// A source with hostile names and everything that a directory can have, and a copy of it that `cp` has made.
fn copied() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    fs::create_dir_all(source.join("deep/er")).unwrap();
    let long = "x".repeat(255);
    for name in [
        &b"caf\xE9"[..],
        b"new\nline",
        b" ",
        b"\xED\xA0\x80",
        b"-rf",
        "\u{202E}txt".as_bytes(),
        long.as_bytes(),
    ] {
        fs::write(source.join("deep").join(OsStr::from_bytes(name)), name).unwrap();
    }
    fs::write(source.join("deep/er/file"), "some text").unwrap();
    fs::hard_link(source.join("deep/er/file"), source.join("second")).unwrap();
    symlink("deep/er/file", source.join("link")).unwrap();
    mkfifo(&source.join("fifo"), Mode::S_IRWXU).unwrap();
    assert!(Command::new("cp").arg("-a").args([&source, &target]).status().unwrap().success());
    (dir, source, target)
}

/// The lines and the status of a comparison.
fn verify(source: &Path, target: &Path, options: &[&str]) -> (Vec<String>, i32) {
    let output = namegate().arg("verify").args([source, target]).args(options).output().unwrap();
    (stdout(&output).lines().map(str::to_owned).collect(), status(&output))
}

#[test]
fn a_copy_has_arrived_whatever_its_names() {
    let (_dir, source, target) = copied();
    for options in [&[][..], &["--contents", "--hard-links"], &["--profile", "windows"], &["-j", "1"]] {
        assert_eq!(
            verify(&source, &target, options),
            (vec!["13 entries: all arrived".to_owned()], 0),
            "{options:?}"
        );
    }
    assert_eq!(verify(&source, &source.join("nothing"), &[]).1, 2);
    assert_eq!(verify(&source, Path::new("/dev/null"), &[]).1, 2);
}

#[test]
fn each_difference_is_reported_with_its_path() {
    let (_dir, source, target) = copied();
    fs::remove_file(target.join("deep/caf\u{e9}")).unwrap_err();
    fs::remove_file(target.join(OsStr::from_bytes(b"deep/caf\xE9"))).unwrap();
    fs::write(target.join("deep/-rf"), "short").unwrap();
    fs::remove_file(target.join("deep/er/file")).unwrap();
    fs::write(target.join("deep/er/file"), "same size").unwrap();
    fs::remove_file(target.join("fifo")).unwrap();
    fs::create_dir(target.join("fifo")).unwrap();
    fs::remove_file(target.join("link")).unwrap();
    symlink("elsewhere", target.join("link")).unwrap();
    fs::write(target.join("extra\n"), "").unwrap();
    let (mut lines, code) = verify(&source, &target, &[]);
    lines.sort();
    let expected = [
        "13 entries, 12 of them arrived, 5 differences",
        "extra: extra\\n",
        "kind: fifo: FIFO, at the target directory",
        "link text: link: deep/er/file, at the target elsewhere",
        "missing: deep/caf\\xE9",
        "size: deep/-rf: 3, at the target 5",
    ];
    assert_eq!((lines, code), (expected.map(str::to_owned).to_vec(), 1));
    let (lines, _) = verify(&source, &target, &["--contents", "--hard-links"]);
    for expected in ["links: deep/er/file: 2, at the target 1", "links: second: 2, at the target 1"] {
        assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    }
    let (lines, _) = verify(&source, &target, &["--contents"]);
    assert!(lines.iter().any(|line| line == "contents: deep/er/file differs"), "{lines:?}");
    let kept = ["--exclude", "deep/", "--exclude", "extra?", "--exclude", "/fifo", "--exclude", "/link"];
    let (lines, code) = verify(&source, &target, &kept);
    assert_eq!((lines, code), (vec!["1 entry: all arrived".to_owned()], 0));
}

#[test]
fn another_spelling_is_a_difference_unless_the_target_has_one_name_for_both() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    for path in [source.join("Dir"), target.join("DIR")] {
        fs::create_dir_all(path).unwrap();
    }
    for name in ["Dir/file", "ABC.TXT", "caf\u{e9}"] {
        fs::write(source.join(name), "").unwrap();
    }
    for name in ["DIR/file", "abc.txt", "cafe\u{301}"] {
        fs::write(target.join(name), "").unwrap();
    }
    let (lines, code) = verify(&source, &target, &[]);
    assert_eq!((lines.len(), code), (4, 1), "{lines:?}");
    assert!(lines.contains(&"respelled: ABC.TXT arrived as abc.txt".to_owned()), "{lines:?}");
    let (lines, code) = verify(&source, &target, &["--profile", "macos"]);
    assert_eq!((lines.len(), code), (4, 0), "{lines:?}");
    assert!(lines[3].contains("all arrived, 3 under another spelling"), "{lines:?}");
    // Windows does not ignore normalization.
    let (lines, code) = verify(&source, &target, &["--profile", "windows"]);
    assert_eq!(
        (lines.iter().filter(|line| line.starts_with("respelled")).count(), code),
        (1, 1),
        "{lines:?}"
    );
}

#[test]
fn two_that_became_one_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    [&source, &target].iter().for_each(|tree| fs::create_dir(tree).unwrap());
    for name in ["readme", "README", "ReadMe"] {
        fs::write(source.join(name), "").unwrap();
    }
    fs::write(target.join("README"), "").unwrap();
    let (lines, code) = verify(&source, &target, &["--profile", "exfat"]);
    let merged = lines.iter().filter(|line| line.ends_with("became one with README")).count();
    assert_eq!((merged, code), (2, 1), "{lines:?}");
    let (lines, code) = verify(&source, &target, &[]);
    assert_eq!((lines.iter().filter(|line| line.starts_with("missing")).count(), code), (2, 1), "{lines:?}");
}

#[test]
fn nothing_has_all_arrived_while_a_directory_cannot_be_read() {
    let (dir, source, target) = copied();
    if !geteuid().is_root() {
        return println!("SKIPPED: only root can become a user who may not read");
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new("chmod").args(["-R", "a+rX"]).arg(dir.path()).status().unwrap().success());
    let mut said = Vec::new();
    for tree in [&source, &target] {
        fs::set_permissions(tree.join("deep/er"), fs::Permissions::from_mode(0o0)).unwrap();
        let copy = dir.path().join("namegate");
        namegate_testkit::program::copy_program(program(), &copy);
        let output = Command::new(&copy)
            .arg("verify")
            .args([&source, &target])
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap();
        assert_eq!(status(&output), 2, "{}", stdout(&output));
        assert!(stderr(&output).contains("cannot read the directory"), "{}", stderr(&output));
        said.push(stdout(&output).to_owned());
        fs::set_permissions(tree.join("deep/er"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (said, entries) in said.iter().zip(["12", "13"]) {
        let expected = format!("{entries} entries, 12 of them arrived, 0 differences; 1 cannot be told");
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn names_that_a_plan_gave_are_expected_where_the_source_has_the_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("tree/d:")).unwrap();
    for name in ["tree/d:/what?", "tree/a*b", "tree/good"] {
        fs::write(path(name), name).unwrap();
    }
    symlink("d:/what?", path("tree/link")).unwrap();
    assert!(Command::new("cp").arg("-a").args([path("tree"), path("old")]).status().unwrap().success());
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (tree, plan, journal) = (text(&path("tree")), text(&path("plan")), text(&path("journal")));
    assert_eq!(status(&run(["fix", "plan", &tree, "--profile", "windows", "-o", &plan])), 0);
    let applied = run(["fix", "apply", &plan, "--yes", "--at-least", "guess", "--journal", &journal]);
    assert_eq!(status(&applied), 0, "{}", stderr(&applied));
    let (lines, code) = verify(&path("old"), &path("tree"), &[]);
    assert!(code == 1 && lines.len() > 5, "{lines:?}");
    let expected = (vec!["5 entries: all arrived".to_owned()], 0);
    assert_eq!(verify(&path("old"), &path("tree"), &["--plan", &journal, "--contents"]), expected);
    assert_eq!(verify(&path("old"), &path("tree"), &["--plan", &plan, "--at-least", "guess"]), expected);
    fs::remove_dir_all(path("tree/d")).unwrap();
    let (lines, code) = verify(&path("old"), &path("tree"), &["--plan", &journal]);
    assert!(code == 1 && lines.iter().any(|line| line == "missing: d:/what?"), "{lines:?}");
    fs::write(&plan, "").unwrap();
    assert_eq!(verify(&path("old"), &path("tree"), &["--plan", &journal]).1, 2);
}

#[test]
fn a_copy_by_cp_to_a_mount_lacks_what_the_mount_refused() {
    let Some(served) = TestMount::new(&["--profile", "windows"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    for name in ["a:b", "nul", "good", "caf\u{e9}"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let _ = Command::new("cp").arg("-a").arg(dir.path().join(".")).arg(served.mnt()).output().unwrap();
    let (mut lines, code) = verify(dir.path(), &served.mnt(), &["--contents"]);
    lines.sort();
    assert_eq!((&lines[1..], code), (&["missing: a:b".to_owned(), "missing: nul".to_owned()][..], 1));
    let json = run(["verify".as_ref(), dir.path().as_os_str(), served.mnt().as_os_str(), "--json".as_ref()]);
    let last = stdout(&json).lines().last().unwrap().to_owned();
    assert!(last.contains("\"verdict\":\"different\"") && last.contains("\"different\":2"), "{last}");
}
