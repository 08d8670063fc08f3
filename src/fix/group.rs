//! Renames of one directory that belong together: a single one, or entries that trade their names.
//!
//! What happens is a row of moves, each of one inode from one name to another that is free. Where every name of the group is
//! somebody's at the beginning, or the directory takes both names of an entry for one, the first entry waits under a
//! temporary name. Which moves are done is told by looking at the names, so that a journal which says what was intended is
//! enough to go on, or to go back, after the process was killed anywhere.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use super::entry::{Identity, Reason, look};
use super::listing::listed;
use crate::sys::rename::renameat2;
use crate::sys::stat::{self, Time};

/// An entry that gets another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The line of the plan.
    pub id: u64,
    /// The name that it has, as bytes.
    pub old: Vec<u8>,
    /// The name that it gets.
    pub new: Vec<u8>,
    /// What stands there.
    pub what: Identity,
    /// When it was changed last before.
    pub ctime: Time,
    /// Whether its old name is kept with it, in an attribute.
    pub marked: bool,
}

/// Renames that are done together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// One entry; or, with a temporary name, those of a cycle: each gets the name that the next one has, the last that of the
    /// first.
    pub members: Vec<Member>,
    /// The name under which the first one waits.
    pub via: Option<Vec<u8>>,
}

/// How to go through the moves of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the new names.
    Forward,
    /// To the old names.
    Backward,
}

impl Group {
    /// How many moves there are.
    pub fn moves(&self) -> usize {
        if self.via.is_some() { self.members.len() + 1 } else { self.members.len() }
    }

    /// The name that the entry of the number `at` has after `done` moves.
    fn name(&self, at: usize, done: usize) -> &[u8] {
        let (member, last) = (&self.members[at], self.moves());
        match &self.via {
            None if done > at => &member.new,
            None => &member.old,
            Some(via) if at == 0 && (1..last).contains(&done) => via,
            Some(_) if at == 0 && done == 0 => &member.old,
            Some(_) if at == 0 => &member.new,
            // The last one follows the first, and so on: each goes where there is room.
            Some(_) if done > self.members.len() - at => &member.new,
            Some(_) => &member.old,
        }
    }

    /// Which entry the move of that number moves.
    fn moved(&self, number: usize) -> usize {
        match self.via {
            None => number,
            Some(_) if number == 0 || number == self.members.len() => 0,
            Some(_) => self.members.len() - number,
        }
    }

    /// How many moves are done, by what stands under the names; `None` if the entries are not where any number of moves would
    /// have put them.
    ///
    /// # Errors
    /// The names cannot be looked at.
    pub fn progress(&self, dir: impl AsFd) -> Result<Option<usize>, Errno> {
        let mut seen = HashMap::new();
        let names = self.members.iter().flat_map(|member| [&member.old, &member.new]).chain(&self.via);
        for name in names {
            if !seen.contains_key(name.as_slice()) {
                seen.insert(name.as_slice(), look(&dir, name)?);
            }
        }
        // A directory that does not tell case or normalization apart finds one entry by several names: the listing decides.
        let is_found_twice = |stat: &stat::Stat| {
            seen.values().flatten().filter(|other| other.ino == stat.ino).nth(1).is_some()
        };
        if seen.values().flatten().any(is_found_twice) {
            let listed = listed(&dir, &seen.keys().copied().collect::<Vec<_>>())?;
            seen.retain(|name, _| listed.contains(name));
        }
        let stands = |at: usize, done: usize| {
            let stat = seen.get(self.name(at, done)).and_then(Option::as_ref);
            stat.is_some_and(|stat| self.members[at].what.is_of(stat))
        };
        Ok((0..=self.moves()).find(|&done| (0..self.members.len()).all(|at| stands(at, done))))
    }

    /// Makes the moves that are left to be made on the way, after `done` were made. If one cannot be made, those that this
    /// call has made are taken back. `changed` is called after each.
    ///
    /// # Errors
    /// Why a move could not be made.
    pub fn go(
        &self,
        dir: impl AsFd + Copy,
        way: Way,
        done: usize,
        changed: &mut dyn FnMut(),
    ) -> Result<(), Reason> {
        let mut at = done;
        let stopped = loop {
            match self.step(dir, way, at) {
                None => return Ok(()),
                Some(Ok(next)) => at = next,
                Some(Err(reason)) => break reason,
            }
            changed();
        };
        let back = if way == Way::Forward { Way::Backward } else { Way::Forward };
        while at != done || (0 < at && at < self.moves()) {
            match self.step(dir, back, at) {
                None => break,
                Some(Ok(next)) => at = next,
                Some(Err(_)) => return Err(Reason::Stranded(self.via.clone().unwrap_or_default())),
            }
            changed();
        }
        Err(stopped)
    }

    /// One move, and how many are done then; `None` at the end of the way.
    fn step(&self, dir: impl AsFd, way: Way, done: usize) -> Option<Result<usize, Reason>> {
        let (number, next) = match way {
            Way::Forward if done < self.moves() => (done, done + 1),
            Way::Backward if done > 0 => (done - 1, done - 1),
            _ => return None,
        };
        let at = self.moved(number);
        let moved = shift(dir, self.name(at, done), self.name(at, next), &self.members[at].what);
        Some(moved.map(|()| next))
    }
}

/// Gives the entry `what` of `dir` another name, if it still has the one and the other is free.
///
/// Between the look and the rename somebody may put another entry in its place: no call renames an inode. So it is looked
/// again afterwards, and what should not have been renamed gets its name back.
fn shift(dir: impl AsFd, from: &[u8], to: &[u8], what: &Identity) -> Result<(), Reason> {
    let seen = match look(&dir, from)? {
        None => return Err(Reason::Gone),
        Some(stat) if !what.is_of(&stat) => return Err(Reason::Replaced),
        Some(stat) => stat,
    };
    renameat2(&dir, OsStr::from_bytes(from), &dir, OsStr::from_bytes(to), libc::RENAME_NOREPLACE)?;
    match look(&dir, to) {
        Ok(Some(now)) if !what.is_of(&now) => Err(give_back(dir, from, to, seen.uid, now.uid)),
        // Renamed, and by somebody else renamed again or removed.
        Ok(None) => Err(Reason::Gone),
        Ok(Some(_)) | Err(_) => Ok(()),
    }
}

/// Gives what was renamed by mistake its name `from` back, and says what has become of it.
///
/// Whether what has the name `to` now ever had the other is not known for certain. Where everybody may rename everything, it
/// does no harm if not. In a sticky directory nobody can swap what is not theirs, so an entry of another owner than that which
/// was swapped is somebody's who made it under that name, and keeps it.
fn give_back(dir: impl AsFd, from: &[u8], to: &[u8], seen: u32, now: u32) -> Reason {
    let is_sticky = stat::at(&dir, OsStr::new("")).is_ok_and(|stat| stat.mode & libc::S_ISVTX != 0);
    if is_sticky && seen != now {
        return Reason::Misplaced;
    }
    let [from, to] = [from, to].map(OsStr::from_bytes);
    match renameat2(&dir, to, &dir, from, libc::RENAME_NOREPLACE) {
        Ok(()) => Reason::Replaced,
        Err(_) => Reason::Misplaced,
    }
}

#[cfg(test)]
#[path = "group/tests.rs"]
mod tests;
