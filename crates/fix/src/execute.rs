//! Executes a batch of the journal, in either direction.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use namegate_core::name::display::display;
use namegate_files::json::{Base64, Hex};
use namegate_sys::process::processors;
use nix::errno::Errno;
use nix::sys::stat::{UtimensatFlags, utimensat};

use super::entry::{EntryFailure, look_up};
use super::group::{Direction, GroupMember, RenameGroup};
use super::history::History;
use super::journal::{BatchDirectory, BatchEntry, FailedEntry, JournalBatch};
use super::listing::listed;
use super::moving::Move;
use super::original_name_xattr;
use super::plan::{FileKind, InodeTime};
use super::private::CurrentPrivateDir;
use super::relink::time_spec;
use super::roots::{OpenPlanDir, PlanRoots};
use crate::progress::{ChangeObserver, KillPoint, Remaining};

/// Executes batches.
pub struct Executor<'r> {
    pub roots: Arc<PlanRoots>,
    /// The changes of earlier runs.
    pub history: History,
    pub observer: &'r dyn ChangeObserver,
    /// How many original names could not be kept, by reason.
    pub not_kept: BTreeMap<&'static str, u64>,
}

/// A batch and the entries of it to execute.
pub struct BatchRun<'b> {
    pub batch: &'b JournalBatch,
    /// The open directories of a new batch. `None` for a batch of an earlier run: its directories are opened when their turn comes,
    /// and the state of its entries is unknown.
    pub dirs: Option<&'b [Arc<OpenPlanDir>]>,
    pub direction: Direction,
    /// Selects entries by their index.
    pub wanted: &'b (dyn Fn(usize) -> bool + Sync),
    /// The access and modification times that the directories get after their entries.
    pub times: Option<&'b [(InodeTime, InodeTime)]>,
}

/// The entries of a batch that failed, by index.
pub type BatchFailures = Vec<(usize, EntryFailure)>;

/// The fewest entries of a batch for which another thread is started.
const ENTRIES_OF_A_THREAD: usize = 1024;

/// More threads than this would wait for the file system.
const MAX_THREADS: usize = 4;

/// What was found while entries were executed.
#[derive(Default)]
struct Outcome {
    failures: BatchFailures,
    not_kept: BTreeMap<&'static str, u64>,
}

impl Executor<'_> {
    /// Executes a batch, and returns the failures in the order of execution. Its directories are shared among several threads, unless
    /// it renames directories or changes links: these lead to other entries of the batch.
    pub fn execute(&mut self, run: &BatchRun<'_>) -> BatchFailures {
        let entries = &run.batch.entries;
        let mut indexes: Vec<usize> = (0..entries.len()).filter(|&at| (run.wanted)(at)).collect();
        if run.direction == Direction::Undo {
            indexes.reverse();
        }
        let directories: Vec<&[usize]> =
            indexes.chunk_by(|&a, &b| entries[a].directory() == entries[b].directory()).collect();
        let threads = match entries.iter().any(BatchEntry::changes_paths) {
            true => 1,
            false => (indexes.len() / ENTRIES_OF_A_THREAD).min(directories.len()).clamp(1, MAX_THREADS),
        };
        let (next, executor) = (AtomicUsize::new(0), &*self);
        let execute = || {
            let mut outcome = Outcome::default();
            while let Some(indexes) = directories.get(next.fetch_add(1, Relaxed)) {
                executor.execute_directory(indexes, run, &mut outcome);
            }
            outcome
        };
        let outcomes = thread::scope(|scope| {
            let start = || thread::Builder::new().spawn_scoped(scope, execute).ok();
            // Without another thread, this one does all the work.
            let others: Vec<_> = (1..threads.min(processors())).map_while(|_| start()).collect();
            let mut outcomes = vec![execute()];
            outcomes.extend(
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))),
            );
            outcomes
        });
        let mut failures = BatchFailures::new();
        for outcome in outcomes {
            failures.extend(outcome.failures);
            outcome.not_kept.iter().for_each(|(why, count)| *self.not_kept.entry(why).or_default() += count);
        }
        failures.sort_by_key(|(at, _)| *at);
        if run.direction == Direction::Undo {
            failures.reverse();
        }
        failures
    }

    /// Reports entries of a batch that failed. Returns their records, and the number of their lines in the plan.
    pub(crate) fn report_failures(
        &self,
        batch: &JournalBatch,
        failures: BatchFailures,
        direction: Direction,
    ) -> (Vec<FailedEntry>, u64) {
        let mut lines = 0;
        let report = |(at, failure): (usize, EntryFailure)| {
            let (entry, reason) = (&batch.entries[at], failure.to_string());
            for remaining in
                describe_remaining(&batch.directories[entry.directory()], entry, &reason, direction)
            {
                lines += 1;
                self.observer.remains(&remaining);
            }
            FailedEntry { entry: at, reason, again: false }
        };
        (failures.into_iter().map(report).collect(), lines)
    }

    /// Executes entries of one directory.
    fn execute_directory(&self, indexes: &[usize], run: &BatchRun<'_>, outcome: &mut Outcome) {
        let entries = &run.batch.entries;
        let number = entries[indexes[0]].directory();
        let directory = &run.batch.directories[number];
        let opened = match run.dirs {
            Some(dirs) => Ok(dirs[number].clone()),
            None => self.roots.open_directory(&directory.path, directory.inode),
        };
        let dir = match opened {
            Ok(dir) => dir,
            Err(failure) => {
                outcome.failures.extend(indexes.iter().map(|&at| (at, failure.clone())));
                return;
            }
        };
        let mut private = CurrentPrivateDir::default();
        let observer = self.observer;
        let changed = &mut || observer.reached(KillPoint::Changed);
        for &at in indexes {
            let result = match &entries[at] {
                BatchEntry::Retarget(relink) => relink.execute(&*dir, run.direction, &mut private, changed),
                BatchEntry::Rename(group) => self.rename_group(&dir, directory, group, run, outcome),
                BatchEntry::Move(moved) => move_file(&dir, moved, run.direction, outcome, changed),
            };
            match result {
                Ok(()) => (0..entries[at].lines()).for_each(|_| observer.finished()),
                Err(failure) => outcome.failures.push((at, failure)),
            }
        }
        private.remove(&*dir, changed);
        if let Some((atime, mtime)) = run.times.and_then(|times| times.get(number)) {
            let (atime, mtime) = (time_spec(*atime), time_spec(*mtime));
            // The name `.` works with `O_PATH` descriptors on every kernel. Only the owner may set times.
            if let Err(error) = utimensat(&*dir, ".", &atime, &mtime, UtimensatFlags::NoFollowSymlink) {
                let path = display(&directory.path);
                observer.problem(&format_args!("cannot restore the times of '{path}': {}", error.desc()));
            }
        }
    }

    fn rename_group(
        &self,
        dir: &OpenPlanDir,
        directory: &BatchDirectory,
        group: &RenameGroup,
        run: &BatchRun<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), EntryFailure> {
        let (group, progress) = match run.dirs {
            Some(_) => (Cow::Borrowed(group), group.not_begun()),
            None => {
                let group = self.history.with_current_links(dir, directory, group);
                let progress =
                    group.progress(dir)?.ok_or_else(|| find_failure(dir, &group, run.direction))?;
                (group, progress)
            }
        };
        if run.direction == Direction::Apply && progress.done == 0 {
            keep_original_names(dir, &group.members, outcome);
        }
        let observer = self.observer;
        let changed = &mut || observer.reached(KillPoint::Changed);
        let result = group.execute(dir, run.direction, progress, changed);
        let has_new_names = result.is_ok() == (run.direction == Direction::Apply);
        for member in &group.members {
            if member.kind == FileKind::Directory {
                match has_new_names {
                    true => self.roots.record_rename(member.id),
                    false => self.roots.forget_rename(member.id),
                }
            }
            if member.marked && !has_new_names {
                // The entry may be gone, or its file system may have lost the attribute.
                let _ = original_name_xattr::remove(dir, member);
            }
        }
        result
    }
}

