//! Watches each directory, by a fanotify mark or an inotify watch: the fallback where a whole file system cannot be watched. It
//! needs no privileges except permission to read the directories.
//!
//! The engine keeps a tree of all directories, to find the path of an event. A new directory is first marked and then read,
//! because names may have appeared in it before the mark. The mark identifies a directory: marking it again returns the same key,
//! so a moved directory is recognized, and one that replaces another is not mistaken for it. Sources: inotify(7), fanotify(7).

mod marks;
mod tree;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use namegate_core::policy::Violation;
use namegate_sys::fanotify::group;
use nix::errno::Errno;
use nix::sys::inotify::{InitFlags, Inotify};

use self::marks::{
    AppearedEntry, DirectoryEvent, MarkKey, MarkSet, event_from_inotify, events_from_fanotify, mark,
};
use self::tree::MoveOutcome;
use super::WatchEngine;
use super::core::{
    DirectoryPlace, Origin, ReadTarget, ReadTask, ReportFn, RescanFilter, Sighting, WatchCore,
};
use super::engine::{Engine, log_malformed};
use super::inotify;
use super::rescan::{Rescan, RescanStep};
use super::root::{DirectoryId, id};
use namegate_sys::fanotify_events;
use namegate_sys::fanotify_events::MalformedEvent;

/// How often opening a directory is tried while directories above it are being renamed.
const MOST_TRIES: u8 = 8;

/// The event of a move's destination is read within this time after that of its source.
const MOVE: Duration = Duration::from_millis(500);

/// A node of the tree of directories.
#[derive(Debug)]
struct WatchedDirectory {
    /// `None` for a root.
    above: Option<u64>,
    root: usize,
    name: OsString,
    /// `None` until it is marked.
    key: Option<MarkKey>,
    id: Option<DirectoryId>,
    below: HashMap<OsString, u64>,
    /// Number of the last pass that found it.
    pass: u32,
    /// Whether it was read without a mark, because no more marks are allowed.
    is_unwatched: bool,
}

impl WatchedDirectory {
    /// A directory that is not marked yet.
    fn new(above: Option<u64>, root: usize, name: &OsStr, pass: u32) -> Self {
        let below = HashMap::new();
        Self { above, root, name: name.to_owned(), key: None, id: None, below, pass, is_unwatched: false }
    }
}

/// A directory that was moved away, before its destination is known.
#[derive(Debug)]
struct PendingMove {
    node: u64,
    cookie: u32,
    since: Instant,
}

#[derive(Debug)]
pub(super) struct DirectoryMarks {
    marks: MarkSet,
    nodes: HashMap<u64, WatchedDirectory>,
    by_key: HashMap<MarkKey, u64>,
    tops: Vec<u64>,
    next: u64,
    moving: Vec<PendingMove>,
    rescan: Rescan,
    is_full: bool,
    /// The directory of the last event, open.
    held: Option<(u64, OwnedFd, DirectoryId)>,
}

impl DirectoryMarks {
    pub(super) fn by_fanotify(is_unlimited: bool) -> Result<Self, Errno> {
        group(is_unlimited).map(|group| Self::new(MarkSet::Fanotify(group)))
    }

