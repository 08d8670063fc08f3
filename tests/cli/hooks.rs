//! The hooks in `scripts/hooks`, with a real `git commit` and a real `git push`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::run::copy_program;

/// git without the configuration of whoever runs the test, with the program on its path.
fn git(dir: &Path, args: &[&str]) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_namegate")).parent().unwrap();
    Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["-c", "init.defaultBranch=main", "-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(["-c", "core.protectNTFS=false", "-c", "commit.gpgSign=false"])
        .args(args)
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git was started before")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn must(output: &Output) {
    assert!(output.status.success(), "{}", told(output));
}

fn install(name: &str, into: &Path) {
    let hook = into.join(name);
    fs::create_dir_all(into).unwrap();
    copy_program(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/hooks").join(name), &hook);
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
}

fn add(dir: &Path, name: &[u8]) {
    fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
    must(&git(dir, &["add", "-A"]));
}

fn has_git() -> bool {
    let runs = Command::new("git").arg("--version").output().is_ok();
    if !runs {
        println!("SKIPPED: git does not run, so no hook can");
    }
    runs
}

#[test]
fn a_commit_that_adds_a_bad_name_is_refused_and_names_that_are_there_stop_nobody() {
    if !has_git() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    must(&git(dir, &["init", "-q"]));
    add(dir, b"old\xFF");
    add(dir, b"readme");
    must(&git(dir, &["commit", "-qm", "before the hook"]));
    install("pre-commit", &dir.join(".git/hooks"));
    add(dir, b"fine");
    must(&git(dir, &["commit", "-qm", "good"]));
    for (name, rule) in
        [(&b"new\xFE"[..], "invalid-octet"), (b"README", "collision-case"), (b"aux.txt", "reserved-name")]
    {
        add(dir, name);
        let refused = git(dir, &["commit", "-qm", "bad"]);
        assert!(!refused.status.success() && told(&refused).contains(rule), "{}", told(&refused));
        must(&git(dir, &["rm", "-qf", "--ignore-unmatch", "--", "new*", "README", "aux.txt"]));
    }
    // `commit -a` and `commit FILE` have an index of their own.
    add(dir, b"aux.txt");
    fs::write(dir.join("fine"), "changed").unwrap();
    must(&git(dir, &["commit", "-qm", "one file of two", "fine"]));
    assert!(!git(dir, &["commit", "-qam", "all"]).status.success());
    must(&git(dir, &["config", "namegate.profile", "strict"]));
    must(&git(dir, &["commit", "-qam", "all"]));
}

#[test]
fn a_push_that_brings_a_bad_name_is_refused_and_leaves_nothing() {
    if !has_git() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (server, work) = (dir.path().join("server.git"), dir.path().join("work"));
    must(&git(dir.path(), &["init", "-q", "--bare", "server.git"]));
    must(&git(dir.path(), &["clone", "-q", "server.git", "work"]));
    must(&git(&work, &["checkout", "-qb", "main"]));
    install("pre-receive", &server.join("hooks"));
    let push = |refs: &[&str]| git(&work, &[&["push", "-q", "origin"], refs].concat());
    add(&work, b"bad\xFF");
    must(&git(&work, &["commit", "-qm", "bad"]));
    let refused = push(&["main"]);
    assert!(!refused.status.success() && told(&refused).contains("bad\\xFF"), "{}", told(&refused));
    assert!(git(&server, &["for-each-ref"]).stdout.is_empty(), "no ref came");
    fs::remove_file(work.join(OsStr::from_bytes(b"bad\xFF"))).unwrap();
    add(&work, b"readme");
    must(&git(&work, &["commit", "-q", "--amend", "-m", "good"]));
    must(&push(&["main"]));
    // What is there stops nobody; what comes collides with it.
    add(&work, b"more");
    must(&git(&work, &["commit", "-qm", "more"]));
    must(&push(&["main", "main:refs/heads/other"]));
    add(&work, b"README");
    must(&git(&work, &["commit", "-qm", "twin"]));
    for target in ["main", "main:refs/heads/new", "main:refs/tags/new"] {
        let refused = push(&[target]);
        assert!(
            !refused.status.success() && told(&refused).contains("collision-case"),
            "{target}: {}",
            told(&refused)
        );
    }
    must(&push(&[":refs/heads/other"]));
    let heads = String::from_utf8(git(&server, &["for-each-ref", "--format=%(refname)"]).stdout).unwrap();
    assert_eq!(heads.trim(), "refs/heads/main");
}
