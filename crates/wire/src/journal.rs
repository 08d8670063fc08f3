//! What a server records of requests, so that another one can take over when it ends. [`NoJournal`] records nothing.
//!
//! A request belongs to the thread that serves it: the methods concern the request that the calling thread has received, resumed or
//! [attached](RequestJournal), and do nothing in a thread without one.

use std::fmt::Debug;
use std::os::fd::RawFd;

use super::init::Negotiated;

/// Records what was received and answered.
pub trait RequestJournal: Debug + Send + Sync {
    /// Whether anything is recorded, so that another server can take over.
    fn is_recording(&self) -> bool {
        false
    }

    /// The largest number of threads that may read requests.
    fn max_readers(&self) -> usize {
        usize::MAX
    }

    /// The memory into which the reader with this number reads, which its successor reads too; `None` for memory of its own. Called once
    /// for each reader.
    fn buffer(&self, _reader: usize) -> Option<&'static mut [u8]> {
        None
    }

    /// The connection is live: what was agreed on with the kernel, and the descriptors from which the readers read.
    fn connected(&self, _negotiated: Negotiated, _devices: &[RawFd]) {}

    /// The calling thread, the reader with this number, has received `message`.
    fn received(&'static self, _reader: usize, _message: &[u8]) {}

    /// The reply to the request `unique` is about to be sent.
    fn replying(&self, _unique: u64, _error: i32, _parts: &[&[u8]]) {}

    /// The reply to the request `unique` was sent.
    fn replied(&self, _unique: u64) {}

    /// The request of the calling thread is finished, unless another thread goes on with it.
    fn finished(&self) {}

    /// Number of nodes of this FORGET that a previous server has forgotten.
    fn forgotten(&self) -> u64 {
        0
    }

    /// So many nodes of this FORGET are forgotten. One that is counted here and not forgotten yet is lost: its count stays too high.
    fn note_forgotten(&self, _count: u64) {}

    /// Runs `work`, which finishes requests of a previous server.
    fn recover(&self, work: &mut dyn FnMut()) {
        work();
    }
}

/// Records nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoJournal;

impl RequestJournal for NoJournal {}

/// A request that a previous server received and did not finish.
#[derive(Debug)]
pub struct InFlight {
    pub unique: u64,
    /// The reader that has received it; it is answered on the descriptor of that reader.
    pub reader: usize,
    pub message: Vec<u8>,
    pub attempt: Box<dyn PriorRequest>,
}

/// What a previous server has recorded of a request.
pub trait PriorRequest: Debug + Send {
    /// Has the calling thread go on with the request.
    fn resume(self: Box<Self>) -> Recovery;
}

/// How to finish a request that a previous server has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Serve it. Before that, subtract one lookup of each of these nodes: the kernel does not know of them.
    Serve(Vec<u64>),
    /// Send this error and these bytes.
    Reply(i32, Vec<u8>),
    /// Let it fail: servers have died of it.
    Fail,
}
