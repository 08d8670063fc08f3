//! Attributes, times and sizes, compared with the backing file and with a plain directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};

use namegate_sys::xattr;
use nix::fcntl::{AT_FDCWD, OFlag, open};
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::statvfs::statvfs;
use nix::sys::time::TimeSpec;

use namegate_testkit::mounted::TestMount;
use namegate_testkit::program::copy_program;

#[test]
fn an_entry_has_the_attributes_of_its_backing_entry() {
    for mounted in TestMount::both_ways() {
        let (here, there) = (mounted.mnt(), mounted.backing());
        fs::write(there.join("file"), vec![b'x'; 10_000]).unwrap();
        fs::create_dir_all(there.join("dir/sub")).unwrap();
        symlink("x".repeat(300), there.join("link")).unwrap();
        for name in ["file", "dir", "link", ""] {
            let [seen, backing] =
                [&here, &there].map(|side| fs::symlink_metadata(side.join(name)).unwrap()).map(|metadata| {
                    let (times, parts) = (
                        [metadata.mtime(), metadata.ctime()],
                        [metadata.mtime_nsec(), metadata.ctime_nsec()],
                    );
                    let number = (metadata.ino(), metadata.nlink(), metadata.mode());
                    (number, metadata.uid(), metadata.gid(), metadata.size(), metadata.blocks(), times, parts)
                });
            assert_eq!(seen, backing, "{name}");
        }
        let [seen, backing] = [&here, &there].map(|side| statvfs(side).unwrap()).map(|stat| {
            (stat.block_size(), stat.fragment_size(), stat.blocks(), stat.files(), stat.name_max())
        });
        assert_eq!(seen, backing);
    }
}

#[test]
fn extreme_times_are_stored_as_in_a_plain_directory() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let _ = mounted.same(|dir| {
        let path = dir.join("file");
        fs::write(&path, "").unwrap();
        let times = [
            (0, 0),
            (-1, 999_999_999),
            (-5, 7),
            (1 << 31, 1),
            (1 << 40, 5),
            (i64::MAX, 999_999_999),
            (i64::MIN, 5),
        ];
        times.map(|(seconds, nanoseconds)| {
            let time = TimeSpec::new(seconds, nanoseconds);
            let set = utimensat(AT_FDCWD, &path, &time, &time, UtimensatFlags::NoFollowSymlink);
            let metadata = fs::metadata(&path).unwrap();
            (set, metadata.atime(), metadata.atime_nsec(), metadata.mtime(), metadata.mtime_nsec())
        })
    });
}

#[test]
fn reading_and_running_set_the_time_of_access() {
    for mounted in TestMount::both_ways() {
        let read_at_all = mounted.same(|dir| {
            fs::write(dir.join("file"), "content").unwrap();
            copy_program("/bin/true".as_ref(), &dir.join("program"));
            fs::create_dir(dir.join("dir")).unwrap();
            fs::write(dir.join("dir/entry"), "").unwrap();
            symlink("file", dir.join("link")).unwrap();
            let old = TimeSpec::new(1000, 0);
            ["file", "program", "dir", "link"].map(|name| {
                let path = dir.join(name);
                utimensat(AT_FDCWD, &path, &old, &old, UtimensatFlags::NoFollowSymlink).unwrap();
                match name {
                    "file" => drop(fs::read(&path).unwrap()),
                    "program" => drop(std::process::Command::new(&path).status().unwrap()),
                    "dir" => drop(fs::read_dir(&path).unwrap().count()),
                    _ => drop(fs::read_link(&path).unwrap()),
                }
                (name, fs::symlink_metadata(&path).unwrap().atime() > 1000)
            })
        });
        assert!(
            read_at_all.iter().any(|(_, is_newer)| *is_newer),
            "the temporary directory is mounted noatime, which hides a difference"
        );
    }
}

#[test]
fn a_change_through_a_memory_map_reaches_the_backing_file_and_its_time() {
    for mounted in TestMount::both_ways() {
        let path = mounted.mnt().join("mapped");
        fs::write(&path, vec![0; 65536]).unwrap();
        let old = TimeSpec::new(1000, 0);
        utimensat(AT_FDCWD, &path, &old, &old, UtimensatFlags::FollowSymlink).unwrap();
        // The standard library cannot map files; Python can.
        let script = "import mmap, sys
with open(sys.argv[1], 'r+b') as file:
    with mmap.mmap(file.fileno(), 0) as mapped:
        mapped[100:105] = b'mapped'[:5]
        mapped.flush()
";
        match std::process::Command::new("python3").args(["-c", script]).arg(&path).status() {
            Ok(status) => assert!(status.success()),
            Err(_) => return println!("SKIPPED: no python3 to map files with"),
        }
        for path in [&path, &mounted.backing().join("mapped")] {
            assert_eq!(&fs::read(path).unwrap()[99..106], b"\0mappe\0");
            assert!(fs::metadata(path).unwrap().mtime() > 1000, "{}", path.display());
        }
    }
}

#[test]
fn extended_attributes_work_as_in_a_plain_directory() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let _ = mounted.same(|dir| {
        fs::write(dir.join("file"), "").unwrap();
        symlink("file", dir.join("link")).unwrap();
        nix::unistd::mkfifo(&dir.join("fifo"), Mode::S_IRWXU).unwrap();
        let mut seen = Vec::new();
        for entry in ["file", "link", "fifo"] {
            let held =
                open(&dir.join(entry), OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
                    .unwrap();
            let long = format!("user.{}", "n".repeat(300));
            let largest = vec![b'v'; 65537];
            for (name, value, flags) in [
                ("user.note", &b"value"[..], libc::XATTR_CREATE),
                ("user.note", b"", libc::XATTR_CREATE),
                ("user.other", b"", libc::XATTR_REPLACE),
                ("user.empty", b"", 0),
                ("user.caf\u{E9}", b"\xFF\x00", 0),
                ("user.three", &largest[..3000], 0),
                ("user.largest", &largest[..], 0),
                ("trusted.note", b"value", 0),
                ("security.note", b"value", 0),
                ("none.note", b"value", 0),
                (long.as_str(), b"value", 0),
            ] {
                let set = xattr::set(&held, OsStr::new(name), value, flags);
                let mut read = vec![0; 70_000];
                let got = xattr::get(&held, OsStr::new(name), &mut read);
                let short = xattr::get(&held, OsStr::new(name), &mut [0; 2]);
                seen.push((entry, name.to_owned(), set, got, short));
            }
            let mut names = vec![0; 4096];
            let len = xattr::list(&held, &mut names).unwrap();
            let mut names: Vec<_> = names[..len].split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
            names.sort();
            let removed = xattr::remove(&held, OsStr::new("trusted.note"));
            let again = xattr::remove(&held, OsStr::new("trusted.note"));
            seen.push((
                entry,
                String::from_utf8(names.concat()).unwrap(),
                removed,
                again.map(|()| 0),
                Ok(len),
            ));
        }
        seen
    });
}

#[test]
fn fsync_through_the_mount_writes_the_backing_file() {
    for mounted in TestMount::both_ways() {
        let file = File::create(mounted.mnt().join("file")).unwrap();
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        nix::unistd::syncfs(&file).unwrap();
        File::open(mounted.mnt()).unwrap().sync_all().unwrap();
    }
}
