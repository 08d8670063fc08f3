//! Applies a plan.
//!
//! Directory by directory, the deepest first, in batches: check the renames of the directory as a whole and that each entry is
//! still the one of the plan, write the intentions to the journal, flush them to the disk, execute them. The links follow when
//! all names are changed. One directory of the plan is in memory at a time.

mod links;
mod preflight;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use super::entry::{EntryFailure, InodeIdentity, free_name};
use super::execute::{BatchFailures, BatchRun, Executor, describe_remaining, is_alias};
use super::group::{Direction, GroupMember, RenameGroup};
use super::history::History;
use super::journal::{
    BatchDirectory, BatchEntry, FailedEntry, Journal, JournalBatch, JournalContents, JournalRecord,
};
use super::original_name_xattr;
use super::plan::id_set::IdSet;
use super::plan::order::order_names;
use super::plan::{EntryKind, PlanDirectory, Rename, Retarget};
use super::roots::{OpenPlanDir, PlanRoots};
use super::stored_plan::{DirectoryRenames, StoredPlan};
use crate::json::{Base64, Hex};
use crate::policy::{Confidence, Policy};
use crate::progress::{Observer, Remaining};
use crate::sys::open_files;
use crate::sys::stat::{self, Stat};

/// The limit of open directories in a batch.
const MAX_OPEN: usize = 512;

/// Descriptors for everything else: the journal, the roots, temporary files, standard streams.
const OTHER_FILES: usize = 24;

/// The number of renames that may wait for a temporary name.
const MAX_AGAIN: usize = 4096;

/// The default number of renames in a batch.
pub const BATCH_SIZE: usize = 4096;

/// How a plan is applied.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions<'p> {
    /// The policy for new names; without it only their bytes are compared.
    pub policy: Option<&'p Policy>,
    /// Leave out renames that are less certain.
    pub at_least: Confidence,
    /// Keep the times of directories.
    pub keep_times: bool,
    /// Keep the original names in an attribute.
    pub keep_original: bool,
    /// The number of renames in a batch.
    pub batch_size: usize,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyTally {
    /// Entries that this run renamed, or would rename.
    pub renamed: u64,
    /// Links that this run retargeted, or would retarget.
    pub retargeted: u64,
    /// Lines of the plan that were done before.
    pub already: u64,
    /// Lines of the plan that remain.
    pub remaining: u64,
    /// Lines of the plan that are less certain than requested.
    pub left_out: u64,
    /// The run was stopped before the end of the plan.
    pub is_interrupted: bool,
    /// How many original names could not be kept, by reason.
    pub not_kept: BTreeMap<&'static str, u64>,
}

/// Computes what applying the plan would do, without any change.
///
/// # Errors
/// A temporary file cannot be read.
pub fn rehearse(
    plan: &StoredPlan,
    roots: PlanRoots,
    options: ApplyOptions<'_>,
    observer: &dyn Observer,
) -> io::Result<ApplyTally> {
    let mut run = ApplyRun::new(plan, roots, None, options, observer);
    run.execute_plan()?;
    Ok(run.into_tally())
}

/// Applies the plan with a journal. `earlier` is what the journal says already, of a run that was killed or interrupted.
///
/// # Errors
/// The journal cannot be written, for example on a full disk. Changes that are not in the journal were not made.
pub fn apply(
    plan: &StoredPlan,
    roots: PlanRoots,
    journal: &mut Journal,
    earlier: Option<&JournalContents>,
    options: ApplyOptions<'_>,
    observer: &dyn Observer,
) -> io::Result<ApplyTally> {
    let mut run = ApplyRun::new(plan, roots, Some(journal), options, observer);
    if let Some(earlier) = earlier {
        run.resume(earlier)?;
    }
    run.execute_plan()?;
    run.finish()?;
    Ok(run.into_tally())
}

struct ApplyRun<'r> {
    plan: &'r StoredPlan,
    executor: Executor<'r>,
    /// `None` for a rehearsal.
    journal: Option<&'r mut Journal>,
    options: ApplyOptions<'r>,
    batch: JournalBatch,
    /// The open directories of the batch, and their maximum number.
    dirs: Vec<Rc<OpenPlanDir>>,
    max_open: usize,
    /// The links by directory and name.
    links: HashMap<(&'r [u8], &'r [u8]), &'r Retarget>,
    /// Renames that are tried again with a temporary name.
    again: Vec<(Arc<PlanDirectory>, GroupMember)>,
    /// The ids of finished renames.
    done: IdSet,
    /// The ids of renames that are less certain than requested.
    left_out: IdSet,
    /// Files without a birth time whose change time this plan may have set, because it renamed another name of theirs, or tried
    /// to.
    touched: HashSet<u64>,
    /// The new targets of links, by directory and name, according to the journal.
    relinked: HashMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
    tally: ApplyTally,
}

