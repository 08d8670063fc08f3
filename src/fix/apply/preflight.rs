//! Checks whether the plan is possible: each directory as a whole, and each entry.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use nix::fcntl::readlinkat;

use super::ApplyRun;
use crate::fix::entry::{EntryFailure, free_name, kind, look_up};
use crate::fix::group::RenameGroup;
use crate::fix::listing::{for_each_name, listed};
use crate::fix::plan::check::check_renames;
use crate::fix::plan::order::DirectoryOrder;
use crate::fix::plan::{EntryKind, InodeTime, Rename};
use crate::fix::roots::OpenPlanDir;
use crate::json::Hex;
use crate::sys::stat::Stat;

impl ApplyRun<'_> {
    /// Collects the conflicts of a directory before any rename. A missing directory and finished renames have no conflicts.
    pub(super) fn check_directory(&mut self, order: &DirectoryOrder) {
        let Ok(dir) = self.executor.roots.open_directory(&order.directory.path, order.directory.inode) else {
            return;
        };
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        let mut add = |name: &[u8]| {
            bytes.extend_from_slice(name);
            ends.push(bytes.len());
        };
        if for_each_name(&*dir, &mut add).is_err() {
            // A rename needs no right to read the directory, and fails if the new name is taken.
            return;
        }
        let names: Vec<&[u8]> = ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        let existing: HashSet<&[u8]> = names.iter().copied().collect();
        let is_pending = |at: &usize| {
            let rename = &self.plan.renames[*at];
            !self.done.contains(&rename.id) && existing.contains(&*rename.old)
        };
        let indexes: Vec<usize> = order.groups.iter().flatten().copied().filter(is_pending).collect();
        let renames: Vec<&Rename> = indexes.iter().map(|&at| &self.plan.renames[at]).collect();
        let conflicts = check_renames(self.options.policy, &names, &renames);
        self.conflicts.extend(conflicts.into_iter().map(|conflict| (indexes[conflict.at], conflict.why)));
    }

    /// The renames as a group, if all entries are those of the plan; `None` if all entries have their new names already.
    pub(super) fn check_entries(
        &mut self,
        dir: &OpenPlanDir,
        renames: &[&Rename],
    ) -> Result<Option<RenameGroup>, EntryFailure> {
        let mut members = Vec::with_capacity(renames.len());
        for rename in renames {
            let failure = match look_up(dir, &rename.old)? {
                Some(stat) if is_planned_entry(rename, &stat) => {
                    match self.check_unchanged(rename.entry.kind, rename.entry.ctime, &stat) {
                        Ok(()) => {
                            members.push(self.group_member(dir, rename, &stat));
                            continue;
                        }
                        Err(failure) => failure,
                    }
                }
                Some(_) => EntryFailure::Replaced,
                None => EntryFailure::Gone,
            };
            let is_done = renames.iter().all(|rename| self.is_done(dir, rename));
            // A directory that treats both names as equal finds the entry by the new name, too.
            let is_done = is_done && (failure != EntryFailure::Changed || is_listed(dir, renames));
            return if is_done { Ok(None) } else { Err(failure) };
        }
        let temp_name = match members.len() {
            1 => None,
            _ => Some(Hex(free_name(dir)?)),
        };
        Ok(Some(RenameGroup { directory: 0, members, temp_name }))
    }

    /// Reports whether the entry has its new name already.
    fn is_done(&self, dir: &OpenPlanDir, rename: &Rename) -> bool {
        let new = rename.new.as_bytes();
        let Ok(Some(stat)) = look_up(dir, new) else { return false };
        // A link with a new target is another inode; its target identifies it.
        let has_new_target = || {
            let retarget = self.links.get(&(&*rename.directory.path, &*rename.old))?;
            let target = readlinkat(dir, OsStr::from_bytes(new)).ok()?;
            Some(retarget.target(|id| self.names.get(&id).copied()) == target.as_bytes())
        };
        is_planned_entry(rename, &stat) || kind(&stat) == EntryKind::Symlink && has_new_target() == Some(true)
    }

    /// Checks that an entry was not changed since the plan was made. The change time is no evidence for a directory, which changes
    /// with every rename in it, nor for a file with several names, once this plan has renamed one of them.
    pub(super) fn check_unchanged(
        &self,
        kind: EntryKind,
        ctime: InodeTime,
        stat: &Stat,
    ) -> Result<(), EntryFailure> {
        let is_unchanged = InodeTime::from(stat.ctime) == ctime;
        match kind == EntryKind::Directory || is_unchanged || self.touched.contains(&stat.ino) {
            true => Ok(()),
            false => Err(EntryFailure::Changed),
        }
    }
}

/// Reports whether the directory lists all new names.
fn is_listed(dir: &OpenPlanDir, renames: &[&Rename]) -> bool {
    let names: Vec<&[u8]> = renames.iter().map(|rename| rename.new.as_bytes()).collect();
    listed(dir, &names).is_ok_and(|found| found.len() == names.len())
}

/// Reports whether `stat` is of the entry in the plan.
fn is_planned_entry(rename: &Rename, stat: &Stat) -> bool {
    stat.ino == rename.entry.inode && kind(stat) == rename.entry.kind
}
