//! Directory trees, by `walkdir`.
//!
//! Each directory is read by itself, so that its names come together and several threads can share a tree. Symbolic links
//! are named and never followed, except a root that is one. A directory deeper than `PATH_MAX` cannot be opened by its
//! path (path_resolution(7)); it is a fault, never silence.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use walkdir::WalkDir;

use super::{Batch, Beside, Event, Fault, Source};
use crate::name::arena::Arena;

/// Trees below some roots.
#[derive(Debug)]
pub struct Walk {
    roots: Vec<PathBuf>,
    jobs: usize,
}

impl Walk {
    /// The trees below `roots`, read by `jobs` threads (at least one; fewer if the system has no more). The roots are
    /// names themselves. A root that is given twice is read once.
    pub fn new(roots: Vec<PathBuf>, jobs: usize) -> Self {
        Self { roots, jobs: jobs.max(1) }
    }
}

impl Source for Walk {
    fn read(&self, visit: &(dyn Fn(Event) -> ControlFlow<()> + Sync)) {
        let queue = Queue::default();
        let tell = |event| queue.heed(visit(event));
        let (mut trees, mut known) = (Vec::new(), HashSet::new());
        let mut singles = BTreeMap::<&Path, BTreeSet<&OsStr>>::new();
        for root in &self.roots {
            let mut error = None;
            // A root has a name as everything has that is found below it; `.`, `..` and `/` have none.
            let name = root.file_name();
            match std::fs::metadata(root) {
                Ok(meta) if meta.is_dir() => {
                    if known.insert((meta.dev(), meta.ino())) {
                        trees.push(Work {
                            root_len: prefix_len(root),
                            above: root.as_path().into(),
                            name: None,
                        });
                    }
                }
                Ok(_) => {}
                Err(found) => error = Some(found),
            }
            // What a link names may be missing or out of reach; its own name is there.
            let is_there = error.is_none() || std::fs::symlink_metadata(root).is_ok();
            if let Some(name) = name.filter(|_| is_there) {
                singles.entry(root.parent().unwrap_or(Path::new(""))).or_default().insert(name);
            }
            // A link that leads nowhere hides nothing.
            if let Some(error) = error.filter(|error| !is_there || error.kind() != io::ErrorKind::NotFound) {
                tell(Event::Fault(Fault { path: root.clone(), attempt: "read", error }));
            }
        }
        for (dir, names) in singles {
            tell(Event::Directory(some_of(dir, &names)));
        }
        queue.state().waiting.extend(trees.into_iter().rev());
        std::thread::scope(|scope| {
            let work = || {
                queue.state().threads += 1;
                while let Some(turn) = queue.next() {
                    if turn.read(&tell).is_break() {
                        break;
                    }
                }
            };
            for _ in 1..self.jobs {
                // Where the system gives no more threads, those that are there do the work.
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }
}

/// Those `names` of `dir` that are roots themselves.
fn some_of(dir: &Path, names: &BTreeSet<&OsStr>) -> Batch {
    let mut batch = Batch::new(dir.to_path_buf(), prefix_len(dir));
    for name in names {
        add(&mut batch, name);
    }
    let others = || -> io::Result<Arena> {
        let mut others = Arena::new();
        for entry in std::fs::read_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })? {
            let name = entry?.file_name();
            if !names.contains(&*name) {
                others.push(name.as_bytes()).expect(NO_NUL);
            }
        }
        Ok(others)
    };
    batch.beside = others().map_or(Beside::Unknown, Beside::Names);
    batch
}

/// How many bytes of a path below `root` lead to it, the separator included.
fn prefix_len(root: &Path) -> usize {
    let bytes = root.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.ends_with(b"/") { bytes.len() } else { bytes.len() + 1 }
}

const NO_NUL: &str = "the system hands over names as strings that end in NUL";

fn add(batch: &mut Batch, name: &OsStr) {
    batch.push(name.as_bytes());
}

/// A directory that is to be read. Very many may wait at a time, so they share the path that leads to them.
#[derive(Clone, Debug)]
struct Work {
    root_len: usize,
    above: Arc<Path>,
    /// `None`: the directory is the root `above`.
    name: Option<OsString>,
}

impl Work {
    /// Reads the directory, hands over what it holds, and gives the directories in it.
    ///
    /// # Errors
    /// Nothing was read, because too many files are open.
    fn read(&self, tell: &dyn Fn(Event)) -> Result<Vec<Work>, Fault> {
        let dir: Arc<Path> = match &self.name {
            Some(name) => self.above.join(name).into(),
            None => Arc::clone(&self.above),
        };
        let mut batch = Batch::new(dir.to_path_buf(), self.root_len);
        let mut below = Vec::new();
        // Whoever may write here can put a link in the place of a directory that was already seen.
        let entries = WalkDir::new(&dir).min_depth(1).max_depth(1).follow_root_links(self.name.is_none());
        for entry in entries {
            match entry {
                Ok(entry) => {
                    add(&mut batch, entry.file_name());
                    if entry.file_type().is_dir() {
                        let name = Some(entry.file_name().to_owned());
                        below.push(Work { root_len: self.root_len, above: Arc::clone(&dir), name });
                    }
                }
                Err(error) => {
                    let is_unread = error.depth() == 0 && batch.count == 0;
                    let path = error.path().unwrap_or(&dir).to_path_buf();
                    let error = error.into_io_error().unwrap_or_else(|| io::Error::other("a loop of links"));
                    let is_shortage = is_unread && matches!(error.raw_os_error(), Some(ENFILE | EMFILE));
                    let fault = Fault { path, attempt: "read the directory", error };
                    match fault.error.kind() {
                        _ if is_shortage => return Err(fault),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => tell(Event::Vanished),
                        _ => tell(Event::Fault(fault)),
                    }
                    if is_unread {
                        return Ok(below);
                    }
                }
            }
        }
        tell(Event::Directory(batch));
        Ok(below)
    }
}

/// The error numbers of open(2) for too many open files in the system and in the process, the same wherever Linux runs
/// (errno-base.h).
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Directories that wait, shared by the threads. The last found is the first read, so that few wait at a time.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The next is the last.
    waiting: Vec<Work>,
    /// Threads that take part.
    threads: usize,
    /// Threads that read a directory now, and may find more.
    busy: usize,
    stopped: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has left the list whole: every change to it is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next directory; `None` when none is left or the reading is stopped.
    fn next(&self) -> Option<Turn<'_>> {
        let mut state = self.state();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(work) = state.waiting.pop() {
                state.busy += 1;
                return Some(Turn { queue: self, work, below: Vec::new() });
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops the reading if the visitor says so.
    fn heed(&self, answer: ControlFlow<()>) {
        if answer.is_break() {
            self.state().stopped = true;
            self.changed.notify_all();
        }
    }
}

/// One directory in the hands of one thread. However its reading ends, the others learn of it: they would wait for ever
/// for a thread that panicked.
struct Turn<'q> {
    queue: &'q Queue,
    work: Work,
    below: Vec<Work>,
}

