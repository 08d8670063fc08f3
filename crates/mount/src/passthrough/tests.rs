//! Every method on a real directory, without a mount. All tests run as root; for other users, those that need root are
//! SKIPPED.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use namegate_core::gate::{Admitted, Gate, Intent, Mode};
use namegate_core::policy::{Policy, profile};
use nix::sys::time::TimeSpec;
use nix::unistd::{getegid, geteuid};
use tempfile::TempDir;

use super::filesystems::SMB_MAGICS;
use super::node::FoundInode;
use super::*;

struct Tree {
    dir: TempDir,
    tree: Passthrough,
    gate: Gate,
}

impl Tree {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = fs::File::open(dir.path()).unwrap();
        let tree = Passthrough::new(
            source.into(),
            PassthroughSettings { cached_fds: 4, ..PassthroughSettings::default() },
        )
        .unwrap();
        let gate = Gate::new(Arc::new(Policy::from_profiles(&[&profile::UTF8])), Mode::Enforcing);
        Self { dir, tree, gate }
    }

    fn name<'n>(&self, name: &'n str) -> Admitted<'n> {
        self.gate.admit(Intent::Address, OsStr::new(name)).unwrap()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn lookup(&self, name: &str) -> Result<LookupEntry> {
        self.tree.lookup(NodeId::ROOT, &self.name(name))
    }

    fn create(&self, name: &str, flags: i32) -> Result<(LookupEntry, Fh)> {
        self.tree.create(&myself(), NodeId::ROOT, &self.name(name), 0o666, flags)
    }

    fn listed(&self, fh: Fh) -> Vec<String> {
        let mut names = Vec::new();
        self.tree
            .readdir(fh, 0, |entry| {
                names.push(entry.name.to_str().unwrap().to_owned());
                ControlFlow::Continue(())
            })
            .unwrap();
        names.sort();
        names
    }
}

pub(super) fn myself() -> Caller {
    Caller {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        pid: std::process::id(),
        group: None,
        umask: 0o022,
        uses_alias: false,
    }
}

