//! Whose the new entries are. The thread of each test takes on other ids; requests carry those of the thread that asks.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;

use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, open_to_all};

fn whose(path: &Path) -> (u32, u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
}

#[test]
fn new_entries_belong_to_their_creator_and_obey_the_umask() {
    let Some(mounted) = TestMount::new(&[]) else { return };
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
fn a_set_group_id_directory_passes_on_its_group() {
    let Some(mounted) = TestMount::new(&[]) else { return };
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
fn a_supplementary_group_grants_its_permissions() {
    let Some(mounted) = TestMount::new(&[]) else { return };
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
fn writing_removes_the_capabilities_of_a_file() {
    let Some(mounted) = TestMount::new(&[]) else { return };
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
