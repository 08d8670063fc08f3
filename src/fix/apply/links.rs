//! Links whose targets lead through renamed entries.

use std::io;
use std::rc::Rc;

use super::ApplyRun;
use crate::fix::entry::{EntryFailure, free_name, random_name};
use crate::fix::journal::BatchEntry;
use crate::fix::plan::{Retarget, TargetPart, components};
use crate::fix::relink::{OpenLink, Relink};
use crate::fix::roots::OpenPlanDir;
use crate::json::{Base64, Hex};

impl ApplyRun<'_> {
    /// Gives all links of the plan their new targets.
    pub(super) fn retarget_links(&mut self) -> io::Result<()> {
        let plan = self.plan;
        if plan.retargets.is_empty() {
            return Ok(());
        }
        for retarget in &plan.retargets {
            let renamed = |id: u64| {
                let name = plan.target_names.get(&id).map(Vec::as_slice);
                name.filter(|_| self.done.contains(id))
            };
            let link = (retarget.directory.path.clone(), retarget.name.clone());
            let own = plan.link_renames.get(&link).filter(|rename| self.done.contains(rename.id));
            let own = own.map(|rename| rename.new.as_bytes());
            let target = retarget.target(renamed);
            let is_left_out = |part: &TargetPart| self.left_out.contains(part.rename);
            if target == retarget.old_target && retarget.after.iter().all(is_left_out) {
                self.tally.left_out += 1;
                continue;
            }
            match self.check_link(retarget, own, &target) {
                Ok(Some((dir, relink))) => {
                    self.add_entry(&retarget.directory, dir, BatchEntry::Retarget(relink))?;
                }
                Ok(None) => self.tally.already += 1,
                Err(failure) => self.leave(&retarget.directory.path, &retarget.name, &target, &failure),
            }
            if self.tally.is_interrupted {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reports whether `current` is the target of the plan, possibly with the new names of some components: an earlier run may have
    /// left out the renames of the others.
    fn is_partly_retargeted(&self, retarget: &Retarget, current: &[u8]) -> bool {
        let current_names: Vec<&[u8]> = components(current).collect();
        let renamed = |id: u64| {
            let new = self.plan.target_names.get(&id)?.as_slice();
            let mut parts = retarget.after.iter().filter(|part| part.rename == id);
            parts.any(|part| current_names.get(part.component) == Some(&new)).then_some(new)
        };
        retarget.target(renamed) == current
    }

    /// The change that leads a link to `target`; `None` if the link leads there already. `own` is the new name of the link itself.
    fn check_link(
        &self,
        retarget: &Retarget,
        own: Option<&[u8]>,
        target: &[u8],
    ) -> Result<Option<(Rc<OpenPlanDir>, Relink)>, EntryFailure> {
        let (path, inode) = (&retarget.directory.path, retarget.directory.inode);
        let dir = self.executor.roots.open_directory(path, inode)?;
        // A rehearsal renames nothing.
        let name = own.filter(|_| self.journal.is_some()).unwrap_or(&retarget.name);
        let OpenLink { stat, target: current, .. } =
            OpenLink::open(&*dir, name)?.ok_or(EntryFailure::Gone)?;
        if target == retarget.old_target {
            return Err(EntryFailure::Dependence);
        }
        if current == target {
            return Ok(None);
        }
        // The target identifies a link: an undo makes a new one.
        let is_relinked = self.relinked.get(&(path.clone(), name.to_vec())) == Some(&current);
        if !is_relinked && !self.is_partly_retargeted(retarget, &current) {
            return Err(EntryFailure::Changed);
        }
        // The links of a directory in a batch share a private directory.
        let last = self.batch.directories.last().filter(|last| *last.path == *path);
        let private_dir = match (last, self.batch.entries.last()) {
            (Some(_), Some(BatchEntry::Retarget(Relink { private_dir: Some(name), .. }))) => name.clone(),
            _ => Hex(free_name(&*dir)?),
        };
        let relink = Relink {
            directory: 0,
            name: Hex(name.to_vec()),
            temp_name: Hex(random_name()),
            private_dir: Some(private_dir),
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
