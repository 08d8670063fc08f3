//! Directories that were opened, and the names in them that wait to be opened.
//!
//! A directory is opened by its name in its parent, so that no path is ever too long. The descriptors for this are kept
//! by the [`Frame`]s, as long as names wait in them and at most as many as [`OpenNodes`] allows. A directory
//! whose descriptor was closed is opened again from the nearest open one above it, step by step, without following links.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use parking_lot::Mutex;

use crate::source::PendingDirectories;
use crate::source::roots::TreeRoot;

/// Flags for opening a directory to read it. Nothing else is ever opened: a FIFO or a device in the place of a
/// directory fails with ENOTDIR.
pub(super) const READ: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC).union(OFlag::O_NONBLOCK);
/// Flags for opening a directory on the way to another.
const PASS: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// Counts the open descriptors, and limits them.
#[derive(Debug)]
pub(super) struct OpenNodes {
    now: AtomicUsize,
    most: usize,
}

impl OpenNodes {
    pub(super) fn at_most(most: usize) -> Arc<Self> {
        Arc::new(Self { now: AtomicUsize::new(0), most })
    }

    fn is_full(&self) -> bool {
        self.now.load(Relaxed) >= self.most
    }
}

/// A descriptor that is counted while it is open.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    fd: OwnedFd,
    open_nodes: Arc<OpenNodes>,
}

impl OpenDirectory {
    fn new(fd: OwnedFd, open_nodes: &Arc<OpenNodes>) -> Arc<Self> {
        open_nodes.now.fetch_add(1, Relaxed);
        Arc::new(Self { fd, open_nodes: Arc::clone(open_nodes) })
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.open_nodes.now.fetch_sub(1, Relaxed);
    }
}

/// A directory that contains others.
#[derive(Debug)]
pub(super) struct TreeNode {
    above: Option<Arc<TreeNode>>,
    /// Empty for a root.
    name: OsString,
    root: Arc<TreeRoot>,
    /// How many levels below the root.
    pub(super) depth: usize,
    /// The length of the path in bytes.
    pub(super) path_len: usize,
    /// Whether it is inside a repository.
    pub(super) in_repository: bool,
    open: Mutex<Weak<OpenDirectory>>,
}

impl TreeNode {
    /// Creates the node of the directory `name` in `above`.
    pub(super) fn below(above: Arc<Self>, name: OsString, in_repository: bool) -> Arc<Self> {
        let (root, depth) = (Arc::clone(&above.root), above.depth + 1);
        let prefix_len = if depth == 1 { root.prefix_len } else { above.path_len + 1 };
        let path_len = prefix_len + name.len();
        let open = Mutex::default();
        Arc::new(Self { above: Some(above), name, root, depth, path_len, in_repository, open })
    }

    /// Creates the node of a root.
    pub(super) fn root(root: Arc<TreeRoot>, in_repository: bool) -> Arc<Self> {
        let path_len = root.path.as_os_str().len();
        Arc::new(Self {
            above: None,
            name: OsString::new(),
            root,
            depth: 0,
            path_len,
            in_repository,
            open: Mutex::default(),
        })
    }

    pub(super) fn root_of(&self) -> &Arc<TreeRoot> {
        &self.root
    }

    /// This node and those above it, up to the root.
    fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |node| node.above.as_deref())
    }

    /// The path from the root, without the root.
    fn way(&self) -> PathBuf {
        let mut names: Vec<&OsStr> =
            self.upwards().filter(|node| node.above.is_some()).map(|node| &*node.name).collect();
        names.reverse();
        OsString::from_vec(names.join(OsStr::new("/")).into_vec()).into()
    }

    pub(super) fn path(&self) -> Vec<u8> {
        let mut path = self.root.path.as_os_str().as_bytes().to_vec();
        let way = self.way().into_os_string().into_vec();
        if !way.is_empty() {
            push_name(&mut path, &way);
        }
        path
    }

    fn open_directory(&self) -> Option<Arc<OpenDirectory>> {
        self.open.lock().upgrade()
    }

    fn remember(&self, opened: &Arc<OpenDirectory>) {
        *self.open.lock() = Arc::downgrade(opened);
    }

    fn reopen(&self, open_nodes: &Arc<OpenNodes>) -> Result<Arc<OpenDirectory>, Errno> {
        let (mut steps, mut from) = (Vec::new(), None);
        for node in self.upwards() {
            from = node.open_directory();
            if from.is_some() {
                break;
            }
            steps.push(node);
        }
        for step in steps.into_iter().rev() {
            let fd = match &from {
                None => open(&self.root.path, PASS, Mode::empty())?,
                Some(above) => openat(&above.fd, &*step.name, PASS | OFlag::O_NOFOLLOW, Mode::empty())?,
            };
            from = Some(OpenDirectory::new(fd, open_nodes));
        }
        Ok(from.expect("the root is a step, unless a nearer directory is open"))
    }
}

impl Drop for TreeNode {
    /// Drops the chain in a loop: a tree may be deeper than the stack.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut node) = above.and_then(Arc::into_inner) {
            above = node.above.take();
        }
    }
}

/// Opens a root for reading. It may be a link.
pub(super) fn open_root(root: &TreeRoot) -> Result<OwnedFd, Errno> {
    open(&root.path, READ, Mode::empty())
}

/// Appends a name to a path.
pub(super) fn push_name(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// Subdirectories of one directory that wait to be read.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) node: Arc<TreeNode>,
    dir: Option<Arc<OpenDirectory>>,
    /// Their names, each followed by a NUL: half a million may wait, so each costs only its bytes.
    names: Vec<u8>,
    at: usize,
}

