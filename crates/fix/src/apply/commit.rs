//! Commits prepared batches: writes each to the journal, flushes it to the disk, and executes it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use namegate_files::json::Hex;

use super::prepared::{PreparedBatch, max_open};
use super::run::{ApplyOptions, ApplyTally};
use crate::entry::{EntryFailure, free_name};
use crate::execute::{BatchFailures, BatchRun, Executor, is_alias};
use crate::group::{Direction, GroupMember, RenameGroup};
use crate::history::History;
use crate::journal::{
    BatchEntry, FailedEntry, Journal, JournalBatch, JournalContents, JournalRecord, RenderedRecords,
};
use crate::plan::PlanDirectory;
use crate::plan::id_set::IdSet;
use crate::progress::ChangeObserver;
use crate::roots::{OpenPlanDir, PlanRoots};

/// The number of renames that may wait for a temporary name.
const MAX_AGAIN: usize = 4096;

pub(super) struct BatchCommitter<'r> {
    pub(super) executor: Executor<'r>,
    /// `None` for a rehearsal.
    journal: Option<&'r mut Journal>,
    options: ApplyOptions<'r>,
    /// The number of the next batch.
    number: u64,
    /// Renames that are tried again with a temporary name.
    again: Vec<(Arc<PlanDirectory>, GroupMember)>,
    /// The ids of finished renames.
    pub(super) done: IdSet,
    /// Files without a birth time whose change time an earlier run of the plan may have set.
    pub(super) touched: HashSet<u64>,
    /// The new targets of links, by directory and name, according to the journal.
    pub(super) relinked: HashMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
    tally: ApplyTally,
}

impl<'r> BatchCommitter<'r> {
    /// Commits to `journal`; without one, the batches are only counted.
    pub(super) fn new(
        roots: &Arc<PlanRoots>,
        journal: Option<&'r mut Journal>,
        options: ApplyOptions<'r>,
        observer: &'r dyn ChangeObserver,
    ) -> Self {
        let (roots, history) = (Arc::clone(roots), History::default());
        Self {
            executor: Executor { roots, history, observer, not_kept: Default::default() },
            journal,
            options,
            number: 1,
            again: Vec::new(),
            done: IdSet::default(),
            touched: HashSet::new(),
            relinked: HashMap::new(),
            tally: ApplyTally::default(),
        }
    }

    /// Reports whether nothing is changed.
    pub(super) const fn is_rehearsal(&self) -> bool {
        self.journal.is_none()
    }

    /// Reports whether the run was stopped.
    pub(super) const fn is_interrupted(&self) -> bool {
        self.tally.is_interrupted
    }

    /// Finishes the intentions in the journal. The directories show what is done, also in finished batches: a power failure may
    /// have lost renames.
    pub(super) fn resume(&mut self, earlier: &JournalContents) -> io::Result<()> {
        if let Some(journal) = &self.journal {
            self.executor.history = History::read(earlier, journal.file())?;
        }
        for (at, state) in earlier.batches.iter().enumerate() {
            let Some(journal) = &self.journal else { return Ok(()) };
            let batch = earlier.read_batch(journal.file(), at)?;
            let is_rename = |at: usize| !matches!(batch.entries[at], BatchEntry::Retarget(_));
            let wanted = |at: usize| state.done.is_none() || is_rename(at) && !state.has_failed(at);
            let times: Vec<_> = batch.directories.iter().map(|dir| (dir.atime, dir.mtime)).collect();
            let times = (self.options.keep_times && state.done.is_none()).then_some(&times[..]);
            let run =
                BatchRun { batch: &batch, dirs: None, direction: Direction::Apply, wanted: &wanted, times };
            let failures = self.executor.execute(&run);
            for (at, entry) in batch.entries.iter().enumerate() {
                let without_birth = entry.members().iter().filter(|member| member.born.is_none());
                self.touched.extend(without_birth.map(|member| member.inode));
                if state.has_failed(at) || failures.iter().any(|(other, _)| *other == at) {
                    continue;
                }
                self.tally.already += entry.members().len() as u64;
                self.record_done(entry);
                if let BatchEntry::Retarget(relink) = entry {
                    let path = batch.directories[relink.directory].path.0.clone();
                    self.relinked.insert((path, relink.name.0.clone()), relink.new_target.0.clone());
                }
            }
            if state.done.is_none() || !failures.is_empty() {
                let mut left = self.report_failures(&batch, failures);
                left.extend(state.done.iter().flatten().cloned());
                self.push(&JournalRecord::Done { batch: batch.number, left });
            }
            self.number = batch.number + 1;
        }
        Ok(())
    }

    fn push(&mut self, record: &JournalRecord<'_>) {
        if let Some(journal) = &mut self.journal {
            journal.push(record);
        }
    }

    fn record_done(&mut self, entry: &BatchEntry) {
        for member in entry.members() {
            self.done.insert(member.id);
        }
    }

    /// Counts a finished entry.
    fn count(&mut self, entry: &BatchEntry) {
        match entry {
            BatchEntry::Retarget(_) => self.tally.retargeted += 1,
            BatchEntry::Rename(_) | BatchEntry::Move(_) => self.tally.renamed += entry.lines() as u64,
        }
        self.record_done(entry);
    }

