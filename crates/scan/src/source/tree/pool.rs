//! State that the threads of a tree share: directories that wait for a thread, and a way to stop all threads at one moment.
//!
//! A thread continues with the deepest directory that it has found, so that few wait at a time. If other threads are idle,
//! it gives away names from the shallowest, which has the most below it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};

use super::node::{Frame, TreeNode};
use crate::source::roots::TreeRoot;
use crate::source::{Frontier, PendingDirectories};

/// A job for a thread.
#[derive(Debug)]
pub(super) enum ReadJob {
    /// A root that was not read yet.
    TreeRoot(Arc<TreeRoot>),
    /// Subdirectories of a directory that was read.
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

/// The shared state.
#[derive(Debug, Default)]
pub(super) struct WorkPool {
    state: Mutex<WorkPoolState>,
    changed: Condvar,
    /// Number of threads that wait for work.
    hungry: AtomicUsize,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct WorkPoolState {
    /// A stack: the last is the next.
    jobs: Vec<ReadJob>,
    /// Number of threads that take part.
    threads: usize,
    /// Number of threads that have work, and may find more.
    busy: usize,
    /// Number of busy threads that pause, so that a frontier can be reported.
    paused: usize,
    /// The waiting names of threads that pause or have ended early.
    waiting: Frontier,
    /// Number of completed pauses.
    pauses: u64,
    /// A frontier is being reported.
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

    /// Stops all threads.
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

    /// Takes work for an idle thread, which is busy from then on; `None` if nothing is left or the threads were stopped.
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

    /// Ends the work of a busy thread, which leaves `left` behind if it was stopped.
    pub(super) fn end(&self, left: Frontier) {
        let mut state = self.state.lock();
        state.busy -= 1;
        state.waiting.extend(left);
        drop(state);
        self.changed.notify_all();
    }

    /// A busy thread that can open no more files gives back its work and ends; false if it is the last thread, which must
    /// continue.
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

    /// Pauses a busy thread, whose waiting names are `mine`, until all busy threads pause; then `tell` gets the waiting names
    /// of all. False if the threads were stopped meanwhile; then `mine` is already recorded.
    pub(super) fn pause(&self, mine: Frontier, tell: &dyn Fn(Frontier)) -> bool {
        let mut state = self.state.lock();
        let pauses = state.pauses;
        state.waiting.extend(mine);
        state.paused += 1;
        self.changed.notify_all();
        while state.pauses == pauses {
            // While a frontier is reported, nothing is recorded: it has all waiting names, and a thread that goes on records its own again.
            if self.is_stopped() && !state.is_telling {
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

    /// The waiting names when the threads were stopped.
    pub(super) fn rest(&self) -> Frontier {
        let mut state = self.state.lock();
        let mut rest = std::mem::take(&mut state.waiting);
        rest.extend(state.jobs.drain(..).map(|job| job.waiting()));
        rest
    }
}

/// The jobs that continue from `frontier`; parts that are below none of `roots` are returned.
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
        let node =
            waiting.dir.iter().fold(TreeNode::root(Arc::clone(root), root.in_repository), |above, name| {
                let in_repository = above.in_repository;
                TreeNode::below(above, name.to_owned(), in_repository)
            });
        let mut names = Vec::new();
        for name in &waiting.names {
            names.extend_from_slice(name.as_encoded_bytes());
            names.push(0);
        }
        jobs.push(ReadJob::Frame(Frame::new(node, names)));
    }
    (jobs, lost)
}
