//! Open files and directories by the handle numbers of FUSE requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use parking_lot::RwLock;

use super::Result;

/// Handle number of an open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fh(pub u64);

/// All open files, or all open directories.
#[derive(Debug)]
pub(super) struct HandleMap<T> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> HandleMap<T> {
    /// Of the server with the number `server`, counted from 0: none of its handles is one of another server.
    pub(super) fn new(server: u64) -> Self {
        Self { open: RwLock::default(), next: AtomicU64::new((server << 40) + 1) }
    }

    pub(super) fn reserve(&self) -> Fh {
        // 64 bits do not wrap around: no number is used twice.
        Fh(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn insert(&self, fh: Fh, value: T) {
        self.open.write().insert(fh.0, Arc::new(value));
    }

    /// Number of open handles.
    pub(super) fn len(&self) -> usize {
        self.open.read().len()
    }

    pub(super) fn get(&self, fh: Fh) -> Result<Arc<T>> {
        let open = self.open.read();
        open.get(&fh.0).cloned().ok_or(Errno::EBADF)
    }

    pub(super) fn remove(&self, fh: Fh) -> Option<Arc<T>> {
        self.open.write().remove(&fh.0)
    }
}