impl<'r> ApplyRun<'r> {
    fn new(
        plan: &'r StoredPlan,
        roots: PlanRoots,
        journal: Option<&'r mut Journal>,
        options: ApplyOptions<'r>,
        observer: &'r dyn Observer,
    ) -> Self {
        let links = plan.retargets.iter().map(|link| ((&*link.directory.path, &*link.name), link)).collect();
        Self {
            plan,
            links,
            executor: Executor { roots, history: History::default(), observer, not_kept: BTreeMap::new() },
            journal,
            options,
            batch: JournalBatch { number: 1, ..JournalBatch::default() },
            dirs: Vec::new(),
            max_open: open_files::limit().saturating_sub(OTHER_FILES).clamp(1, MAX_OPEN),
            again: Vec::new(),
            done: IdSet::default(),
            left_out: IdSet::default(),
            touched: HashSet::new(),
            relinked: HashMap::new(),
            tally: ApplyTally::default(),
        }
    }

    fn into_tally(self) -> ApplyTally {
        ApplyTally { not_kept: self.executor.not_kept, ..self.tally }
    }

    /// Finishes the intentions in the journal. The directories show what is done, also in finished batches: a power failure may
    /// have lost renames.
    fn resume(&mut self, earlier: &JournalContents) -> io::Result<()> {
        if let Some(journal) = &self.journal {
            self.executor.history = History::read(earlier, journal.file())?;
        }
        for (at, state) in earlier.batches.iter().enumerate() {
            let Some(journal) = &self.journal else { return Ok(()) };
            let batch = earlier.read_batch(journal.file(), at)?;
            let has_failed = |at: usize| state.done.iter().flatten().any(|failed| failed.entry == at);
            let is_rename = |at: usize| matches!(batch.entries[at], BatchEntry::Rename(_));
            let wanted = |at: usize| state.done.is_none() || is_rename(at) && !has_failed(at);
            let times: Vec<_> = batch.directories.iter().map(|dir| (dir.atime, dir.mtime)).collect();
            let times = (self.options.keep_times && state.done.is_none()).then_some(&times[..]);
            let run =
                BatchRun { batch: &batch, dirs: None, direction: Direction::Apply, wanted: &wanted, times };
            let failures = self.executor.execute(&run);
            for (at, entry) in batch.entries.iter().enumerate() {
                let remains = has_failed(at) || failures.iter().any(|(other, _)| *other == at);
                match entry {
                    BatchEntry::Rename(group) => {
                        let without_birth = group.members.iter().filter(|member| member.born.is_none());
                        self.touched.extend(without_birth.map(|member| member.inode));
                        if !remains {
                            self.tally.already += group.members.len() as u64;
                            self.record_done(group);
                        }
                    }
                    BatchEntry::Retarget(relink) if !remains => {
                        let path = batch.directories[relink.directory].path.0.clone();
                        self.relinked.insert((path, relink.name.0.clone()), relink.new_target.0.clone());
                    }
                    BatchEntry::Retarget(_) => {}
                }
            }
            if state.done.is_none() || !failures.is_empty() {
                let mut left = self.report_failures(&batch, &failures);
                left.extend(state.done.iter().flatten().cloned());
                self.push(&JournalRecord::Done { batch: batch.number, left });
            }
            self.batch.number = batch.number + 1;
        }
        Ok(())
    }

    fn push(&mut self, record: &JournalRecord) {
        if let Some(journal) = &mut self.journal {
            journal.push(record);
        }
    }

    fn record_done(&mut self, group: &RenameGroup) {
        for member in &group.members {
            self.done.insert(member.id);
        }
    }

    fn execute_plan(&mut self) -> io::Result<()> {
        let mut directories = self.plan.directories()?;
        while let Some(found) = directories.next()? {
            self.rename_directory(found)?;
            if self.tally.is_interrupted {
                return Ok(());
            }
        }
        self.flush()?;
        self.rename_again()?;
        if self.tally.is_interrupted {
            return Ok(());
        }
        self.retarget_links()?;
        self.flush()
    }

