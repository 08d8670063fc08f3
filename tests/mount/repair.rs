//! Mode `repair`: new names that break the policy are stored as others.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::names::{errno, listed};
use namegate_testkit::mounted::{TestMount, can_mount, prepare};
use namegate_testkit::wait_until;

fn repairing(args: &[&str]) -> Option<TestMount> {
    TestMount::new(&[&["--profile", "windows", "--mode", "repair"], args].concat())
}

/// Creates `name` in `dir` in every possible way, one directory each. Returns the directories.
fn create_everyhow(dir: &Path, name: &str) -> Vec<&'static str> {
    let ways: [(&str, &dyn Fn(&Path)); 8] = [
        ("create", &|new| drop(File::create(new).unwrap())),
        ("create-new", &|new| File::create_new(new).unwrap().write_all(b"content").unwrap()),
        ("mkdir", &|new| fs::create_dir(new).unwrap()),
        ("mknod", &|new| mkfifo(new, Mode::S_IRWXU).unwrap()),
        ("symlink", &|new| symlink("a:b", new).unwrap()),
        ("link", &|new| fs::hard_link(dir.join("other"), new).unwrap()),
        ("rename", &|new| {
            fs::write(dir.join("old"), "old").unwrap();
            fs::rename(dir.join("old"), new).unwrap();
        }),
        ("noreplace", &|new| {
            fs::create_dir(dir.join("old")).unwrap();
            renameat2(AT_FDCWD, &dir.join("old"), AT_FDCWD, new, RenameFlags::RENAME_NOREPLACE).unwrap();
        }),
    ];
    fs::write(dir.join("other"), "").unwrap();
    for (way, create) in ways {
        fs::create_dir(dir.join(way)).unwrap();
        create(&dir.join(way).join(name));
    }
    ways.map(|(way, _)| way).to_vec()
}

#[test]
fn every_new_entry_is_stored_as_the_repair_and_found_by_both_names() {
    let Some(mounted) = repairing(&[]) else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for (at, (given, stored)) in [
        ("a:b?", "a：b？"),
        ("con", "con_"),
        ("nul.txt", "nul_.txt"),
        ("end.", "end．"),
        ("tab\there", "tab␉here"),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = mnt.join(at.to_string());
        fs::create_dir(&dir).unwrap();
        for way in create_everyhow(&dir, given) {
            let in_backing = backing.join(at.to_string()).join(way);
            assert_eq!(listed(&in_backing), [stored.as_bytes()], "{way} of {given:?}");
            let by = |name: &str| fs::symlink_metadata(dir.join(way).join(name)).unwrap();
            assert_eq!(by(given).ino(), by(stored).ino(), "{way} of {given:?}");
            assert_eq!(errno(File::create_new(dir.join(way).join(given))), Errno::EEXIST);
            assert_eq!(listed(&dir.join(way)), [stored.as_bytes()], "a listing shows what is stored");
        }
        let (new, renamed) = (dir.join("create-new").join(given), dir.join("rename").join(given));
        assert_eq!(fs::read(&new).unwrap(), b"content");
        assert_eq!(fs::read(&renamed).unwrap(), b"old");
        assert_eq!(
            fs::read_link(dir.join("symlink").join(given)).unwrap(),
            Path::new("a:b"),
            "content stays"
        );
        assert!(by_type(&dir.join("mknod").join(given)).is_fifo());
    }
}

fn by_type(path: &Path) -> fs::FileType {
    fs::symlink_metadata(path).unwrap().file_type()
}

#[test]
fn an_entry_is_changed_replaced_and_removed_by_the_name_that_the_client_chose() {
    let Some(mounted) = repairing(&[]) else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for round in 0..3 {
        fs::write(mnt.join("what?"), "first").unwrap();
        fs::write(mnt.join("what?"), "second").unwrap();
        assert_eq!(fs::read(backing.join("what？")).unwrap(), b"second");
        fs::write(mnt.join("temporary"), "third").unwrap();
        fs::rename(mnt.join("temporary"), mnt.join("what?")).unwrap();
        assert_eq!(fs::read(mnt.join("what?")).unwrap(), b"third", "round {round}");
        assert_eq!(listed(&backing), ["what？".as_bytes()]);
        fs::rename(mnt.join("what?"), mnt.join("which?")).unwrap();
        assert_eq!(errno(fs::metadata(mnt.join("what?"))), Errno::ENOENT);
        assert_eq!(listed(&backing), ["which？".as_bytes()]);
        fs::remove_file(mnt.join("which?")).unwrap();
        assert_eq!(errno(fs::metadata(mnt.join("which?"))), Errno::ENOENT);
        fs::create_dir(mnt.join("dir*")).unwrap();
        fs::write(mnt.join("dir*/a|b"), "").unwrap();
        assert_eq!(listed(&backing.join("dir＊")), ["a｜b".as_bytes()]);
        fs::remove_file(mnt.join("dir*/a|b")).unwrap();
        fs::remove_dir(mnt.join("dir*")).unwrap();
        assert!(listed(&backing).is_empty());
    }
}