    pub(super) fn by_inotify() -> Result<Self, Errno> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        Inotify::init(flags).map(|inotify| Self::new(MarkSet::Inotify(inotify, HashMap::new())))
    }

    fn new(marks: MarkSet) -> Self {
        Self {
            marks,
            nodes: HashMap::new(),
            by_key: HashMap::new(),
            tops: Vec::new(),
            next: 0,
            moving: Vec::new(),
            rescan: Rescan::default(),
            is_full: false,
            held: None,
        }
    }

    fn queue_read(&self, core: &mut WatchCore, node: u64, filter: RescanFilter) {
        let target = ReadTarget::Node(node);
        core.tasks.push_front(ReadTask { engine: self.kind(), target, filter, tries: 0 });
    }

    fn handle(&mut self, core: &mut WatchCore, event: DirectoryEvent<'_>, report: ReportFn<'_>) {
        core.counts.events += 1;
        match event {
            DirectoryEvent::Lost => {}
            DirectoryEvent::Removed(key) => {
                if let Some(&node) = self.by_key.get(&key) {
                    self.forget(node, false);
                }
            }
            DirectoryEvent::Left { dir, name, cookie } => {
                let Some(&above) = self.by_key.get(&dir) else { return };
                let below = self.nodes.get_mut(&above).and_then(|above| above.below.remove(name));
                if let Some(node) = below {
                    self.held = None;
                    self.moving.push(PendingMove { node, cookie, since: Instant::now() });
                }
            }
            DirectoryEvent::Appeared { dir, entry } => {
                let Some(&above) = self.by_key.get(&dir) else { return };
                if let Some(violation) = core.check(entry.name) {
                    self.report(core, above, entry, violation, report);
                }
                if entry.is_dir {
                    self.directory_appeared(core, above, entry);
                }
            }
        }
    }

    fn report(
        &mut self,
        core: &mut WatchCore,
        dir: u64,
        AppearedEntry { name, origin, pid, .. }: AppearedEntry<'_>,
        violation: Violation,
        report: ReportFn<'_>,
    ) {
        let Some((root, below)) = self.path_from_root(dir) else { return };
        if self.held.as_ref().is_none_or(|(held, ..)| *held != dir) {
            let opened = core.roots[root].open_dir(&below).and_then(|fd| id(&fd).map(|id| (fd, id)));
            // Another directory may be at this path by now.
            let expected = self.nodes.get(&dir).and_then(|node| node.id);
            self.held = opened.ok().filter(|(_, id)| Some(*id) == expected).map(|(fd, id)| (dir, fd, id));
        }
        let (held, id) = (self.held.as_ref(), self.nodes.get(&dir).and_then(|node| node.id));
        let dir = held.map(|(_, fd, _)| fd.as_fd());
        let place = Some(DirectoryPlace { root, below: &below });
        core.report_event(&Sighting { place, id, dir, name, origin, pid, violation }, report);
    }

    /// Queues a new directory, which is marked when it is read. A known directory that was moved only gets its new path.
    fn directory_appeared(&mut self, core: &mut WatchCore, above: u64, entry: AppearedEntry<'_>) {
        let AppearedEntry { name, origin, cookie, .. } = entry;
        self.held = None;
        let moved = self.moving.iter().position(|moving| cookie != 0 && moving.cookie == cookie);
        if let Some(moved) = moved {
            let PendingMove { node, .. } = self.moving.swap_remove(moved);
            if !self.attach(node, above, name) {
                self.request_rescan(core);
            }
            // A pass in progress may have read the new parent already, and the old parent not yet. Without a pass the directory
            // is opened nevertheless, to check that it is the one that was expected.
            self.queue_read(core, node, self.rescan.filter().unwrap_or(RescanFilter::Nothing));
            return;
        }
        let node = self.child(above, name);
        self.queue_read(core, node, RescanFilter::All(origin));
    }

    /// Opens a directory from the queue at its expected path; `None` if it is not there.
    fn open(
        &mut self,
        core: &mut WatchCore,
        number: u64,
        place: DirectoryPlace<'_>,
        task: &ReadTask,
    ) -> Option<OwnedFd> {
        match core.roots[place.root].open_dir(place.below) {
            Ok(dir) => return Some(dir),
            // It was removed, or moved, which the next events will say. If its parent is not at its expected path either, wait for
            // the parent's events too, and after too many tries request another pass.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
                if task.tries == 0 || task.tries < MOST_TRIES && !self.is_above_in_place(core, number) {
                    core.deferred.push(ReadTask { tries: task.tries + 1, ..task.clone() });
                    return None;
                }
                if task.tries >= MOST_TRIES {
                    self.request_rescan(core);
                }
            }
            Err(Errno::EXDEV) => {}
            Err(errno) => core.fault(core.path(place), "watch", errno),
        }
        self.forget(number, true);
        None
    }

    /// Whether the parent of this directory is at its expected path.
    fn is_above_in_place(&self, core: &WatchCore, number: u64) -> bool {
        let Some(above) = self.nodes.get(&number).and_then(|node| node.above) else { return true };
        let Some((root, below)) = self.path_from_root(above) else { return false };
        let expected = self.nodes.get(&above).and_then(|node| node.id);
        core.roots[root].open_dir(&below).and_then(id).ok() == expected && expected.is_some()
    }

    /// Notes that a directory is read without a mark. Returns whether that was known.
    fn cannot_mark(
        &mut self,
        core: &mut WatchCore,
        place: DirectoryPlace<'_>,
        node: u64,
        errno: Errno,
    ) -> bool {
        if let Some(node) = self.nodes.get_mut(&node)
            && std::mem::replace(&mut node.is_unwatched, true)
        {
            return true;
        }
        if errno != Errno::ENOSPC {
            core.fault(core.path(place), "watch", errno);
            return false;
        }
        core.counts.unwatched += 1;
        if !std::mem::replace(&mut self.is_full, true) {
            let limit = match self.marks {
                MarkSet::Fanotify(_) => "fs.fanotify.max_user_marks",
                MarkSet::Inotify(..) => "fs.inotify.max_user_watches",
            };
            log::error!(
                "no more than {} directories can be watched by this user, and there are more: what appears in the others \
                 is not seen; as root, `sysctl -w {limit}=NUMBER` raises the limit",
                self.by_key.len()
            );
        }
        false
    }
}

