//! Directory trees, read by `getdents64`.
//!
//! Several threads share a tree. Each directory is opened by its name in its parent, so that depth is unlimited,
//! read by one thread, and closed. Symbolic links are never followed, except a root that is a link: a user who can
//! write in a tree can replace a directory by a link after it was listed.
//!
//! Memory does not grow with the tree: threads read depth first, a large directory is read in parts, and only the names of
//! waiting directories are kept. Sources: openat(2), getdents64(2), path_resolution(7).

mod node;
mod pool;
mod reading;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use namegate_sys::open_files;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::sys::stat::fstat;

use self::node::{Frame, OpenNodes, TreeNode, open_root, push_name};
use self::pool::{ReadJob, WorkPool, jobs_from};
use self::reading::{BUFFER, ReadRequest};
use super::roots::{RootPaths, TreeRoot};
use super::scope::{Exclude, Scope};
use super::work_stack::run_in_threads;
use super::{Fault, Frontier, Source, SourceEvent, TreeSource, Visit};

/// Directory trees as a source.
#[derive(Debug)]
pub struct Tree {
    roots: Vec<PathBuf>,
    scope: Scope,
    jobs: usize,
    resumed: Option<Frontier>,
    wanted: Option<Arc<AtomicBool>>,
}

/// Reads the directory `dir`, which is open for reading, as a [`Tree`] does, and hands over its names; the first `root_len` bytes of `path`
/// are those of the root.
pub fn read_directory(
    dir: BorrowedFd<'_>,
    path: &[u8],
    root_len: usize,
    exclude: &Exclude,
    tell: &dyn Fn(SourceEvent<'_>),
) {
    let request = ReadRequest { path, prefix_len: root_len, exclude, descends: false, in_repository: false };
    reading::read(dir, request, &mut vec![0; BUFFER], tell);
}

impl Tree {
    /// The trees below `roots`, read by `jobs` threads (at least one; fewer if the system allows no more). The names of the
    /// roots are checked too. A root that is given twice is read once.
    pub fn new(roots: Vec<PathBuf>, scope: Scope, jobs: usize) -> Self {
        Self { roots, scope, jobs: jobs.max(1), resumed: None, wanted: None }
    }

    /// Hands over a frontier whenever `wanted` becomes true, and resets it, and also when the reading is stopped early.
    pub fn telling_frontier(mut self, wanted: Arc<AtomicBool>) -> Self {
        self.wanted = Some(wanted);
        self
    }

    /// Reads only the directories in `left`, a frontier of the same roots.
    pub fn resumed(mut self, left: Frontier) -> Self {
        self.resumed = Some(left);
        self
    }

    /// The first jobs. Hands over the names of the roots, and their faults.
    fn begin(&self, tell: &dyn Fn(SourceEvent<'_>)) -> Vec<ReadJob> {
        let RootPaths { trees, singles, faults } = RootPaths::look_up(&self.roots);
        let trees: Vec<Arc<TreeRoot>> = trees.into_iter().map(Arc::new).collect();
        if let Some(left) = &self.resumed {
            let (jobs, lost) = jobs_from(left, &trees);
            lost.iter().for_each(|_| tell(SourceEvent::Vanished));
            return jobs;
        }
        faults.into_iter().for_each(|fault| tell(SourceEvent::Fault(fault)));
        singles.into_iter().for_each(|names| tell(SourceEvent::Directory(names)));
        trees.into_iter().rev().map(ReadJob::TreeRoot).collect()
    }
}

impl TreeSource for Tree {
    fn read_again(&self, dir: &Path, root_len: usize, tell: &dyn Fn(SourceEvent<'_>)) -> io::Result<()> {
        let path = dir.as_os_str().as_bytes();
        let (root, below) = path.split_at(root_len.min(path.len()));
        let root = self.roots.iter().find(|known| {
            let known = known.as_os_str().as_bytes();
            root == known || root.strip_suffix(b"/") == Some(known)
        });
        let mut opened = open(root.ok_or(Errno::ENOENT)?, node::READ, Mode::empty())?;
        // A user who can write in the tree could have replaced a directory by a link meanwhile.
        for name in below.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let flags = node::READ | OFlag::O_NOFOLLOW;
            opened = openat(&opened, OsStr::from_bytes(name), flags, Mode::empty())?;
        }
        read_directory(opened.as_fd(), path, root_len, &self.scope.exclude, tell);
        Ok(())
    }
}

impl Source for Tree {
    fn as_tree(&self) -> Option<&dyn TreeSource> {
        Some(self)
    }

    fn read(&self, visit: Visit<'_>) {
        let stopped = AtomicBool::new(false);
        let jobs =
            self.begin(&|event| stopped.store(stopped.load(Relaxed) | visit(event).is_break(), Relaxed));
        let pool = WorkPool::new(jobs);
        if stopped.into_inner() {
            pool.stop();
        }
        let tell = |event: SourceEvent<'_>| {
            if visit(event).is_break() {
                pool.stop();
            }
        };
        let jobs = self.jobs.min(most_jobs());
        let open_nodes = OpenNodes::at_most(most_kept(jobs));
        run_in_threads(jobs, || {
            pool.join();
            TreeWorker::new(self, &pool, &open_nodes, &tell).work();
        });
        if pool.is_stopped() && self.wanted.is_some() {
            tell(SourceEvent::Frontier(pool.rest()));
        }
    }
}

/// Descriptors for everything else than reading.
const OTHER_FILES: usize = 16;

/// Descriptors that a thread needs.
const FILES_PER_JOB: usize = 3;

/// Maximum number of threads that have enough descriptors.
fn most_jobs() -> usize {
    (open_files::limit().saturating_sub(OTHER_FILES) / FILES_PER_JOB).max(1)
}

/// Maximum number of descriptors that are kept for directories with waiting subdirectories: the rest is for opening, and for
/// output.
fn most_kept(jobs: usize) -> usize {
    const MAX_KEPT: usize = 4096;
    open_files::limit().min(MAX_KEPT).saturating_sub(OTHER_FILES + FILES_PER_JOB * jobs)
}

/// One of the threads that read a tree.
struct TreeWorker<'t> {
    tree: &'t Tree,
    pool: &'t WorkPool,
    open_nodes: &'t Arc<OpenNodes>,
    tell: &'t dyn Fn(SourceEvent<'_>),
    /// The directories from the shallowest to the current one, each with its waiting subdirectories.
    stack: Vec<Frame>,
    /// The path of the current directory.
    path: Vec<u8>,
    buffer: Vec<u8>,
    is_busy: bool,
}

