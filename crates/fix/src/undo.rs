//! Undoes the changes of a journal: in the opposite order, batch by batch, each name byte for byte.
//!
//! The journal records that a batch is being undone before that begins. The directories show which changes are undone
//! already. So a killed run can be repeated, and so can a finished one: then only the changes that failed are tried.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::entry::EntryFailure;
use super::execute::{BatchRun, Executor};
use super::group::Direction;
use super::history::History;
use super::journal::{
    BatchDirectory, BatchEntry, BatchState, FailedEntry, Journal, JournalBatch, JournalContents,
    JournalRecord,
};
use super::plan::InodeTime;
use super::roots::PlanRoots;
use crate::progress::ChangeObserver;

/// The result of an undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndoTally {
    /// Names and targets that are as before.
    pub restored: u64,
    /// Changes that could not be undone.
    pub remaining: u64,
    /// The run was stopped before its end.
    pub is_interrupted: bool,
}

/// Undoes the changes of `journal`, whose contents are `contents`. `started` is the current time in RFC 3339.
///
/// # Errors
/// The journal cannot be read or written; or a root is on a read-only file system.
pub fn undo(
    journal: &mut Journal,
    contents: &JournalContents,
    started: String,
    observer: &dyn ChangeObserver,
) -> io::Result<UndoTally> {
    let mut tally = UndoTally::default();
    let mut history = History::read(contents, journal.file())?;
    let roots = Arc::new(history.open_roots(contents)?);
    let mut executor = Executor { roots, history, observer, not_kept: BTreeMap::new() };
    if contents.undo.is_none() || contents.is_restored {
        journal.push(&JournalRecord::Undo { started });
    }
    for (at, state) in contents.batches.iter().enumerate().rev() {
        let batch = contents.read_batch(journal.file(), at)?;
        let done = state.lines - count_lines(&batch, state.done.as_deref());
        if state.undone.as_ref().is_some_and(Vec::is_empty) {
            tally.restored += done;
            continue;
        }
        // A group that failed may have left an entry under the temporary name.
        let has_temp_name =
            |at: usize| matches!(&batch.entries[at], BatchEntry::Rename(group) if group.temp_name.is_some());
        let wanted = |at: usize| match (&state.undone, &state.done) {
            (Some(_), _) => state.has_failed_undo(at),
            (None, Some(_)) => !state.has_failed(at) || has_temp_name(at),
            (None, None) => true,
        };
        let times = choose_times(contents, &executor.roots, &batch, state);
        journal.push(&JournalRecord::Undoing { batch: batch.number, times: times.clone() });
        journal.commit(observer)?;
        let times = contents.header.keep_times.then_some(&times[..]);
        let direction = Direction::Undo;
        let run = BatchRun { batch: &batch, dirs: None, direction, wanted: &wanted, times };
        let mut failures = executor.execute(&run);
        // An entry that was never renamed may be gone or replaced.
        failures.retain(|(at, failure)| {
            !state.has_failed(*at)
                || !matches!(failure, EntryFailure::Gone | EntryFailure::Replaced | EntryFailure::Group)
        });
        let (left, lines) = executor.report_failures(&batch, failures, direction);
        tally.remaining += lines;
        tally.restored += done - lines;
        journal.push(&JournalRecord::Undone { batch: batch.number, left });
        if observer.is_stopped() {
            tally.is_interrupted = at > 0;
            break;
        }
    }
    if !tally.is_interrupted {
        executor.roots.sync()?;
        journal.push(&JournalRecord::Restored);
    }
    journal.commit(observer)?;
    Ok(tally)
}

/// The number of lines of the plan in the failed entries.
fn count_lines(batch: &JournalBatch, failed: Option<&[FailedEntry]>) -> u64 {
    let entries = failed.into_iter().flatten().filter_map(|failed| batch.entries.get(failed.entry));
    entries.map(|entry| entry.lines() as u64).sum()
}

/// The times that the directories of the batch get; none if times are not kept. Usually the current times: the undo leaves no
/// trace. After a killed run, the times from before that run.
fn choose_times(
    contents: &JournalContents,
    roots: &PlanRoots,
    batch: &JournalBatch,
    state: &BatchState,
) -> Vec<(InodeTime, InodeTime)> {
    let before = |directory: &BatchDirectory| (directory.atime, directory.mtime);
    let now = |directory: &BatchDirectory| match roots.open_directory(&directory.path, directory.inode) {
        Ok(dir) => (dir.stat.atime.into(), dir.stat.mtime.into()),
        // The directory is gone, or has another path until later batches are undone.
        Err(_) => before(directory),
    };
    match (&state.undoing, &state.done) {
        _ if !contents.header.keep_times => Vec::new(),
        (Some(times), _) if state.undone.is_none() && times.len() == batch.directories.len() => times.clone(),
        (None, None) => batch.directories.iter().map(before).collect(),
        _ => batch.directories.iter().map(now).collect(),
    }
}
