//! What the threads of a tree share: directories that wait for a thread, and how they all stop at one moment.
//!
//! A thread works from the deepest directory it has found, so that few wait at a time; where others have nothing to do,
//! it gives away from the shallowest, which has the most below it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};

use super::node::{Frame, TreeNode};
use crate::source::roots::TreeRoot;
use crate::source::{Frontier, PendingDirectories};

/// What a thread gets to do.
#[derive(Debug)]
pub(super) enum ReadJob {
    /// A root that was not read yet.
    TreeRoot(Arc<TreeRoot>),
    /// Directories in one that was read.
    Frame(Frame),
}

impl ReadJob {
    fn waiting(&self) -> PendingDirectories {
        match self {
            Self::TreeRoot(root) => {
                PendingDirectories { root: root.path.clone(), dir: Default::default(), names: Vec::new() }
            }
            Self::Frame(frame) => frame.waiting(),
        }
    }
}

/// The shared part.
#[derive(Debug, Default)]
pub(super) struct WorkPool {
    state: Mutex<WorkPoolState>,
    changed: Condvar,
    /// Threads that wait for work.
    hungry: AtomicUsize,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct WorkPoolState {
    /// The next is the last.
    jobs: Vec<ReadJob>,
    /// Threads that take part.
    threads: usize,
    /// Threads that have work, and may find more.
    busy: usize,
    /// Those of the busy ones that pause, so that it can be told where all are.
    paused: usize,
    /// What those have before them that pause or have ended early.
    waiting: Frontier,
    /// How often a pause has ended.
    pauses: u64,
    /// It is being told where all are.
    is_telling: bool,
}

impl WorkPool {
    pub(super) fn new(jobs: Vec<ReadJob>) -> Self {
        Self { state: Mutex::new(WorkPoolState { jobs, ..WorkPoolState::default() }), ..Self::default() }
    }

    pub(super) fn join(&self) {
        self.state.lock().threads += 1;
    }

    pub(super) fn is_hungry(&self) -> bool {
        self.hungry.load(Relaxed) > 0
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Ends the reading for all threads.
    pub(super) fn stop(&self) {
        let state = self.state.lock();
        self.stopped.store(true, Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn give(&self, job: ReadJob) {
        self.state.lock().jobs.push(job);
        self.changed.notify_one();
    }

    /// Work for a thread that has none, which is busy from then on; `None` when nothing is left or the reading is stopped.
    pub(super) fn take(&self) -> Option<ReadJob> {
        let mut state = self.state.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if !state.is_telling
                && let Some(job) = state.jobs.pop()
            {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 && state.jobs.is_empty() {
                return None;
            }
            self.hungry.fetch_add(1, Relaxed);
            self.changed.wait(&mut state);
            self.hungry.fetch_sub(1, Relaxed);
        }
    }

    /// A busy thread has nothing left, or leaves this behind because the reading is stopped.
    pub(super) fn end(&self, left: Frontier) {
        let mut state = self.state.lock();
        state.busy -= 1;
        state.waiting.extend(left);
        drop(state);
        self.changed.notify_all();
    }

    /// A busy thread has no files to read by and gives back its work; false if it is the last, which has nobody to leave
    /// it to.
    pub(super) fn retire(&self, job: Option<ReadJob>, stack: &mut Vec<Frame>) -> bool {
        let mut state = self.state.lock();
        if state.threads == 1 {
            return false;
        }
        state.threads -= 1;
        state.busy -= 1;
        state.jobs.extend(stack.drain(..).filter(|frame| !frame.is_empty()).map(ReadJob::Frame));
        state.jobs.extend(job);
        drop(state);
        self.changed.notify_all();
        true
    }

    /// A busy thread pauses, having this before it, until all that are busy do; then `tell` hears what all have before
    /// them. False if the reading was stopped meanwhile: then what this thread has is known.
    pub(super) fn pause(&self, mine: Frontier, tell: &dyn Fn(Frontier)) -> bool {
        let mut state = self.state.lock();
        let pauses = state.pauses;
        state.waiting.extend(mine);
        state.paused += 1;
        self.changed.notify_all();
        while state.pauses == pauses {
            if self.is_stopped() {
                return false;
            }
            if state.paused < state.busy || state.is_telling {
                self.changed.wait(&mut state);
                continue;
            }
            state.is_telling = true;
            let mut all = std::mem::take(&mut state.waiting);
            all.extend(state.jobs.iter().map(ReadJob::waiting));
            drop(state);
            tell(all);
            state = self.state.lock();
            (state.paused, state.pauses, state.is_telling) = (0, pauses + 1, false);
            self.changed.notify_all();
        }
        true
    }

    /// What was left when the reading was stopped.
    pub(super) fn rest(&self) -> Frontier {
        let mut state = self.state.lock();
        let mut rest = std::mem::take(&mut state.waiting);
        rest.extend(state.jobs.drain(..).map(|job| job.waiting()));
        rest
    }
}

/// The jobs that go on from `frontier`; what lies below none of `roots` is given back.
pub(super) fn jobs_from(frontier: &Frontier, roots: &[Arc<TreeRoot>]) -> (Vec<ReadJob>, Frontier) {
    let (mut jobs, mut lost) = (Vec::new(), Vec::new());
    for waiting in frontier {
        let Some(root) = roots.iter().find(|root| root.path == waiting.root) else {
            lost.push(waiting.clone());
            continue;
        };
        if waiting.names.is_empty() {
            jobs.push(ReadJob::TreeRoot(Arc::clone(root)));
            continue;
        }
        let node = waiting
            .dir
            .iter()
            .fold(TreeNode::root(Arc::clone(root)), |above, name| TreeNode::below(above, name.to_owned()));
        let mut names = Vec::new();
        for name in &waiting.names {
            names.extend_from_slice(name.as_encoded_bytes());
            names.push(0);
        }
        jobs.push(ReadJob::Frame(Frame::new(node, names)));
    }
    (jobs, lost)
}
