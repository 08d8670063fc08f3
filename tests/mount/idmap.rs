//! Idmapped mounts of a mount, as containers with user namespaces use them: the same as of a plain directory.

#![allow(unsafe_code, reason = "mount_setattr(2) is in no library")]

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use namegate_sys::tree::{attach_tree, clone_tree};
use namegate_telemetry::audit::WHY_ATTRIBUTE;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::mount::{MntFlags, umount2};
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{linkat, mkfifo};

use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, open_to_all, transport};
use namegate_testkit::wait_until;

/// What the ids of the source become.
const SHIFT: u32 = 100_000;

/// User, group and supplementary groups on the host.
const CALLERS: [(u32, u32, &[u32]); 6] = [
    // In the container: the owner of the directory, a member of its group, another user, and root.
    (SHIFT + 1000, SHIFT + 1000, &[]),
    (SHIFT + 1001, SHIFT + 1001, &[SHIFT + 1000]),
    (SHIFT + 1002, SHIFT + 1002, &[]),
    (SHIFT, SHIFT, &[]),
    // On the host: the user with the ids of the source, who is nobody there, and root.
    (1000, 1000, &[]),
    (0, 0, &[]),
];

/// A directory that is mounted with other owners; unmounted on drop.
struct Shifted(PathBuf);

impl Drop for Shifted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// A process in a user namespace with the ids from [`SHIFT`] on; ended on drop.
struct Users(Child);

impl Users {
    fn new() -> Option<Self> {
        let Ok(child) = Command::new("unshare").args(["--user", "sleep", "600"]).spawn() else {
            println!("SKIPPED: no unshare");
            return None;
        };
        let users = Self(child);
        wait_until("the user namespace", || {
            fs::read_to_string(users.proc("comm")).unwrap().trim_end() == "sleep"
        });
        ["uid_map", "gid_map"]
            .iter()
            .for_each(|map| fs::write(users.proc(map), format!("0 {SHIFT} 65536")).unwrap());
        Some(users)
    }

    fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.0.id())
    }

    /// Mounts `what` on `place` with the owners of this namespace.
    fn mount(&self, what: &Path, place: PathBuf) -> Result<Shifted, Errno> {
        fs::create_dir(&place).unwrap();
        let tree: OwnedFd = clone_tree(what, false)?;
        let users = File::open(self.proc("ns/user")).unwrap();
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_IDMAP,
            attr_clr: 0,
            propagation: 0,
            userns_fd: users.as_raw_fd() as u64,
        };
        // SAFETY: path and attributes outlive the call, which only reads them, and the size is that of the attributes.
        Errno::result(unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                tree.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                &raw const attributes,
                size_of_val(&attributes),
            )
        })?;
        attach_tree(tree, &place)?;
        Ok(Shifted(place))
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn done<T>(result: std::io::Result<T>) -> Result<(), Errno> {
    result.map(drop).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap()))
}

/// A way to use a directory that has the file `old`.
type Operation = fn(&Path) -> Result<(), Errno>;

const OPERATIONS: [(&str, Operation); 20] = [
    ("create", |dir| done(File::create_new(dir.join("new")))),
    ("mkdir", |dir| done(fs::create_dir(dir.join("new")))),
    ("mkfifo", |dir| mkfifo(&dir.join("new"), Mode::S_IRWXU)),
    ("symlink", |dir| done(symlink("target", dir.join("new")))),
    ("link", |dir| done(fs::hard_link(dir.join("old"), dir.join("new")))),
    ("rename", |dir| done(fs::rename(dir.join("old"), dir.join("new")))),
    ("unlink", |dir| done(fs::remove_file(dir.join("old")))),
    ("read", |dir| done(fs::read(dir.join("old")))),
    ("write", |dir| {
        done(
            OpenOptions::new()
                .append(true)
                .open(dir.join("old"))
                .and_then(|file| std::io::Write::write_all(&mut &file, b"more")),
        )
    }),
    ("truncate", |dir| nix::unistd::truncate(&dir.join("old"), 3)),
    ("chmod", |dir| done(fs::set_permissions(dir.join("old"), fs::Permissions::from_mode(0o6750)))),
    ("chown to nobody else", |dir| done(chown(dir.join("old"), Some(SHIFT + 1000), None))),
    ("chown to another", |dir| done(chown(dir.join("old"), Some(SHIFT + 7), Some(SHIFT + 8)))),
    ("chown to one who is none there", |dir| done(chown(dir.join("old"), Some(7), None))),
    ("chgrp", |dir| done(lchown(dir.join("old"), None, Some(SHIFT + 1001)))),
    ("set a time", |dir| {
        let old = TimeSpec::new(1000, 0);
        utimensat(AT_FDCWD, &dir.join("old"), &old, &old, UtimensatFlags::FollowSymlink)
    }),
    ("list", |dir| done(fs::read_dir(dir))),
    ("nameless", |dir| {
        if transport() == "fuser" {
            // It does not know TMPFILE.
            return Ok(());
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).custom_flags(libc::O_TMPFILE).open(dir);
        let file = file.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap()))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(AT_FDCWD, path.as_str(), AT_FDCWD, &dir.join("new"), AtFlags::AT_SYMLINK_FOLLOW)
    }),
    ("replace", |dir| {
        done(fs::write(dir.join("new"), "new"))?;
        done(fs::rename(dir.join("new"), dir.join("old")))
    }),
    ("create below", |dir| {
        done(fs::create_dir(dir.join("new")))?;
        done(fs::write(dir.join("new/file"), "content"))
    }),
];

