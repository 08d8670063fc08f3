//! Moves a file into directories below its own: `dir\sub\file` becomes `dir/sub/file`. Directories that are missing are made, and an
//! undo removes them again.
//!
//! Everything goes through descriptors, component by component: no symbolic link is followed, and no other mount is entered. Others may
//! use the tree meanwhile, so a directory counts as made by the program only if its name was free when the move was prepared, if it was
//! born since, and if it belongs to this user. It is removed only while it is empty, which loses nothing.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use namegate_core::name::display::display;
use namegate_files::json::Hex;
use namegate_sys::open;
use namegate_sys::stat::{self, Stat};
use nix::errno::Errno;
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use serde::{Deserialize, Serialize};

use super::entry::{EntryFailure, look_up};
use super::group::{Direction, GroupMember, rename_entry};
use super::plan::InodeTime;

/// By how much the clock of file systems can be behind, in nanoseconds: they use the time of the last tick.
const TICK: i64 = 20_000_000;

/// A file that moves, as a record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The index of the directory in the batch.
    pub directory: usize,
    /// The names of the directories that the file moves into, each in the one before.
    #[serde(rename = "into_hex")]
    pub into: Vec<Hex>,
    /// How many of them, from the end, were missing when the move was prepared.
    pub missing: usize,
    /// When it was prepared.
    pub since: InodeTime,
    /// The file: its old name, and its new one in the last directory.
    pub member: GroupMember,
}

/// Splits a new name with separators into the directories and the name in the last one; `None` for a name without.
pub fn split(new: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut into: Vec<&[u8]> = new.split(|&byte| byte == b'/').collect();
    let name = into.pop()?;
    (!into.is_empty()).then_some((into, name))
}

/// Looks up the path `new` of a moved file below `dir`; `None` if there is no such entry.
pub(crate) fn look_up_path(dir: BorrowedFd<'_>, new: &[u8]) -> Result<Option<Stat>, Errno> {
    let Some((into, name)) = split(new) else { return look_up(dir, new) };
    let found = walk(dir, &into).ok().filter(|found| found.len() == into.len());
    found.and_then(|mut found| found.pop()).map_or(Ok(None), |last| look_up(&last, name))
}

/// How many directories are missing on the way to the path `new` below `dir`, for a file of the user `owner`.
///
/// # Errors
/// Something is in the way, or the path exists.
pub(crate) fn count_missing(dir: BorrowedFd<'_>, new: &[u8], owner: u32) -> Result<usize, EntryFailure> {
    let Some((into, name)) = split(new) else { return Ok(0) };
    let found = walk(dir, &into)?;
    check_owners(dir, &into, &found, owner)?;
    match found.last().filter(|_| found.len() == into.len()) {
        Some(last) if look_up(last, name)?.is_some() => Err(EntryFailure::Taken),
        _ => Ok(into.len() - found.len()),
    }
}

/// The last of the directories `found`, or else `dir`.
fn last_of<'f>(found: &'f [OwnedFd], dir: BorrowedFd<'f>) -> BorrowedFd<'f> {
    found.last().map_or(dir, AsFd::as_fd)
}

