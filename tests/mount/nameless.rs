//! Files without names, and entries that no path can reach.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstat, fstatat, mkdirat};
use nix::unistd::linkat;

use namegate_testkit::PATIENCE;
use namegate_testkit::mounted::{TestMount, transport};

/// The path to a file that this process has open.
fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[test]
fn a_file_without_a_name_is_used_as_in_a_plain_directory() {
    for mounted in TestMount::both_ways() {
        let _ = mounted.same(|dir| {
            let path = dir.join("removed");
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
            file.write_all_at(b"content", 0).unwrap();
            fs::remove_file(&path).unwrap();
            file.write_all_at(b"CON", 0).unwrap();
            file.set_len(5).unwrap();
            file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
            file.sync_all().unwrap();
            let read = fs::read(by_descriptor(&file)).unwrap();
            OpenOptions::new().write(true).open(by_descriptor(&file)).unwrap().write_all_at(b"x", 9).unwrap();
            let old = by_descriptor(&file);
            let linked = linkat(AT_FDCWD, &old, AT_FDCWD, &dir.join("again"), AtFlags::AT_SYMLINK_FOLLOW);
            let metadata = file.metadata().unwrap();
            (read, linked, metadata.nlink(), metadata.mode(), metadata.size(), path.exists())
        });
    }
}

#[test]
fn an_open_file_keeps_its_content_after_it_is_replaced() {
    for mounted in TestMount::both_ways() {
        let _ = mounted.same(|dir| {
            let path = dir.join("file");
            fs::write(&path, "old").unwrap();
            let mut old = File::open(&path).unwrap();
            fs::write(dir.join("next"), "new").unwrap();
            fs::rename(dir.join("next"), &path).unwrap();
            let mut content = String::new();
            old.read_to_string(&mut content).unwrap();
            let replaced =
                File::open(&path).unwrap().metadata().unwrap().ino() != old.metadata().unwrap().ino();
            (content, old.metadata().unwrap().nlink(), fs::read_to_string(&path).unwrap(), replaced)
        });
    }
}

#[test]
fn a_removed_directory_is_empty_and_accepts_no_entries() {
    for mounted in TestMount::both_ways() {
        let results = mounted.same(|dir| {
            let path = dir.join("removed");
            fs::create_dir(&path).unwrap();
            let held =
                open(&path, OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).unwrap();
            fs::remove_dir(&path).unwrap();
            let created =
                openat(&held, "x", OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::S_IRWXU)
                    .map(drop);
            let looked = fstatat(&held, "x", AtFlags::empty()).map(drop);
            let made = mkdirat(&held, "x", Mode::S_IRWXU);
            let listed = fs::read_dir(by_descriptor(&File::from(held))).unwrap().count();
            (created, looked, made, listed)
        });
        assert_eq!(results, (Err(Errno::ENOENT), Err(Errno::ENOENT), Err(Errno::ENOENT), 0));
    }
}