impl Turn<'_> {
    /// Reads the directory, and breaks if this thread is one too many.
    fn read(mut self, tell: &dyn Fn(Event)) -> ControlFlow<()> {
        match self.work.read(tell) {
            Ok(below) => self.below = below,
            Err(shortage) => {
                let mut state = self.queue.state();
                // Fewer threads keep fewer files open. The last one has nobody to wait for.
                if state.threads > 1 {
                    state.threads -= 1;
                    drop(state);
                    self.below.push(self.work.clone());
                    return ControlFlow::Break(());
                }
                drop(state);
                tell(Event::Fault(shortage));
            }
        }
        ControlFlow::Continue(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.busy -= 1;
        state.waiting.extend(self.below.drain(..).rev());
        state.stopped |= std::thread::panicking();
        drop(state);
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_visitor_that_panics_ends_the_reading_for_all_threads() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..50 {
            std::fs::create_dir(dir.path().join(n.to_string())).unwrap();
        }
        let walk = Walk::new(vec![dir.path().to_path_buf()], 4);
        let read = || {
            walk.read(&|event| match event {
                Event::Directory(batch) if batch.dir.ends_with("7") => panic!("on purpose"),
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
        let seen = |name: Option<&str>, above: PathBuf| {
            let work = Work { root_len: 0, above: above.into(), name: name.map(OsString::from) };
            let names = Mutex::new(0);
            let found = work.read(&|event| {
                if let Event::Directory(batch) = event {
                    *names.lock().unwrap() += batch.count;
                }
            });
            assert!(found.unwrap().is_empty());
            names.into_inner().unwrap()
        };
        assert_eq!(seen(Some("link"), dir.path().to_path_buf()), 0);
        assert_eq!(seen(None, dir.path().join("link")), 1, "a root that is a link is followed");
    }
}
