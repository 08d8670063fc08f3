//! POSIX ACLs, through the extended attributes that store them (acl(5)): their values and their effect.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, can_mount, open_to_all, prepare};

pub const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

// Tags of linux/posix_acl.h.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// An ACL in the format of linux/posix_acl_xattr.h: the version, then tag, permissions and id of every entry.
pub fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(if matches!(*tag, USER | GROUP) { *id } else { u32::MAX }.to_le_bytes());
    }
    bytes
}

pub fn set(path: &Path, name: &str, value: &[u8]) -> nix::Result<()> {
    xattr::set(
        &open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).unwrap(),
        OsStr::new(name),
        value,
        0,
    )
}

pub fn get(path: &Path, name: &str) -> nix::Result<Vec<u8>> {
    let mut value = [0; 1024];
    let held = open(path, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty()).unwrap();
    xattr::get(&held, OsStr::new(name), &mut value).map(|len| value[..len].to_vec())
}

fn errno<T>(result: io::Result<T>) -> Result<(), Option<i32>> {
    result.map(drop).map_err(|error| error.raw_os_error())
}

/// A mount whose backing file system has ACLs.
fn with_acls() -> Option<TestMount> {
    let mounted = TestMount::new(&[])?;
    match get(&mounted.backing(), ACCESS) {
        Err(Errno::EOPNOTSUPP) => {
            println!("SKIPPED: the temporary directory has no ACLs");
            None
        }
        _ => Some(mounted),
    }
}

#[test]
fn new_entries_inherit_the_default_acl_as_in_a_plain_directory() {
    let Some(mounted) = with_acls() else { return };
    let defaults = [
        acl(&[
            (USER_OBJ, 7, 0),
            (USER, 6, 1234),
            (GROUP_OBJ, 5, 0),
            (GROUP, 7, 77),
            (MASK, 7, 0),
            (OTHER, 0, 0),
        ]),
        acl(&[(USER_OBJ, 7, 0), (GROUP_OBJ, 7, 0), (OTHER, 5, 0)]),
    ];
    let _ = mounted.same(|dir| {
        let mut seen = Vec::new();
        for (i, default) in defaults.iter().enumerate() {
            for mask in [0o000, 0o077, 0o027] {
                let parent = dir.join(format!("{i}-{mask:o}"));
                fs::create_dir(&parent).unwrap();
                chown(&parent, Some(1000), Some(777)).unwrap();
                fs::set_permissions(&parent, fs::Permissions::from_mode(0o2777)).unwrap();
                set(&parent, DEFAULT, default).unwrap();
                act_as(1000, 1000, &[], mask, || {
                    File::create(parent.join("file")).unwrap();
                    fs::create_dir(parent.join("dir")).unwrap();
                    mkfifo(&parent.join("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
                    std::os::unix::fs::symlink("x", parent.join("link")).unwrap();
                });
                for name in ["file", "dir", "fifo", "link"] {
                    let path = parent.join(name);
                    let metadata = fs::symlink_metadata(&path).unwrap();
                    let (access, default) = (get(&path, ACCESS), get(&path, DEFAULT));
                    seen.push((name, metadata.mode(), metadata.uid(), metadata.gid(), access, default));
                }
            }
        }
        seen
    });
}

#[test]
fn an_acl_allows_and_denies_the_same_as_in_a_plain_directory() {
    let Some(mounted) = with_acls() else { return };
    let results = mounted.same(|dir| {
        let parent = dir.join("shared");
        fs::create_dir(&parent).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o700)).unwrap();
        let access = acl(&[
            (USER_OBJ, 7, 0),
            (USER, 7, 1001),
            (USER, 0, 1002),
            (GROUP_OBJ, 0, 0),
            (GROUP, 7, 77),
            (GROUP, 5, 78),
            (MASK, 7, 0),
            (OTHER, 0, 0),
        ]);
        set(&parent, ACCESS, &access).unwrap();
        fs::write(parent.join("file"), "").unwrap();
        set(&parent.join("file"), ACCESS, &access).unwrap();
        let tries = |uid: u32, groups: &[u32]| {
            act_as(uid, uid, groups, 0, || {
                [
                    errno(File::create(parent.join(format!("by-{uid}")))),
                    errno(fs::create_dir(parent.join(format!("dir-of-{uid}")))),
                    errno(fs::read_dir(&parent)),
                    errno(OpenOptions::new().write(true).open(parent.join("file"))),
                    errno(fs::rename(parent.join(format!("by-{uid}")), parent.join(format!("now-{uid}")))),
                    errno(fs::remove_file(parent.join(format!("now-{uid}")))),
                ]
            })
        };
        // A named user; a user who is excluded although a group has access; supplementary groups; a user without rights.
        [tries(1001, &[]), tries(1002, &[77]), tries(1003, &[77]), tries(1004, &[78]), tries(1005, &[79])]
    });
    assert_eq!((results[0][0], results[2][0]), (Ok(()), Ok(())));
    assert_eq!((results[1][0], results[4][0]), (Err(Some(13)), Err(Some(13))));
}

