//! Prepares batches: compares the plan with the directories. This changes nothing, so it can be done while the batch before is
//! executed: the entries of a directory come before the directory itself, so no rename changes a path that is still to be opened.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use namegate_files::json::Hex;
use namegate_sys::stat::Stat;

use super::commit::BatchCommitter;
use super::prepared::{BatchSink, PreparedBatch, PreparedIds, max_open};
use super::run::ApplyRun;
use super::suspects::SuspectRenames;
use crate::entry::{EntryFailure, InodeIdentity, is_temporary};
use crate::group::GroupMember;
use crate::journal::JournalBatch;
use crate::listing::for_each_name;
use crate::original_name_xattr;
use crate::plan::check::check_new_name;
use crate::plan::id_set::IdSet;
use crate::plan::order::order_names;
use crate::plan::{FileKind, PlanDirectory, Rename};
use crate::private::remove_stale_one;
use crate::roots::OpenPlanDir;
use crate::stored_plan::DirectoryRenames;

/// The number of renames in the first batch.
const FIRST_BATCH: usize = 2048;

/// How much larger the next batch is: a rename takes about four times as long as its preparation.
const GROWTH: usize = 4;

/// Prepares the batches of a plan.
pub(super) struct BatchPreparer<'r> {
    pub(super) run: &'r ApplyRun<'r>,
    max_open: usize,
    /// The number of renames in the next batch.
    batch_size: usize,
    /// Batches are written to a journal.
    is_recorded: bool,
    batch: PreparedBatch,
    ids: PreparedIds,
    /// Files without a birth time whose change time this plan may have set, because it renamed another name of theirs, or tried
    /// to.
    pub(super) touched: HashSet<u64>,
    /// The names of directories that files move into, and that other renames of this directory change.
    pub(super) unsettled: HashSet<Vec<u8>>,
}

impl<'r> BatchPreparer<'r> {
    /// Prepares the plan of `run`, as far as `committer` has not done it in an earlier run.
    pub(super) fn new(run: &'r ApplyRun<'r>, committer: &BatchCommitter<'_>) -> Self {
        Self {
            run,
            max_open: max_open(),
            batch_size: run.options.batch_size.min(FIRST_BATCH),
            is_recorded: !committer.is_rehearsal(),
            batch: PreparedBatch::default(),
            ids: PreparedIds { done: committer.done.clone(), left_out: IdSet::default() },
            touched: committer.touched.clone(),
            unsettled: HashSet::new(),
        }
    }

    /// Gives all batches of the plan to `sink`. The first ones are small: nothing is renamed while the first is prepared.
    pub(super) fn prepare_plan(mut self, sink: &mut BatchSink<'_>) -> io::Result<PreparedIds> {
        let mut directories = self.run.plan.directories()?;
        while let Some(found) = directories.next()? {
            if self.prepare_directory(&found, sink)?.is_break() {
                return Ok(self.ids);
            }
        }
        let _ = self.pass_on(sink)?;
        Ok(self.ids)
    }

    /// Passes the batch on, with its records for the journal: the thread that commits it has more to do.
    fn pass_on(&mut self, sink: &mut BatchSink<'_>) -> io::Result<ControlFlow<()>> {
        let mut batch = std::mem::take(&mut self.batch);
        self.batch_size = self.run.options.batch_size.min(self.batch_size * GROWTH);
        batch.rendered = self.is_recorded.then(|| JournalBatch::render(&batch.directories, &batch.entries));
        sink(batch)
    }

    /// Reports whether a rename was made by an earlier run.
    pub(super) fn is_done_before(&self, rename: &Rename) -> bool {
        self.ids.done.contains(rename.id)
    }

