//! Whether what a plan says can be done: of directories as a whole, and of each entry.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use nix::fcntl::readlinkat;

use super::Run;
use crate::fix::entry::{Reason, free_name, kind, look};
use crate::fix::group::Group;
use crate::fix::listing;
use crate::fix::plan::check::check;
use crate::fix::plan::{Ctime, Kind, Rename, Step, Turn};
use crate::fix::roots::Dir;
use crate::sys::stat::Stat;

impl Run<'_> {
    /// Looks, before anything moves, what is wrong with the renames of a directory as a whole. Of one that is not there, and of
    /// what was done already, nothing is said.
    pub(super) fn judge(&mut self, turn: &Turn) {
        let Ok(dir) = self.carrier.roots.directory(&turn.directory.path, turn.directory.inode) else {
            return;
        };
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        let mut take = |name: &[u8]| {
            bytes.extend_from_slice(name);
            ends.push(bytes.len());
        };
        if listing::each(&*dir, &mut take).is_err() {
            // Renaming needs no right to read. What is in the way is found when it is.
            return;
        }
        let names: Vec<&[u8]> = ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        let there: HashSet<&[u8]> = names.iter().copied().collect();
        let places = turn.steps.iter().flat_map(|step| match *step {
            Step::Exchange(one, other) => [Some(one), Some(other)],
            Step::Rename(at) | Step::Settle(at) => [Some(at), None],
            Step::Aside(_) => [None, None],
        });
        let is_pending = |at: &usize| {
            let rename = &self.plan.renames[*at];
            !self.done.contains(&rename.id) && there.contains(&*rename.old)
        };
        let places: Vec<usize> = places.flatten().filter(is_pending).collect();
        let renames: Vec<&Rename> = places.iter().map(|&at| &self.plan.renames[at]).collect();
        let objections = check(self.options.policy, &names, &renames);
        self.objections.extend(objections.into_iter().map(|objection| (places[objection.at], objection.why)));
    }

    /// The renames as a group, if all entries are those that the plan saw; nothing if all have their new names already.
    pub(super) fn check(&mut self, dir: &Dir, renames: &[&Rename]) -> Result<Option<Group>, Reason> {
        let mut members = Vec::with_capacity(renames.len());
        for rename in renames {
            let objection = match look(dir, &rename.old)? {
                Some(stat) if is_seen(rename, &stat) => {
                    match self.is_unchanged(rename.identity.kind, rename.identity.ctime, &stat) {
                        Ok(()) => {
                            members.push(self.member(dir, rename, &stat));
                            continue;
                        }
                        Err(reason) => reason,
                    }
                }
                Some(_) => Reason::Replaced,
                None => Reason::Gone,
            };
            let is_done = renames.iter().all(|rename| self.is_done(dir, rename));
            // A directory that takes both names for one finds the entry by the new one, too.
            let is_done = is_done && (objection != Reason::Changed || is_listed(dir, renames));
            return if is_done { Ok(None) } else { Err(objection) };
        }
        let via = match members.len() {
            1 => None,
            _ => Some(free_name(dir)?),
        };
        Ok(Some(Group { members, via }))
    }

    /// Whether the entry has its new name already.
    fn is_done(&self, dir: &Dir, rename: &Rename) -> bool {
        let new = rename.new.as_bytes();
        let Ok(Some(stat)) = look(dir, new) else { return false };
        // A link that was given another target is another inode, and is known by that target.
        let follows = || {
            let retarget = self.links.get(&(&*rename.directory.path, &*rename.old))?;
            let target = readlinkat(dir, OsStr::from_bytes(new)).ok()?;
            Some(retarget.target(|id| self.names.get(&id).copied()) == target.as_bytes())
        };
        is_seen(rename, &stat) || kind(&stat) == Kind::Symlink && follows() == Some(true)
    }

    /// Whether an entry was not changed since the plan was made. A directory changes whenever something in it is renamed, and a
    /// file with several names when one of them is, so of the first nothing can be said, nor of the second once that was done.
    pub(super) fn is_unchanged(&self, of: Kind, ctime: Ctime, stat: &Stat) -> Result<(), Reason> {
        let now = Ctime { seconds: stat.ctime.seconds, nanoseconds: stat.ctime.nanoseconds };
        match of == Kind::Directory || now == ctime || self.touched.contains(&stat.ino) {
            true => Ok(()),
            false => Err(Reason::Changed),
        }
    }
}

/// Whether the directory lists all new names.
fn is_listed(dir: &Dir, renames: &[&Rename]) -> bool {
    let names: Vec<&[u8]> = renames.iter().map(|rename| rename.new.as_bytes()).collect();
    listing::listed(dir, &names).is_ok_and(|found| found.len() == names.len())
}

/// Whether `stat` is of the entry that the plan saw.
fn is_seen(rename: &Rename, stat: &Stat) -> bool {
    stat.ino == rename.identity.inode && kind(stat) == rename.identity.kind
}
