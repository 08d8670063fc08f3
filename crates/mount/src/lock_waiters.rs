//! Clients that wait for a lock that the server keeps (`--locks backing`).
//!
//! No thread waits for a lock: with some lanes of the pool full of waiting clients, the request that releases the lock could not be
//! served. One thread tries all waiting locks again when a client has released one, and every few milliseconds, because nobody tells
//! when a program has released a lock directly in the source.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use namegate_wire::Reply;
use nix::errno::Errno;
use parking_lot::{Condvar, Mutex};

use super::server::Server;
use crate::passthrough::{Fh, LockOwner, LockRange};

/// A lock, and the open file through which it is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockRequest {
    pub(super) fh: Fh,
    pub(super) owner: LockOwner,
    pub(super) range: LockRange,
}

/// A client that waits for a lock.
pub(super) struct LockWaiter {
    pub(super) request: LockRequest,
    pub(super) reply: Reply,
    pub(super) since: Instant,
}

impl LockWaiter {
    fn finish(self, result: nix::Result<()>) {
        match result {
            Ok(()) => self.reply.done(),
            Err(errno) => self.reply.error(errno),
        }
    }
}

#[derive(Default)]
struct WaitState {
    /// In the order in which they are tried.
    waiters: VecDeque<LockWaiter>,
    /// The waiter that is being tried, and not in the queue.
    tried: Option<u64>,
    /// Whether that one was interrupted meanwhile.
    was_interrupted: bool,
    /// Whether a lock may have become free.
    is_due: bool,
    has_thread: bool,
    has_ended: bool,
}

/// All clients that wait for locks.
#[derive(Default)]
pub(super) struct LockWaiters(Arc<(Mutex<WaitState>, Condvar)>);

impl std::fmt::Debug for LockWaiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockWaiters").finish_non_exhaustive()
    }
}

impl Drop for LockWaiters {
    fn drop(&mut self) {
        self.0.0.lock().has_ended = true;
        self.0.1.notify_all();
    }
}

impl LockWaiters {
    /// Makes a client wait, unless `was_interrupted` says that it has got a signal before.
    pub(super) fn add(
        &self,
        server: &Arc<Server>,
        waiter: LockWaiter,
        was_interrupted: impl FnOnce(u64) -> bool,
    ) {
        let mut state = self.0.0.lock();
        // Under the lock under which an interrupt looks for the waiter.
        if was_interrupted(waiter.reply.unique()) {
            drop(state);
            return waiter.finish(Err(Errno::EINTR));
        }
        if !state.has_thread {
            if let Err(error) = self.start(server) {
                drop(state);
                log::error!("nobody can wait for a lock: {error}");
                return waiter.finish(Err(Errno::ENOLCK));
            }
            state.has_thread = true;
        }
        state.waiters.push_back(waiter);
        // It may have become free since it was tried.
        state.is_due = true;
        self.0.1.notify_all();
    }

    fn start(&self, server: &Arc<Server>) -> io::Result<()> {
        let (server, shared) = (Arc::downgrade(server), self.0.clone());
        thread::Builder::new().name("locks".into()).spawn(move || try_again(&server, &shared)).map(drop)
    }

    /// Tries all again, because a lock was released.
    pub(super) fn wake(&self) {
        let mut state = self.0.0.lock();
        if !state.waiters.is_empty() || state.tried.is_some() {
            state.is_due = true;
            self.0.1.notify_all();
        }
    }

    /// Ends the waiting of a client. If it is not known here, calls `otherwise`.
    pub(super) fn interrupt(&self, unique: u64, otherwise: impl FnOnce()) {
        let mut state = self.0.0.lock();
        if state.tried == Some(unique) {
            state.was_interrupted = true;
            return;
        }
        let place = state.waiters.iter().position(|waiter| waiter.reply.unique() == unique);
        match place.and_then(|place| state.waiters.remove(place)) {
            None => otherwise(),
            Some(waiter) => {
                drop(state);
                waiter.finish(Err(Errno::EINTR));
            }
        }
    }
}

/// How long to wait before trying again for a client that has waited for so long.
fn pause(waited: Duration) -> Duration {
    if waited < Duration::from_secs(1) { Duration::from_millis(10) } else { Duration::from_millis(50) }
}

fn try_again(server: &Weak<Server>, (state, called): &(Mutex<WaitState>, Condvar)) {
    let mut state = state.lock();
    while !state.has_ended {
        let Some(youngest) = state.waiters.iter().map(|waiter| waiter.since.elapsed()).min() else {
            called.wait(&mut state);
            continue;
        };
        if !state.is_due {
            called.wait_for(&mut state, pause(youngest));
        }
        state.is_due = false;
        for _ in 0..state.waiters.len() {
            let Some(waiter) = state.waiters.pop_front() else { break };
            (state.tried, state.was_interrupted) = (Some(waiter.reply.unique()), false);
            let LockRequest { fh, owner, range, .. } = waiter.request;
            let result = parking_lot::MutexGuard::unlocked(&mut state, || match server.upgrade() {
                Some(server) => server.tree.lock(fh, owner, range),
                None => Err(Errno::EIO),
            });
            state.tried = None;
            let result = match (result, state.was_interrupted) {
                (Err(Errno::EAGAIN), false) => {
                    state.waiters.push_back(waiter);
                    continue;
                }
                (Err(Errno::EAGAIN), true) => Err(Errno::EINTR),
                (result, _) => result,
            };
            parking_lot::MutexGuard::unlocked(&mut state, || waiter.finish(result));
        }
    }
}
