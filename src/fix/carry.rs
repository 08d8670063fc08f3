//! Doing what a batch of the journal says, or taking it back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::rc::Rc;

use nix::errno::Errno;
use nix::sys::stat::{UtimensatFlags, utimensat};

use super::entry::{Reason, look};
use super::group::{Group, Way};
use super::history::History;
use super::journal::{Batch, Entry, Place};
use super::mark;
use super::plan::Kind;
use super::relink::{Relink, time_spec};
use super::roots::{Dir, Roots};
use super::watcher::{Left, Point, Watcher};
use crate::sys::stat::Time;

/// What is needed to change names.
pub struct Carrier<'r> {
    /// Where.
    pub roots: Roots,
    /// What happened before this run.
    pub history: History,
    /// Who looks on.
    pub watcher: &'r mut dyn Watcher,
    /// What could not be kept in attributes, by reason.
    pub unmarked: BTreeMap<&'static str, u64>,
}

/// Which entries of a batch are meant, and what is known of them.
pub struct Task<'t> {
    /// The batch.
    pub batch: &'t Batch,
    /// Its directories, open; none if they are to be opened when their turn comes and nothing is known of their entries.
    pub dirs: Option<&'t [Rc<Dir>]>,
    /// Where to.
    pub way: Way,
    /// Whether the entry of that number is meant.
    pub wanted: &'t dyn Fn(usize) -> bool,
    /// The times that the directories get when their entries are done: of reading and of change.
    pub times: Option<&'t [(Time, Time)]>,
}

/// What became of the entries of a batch that were not brought to the end.
pub type Remainders = Vec<(usize, Reason)>;

impl Carrier<'_> {
    /// Brings the entries to the end of the way; those of one directory one after the other.
    pub fn carry(&mut self, task: &Task<'_>) -> Remainders {
        let mut numbers: Vec<usize> = (0..task.batch.entries.len()).filter(|&at| (task.wanted)(at)).collect();
        if task.way == Way::Backward {
            numbers.reverse();
        }
        let mut left = Remainders::new();
        for together in numbers.chunk_by(|&a, &b| task.batch.entries[a].0 == task.batch.entries[b].0) {
            let number = task.batch.entries[together[0]].0;
            let place = &task.batch.places[number];
            let opened = match task.dirs {
                Some(dirs) => Ok(dirs[number].clone()),
                None => self.roots.directory(&place.path, place.ino),
            };
            let dir = match opened {
                Ok(dir) => dir,
                Err(reason) => {
                    left.extend(together.iter().map(|&at| (at, reason.clone())));
                    continue;
                }
            };
            for &at in together {
                let entry = &task.batch.entries[at].1;
                match self.bring(&dir, place, entry, task.way, task.dirs.is_some()) {
                    Ok(()) => (0..entry.lines()).for_each(|_| self.watcher.done()),
                    Err(reason) => left.push((at, reason)),
                }
            }
            if let Some((atime, mtime)) = task.times.and_then(|times| times.get(number)) {
                let (atime, mtime) = (time_spec(*atime), time_spec(*mtime));
                // The name `.` works for `O_PATH` descriptors on every kernel. Only the owner may set times.
                if let Err(error) = utimensat(&*dir, ".", &atime, &mtime, UtimensatFlags::NoFollowSymlink) {
                    let path = crate::name::display::display(&place.path);
                    self.watcher.noted(&format!("the times of {path} were not kept: {}", error.desc()));
                }
            }
        }
        left
    }

    fn bring(
        &mut self,
        dir: &Dir,
        place: &Place,
        entry: &Entry,
        way: Way,
        is_fresh: bool,
    ) -> Result<(), Reason> {
        let group = match entry {
            Entry::Retarget(relink) => {
                return relink.go(dir, way, &mut || self.watcher.reached(Point::Changed));
            }
            Entry::Rename(group) => group,
        };
        let group = &*match is_fresh {
            true => Cow::Borrowed(group),
            false => self.history.up_to_date(dir, place, group),
        };
        let done = match is_fresh {
            true => 0,
            false => group.progress(dir)?.ok_or_else(|| astray(dir, group, way))?,
        };
        if way == Way::Forward && done == 0 {
            self.mark(dir, group);
        }
        let result = group.go(dir, way, done, &mut || self.watcher.reached(Point::Changed));
        self.settle(dir, place, group, result.is_ok() == (way == Way::Forward));
        result
    }

    /// Keeps old names with their entries.
    fn mark(&mut self, dir: &Dir, group: &Group) {
        for member in group.members.iter().filter(|member| member.marked) {
            // Of one that was replaced it is said that it is left.
            if let Err(error) = mark::mark(dir, &member.old, &member.what, &member.old)
                && error != Errno::ESTALE
            {
                *self.unmarked.entry(error.desc()).or_default() += 1;
            }
        }
    }

    /// Takes note of where the entries are now.
    fn settle(&mut self, dir: &Dir, place: &Place, group: &Group, is_new: bool) {
        for member in &group.members {
            if member.what.kind == Kind::Directory {
                match is_new {
                    true => self.roots.note(&place.path, &member.old, &member.new),
                    false => self.roots.forget(&place.path, &member.old),
                }
            }
            if member.marked && !is_new {
                // One that is gone, or of a file system that has lost its attributes, has nothing to be taken away.
                let _ = mark::unmark(dir, &member.old, &member.what, &member.old);
            }
        }
    }
}

/// Why nothing can be done for entries that are not where they should be.
fn astray(dir: &Dir, group: &Group, way: Way) -> Reason {
    for member in &group.members {
        let name = if way == Way::Forward { &member.old } else { &member.new };
        match look(dir, name) {
            Ok(Some(stat)) if member.what.is_of(&stat) => {}
            Ok(Some(_)) => return Reason::Replaced,
            Ok(None) => return Reason::Gone,
            Err(error) => return error.into(),
        }
    }
    Reason::Group
}

/// Whether `dir` finds the entry `what` by the new name too, without listing it so: it does not tell the names apart.
pub fn is_alias(dir: impl AsFd + Copy, group: &Group) -> bool {
    let [member] = &group.members[..] else { return false };
    let is_same = || -> Result<bool, Errno> {
        let found = look(dir, &member.new)?.is_some_and(|stat| member.what.is_of(&stat));
        Ok(found && super::listing::listed(dir, &[&member.new])?.is_empty())
    };
    group.via.is_none() && is_same().unwrap_or(false)
}

/// What `entry` in `place` is to people: each name or target that it has, and that it should get.
pub fn lines<'e>(place: &'e Place, entry: &'e Entry, reason: &'e Reason, way: Way) -> Vec<Left<'e>> {
    let left = |old: &'e [u8], new: &'e [u8]| match way {
        Way::Forward => Left { directory: &place.path, old, new, reason },
        Way::Backward => Left { directory: &place.path, old: new, new: old, reason },
    };
    match entry {
        Entry::Rename(group) => group.members.iter().map(|member| left(&member.old, &member.new)).collect(),
        Entry::Retarget(Relink { name, old, new, .. }) => {
            let new = if way == Way::Forward { new } else { old };
            vec![Left { directory: &place.path, old: name, new, reason }]
        }
    }
}