#[test]
fn names_that_cannot_be_repaired_are_refused() {
    let Some(mounted) = repairing(&["--check-targets"]) else { return };
    let mnt = mounted.mnt();
    assert_eq!(errno(File::create(mnt.join(OsStr::from_bytes(b"caf\xE9")))), Errno::EILSEQ);
    assert_eq!(errno(File::create(mnt.join(OsStr::from_bytes(b"a:\xFF")))), Errno::EILSEQ);
    // Another name would have more bytes than an entry can have.
    assert_eq!(errno(File::create(mnt.join("?".repeat(255)))), Errno::EINVAL);
    assert_eq!(errno(symlink("a:b", mnt.join("link"))), Errno::EINVAL, "a target is content");
    assert!(listed(&mounted.backing()).is_empty());
}

#[test]
fn existing_names_are_seen_as_they_are_and_not_replaced_by_a_repair() {
    let Some(mounted) = repairing(&[]) else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    fs::write(backing.join("a:b"), "there").unwrap();
    assert_eq!(listed(&mnt), [b"a:b"]);
    assert_eq!(fs::read(mnt.join("a:b")).unwrap(), b"there");
    assert_eq!(errno(fs::create_dir(mnt.join("a:b"))), Errno::EEXIST);
    fs::write(mnt.join("new"), "new").unwrap();
    assert_eq!(errno(fs::rename(mnt.join("new"), mnt.join("a:b"))), Errno::EINVAL);
    assert_eq!(listed(&backing), [&b"a:b"[..], b"new"]);
    assert_eq!(errno(fs::metadata(mnt.join("a：b"))), Errno::ENOENT, "it has no second name");
    fs::rename(mnt.join("a:b"), mnt.join("good")).unwrap();
    fs::rename(mnt.join("good"), mnt.join("a:b")).unwrap();
    assert_eq!(listed(&backing), ["a：b".as_bytes(), b"new"]);
}

#[test]
fn repairs_are_recorded_with_the_stored_name() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let log = dir.path().join("audit.log");
    let args = ["--profile", "windows", "--mode", "repair", "--audit", log.to_str().unwrap()];
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args);
    fs::create_dir(mounted.mnt().join("a:b")).unwrap();
    let log = mounted.mnt().with_file_name("audit.log");
    let text = || fs::read_to_string(&log).unwrap();
    wait_until("the record", || text().ends_with('\n'));
    let record: Value = serde_json::from_str(text().lines().next().unwrap()).unwrap();
    assert_eq!((&record["outcome"], &record["stored"]), (&"repaired".into(), &"a：b".into()));
    assert_eq!((&record["name"], &record["rule"]), (&"a:b".into(), &"reserved-character".into()));
}

#[test]
fn the_set_of_substitutes_can_be_chosen() {
    for (set, stored) in [("none", "a_b"), ("catia", "a÷b"), ("sfm", "a\u{F022}b"), ("sfu", "a\u{F03A}b")] {
        let Some(mounted) = repairing(&["--substitutes", set]) else { return };
        fs::write(mounted.mnt().join("a:b"), set).unwrap();
        assert_eq!(listed(&mounted.backing()), [stored.as_bytes()], "{set}");
        assert_eq!(fs::read(mounted.mnt().join("a:b")).unwrap(), set.as_bytes());
    }
}

#[test]
fn a_mount_that_repairs_warns_of_programs_that_synchronize() {
    const WARNING: &str = "do not mirror or synchronize to this mount";
    let Some(mut mounted) = repairing(&[]) else { return };
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert_eq!((status.code(), said.matches(WARNING).count()), (Some(0), 1), "{said}");
    let Some(mut mounted) = TestMount::new(&["--profile", "windows"]) else { return };
    for mode in ["repair", "repair", "enforcing"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.args(["mode", mode]).arg(mounted.mnt()).env("NAMEGATE_RUNTIME_DIR", mounted.run_directory());
        assert!(command.output().unwrap().status.success());
    }
    mounted.signal(Signal::SIGTERM);
    let (_, said) = mounted.ended();
    assert_eq!(said.matches(WARNING).count(), 1, "{said}");
}
