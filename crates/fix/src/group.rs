//! Renames of one directory that belong together: a single rename, or a cycle of entries that trade names.
//!
//! A group is executed as a sequence of moves, each of one inode from one name to another that is free. In a cycle, and where the
//! directory treats both names of an entry as equal, the first entry waits under a temporary name. The names themselves show
//! which moves are done. So a journal of intentions is enough to resume or to undo after a kill at any point.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use namegate_files::json::Hex;
use namegate_sys::rename::renameat2;
use namegate_sys::stat::{self, Stat};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::entry::{EntryFailure, InodeIdentity, look_up};
use super::listing::listed;
use super::plan::{FileKind, InodeTime};

/// An entry that gets another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupMember {
    /// The id in the plan.
    pub id: u64,
    #[serde(rename = "old_hex")]
    pub old: Hex,
    #[serde(rename = "new_hex")]
    pub new: Hex,
    pub inode: u64,
    pub kind: FileKind,
    /// The birth time, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<InodeTime>,
    /// The old name is kept in an extended attribute of the entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marked: bool,
    /// The owner, if the entry was compared with the plan when it was added to the batch. Not part of the record.
    #[serde(skip)]
    pub checked_owner: Option<u32>,
}

/// Renames that are all done or none, as a record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameGroup {
    /// The index of the directory in the batch.
    pub directory: usize,
    /// The temporary name of the first entry.
    #[serde(rename = "via_hex", default, skip_serializing_if = "Option::is_none")]
    pub temp_name: Option<Hex>,
    /// One entry; or, with a temporary name, a cycle: each entry gets the name of the next one, the last gets that of the first.
    pub members: Vec<GroupMember>,
}

/// How far a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupProgress {
    /// The number of moves that are done.
    pub done: usize,
    /// The owner of the first entry, if it was looked up.
    pub owner: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the new names.
    Apply,
    /// To the old names.
    Undo,
}

impl GroupMember {
    pub(crate) fn identity(&self) -> InodeIdentity {
        InodeIdentity { ino: self.inode, kind: self.kind, born: self.born }
    }

    /// Changes the inode of the entry to that of `stat`.
    pub(crate) fn set_identity(&mut self, stat: &Stat) {
        let InodeIdentity { ino, kind, born } = InodeIdentity::from_stat(stat);
        (self.inode, self.kind, self.born) = (ino, kind, born);
    }
}

impl RenameGroup {
    /// The number of moves.
    pub(crate) fn moves(&self) -> usize {
        if self.temp_name.is_some() { self.members.len() + 1 } else { self.members.len() }
    }

    /// The name of the entry `at` after `done` moves.
    fn name(&self, at: usize, done: usize) -> &[u8] {
        let (member, last) = (&self.members[at], self.moves());
        match &self.temp_name {
            None if done > at => &member.new,
            None => &member.old,
            Some(temp_name) if at == 0 && (1..last).contains(&done) => temp_name,
            Some(_) if at == 0 && done == 0 => &member.old,
            Some(_) if at == 0 => &member.new,
            // The last entry follows the first, and so on: each moves to the name that is free.
            Some(_) if done > self.members.len() - at => &member.new,
            Some(_) => &member.old,
        }
    }

    /// The entry that the move `number` moves.
    fn moved(&self, number: usize) -> usize {
        match self.temp_name {
            None => number,
            Some(_) if number == 0 || number == self.members.len() => 0,
            Some(_) => self.members.len() - number,
        }
    }

    /// How far the group is before its first move, which follows the comparison with the plan.
    pub(crate) fn not_begun(&self) -> GroupProgress {
        GroupProgress { done: 0, owner: self.members[0].checked_owner }
    }

    /// How far the group is, according to the entries under the names; `None` if no number of moves leads to what is there.
    pub fn progress(&self, dir: impl AsFd) -> Result<Option<GroupProgress>, Errno> {
        let mut seen = HashMap::new();
        let names = self.members.iter().flat_map(|member| [&member.old, &member.new]).chain(&self.temp_name);
        for name in names {
            if !seen.contains_key(name.as_slice()) {
                seen.insert(name.as_slice(), look_up(&dir, name)?);
            }
        }
        // A directory that ignores case or normalization finds one entry by several names: the listing decides.
        let is_found_twice =
            |stat: &Stat| seen.values().flatten().filter(|other| other.ino == stat.ino).nth(1).is_some();
        if seen.values().flatten().any(is_found_twice) {
            let listed = listed(&dir, &seen.keys().copied().collect::<Vec<_>>())?;
            seen.retain(|name, _| listed.contains(name));
        }
        let find = |at: usize, done: usize| {
            let stat = seen.get(self.name(at, done)).and_then(Option::as_ref);
            stat.filter(|stat| self.members[at].identity().matches(stat))
        };
        let done =
            (0..=self.moves()).find(|&done| (0..self.members.len()).all(|at| find(at, done).is_some()));
        Ok(done.map(|done| GroupProgress { done, owner: find(0, done).map(|stat| stat.uid) }))
    }

