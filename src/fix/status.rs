//! What a journal says was done, what is left, and what was taken back.

use std::fs::File;
use std::io;

use super::group::Way;
use super::history::History;
use super::journal::{Base64, Batch, Entry, Hex, Left, Reading, Remainder};

/// How far a journal has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A process is at work.
    Running,
    /// The run was killed or interrupted: `--resume` goes on, `undo` takes it back.
    Interrupted,
    /// The plan was done as far as it could be.
    Done,
    /// Taking back was killed or interrupted: `undo` goes on.
    UndoInterrupted,
    /// It was taken back as far as that could be.
    Undone,
}

impl Phase {
    /// That of a journal.
    pub const fn of(reading: &Reading) -> Self {
        match (&reading.undo, reading.is_ended) {
            _ if reading.is_in_use => Self::Running,
            (Some(_), _) if reading.is_restored => Self::Undone,
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

/// What there is to say of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How far it has come.
    pub phase: Phase,
    /// How many lines of the plan were done.
    pub done: u64,
    /// How many of these were taken back.
    pub undone: u64,
    /// What was not done, with reasons.
    pub left: Vec<Left>,
    /// What was not taken back, with reasons.
    pub not_undone: Vec<Left>,
}

impl Status {
    /// That of a journal. Of a batch of which nothing is told the directories tell: they are looked at, and nothing is changed.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn of(reading: &Reading, file: &File) -> io::Result<Self> {
        let mut status = Self {
            phase: Phase::of(reading),
            done: 0,
            undone: 0,
            left: reading.left.clone(),
            not_undone: Vec::new(),
        };
        for (at, told) in reading.batches.iter().enumerate() {
            let left = told.done.as_deref();
            if left.is_some_and(<[_]>::is_empty) && told.undoing.is_none() {
                status.done += told.lines;
                continue;
            }
            let batch = reading.batch(file, at)?;
            let left = match left {
                Some(left) => lines(&batch, left, Way::Forward),
                None => Vec::new(),
            };
            let undecided = match (&told.done, &told.undoing, &told.undone) {
                (None, None, _) => not_there(reading, file, &batch, Way::Forward)?,
                (_, Some(_), None) => not_there(reading, file, &batch, Way::Backward)?,
                _ => 0,
            };
            let done = told.lines - left.len() as u64;
            match (&told.undoing, &told.undone) {
                (None, _) => status.done += done - undecided,
                (Some(_), Some(not_undone)) => {
                    status.done += done;
                    let not_undone = lines(&batch, not_undone, Way::Backward);
                    status.undone += done.saturating_sub(not_undone.len() as u64);
                    status.not_undone.extend(not_undone);
                }
                (Some(_), None) => {
                    status.done += done;
                    status.undone += done.saturating_sub(undecided);
                }
            }
            status.left.extend(left);
        }
        Ok(status)
    }
}

/// What was left of a batch, line by line. What was tried again in another way is told of there.
fn lines(batch: &Batch, left: &[Remainder], way: Way) -> Vec<Left> {
    let mut all = Vec::new();
    for remainder in left {
        let Some((place, entry)) = batch.entries.get(remainder.entry) else { continue };
        let line = |old: &[u8], new: &[u8]| Left {
            directory: Base64(batch.places[*place].path.clone()),
            old: Hex(old.to_vec()),
            new: Hex(new.to_vec()),
            reason: remainder.reason.clone(),
        };
        match (entry, way) {
            (Entry::Rename(group), Way::Forward) => {
                all.extend(group.members.iter().map(|m| line(&m.old, &m.new)))
            }
            (Entry::Rename(group), Way::Backward) => {
                all.extend(group.members.iter().map(|m| line(&m.new, &m.old)));
            }
            (Entry::Retarget(relink), Way::Forward) => all.push(line(&relink.name, &relink.new)),
            (Entry::Retarget(relink), Way::Backward) => all.push(line(&relink.name, &relink.old)),
        }
    }
    all
}

/// How many lines of a batch are not at the end of the way, by the directories.
fn not_there(reading: &Reading, file: &File, batch: &Batch, way: Way) -> io::Result<u64> {
    let history = History::of(reading, file)?;
    let roots = history.roots(reading)?;
    let mut count = 0;
    for (place, entry) in &batch.entries {
        let place = &batch.places[*place];
        let dir = roots.directory(&place.path, place.ino);
        let is_there = dir.is_ok_and(|dir| match entry {
            Entry::Rename(group) => {
                let end = if way == Way::Forward { group.moves() } else { 0 };
                history.up_to_date(&dir, place, group).progress(&*dir).is_ok_and(|done| done == Some(end))
            }
            Entry::Retarget(relink) => relink.is_at_end(&*dir, way).unwrap_or(false),
        });
        count += if is_there { 0 } else { entry.lines() as u64 };
    }
    Ok(count)
}