/// Owner, group and mode of each entry.
fn entries(dir: &Path) -> Vec<(String, [u32; 3])> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let found = fs::symlink_metadata(entry.path()).unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, [found.uid(), found.gid(), found.mode()])
        })
        .collect();
    found.sort();
    found
}

/// The results of all operations, with what is seen then with other owners, and in `source`.
fn outcomes(shifted: &Path, source: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for dir_mode in [0o755, 0o2775, 0o777] {
        for (name, operation) in OPERATIONS {
            for (uid, gid, groups) in CALLERS {
                let (here, there) = (shifted.join("dir"), source.join("dir"));
                fs::create_dir(&there).unwrap();
                fs::write(there.join("old"), "content").unwrap();
                for path in [&there.join("old"), &there] {
                    chown(path, Some(1000), Some(1000)).unwrap();
                }
                fs::set_permissions(there.join("old"), fs::Permissions::from_mode(0o6755)).unwrap();
                fs::set_permissions(&there, fs::Permissions::from_mode(dir_mode)).unwrap();
                let result = act_as(uid, gid, groups, 0o022, || operation(&here));
                all.push(format!(
                    "{name} by {uid}:{gid} in {groups:?}, {dir_mode:o}: {result:?}, {:?}, {:?}",
                    entries(&here),
                    entries(&there)
                ));
                fs::remove_dir_all(&there).unwrap();
            }
        }
    }
    all
}

/// Whether the kernel is older than Linux 6.12, which has `FUSE_ALLOW_IDMAP`; prints SKIPPED if so.
fn is_old() -> bool {
    let is_old = namegate_sys::release::running().is_none_or(|running| running < (6, 12, 0));
    if is_old {
        println!("SKIPPED: this kernel has no idmapped mounts of FUSE mounts");
    }
    is_old
}

#[test]
fn an_idmapped_mount_of_the_mount_has_the_owners_of_one_of_a_plain_directory() {
    if is_old() {
        return;
    }
    let args = ["--idmap", "-o", "entry_timeout=0,attr_timeout=0"];
    let Some(mounted) = TestMount::new(&args) else { return };
    let Some(users) = Users::new() else { return };
    let places = [mounted.plain(), mounted.mnt()].map(|dir| (dir.with_extension("shifted"), dir));
    let [plain, through] = places.map(|(place, dir)| users.mount(&dir, place));
    let Ok(plain) = plain else {
        return println!("SKIPPED: the file system of the temporary directory has no idmapped mounts");
    };
    let through = through.unwrap();
    open_to_all(&mounted.backing());
    let expected = outcomes(&plain.0, &mounted.plain());
    let found = outcomes(&through.0, &mounted.backing());
    let wrong: Vec<_> = expected.iter().zip(&found).filter(|(expected, found)| expected != found).collect();
    assert!(wrong.is_empty(), "{} of {} differ: {wrong:#?}", wrong.len(), found.len());
}

#[test]
fn refusals_in_a_container_are_recorded_with_the_user_of_the_host() {
    if is_old() {
        return;
    }
    let Some(users) = Users::new() else { return };
    let Some(mounted) = TestMount::new(&["--idmap", "--profile", "windows"]) else { return };
    let Ok(shifted) = users.mount(&mounted.mnt(), mounted.mnt().with_extension("shifted")) else {
        return println!("SKIPPED: no idmapped mount");
    };
    open_to_all(&mounted.backing());
    let why = |dir: &Path, uid: u32| {
        act_as(uid, uid, &[], 0, || {
            let mut answer = [0; 4096];
            let read =
                namegate_sys::xattr::get(&File::open(dir).unwrap(), WHY_ATTRIBUTE.as_ref(), &mut answer);
            String::from_utf8_lossy(&answer[..read.unwrap()]).into_owned()
        })
    };
    let refused = act_as(SHIFT + 1000, SHIFT + 1000, &[], 0, || done(File::create(shifted.0.join("a:b"))));
    assert_eq!(refused, Err(Errno::EINVAL));
    // It is recorded after the reply.
    wait_until("the answer to the user of the container", || why(&shifted.0, SHIFT + 1000).contains("a:b"));
    assert!(!why(&mounted.mnt(), 1000).contains("a:b"), "the user with that id on the host is not");
}

#[test]
fn an_idmapped_mount_is_refused_unless_it_is_asked_for() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let Some(users) = Users::new() else { return };
    let refused = users.mount(&mounted.mnt(), mounted.mnt().with_extension("shifted"));
    assert_eq!(refused.map(drop), Err(Errno::EINVAL));
}