    /// Prepares the renames of one directory. Conflicts are found before the first of them is executed.
    fn prepare_directory(
        &mut self,
        found: &DirectoryRenames<'_>,
        sink: &mut BatchSink<'_>,
    ) -> io::Result<ControlFlow<()>> {
        let PlanDirectory { path, inode, .. } = &*found.directory;
        let dir = self.run.roots.open_directory(path, *inode);
        self.find_moves(&dir, found)?;
        let mut suspects = self.find_suspects(&dir, found)?;
        let renames = std::mem::take(&mut suspects.renames);
        let mut conflicts = std::mem::take(&mut suspects.conflicts);
        let names: Vec<(&[u8], &[u8])> =
            renames.iter().map(|rename| (&*rename.old, rename.new.as_bytes())).collect();
        for group in order_names(&names) {
            let conflict = group.iter().find_map(|&at| conflicts[at].take());
            let group: Vec<&Rename> = group.iter().map(|&at| &renames[at]).collect();
            self.prepare_group(&found.directory, &dir, &group, &renames, conflict);
            if self.pass_on_full(sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        found.each(&mut |rename| {
            if rename.confidence > self.run.options.at_least {
                self.leave_out(&dir, rename);
            } else if !suspects.has(rename) {
                let conflict = check_new_name(self.run.options.policy, rename);
                let only = std::slice::from_ref(rename);
                self.prepare_group(&found.directory, &dir, &[rename], only, conflict);
            }
            self.pass_on_full(sink)
        })
    }

    /// Finds the renames that may depend on others, and their conflicts.
    fn find_suspects(
        &self,
        dir: &Result<Arc<OpenPlanDir>, EntryFailure>,
        found: &DirectoryRenames<'_>,
    ) -> io::Result<SuspectRenames<'r>> {
        let Ok(dir) = dir else { return Ok(SuspectRenames::default()) };
        let left = RefCell::new(Vec::new());
        let names = |take: &mut dyn FnMut(&[u8])| {
            let listed = for_each_name(&**dir, &mut |name| {
                if is_temporary(name) {
                    left.borrow_mut().push(name.to_vec());
                }
                take(name);
            });
            listed.is_ok()
        };
        let renames = |take: &mut dyn FnMut(&Rename)| {
            let to_do = |rename: &Rename| {
                rename.confidence <= self.run.options.at_least && !self.is_done_before(rename)
            };
            let given = found.each(&mut |rename| {
                if to_do(rename) {
                    take(rename);
                }
                Ok(ControlFlow::Continue(()))
            });
            given.map(drop)
        };
        let suspects = SuspectRenames::find(self.run.options.policy, &names, &renames);
        // Of a killed run. A rehearsal removes nothing.
        left.borrow().iter().filter(|_| self.is_recorded).for_each(|name| remove_stale_one(&**dir, name));
        suspects
    }

    /// Passes the batch on if it is full.
    fn pass_on_full(&mut self, sink: &mut BatchSink<'_>) -> io::Result<ControlFlow<()>> {
        match self.batch.is_full(self.batch_size, self.max_open) {
            true => self.pass_on(sink),
            false => Ok(ControlFlow::Continue(())),
        }
    }

    /// Leaves out a rename that is less certain than requested. One that an earlier run has made counts as finished: a link may lead
    /// to its entry.
    fn leave_out(&mut self, dir: &Result<Arc<OpenPlanDir>, EntryFailure>, rename: &Rename) {
        if dir.as_ref().is_ok_and(|dir| self.was_renamed(dir, rename)) {
            self.record_earlier(rename);
        } else {
            self.ids.left_out.insert(rename.id);
            self.batch.left_out += 1;
        }
    }

    /// Records a rename that an earlier run has made.
    fn record_earlier(&mut self, rename: &Rename) {
        self.ids.done.insert(rename.id);
        if rename.entry.kind == FileKind::Directory {
            self.run.roots.record_rename(rename.id);
        }
    }

    /// Adds one rename or a cycle to the batch. `all` are the renames that may depend on it.
    fn prepare_group(
        &mut self,
        directory: &PlanDirectory,
        dir: &Result<Arc<OpenPlanDir>, EntryFailure>,
        renames: &[&Rename],
        all: &[Rename],
        conflict: Option<String>,
    ) {
        if renames.iter().all(|rename| self.is_done_before(rename)) {
            return;
        }
        let checked = match dir {
            Ok(dir) => {
                let checked = self.check_entries(dir, renames, all).map(|group| (dir, group));
                checked.and_then(|(dir, group)| match group {
                    Some(group) => Ok((dir, Some(self.entry_for(dir, renames, group)?))),
                    None => Ok((dir, None)),
                })
            }
            Err(failure) => Err(failure.clone()),
        };
        let checked = match (checked, conflict) {
            (Ok((_, Some(_))), Some(conflict)) => Err(EntryFailure::Conflict(conflict)),
            (checked, _) => checked,
        };
        match checked {
            Ok((dir, Some(entry))) => {
                self.batch.add(directory, Arc::clone(dir), entry);
            }
            Ok((_, None)) => {
                self.batch.already += renames.len() as u64;
                renames.iter().for_each(|rename| self.record_earlier(rename));
            }
            Err(failure) => {
                for rename in renames {
                    self.batch.leave(&directory.path, &rename.old, rename.new.as_bytes(), &failure);
                }
            }
        }
    }

    pub(super) fn group_member(&mut self, dir: &OpenPlanDir, rename: &Rename, stat: &Stat) -> GroupMember {
        let mut marked = false;
        if self.run.options.keep_original {
            let not_kept = match rename.entry.kind {
                FileKind::File | FileKind::Directory => match original_name_xattr::is_set(dir, &rename.old) {
                    Ok(is_set) => {
                        marked = !is_set;
                        None
                    }
                    Err(error) => Some(error.desc()),
                },
                _ => Some("neither a file nor a directory"),
            };
            not_kept.into_iter().for_each(|why| *self.batch.not_kept.entry(why).or_default() += 1);
        }
        if stat.links > 1 && stat.btime.is_none() && rename.entry.kind != FileKind::Directory {
            self.touched.insert(stat.ino);
        }
        let InodeIdentity { ino: inode, kind, born } = InodeIdentity::from_stat(stat);
        let (old, new) = (Hex(rename.old.clone()), Hex(rename.new.clone().into_bytes()));
        let checked_owner = Some(stat.uid);
        GroupMember { id: rename.id, old, new, inode, kind, born, marked, checked_owner }
    }
}
