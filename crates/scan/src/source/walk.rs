//! Directory trees, read by `walkdir`: the engine that follows links and keeps an order.
//!
//! Each directory is read by itself, so that its names come together and several threads can share a tree. Unless requested,
//! symbolic links are not followed, except a root that is a link. A directory deeper than `PATH_MAX` cannot be opened by its
//! path (path_resolution(7)) and is reported as a fault.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use namegate_core::check::EntryKind;
use namegate_core::name::arena::Arena;
use nix::errno::Errno;
use walkdir::{DirEntry, WalkDir};

use super::roots::{NO_NUL, RootPaths, TreeRoot};
use super::scope::Scope;
use super::work_stack::{WorkStack, run_in_threads};
use super::{DirectoryBatch, Fault, SiblingNames, Source, SourceEvent, TreeSource, Visit};

/// Trees below some roots.
#[derive(Debug)]
pub struct Walk {
    roots: Vec<PathBuf>,
    jobs: usize,
    options: WalkOptions,
}

#[derive(Debug, Default)]
pub struct WalkOptions {
    /// The part of the tree that is read.
    pub scope: Scope,
    /// Follow links to directories. A link to a directory above it is a fault.
    pub follows: bool,
    /// Hand over directories in the order of their paths, each before those below it. Uses one thread.
    pub is_sorted: bool,
}

impl Walk {
    /// The trees below `roots`, read by `jobs` threads (at least one; fewer if the system allows no more). The names of the
    /// roots are checked too. A root that is given twice is read once.
    pub fn new(roots: Vec<PathBuf>, jobs: usize, options: WalkOptions) -> Self {
        Self { roots, jobs: jobs.max(1), options }
    }
}

impl TreeSource for Walk {
    fn read_again(&self, dir: &Path, root_len: usize, tell: &dyn Fn(SourceEvent<'_>)) -> io::Result<()> {
        let device = std::fs::metadata(dir)?.dev();
        let root = TreeRoot { path: dir.to_path_buf(), prefix_len: root_len, device, in_repository: false };
        let is_root = dir.as_os_str().len() <= root_len;
        let (path, name) = match (dir.parent(), dir.file_name()) {
            (Some(above), Some(name)) if !is_root => (above.to_path_buf(), Some(name.to_owned())),
            _ => (dir.to_path_buf(), None),
        };
        let work = Work { above: Arc::new(Ancestor { root, path, line: None }), name, depth: 0 };
        work.read(&self.options, tell).map(drop).map_err(|fault| fault.error)
    }

    fn is_ordered(&self) -> bool {
        self.options.is_sorted
    }
}

impl Source for Walk {
    fn as_tree(&self) -> Option<&dyn TreeSource> {
        Some(self)
    }

    fn read(&self, visit: Visit<'_>) {
        let stack = WorkStack::new();
        let tell = |event: SourceEvent<'_>| {
            if visit(event).is_break() {
                stack.stop();
            }
        };
        let RootPaths { trees, singles, faults } = RootPaths::look_up(&self.roots);
        faults.into_iter().for_each(|fault| tell(SourceEvent::Fault(fault)));
        singles.into_iter().for_each(|names| tell(SourceEvent::Directory(names)));
        stack.add(trees.iter().rev().map(Work::root));
        let threads = AtomicUsize::new(0);
        // Only a single thread keeps the order.
        let jobs = if self.options.is_sorted { 1 } else { self.jobs };
        run_in_threads(jobs, || {
            threads.fetch_add(1, Relaxed);
            while let Some(turn) = stack.next() {
                match turn.work.read(&self.options, &tell) {
                    Ok(below) => stack.add(below.into_iter().rev()),
                    // With fewer threads, fewer files are open. The last thread continues, because no other could.
                    Err(_) if ends_unless_last(&threads) => {
                        stack.add([turn.work.clone()]);
                        break;
                    }
                    Err(shortage) => tell(SourceEvent::Fault(shortage)),
                }
            }
        });
    }
}

/// A directory to read. Very many may wait at a time, so they share the path to them.
#[derive(Clone, Debug)]
struct Work {
    above: Arc<Ancestor>,
    /// `None`: the directory is the root.
    name: Option<OsString>,
    depth: usize,
}

/// The parent of directories that wait.
#[derive(Debug)]
struct Ancestor {
    root: TreeRoot,
    path: PathBuf,
    /// Device and inode numbers of this directory and of those above it, if links are followed.
    line: Option<Arc<OrderedOutput>>,
}

#[derive(Debug)]
struct OrderedOutput {
    id: (u64, u64),
    above: Option<Arc<OrderedOutput>>,
}

impl OrderedOutput {
    fn holds(&self, id: (u64, u64)) -> bool {
        std::iter::successors(Some(self), |line| line.above.as_deref()).any(|line| line.id == id)
    }
}

impl Work {
    fn root(root: &TreeRoot) -> Self {
        let above = Ancestor { root: root.clone(), path: root.path.clone(), line: None };
        Self { above: Arc::new(above), name: None, depth: 0 }
    }

