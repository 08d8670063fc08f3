//! Spare descriptors: the oldest one is closed when there are too many.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::budget::Budget;

/// The owner of a spare descriptor.
pub(super) trait CachedFd: Debug + Send + Sync {
    /// Closes the descriptor, unless it is in use, needed after all, or gone.
    fn give_up(&self);
}

#[derive(Debug)]
pub(super) struct Spares {
    /// Oldest first.
    queue: Mutex<VecDeque<Weak<dyn CachedFd>>>,
    most: usize,
    budget: Arc<Budget>,
}

impl Spares {
    pub(super) fn new(most: usize, budget: Arc<Budget>) -> Self {
        Self { queue: Mutex::default(), most, budget }
    }

    /// Adds an owner whose descriptor may stay open for now.
    pub(super) fn keep(&self, spare: Weak<dyn CachedFd>) {
        self.queue.lock().push_back(spare);
        self.trim();
    }

    /// Closes the oldest ones until the charged descriptors leave room for the rest.
    pub(super) fn trim(&self) {
        let most = self.most.min(self.budget.available() / 4).min(self.budget.free());
        loop {
            // Closed after the queue is unlocked: the last close of a file can take long.
            let oldest = {
                let mut queue = self.queue.lock();
                if queue.len() <= most {
                    return;
                }
                queue.pop_front()
            };
            if let Some(oldest) = oldest.and_then(|spare| spare.upgrade()) {
                oldest.give_up();
            }
        }
    }

    pub(super) fn give_up_all(&self) {
        let all = std::mem::take(&mut *self.queue.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|spare| spare.give_up());
    }
}
