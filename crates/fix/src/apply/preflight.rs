//! Checks whether each entry is still the one of the plan.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use namegate_files::json::Hex;
use namegate_sys::stat::Stat;
use nix::fcntl::readlinkat;

use super::prepare::BatchPreparer;
use crate::entry::{EntryFailure, InodeIdentity, birth, free_name, kind, look_up};
use crate::group::RenameGroup;
use crate::listing::listed;
use crate::moving::look_up_path;
use crate::plan::{FileKind, InodeTime, Rename, SeenEntry};
use crate::roots::OpenPlanDir;

impl BatchPreparer<'_> {
    /// The renames as a group, if all entries are those of the plan; `None` if all entries have their new names already. `all` are
    /// the renames of the directory that may depend on these.
    pub(super) fn check_entries(
        &mut self,
        dir: &OpenPlanDir,
        renames: &[&Rename],
        all: &[Rename],
    ) -> Result<Option<RenameGroup>, EntryFailure> {
        let mut members = Vec::with_capacity(renames.len());
        for rename in renames {
            let failure = match look_up(dir, &rename.old)? {
                Some(stat) if self.is_planned_entry(dir, rename, &stat) => {
                    let may_be_done = rename.entry.kind != FileKind::Directory
                        && InodeTime::from(stat.ctime) != rename.entry.ctime;
                    let is_moved = |rename: &&Rename| self.is_moved(dir, rename, all);
                    if may_be_done && renames.iter().all(is_moved) {
                        return Ok(None);
                    }
                    if self.is_unchanged(&rename.entry, &stat) || self.has_old_target(dir, rename, &stat) {
                        members.push(self.group_member(dir, rename, &stat));
                        continue;
                    }
                    EntryFailure::Changed
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

    /// Reports whether the entry has its new name and no longer its old one.
    pub(super) fn was_renamed(&self, dir: &OpenPlanDir, rename: &Rename) -> bool {
        look_up(dir, &rename.old) == Ok(None) && self.is_done(dir, rename)
    }

    /// Reports whether the entry has its new name already.
    fn is_done(&self, dir: &OpenPlanDir, rename: &Rename) -> bool {
        let new = rename.new.as_bytes();
        let Ok(Some(stat)) = look_up_path(dir.as_fd(), new) else { return false };
        // A link with a new target is another inode; its target identifies it.
        let has_new_target = || {
            let retarget = self.run.links.get(&(&*rename.directory.path, &*rename.old))?;
            let target = readlinkat(dir, OsStr::from_bytes(new)).ok()?;
            let new_name = |id: u64| self.run.plan.target_names.get(&id).map(Vec::as_slice);
            Some(retarget.target(new_name) == target.as_bytes())
        };
        InodeIdentity::from_seen(&rename.entry).matches(&stat)
            || kind(&stat) == FileKind::Symlink && has_new_target() == Some(true)
    }

    /// Reports whether an entry has moved although there is one like it under its old name: that can be a hard link or another
    /// link that got the old name, or the entry itself in a directory that treats both names as equal.
    fn is_moved(&self, dir: &OpenPlanDir, rename: &Rename, all: &[Rename]) -> bool {
        let mut current = rename;
        for _ in all {
            if !self.is_done(dir, current) || !is_listed(dir, &[current]) {
                return false;
            }
            if listed(dir, &[&current.old]).is_ok_and(|found| found.is_empty()) {
                return true;
            }
            // The entry that gets the old name must have moved too.
            match all.iter().find(|other| other.new.as_bytes() == current.old) {
                Some(other) if other.id != rename.id => current = other,
                other => return other.is_some(),
            }
        }
        false
    }

    /// Reports whether `stat`, of the entry with the old name, is of the entry in the plan.
    fn is_planned_entry(&self, dir: &OpenPlanDir, rename: &Rename, stat: &Stat) -> bool {
        InodeIdentity::from_seen(&rename.entry).matches(stat) || self.has_old_target(dir, rename, stat)
    }

    /// Reports whether the entry with the old name is a link with the target of the plan. A link that got its old target back is
    /// another inode; its target identifies it.
    fn has_old_target(&self, dir: &OpenPlanDir, rename: &Rename, stat: &Stat) -> bool {
        let find = || {
            let retarget = self.run.links.get(&(&*rename.directory.path, &*rename.old))?;
            let target = readlinkat(dir, OsStr::from_bytes(&rename.old)).ok()?;
            Some(retarget.old_target == target.as_bytes())
        };
        kind(stat) == FileKind::Symlink && find() == Some(true)
    }

    /// Reports whether an entry was not changed since the plan was made.
    ///
    /// The change time is no evidence for a directory, which changes with every rename in it, for an entry that was renamed and got
    /// its name back, nor for a file with several names. Such an entry is unchanged if its birth time, the length and the time of
    /// its content are those of the plan.
    fn is_unchanged(&self, seen: &SeenEntry, stat: &Stat) -> bool {
        let has_same_birth = || seen.birth.is_some() && birth(stat) == seen.birth;
        seen.kind == FileKind::Directory
            || InodeTime::from(stat.ctime) == seen.ctime
            || has_same_birth()
            || self.touched.contains(&stat.ino)
    }
}

/// Reports whether the directory lists all new names.
fn is_listed(dir: &OpenPlanDir, renames: &[&Rename]) -> bool {
    let names: Vec<&[u8]> = renames.iter().map(|rename| rename.new.as_bytes()).collect();
    listed(dir, &names).is_ok_and(|found| found.len() == names.len())
}
