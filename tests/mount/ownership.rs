//! Whose the new entries are. The thread of each test takes on other ids; requests carry those of the thread that asks.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::thread;

use namegate::sys::identity::set_thread_groups;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, mkfifo, setfsgid, setfsuid};

use crate::mounted::{Mounted, open_to_all};

/// Runs `work` in a thread that is this user to the file system.
fn act_as<T: Send>(uid: u32, gid: u32, groups: &[u32], mask: u32, work: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
    thread::scope(|scope| {
        let acting = scope.spawn(move || {
            unshare(CloneFlags::CLONE_FS).unwrap();
            umask(Mode::from_bits_truncate(mask));
            set_thread_groups(&groups).unwrap();
            setfsgid(Gid::from_raw(gid));
            setfsuid(Uid::from_raw(uid));
            work()
        });
        acting.join().unwrap()
    })
}

fn whose(path: &Path) -> (u32, u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
}

#[test]
fn what_is_created_belongs_to_whoever_creates_it_and_obeys_the_umask() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    for (uid, gid, mask) in [(1234, 2345, 0o027), (0, 0, 0o022), (0, 2345, 0), (1234, 0, 0o077)] {
        let sub = format!("{uid}-{gid}");
        let (there, here) = (mounted.backing().join(&sub), mounted.mnt().join(&sub));
        act_as(0, 0, &[], 0, || {
            fs::create_dir(&here).unwrap();
            open_to_all(&here);
        });
        act_as(uid, gid, &[], mask, || {
            File::create(here.join("file")).unwrap();
            fs::create_dir(here.join("dir")).unwrap();
            mkfifo(&here.join("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
            symlink("x", here.join("link")).unwrap();
        });
        for (name, mode) in
            [("file", 0o666 & !mask), ("dir", 0o777 & !mask), ("fifo", 0o666 & !mask), ("link", 0o777)]
        {
            assert_eq!(whose(&there.join(name)), (uid, gid, mode), "{name} of {uid}:{gid}");
            assert_eq!(whose(&here.join(name)), (uid, gid, mode), "{name} of {uid}:{gid}, through the mount");
        }
    }
}

#[test]
fn a_set_group_id_directory_hands_its_group_on() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    let dir = mounted.mnt().join("shared");
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(0), Some(777)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o2777)).unwrap();
    act_as(1234, 2345, &[], 0o022, || {
        File::create(dir.join("file")).unwrap();
        fs::create_dir(dir.join("dir")).unwrap();
    });
    assert_eq!(whose(&dir.join("file")), (1234, 777, 0o644));
    assert_eq!(whose(&dir.join("dir")), (1234, 777, 0o2755));
}

#[test]
fn a_supplementary_group_gives_its_right() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    let dir = mounted.mnt().join("of-group");
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(0), Some(777)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
    act_as(1234, 2345, &[777], 0o022, || File::create(dir.join("file")).unwrap());
    assert_eq!(whose(&dir.join("file")), (1234, 2345, 0o644));
    let refused = act_as(1234, 2345, &[778], 0o022, || File::create(dir.join("other")).unwrap_err());
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn another_user_writing_to_a_set_id_file_takes_the_bits_away() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    for how in ["write", "truncate"] {
        let file = mounted.mnt().join(how);
        fs::write(&file, "content").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
        act_as(1234, 2345, &[], 0, || match how {
            "write" => OpenOptions::new().append(true).open(&file).unwrap().write_all(b"x").unwrap(),
            _ => OpenOptions::new().write(true).open(&file).unwrap().set_len(1).unwrap(),
        });
        assert_eq!(whose(&mounted.backing().join(how)).2, 0o777, "{how}");
        assert_eq!(whose(&file).2, 0o777, "{how}, through the mount");
    }
}
