//! Whose the new entries are. The thread of each test takes on other ids; requests carry those of the thread that asks.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;

use namegate::sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, copy_file_range, fallocate};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::acting::act_as;
use crate::mounted::{Mounted, open_to_all};

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

/// Ways to change the content of an open file.
const CHANGES: [(&str, fn(&File, &File)); 4] = [
    ("write", |mut file, _| file.write_all(b"x").unwrap()),
    ("truncate", |file, _| file.set_len(1).unwrap()),
    ("fallocate", |file, _| fallocate(file, FallocateFlags::empty(), 0, 9999).unwrap()),
    ("copy", |file, from| assert_eq!(copy_file_range(from, Some(&mut 0), file, Some(&mut 0), 7), Ok(7))),
];

/// Who changes what, with which bits, and when it was opened: before the bits came or after. After also means that it was
/// open, and has been closed, before they came.
/// The files are made `behind` and seen in `dir`.
fn change_set_id_file(behind: &Path, dir: &Path, uid: u32, mode: u32, early: bool) -> Vec<(String, u32)> {
    fs::write(dir.join("from"), "content").unwrap();
    let from = File::open(dir.join("from")).unwrap();
    CHANGES
        .iter()
        .map(|(how, change)| {
            let name = format!("{how}-{uid}-{mode:o}-{early}");
            let path = dir.join(&name);
            fs::write(behind.join(&name), "content").unwrap();
            open_to_all(&path);
            let set = || fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let open = || act_as(uid, 2345, &[], 0, || OpenOptions::new().write(true).open(&path).unwrap());
            let file = match early {
                true => {
                    let file = open();
                    set();
                    file
                }
                false => {
                    drop(open());
                    set();
                    open()
                }
            };
            act_as(uid, 2345, &[], 0, || change(&file, &from));
            ((*how).to_owned(), whose(&path).2)
        })
        .collect()
}

#[test]
fn another_user_writing_to_a_set_id_file_takes_the_bits_away() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    for (mode, early) in [(0o6777, false), (0o6777, true), (0o4777, false), (0o2777, true)] {
        let expected = change_set_id_file(&mounted.plain(), &mounted.plain(), 1234, mode, early);
        let found = change_set_id_file(&mounted.backing(), &mounted.mnt(), 1234, mode, early);
        assert_eq!(found, expected, "{mode:o}, opened before the bits came: {early}");
        for (how, kept) in expected {
            let there = mounted.backing().join(format!("{how}-1234-{mode:o}-{early}"));
            assert_eq!(whose(&there).2, kept, "{how} of {mode:o}, in the backing tree");
        }
    }
}

#[test]
fn root_writing_to_a_set_id_file_keeps_what_it_keeps_elsewhere() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    for mode in [0o6777, 0o4755, 0o2775] {
        let expected = change_set_id_file(&mounted.plain(), &mounted.plain(), 0, mode, false);
        assert_eq!(
            change_set_id_file(&mounted.backing(), &mounted.mnt(), 0, mode, false),
            expected,
            "{mode:o}"
        );
    }
}

#[test]
fn capabilities_of_a_file_go_when_it_is_written() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    // VFS_CAP_REVISION_2 of linux/capability.h, effective, with CAP_NET_RAW.
    let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let name = std::ffi::OsStr::new("security.capability");
    for early in [false, true] {
        let path = mounted.mnt().join(format!("file-{early}"));
        fs::write(&path, "content").unwrap();
        open_to_all(&path);
        let open = || OpenOptions::new().write(true).open(&path).unwrap();
        let before = early.then(open);
        let held = OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(&path).unwrap();
        xattr::set(&held, name, &capability, 0).unwrap();
        assert_eq!(xattr::get(&held, name, &mut [0; 64]), Ok(capability.len()));
        before.unwrap_or_else(open).write_all(b"x").unwrap();
        let there =
            OpenOptions::new().read(true).open(mounted.backing().join(format!("file-{early}"))).unwrap();
        assert_eq!(xattr::get(&there, name, &mut [0; 64]), Err(Errno::ENODATA), "{early}");
        assert_eq!(xattr::get(&held, name, &mut [0; 64]), Err(Errno::ENODATA), "{early}");
    }
}