impl Frame {
    /// The subdirectories `names` of `node`, each followed by a NUL.
    pub(super) fn new(node: Arc<TreeNode>, names: Vec<u8>) -> Self {
        Self { node, dir: None, names, at: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.names.len()
    }

    /// Keeps `fd`, the directory itself, open for its subdirectories. Returns it if no more may be kept.
    pub(super) fn keep(&mut self, fd: OwnedFd, open_nodes: &Arc<OpenNodes>) -> Option<OwnedFd> {
        if open_nodes.is_full() {
            return Some(fd);
        }
        let opened = OpenDirectory::new(fd, open_nodes);
        self.node.remember(&opened);
        self.dir = Some(opened);
        None
    }

    /// Closes the descriptor; reports whether there was one.
    pub(super) fn close(&mut self) -> bool {
        self.dir.take().is_some()
    }

    /// Takes the next name.
    pub(super) fn next(&mut self) -> Option<OsString> {
        let rest = &self.names[self.at..];
        let name = &rest[..memchr::memchr(0, rest)?];
        self.at += name.len() + 1;
        Some(OsStr::from_bytes(name).to_owned())
    }

    /// Puts back what [`Frame::next`] took last.
    pub(super) fn put_back(&mut self, name: &OsStr) {
        self.at -= name.len() + 1;
    }

    /// Opens the directory `name` for reading.
    ///
    /// # Errors
    /// As openat(2) says, for it or for what leads to it.
    pub(super) fn open(&mut self, name: &OsStr, open_nodes: &Arc<OpenNodes>) -> Result<OwnedFd, Errno> {
        if self.dir.is_none() {
            let reopened = self.node.reopen(open_nodes)?;
            if open_nodes.is_full() {
                return open_in(&reopened, name);
            }
            self.node.remember(&reopened);
            self.dir = Some(reopened);
        }
        open_in(self.dir.as_ref().expect("it was just opened"), name)
    }

    /// Splits off about half of the waiting names; `None` if fewer than two wait.
    pub(super) fn split(&mut self) -> Option<Self> {
        let middle = self.at + (self.names.len() - self.at) / 2;
        let behind = |from: usize| Some(from + memchr::memchr(0, &self.names[from..])? + 1);
        let cut = behind(middle).filter(|&cut| cut < self.names.len()).or_else(|| {
            memchr::memrchr(0, &self.names[self.at..middle]).map(|before| self.at + before + 1)
        })?;
        let (node, names, dir) = (Arc::clone(&self.node), self.names.split_off(cut), self.dir.clone());
        Some(Self { node, dir, names, at: 0 })
    }

    /// The waiting names, as a part of a frontier.
    pub(super) fn waiting(&self) -> PendingDirectories {
        let names = self.names[self.at..].split(|&b| b == 0).filter(|name| !name.is_empty());
        PendingDirectories {
            root: self.node.root.path.clone(),
            dir: self.node.way(),
            names: names.map(|name| OsStr::from_bytes(name).to_owned()).collect(),
        }
    }
}

fn open_in(dir: &OpenDirectory, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(dir.fd.as_fd(), name, READ | OFlag::O_NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(path: PathBuf) -> Arc<TreeNode> {
        let prefix_len = path.as_os_str().len() + usize::from(!path.ends_with("/"));
        TreeNode::root(Arc::new(TreeRoot { path, prefix_len, device: 0, in_repository: false }), false)
    }

    #[test]
    fn half_of_the_waiting_names_can_be_given_away_and_none_is_lost() {
        for names in [&b""[..], b"a\0", b"a\0b\0", b"aaaa\0b\0", b"a\0bbbbb\0", b"a\0b\0c\0d\0e\0"] {
            let mut frame = Frame::new(root("/".into()), names.to_vec());
            let given = frame.split();
            assert_eq!(given.is_some(), memchr::memchr_iter(0, names).count() > 1, "{names:?}");
            let all = [Some(&frame), given.as_ref()].map(|f| f.map_or(Vec::new(), |f| f.waiting().names));
            let all: Vec<u8> =
                all.concat().iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
            assert_eq!(all, names);
            assert!(given.is_none_or(|given| !given.is_empty() && !frame.is_empty()));
        }
    }

    #[test]
    fn a_chain_deeper_than_the_stack_is_dropped() {
        let mut node = root("/".into());
        for _ in 0..1_000_000 {
            node = TreeNode::below(node, "d".into(), false);
        }
        assert_eq!(node.depth, 1_000_000);
    }

    #[test]
    fn a_closed_directory_is_found_again_and_never_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        let kept = OpenNodes::at_most(1);
        let a = TreeNode::below(root(dir.path().into()), "a".into(), false);
        let mut frame = Frame::new(TreeNode::below(a, "b".into(), false), b"c\0".to_vec());
        assert_eq!(frame.node.path(), dir.path().join("a/b").as_os_str().as_bytes());
        assert!(frame.open("c".as_ref(), &kept).is_ok());
        assert!(frame.close() || kept.now.load(Relaxed) == 0, "at most one is kept");
        std::fs::rename(dir.path().join("a"), dir.path().join("z")).unwrap();
        std::os::unix::fs::symlink("z", dir.path().join("a")).unwrap();
        assert_eq!(frame.open("c".as_ref(), &kept).err(), Some(Errno::ENOTDIR));
        assert_eq!(kept.now.load(Relaxed), 0);
    }
}
