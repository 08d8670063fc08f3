//! Links whose targets lead through what was renamed.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use super::Run;
use crate::fix::entry::{Reason, free_name};
use crate::fix::journal::Entry;
use crate::fix::plan::{Kind, Retarget};
use crate::fix::relink::{Link, Relink};
use crate::fix::roots::Dir;

impl Run<'_> {
    /// The links that have to follow.
    pub(super) fn retargets(&mut self) -> io::Result<()> {
        let plan = self.plan;
        if plan.retargets.is_empty() {
            return Ok(());
        }
        let places = plan.renames.iter().map(|rename| ((&*rename.directory.path, &*rename.old), rename.id));
        let own: HashMap<(&[u8], &[u8]), u64> =
            places.filter(|(place, _)| self.links.contains_key(place)).collect();
        for retarget in &plan.retargets {
            let renamed = |id: u64| self.names.get(&id).copied().filter(|_| self.done.contains(&id));
            let own = own.get(&(&*retarget.directory.path, &*retarget.name)).and_then(|&id| renamed(id));
            let target = retarget.target(renamed);
            match self.relink(retarget, own, &target) {
                Ok(Some((dir, relink))) => self.intend(&retarget.directory, dir, Entry::Retarget(relink))?,
                Ok(None) => self.tally.already += 1,
                Err(reason) => self.leave(&retarget.directory.path, &retarget.name, &target, &reason),
            }
            if self.tally.is_interrupted {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What has to be done so that a link leads to `target`; `own`: the name that it has got itself.
    fn relink(
        &self,
        retarget: &Retarget,
        own: Option<&[u8]>,
        target: &[u8],
    ) -> Result<Option<(Rc<Dir>, Relink)>, Reason> {
        let dir = self.carrier.roots.directory(&retarget.directory.path, retarget.directory.inode)?;
        let name = match self.journal {
            Some(_) => own.unwrap_or(&retarget.name),
            // Nothing is renamed in a rehearsal.
            None => &retarget.name,
        };
        let Link { stat, target: now, .. } = Link::open(&*dir, name)?.ok_or(Reason::Gone)?;
        if target == retarget.old_target {
            return Err(Reason::Dependence);
        }
        if now == target {
            return Ok(None);
        }
        let place = (retarget.directory.path.clone(), name.to_vec());
        if self.relinked.get(&place) != Some(&now) {
            if now != retarget.old_target {
                return Err(Reason::Changed);
            }
            if stat.ino != retarget.identity.inode {
                return Err(Reason::Replaced);
            }
            if own.is_none() {
                self.is_unchanged(Kind::Symlink, retarget.identity.ctime, &stat)?;
            }
        }
        let relink = Relink {
            name: name.to_vec(),
            via: free_name(&*dir)?,
            old: now,
            new: target.to_vec(),
            ino: stat.ino,
            atime: stat.atime,
            mtime: stat.mtime,
            owner: (stat.uid, stat.gid),
        };
        Ok(Some((dir, relink)))
    }
}
