//! `namegate guard`: what is refused before anything reaches the kernel. tests/guard.rs has guards that are on.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use nix::unistd::geteuid;
use serde_json::Value;

use namegate_testkit::program::{copy_program, namegate, run, status, stderr, stdout};

/// The user without privileges, where the tests run as root.
const NOBODY: u32 = 65534;

#[test]
fn what_cannot_be_guarded_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let (file, missing) = (dir.path().join("file"), dir.path().join("missing\n"));
    File::create(&file).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    for (args, said) in [
        (vec![path(&missing)], "missing\\n: No such file or directory"),
        (vec![path(&file)], "file: Not a directory"),
        (vec!["missing".into()], "cannot guard missing: No such file or directory"),
        (vec![path(dir.path()), "--profile".into(), "nonsense".into()], "'nonsense'"),
        (vec![path(dir.path()), "--errno".into(), "ENONSENSE".into()], "'ENONSENSE'"),
        (vec![path(dir.path()), "--audit".into(), "--enforce".into()], "cannot be used with"),
        (vec![path(dir.path()), "--profile".into(), "windows".into(), "--strict".into()], "collision-case"),
        (
            vec!["/proc/self".into()],
            "proc, whose inode numbers do not identify a directory. --whole-filesystem",
        ),
        (vec![], "<PATH>"),
    ] {
        let output = run([&["guard".to_owned(), "on".to_owned()], args.as_slice()].concat());
        assert_eq!(status(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
    for (args, said) in [
        (&["guard", "off"][..], "<PATH>"),
        (&["guard", "off", "/srv", "--all"], "cannot be used with"),
        (&["guard"], "Usage:"),
    ] {
        let output = run(args);
        assert_eq!(status(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn other_users_than_root_learn_that_guards_need_root() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, tree) = (dir.path().join("namegate"), dir.path().to_str().unwrap());
    copy_program(namegate().get_program().as_ref(), &program);
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.args(args).env_remove("RUST_LOG");
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().unwrap()
    };
    for args in [
        &["guard", "on", tree][..],
        &["guard", "off", tree],
        &["guard", "off", "--all"],
        &["guard", "status"],
        &["guard", "events"],
    ] {
        let output = run(args);
        assert_eq!(status(&output), 2, "{args:?}");
        assert!(stderr(&output).contains("run this as root"), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
    let output = run(&["guard", "check", "--json"]);
    assert_eq!(status(&output), 1);
    let checks: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!((&checks["type"], &checks["condition"]), (&"guard-check".into(), &"fail".into()));
    assert_eq!(
        (&checks["checks"][0]["id"], &checks["checks"][1]["id"]),
        (&"guard".into(), &"guard-load".into())
    );
    assert_eq!(checks["checks"][1]["advice"], "run this as root");
}

#[test]
fn a_kernel_that_never_runs_the_programs_is_an_error_and_not_a_guard() {
    let modules = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if !geteuid().is_root() || modules.split(',').any(|module| module == "bpf") {
        return println!("SKIPPED: a guard could be turned on here, or only root gets so far");
    }
    let dir = tempfile::tempdir().unwrap();
    let output = run(["guard", "on", dir.path().to_str().unwrap(), "--enforce"]);
    assert_eq!((status(&output), stdout(&output)), (2, ""));
    let said = stderr(&output);
    let is_clear = said.contains("lsm=") || said.contains("mount securityfs") || said.contains("older than");
    assert!(is_clear, "{said}");
    let output = run(["guard", "check"]);
    assert_eq!(status(&output), 1, "{}", stdout(&output));
}