/// Opens the directories `into`, each in the one before, up to the first that is missing.
fn walk(dir: BorrowedFd<'_>, into: &[&[u8]]) -> Result<Vec<OwnedFd>, EntryFailure> {
    let mut found: Vec<OwnedFd> = Vec::with_capacity(into.len());
    for &name in into {
        match open::directory(last_of(&found, dir), OsStr::from_bytes(name), false) {
            Ok(fd) => found.push(fd),
            Err(Errno::ENOENT) => break,
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                return Err(EntryFailure::Conflict(format!(
                    "{} is in the way: it is no directory",
                    display(name)
                )));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Checks who may rename what gets into the directories `found`: where the directory above is sticky, others than the owner of the file
/// could not do that before.
fn check_owners(
    dir: BorrowedFd<'_>,
    into: &[&[u8]],
    found: &[OwnedFd],
    owner: u32,
) -> Result<(), EntryFailure> {
    let mut above = stat::at(dir, OsStr::new(""))?;
    for (fd, name) in found.iter().zip(into) {
        let stat = stat::at(fd, OsStr::new(""))?;
        let is_trusted = [0, geteuid().as_raw(), owner, above.uid].contains(&stat.uid);
        if above.mode & libc::S_ISVTX != 0 && !is_trusted {
            let name = display(name);
            return Err(EntryFailure::Conflict(format!("the directory {name} belongs to another user")));
        }
        above = stat;
    }
    Ok(())
}

impl Move {
    fn into(&self) -> Vec<&[u8]> {
        self.into.iter().map(|name| name.as_slice()).collect()
    }

    /// The new path below the directory.
    pub fn path(&self) -> Vec<u8> {
        [&self.into()[..], &[&self.member.new]].concat().join(&b'/')
    }

    /// Reports whether the file is where it should be.
    pub fn is_finished(&self, dir: BorrowedFd<'_>, direction: Direction) -> Result<bool, EntryFailure> {
        let found = match direction {
            Direction::Apply => look_up_path(dir, &self.path())?,
            Direction::Undo => look_up(dir, &self.member.old)?,
        };
        Ok(found.is_some_and(|stat| self.member.identity().matches(&stat)))
    }

    /// Moves the file, from any state that a killed run left. Calls `changed` after each change.
    ///
    /// # Errors
    /// Why that failed; the file has its old or its new path then.
    pub fn execute(
        &self,
        dir: BorrowedFd<'_>,
        direction: Direction,
        changed: &mut dyn FnMut(),
    ) -> Result<(), EntryFailure> {
        match direction {
            Direction::Apply => self.apply(dir, changed),
            Direction::Undo => self.undo(dir, changed),
        }
    }

    fn is_at(&self, dir: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
        Ok(look_up(dir, name)?.is_some_and(|stat| self.member.identity().matches(&stat)))
    }

    fn apply(&self, dir: BorrowedFd<'_>, changed: &mut dyn FnMut()) -> Result<(), EntryFailure> {
        let (old, new) = (&self.member.old, &self.member.new);
        let mut found = walk(dir, &self.into())?;
        let owner = match look_up(dir, old)? {
            Some(stat) if self.member.identity().matches(&stat) => stat.uid,
            other => {
                let last = found.last().filter(|_| found.len() == self.into.len());
                return match (last.map_or(Ok(false), |last| self.is_at(last, new))?, other) {
                    (true, _) => Ok(()),
                    (false, Some(_)) => Err(EntryFailure::Replaced),
                    (false, None) => Err(EntryFailure::Gone),
                };
            }
        };
        check_owners(dir, &self.into(), &found, owner)?;
        let first_made = found.len();
        let moved = self.make_missing(dir, &mut found, changed).and_then(|()| {
            let last = found.last().ok_or(EntryFailure::Gone)?;
            rename_entry((dir, old), (last, new), &self.member.identity(), Some(owner))
        });
        match &moved {
            Ok(()) => changed(),
            Err(_) => self.remove_made(dir, &found, first_made, changed),
        }
        moved
    }

    /// Makes the directories after those that are `found`.
    fn make_missing(
        &self,
        dir: BorrowedFd<'_>,
        found: &mut Vec<OwnedFd>,
        changed: &mut dyn FnMut(),
    ) -> Result<(), EntryFailure> {
        for name in &self.into[found.len()..] {
            let (name, mode) = (OsStr::from_bytes(name), Mode::S_IRWXU | Mode::S_IRWXG | Mode::S_IRWXO);
            let made = mkdirat(last_of(found, dir), name, mode);
            match made {
                Ok(()) => changed(),
                // Another process was faster. What it made is checked like what was there before.
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ours = made.is_ok();
            let next = walk(last_of(found, dir), &[name.as_bytes()])?.pop().ok_or(EntryFailure::Gone)?;
            if is_ours && stat::at(&next, OsStr::new(""))?.uid != geteuid().as_raw() {
                return Err(EntryFailure::Exposed);
            }
            found.push(next);
            if !is_ours {
                check_owners(dir, &self.into(), found, geteuid().as_raw())?;
            }
        }
        Ok(())
    }

    fn undo(&self, dir: BorrowedFd<'_>, changed: &mut dyn FnMut()) -> Result<(), EntryFailure> {
        let (old, new) = (&self.member.old, &self.member.new);
        let found = walk(dir, &self.into())?;
        let last = found.last().filter(|_| found.len() == self.into.len());
        let there = last.map_or(Ok(None), |last| look_up(last, new))?;
        match (last, there) {
            (Some(last), Some(stat)) if self.member.identity().matches(&stat) => {
                rename_entry((last, new), (dir, old), &self.member.identity(), Some(stat.uid))?;
                changed();
            }
            (_, there) if !self.is_at(dir, old)? => {
                return Err(if there.is_some() { EntryFailure::Replaced } else { EntryFailure::Gone });
            }
            _ => {}
        }
        self.remove_made(dir, &found, self.into.len() - self.missing, changed);
        Ok(())
    }

    /// Removes the directories `found` from the index `first` on, the last one first, if they are empty and were made for this move or
    /// another one of the run.
    fn remove_made(&self, dir: BorrowedFd<'_>, found: &[OwnedFd], first: usize, changed: &mut dyn FnMut()) {
        for at in (first..found.len()).rev() {
            let name = OsStr::from_bytes(&self.into[at]);
            let Ok(stat) = stat::at(&found[at], OsStr::new("")) else { return };
            let is_young = stat.btime.is_none_or(|born| is_since(born.into(), self.since));
            if !is_young || stat.uid != geteuid().as_raw() {
                return;
            }
            if unlinkat(last_of(&found[..at], dir), name, UnlinkatFlags::RemoveDir).is_err() {
                return;
            }
            changed();
        }
    }
}

/// Reports whether `time` is not before `since`.
fn is_since(time: InodeTime, since: InodeTime) -> bool {
    let late = time.seconds.saturating_sub(since.seconds).saturating_mul(1_000_000_000);
    late.saturating_add(i64::from(time.nanoseconds) - i64::from(since.nanoseconds)) >= -TICK
}

#[cfg(test)]
#[path = "moving/tests.rs"]
mod tests;