fn ino(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[test]
fn an_error_in_the_middle_of_a_directory_is_told_after_what_came_before_it() {
    let t = Tree::new();
    let dir = t.path("dir");
    fs::create_dir(&dir).unwrap();
    for n in 0..3000 {
        fs::write(dir.join(format!("a name of some length {n}")), "").unwrap();
    }
    let node = t.lookup("dir").unwrap().node;
    let (fh, _) = t.tree.opendir(node, 0).unwrap();
    // A directory that is gone cannot be read further (ENOENT), but entries that were read before are returned.
    let mut last = 0;
    let mut handed = 0;
    let done = t.tree.readdir(fh, 0, |entry| {
        let _ = fs::remove_dir_all(&dir);
        (last, handed) = (entry.next, handed + 1);
        ControlFlow::Continue(())
    });
    assert!(done == Ok(()) && handed > 100 && handed < 3000, "{done:?} {handed}");
    assert_eq!(t.tree.readdir(fh, last, |_| ControlFlow::Continue(())), Err(Errno::ENOENT));
    assert_eq!(t.tree.list(node, |_| ControlFlow::Continue(())), Err(Errno::ENOENT));
}

#[test]
fn a_node_is_known_by_the_backing_inode_number_until_its_last_lookup_is_taken_back() {
    let t = Tree::new();
    fs::write(t.path("file"), "content").unwrap();
    fs::hard_link(t.path("file"), t.path("other")).unwrap();
    let (one, two) = (t.lookup("file").unwrap(), t.lookup("other").unwrap());
    assert_eq!((one.node, one.generation), (two.node, two.generation));
    assert_eq!(one.node.0, ino(&t.path("file")));
    assert_eq!((two.stat.st_nlink, t.tree.nodes()), (2, 2));
    assert!(!t.tree.forget(one.node, 1));
    assert_eq!(t.tree.getattr(one.node).unwrap().st_size, 7);
    assert!(t.tree.forget(one.node, 1));
    assert_eq!(t.tree.getattr(one.node).unwrap_err(), Errno::ESTALE);
    assert_eq!(t.tree.nodes(), 1);
    assert!(!t.tree.forget(NodeId::ROOT, 1000), "the root stays");
    assert_eq!(t.tree.getattr(NodeId::ROOT).unwrap().st_ino, ino(t.dir.path()));
    assert_eq!(t.lookup("none").unwrap_err(), Errno::ENOENT);
}

#[test]
fn more_nodes_than_descriptors_are_all_within_reach() {
    let t = Tree::new();
    if !t.tree.holds_by_handle() {
        return println!("SKIPPED: no kernel file handles here");
    }
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let nodes: Vec<NodeId> = (0..300)
        .map(|i| {
            fs::write(t.path(&i.to_string()), vec![0; i]).unwrap();
            t.lookup(&i.to_string()).unwrap().node
        })
        .collect();
    // Other tests of this process open files meanwhile, but not as many as 300.
    assert!(open() < before + 150, "{} descriptors, {before} before", open());
    for (i, &node) in nodes.iter().enumerate() {
        assert_eq!(t.tree.getattr(node).unwrap().st_size, i as i64);
    }
}

#[test]
fn what_is_made_is_there_and_counted() {
    let t = Tree::new();
    let me = myself();
    let dir = t.tree.make(&me, NodeId::ROOT, &t.name("dir"), NewEntry::Directory { mode: 0o777 }).unwrap();
    assert_eq!(dir.stat.st_mode & 0o7777, 0o755, "the umask is the caller's");
    let fifo = t
        .tree
        .make(&me, dir.node, &t.name("fifo"), NewEntry::Node { mode: libc::S_IFIFO | 0o600, rdev: 0 })
        .unwrap();
    assert_eq!(fifo.stat.st_mode, libc::S_IFIFO | 0o600);
    let target = OsStr::new("any/where");
    let link = t.tree.make(&me, dir.node, &t.name("link"), NewEntry::Symlink(target)).unwrap();
    assert_eq!(t.tree.readlink(link.node).unwrap(), target);
    assert_eq!(t.tree.readlink(dir.node), Err(Errno::EINVAL));
    let again = t.tree.link(&me, link.node, NodeId::ROOT, &t.name("again")).unwrap();
    assert_eq!((again.node, again.stat.st_nlink), (link.node, 2), "the link itself, not what it names");
    assert_eq!(
        t.tree.make(&me, NodeId::ROOT, &t.name("dir"), NewEntry::Directory { mode: 0o777 }).unwrap_err(),
        Errno::EEXIST
    );
    for (node, count) in [(dir.node, 1), (fifo.node, 1), (link.node, 2)] {
        assert!(t.tree.forget(node, count));
    }
    assert_eq!(t.tree.nodes(), 1);
}

#[test]
fn create_opens_what_came_to_exist_meanwhile_and_nothing_that_is_no_file() {
    let t = Tree::new();
    let (entry, fh) = t.create("file", libc::O_RDWR).unwrap();
    assert_eq!(entry.stat.st_mode, libc::S_IFREG | 0o644);
    assert_eq!(t.tree.write(Some(&myself()), fh, 0, b"content", SetId::Kept), Ok(7));
    assert_eq!(t.create("file", libc::O_RDWR | libc::O_EXCL).unwrap_err(), Errno::EEXIST);
    let (same, other) = t.create("file", libc::O_RDONLY).unwrap();
    assert_eq!(same.node, entry.node);
    let mut buffer = [0; 32];
    assert_eq!(t.tree.read(other, 3, &mut buffer), Ok(4));
    assert_eq!(&buffer[..4], b"tent");
    t.create("file", libc::O_RDWR | libc::O_TRUNC).unwrap();
    assert_eq!(fs::read(t.path("file")).unwrap(), b"");
    nix::unistd::mkfifo(&t.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("file", t.path("link")).unwrap();
    for name in ["fifo", "link"] {
        assert_eq!(t.create(name, libc::O_RDWR).unwrap_err(), Errno::ESTALE, "{name}");
    }
    let fifo = t.lookup("fifo").unwrap().node;
    assert_eq!(t.tree.open(&myself(), fifo, libc::O_RDONLY), Err(Errno::EINVAL));
}

#[test]
fn an_open_file_does_all_that_files_do() {
    let t = Tree::new();
    let (entry, fh) = t.create("file", libc::O_RDWR).unwrap();
    t.tree.write(Some(&myself()), fh, 0, &[b'x'; 5000], SetId::Kept).unwrap();
    t.tree.fallocate(&myself(), fh, 0, 0, 1 << 20).unwrap();
    assert_eq!(t.tree.fallocate(&myself(), fh, 1 << 30, 0, 1), Err(Errno::EOPNOTSUPP));
    assert_eq!(t.tree.lseek(fh, 0, libc::SEEK_DATA), Ok(0));
    assert_eq!(t.tree.lseek(fh, 1 << 21, libc::SEEK_HOLE), Err(Errno::ENXIO));
    assert_eq!(t.tree.lseek(fh, 0, libc::SEEK_SET), Err(Errno::EINVAL));
    let (_, copy) = t.create("copy", libc::O_RDWR).unwrap();
    let range = CopyRange { from: fh, from_offset: 0, to: copy, to_offset: 1, len: 100 };
    assert_eq!(t.tree.copy_file_range(&myself(), &range), Ok(100));
    assert_eq!(fs::metadata(t.path("copy")).unwrap().len(), 101);
    t.tree.flush(fh).unwrap();
    t.tree.fsync(fh, false).unwrap();
    t.tree.fsync(fh, true).unwrap();
    t.tree.release(fh);
    assert_eq!(t.tree.flush(fh), Err(Errno::EBADF));
    let reader = t.tree.open(&myself(), entry.node, libc::O_RDONLY).unwrap();
    t.tree.open_here(reader).unwrap();
    assert_eq!(t.tree.write(Some(&myself()), reader, 0, b"x", SetId::Kept), Err(Errno::EBADF));
    assert_eq!(t.tree.read(reader, u64::MAX, &mut [0]), Err(Errno::EINVAL));
}

#[test]
fn a_removed_file_is_within_reach_while_the_kernel_knows_it() {
    let t = Tree::new();
    for name in ["unlinked", "replaced"] {
        let node = {
            let (entry, fh) = t.create(name, libc::O_RDWR).unwrap();
            t.tree.write(Some(&myself()), fh, 0, b"content", SetId::Kept).unwrap();
            t.tree.release(fh);
            entry.node
        };
        // Removes it from the cache of descriptors.
        for i in 0..10 {
            fs::write(t.path(&format!("{name}{i}")), "").unwrap();
            t.lookup(&format!("{name}{i}")).unwrap();
        }
        match name {
            "unlinked" => t.tree.unlink(0, NodeId::ROOT, &t.name(name)).unwrap(),
            _ => {
                let (from, to) = (t.name("replaced0"), t.name(name));
                t.tree.rename(&myself(), NodeId::ROOT, &from, NodeId::ROOT, &to, 0).unwrap();
            }
        }
        for i in 1..10 {
            t.lookup(&format!("{name}{i}")).unwrap();
        }
        let stat = t.tree.getattr(node).unwrap();
        assert_eq!((stat.st_nlink, stat.st_size), (0, 7), "{name}");
        assert!(t.tree.forget(node, 1));
    }
}

#[test]
fn a_number_that_was_given_to_another_file_is_another_generation() {
    let t = Tree::new();
    if !t.tree.holds_by_handle() {
        return println!("SKIPPED: no kernel file handles here");
    }
    fs::write(t.path("file"), "").unwrap();
    let old = t.lookup("file").unwrap();
    // Removes it from the cache, so that no descriptor holds the inode.
    for i in 0..10 {
        fs::write(t.path(&i.to_string()), "").unwrap();
        t.lookup(&i.to_string()).unwrap();
    }
    fs::remove_file(t.path("file")).unwrap();
    assert_eq!(t.tree.getattr(old.node).unwrap_err(), Errno::ESTALE);
    fs::write(t.path("new"), "new").unwrap();
    let new = t.lookup("new").unwrap();
    if new.node != old.node {
        return println!("SKIPPED: this file system did not give the number again at once");
    }
    assert_ne!(new.generation, old.generation);
    assert_eq!(t.tree.getattr(new.node).unwrap().st_size, 3);
    assert!(!t.tree.forget(old.node, 1), "what the kernel takes back of the old one leaves the new one");
    assert!(t.tree.forget(new.node, 1));
}

#[test]
fn a_number_that_a_file_server_gives_again_is_another_generation_although_the_old_file_is_held() {
    // The second file or directory gets the number of the first one, as on file servers.
    for (is_removed, is_directory) in [(true, false), (false, true)] {
        let t = Tree::new();
        let enter = |name: &str, number: Option<u64>| {
            let held = OwnedFd::from(
                fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(t.path(name)).unwrap(),
            );
            let mut stat = nix::sys::stat::fstat(&held).unwrap();
            stat.st_ino = number.unwrap_or(stat.st_ino);
            t.tree.nodes.enter(stat, FoundInode::Fd(held), None).unwrap()
        };
        fs::write(t.path("old"), "").unwrap();
        let old = enter("old", None);
        assert_eq!(enter("old", None).generation, old.generation, "the same file, found again");
        if is_removed {
            fs::remove_file(t.path("old")).unwrap();
        }
        match is_directory {
            true => fs::create_dir(t.path("new")).unwrap(),
            false => fs::write(t.path("new"), "new").unwrap(),
        }
        let new = enter("new", Some(old.stat.st_ino));
        assert_eq!(new.node, old.node);
        assert_ne!(new.generation, old.generation);
        assert_eq!(t.tree.getattr(new.node).unwrap().st_mode, new.stat.st_mode);
        assert!(t.tree.forget(new.node, 3));
    }
}

#[test]
fn the_kernel_opens_no_backing_file_on_smb() {
    let mut t = Tree::new();
    fs::write(t.path("file"), "").unwrap();
    let node = t.lookup("file").unwrap().node;
    assert!(t.tree.lend(node, |_| Ok(())).unwrap().is_some());
    for kind in SMB_MAGICS {
        t.tree.kind = kind;
        assert!(t.tree.lend(node, |_| -> io::Result<()> { panic!("it was offered") }).unwrap().is_none());
    }
}

#[test]
fn names_go_and_change_places() {
    let t = Tree::new();
    let root = NodeId::ROOT;
    fs::create_dir(t.path("dir")).unwrap();
    fs::write(t.path("a"), "a").unwrap();
    fs::write(t.path("b"), "b").unwrap();
    assert_eq!(t.tree.unlink(0, root, &t.name("dir")), Err(Errno::EISDIR));
    assert_eq!(t.tree.rmdir(0, root, &t.name("a")), Err(Errno::ENOTDIR));
    let rename = |from, to, flags| t.tree.rename(&myself(), root, &t.name(from), root, &t.name(to), flags);
    assert_eq!(rename("a", "b", libc::RENAME_NOREPLACE), Err(Errno::EEXIST));
    assert_eq!(rename("a", "b", 1 << 20), Err(Errno::EINVAL));
    rename("a", "b", libc::RENAME_EXCHANGE).unwrap();
    assert_eq!(fs::read_to_string(t.path("a")).unwrap(), "b");
    let dir = t.lookup("dir").unwrap().node;
    t.tree.rename(&myself(), root, &t.name("a"), dir, &t.name("c"), 0).unwrap();
    assert_eq!(t.tree.rmdir(0, root, &t.name("dir")), Err(Errno::ENOTEMPTY));
    t.tree.unlink(0, dir, &t.name("c")).unwrap();
    t.tree.rmdir(0, root, &t.name("dir")).unwrap();
    assert_eq!(t.tree.unlink(0, root, &t.name("dir")), Err(Errno::ENOENT));
}

#[test]
fn attributes_change_and_are_told_as_they_are_then() {
    let t = Tree::new();
    let (entry, fh) = t.create("file", libc::O_RDWR).unwrap();
    let time = |seconds| Some(TimeSpec::new(seconds, 5));
    let changes = Changes {
        mode: Some(0o4711),
        size: Some(1 << 33),
        atime: time(-2),
        mtime: time(3),
        ..Changes::default()
    };
    let stat = t.tree.setattr(&myself(), entry.node, Some(fh), &changes).unwrap();
    assert_eq!((stat.st_mode & 0o7777, stat.st_size, stat.st_ino), (0o4711, 1 << 33, entry.node.0));
    assert_eq!((stat.st_atime, stat.st_atime_nsec, stat.st_mtime), (-2, 5, 3));
    let shorter = Changes { size: Some(1), ..Changes::default() };
    let stat = t.tree.setattr(&myself(), entry.node, None, &shorter).unwrap();
    assert_eq!((stat.st_size, stat.st_atime), (1, -2));
    let endless = Changes { size: Some(u64::MAX), ..Changes::default() };
    assert_eq!(t.tree.setattr(&myself(), entry.node, None, &endless).unwrap_err(), Errno::EFBIG);
    std::os::unix::fs::symlink("file", t.path("link")).unwrap();
    let link = t.lookup("link").unwrap().node;
    t.tree.setattr(&myself(), link, None, &Changes { mtime: time(7), ..Changes::default() }).unwrap();
    assert_eq!(fs::symlink_metadata(t.path("link")).unwrap().mtime(), 7);
    assert_ne!(fs::metadata(t.path("file")).unwrap().mtime(), 7, "the link's target is not meant");
    assert!(t.tree.statfs(entry.node).unwrap().blocks() > 0);
    if !geteuid().is_root() {
        return println!("SKIPPED: changing owners needs root");
    }
    let owner = Changes { uid: Some(12), gid: Some(34), ..Changes::default() };
    let stat = t.tree.setattr(&myself(), entry.node, None, &owner).unwrap();
    assert_eq!((stat.st_uid, stat.st_gid), (12, 34));
    let link = t.tree.setattr(&myself(), link, None, &owner).unwrap();
    assert_eq!((link.st_uid, link.st_mode & libc::S_IFMT), (12, libc::S_IFLNK));
}

#[test]
fn a_directory_can_be_read_in_pieces_and_again() {
    let t = Tree::new();
    let mut expected = vec![".".to_owned(), "..".to_owned()];
    for i in 0..1000 {
        let name = format!("a-name-that-is-not-too-short-{i}");
        fs::write(t.path(&name), "").unwrap();
        expected.push(name);
    }
    expected.sort();
    let (fh, _) = t.tree.opendir(NodeId::ROOT, 0).unwrap();
    assert_eq!(t.listed(fh), expected);
    let (mut found, mut offset) = (Vec::new(), 0);
    loop {
        let (mut room, before) = (7, found.len());
        t.tree
            .readdir(fh, offset, |entry| {
                if room == 0 {
                    return ControlFlow::Break(());
                }
                room -= 1;
                offset = entry.next;
                found.push(entry.name.to_str().unwrap().to_owned());
                ControlFlow::Continue(())
            })
            .unwrap();
        if found.len() == before {
            break;
        }
    }
    found.sort();
    assert_eq!(found, expected);
    fs::write(t.path("late"), "").unwrap();
    assert!(t.listed(fh).contains(&"late".to_owned()), "read anew from the start");
    t.tree.fsyncdir(fh, false).unwrap();
    t.tree.releasedir(fh);
    assert_eq!(t.tree.fsyncdir(fh, true), Err(Errno::EBADF));
    fs::write(t.path("file"), "").unwrap();
    assert_eq!(t.tree.opendir(t.lookup("file").unwrap().node, 0), Err(Errno::ENOTDIR));
}

#[test]
fn attributes_of_the_extended_kind_are_handed_on() {
    let t = Tree::new();
    fs::write(t.path("file"), "").unwrap();
    let node = t.lookup("file").unwrap().node;
    let name = OsStr::new("user.note");
    match t.tree.setxattr(&myself(), node, name, b"value", 0) {
        Err(Errno::EOPNOTSUPP) => return println!("SKIPPED: no user attributes in the temporary directory"),
        result => result.unwrap(),
    }
    let mut buffer = [0; 64];
    assert_eq!(t.tree.getxattr(node, name, &mut buffer), Ok(5));
    assert!(t.tree.listxattr(&myself(), node, &mut buffer).unwrap() >= 10);
    t.tree.removexattr(node, name).unwrap();
    assert_eq!(t.tree.getxattr(node, name, &mut buffer), Err(Errno::ENODATA));
}

#[test]
fn of_all_ioctl_requests_those_about_flags_are_known() {
    let t = Tree::new();
    let (_, fh) = t.create("file", libc::O_RDWR).unwrap();
    let (dir, _) = t.tree.opendir(NodeId::ROOT, 0).unwrap();
    for open in [OpenNode::File(fh), OpenNode::Dir(dir)] {
        let ask =
            |command: libc::Ioctl, data: &[u8]| t.tree.ioctl(&myself(), open, command as u32, data, false);
        for command in [libc::FIONREAD, libc::FICLONE, libc::FS_IOC_GETVERSION, 0] {
            assert_eq!(ask(command, &[0; 8]), Err(Errno::ENOTTY), "{command:x}");
        }
        assert_eq!(ask(libc::FS_IOC_SETFLAGS, &[0; 3]), Err(Errno::EINVAL));
        match ask(libc::FS_IOC_GETFLAGS, &[]) {
            Ok(flags) => assert_eq!(ask(libc::FS_IOC_SETFLAGS, &flags), Ok(Vec::new())),
            Err(errno) => println!("SKIPPED: no inode flags in the temporary directory: {errno}"),
        }
    }
    t.tree.release(fh);
    let closed = t.tree.ioctl(&myself(), OpenNode::File(fh), libc::FS_IOC_GETFLAGS as u32, &[], false);
    assert_eq!(closed, Err(Errno::EBADF));
}

#[test]
fn acting_for_a_caller_ends_with_the_operation_also_when_that_fails() {
    if !geteuid().is_root() {
        return println!("SKIPPED: acting for others needs root");
    }
    let t = Tree::new();
    fs::set_permissions(t.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let other = Caller { uid: 1234, gid: 2345, pid: 0, group: None, umask: 0o077, uses_alias: false };
    let dir = t.tree.make(&other, NodeId::ROOT, &t.name("dir"), NewEntry::Directory { mode: 0o777 }).unwrap();
    assert_eq!((dir.stat.st_uid, dir.stat.st_gid, dir.stat.st_mode & 0o777), (1234, 2345, 0o700));
    fs::set_permissions(t.dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let refused = t.tree.make(&other, NodeId::ROOT, &t.name("more"), NewEntry::Directory { mode: 0o777 });
    assert_eq!(refused.unwrap_err(), Errno::EACCES);
    let mine = t
        .tree
        .make(
            &Caller { umask: 0, ..myself() },
            NodeId::ROOT,
            &t.name("mine"),
            NewEntry::Directory { mode: 0o777 },
        )
        .unwrap();
    assert_eq!((mine.stat.st_uid, mine.stat.st_mode & 0o777), (0, 0o777));
}

#[test]
fn a_directory_knows_its_path_below_the_source() {
    let t = Tree::new();
    assert_eq!(t.tree.path(NodeId::ROOT).unwrap(), Path::new(""));
    fs::create_dir_all(t.path("a/b c")).unwrap();
    let a = t.lookup("a").unwrap().node;
    let b = t.tree.lookup(a, &t.name("b c")).unwrap().node;
    assert_eq!(t.tree.path(b).unwrap(), Path::new("a/b c"));
    fs::rename(t.path("a"), t.path("moved")).unwrap();
    assert_eq!(t.tree.path(b).unwrap(), Path::new("moved/b c"));
}

#[test]
fn the_group_that_a_request_names_is_enough_to_create() {
    if !geteuid().is_root() {
        return println!("SKIPPED: acting for others needs root");
    }
    let t = Tree::new();
    fs::create_dir(t.path("shared")).unwrap();
    std::os::unix::fs::chown(t.path("shared"), Some(0), Some(2000)).unwrap();
    fs::set_permissions(t.path("shared"), fs::Permissions::from_mode(0o2770)).unwrap();
    let dir = t.lookup("shared").unwrap().node;
    // For a client that is not visible to the server.
    let make = |name: &str, group: Option<u32>, mode: u32| {
        let caller = Caller { uid: 1234, gid: 2345, pid: 0, group, umask: 0, uses_alias: false };
        t.tree
            .make(&caller, dir, &t.name(name), NewEntry::Directory { mode })
            .map(|entry| (entry.stat.st_uid, entry.stat.st_gid))
    };
    for mode in [0o755, 0o2755] {
        let name = mode.to_string();
        assert_eq!(make(&name, None, mode), Err(Errno::EACCES));
        assert_eq!(make(&name, Some(2001), mode), Err(Errno::EACCES));
        assert_eq!(make(&name, Some(2000), mode), Ok((1234, 2000)));
    }
}
