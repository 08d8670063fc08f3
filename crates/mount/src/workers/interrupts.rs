//! Jobs that are to be interrupted, by their tickets.
//!
//! An interrupt id may come before its job, because the thread that has read a request may be slower than the one that has read that it is to
//! be interrupted. It may also come after the job, or for a request that is no job: then it stays in the list until others push it out.
//! No interrupt id is used twice.

use std::collections::VecDeque;

use nix::sys::signal::Signal;

/// The signal that interrupts a system call of a thread of the pool. By default it is ignored.
pub(super) const INTERRUPTING: Signal = Signal::SIGURG;

/// The tickets of jobs that are to be interrupted.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    /// Oldest first.
    tickets: VecDeque<u64>,
}

impl Interrupts {
    /// Maximum number of tickets. When there are more, the oldest job is no longer interrupted.
    const MAX_PENDING: usize = 1024;

    pub(super) fn add(&mut self, interrupt_id: u64) {
        if self.tickets.len() == Self::MAX_PENDING {
            self.tickets.pop_front();
        }
        self.tickets.push_back(interrupt_id);
    }

    pub(super) fn contains(&self, interrupt_id: u64) -> bool {
        self.tickets.contains(&interrupt_id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Removes an interrupt id, and returns whether it was there.
    pub(super) fn remove(&mut self, interrupt_id: u64) -> bool {
        let place = self.tickets.iter().position(|&other| other == interrupt_id);
        place.is_some_and(|place| self.tickets.remove(place).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_of_no_job_are_pushed_out() {
        let mut interrupts = Interrupts::default();
        (0..2000).for_each(|interrupt_id| interrupts.add(interrupt_id));
        assert!(!interrupts.contains(0) && interrupts.contains(1999));
        assert!(interrupts.remove(1999) && !interrupts.remove(1999));
        assert_eq!(interrupts.tickets.len(), Interrupts::MAX_PENDING - 1);
    }
}
