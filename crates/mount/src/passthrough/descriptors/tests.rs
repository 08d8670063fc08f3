//! Which descriptors of inodes are kept, and when they are closed.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use namegate_core::gate::{Admitted, Gate, Intent, Mode};
use namegate_core::policy::{Policy, profile};
use nix::errno::Errno;
use tempfile::TempDir;

use crate::passthrough::spares::CachedFd;
use crate::passthrough::{Caller, Fh, LookupEntry, NodeId, Passthrough, PassthroughSettings, SetId};

const ROOT: NodeId = NodeId::ROOT;
const SPARE: usize = 4;

struct Tree {
    dir: TempDir,
    tree: Passthrough,
    gate: Gate,
}

impl Tree {
    /// Trees on file systems that keep removed files under other names or not, with and without handles.
    fn new(renames_removed: bool, has_handles: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = fs::File::open(dir.path()).unwrap();
        let mut tree = Passthrough::new(
            source.into(),
            PassthroughSettings { cached_fds: SPARE, ..PassthroughSettings::default() },
        )
        .unwrap();
        tree.renames_removed = renames_removed;
        if !has_handles {
            tree.nodes.mount = None;
        }
        let gate = Gate::new(Arc::new(Policy::from_profiles(&[&profile::UTF8])), Mode::Enforcing);
        Self { dir, tree, gate }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn name<'n>(&self, name: &'n str) -> Admitted<'n> {
        self.gate.admit(Intent::Address, OsStr::new(name)).unwrap()
    }

    fn lookup(&self, name: &str) -> LookupEntry {
        let entry = self.tree.lookup(ROOT, &self.name(name)).unwrap();
        self.tree.charge(entry.node, 1).unwrap();
        entry
    }

    fn create(&self, name: &str) -> (LookupEntry, Fh) {
        self.tree.create(&caller(), ROOT, &self.name(name), 0o644, libc::O_RDWR).unwrap()
    }

    fn unlink(&self, name: &str) -> Result<(), Errno> {
        self.tree.unlink(1, ROOT, &self.name(name))
    }

    /// Number of descriptors that this process has of the inode with that number. Another test may have been given the number
    /// of a file that was removed here.
    fn held(&self, ino: u64) -> usize {
        let dev = fs::metadata(self.dir.path()).unwrap().dev();
        let fds = fs::read_dir("/proc/self/fd").unwrap();
        let is_it = |fd: &fs::DirEntry| {
            fs::metadata(fd.path()).is_ok_and(|is| (is.dev(), is.ino()) == (dev, ino))
                && fs::read_link(fd.path()).is_ok_and(|path| path.starts_with(self.dir.path()))
        };
        fds.filter_map(Result::ok).filter(is_it).count()
    }
}

fn caller() -> Caller {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    Caller { uid, gid, pid: std::process::id(), group: None, umask: 0o022, uses_alias: false }
}

/// The two ways to remove a file: by its name, and by renaming another file over it.
fn removals() -> [fn(&Tree, &str); 2] {
    [
        |t, name| t.unlink(name).unwrap(),
        |t, name| {
            fs::write(t.path("other"), "").unwrap();
            t.lookup("other");
            t.tree.rename(&caller(), ROOT, &t.name("other"), ROOT, &t.name(name), 0).unwrap();
        },
    ]
}

#[test]
fn of_a_file_that_nobody_has_open_nothing_is_held_where_it_would_be_renamed() {
    for (has_handles, remove) in [true, false].into_iter().flat_map(|has| removals().map(|way| (has, way))) {
        let t = Tree::new(true, has_handles);
        let (entry, fh) = t.create("file");
        t.tree.charge(entry.node, 1).unwrap();
        t.tree.getattr(entry.node).unwrap();
        t.tree.open_elsewhere(fh).unwrap();
        assert!(t.held(entry.node.0) > 0, "something is held to begin with");
        t.tree.release(fh);
        remove(&t, "file");
        assert_eq!(t.held(entry.node.0), 0);
        assert_eq!(t.tree.getattr(entry.node).unwrap_err(), Errno::ESTALE);
        // Another file with the same number.
        assert!(t.tree.forget(entry.node, 1));
    }
}

