//! A batch that was compared with the directories and is to be executed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use namegate_files::json::{Base64, Hex};
use namegate_sys::{open_files, stat};

use crate::entry::EntryFailure;
use crate::journal::{BatchDirectory, BatchEntry, RenderedRecords};
use crate::plan::PlanDirectory;
use crate::plan::id_set::IdSet;
use crate::progress::Remaining;
use crate::roots::OpenPlanDir;

/// The limit of open directories in a batch.
const MAX_OPEN: usize = 512;

/// Descriptors for everything else: the journal, the roots, temporary files, standard streams.
const OTHER_FILES: usize = 24;

/// The limit of open directories in a batch, for this process: the directories of one batch are open while the next is prepared.
pub(super) fn max_open() -> usize {
    (open_files::limit().saturating_sub(OTHER_FILES) / 2).clamp(1, MAX_OPEN)
}

/// Passes a batch on to be executed. Breaks if the run is to end.
pub(super) type BatchSink<'s> = dyn FnMut(PreparedBatch) -> io::Result<ControlFlow<()>> + 's;

/// A batch that was compared with the directories, and what was found besides.
#[derive(Default)]
pub(super) struct PreparedBatch {
    pub(super) directories: Vec<BatchDirectory>,
    /// The same directories, open.
    pub(super) dirs: Vec<Arc<OpenPlanDir>>,
    /// The changes, in order.
    pub(super) entries: Vec<BatchEntry>,
    /// The records of both for the journal, if they were made already.
    pub(super) rendered: Option<RenderedRecords>,
    /// Lines of the plan that cannot be done.
    pub(super) left: Vec<Remaining>,
    /// The number of lines that were done before.
    pub(super) already: u64,
    /// The number of lines that are less certain than requested.
    pub(super) left_out: u64,
    /// How many original names cannot be kept, by reason.
    pub(super) not_kept: BTreeMap<&'static str, u64>,
}

impl PreparedBatch {
    /// Adds an entry of `directory`, which is open as `dir`.
    pub(super) fn add(&mut self, directory: &PlanDirectory, dir: Arc<OpenPlanDir>, mut entry: BatchEntry) {
        if self.directories.last().is_none_or(|last| *last.path != directory.path) {
            // The metadata from when it was opened may be older than the batch before.
            let stat = stat::at(&*dir, OsStr::new("")).unwrap_or(dir.stat);
            self.directories.push(BatchDirectory {
                path: Base64(directory.path.clone()),
                inode: directory.inode,
                atime: stat.atime.into(),
                mtime: stat.mtime.into(),
            });
            self.dirs.push(dir);
        }
        entry.set_directory(self.directories.len() - 1);
        self.entries.push(entry);
    }

    /// Leaves a line of the plan.
    pub(super) fn leave(&mut self, directory: &[u8], old: &[u8], new: &[u8], failure: &EntryFailure) {
        self.left.push(Remaining {
            directory: Base64(directory.to_vec()),
            old: Hex(old.to_vec()),
            new: Hex(new.to_vec()),
            reason: failure.to_string(),
        });
    }

    pub(super) fn is_full(&self, batch_size: usize, max_open: usize) -> bool {
        self.entries.len().max(self.left.len()) >= batch_size || self.dirs.len() >= max_open
    }
}

/// The ids of renames that need no change.
#[derive(Default)]
pub(super) struct PreparedIds {
    /// Those that an earlier run has made.
    pub(super) done: IdSet,
    /// Those that are less certain than requested.
    pub(super) left_out: IdSet,
}
