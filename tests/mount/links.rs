//! Names: hard links, exchanges, replacements, and sticky directories.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use namegate_testkit::acting::act_as;
use namegate_testkit::metrics::scraped;
use namegate_testkit::mounted::{TestMount, can_mount, open_to_all, prepare};

#[test]
fn the_target_of_a_link_is_requested_once_and_a_new_link_is_not_mistaken_for_it() {
    let Some((mounted, port)) =
        scraped(&["--cache", "timeout", "--entry-timeout", "0.2", "--attr-timeout", "0.2"])
    else {
        return;
    };
    let (path, there) = (mounted.mnt().join("link"), mounted.backing().join("link"));
    symlink("first", &path).unwrap();
    let target = || fs::read_link(&path).unwrap();
    for _ in 0..1000 {
        assert_eq!(target(), Path::new("first"));
    }
    let asked: f64 = mounted
        .metrics(port)
        .iter()
        .filter(|(series, _)| series.contains("requests_total") && series.contains("op=\"readlink\""))
        .map(|(_, count)| *count)
        .sum();
    assert!(asked <= 1.0, "{asked} requests for the content of one link");
    // A change through the mount shows at once, one in the source after the timeout. Inode numbers are reused at once.
    for i in 0..50 {
        let next = format!("number {i}");
        fs::remove_file(&path).unwrap();
        symlink(&next, &path).unwrap();
        assert_eq!(target(), Path::new(&next));
    }
    for i in 0..5 {
        let next = format!("behind {i}");
        fs::remove_file(&there).unwrap();
        symlink(&next, &there).unwrap();
        sleep(Duration::from_millis(300));
        assert_eq!(target(), Path::new(&next));
    }
}

#[test]
fn all_names_of_a_file_show_the_same_attributes() {
    for mounted in TestMount::both_ways() {
        let (one, two) = (mounted.mnt().join("one"), mounted.mnt().join("two"));
        fs::write(&one, "content").unwrap();
        let first = fs::metadata(&one).unwrap();
        assert_eq!(first.ino(), fs::metadata(mounted.backing().join("one")).unwrap().ino());
        fs::hard_link(&one, &two).unwrap();
        let all = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            let (mode, ctime) = (metadata.mode() & 0o777, (metadata.ctime(), metadata.ctime_nsec()));
            (metadata.ino(), metadata.nlink(), mode, metadata.size(), ctime)
        };
        assert_eq!((all(&one).0, all(&one).1), (first.ino(), 2));
        // A change by one name shows by the other name at once, although the kernel caches attributes.
        fs::set_permissions(&two, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(all(&one), all(&two));
        fs::write(&two, "longer content").unwrap();
        assert_eq!((all(&one), all(&one).3), (all(&two), 14));
        fs::remove_file(&two).unwrap();
        assert_eq!((all(&one).1, all(&one).2), (1, 0o640));
    }
}

#[test]
fn the_flags_of_renameat2_work_as_in_a_plain_directory() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let _ = mounted.same(|dir| {
        let rename = |from: &str, to: &str, flags| {
            renameat2(AT_FDCWD, &dir.join(from), AT_FDCWD, &dir.join(to), flags)
        };
        for name in ["a", "b"] {
            fs::write(dir.join(name), name).unwrap();
        }
        fs::create_dir(dir.join("dir")).unwrap();
        let (no_replace, exchange) = (RenameFlags::RENAME_NOREPLACE, RenameFlags::RENAME_EXCHANGE);
        let whiteout = RenameFlags::RENAME_WHITEOUT;
        let results = [
            rename("a", "b", no_replace),
            rename("a", "c", no_replace),
            rename("b", "c", exchange),
            rename("b", "dir", exchange),
            rename("b", "none", exchange),
            rename("none", "new", no_replace),
            rename("c", "w", whiteout),
            rename("w", "x", whiteout | no_replace),
            rename("w", "x", whiteout | exchange),
            rename("dir", "dir/inside", RenameFlags::empty()),
        ];
        let left = fs::symlink_metadata(dir.join("c")).unwrap();
        let mut entries: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name(), entry.file_type().unwrap().is_dir(), fs::read(entry.path()).ok())
            })
            .collect();
        entries.sort();
        (results, left.file_type().is_char_device(), left.rdev(), entries)
    });
}

#[test]
fn in_a_sticky_directory_users_remove_only_their_own_entries() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let results = mounted.same(|dir| {
        let sticky = dir.join("sticky");
        fs::create_dir(&sticky).unwrap();
        fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
        act_as(1001, 1001, &[], 0, || {
            fs::write(sticky.join("file"), "").unwrap();
            fs::create_dir(sticky.join("dir")).unwrap();
            open_to_all(&sticky.join("dir"));
        });
        act_as(1002, 1002, &[1001], 0, || {
            fs::write(sticky.join("mine"), "").unwrap();
            let errno = |result: std::io::Result<()>| result.map_err(|error| error.raw_os_error());
            [
                errno(fs::remove_file(sticky.join("file"))),
                errno(fs::remove_dir(sticky.join("dir"))),
                errno(fs::rename(sticky.join("file"), sticky.join("other"))),
                errno(fs::rename(sticky.join("mine"), sticky.join("file"))),
                errno(fs::rename(sticky.join("mine"), sticky.join("other"))),
                errno(fs::hard_link(sticky.join("other"), sticky.join("again"))),
                errno(fs::remove_file(sticky.join("other"))),
            ]
        })
    });
    assert_eq!(results[0], Err(Some(Errno::EPERM as i32)));
}

#[test]
fn a_file_opens_by_its_second_name_after_the_first_is_removed_on_a_source_without_handles() {
    let Some(mounted) = over_ntfs_3g() else { return };
    // As git writes an object: under a temporary name, which it removes after linking the final one.
    for round in 0..3 {
        let (temporary, path) =
            (mounted.mnt().join("temporary"), mounted.mnt().join(format!("object {round}")));
        fs::write(&temporary, "content").unwrap();
        fs::hard_link(&temporary, &path).unwrap();
        fs::remove_file(&temporary).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "content", "round {round}");
        fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(3).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "con", "round {round}");
    }
}

/// A mount of NTFS by ntfs-3g, which runs in user space, has no file handles, and opens a file by the name that the kernel
/// looked up.
fn over_ntfs_3g() -> Option<TestMount> {
    if !can_mount() {
        return None;
    }
    let dir = prepare();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let runs = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !runs(Command::new("mkfs.ntfs").args(["-q", "-F", "-f"]).arg(&image)) {
        println!("SKIPPED: there is no mkfs.ntfs");
        return None;
    }
    if !runs(Command::new("ntfs-3g").arg(&image).arg(dir.path().join("backing"))) {
        println!("SKIPPED: ntfs-3g mounts nothing here");
        return None;
    }
    Some(TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &[]))
}