#[test]
fn what_is_held_is_closed_before_the_name_goes() {
    let t = Tree::new(true, false);
    fs::write(t.path("file"), "").unwrap();
    let node = t.lookup("file").node;
    let known = t.tree.nodes.node(node).unwrap();
    assert_eq!(t.held(node.0), 1);
    assert!(t.tree.hold_nothing(&known));
    assert_eq!(t.held(node.0), 0);
    // It is found again, and is not confused with the file that was held.
    let again = t.lookup("file");
    assert_eq!(again.node, node);
    assert_eq!(t.held(node.0), 1);
}

#[test]
fn an_open_file_is_held_by_the_name_that_goes_until_it_is_closed() {
    for (has_handles, remove) in [true, false].into_iter().flat_map(|has| removals().map(|way| (has, way))) {
        let t = Tree::new(true, has_handles);
        let (entry, fh) = t.create("file");
        t.tree.open_elsewhere(fh).unwrap();
        remove(&t, "file");
        // One for the name, and a spare one for writing.
        assert_eq!(t.held(entry.node.0), 2);
        t.tree.write(Some(&caller()), fh, 0, b"content", SetId::Kept).unwrap();
        assert_eq!(t.tree.getattr(entry.node).unwrap().st_size, 7);
        t.tree.release(fh);
        assert_eq!(t.held(entry.node.0), 0);
    }
}

#[test]
fn a_removal_waits_for_a_client_that_is_about_to_have_closed_the_file() {
    let t = Arc::new(Tree::new(true, true));
    let (entry, fh) = t.create("file");
    let closing = {
        let t = t.clone();
        spawn(move || {
            sleep(Duration::from_millis(3));
            t.tree.release(fh);
        })
    };
    t.unlink("file").unwrap();
    closing.join().unwrap();
    assert_eq!(t.held(entry.node.0), 0);
}

#[test]
fn what_is_not_removed_after_all_is_held_again() {
    let t = Tree::new(true, false);
    fs::create_dir(t.path("dir")).unwrap();
    fs::write(t.path("file"), "").unwrap();
    let node = t.lookup("file").node;
    t.lookup("dir");
    // A directory cannot replace a file.
    let renamed = t.tree.rename(&caller(), ROOT, &t.name("dir"), ROOT, &t.name("file"), 0);
    assert_eq!(renamed, Err(Errno::ENOTDIR));
    t.tree.getattr(node).unwrap();
}

#[test]
fn elsewhere_a_removed_file_is_held_until_the_kernel_forgets_it_unless_it_has_other_names() {
    let t = Tree::new(false, true);
    if !t.tree.holds_by_handle() {
        return println!("SKIPPED: no kernel file handles here");
    }
    fs::write(t.path("one"), "").unwrap();
    fs::hard_link(t.path("one"), t.path("two")).unwrap();
    let node = t.lookup("one").node;
    let free = t.tree.nodes.budget.free();
    t.unlink("one").unwrap();
    assert_eq!(t.tree.nodes.budget.free(), free);
    t.tree.getattr(node).unwrap();
    t.unlink("two").unwrap();
    assert_eq!((t.tree.nodes.budget.free(), t.held(node.0)), (free - 1, 1));
    t.tree.getattr(node).unwrap();
    assert!(t.tree.forget(node, 1));
    assert_eq!((t.tree.nodes.budget.free(), t.held(node.0)), (free, 0));
}

