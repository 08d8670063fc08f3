//! Directory trees, by `walkdir`.
//!
//! Each directory is read by itself, so that its names come together and several threads can share a tree. Symbolic links
//! are named and never followed, except a root that is one. A directory deeper than `PATH_MAX` cannot be opened by its
//! path (path_resolution(7)); it is a fault, never silence.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use walkdir::WalkDir;

use super::{Batch, Event, Fault, Source};

/// Trees below some roots.
#[derive(Debug)]
pub struct Walk {
    roots: Vec<PathBuf>,
    jobs: usize,
}

impl Walk {
    /// The trees below `roots`, read by `jobs` threads (at least one). A root that is no directory is a name itself.
    pub fn new(roots: Vec<PathBuf>, jobs: usize) -> Self {
        Self { roots, jobs: jobs.max(1) }
    }
}

impl Source for Walk {
    fn read(&self, visit: &(dyn Fn(Event) -> ControlFlow<()> + Sync)) {
        let queue = Queue::default();
        for root in &self.roots {
            match std::fs::metadata(root) {
                Ok(meta) if meta.is_dir() => {
                    queue.push([Work { root_len: prefix_len(root), dir: root.clone() }])
                }
                // What a dangling link names is not there; its own name is.
                Ok(_) => single(root, visit, &queue),
                Err(_) if std::fs::symlink_metadata(root).is_ok() => single(root, visit, &queue),
                Err(error) => {
                    queue.heed(visit(Event::Fault(Fault { path: root.clone(), attempt: "read", error })));
                }
            }
        }
        std::thread::scope(|scope| {
            let work = || {
                while let Some(work) = queue.next() {
                    let found = read_directory(&work, &|event| queue.heed(visit(event)));
                    queue.done(found);
                }
            };
            for _ in 1..self.jobs {
                scope.spawn(work);
            }
            work();
        });
    }
}

/// Hands over the name of a root that is not a directory.
fn single(root: &Path, visit: &(dyn Fn(Event) -> ControlFlow<()> + Sync), queue: &Queue) {
    let Some(name) = root.file_name() else { return };
    let dir = root.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut batch = Batch::new(dir.clone(), prefix_len(&dir));
    add(&mut batch, name.as_bytes());
    queue.heed(visit(Event::Directory(batch)));
}

/// How many bytes of a path below `root` lead to it, the separator included.
fn prefix_len(root: &Path) -> usize {
    let bytes = root.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.ends_with(b"/") { bytes.len() } else { bytes.len() + 1 }
}

fn add(batch: &mut Batch, name: &[u8]) {
    batch.names.push(name).expect("the system hands over names as strings that end in NUL");
    batch.count += 1;
}

/// Reads one directory, hands over what it holds, and gives the directories in it.
fn read_directory(work: &Work, visit: &dyn Fn(Event)) -> Vec<Work> {
    let Work { dir, root_len } = work;
    let mut batch = Batch::new(dir.clone(), *root_len);
    let mut below = Vec::new();
    for entry in WalkDir::new(dir).min_depth(1).max_depth(1) {
        match entry {
            Ok(entry) => {
                add(&mut batch, entry.file_name().as_bytes());
                if entry.file_type().is_dir() {
                    below.push(Work { dir: entry.into_path(), root_len: *root_len });
                }
            }
            Err(error) => {
                let path = error.path().unwrap_or(dir).to_path_buf();
                let error = error.into_io_error().unwrap_or_else(|| io::Error::other("a loop of links"));
                match error.kind() {
                    io::ErrorKind::NotFound => visit(Event::Vanished),
                    _ => visit(Event::Fault(Fault { path, attempt: "read the directory", error })),
                }
            }
        }
    }
    visit(Event::Directory(batch));
    below
}

/// A directory that is to be read.
#[derive(Debug)]
struct Work {
    dir: PathBuf,
    root_len: usize,
}

/// Directories that wait, shared by the threads. The last found is the first read, so that few wait at a time.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Work>,
    /// Threads that read a directory now, and may find more.
    busy: usize,
    stopped: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has left the list whole: every change to it is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds roots behind those that wait.
    fn push(&self, work: impl IntoIterator<Item = Work>) {
        self.state().waiting.extend(work);
    }

    /// The next directory; `None` when none is left or the reading is stopped.
    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(work) = state.waiting.pop_front() {
                state.busy += 1;
                return Some(work);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A directory has been read, and holds these.
    fn done(&self, found: Vec<Work>) {
        let mut state = self.state();
        state.busy -= 1;
        for work in found.into_iter().rev() {
            state.waiting.push_front(work);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Stops the reading if the visitor says so.
    fn heed(&self, answer: ControlFlow<()>) {
        if answer.is_break() {
            self.state().stopped = true;
            self.changed.notify_all();
        }
    }
}