    /// Commits a batch; breaks if the run was stopped.
    pub(super) fn commit(&mut self, prepared: PreparedBatch) -> io::Result<ControlFlow<()>> {
        let PreparedBatch { directories, dirs, entries, rendered, left, already, left_out, not_kept } =
            prepared;
        self.tally.already += already;
        self.tally.left_out += left_out;
        for (why, count) in not_kept {
            *self.executor.not_kept.entry(why).or_default() += count;
        }
        for remaining in left {
            self.tally.remaining += 1;
            self.executor.observer.remains(&remaining);
            self.push(&JournalRecord::Left(remaining));
        }
        if !entries.is_empty() {
            let batch = JournalBatch { number: self.number, directories, entries };
            match self.journal.is_some() {
                true => {
                    let render = || JournalBatch::render(&batch.directories, &batch.entries);
                    self.execute(&batch, &rendered.unwrap_or_else(render), &dirs)?;
                }
                false => batch.entries.iter().for_each(|entry| self.count(entry)),
            }
        }
        drop(dirs);
        if self.again.len() >= MAX_AGAIN && !self.is_interrupted() {
            self.rename_again()?;
        }
        Ok(if self.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Writes the batch to the journal, flushes it to the disk, and executes it.
    fn execute(
        &mut self,
        batch: &JournalBatch,
        rendered: &RenderedRecords,
        dirs: &[Arc<OpenPlanDir>],
    ) -> io::Result<()> {
        let Some(journal) = self.journal.as_deref_mut() else { return Ok(()) };
        self.number += 1;
        journal.push_batch(batch, rendered);
        journal.commit(self.executor.observer)?;
        let times: Vec<_> = batch.directories.iter().map(|dir| (dir.atime, dir.mtime)).collect();
        let times = self.options.keep_times.then_some(&times[..]);
        let (direction, wanted) = (Direction::Apply, &|_| true);
        let failures = self.executor.execute(&BatchRun { batch, dirs: Some(dirs), direction, wanted, times });
        let mut rest = failures.iter().peekable();
        for (at, entry) in batch.entries.iter().enumerate() {
            if rest.next_if(|(failed, _)| *failed == at).is_none() {
                self.count(entry);
            }
        }
        // A directory that treats both names as equal needs a temporary name in between.
        let needs_temp_name = |(at, failure): &(usize, EntryFailure)| match &batch.entries[*at] {
            BatchEntry::Rename(group) if *failure == EntryFailure::Taken => {
                is_alias(&*dirs[group.directory], group).then(|| (group.directory, group.members[0].clone()))
            }
            _ => None,
        };
        let mut left = Vec::with_capacity(failures.len());
        for failed in failures {
            match needs_temp_name(&failed) {
                Some((at, member)) => {
                    let directory = &batch.directories[at];
                    let (path, inode) = (directory.path.0.clone(), directory.inode);
                    self.again.push((Arc::new(PlanDirectory { path, inode, handle: None }), member));
                    left.push(FailedEntry { entry: failed.0, reason: failed.1.to_string(), again: true });
                }
                None => left.extend(self.report_failures(batch, vec![failed])),
            }
        }
        self.push(&JournalRecord::Done { batch: batch.number, left });
        self.tally.is_interrupted = self.executor.observer.is_stopped();
        Ok(())
    }

    /// Reports entries of a batch that failed, and returns their records.
    fn report_failures(&mut self, batch: &JournalBatch, failures: BatchFailures) -> Vec<FailedEntry> {
        let (left, lines) = self.executor.report_failures(batch, failures, Direction::Apply);
        self.tally.remaining += lines;
        left
    }

    /// Renames through a temporary name, in directories that treat the old and the new name as equal.
    pub(super) fn rename_again(&mut self) -> io::Result<()> {
        let (mut batch, max_open) = (PreparedBatch::default(), max_open());
        for (directory, member) in std::mem::take(&mut self.again) {
            if self.is_interrupted() {
                return Ok(());
            }
            let dir = self.executor.roots.open_directory(&directory.path, directory.inode);
            match dir.and_then(|dir| Ok((free_name(&*dir)?, dir))) {
                Ok((name, dir)) => {
                    let group =
                        RenameGroup { directory: 0, members: vec![member], temp_name: Some(Hex(name)) };
                    batch.add(&directory, dir, BatchEntry::Rename(group));
                }
                Err(failure) => batch.leave(&directory.path, &member.old, &member.new, &failure),
            }
            if batch.is_full(self.options.batch_size, max_open) {
                let _ = self.commit(std::mem::take(&mut batch))?;
            }
        }
        let _ = self.commit(batch)?;
        Ok(())
    }

    /// Writes the end of the run. All renames are on the disk before the journal says that the plan is done.
    pub(super) fn finish(mut self) -> io::Result<ApplyTally> {
        if let Some(journal) = self.journal.as_deref_mut() {
            if !self.tally.is_interrupted {
                self.executor.roots.sync()?;
                journal.push(&JournalRecord::End);
            }
            journal.commit(self.executor.observer)?;
        }
        Ok(ApplyTally { not_kept: self.executor.not_kept, ..self.tally })
    }
}
