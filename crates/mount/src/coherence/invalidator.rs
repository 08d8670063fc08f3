//! Threads that have the kernel drop names. Each drop waits for requests about entries of the directory, so a directory in which a client is
//! stuck must not keep the others waiting, and no thread that serves requests may do it.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::given::TakenNames;
use crate::dropper::{DROPPING_THREADS, NameDrop};
use crate::node_number::numbers;
use crate::passthrough::NodeId;
use crate::server::Server;

/// Everything that changed at one time, as far as the kernel may know it.
#[derive(Debug, Default)]
pub(super) struct StaleEntries {
    pub(super) nodes: Vec<NodeId>,
    pub(super) taken: TakenNames,
}

impl StaleEntries {
    pub(super) fn len(&self) -> usize {
        self.nodes.len() + self.taken.names.iter().map(|(_, names)| names.len()).sum::<usize>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.taken.names.is_empty()
    }
}

#[derive(Debug, Default)]
struct Waiting {
    /// Directories in [`StaleEntries::taken`], by their places.
    jobs: VecDeque<(Arc<StaleEntries>, usize)>,
    threads: usize,
    idle: usize,
}

#[derive(Debug)]
pub(super) struct Invalidator {
    server: Weak<Server>,
    waiting: Arc<(Mutex<Waiting>, Condvar)>,
}

impl Invalidator {
    pub(super) fn new(server: Weak<Server>) -> Self {
        Self { server, waiting: Arc::default() }
    }

    /// Has the kernel drop everything in `stale`: attributes at once, names as soon as their directories allow.
    pub(super) fn invalidate(&self, stale: &Arc<StaleEntries>) {
        /// So many directories can be stuck before the others wait.
        const MOST_THREADS: usize = DROPPING_THREADS - 2;
        let Some(server) = self.server.upgrade() else { return };
        let Some(notifier) = server.notifier() else { return };
        for number in stale.nodes.iter().flat_map(|&node| numbers(node)) {
            // The listing of a directory is compared with its attributes when it is read again.
            let dropped = notifier.forget_inode(number, false);
            dropped.unwrap_or_else(|error| log::debug!("the kernel does not forget attributes: {error}"));
        }
        let (lock, wake) = &*self.waiting;
        let mut waiting = lock.lock();
        waiting.jobs.extend((0..stale.taken.names.len()).map(|place| (stale.clone(), place)));
        let needed = waiting.jobs.len().min(MOST_THREADS);
        if waiting.idle < needed && waiting.threads < MOST_THREADS {
            let (server, shared) = (self.server.clone(), self.waiting.clone());
            match thread::Builder::new().name("forgetting".into()).spawn(move || work(&server, &shared)) {
                Ok(_) => waiting.threads += 1,
                Err(error) => log::warn!("names are dropped by fewer threads: {error}"),
            }
        }
        drop(waiting);
        for _ in 0..needed {
            wake.notify_one();
        }
    }
}

/// Drops names until the server has ended.
fn work(server: &Weak<Server>, shared: &(Mutex<Waiting>, Condvar)) {
    const PATIENCE: Duration = Duration::from_secs(1);
    let (lock, wake) = shared;
    loop {
        let mut waiting = lock.lock();
        let Some((stale, place)) = waiting.jobs.pop_front() else {
            waiting.idle += 1;
            let _ = wake.wait_for(&mut waiting, PATIENCE);
            waiting.idle -= 1;
            if server.strong_count() == 0 {
                return;
            }
            continue;
        };
        drop(waiting);
        let Some(server) = server.upgrade() else { return };
        let (parent, names) = &stale.taken.names[place];
        server.drop_names(*parent, names, NameDrop::Expire);
    }
}

/// Everything that the kernel may keep since a predecessor, who does not say what has changed since.
pub(super) fn everything_left(server: &Server) -> StaleEntries {
    StaleEntries { nodes: server.tree.all_nodes(), taken: server.coherence.given.lock().take_left() }
}

/// Has the kernel drop what it keeps since a predecessor, where nobody listens for changes.
pub(crate) fn drop_left(server: &Arc<Server>) {
    if server.coherence.goes_on() {
        Invalidator::new(Arc::downgrade(server)).invalidate(&Arc::new(everything_left(server)));
    }
}
