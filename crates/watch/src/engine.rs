//! What all engines have in common: they watch roots, read events, and read directories from the queue.

use std::fmt;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;

use nix::errno::Errno;

use super::WatchEngine;
use super::core::{ReadTask, ReportFn, RescanFilter, WatchCore};
use super::rescan::Rescan;
use namegate_sys::fanotify_events::MalformedEvent;

/// A kernel interface that watches some of the roots.
pub(super) trait Engine: AsFd + fmt::Debug {
    fn kind(&self) -> WatchEngine;

    /// The roots that it watches.
    fn roots(&self) -> Vec<usize>;

    fn rescan(&self) -> &Rescan;

    fn rescan_mut(&mut self) -> &mut Rescan;

    /// Watches the root `index`. Its names are reported if the filter selects any.
    ///
    /// # Errors
    /// It cannot watch that root.
    fn add(&mut self, core: &mut WatchCore, index: usize, filter: RescanFilter) -> Result<(), Errno>;

    /// Ignores the root `index` from now on.
    fn remove(&mut self, index: usize);

    /// Handles the events in `bytes`, the result of one read. Returns whether the kernel has lost some.
    fn handle_events(&mut self, core: &mut WatchCore, bytes: &[u8], report: ReportFn<'_>) -> bool;

    /// Reads a directory from the queue.
    fn read(&mut self, core: &mut WatchCore, task: &ReadTask, report: ReportFn<'_>);

    /// Called when no directory and no event is left to read: starts the next pass, or ends the last one.
    fn on_idle(&mut self, core: &mut WatchCore);

    /// Called when all events have been read.
    fn on_drained(&mut self) {}

    /// Number of directories that are watched one by one.
    fn directories(&self) -> usize {
        0
    }

    /// Whether this engine waits for the time of the next pass, or for an event that belongs to another one.
    fn is_waiting(&self) -> bool {
        self.rescan().is_waiting()
    }

    /// Reads and handles pending events, one buffer at most. Returns whether there were any.
    fn read_events(&mut self, core: &mut WatchCore, report: ReportFn<'_>) -> bool {
        let mut buffer = std::mem::take(&mut core.event_buffer);
        let filled = match nix::unistd::read(self.as_fd(), &mut buffer) {
            Ok(filled) => filled,
            Err(Errno::EAGAIN | Errno::EINTR) => 0,
            Err(errno) => {
                core.fault(PathBuf::from(self.kind().as_str()), "read events of", errno);
                0
            }
        };
        let is_lost = self.handle_events(core, &buffer[..filled], report);
        core.event_buffer = buffer;
        if is_lost {
            core.count_lost();
            let filter = core.lost_filter(&self.roots());
            self.rescan_mut().request_now(filter);
        }
        filled > 0
    }

    /// Requests another pass: a directory is not where the events say, so both events and reading may have missed it.
    fn request_rescan(&mut self, core: &WatchCore) {
        let filter = core.lost_filter(&self.roots());
        self.rescan_mut().request_later(filter, Instant::now());
    }
}

/// Logs that events are lost from here on, because the start of the next one is unknown.
pub(super) fn log_malformed(malformed: MalformedEvent) {
    log::error!("cannot parse an event of the kernel: {malformed}");
}
