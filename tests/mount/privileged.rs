//! Privileged operations: whiteouts, and attributes that only administrators see.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use namegate_sys::rename::renameat2;
use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag};

use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, open_to_all};

fn leave_whiteout(from: &Path, to: &Path) -> Result<(), Errno> {
    renameat2(AT_FDCWD, from, AT_FDCWD, to, libc::RENAME_WHITEOUT)
}

#[test]
fn a_whiteout_belongs_to_its_creator() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    for (uid, gid) in [(1234, 2345), (0, 0), (0, 77)] {
        let name = format!("{uid}-{gid}");
        let _ = mounted.same(|dir| {
            let dir = dir.join(&name);
            fs::create_dir(&dir).unwrap();
            open_to_all(&dir);
            let (from, to) = (dir.join("from"), dir.join("to"));
            let result = act_as(uid, gid, &[], 0o022, || {
                File::create(&from).unwrap();
                leave_whiteout(&from, &to)
            });
            let left = fs::symlink_metadata(&from).unwrap();
            let is_device = left.file_type().is_char_device();
            (result, is_device, left.rdev(), left.uid(), left.gid(), left.mode(), to.exists())
        });
    }
}

#[test]
fn a_whiteout_is_a_new_entry_under_the_old_name_and_passes_the_gate() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    fs::write(mounted.backing().join(OsStr::from_bytes(b"\xFFold")), "content").unwrap();
    let shown = mounted.mnt().join("␦FFold");
    assert_eq!(leave_whiteout(&shown, &mounted.mnt().join("new")), Err(Errno::EINVAL));
    assert_eq!(fs::read_dir(mounted.backing()).unwrap().count(), 1);
    // Without a whiteout, the entry gets a valid name as usual.
    fs::rename(&shown, mounted.mnt().join("new")).unwrap();
    assert_eq!(fs::read(mounted.backing().join("new")).unwrap(), b"content");
}

#[test]
fn a_whiteout_is_not_left_under_a_name_in_another_form() {
    let Some(mounted) = TestMount::new(&["--normalize", "nfc", "--on-mismatch", "convert"]) else { return };
    fs::write(mounted.backing().join("e\u{301}"), "content").unwrap();
    for name in ["e\u{301}", "\u{E9}"] {
        let refused = leave_whiteout(&mounted.mnt().join(name), &mounted.mnt().join("new"));
        assert_eq!(refused, Err(Errno::EINVAL), "{name}");
    }
    fs::write(mounted.mnt().join("\u{E8}"), "content").unwrap();
    assert_eq!(leave_whiteout(&mounted.mnt().join("e\u{300}"), &mounted.mnt().join("new")), Ok(()));
    assert!(fs::symlink_metadata(mounted.backing().join("\u{E8}")).unwrap().file_type().is_char_device());
}

const NAMES: [&str; 5] = ["user.a", "trusted.a", "security.a", "system.a", "trusted.overlay.opaque"];

/// The results of a caller's operations on attributes of each kind.
fn attributes(path: &Path) -> Vec<(String, String)> {
    let held = OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(path).unwrap();
    let mut buffer = [0; 1 << 12];
    let mut found = Vec::new();
    let listed = xattr::list(&held, &mut buffer);
    let mut names: Vec<_> = listed.map_or(Vec::new(), |len| {
        let names = buffer[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    });
    names.sort();
    found.push(("list".to_owned(), format!("{names:?}")));
    found.push(("length of list".to_owned(), format!("{:?}", xattr::list(&held, &mut []))));
    found.push(("list without room".to_owned(), format!("{:?}", xattr::list(&held, &mut [0; 3]))));
    for name in NAMES.map(OsStr::new) {
        let said = name.to_string_lossy();
        found.push((format!("get {said}"), format!("{:?}", xattr::get(&held, name, &mut buffer))));
        found.push((format!("set {said}"), format!("{:?}", xattr::set(&held, name, b"other", 0))));
        found.push((format!("remove {said}"), format!("{:?}", xattr::remove(&held, name))));
    }
    found
}

/// Runs `work` as a user without capabilities: `act_as` keeps CAP_SYS_ADMIN.
fn without_capabilities<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    act_as(uid, uid, &[], 0o022, || {
        use namegate_sys::capability::{CapabilitySet, CapabilitySets};
        let none = CapabilitySet::default();
        CapabilitySets { effective: none, permitted: none, inheritable: none }.apply().unwrap();
        work()
    })
}

#[test]
fn trusted_attributes_are_visible_to_administrators_only() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    for (name, uid, has_capabilities) in
        [("user", 1234, false), ("root", 0, true), ("root without capabilities", 0, false)]
    {
        mounted.same(|dir| {
            let path = dir.join(name);
            fs::write(&path, "").unwrap();
            std::os::unix::fs::chown(&path, Some(uid), None).unwrap();
            let held = File::open(&path).unwrap();
            for name in NAMES {
                let _ = xattr::set(&held, name.as_ref(), b"value", 0);
            }
            match has_capabilities {
                true => attributes(&path),
                false => without_capabilities(uid, || attributes(&path)),
            }
        });
    }
}

#[test]
fn attributes_are_set_with_the_rights_of_groups_and_capabilities() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let _ = mounted.same(|dir| {
        let path = dir.join("file");
        fs::write(&path, "").unwrap();
        std::os::unix::fs::chown(&path, Some(1), Some(777)).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o660)).unwrap();
        let set = || {
            let held = OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(&path).unwrap();
            xattr::set(&held, "user.a".as_ref(), b"value", 0)
        };
        (act_as(1234, 777, &[], 0, set), act_as(1234, 2, &[777], 0, set), act_as(1234, 2, &[], 0, set))
    });
}