#[test]
fn files_that_others_read_and_write_cost_no_descriptor_and_are_opened_again_when_they_must_be() {
    let t = Tree::new(false, true);
    if !t.tree.holds_by_handle() {
        return println!("SKIPPED: no kernel file handles here");
    }
    let files: Vec<(LookupEntry, Fh, OwnedFd)> = (0..50)
        .map(|i| {
            let (entry, fh) = t.create(&i.to_string());
            t.tree.open_elsewhere(fh).unwrap();
            // Held open, as by the kernel.
            (entry, fh, fs::File::open(t.path(&i.to_string())).unwrap().into())
        })
        .collect();
    let held = || files.iter().map(|(entry, ..)| t.held(entry.node.0) - 1).sum::<usize>();
    assert!(held() <= SPARE, "{}", held());
    for (i, (entry, fh, _)) in files.iter().enumerate() {
        if i % 2 == 0 {
            fs::remove_file(t.path(&i.to_string())).unwrap();
        }
        t.tree.write(Some(&caller()), *fh, 0, b"content", SetId::Kept).unwrap();
        t.tree.fsync(*fh, false).unwrap();
        assert_eq!(t.tree.lseek(*fh, 0, libc::SEEK_HOLE), Ok(7));
        assert_eq!(t.tree.getattr(entry.node).unwrap().st_size, 7);
    }
    assert!(held() <= SPARE, "{}", held());
}

#[test]
fn a_failure_to_write_back_is_reported_to_whoever_has_the_file_open_once_also_when_it_was_closed_meanwhile() {
    let t = Tree::new(false, true);
    let (entry, one) = t.create("file");
    let open = || t.tree.files.get(t.tree.open(&caller(), entry.node, libc::O_RDWR).unwrap()).unwrap();
    let (one, two, three) = (t.tree.files.get(one).unwrap(), open(), open());
    CachedFd::give_up(&*two);
    t.tree.file(&two).unwrap();
    CachedFd::give_up(&*two);
    t.tree.file(&three).unwrap();
    assert_eq!(one.heard(Err(Errno::ENOSPC)), Err(Errno::ENOSPC));
    assert_eq!(one.heard(Ok(())), Ok(()));
    assert_eq!(two.heard(Ok(())), Err(Errno::EIO), "its descriptor was closed when that was reported");
    assert_eq!(two.heard(Ok(())), Ok(()));
    assert_eq!(
        three.heard(Ok(())),
        Ok(()),
        "the kernel reports it to a descriptor that was there all the time"
    );
    assert_eq!(open().heard(Ok(())), Ok(()), "who came later has nothing to do with it");
    assert_eq!(one.heard(Err(Errno::EINTR)), Err(Errno::EINTR));
    assert_eq!(two.heard(Ok(())), Ok(()), "that was no failure to write back");
}

#[test]
fn a_user_gets_as_many_descriptors_as_are_left_and_no_more() {
    let t = Tree::new(false, false);
    let budget = &t.tree.nodes.budget;
    let begin = Instant::now();
    let (dir, _) = t.tree.opendir(ROOT, 7).unwrap();
    let free = budget.free();
    t.tree.releasedir(dir);
    assert_eq!(budget.free(), free + 1);
    fs::write(t.path("file"), "").unwrap();
    let entry = t.tree.lookup(ROOT, &t.name("file")).unwrap();
    assert_eq!(budget.free(), free + 1, "a lookup is counted for whom it was made");
    t.tree.charge(entry.node, 7).unwrap();
    t.tree.charge(entry.node, 8).unwrap();
    assert_eq!(budget.free(), free, "once");
    assert!(t.tree.forget(entry.node, 1));
    assert_eq!(budget.free(), free + 1, "{:?}", begin.elapsed());
}

#[test]
fn a_node_takes_no_more_memory_than_was_measured() {
    // 144 bytes with the reference count. There are as many nodes as inodes that the kernel knows.
    assert!(
        size_of::<crate::passthrough::node::TrackedNode>() <= 128,
        "{}",
        size_of::<crate::passthrough::node::TrackedNode>()
    );
}