#[test]
fn entries_deeper_than_path_max_are_reached_by_descriptor() {
    const LEVELS: usize = 40;
    let Some(mounted) = TestMount::new(&[]) else { return };
    let name = "d".repeat(200);
    let mut at =
        open(&mounted.mnt(), OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).unwrap();
    for _ in 0..LEVELS {
        mkdirat(&at, name.as_str(), Mode::S_IRWXU).unwrap();
        at = openat(
            &at,
            name.as_str(),
            OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .unwrap();
    }
    let leaf = openat(&at, "leaf", OFlag::O_CREAT | OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::S_IRWXU).unwrap();
    nix::unistd::write(&leaf, b"deep").unwrap();
    nix::fcntl::renameat(&at, "leaf", &at, "other").unwrap();
    assert_eq!(fstatat(&at, "other", AtFlags::empty()).unwrap().st_size, 4);
    // The path would be longer than PATH_MAX; rm needs no path.
    let removed = Command::new("rm").arg("-r").arg(mounted.mnt().join(&name)).status().unwrap();
    assert!(removed.success());
    assert_eq!(fstat(&leaf).unwrap().st_nlink, 0);
    assert_eq!(fs::read_dir(mounted.backing()).unwrap().count(), 0);
}

#[test]
fn a_temporary_file_without_a_name_is_used_and_gets_a_name_if_the_policy_allows_it() {
    if transport() == "fuser" {
        return println!("SKIPPED: fuser does not know O_TMPFILE");
    }
    for mounted in TestMount::both_ways() {
        let nameless = |dir: &Path, flags: OFlag, mode: u32| {
            let flags = flags | OFlag::O_TMPFILE | OFlag::O_CLOEXEC;
            open(dir, flags, Mode::from_bits_truncate(mode)).map(File::from)
        };
        let name = |file: &File, dir: &Path, name: &OsStr| {
            linkat(AT_FDCWD, &by_descriptor(file), AT_FDCWD, &dir.join(name), AtFlags::AT_SYMLINK_FOLLOW)
        };
        let _ = mounted.same(|dir| {
            let file = nameless(dir, OFlag::O_RDWR, 0o666).unwrap();
            file.write_all_at(b"content", 0).unwrap();
            file.set_len(4).unwrap();
            let before = (file.metadata().unwrap().nlink(), fs::read_dir(dir).unwrap().count());
            let named = name(&file, dir, OsStr::new("named"));
            let metadata = fs::metadata(dir.join("named")).unwrap();
            let never = nameless(dir, OFlag::O_WRONLY | OFlag::O_EXCL, 0o600).unwrap();
            let refused =
                (name(&never, dir, OsStr::new("never")), nameless(dir, OFlag::O_RDONLY, 0o600).err());
            let found = (metadata.nlink(), metadata.mode(), fs::read(dir.join("named")).unwrap());
            (before, named, found, refused)
        });
        // The name is checked when the file gets one.
        let file = nameless(&mounted.mnt(), OFlag::O_WRONLY, 0o600).unwrap();
        assert_eq!(name(&file, &mounted.mnt(), OsStr::from_bytes(b"caf\xE9")), Err(Errno::EILSEQ));
        drop(file);
        assert_eq!(fs::read_dir(mounted.backing()).unwrap().count(), 1);
    }
}

#[test]
fn programs_fall_back_to_named_temporary_files_without_o_tmpfile() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    // Programs that get EOPNOTSUPP create a file and remove its name, as tmpfile(3) does.
    tempfile::tempfile_in(mounted.mnt()).unwrap();
    assert_eq!(fs::read_dir(mounted.backing()).unwrap().count(), 0);
    let made =
        open(&mounted.mnt(), OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::S_IRWXU).map(drop);
    let expected = if transport() == "fuser" { Err(Errno::EOPNOTSUPP) } else { Ok(()) };
    assert_eq!(made, expected);
}

#[test]
fn removed_files_free_their_space() {
    for mounted in TestMount::both_ways() {
        let at = |name: &str| mounted.mnt().join(name);
        fs::write(at("file"), vec![b'x'; 1 << 20]).unwrap();
        fs::write(at("replaced"), "").unwrap();
        fs::write(at("other"), "").unwrap();
        fs::create_dir(at("dir")).unwrap();
        std::os::unix::fs::symlink("x", at("link")).unwrap();
        fs::rename(at("other"), at("replaced")).unwrap();
        fs::remove_dir(at("dir")).unwrap();
        ["file", "replaced", "link"].iter().for_each(|name| fs::remove_file(at(name)).unwrap());
        // The file system frees a file when it is closed, including O_PATH descriptors. Files that the server has inherited, such as
        // standard output, may have been removed too.
        let held = || -> Vec<PathBuf> {
            let fds = fs::read_dir(format!("/proc/{}/fd", mounted.server())).unwrap();
            let targets = fds.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
            let is_removed =
                |target: &PathBuf| target.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
            targets.filter(|target| target.starts_with(mounted.backing()) && is_removed(target)).collect()
        };
        let mut left = held();
        let begun = Instant::now();
        while !left.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "{left:?} are held");
            left = held();
        }
    }
}