    /// The directory as the parent of its subdirectories; `None` if it is not to be read.
    fn enter(&self, options: &WalkOptions, tell: &dyn Fn(SourceEvent<'_>)) -> Option<Ancestor> {
        let root = self.above.root.clone();
        let path = match &self.name {
            _ if self.depth >= options.scope.max_depth => return None,
            Some(name) => self.above.path.join(name),
            None => self.above.path.clone(),
        };
        let mut line = self.above.line.clone();
        if options.follows || options.scope.one_file_system {
            // A root that cannot be examined cannot be read either; that is reported when it is read.
            let meta = std::fs::metadata(&path).ok();
            if options.scope.one_file_system && meta.as_ref().is_some_and(|meta| meta.dev() != root.device) {
                return None;
            }
            if let Some(id) = meta.filter(|_| options.follows).map(|meta| (meta.dev(), meta.ino())) {
                if line.as_ref().is_some_and(|line| line.holds(id)) {
                    let error = io::Error::other("it leads back to a directory above it");
                    tell(SourceEvent::Fault(Fault { path, attempt: "follow", error }));
                    return None;
                }
                line = Some(Arc::new(OrderedOutput { id, above: line }));
            }
        }
        Some(Ancestor { root, path, line })
    }

    /// Reads the directory, hands over its names, and returns its subdirectories.
    ///
    /// # Errors
    /// Too many files are open; nothing was read.
    fn read(&self, options: &WalkOptions, tell: &dyn Fn(SourceEvent<'_>)) -> Result<Vec<Work>, Fault> {
        let WalkOptions { scope, follows, is_sorted } = options;
        let Some(above) = self.enter(options, tell).map(Arc::new) else { return Ok(Vec::new()) };
        // Another user may have replaced a directory by a link after it was listed.
        let mut entries = WalkDir::new(&above.path)
            .min_depth(1)
            .max_depth(1)
            .follow_root_links(*follows || self.name.is_none());
        if *is_sorted {
            entries = entries.sort_by_file_name();
        }
        let prefix_len = above.root.prefix_len;
        let mut batch = DirectoryBatch::new(above.path.clone(), prefix_len).of_known_kinds();
        let (mut below, mut excluded) = (Vec::new(), Arena::new());
        for entry in entries {
            match entry {
                Ok(entry) => {
                    let is_dir = entry.file_type().is_dir() || *follows && leads_to_directory(&entry, tell);
                    let below_root = entry.path().as_os_str().as_bytes().get(prefix_len..);
                    if scope
                        .exclude
                        .matches(Path::new(OsStr::from_bytes(below_root.unwrap_or_default())), is_dir)
                    {
                        excluded.push(entry.file_name().as_bytes()).expect(NO_NUL);
                        continue;
                    }
                    // A link is moved as a link.
                    let kind = entry.file_type().is_dir().then_some(EntryKind::Directory);
                    batch.push_entry(entry.file_name().as_bytes(), kind);
                    if is_dir {
                        let (above, name) = (Arc::clone(&above), Some(entry.file_name().to_owned()));
                        below.push(Work { above, name, depth: self.depth + 1 });
                    }
                }
                Err(error) => {
                    let is_unread = error.depth() == 0 && batch.count == 0;
                    let fault = fault_of(error, &above.path);
                    let number = fault.error.raw_os_error().map(Errno::from_raw);
                    match fault.error.kind() {
                        _ if is_unread && matches!(number, Some(Errno::ENFILE | Errno::EMFILE)) => {
                            return Err(fault);
                        }
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => tell(SourceEvent::Vanished),
                        _ => tell(SourceEvent::Fault(fault)),
                    }
                    if is_unread {
                        return Ok(below);
                    }
                }
            }
        }
        if !excluded.is_empty() {
            batch.siblings = SiblingNames::Excluded(excluded);
        }
        tell(SourceEvent::Directory(batch));
        Ok(below)
    }
}

fn fault_of(error: walkdir::Error, dir: &Path) -> Fault {
    let path = error.path().unwrap_or(dir).to_path_buf();
    let error = error.into_io_error().unwrap_or_else(|| io::Error::other("a loop of links"));
    Fault { path, attempt: "read the directory", error }
}

/// Reports whether `entry` is a link to a directory.
fn leads_to_directory(entry: &DirEntry, tell: &dyn Fn(SourceEvent<'_>)) -> bool {
    if !entry.file_type().is_symlink() {
        return false;
    }
    match std::fs::metadata(entry.path()) {
        Ok(meta) => meta.is_dir(),
        // A dangling link hides nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            tell(SourceEvent::Fault(Fault { path: entry.path().into(), attempt: "follow", error }));
            false
        }
    }
}

/// Counts off a thread that ends; `false` if it is the last.
fn ends_unless_last(threads: &AtomicUsize) -> bool {
    threads.fetch_update(Relaxed, Relaxed, |count| (count > 1).then(|| count - 1)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn a_visitor_that_panics_stops_all_threads() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..50 {
            std::fs::create_dir(dir.path().join(n.to_string())).unwrap();
        }
        let walk = Walk::new(vec![dir.path().to_path_buf()], 4, WalkOptions::default());
        let read = || {
            walk.read(&|event| match event {
                SourceEvent::Directory(batch) if batch.dir.ends_with("7") => {
                    std::panic::resume_unwind(Box::new("on purpose"))
                }
                _ => ControlFlow::Continue(()),
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
        std::fs::write(dir.path().join("elsewhere/secret"), "").unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join("link")).unwrap();
        let seen = |name: Option<&str>, path: PathBuf| {
            let root = TreeRoot { prefix_len: 0, path, device: 0, in_repository: false };
            let work = Work { name: name.map(OsString::from), ..Work::root(&root) };
            let names = Mutex::new(0);
            let found = work.read(&WalkOptions::default(), &|event| {
                if let SourceEvent::Directory(batch) = event {
                    *names.lock() += batch.count;
                }
            });
            assert!(found.unwrap().is_empty());
            names.into_inner()
        };
        assert_eq!(seen(Some("link"), dir.path().to_path_buf()), 0);
        assert_eq!(seen(None, dir.path().join("link")), 1, "a root that is a link is followed");
    }
}
