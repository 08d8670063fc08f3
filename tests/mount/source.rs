//! What the source must be when it is mounted, and what is said when it is not so any more.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::Value;

use crate::background::Unmounted;
use crate::control::{ask, said, status};
use namegate_testkit::mounted::{TestMount, can_mount, is_mounted, prepare};
use namegate_testkit::wait_until;

fn tmpfs(place: &Path, options: &str) {
    mount(None::<&str>, place, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
}

fn namegate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namegate")).args(args).env_remove("RUST_LOG").output().unwrap()
}

#[test]
fn a_bare_directory_below_an_unmounted_disk_is_refused() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let (source, mnt) = (dir.path().join("backing"), dir.path().join("mnt"));
    let _unmounted = (Unmounted(&mnt), Unmounted(&source));
    let places = [source.to_str().unwrap(), mnt.to_str().unwrap()];
    let with = |options: &str, how: &str| {
        let output = namegate(&["mount", places[0], places[1], "-o", options, how]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for how in ["--check", "--daemon"] {
        let (code, why) = with("require_mount_point", how);
        assert!(code == Some(2) && why.contains("it is no mount point"), "{how}: {why}");
        let (code, why) = with("require_marker=.disk", how);
        assert!(code == Some(2) && why.contains("it has no entry .disk"), "{how}: {why}");
        assert!(!is_mounted(&mnt));
    }
    let (code, why) = with("require_marker=../backing", "--check");
    assert!(code == Some(2) && why.contains("not the name of an entry"), "{why}");
    tmpfs(&source, "size=1m");
    fs::write(source.join(".disk"), "").unwrap();
    assert_eq!(with("require_mount_point,require_marker=.disk", "--check"), (Some(0), String::new()));
    assert!(!is_mounted(&mnt), "nothing was mounted");
    // With an own mount of the source, which is always the root of a mount.
    assert_eq!(with("require_mount_point,noatime,require_marker=.disk", "--daemon").0, Some(0));
    assert!(is_mounted(&mnt));
}

#[test]
fn status_list_and_metrics_show_a_source_that_is_not_what_was_mounted() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let disk = dir.path().join("plain");
    let _unmounted = (Unmounted(&disk), Unmounted(&disk));
    tmpfs(&disk, "size=64k");
    fs::create_dir(disk.join("source")).unwrap();
    let mounted = TestMount::of(dir, |dir| (dir.join("plain/source"), dir.join("mnt")), &[]);
    let disk = mounted.plain();
    let problems = || {
        let now = status(&mounted);
        let Value::Object(source) = &now["counters"]["gauges"]["source"] else { panic!("{now}") };
        let there = source.iter().filter(|(_, is_there)| **is_there == Value::Bool(true));
        there.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert!(problems().is_empty());
    fs::write(disk.join("filler"), vec![0; 128 << 10]).unwrap_err();
    assert_eq!(problems(), ["full"]);
    fs::remove_file(disk.join("filler")).unwrap();
    let remount = |flags| mount(None::<&str>, &disk, None::<&str>, flags | MsFlags::MS_REMOUNT, None::<&str>);
    remount(MsFlags::MS_RDONLY).unwrap();
    assert_eq!(problems(), ["read_only"]);
    remount(MsFlags::empty()).unwrap();
    tmpfs(&disk, "size=64k");
    assert_eq!(problems(), ["covered"]);
    let output = ask(&mounted, ["list"]);
    let (_, listed, err) = said(&output);
    assert!(listed.contains("(source covered)"), "{listed}{err}");
    let output = ask(&mounted, ["status"]);
    assert!(said(&output).1.contains("not as it was mounted: covered"), "{}", said(&output).1);
    let output = ask(&mounted, ["metrics"]);
    let metrics = said(&output).1;
    let line = metrics.lines().find(|line| line.contains("problem=\"covered\"")).unwrap();
    assert!(line.starts_with("namegate_source_problem{") && line.ends_with(" 1"), "{line}");
    umount2(&disk, MntFlags::empty()).unwrap();
    assert!(problems().is_empty());
    // The mount itself covers nothing but what it serves.
    fs::remove_dir(disk.join("source")).unwrap();
    wait_until("the removal", || problems() == ["deleted"]);
    umount2(&disk, MntFlags::MNT_DETACH).unwrap();
    assert_eq!(problems(), ["deleted", "detached"]);
}

#[test]
fn a_source_over_which_it_is_mounted_is_as_it_was() {
    if !can_mount() {
        return;
    }
    let mounted = TestMount::of(prepare(), |dir| (dir.join("mnt"), dir.join("mnt")), &[]);
    let source = &status(&mounted)["counters"]["gauges"]["source"];
    assert!(source.as_object().unwrap().values().all(|value| *value == Value::Bool(false)), "{source}");
}