fn move_file(
    dir: &OpenPlanDir,
    moved: &Move,
    direction: Direction,
    outcome: &mut Outcome,
    changed: &mut dyn FnMut(),
) -> Result<(), EntryFailure> {
    let member = &moved.member;
    if direction == Direction::Apply && look_up(dir, &member.old)?.is_some() {
        keep_original_names(dir, std::slice::from_ref(member), outcome);
    }
    let result = moved.execute(dir.as_fd(), direction, changed);
    if member.marked && result.is_ok() == (direction == Direction::Undo) {
        // The entry may be gone, or its file system may have lost the attribute.
        let _ = original_name_xattr::remove(dir, member);
    }
    result
}

fn keep_original_names(dir: &OpenPlanDir, members: &[GroupMember], outcome: &mut Outcome) {
    for member in members.iter().filter(|member| member.marked) {
        // An entry that was replaced is reported when its rename fails.
        if let Err(error) = original_name_xattr::set(dir, member)
            && error != Errno::ESTALE
        {
            *outcome.not_kept.entry(error.desc()).or_default() += 1;
        }
    }
}

/// Why the entries of a group are not where they should be.
fn find_failure(dir: &OpenPlanDir, group: &RenameGroup, direction: Direction) -> EntryFailure {
    for member in &group.members {
        let name = if direction == Direction::Apply { &member.old } else { &member.new };
        match look_up(dir, name) {
            Ok(Some(stat)) if member.identity().matches(&stat) => {}
            Ok(Some(_)) => return EntryFailure::Replaced,
            Ok(None) => return EntryFailure::Gone,
            Err(error) => return error.into(),
        }
    }
    EntryFailure::Group
}

/// Reports whether `dir` treats the old and the new name of a single entry as equal: it finds the entry by the new name and does
/// not list that name.
pub(crate) fn is_alias(dir: impl AsFd + Copy, group: &RenameGroup) -> bool {
    let [member] = &group.members[..] else { return false };
    let is_same = || -> Result<bool, Errno> {
        let found = look_up(dir, &member.new)?.is_some_and(|stat| member.identity().matches(&stat));
        Ok(found && listed(dir, &[&member.new])?.is_empty())
    };
    group.temp_name.is_none() && is_same().unwrap_or(false)
}

/// The changes of `entry` that were not made, for the user: the current name, and the name or target that it should have.
pub fn describe_remaining(
    directory: &BatchDirectory,
    entry: &BatchEntry,
    reason: &str,
    direction: Direction,
) -> Vec<Remaining> {
    let remaining = |old: &[u8], new: &[u8]| Remaining {
        directory: Base64(directory.path.to_vec()),
        old: Hex(old.to_vec()),
        new: Hex(new.to_vec()),
        reason: reason.to_owned(),
    };
    match (entry, direction) {
        (BatchEntry::Retarget(relink), Direction::Apply) => vec![remaining(&relink.name, &relink.new_target)],
        (BatchEntry::Retarget(relink), Direction::Undo) => vec![remaining(&relink.name, &relink.old_target)],
        (_, Direction::Apply) => entry.names().iter().map(|(old, new)| remaining(old, new)).collect(),
        (_, Direction::Undo) => entry.names().iter().map(|(old, new)| remaining(new, old)).collect(),
    }
}
