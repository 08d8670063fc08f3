//! Work that threads share, and to which they add what they find.

use std::thread;

use parking_lot::{Condvar, Mutex};

/// Runs `work` in `count` threads, of which the caller is one. If the system allows no more threads, the existing ones do the work.
pub(crate) fn run_in_threads(count: usize, work: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 1..count {
            if thread::Builder::new().spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Work that waits. What was added last is done first, so that little waits at a time.
#[derive(Debug)]
pub(super) struct WorkStack<W> {
    state: Mutex<WorkStackState<W>>,
    changed: Condvar,
}

#[derive(Debug)]
struct WorkStackState<W> {
    waiting: Vec<W>,
    /// Number of threads that are working and may add more.
    busy: usize,
    is_stopped: bool,
}

impl<W> WorkStack<W> {
    pub(super) fn new() -> Self {
        let state = WorkStackState { waiting: Vec::new(), busy: 0, is_stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds work; the last is done first.
    pub(super) fn add(&self, work: impl IntoIterator<Item = W>) {
        self.state.lock().waiting.extend(work);
        self.changed.notify_all();
    }

    /// Takes work; `None` if nothing is left and nothing can be added, or the work was stopped.
    pub(super) fn next(&self) -> Option<Turn<'_, W>> {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some(work) = state.waiting.pop() {
                state.busy += 1;
                return Some(Turn { stack: self, work });
            }
            if state.busy == 0 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Has all threads end after the work that they do now.
    pub(super) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }

    #[cfg(feature = "git")]
    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }
}

/// Work that a thread does. Its drop tells the other threads, which would otherwise wait for ever for a thread that panicked.
pub(super) struct Turn<'s, W> {
    stack: &'s WorkStack<W>,
    pub(super) work: W,
}

impl<W> Drop for Turn<'_, W> {
    fn drop(&mut self) {
        let mut state = self.stack.state.lock();
        state.busy -= 1;
        state.is_stopped |= thread::panicking();
        drop(state);
        self.stack.changed.notify_all();
    }
}