    /// Adds the renames of one directory to the batch. Conflicts are found before the first of them is executed.
    fn rename_directory(&mut self, mut found: DirectoryRenames) -> io::Result<()> {
        if self.again.len() >= MAX_AGAIN {
            self.flush()?;
            self.rename_again()?;
        }
        let PlanDirectory { path, inode, .. } = &*found.directory;
        let dir = self.executor.roots.open_directory(path, *inode);
        self.leave_out(&dir, &mut found.renames);
        let renames = &found.renames;
        let mut conflicts = match &dir {
            Ok(dir) => self.find_conflicts(dir, renames),
            Err(_) => HashMap::new(),
        };
        let names: Vec<(&[u8], &[u8])> =
            renames.iter().map(|rename| (&*rename.old, rename.new.as_bytes())).collect();
        for group in order_names(&names) {
            let conflict = group.iter().find_map(|at| conflicts.remove(at));
            let group: Vec<&Rename> = group.iter().map(|&at| &renames[at]).collect();
            self.rename_group(&found, &dir, &group, conflict)?;
            if self.tally.is_interrupted {
                break;
            }
        }
        Ok(())
    }

    /// Removes the renames that are less certain than requested. Those that an earlier run has made count as finished: a link may
    /// lead to their entries.
    fn leave_out(&mut self, dir: &Result<Rc<OpenPlanDir>, EntryFailure>, renames: &mut Vec<Rename>) {
        renames.retain(|rename| {
            let is_wanted = rename.confidence <= self.options.at_least;
            if !is_wanted && dir.as_ref().is_ok_and(|dir| self.was_renamed(dir, rename)) {
                self.record_earlier(rename);
            } else if !is_wanted {
                self.left_out.insert(rename.id);
                self.tally.left_out += 1;
            }
            is_wanted
        });
    }

    /// Records a rename that an earlier run has made.
    fn record_earlier(&mut self, rename: &Rename) {
        self.done.insert(rename.id);
        if rename.entry.kind == EntryKind::Directory {
            self.executor.roots.record_rename(rename.id);
        }
    }

    /// Adds one rename or a cycle to the batch.
    fn rename_group(
        &mut self,
        found: &DirectoryRenames,
        dir: &Result<Rc<OpenPlanDir>, EntryFailure>,
        renames: &[&Rename],
        conflict: Option<String>,
    ) -> io::Result<()> {
        if renames.iter().all(|rename| self.done.contains(rename.id)) {
            return Ok(());
        }
        let directory = &found.directory;
        let checked = match dir {
            Ok(dir) => self.check_entries(dir, renames, &found.renames).map(|group| (dir, group)),
            Err(failure) => Err(failure.clone()),
        };
        let checked = match (checked, conflict) {
            (Ok((_, Some(_))), Some(conflict)) => Err(EntryFailure::Conflict(conflict)),
            (checked, _) => checked,
        };
        match checked {
            Ok((dir, Some(group))) => {
                return self.add_entry(directory, dir.clone(), BatchEntry::Rename(group));
            }
            Ok((_, None)) => {
                self.tally.already += renames.len() as u64;
                renames.iter().for_each(|rename| self.record_earlier(rename));
            }
            Err(failure) => {
                for rename in renames {
                    self.leave(&directory.path, &rename.old, rename.new.as_bytes(), &failure);
                }
            }
        }
        Ok(())
    }

    fn group_member(&mut self, dir: &OpenPlanDir, rename: &Rename, stat: &Stat) -> GroupMember {
        let mut marked = false;
        if self.options.keep_original {
            let not_kept = match rename.entry.kind {
                EntryKind::File | EntryKind::Directory => match original_name_xattr::is_set(dir, &rename.old)
                {
                    Ok(is_set) => {
                        marked = !is_set;
                        None
                    }
                    Err(error) => Some(error.desc()),
                },
                _ => Some("neither a file nor a directory"),
            };
            not_kept.into_iter().for_each(|why| *self.executor.not_kept.entry(why).or_default() += 1);
        }
        if stat.links > 1 && stat.btime.is_none() && rename.entry.kind != EntryKind::Directory {
            self.touched.insert(stat.ino);
        }
        let InodeIdentity { ino: inode, kind, born } = InodeIdentity::from_stat(stat);
        let (old, new) = (Hex(rename.old.clone()), Hex(rename.new.clone().into_bytes()));
        let checked_owner = Some(stat.uid);
        GroupMember {
            id: rename.id,
            old,
            new,
            inode,
            kind,
            ctime: stat.ctime.into(),
            born,
            marked,
            checked_owner,
        }
    }