impl Engine for DirectoryMarks {
    fn kind(&self) -> WatchEngine {
        match self.marks {
            MarkSet::Fanotify(_) => WatchEngine::FanotifyDirs,
            MarkSet::Inotify(..) => WatchEngine::Inotify,
        }
    }

    fn roots(&self) -> Vec<usize> {
        self.tops.iter().filter_map(|top| self.nodes.get(top)).map(|node| node.root).collect()
    }

    fn rescan(&self) -> &Rescan {
        &self.rescan
    }

    fn rescan_mut(&mut self) -> &mut Rescan {
        &mut self.rescan
    }

    fn directories(&self) -> usize {
        self.by_key.len()
    }

    fn is_waiting(&self) -> bool {
        !self.moving.is_empty() || self.rescan.is_waiting()
    }

    /// All directories in it are queued to be read.
    fn add(&mut self, core: &mut WatchCore, index: usize, filter: RescanFilter) -> Result<(), Errno> {
        let root = &core.roots[index];
        let key = mark(&mut self.marks, &root.dir)?;
        // A directory that is reached by two paths is watched once.
        if !self.by_key.contains_key(&key) {
            let node = WatchedDirectory::new(None, index, OsStr::new(""), self.rescan.number());
            let node = self.insert(WatchedDirectory { id: Some(root.id), ..node });
            self.tops.push(node);
            self.queue_read(core, node, filter);
        }
        Ok(())
    }

    fn remove(&mut self, index: usize) {
        let is_its = |top: &u64| self.nodes.get(top).is_some_and(|node| node.root == index);
        let (gone, kept) = std::mem::take(&mut self.tops).into_iter().partition::<Vec<u64>, _>(is_its);
        self.tops = kept;
        gone.into_iter().for_each(|top| self.forget(top, true));
    }

