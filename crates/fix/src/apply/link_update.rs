//! Links whose targets lead through renamed entries.

use std::io;
use std::sync::Arc;

use namegate_files::json::{Base64, Hex};

use super::commit::BatchCommitter;
use super::prepared::{PreparedBatch, PreparedIds, max_open};
use super::run::ApplyRun;
use crate::entry::{EntryFailure, free_name, random_name};
use crate::journal::BatchEntry;
use crate::plan::{Retarget, TargetPart, components};
use crate::private::remove_stale;
use crate::relink::{OpenLink, Relink};
use crate::roots::OpenPlanDir;

/// Gives the links of a plan their new targets, when all names are changed.
pub(super) struct LinkUpdate<'r> {
    run: &'r ApplyRun<'r>,
    ids: &'r PreparedIds,
    batch: PreparedBatch,
}

impl<'r> LinkUpdate<'r> {
    pub(super) fn new(run: &'r ApplyRun<'r>, ids: &'r PreparedIds) -> Self {
        Self { run, ids, batch: PreparedBatch::default() }
    }

    /// Gives all links their new targets.
    pub(super) fn retarget_links(mut self, committer: &mut BatchCommitter<'_>) -> io::Result<()> {
        let (plan, max_open) = (self.run.plan, max_open());
        if plan.retargets.is_empty() {
            return Ok(());
        }
        let mut done = committer.done.clone();
        done.add_all(&self.ids.done);
        for retarget in &plan.retargets {
            let renamed = |id: u64| {
                let name = plan.target_names.get(&id).map(Vec::as_slice);
                name.filter(|_| done.contains(id))
            };
            let link = (retarget.directory.path.clone(), retarget.name.clone());
            let own = plan.link_renames.get(&link).filter(|rename| done.contains(rename.id));
            let own = own.map(|rename| rename.new.as_bytes());
            let target = retarget.target(renamed);
            let is_left_out = |part: &TargetPart| self.ids.left_out.contains(part.rename);
            if target == retarget.old_target && retarget.after.iter().all(is_left_out) {
                self.batch.left_out += 1;
                continue;
            }
            match self.check_link(committer, retarget, own, &target) {
                Ok(Some((dir, relink))) => {
                    self.batch.add(&retarget.directory, dir, BatchEntry::Retarget(relink));
                }
                Ok(None) => self.batch.already += 1,
                Err(failure) => {
                    self.batch.leave(&retarget.directory.path, &retarget.name, &target, &failure);
                }
            }
            if self.batch.is_full(self.run.options.batch_size, max_open)
                && committer.commit(std::mem::take(&mut self.batch))?.is_break()
            {
                return Ok(());
            }
        }
        let _ = committer.commit(self.batch)?;
        Ok(())
    }

    /// Reports whether `current` is the target of the plan, possibly with the new names of some components: an earlier run may have
    /// left out the renames of the others.
    fn is_partly_retargeted(&self, retarget: &Retarget, current: &[u8]) -> bool {
        let current_names: Vec<&[u8]> = components(current).collect();
        let renamed = |id: u64| {
            let new = self.run.plan.target_names.get(&id)?.as_slice();
            let mut parts = retarget.after.iter().filter(|part| part.rename == id);
            parts.any(|part| current_names.get(part.component) == Some(&new)).then_some(new)
        };
        retarget.target(renamed) == current
    }

    /// The change that leads a link to `target`; `None` if the link leads there already. `own` is the new name of the link itself.
    fn check_link(
        &self,
        committer: &BatchCommitter<'_>,
        retarget: &Retarget,
        own: Option<&[u8]>,
        target: &[u8],
    ) -> Result<Option<(Arc<OpenPlanDir>, Relink)>, EntryFailure> {
        let (path, inode) = (&retarget.directory.path, retarget.directory.inode);
        let dir = self.run.roots.open_directory(path, inode)?;
        // A rehearsal renames nothing.
        let name = own.filter(|_| !committer.is_rehearsal()).unwrap_or(&retarget.name);
        let OpenLink { stat, target: current, .. } =
            OpenLink::open(&*dir, name)?.ok_or(EntryFailure::Gone)?;
        if target == retarget.old_target {
            return Err(EntryFailure::Dependence);
        }
        if current == target {
            return Ok(None);
        }
        // The target identifies a link: an undo makes a new one.
        let is_relinked = committer.relinked.get(&(path.clone(), name.to_vec())) == Some(&current);
        if !is_relinked && !self.is_partly_retargeted(retarget, &current) {
            return Err(EntryFailure::Changed);
        }
        // The links of a directory in a batch share a private directory.
        let last = self.batch.directories.last().filter(|last| *last.path == *path);
        let private_dir = match (last, self.batch.entries.last()) {
            (Some(_), Some(BatchEntry::Retarget(Relink { private_dir: name, .. }))) => name.clone(),
            _ => {
                if !committer.is_rehearsal() {
                    remove_stale(&*dir);
                }
                Hex(free_name(&*dir)?)
            }
        };
        let relink = Relink {
            directory: 0,
            name: Hex(name.to_vec()),
            temp_name: Hex(random_name()),
            private_dir,
            old_target: Base64(current),
            new_target: Base64(target.to_vec()),
            inode: stat.ino,
            atime: stat.atime.into(),
            mtime: stat.mtime.into(),
            uid: stat.uid,
            gid: stat.gid,
        };
        Ok(Some((dir, relink)))
    }
}