impl<'t> TreeWorker<'t> {
    fn new(
        tree: &'t Tree,
        pool: &'t WorkPool,
        open_nodes: &'t Arc<OpenNodes>,
        tell: &'t dyn Fn(SourceEvent<'_>),
    ) -> Self {
        let (stack, path) = (Vec::new(), Vec::new());
        Self { tree, pool, open_nodes, tell, stack, path, buffer: vec![0; BUFFER], is_busy: false }
    }

    fn work(mut self) {
        while let Some(job) = self.pool.take() {
            self.is_busy = true;
            let went_on = self.run(job);
            if !self.is_busy {
                return;
            }
            let left = if went_on.is_continue() { self.waiting() } else { Frontier::new() };
            self.is_busy = false;
            self.stack.clear();
            self.pool.end(left);
        }
    }

    /// The waiting directories of this thread.
    fn waiting(&self) -> Frontier {
        self.stack.iter().filter(|frame| !frame.is_empty()).map(Frame::waiting).collect()
    }

    /// Works until no directory is left, the reading is stopped, or this thread should end (and is no longer busy).
    /// Breaks if its waiting directories are already recorded.
    fn run(&mut self, job: ReadJob) -> ControlFlow<()> {
        match job {
            ReadJob::TreeRoot(root) => self.read_root(root)?,
            ReadJob::Frame(frame) => {
                self.path = frame.node.path();
                self.stack.push(frame);
            }
        }
        while !self.pool.is_stopped() {
            if self.tree.wanted.as_ref().is_some_and(|wanted| wanted.load(Relaxed)) {
                self.pause()?;
                continue;
            }
            let Some(frame) = self.stack.last_mut() else { break };
            let Some(name) = frame.next() else {
                self.stack.pop();
                continue;
            };
            if self.pool.is_hungry() {
                self.share();
            }
            self.read_next(name)?;
        }
        ControlFlow::Continue(())
    }

    fn pause(&mut self) -> ControlFlow<()> {
        let told = self.pool.pause(self.waiting(), &|frontier| {
            if let Some(wanted) = &self.tree.wanted {
                wanted.store(false, Relaxed);
            }
            (self.tell)(SourceEvent::Frontier(frontier));
        });
        if told { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Gives away the subdirectories that wait in the shallowest directory, or half of them if this thread has no other.
    fn share(&mut self) {
        let Some(at) = self.stack.iter().position(|frame| !frame.is_empty()) else { return };
        let frame = &mut self.stack[at];
        let given = match frame.split() {
            None if at + 1 < self.stack.len() => Some(self.stack.remove(at)),
            given => given,
        };
        if let Some(given) = given {
            self.pool.give(ReadJob::Frame(given));
        }
    }

    fn read_root(&mut self, root: Arc<TreeRoot>) -> ControlFlow<()> {
        match open_root(&root) {
            Ok(dir) => {
                self.path = root.path.as_os_str().as_bytes().to_vec();
                let in_repository = root.in_repository;
                self.read(dir, 0, &Arc::clone(&root), in_repository, |in_repository| {
                    TreeNode::root(root, in_repository)
                });
            }
            Err(Errno::EMFILE | Errno::ENFILE)
                if self.pool.retire(Some(ReadJob::TreeRoot(Arc::clone(&root))), &mut self.stack) =>
            {
                self.is_busy = false;
                return ControlFlow::Break(());
            }
            Err(error) => self.report_unread(&root.path, error),
        }
        ControlFlow::Continue(())
    }

    /// Reads the directory `name` in the deepest directory of the stack.
    fn read_next(&mut self, name: OsString) -> ControlFlow<()> {
        let opened = loop {
            let frame = self.stack.last_mut().expect("the name comes from it");
            match frame.open(&name, self.open_nodes) {
                Err(Errno::EMFILE | Errno::ENFILE) if self.close_kept() => {}
                opened => break opened,
            }
        };
        let frame = self.stack.last_mut().expect("the name comes from it");
        let above = Arc::clone(&frame.node);
        match opened {
            Err(shortage @ (Errno::EMFILE | Errno::ENFILE)) => {
                // With fewer threads, fewer files are open. The last thread continues, because no other could.
                frame.put_back(&name);
                if self.pool.retire(None, &mut self.stack) {
                    self.is_busy = false;
                    return ControlFlow::Break(());
                }
                let frame = self.stack.last_mut().expect("it was not given away");
                frame.next();
                self.report_unread(&path_in(&above, &name), shortage);
            }
            Err(error) => self.report_unread(&path_in(&above, &name), error),
            Ok(dir) => {
                if frame.is_empty() {
                    // Its subdirectories have a path to it, so the descriptor is not needed.
                    self.stack.pop();
                }
                // The last directory that was read is below `above`.
                self.path.truncate(above.path_len);
                push_name(&mut self.path, name.as_bytes());
                let depth = above.depth + 1;
                let root = Arc::clone(above.root_of());
                self.read(dir, depth, &root, above.in_repository, |in_repository| {
                    TreeNode::below(Arc::clone(&above), name, in_repository)
                });
            }
        }
        ControlFlow::Continue(())
    }

    fn read(
        &mut self,
        dir: OwnedFd,
        depth: usize,
        root: &TreeRoot,
        in_repository: bool,
        node: impl FnOnce(bool) -> Arc<TreeNode>,
    ) {
        let scope = &self.tree.scope;
        if depth >= scope.max_depth || scope.one_file_system && self.is_elsewhere(&dir, root) {
            return;
        }
        let order = ReadRequest {
            path: &self.path,
            prefix_len: root.prefix_len,
            exclude: &scope.exclude,
            descends: depth + 1 < scope.max_depth,
            in_repository,
        };
        let (below, in_repository) = reading::read(dir.as_fd(), order, &mut self.buffer, self.tell);
        if below.is_empty() {
            return;
        }
        let mut frame = Frame::new(node(in_repository), below);
        if let Some(dir) = frame.keep(dir, self.open_nodes) {
            // The deepest are needed first.
            if self.stack.iter_mut().any(Frame::close) {
                frame.keep(dir, self.open_nodes);
            }
        }
        self.stack.push(frame);
    }

    /// Reports whether `dir` is on another file system than the root.
    fn is_elsewhere(&self, dir: &OwnedFd, root: &TreeRoot) -> bool {
        fstat(dir).is_ok_and(|stat| stat.st_dev != root.device)
    }

    /// Closes all descriptors that are kept; reports whether there were any.
    fn close_kept(&mut self) -> bool {
        self.stack.iter_mut().fold(false, |any, frame| frame.close() | any)
    }

    fn report_unread(&self, path: &Path, error: Errno) {
        (self.tell)(match error {
            // It was removed or replaced.
            Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP => SourceEvent::Vanished,
            _ => SourceEvent::Fault(Fault {
                path: path.into(),
                attempt: "read the directory",
                error: error.into(),
            }),
        });
    }
}

/// Tells the other threads, which would otherwise wait for ever for a thread that panicked.
impl Drop for TreeWorker<'_> {
    fn drop(&mut self) {
        if self.is_busy && std::thread::panicking() {
            self.pool.stop();
        }
    }
}

fn path_in(above: &TreeNode, name: &OsStr) -> PathBuf {
    let mut path = above.path();
    push_name(&mut path, name.as_bytes());
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests;
