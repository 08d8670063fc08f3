//! The check of a batch, for every kind of directory.

use namegate_findings::directory::{CheckedNames, DirectoryScan, Handover};
use namegate_findings::record::DirectoryFindings;

use crate::source::DirectoryBatch;

/// Checks the batches of a source.
pub(super) struct BatchScan<'s> {
    pub(super) directories: DirectoryScan<'s>,
    pub(super) prefix: &'s [u8],
}

impl BatchScan<'_> {
    pub(super) fn check(
        &self,
        batch: &DirectoryBatch,
        checked: CheckedNames<'_>,
        emit: &mut dyn FnMut(DirectoryFindings),
    ) -> Handover {
        self.directories.check(&batch.located(self.prefix), checked, emit)
    }
}
