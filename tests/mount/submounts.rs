//! Other file systems mounted in the source.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::statvfs;

use namegate_testkit::mounted::TestMount;
use namegate_testkit::wait_until;

/// A mount that is unmounted on drop.
struct Inside(PathBuf);

impl Inside {
    /// Mounts a tmpfs, or a bind mount of a directory.
    fn new(what: Option<&Path>, on: PathBuf) -> Self {
        fs::create_dir(&on).unwrap();
        let (kind, flags) = match what {
            Some(_) => (None, MsFlags::MS_BIND),
            None => (Some("tmpfs"), MsFlags::empty()),
        };
        mount(what.or(Some(Path::new("inside"))), &on, kind, flags, None::<&str>).unwrap();
        Self(on)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_mount_in_the_source_is_visible_and_separate() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let inside = Inside::new(None, mounted.backing().join("inside"));
    let (here, mnt) = (mounted.mnt().join("inside"), mounted.mnt());
    let own: Vec<PathBuf> = (0..20).map(|i| mnt.join(format!("{i}"))).collect();
    let foreign: Vec<PathBuf> = (0..20).map(|i| here.join(format!("{i}"))).collect();
    let mut numbers = HashSet::from([fs::metadata(&mnt).unwrap().ino(), fs::metadata(&here).unwrap().ino()]);
    for (i, path) in own.iter().chain(&foreign).enumerate() {
        fs::write(path, i.to_string()).unwrap();
        assert!(numbers.insert(fs::metadata(path).unwrap().ino()), "the number of {} twice", path.display());
    }
    for (i, path) in own.iter().chain(&foreign).enumerate() {
        assert_eq!(fs::read_to_string(path).unwrap(), i.to_string());
    }
    assert_eq!(fs::read_to_string(inside.0.join("7")).unwrap(), "27");
    for (seen, there) in [(&mnt, mounted.backing()), (&here, inside.0.clone())] {
        let (seen, there) = (statvfs(seen).unwrap(), statvfs(&there).unwrap());
        assert_eq!((seen.blocks(), seen.files()), (there.blocks(), there.files()));
    }
    let across = [
        fs::rename(&own[0], here.join("new")),
        fs::rename(&foreign[0], mnt.join("new")),
        fs::hard_link(&foreign[0], mnt.join("new")),
    ];
    for result in across {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(Errno::EXDEV as i32));
    }
    assert_eq!(fs::remove_dir(&here).unwrap_err().raw_os_error(), Some(Errno::EBUSY as i32));
    fs::rename(&foreign[0], here.join("new")).unwrap();
    fs::create_dir_all(here.join("sub/dir")).unwrap();
    assert_eq!(fs::read_dir(&here).unwrap().count(), 21);
    fs::remove_dir_all(here.join("sub")).unwrap();
}

#[test]
fn unmounting_in_the_source_uncovers_what_is_below() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let inside = Inside::new(None, mounted.backing().join("inside"));
    fs::write(mounted.mnt().join("inside/file"), "").unwrap();
    drop(inside);
    // The kernel asks again when the timeout is over.
    wait_until("the change", || fs::read_dir(mounted.mnt().join("inside")).unwrap().count() == 0);
    fs::write(mounted.mnt().join("inside/own"), "").unwrap();
    assert!(mounted.backing().join("inside/own").exists());
}

#[test]
fn a_source_mounted_in_itself_causes_no_infinite_recursion() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    fs::create_dir(mounted.backing().join("sub")).unwrap();
    fs::write(mounted.backing().join("sub/file"), "content").unwrap();
    let _whole = Inside::new(Some(&mounted.backing()), mounted.backing().join("whole"));
    let _part = Inside::new(Some(&mounted.backing().join("sub")), mounted.backing().join("part"));
    let whole = fs::metadata(mounted.mnt().join("whole")).unwrap_err();
    assert_eq!(whole.raw_os_error(), Some(Errno::ELOOP as i32));
    // One directory at two paths: both lead to it.
    assert_eq!(fs::read_to_string(mounted.mnt().join("part/file")).unwrap(), "content");
    let mut found = 0;
    let mut left = vec![mounted.mnt()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            found += 1;
            assert!(found < 100, "infinite recursion");
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
        }
    }
    assert!(found >= 3, "{found}");
}