    fn handle_events(&mut self, core: &mut WatchCore, bytes: &[u8], report: ReportFn<'_>) -> bool {
        let (mut is_lost, is_fanotify) = (false, matches!(self.marks, MarkSet::Fanotify(_)));
        let mut take = |event: Result<[Option<DirectoryEvent<'_>>; 2], MalformedEvent>| match event {
            Ok([Some(DirectoryEvent::Lost), _]) => is_lost = true,
            Ok(both) => both.into_iter().flatten().for_each(|event| self.handle(core, event, report)),
            Err(malformed) => {
                log_malformed(malformed);
                is_lost = true;
            }
        };
        if is_fanotify {
            // One event has both ends of a move, so the two ends get the same number, and no other event has it.
            let cookies = 1..;
            for (event, cookie) in fanotify_events::events(bytes).zip(cookies) {
                take(event.map(|event| events_from_fanotify(&event, cookie)));
            }
        } else {
            inotify::events(bytes).for_each(|event| take(event.map(|e| [event_from_inotify(&e), None])));
        }
        self.held = None;
        is_lost
    }

    /// Marks and reads the directory.
    fn read(&mut self, core: &mut WatchCore, task: &ReadTask, report: ReportFn<'_>) {
        let ReadTarget::Node(number) = task.target else { return };
        let Some((root, below)) = self.path_from_root(number) else { return };
        let place = DirectoryPlace { root, below: &below };
        let Some(dir) = self.open(core, number, place, task) else { return };
        let was_read = self.nodes.get_mut(&number).is_some_and(|node| {
            node.pass = self.rescan.number();
            node.key.is_some()
        });
        let mut is_known = false;
        match mark(&mut self.marks, &dir) {
            Ok(key) => match self.record_key(number, key, &dir) {
                // Another directory has replaced this one, without an event so far. The path of the first one is unknown.
                MoveOutcome::New if was_read => self.request_rescan(core),
                MoveOutcome::New => {}
                MoveOutcome::Known => is_known = true,
                // The tree has it under its previous name.
                MoveOutcome::Moved(node) => {
                    self.request_rescan(core);
                    let filter =
                        self.rescan.filter().filter(|_| !matches!(task.filter, RescanFilter::Since { .. }));
                    if let Some(node) = node {
                        self.queue_read(core, node, filter.unwrap_or(task.filter));
                    }
                    return;
                }
            },
            Err(errno) => is_known = self.cannot_mark(core, place, number, errno),
        }
        let filter = match task.filter {
            RescanFilter::All(_) | RescanFilter::Nothing if is_known => return,
            // Everything in a new directory is new.
            RescanFilter::Since { .. } if !is_known => RescanFilter::All(Origin::Rescanned),
            RescanFilter::Nothing if was_read => RescanFilter::All(Origin::Rescanned),
            filter => filter,
        };
        let mut found = Vec::new();
        let mut put =
            |_: &mut WatchCore, name: &OsStr, filter: RescanFilter| found.push((name.to_owned(), filter));
        core.read(dir.as_fd(), place, filter, is_known, &mut put, report);
        for (name, filter) in found {
            let is_there = self.nodes.get(&number).is_some_and(|node| node.below.contains_key(&name));
            if !is_there || matches!(filter, RescanFilter::Since { .. }) {
                let child = self.child(number, &name);
                self.queue_read(core, child, filter);
            }
        }
    }

    /// Forgets directories that have left the tree.
    fn on_drained(&mut self) {
        while let Some(at) = self.moving.iter().position(|moving| moving.since.elapsed() >= MOVE) {
            let PendingMove { node, .. } = self.moving.swap_remove(at);
            self.forget(node, true);
        }
    }

    /// Directories that an undisturbed pass has not found are gone.
    fn on_idle(&mut self, core: &mut WatchCore) {
        match self.rescan.on_idle(Instant::now()) {
            RescanStep::Nothing => {}
            RescanStep::Read(filter) => self.tops.iter().for_each(|&top| self.queue_read(core, top, filter)),
            RescanStep::Covered => {
                let last = self.rescan.number();
                let is_gone =
                    |(number, node): (&u64, &WatchedDirectory)| (node.pass < last).then_some(*number);
                let gone: Vec<u64> = self.nodes.iter().filter_map(is_gone).collect();
                gone.into_iter().for_each(|node| self.forget(node, true));
            }
        }
    }
}

impl AsFd for DirectoryMarks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.marks.as_fd()
    }
}