    /// Makes the remaining moves in `direction`. If a move fails, the moves of this call are reverted. Calls `changed` after each
    /// move.
    ///
    /// # Errors
    /// The failure of the first move that failed.
    pub fn execute(
        &self,
        dir: impl AsFd + Copy,
        direction: Direction,
        GroupProgress { done, owner }: GroupProgress,
        changed: &mut dyn FnMut(),
    ) -> Result<(), EntryFailure> {
        let mut at = done;
        // Of several moves each begins where others may have been since the look-up.
        let owner = owner.filter(|_| self.moves() == 1);
        let stopped = loop {
            match self.make_move(dir, direction, at, owner) {
                None => return Ok(()),
                Some(Ok(next)) => at = next,
                Some(Err(reason)) => break reason,
            }
            changed();
        };
        let back = if direction == Direction::Apply { Direction::Undo } else { Direction::Apply };
        while at != done || (0 < at && at < self.moves()) {
            match self.make_move(dir, back, at, None) {
                None => break,
                Some(Ok(next)) => at = next,
                Some(Err(_)) => {
                    return Err(EntryFailure::Stranded(self.temp_name.clone().unwrap_or_default().0));
                }
            }
            changed();
        }
        Err(stopped)
    }

    /// Makes one move. Returns the number of moves that are done then; `None` if none is left. `owner` is the owner of the entry, if
    /// it was looked up and compared just before.
    fn make_move(
        &self,
        dir: impl AsFd,
        direction: Direction,
        done: usize,
        owner: Option<u32>,
    ) -> Option<Result<usize, EntryFailure>> {
        let (number, next) = match direction {
            Direction::Apply if done < self.moves() => (done, done + 1),
            Direction::Undo if done > 0 => (done - 1, done - 1),
            _ => return None,
        };
        let at = self.moved(number);
        let identity = self.members[at].identity();
        let moved = rename_entry((&dir, self.name(at, done)), (&dir, self.name(at, next)), &identity, owner);
        Some(moved.map(|()| next))
    }
}

/// Renames the entry `identity`, if it still has the name `from` in its directory and the name `to` is free in its own.
///
/// Between lookup and rename another process may replace the entry: no system call renames an inode. So the entry is looked up
/// again afterwards, and another entry gets its name back. `owner` is the owner of the entry, if it was looked up before.
///
/// # Errors
/// Why the entry has not the new name.
pub(super) fn rename_entry(
    (from_dir, from): (impl AsFd, &[u8]),
    (to_dir, to): (impl AsFd, &[u8]),
    identity: &InodeIdentity,
    owner: Option<u32>,
) -> Result<(), EntryFailure> {
    let owner = match owner {
        Some(owner) => owner,
        None => match look_up(&from_dir, from)? {
            None => return Err(EntryFailure::Gone),
            Some(stat) if !identity.matches(&stat) => return Err(EntryFailure::Replaced),
            Some(stat) => stat.uid,
        },
    };
    let (old, new) = (OsStr::from_bytes(from), OsStr::from_bytes(to));
    renameat2(&from_dir, old, &to_dir, new, libc::RENAME_NOREPLACE)?;
    match look_up(&to_dir, to) {
        Ok(Some(now)) if !identity.matches(&now) => {
            // It is not certain that the entry under `to` ever had the name `from`. Where everybody may rename everything, a wrong
            // guess does no harm. In a sticky directory nobody can replace the entries of others, so an entry of another owner than
            // the replaced one was made under its name by that owner, and keeps it.
            let is_sticky =
                stat::at(&to_dir, OsStr::new("")).is_ok_and(|stat| stat.mode & libc::S_ISVTX != 0);
            if is_sticky && owner != now.uid {
                return Err(EntryFailure::Misplaced);
            }
            match renameat2(&to_dir, new, &from_dir, old, libc::RENAME_NOREPLACE) {
                Ok(()) => Err(EntryFailure::Replaced),
                Err(_) => Err(EntryFailure::Misplaced),
            }
        }
        // Renamed, and then renamed or removed by another process.
        Ok(None) => Err(EntryFailure::Gone),
        Ok(Some(_)) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
#[path = "group/tests.rs"]
mod tests;
