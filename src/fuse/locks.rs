//! Locks that the server keeps (`--locks backing`), and the clients that wait for one.
//!
//! No thread waits for a lock: with some lanes of the pool full of waiting clients, the request that releases the lock could not be
//! served. One thread tries all waiting locks again when a client has released one, and every few milliseconds, because nobody tells
//! when a program has released a lock directly in the source.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use namegate_telemetry::metrics::Op;
use nix::errno::Errno;
use parking_lot::{Condvar, Mutex};

use super::dispatch::RequestCore;
use super::replies::{FoundLock, Responds};
use super::server::Server;
use crate::passthrough::{Caller, Fh, LockOwner, LockRange, NodeId};

/// A lock, and the open file through which it is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockRequest {
    pub(super) node: NodeId,
    pub(super) fh: Fh,
    pub(super) owner: LockOwner,
    pub(super) range: LockRange,
}

/// A client that waits for a lock.
struct LockWaiter {
    interrupt_id: Option<u64>,
    request: LockRequest,
    finish: Box<dyn FnOnce(nix::Result<()>) + Send>,
    since: Instant,
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
    fn add(&self, server: &Arc<Server>, waiter: LockWaiter, was_interrupted: impl FnOnce(u64) -> bool) {
        let mut state = self.0.0.lock();
        // Under the lock under which an interrupt looks for the waiter.
        if waiter.interrupt_id.is_some_and(was_interrupted) {
            drop(state);
            return (waiter.finish)(Err(Errno::EINTR));
        }
        if !state.has_thread {
            if let Err(error) = self.start(server) {
                drop(state);
                log::error!("nobody can wait for a lock: {error}");
                return (waiter.finish)(Err(Errno::ENOLCK));
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
    fn wake(&self) {
        let mut state = self.0.0.lock();
        if !state.waiters.is_empty() || state.tried.is_some() {
            state.is_due = true;
            self.0.1.notify_all();
        }
    }

    /// Ends the waiting of a client. If it is not known here, calls `otherwise`.
    pub(super) fn interrupt(&self, interrupt_id: u64, otherwise: impl FnOnce()) {
        let mut state = self.0.0.lock();
        if state.tried == Some(interrupt_id) {
            state.was_interrupted = true;
            return;
        }
        let place = state.waiters.iter().position(|waiter| waiter.interrupt_id == Some(interrupt_id));
        match place.and_then(|place| state.waiters.remove(place)) {
            None => otherwise(),
            Some(waiter) => {
                drop(state);
                (waiter.finish)(Err(Errno::EINTR));
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
            (state.tried, state.was_interrupted) = (waiter.interrupt_id, false);
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
            parking_lot::MutexGuard::unlocked(&mut state, || (waiter.finish)(result));
        }
    }
}

impl RequestCore {
    pub(super) fn getlk(
        self: &Arc<Self>,
        caller: &Caller,
        request: LockRequest,
        reply: impl Responds<FoundLock>,
    ) {
        self.serve((Op::Getlk, caller.uid, self.weight_of(request.node)), move |serving| {
            let LockRequest { fh, owner, range, .. } = request;
            match serving.core.server.tree.excluding_lock(fh, owner, range) {
                Ok((range, pid)) => reply.respond(FoundLock { range, pid }),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    /// Takes or releases a lock; with `waits`, the reply comes when it is free.
    pub(super) fn setlk(
        self: &Arc<Self>,
        caller: &Caller,
        request: LockRequest,
        waits: bool,
        reply: impl Responds<()>,
    ) {
        self.serve((Op::Setlk, caller.uid, self.weight_of(request.node)), move |serving| {
            let LockRequest { fh, owner, range, .. } = request;
            let core = serving.core;
            match core.server.tree.lock(fh, owner, range) {
                Err(Errno::EAGAIN) if waits => {
                    let interrupt_id = reply.interrupt_id();
                    let finish = Box::new(move |result| match result {
                        Ok(()) => reply.respond(()),
                        Err(errno) => reply.error(errno),
                    });
                    let waiter = LockWaiter { interrupt_id, request, finish, since: Instant::now() };
                    core.lock_waiters
                        .add(&core.server, waiter, |interrupt_id| core.was_interrupted(interrupt_id));
                }
                result => {
                    let frees = result.is_ok() && range.kind != libc::F_WRLCK;
                    serving.empty(result, reply);
                    if frees {
                        core.lock_waiters.wake();
                    }
                }
            }
        });
    }

    /// Releases the POSIX locks of an owner that closes the file.
    pub(super) fn unlock_all(&self, fh: Fh, owner: u64) {
        if self.server.tree.unlock_all(fh, owner) {
            self.lock_waiters.wake();
        }
    }

    /// Releases what was locked through an open file that is closed.
    pub(super) fn unlock_released(&self, fh: Fh) {
        if self.server.tree.unlock_released(fh) {
            self.lock_waiters.wake();
        }
    }
}
