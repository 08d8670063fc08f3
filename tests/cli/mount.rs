//! `namegate mount` where it does not come to a mount: every mistake gets one clear sentence.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::unistd::geteuid;

use namegate_testkit::program::{run, status, stderr, stdout};

/// What the program says to these arguments behind `mount`, which it has to refuse with status 2.
fn refused<S: AsRef<OsStr>>(args: &[S]) -> String {
    let output = run([OsStr::new("mount")].into_iter().chain(args.iter().map(AsRef::as_ref)));
    let said = stderr(&output).to_owned();
    assert_eq!((status(&output), stdout(&output)), (2, ""), "{said}");
    said
}

#[test]
fn a_place_that_is_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(path("source/inside")).unwrap();
    fs::create_dir(path("mnt")).unwrap();
    fs::write(path("file"), "").unwrap();
    for (source, mountpoint, expected) in [
        ("missing", "mnt", format!("cannot serve {}: No such file or directory", path("missing"))),
        ("file", "mnt", format!("cannot serve {}: Not a directory", path("file"))),
        ("source", "missing", format!("cannot mount on {}: No such file or directory", path("missing"))),
        ("source", "file", format!("cannot mount on {}: Not a directory", path("file"))),
        (
            "source",
            "source/inside",
            format!(
                "cannot mount {} on {}, which lies inside it: mount it beside the source, or over it",
                path("source"),
                path("source/inside")
            ),
        ),
    ] {
        assert_eq!(refused(&[path(source), path(mountpoint)]), format!("namegate: {expected}\n"));
    }
    let hostile = dir.path().join(OsStr::from_bytes(b"a\n\x1b[2J\xFF"));
    let said = refused(&[hostile.as_path(), Path::new(&path("mnt"))]);
    assert!(said.contains(r"a\n\u{1B}[2J\xFF: No such file or directory"), "{said}");
}

#[test]
fn an_option_that_is_none_is_named_with_what_it_should_be() {
    for (args, expected) in [
        (&["-o", "ro,nosiud"][..], "unknown mount option `nosiud`; did you mean `nosuid`?"),
        (&["-o", "profile=strict:widnows"], "unknown profile `widnows`; did you mean `windows`?"),
        (&["-o", "profile=strict,windows"], "`:` separates profiles"),
        (&["--sandbox", "--no-sandbox"], "cannot be used with"),
        (&["--read-only=yes"], "invalid value 'yes'"),
        (&["-o", "entry_timeout=soon"], "not a number of seconds, such as 0, 0.5 or 60"),
        (&["-o", "remount"], "remounting is done by mount(8)"),
        (&["--entry-timeout", "soon"], "not a number of seconds, such as 0, 0.5 or 60"),
        (&["--attr-timeout=-1"], "not a number of seconds"),
        (&["--audit-rate", "0"], "invalid value '0'"),
        (&["--profile", "widnows"], "a similar value exists: 'windows'"),
        (&["--errno", "ENOENT"], "[possible values: by-rule, EILSEQ, EINVAL, EACCES, EPERM]"),
        (&["--on-mismatch", "convert"], "--normalize <FORM>"),
        (&["--config", "/nonexistent"], "/nonexistent: cannot be read"),
        (&["--audit", "/nonexistent/audit.log"], "cannot write the audit log /nonexistent/audit.log"),
        (&["--audit", "-", "--daemon"], "standard output"),
    ] {
        let said = refused(&[&["/usr", "/usr"], args].concat());
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    let said = refused(&["/only-one"]);
    assert!(said.contains("no mountpoint is given: name a source and a mount point"), "{said}");
}

#[test]
fn who_may_not_mount_devices_is_told_before_anything_else() {
    if geteuid().is_root() {
        return println!("SKIPPED: root may");
    }
    assert_eq!(
        refused(&["/", "/", "-o", "dev"]),
        "namegate: the mount options suid and dev are for root alone\n"
    );
}