    /// Adds an entry to the batch, and executes a full batch.
    fn add_entry(
        &mut self,
        directory: &PlanDirectory,
        dir: Rc<OpenPlanDir>,
        mut entry: BatchEntry,
    ) -> io::Result<()> {
        if self.journal.is_none() {
            self.count(&entry);
            return Ok(());
        }
        if self.batch.directories.last().is_none_or(|last| *last.path != directory.path) {
            // The metadata from when it was opened may be older than the batch before.
            let stat = stat::at(&*dir, OsStr::new("")).unwrap_or(dir.stat);
            self.batch.directories.push(BatchDirectory {
                path: Base64(directory.path.clone()),
                inode: directory.inode,
                atime: stat.atime.into(),
                mtime: stat.mtime.into(),
            });
            self.dirs.push(dir);
        }
        let index = self.batch.directories.len() - 1;
        match &mut entry {
            BatchEntry::Rename(group) => group.directory = index,
            BatchEntry::Retarget(relink) => relink.directory = index,
        }
        self.batch.entries.push(entry);
        match self.batch.entries.len() >= self.options.batch_size || self.dirs.len() >= self.max_open {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Counts a finished entry.
    fn count(&mut self, entry: &BatchEntry) {
        match entry {
            BatchEntry::Rename(group) => {
                self.tally.renamed += group.members.len() as u64;
                self.record_done(group);
            }
            BatchEntry::Retarget(_) => self.tally.retargeted += 1,
        }
    }

    /// Writes the batch to the journal, flushes it to the disk, and executes it.
    fn flush(&mut self) -> io::Result<()> {
        let Some(journal) = self.journal.as_deref_mut().filter(|_| !self.batch.entries.is_empty()) else {
            return Ok(());
        };
        let next = JournalBatch { number: self.batch.number + 1, ..JournalBatch::default() };
        let (batch, dirs) = (std::mem::replace(&mut self.batch, next), std::mem::take(&mut self.dirs));
        journal.push_batch(&batch);
        journal.commit(self.executor.observer)?;
        let times: Vec<_> = batch.directories.iter().map(|dir| (dir.atime, dir.mtime)).collect();
        let times = self.options.keep_times.then_some(&times[..]);
        let (direction, wanted) = (Direction::Apply, &|_| true);
        let mut failures =
            self.executor.execute(&BatchRun { batch: &batch, dirs: Some(&dirs), direction, wanted, times });
        failures.sort_unstable_by_key(|(at, _)| *at);
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
                None => left.extend(self.report_failures(&batch, &vec![failed])),
            }
        }
        self.push(&JournalRecord::Done { batch: batch.number, left });
        self.tally.is_interrupted = self.executor.observer.is_stopped();
        Ok(())
    }

    /// Reports entries of a batch that failed, and returns their records.
    fn report_failures(&mut self, batch: &JournalBatch, failures: &BatchFailures) -> Vec<FailedEntry> {
        let report = |(at, failure): &(usize, EntryFailure)| {
            let (entry, reason) = (&batch.entries[*at], failure.to_string());
            let directory = &batch.directories[entry.directory()];
            for remaining in describe_remaining(directory, entry, &reason, Direction::Apply) {
                self.tally.remaining += 1;
                self.executor.observer.remains(&remaining);
            }
            FailedEntry { entry: *at, reason, again: false }
        };
        failures.iter().map(report).collect()
    }

    /// Renames through a temporary name, in directories that treat the old and the new name as equal.
    fn rename_again(&mut self) -> io::Result<()> {
        for (directory, member) in std::mem::take(&mut self.again) {
            let dir = self.executor.roots.open_directory(&directory.path, directory.inode);
            match dir.and_then(|dir| Ok((free_name(&*dir)?, dir))) {
                Ok((name, dir)) => {
                    let group =
                        RenameGroup { directory: 0, members: vec![member], temp_name: Some(Hex(name)) };
                    self.add_entry(&directory, dir, BatchEntry::Rename(group))?;
                }
                Err(failure) => self.leave(&directory.path, &member.old, &member.new, &failure),
            }
        }
        self.flush()
    }

    /// Leaves a line of the plan.
    fn leave(&mut self, directory: &[u8], old: &[u8], new: &[u8], failure: &EntryFailure) {
        let remaining = Remaining {
            directory: Base64(directory.to_vec()),
            old: Hex(old.to_vec()),
            new: Hex(new.to_vec()),
            reason: failure.to_string(),
        };
        self.tally.remaining += 1;
        self.executor.observer.remains(&remaining);
        self.push(&JournalRecord::Left(remaining));
    }

    /// Writes the end of the run. All renames are on the disk before the journal says that the plan is done.
    fn finish(&mut self) -> io::Result<()> {
        let Some(journal) = self.journal.as_deref_mut() else { return Ok(()) };
        if !self.tally.is_interrupted {
            self.executor.roots.sync()?;
            journal.push(&JournalRecord::End);
        }
        journal.commit(self.executor.observer)
    }
}