#[test]
fn acls_change_as_in_a_plain_directory() {
    let Some(mounted) = with_acls() else { return };
    let _ = mounted.same(|dir| {
        let path = dir.join("file");
        fs::write(&path, "").unwrap();
        chown(&path, Some(1000), Some(777)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2775)).unwrap();
        let access =
            acl(&[(USER_OBJ, 7, 0), (USER, 6, 1234), (GROUP_OBJ, 5, 0), (MASK, 7, 0), (OTHER, 4, 0)]);
        let state = || (fs::metadata(&path).unwrap().mode(), get(&path, ACCESS));
        let by_stranger = act_as(1001, 777, &[], 0, || set(&path, ACCESS, &access));
        // The owner is not in the group: the set-group-id bit is cleared.
        let by_owner = act_as(1000, 1000, &[], 0, || set(&path, ACCESS, &access));
        let first = state();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2775)).unwrap();
        let in_group = act_as(1000, 1000, &[777], 0, || set(&path, ACCESS, &access));
        let second = state();
        // chmod(1) sets the mask of an ACL, not the permissions of the group.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let third = state();
        let plain = acl(&[(USER_OBJ, 6, 0), (GROUP_OBJ, 4, 0), (OTHER, 0, 0)]);
        let made_plain = act_as(1000, 1000, &[], 0, || set(&path, ACCESS, &plain));
        let fourth = state();
        let malformed = [
            set(&path, ACCESS, b"x"),
            set(&path, ACCESS, &acl(&[(MASK, 7, 0)])),
            set(&path, DEFAULT, &plain),
        ];
        (by_stranger, by_owner, first, in_group, second, third, made_plain, fourth, malformed)
    });
}

#[test]
fn a_source_without_acls_decides_by_its_modes() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let ramfs = Some("ramfs");
    if let Err(errno) = mount(ramfs, &dir.path().join("backing"), ramfs, MsFlags::empty(), None::<&str>) {
        return println!("SKIPPED: no ramfs can be mounted: {errno}");
    }
    open_to_all(&dir.path().join("backing"));
    assert_eq!(get(&dir.path().join("backing"), ACCESS), Err(Errno::EOPNOTSUPP));
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &[]);
    let directory = mounted.mnt().join("directory");
    fs::create_dir(&directory).unwrap();
    let [shared, private] = ["shared", "private"].map(|name| directory.join(name));
    for (path, mode) in [(&shared, 0o777), (&private, 0o700)] {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    act_as(65534, 65534, &[], 0o022, || {
        fs::write(shared.join("file"), "theirs").unwrap();
        assert_eq!(fs::read_to_string(shared.join("file")).unwrap(), "theirs");
        assert_eq!(errno(fs::write(private.join("file"), "")), Err(Some(libc::EACCES)));
    });
    assert_eq!(set(&shared, ACCESS, &acl(&[])), Err(Errno::EOPNOTSUPP));
}
