//! Replies on their way to the thread that has the ring in which their requests came.

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use namegate_sys::uring::EntryNumber;
use nix::unistd::write;
use parking_lot::Mutex;

/// Replies on their way to the thread that has the ring.
#[derive(Debug)]
pub(super) struct RingReplies {
    /// Wakes that thread.
    event: OwnedFd,
    thread: ThreadId,
    waiting: Mutex<WaitingReplies>,
    /// Whether it is to stop serving.
    is_to_stop: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct WaitingReplies {
    pub(super) list: Vec<RingReply>,
    /// The bytes of all of them, one after the other.
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct RingReply {
    pub(super) entry: EntryNumber,
    pub(super) error: i32,
    pub(super) unique: u64,
    pub(super) len: usize,
}

/// The entry of a ring in which a request is.
#[derive(Debug)]
pub(super) struct RingEntry {
    ring: Arc<RingReplies>,
    entry: EntryNumber,
}

impl RingEntry {
    pub(super) fn new(ring: Arc<RingReplies>, entry: EntryNumber) -> Self {
        Self { ring, entry }
    }

    /// Has the ring reply to the request.
    pub(super) fn reply(&self, error: i32, unique: u64, parts: &[&[u8]]) {
        let Self { ring, entry } = self;
        let mut waiting = ring.waiting.lock();
        let (is_first, begin) = (waiting.list.is_empty(), waiting.bytes.len());
        parts.iter().for_each(|part| waiting.bytes.extend_from_slice(part));
        let len = waiting.bytes.len() - begin;
        waiting.list.push(RingReply { entry: *entry, error, unique, len });
        drop(waiting);
        if is_first && thread::current().id() != ring.thread {
            ring.wake();
        }
    }
}

impl RingReplies {
    /// Those of the calling thread, which `event` wakes.
    pub(super) fn for_this_thread(event: OwnedFd) -> Self {
        let is_to_stop = AtomicBool::new(false);
        Self { event, thread: thread::current().id(), waiting: Mutex::default(), is_to_stop }
    }

    /// Exchanges the waiting replies for `empty`.
    pub(super) fn swap(&self, empty: &mut WaitingReplies) {
        mem::swap(empty, &mut self.waiting.lock());
    }

    pub(super) fn is_to_stop(&self) -> bool {
        self.is_to_stop.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self, is_to_stop: bool) {
        self.is_to_stop.store(is_to_stop, Ordering::Release);
        if is_to_stop {
            self.wake();
        }
    }

    fn wake(&self) {
        // It fails only when it was written to 2^64 times.
        let _ = write(&self.event, &1u64.to_ne_bytes());
    }
}
