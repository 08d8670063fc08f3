//! Links whose targets lead through renamed entries.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use super::ApplyRun;
use crate::fix::entry::{EntryFailure, free_name, random_name};
use crate::fix::journal::BatchEntry;
use crate::fix::plan::{EntryKind, Retarget};
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
        let entries = plan.renames.iter().map(|rename| ((&*rename.directory.path, &*rename.old), rename.id));
        let own: HashMap<(&[u8], &[u8]), u64> =
            entries.filter(|(entry, _)| self.links.contains_key(entry)).collect();
        for retarget in &plan.retargets {
            let renamed = |id: u64| self.names.get(&id).copied().filter(|_| self.done.contains(&id));
            let own = own.get(&(&*retarget.directory.path, &*retarget.name)).and_then(|&id| renamed(id));
            let target = retarget.target(renamed);
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
        if self.relinked.get(&(path.clone(), name.to_vec())) != Some(&current) {
            if current != retarget.old_target {
                return Err(EntryFailure::Changed);
            }
            if stat.ino != retarget.entry.inode {
                return Err(EntryFailure::Replaced);
            }
            if own.is_none() {
                self.check_unchanged(EntryKind::Symlink, retarget.entry.ctime, &stat)?;
            }
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
