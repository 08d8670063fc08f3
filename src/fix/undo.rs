//! Taking back what a journal says was done: in the opposite order, batch by batch, each name byte for byte.
//!
//! The journal says that a batch is taken back before that begins. What has been taken back already is told by looking, so
//! that a killed run can be repeated, and so can one that has come to its end: then only what was left is tried.

use std::collections::BTreeMap;
use std::io;

use super::carry::{Carrier, Task, lines};
use super::entry::Reason;
use super::group::Way;
use super::history::History;
use super::journal::{Batch, Entry, Journal, Moment, Place, Reading, Record, Remainder, Told};
use super::roots::Roots;
use super::watcher::Watcher;

/// What has become of an undoing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many names and targets are as they were.
    pub restored: u64,
    /// How many could not be brought back.
    pub left: u64,
    /// Whether the run was ended before it had come to its end.
    pub is_interrupted: bool,
}

/// Takes back what `journal`, of which `reading` tells, says was done. `started` is the time of today, by RFC 3339.
///
/// # Errors
/// The journal cannot be read or written; or a root is on a file system that is mounted read-only.
pub fn undo(
    journal: &mut Journal,
    reading: &Reading,
    started: String,
    watcher: &mut dyn Watcher,
) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let history = History::of(reading, journal.file())?;
    let roots = history.roots(reading)?;
    let mut carrier = Carrier { roots, history, watcher, unmarked: BTreeMap::new() };
    if reading.undo.is_none() || reading.is_restored {
        journal.push(&Record::Undo { started });
    }
    for (at, told) in reading.batches.iter().enumerate().rev() {
        if told.undone.as_ref().is_some_and(Vec::is_empty) {
            tally.restored +=
                told.lines - lines_of(&reading.batch(journal.file(), at)?, told.done.as_deref());
            continue;
        }
        let batch = reading.batch(journal.file(), at)?;
        let was_left = |left: &[Remainder], at: usize| left.iter().any(|left| left.entry == at);
        // One with a temporary name may have been left there.
        let has_via = |at: usize| matches!(&batch.entries[at].1, Entry::Rename(group) if group.via.is_some());
        let wanted = |at: usize| match (&told.undone, &told.done) {
            (Some(left), _) => was_left(left, at),
            (None, Some(left)) => !was_left(left, at) || has_via(at),
            (None, None) => true,
        };
        let times = times(reading, &carrier.roots, &batch, told);
        journal.push(&Record::Undoing { batch: batch.number, times: times.clone() });
        journal.commit(carrier.watcher)?;
        let times: Vec<_> = times.into_iter().map(|(atime, mtime)| (atime.0, mtime.0)).collect();
        let times = reading.header.keep_times.then_some(&times[..]);
        let task = Task { batch: &batch, dirs: None, way: Way::Backward, wanted: &wanted, times };
        let mut left = carrier.carry(&task);
        // What was never done, and is not where it would be if it had been, is none of our business.
        left.retain(|(at, reason)| {
            let is_ours = !told.done.as_ref().is_some_and(|left| was_left(left, *at));
            is_ours || !matches!(reason, Reason::Gone | Reason::Replaced | Reason::Group)
        });
        let mut remainders = Vec::with_capacity(left.len());
        let mut left_lines = 0;
        for (at, reason) in &left {
            let (place, entry) = &batch.entries[*at];
            for line in lines(&batch.places[*place], entry, reason, Way::Backward) {
                left_lines += 1;
                carrier.watcher.left(&line);
            }
            remainders.push(Remainder { entry: *at, reason: reason.to_string(), again: false });
        }
        tally.left += left_lines;
        tally.restored += told.lines - left_lines - lines_of(&batch, told.done.as_deref());
        journal.push(&Record::Undone { batch: batch.number, left: remainders });
        if carrier.watcher.wants_end() {
            tally.is_interrupted = at > 0;
            break;
        }
    }
    if !tally.is_interrupted {
        for top in carrier.roots.tops() {
            top.sync()?;
        }
        journal.push(&Record::Restored);
    }
    journal.commit(carrier.watcher)?;
    Ok(tally)
}

/// How many lines of the plan the entries are.
fn lines_of(batch: &Batch, left: Option<&[Remainder]>) -> u64 {
    let entries = left.into_iter().flatten().filter_map(|left| batch.entries.get(left.entry));
    entries.map(|(_, entry)| entry.lines() as u64).sum()
}

/// The times that the directories of the batch are to have; none if they are not kept. Those that they have: what is changed
/// in them now shall leave no trace. But not what a killed run has left, which is known from before it.
fn times(reading: &Reading, roots: &Roots, batch: &Batch, told: &Told) -> Vec<(Moment, Moment)> {
    let before = |place: &Place| (Moment(place.atime), Moment(place.mtime));
    let now = |place: &Place| match roots.directory(&place.path, place.ino) {
        Ok(dir) => (Moment(dir.stat.atime), Moment(dir.stat.mtime)),
        // It is not there, or not by that path yet.
        Err(_) => before(place),
    };
    match (&told.undoing, &told.done) {
        _ if !reading.header.keep_times => Vec::new(),
        (Some(times), _) if told.undone.is_none() && times.len() == batch.places.len() => times.clone(),
        (None, None) => batch.places.iter().map(before).collect(),
        _ => batch.places.iter().map(now).collect(),
    }
}
