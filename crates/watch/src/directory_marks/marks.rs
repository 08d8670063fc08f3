//! Marks of directories and their events, in one form for fanotify and inotify.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namegate_sys::fanotify::{fsid, mark_directory};
use namegate_sys::fanotify_events;
use namegate_sys::handle::{self, KernelHandle};
use namegate_sys::open::path_of;
use nix::errno::Errno;
use nix::sys::fanotify::Fanotify;
use nix::sys::inotify::{AddWatchFlags, Inotify, WatchDescriptor};

use crate::core::Origin;
use crate::inotify;

/// How events identify a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum MarkKey {
    Watch(i32),
    Handle([u8; 8], KernelHandle),
}

#[derive(Debug)]
pub(super) enum MarkSet {
    Fanotify(Fanotify),
    /// With the descriptors that nix needs to remove a watch.
    Inotify(Inotify, HashMap<i32, WatchDescriptor>),
}

/// A name that was created, or to which something was renamed.
#[derive(Clone, Copy)]
pub(super) struct AppearedEntry<'e> {
    pub(super) name: &'e OsStr,
    pub(super) origin: Origin,
    pub(super) is_dir: bool,
    /// The process that created it, or 0.
    pub(super) pid: i32,
    /// The same for both ends of a move.
    pub(super) cookie: u32,
}

/// An event of either interface.
pub(super) enum DirectoryEvent<'e> {
    /// The kernel dropped events.
    Lost,
    Appeared {
        dir: MarkKey,
        entry: AppearedEntry<'e>,
    },
    /// The directory `name` was moved away.
    Left {
        dir: MarkKey,
        name: &'e OsStr,
        cookie: u32,
    },
    /// The directory was removed.
    Removed(MarkKey),
}

impl AsFd for MarkSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Fanotify(group) => group.as_fd(),
            Self::Inotify(inotify, _) => inotify.as_fd(),
        }
    }
}

/// Marks a directory. Marking it again returns the same key.
pub(super) fn mark(marks: &mut MarkSet, dir: &OwnedFd) -> Result<MarkKey, Errno> {
    match marks {
        MarkSet::Fanotify(group) => {
            let key = MarkKey::Handle(fsid(dir)?, handle::of_events(dir)?);
            mark_directory(group, dir)?;
            Ok(key)
        }
        MarkSet::Inotify(inotify, watches) => {
            let mask = AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_MOVED_TO
                | AddWatchFlags::IN_MOVED_FROM
                | AddWatchFlags::IN_ONLYDIR;
            let watch = inotify.add_watch(path_of(dir).as_str(), mask)?;
            watches.insert(watch.as_raw(), watch);
            Ok(MarkKey::Watch(watch.as_raw()))
        }
    }
}

pub(super) fn events_from_fanotify<'e>(
    event: &fanotify_events::FanotifyEvent<'e>,
    cookie: u32,
) -> [Option<DirectoryEvent<'e>>; 2] {
    if event.mask & libc::FAN_Q_OVERFLOW != 0 {
        return [Some(DirectoryEvent::Lost), None];
    }
    let key = |entry: fanotify_events::EventEntry<'_>| {
        let handle = KernelHandle::from_parts(entry.dir.kind, entry.dir.handle)?;
        Some(MarkKey::Handle(entry.dir.fsid, handle))
    };
    let (is_dir, has) = (event.mask & libc::FAN_ONDIR != 0, |bits| event.mask & bits != 0);
    let appeared = |entry: fanotify_events::EventEntry<'e>, origin| {
        let (dir, name, pid) = (key(entry)?, entry.name, event.pid);
        Some(DirectoryEvent::Appeared { dir, entry: AppearedEntry { name, origin, is_dir, pid, cookie } })
    };
    let left = |entry: fanotify_events::EventEntry<'e>| {
        Some(DirectoryEvent::Left { dir: key(entry)?, name: entry.name, cookie }).filter(|_| is_dir)
    };
    match event.entry {
        None => [event.from.and_then(left), event.to.and_then(|to| appeared(to, Origin::Renamed))],
        Some(entry) if has(libc::FAN_MOVED_TO) => [appeared(entry, Origin::Renamed), None],
        Some(entry) if has(libc::FAN_CREATE) => [appeared(entry, Origin::Made { is_dir }), None],
        Some(entry) if has(libc::FAN_MOVED_FROM) => [left(entry), None],
        Some(entry) if has(libc::FAN_DELETE_SELF) => [key(entry).map(DirectoryEvent::Removed), None],
        Some(_) => [None, None],
    }
}

pub(super) fn event_from_inotify<'e>(event: &inotify::InotifyEvent<'e>) -> Option<DirectoryEvent<'e>> {
    if event.mask & libc::IN_Q_OVERFLOW != 0 {
        return Some(DirectoryEvent::Lost);
    }
    let dir = MarkKey::Watch(event.watch);
    if event.mask & libc::IN_IGNORED != 0 {
        return Some(DirectoryEvent::Removed(dir));
    }
    let (name, cookie) = (event.name?, event.cookie);
    let is_dir = event.mask & libc::IN_ISDIR != 0;
    let origin = match event.mask {
        mask if mask & libc::IN_MOVED_TO != 0 => Origin::Renamed,
        mask if mask & libc::IN_CREATE != 0 => Origin::Made { is_dir },
        mask if mask & libc::IN_MOVED_FROM != 0 && is_dir => {
            return Some(DirectoryEvent::Left { dir, name, cookie });
        }
        _ => return None,
    };
    Some(DirectoryEvent::Appeared { dir, entry: AppearedEntry { name, origin, is_dir, pid: 0, cookie } })
}
