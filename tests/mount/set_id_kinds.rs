//! Set-id bits of files of every type when their owner changes. chown(2) clears them in all but directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;

use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, open_to_all};

const OWNER: u32 = 1234;
const GROUP: u32 = 2345;

/// How a file of each type is made. A device keeps the bits that it gets here, so modes are set later.
const KINDS: [(&str, fn(&Path)); 7] = [
    ("regular file", |path| fs::write(path, "content").unwrap()),
    ("directory", |path| fs::create_dir(path).unwrap()),
    ("FIFO", |path| mkfifo(path, Mode::S_IRWXU).unwrap()),
    ("socket", |path| drop(UnixListener::bind(path).unwrap())),
    ("character device", |path| mknod(path, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 3)).unwrap()),
    ("block device", |path| mknod(path, SFlag::S_IFBLK, Mode::S_IRWXU, makedev(7, 99)).unwrap()),
    ("symbolic link", |path| symlink("nowhere", path).unwrap()),
];

/// User, group, supplementary groups.
const CALLERS: [(u32, u32, &[u32]); 5] =
    [(0, 0, &[]), (OWNER, GROUP, &[77]), (OWNER, 999, &[77, GROUP]), (OWNER, 999, &[77]), (4321, GROUP, &[])];

/// New owner and group.
const CHANGES: [(Option<u32>, Option<u32>); 6] = [
    (None, None),
    (Some(OWNER), None),
    (Some(4321), None),
    (None, Some(GROUP)),
    (None, Some(77)),
    (Some(4321), Some(77)),
];

const MODES: [u32; 8] = [0o6777, 0o2755, 0o2745, 0o2644, 0o4755, 0o4644, 0o6644, 0o1777];

/// Sets the mode of a file in `dir`, then its owner by `caller`. Returns the results, and all that the file has then.
fn outcomes(dir: &Path) -> Vec<(String, Result<(), Errno>, [u32; 3])> {
    let mut all = Vec::new();
    open_to_all(dir);
    for (kind, make) in KINDS {
        for mode in MODES {
            for (uid, gid, groups) in CALLERS {
                for (owner, group) in CHANGES {
                    let is_nothing = owner.is_none() && group.is_none();
                    // Through a mount, the kernel does not distinguish this from a write: nothing is changed and nothing refused.
                    if is_nothing && uid == 4321 {
                        continue;
                    }
                    let path = dir.join("file");
                    make(&path);
                    lchown(&path, Some(OWNER), Some(GROUP)).unwrap();
                    if kind != "symbolic link" {
                        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                    }
                    let change = || match kind {
                        "symbolic link" => lchown(&path, owner, group),
                        _ => chown(&path, owner, group),
                    };
                    let changed = act_as(uid, gid, groups, 0, change)
                        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap()));
                    let found = fs::symlink_metadata(&path).unwrap();
                    let what =
                        format!("{kind} {mode:o}, chown to {owner:?}:{group:?} by {uid}:{gid} in {groups:?}");
                    all.push((what, changed, [found.mode(), found.uid(), found.gid()]));
                    if kind == "directory" { fs::remove_dir(&path) } else { fs::remove_file(&path) }.unwrap();
                }
            }
        }
    }
    all
}

#[test]
fn a_change_of_owner_clears_the_set_id_bits_of_files_of_every_type() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let (expected, found) = (outcomes(&mounted.plain()), outcomes(&mounted.mnt()));
    let wrong: Vec<_> = expected.iter().zip(&found).filter(|(expected, found)| expected != found).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ: {:#?}",
        wrong.len(),
        found.len(),
        &wrong[..wrong.len().min(20)]
    );
}
