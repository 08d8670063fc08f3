//! The status of a journal: which changes are done, which remain, and which are undone.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use super::execute::describe_remaining;
use super::group::Direction;
use super::history::History;
use super::journal::{BatchEntry, FailedEntry, JournalBatch, JournalContents};
use crate::progress::Remaining;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalPhase {
    /// A process is writing the journal.
    Running,
    /// The run was killed or interrupted: `--resume` continues it, `undo` reverts it.
    Interrupted,
    /// The plan was applied as far as possible.
    Done,
    /// The undo was killed or interrupted: `undo` continues it.
    UndoInterrupted,
    /// The changes were undone as far as possible.
    Undone,
}

impl JournalPhase {
    /// Determines the phase of a journal.
    pub const fn from_contents(contents: &JournalContents) -> Self {
        match (&contents.undo, contents.is_ended) {
            _ if contents.is_in_use => Self::Running,
            (Some(_), _) if contents.is_restored => Self::Undone,
            (Some(_), _) => Self::UndoInterrupted,
            (None, true) => Self::Done,
            (None, false) => Self::Interrupted,
        }
    }

    /// The word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Done => "done",
            Self::UndoInterrupted => "undo-interrupted",
            Self::Undone => "undone",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSummary {
    pub phase: JournalPhase,
    /// The number of lines of the plan that were done.
    pub done: u64,
    /// How many of these were undone.
    pub undone: u64,
    /// The changes that were not made.
    pub remaining: Vec<Remaining>,
    /// The changes that were not undone.
    pub not_undone: Vec<Remaining>,
}

impl JournalSummary {
    /// Summarizes a journal. If the state of a batch is unknown, its directories are read; nothing is changed.
    pub fn read(contents: &JournalContents, file: &File) -> io::Result<Self> {
        let mut summary = Self {
            phase: JournalPhase::from_contents(contents),
            done: 0,
            undone: 0,
            remaining: contents.left.clone(),
            not_undone: Vec::new(),
        };
        for (at, state) in contents.batches.iter().enumerate() {
            let failed = state.done.as_deref();
            if failed.is_some_and(<[_]>::is_empty) && state.undoing.is_none() {
                summary.done += state.lines;
                continue;
            }
            let batch = contents.read_batch(file, at)?;
            let remaining = describe_failed(&batch, failed.unwrap_or_default(), Direction::Apply);
            let done = state.lines - remaining.len() as u64;
            summary.remaining.extend(remaining);
            match (&state.undoing, &state.undone) {
                (None, _) => {
                    let unfinished = match failed {
                        Some(_) => 0,
                        None => count_unfinished(contents, file, &batch, Direction::Apply)?,
                    };
                    summary.done += done - unfinished;
                }
                (Some(_), Some(not_undone)) => {
                    let not_undone = describe_failed(&batch, not_undone, Direction::Undo);
                    summary.done += done;
                    summary.undone += done.saturating_sub(not_undone.len() as u64);
                    summary.not_undone.extend(not_undone);
                }
                (Some(_), None) => {
                    let unfinished = count_unfinished(contents, file, &batch, Direction::Undo)?;
                    summary.done += done;
                    summary.undone += done.saturating_sub(unfinished);
                }
            }
        }
        Ok(summary)
    }
}

/// The lines of failed entries. A later batch describes an entry that was tried again.
fn describe_failed(batch: &JournalBatch, failed: &[FailedEntry], direction: Direction) -> Vec<Remaining> {
    let entries = failed.iter().filter_map(|failed| Some((batch.entries.get(failed.entry)?, &failed.reason)));
    let describe = |(entry, reason): (&BatchEntry, &String)| {
        describe_remaining(&batch.directories[entry.directory()], entry, reason, direction)
    };
    entries.flat_map(describe).collect()
}

/// The number of lines of a batch that are unfinished, according to the directories.
fn count_unfinished(
    contents: &JournalContents,
    file: &File,
    batch: &JournalBatch,
    direction: Direction,
) -> io::Result<u64> {
    let mut history = History::read(contents, file)?;
    let roots = history.open_roots(contents)?;
    let mut count = 0;
    for entry in &batch.entries {
        let directory = &batch.directories[entry.directory()];
        let dir = roots.open_directory(&directory.path, directory.inode);
        let is_finished = dir.is_ok_and(|dir| match entry {
            BatchEntry::Rename(group) => {
                let end = if direction == Direction::Apply { group.moves() } else { 0 };
                let group = history.with_current_links(&dir, directory, group);
                group.progress(&*dir).is_ok_and(|progress| progress.is_some_and(|at| at.done == end))
            }
            BatchEntry::Retarget(relink) => relink.is_finished(&*dir, direction).unwrap_or(false),
            BatchEntry::Move(moved) => moved.is_finished(dir.as_fd(), direction).unwrap_or(false),
        });
        count += if is_finished { 0 } else { entry.lines() as u64 };
    }
    Ok(count)
}
