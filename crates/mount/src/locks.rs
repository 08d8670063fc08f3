//! Locks that the server keeps (`--locks backing`).

use std::sync::Arc;
use std::time::Instant;

use namegate_telemetry::metrics::Op;
use namegate_wire::Reply;
use namegate_wire::abi::{FileLock, LkIn, lk};
use nix::errno::Errno;

use super::lock_waiters::{LockRequest, LockWaiter};
use super::request_core::RequestCore;
use crate::passthrough::{Caller, Fh, LockOwner, LockRange, NodeId};

fn lock_request(arg: &LkIn) -> LockRequest {
    let owner = LockOwner { number: arg.owner, is_flock: arg.lk_flags & lk::FLOCK != 0 };
    let range = LockRange { kind: arg.lk.kind.cast_signed(), start: arg.lk.start, end: arg.lk.end };
    LockRequest { fh: Fh(arg.fh), owner, range }
}

impl RequestCore {
    pub(super) fn getlk(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &LkIn, reply: Reply) {
        let LockRequest { fh, owner, range } = lock_request(arg);
        self.serve(Op::Getlk, &caller, self.weight_of(node), move |serving| {
            match serving.core.server.tree.excluding_lock(fh, owner, range) {
                Ok((LockRange { kind, start, end }, pid)) => {
                    // No process has the number 0: it stands for locks of other clients, and of processes that are not visible from here.
                    let pid = u32::try_from(pid).unwrap_or_default();
                    reply.message(&FileLock { start, end, kind: kind.cast_unsigned(), pid });
                }
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    /// Takes or releases a lock; with `waits`, the reply comes when it is free.
    pub(super) fn setlk(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        arg: &LkIn,
        waits: bool,
        reply: Reply,
    ) {
        let request = lock_request(arg);
        self.serve(Op::Setlk, &caller, self.weight_of(node), move |serving| {
            let (core, LockRequest { fh, owner, range }) = (serving.core, request);
            match core.server.tree.lock(fh, owner, range) {
                Err(Errno::EAGAIN) if waits => {
                    let waiter = LockWaiter { request, reply, since: Instant::now() };
                    core.lock_waiters
                        .add(&core.server, waiter, |unique| core.workers.was_interrupted(unique));
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
