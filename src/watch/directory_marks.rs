//! Directory by directory, by marks of fanotify or watches of inotify: what is left where a whole file system cannot be
//! watched. It needs no rights but to read the directories.
//!
//! A tree of all directories is kept, so that an event leads to a path. A directory that appears is first marked and then read,
//! because names may have come into it before. What a directory is, is told by its mark alone: marking it again gives the same,
//! so that one that was moved is known again and one that took the place of another is not. Source: inotify(7), fanotify(7).

mod marks;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::inotify::{InitFlags, Inotify};

use self::marks::{DirectoryEvent, MarkKey, MarkSet, mark, of_fanotify, of_inotify};
use super::core::{Origin, ReadTarget, ReadTask, ReportFn, RescanFilter, Sighting, WatchCore};
use super::rescan::{Rescan, RescanStep};
use super::root::{DirectoryId, id};
use super::{fanotify, inotify};
use crate::sys::fanotify::group;

/// What one read may fill.
const BUFFER: usize = 256 * 1024;

/// How often a directory is looked for while the ones above it are being renamed.
const MOST_TRIES: u8 = 8;

/// Both halves of a renaming have been read by then.
const MOVE: Duration = Duration::from_millis(500);

/// A directory of the tree.
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
    /// In which reading of all it was met last.
    reading: u32,
    /// It was read without being marked, because there are too many.
    is_unwatched: bool,
}

/// A directory that was moved away, and not yet to somewhere.
#[derive(Debug)]
struct PendingMove {
    node: u64,
    cookie: u32,
    since: Instant,
}

#[derive(Debug)]
pub(super) struct DirectoryMarks {
    /// Its number among the engines.
    index: usize,
    marks: MarkSet,
    buffer: Vec<u8>,
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
    pub(super) fn by_fanotify(index: usize, is_unlimited: bool) -> Result<Self, Errno> {
        group(is_unlimited).map(|group| Self::new(index, MarkSet::Fanotify(group)))
    }

    pub(super) fn by_inotify(index: usize) -> Result<Self, Errno> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        Inotify::init(flags).map(|inotify| Self::new(index, MarkSet::Inotify(inotify, HashMap::new())))
    }

    fn new(index: usize, marks: MarkSet) -> Self {
        Self {
            index,
            marks,
            buffer: vec![0; BUFFER],
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

    pub(super) fn is_fanotify(&self) -> bool {
        matches!(self.marks, MarkSet::Fanotify(_))
    }

    /// How many directories are watched.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether halves of renamings are waited for, or the time of the next reading.
    pub(super) fn is_waiting(&self) -> bool {
        !self.moving.is_empty() || self.rescan.is_waiting()
    }

    /// Whether what came while events were lost has been found, as far as it is still there.
    pub(super) fn is_covered(&self) -> bool {
        self.rescan.is_covered()
    }

    /// Whether all is being read again.
    pub(super) fn is_rescanning(&self) -> bool {
        self.rescan.is_going_on()
    }

    /// The watch ends: what is to be read again is read at once.
    pub(super) fn hurry(&mut self) {
        self.rescan.hurry();
    }

    /// Watches the tree of the root `index`; the directories in it wait to be read.
    pub(super) fn add(
        &mut self,
        core: &mut WatchCore,
        index: usize,
        filter: RescanFilter,
    ) -> Result<(), Errno> {
        let root = &core.roots[index];
        let key = mark(&mut self.marks, &root.dir)?;
        let node = self.put(WatchedDirectory {
            above: None,
            root: index,
            name: OsString::new(),
            key: None,
            id: Some(root.id),
            below: HashMap::new(),
            reading: self.rescan.number(),
            is_unwatched: false,
        });
        // The same directory under two names is watched once.
        if self.by_key.contains_key(&key) {
            self.nodes.remove(&node);
            return Ok(());
        }
        self.tops.push(node);
        self.wait(core, node, filter);
        Ok(())
    }

    fn put(&mut self, node: WatchedDirectory) -> u64 {
        self.next += 1;
        self.nodes.insert(self.next, node);
        self.next
    }

    fn wait(&self, core: &mut WatchCore, node: u64, filter: RescanFilter) {
        core.works.push_front(ReadTask {
            target: ReadTarget::Node { engine: self.index, node },
            filter,
            tries: 0,
        });
    }

    /// The directory's root, and its path from there.
    fn place(&self, node: u64) -> Option<(usize, PathBuf)> {
        let mut names = Vec::new();
        let mut at = self.nodes.get(&node)?;
        while let Some(above) = at.above {
            names.push(at.name.as_os_str());
            at = self.nodes.get(&above)?;
        }
        names.reverse();
        Some((at.root, names.join(OsStr::new("/")).into()))
    }

    /// Reads what waits, once; whether anything did.
    pub(super) fn turn(&mut self, core: &mut WatchCore, tell: ReportFn<'_>) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let filled = match nix::unistd::read(&self.marks, &mut buffer) {
            Ok(filled) => filled,
            Err(Errno::EAGAIN | Errno::EINTR) => 0,
            Err(errno) => {
                core.fault(PathBuf::from("the queue"), "read events of", errno);
                0
            }
        };
        let (mut is_lost, is_fanotify) = (false, self.is_fanotify());
        let mut take =
            |happened: Result<[Option<DirectoryEvent<'_>>; 2], fanotify::MalformedEvent>| match happened {
                Ok([Some(DirectoryEvent::Lost), _]) => is_lost = true,
                Ok(both) => both.into_iter().flatten().for_each(|happened| self.take(core, happened, tell)),
                Err(malformed) => {
                    log::error!("cannot parse an event of the kernel: {malformed}");
                    is_lost = true;
                }
            };
        if is_fanotify {
            // Both halves of a renaming come in one event. The halves of others are never found by this number.
            let cookies = 1..;
            for (event, cookie) in fanotify::events(&buffer[..filled]).zip(cookies) {
                take(event.map(|event| of_fanotify(&event, cookie)));
            }
        } else {
            inotify::events(&buffer[..filled]).for_each(|event| take(event.map(|e| [of_inotify(&e), None])));
        }
        self.buffer = buffer;
        self.held = None;
        if is_lost {
            core.count_lost();
            let filter = core.since_lost(self.roots());
            self.rescan.lost(filter);
        }
        filled > 0
    }

    fn roots(&self) -> impl Iterator<Item = usize> {
        self.tops.iter().filter_map(|top| self.nodes.get(top)).map(|node| node.root)
    }

    /// What is found contradicts what events have told: a directory may have escaped both.
    fn doubt(&mut self, core: &WatchCore) {
        let filter = core.since_lost(self.roots());
        self.rescan.doubt(filter, Instant::now());
    }

    fn take(&mut self, core: &mut WatchCore, happened: DirectoryEvent<'_>, tell: ReportFn<'_>) {
        core.counts.events += 1;
        match happened {
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
            DirectoryEvent::Appeared { dir, name, how, is_dir, pid, cookie } => {
                let Some(&above) = self.by_key.get(&dir) else { return };
                if let Some(violation) = core.check(name) {
                    self.report(core, above, (name, how, pid, violation), tell);
                }
                if is_dir {
                    self.enter(core, above, name, (how, cookie));
                }
            }
        }
    }

    fn report(
        &mut self,
        core: &mut WatchCore,
        dir: u64,
        (name, how, pid, violation): (&OsStr, Origin, i32, crate::policy::Violation),
        tell: ReportFn<'_>,
    ) {
        let Some((root, below)) = self.place(dir) else { return };
        if self.held.as_ref().is_none_or(|(held, ..)| *held != dir) {
            let opened = core.roots[root].open_dir(&below).and_then(|fd| id(&fd).map(|id| (fd, id)));
            // Another directory may stand there by now.
            let expected = self.nodes.get(&dir).and_then(|node| node.id);
            self.held = opened.ok().filter(|(_, id)| Some(*id) == expected).map(|(fd, id)| (dir, fd, id));
        }
        let (held, id) = (self.held.as_ref(), self.nodes.get(&dir).and_then(|node| node.id));
        let dir = held.map(|(_, fd, _)| fd.as_fd());
        core.report_event(
            &Sighting { place: Some((root, &below)), id, dir, name, how, pid, violation },
            tell,
        );
    }

    /// A directory has appeared: it is marked and read in its turn, unless it is known and was only moved.
    fn enter(&mut self, core: &mut WatchCore, above: u64, name: &OsStr, (how, cookie): (Origin, u32)) {
        self.held = None;
        let moved = self.moving.iter().position(|moving| cookie != 0 && moving.cookie == cookie);
        if let Some(moved) = moved {
            let PendingMove { node, .. } = self.moving.swap_remove(moved);
            if !self.hang(node, above, name) {
                self.doubt(core);
            }
            // Whoever reads the tree may have passed its new place and not have come to the old one. Without that it is opened
            // all the same: what was moved need not be what was thought to stand there.
            self.wait(core, node, self.rescan.filter().unwrap_or(RescanFilter::Nothing));
            return;
        }
        let node = self.child(above, name);
        self.wait(core, node, RescanFilter::All(how));
    }

    /// The directory `name` in `above`, which may be new.
    fn child(&mut self, above: u64, name: &OsStr) -> u64 {
        let Some(node) = self.nodes.get(&above) else { return 0 };
        if let Some(&known) = node.below.get(name) {
            return known;
        }
        let (root, reading) = (node.root, self.rescan.number());
        let child = self.put(WatchedDirectory {
            above: Some(above),
            root,
            name: name.to_owned(),
            key: None,
            id: None,
            below: HashMap::new(),
            reading,
            is_unwatched: false,
        });
        if let Some(node) = self.nodes.get_mut(&above) {
            node.below.insert(name.to_owned(), child);
        }
        child
    }

    /// Puts `node` under another name, in the place of what is there. If that cannot be, the tree is out of date: the node is
    /// forgotten, with all below it, and has to be found anew.
    fn hang(&mut self, node: u64, above: u64, name: &OsStr) -> bool {
        // A directory is never moved below itself.
        let mut at = Some(above);
        while let Some(number) = at {
            if number == node {
                self.forget(node, true);
                return false;
            }
            at = self.nodes.get(&number).and_then(|node| node.above);
        }
        let Some(root) = self.nodes.get(&above).map(|above| above.root) else { return false };
        let Some(moved) = self.nodes.get_mut(&node) else { return false };
        let (old_above, old_name) = (moved.above, std::mem::replace(&mut moved.name, name.to_owned()));
        (moved.above, moved.root) = (Some(above), root);
        if let Some(old) = old_above.and_then(|old| self.nodes.get_mut(&old))
            && old.below.get(&old_name) == Some(&node)
        {
            old.below.remove(&old_name);
        }
        let replaced = self.nodes.get_mut(&above).and_then(|above| above.below.insert(name.to_owned(), node));
        if let Some(replaced) = replaced.filter(|replaced| *replaced != node) {
            self.forget(replaced, true);
        }
        true
    }

    /// Takes a directory, and all below it, out of the tree.
    fn forget(&mut self, node: u64, unmarks: bool) {
        self.held = None;
        let mut all = vec![node];
        while let Some(number) = all.pop() {
            let Some(node) = self.nodes.remove(&number) else { continue };
            if let Some(above) = node.above.and_then(|above| self.nodes.get_mut(&above))
                && above.below.get(&node.name) == Some(&number)
            {
                above.below.remove(&node.name);
            }
            if let Some(key) = node.key
                && self.by_key.get(&key) == Some(&number)
            {
                self.by_key.remove(&key);
                // A mark of fanotify goes with its directory; until then its events are passed over.
                if let (MarkKey::Watch(watch), MarkSet::Inotify(inotify, watches)) = (&key, &mut self.marks)
                    && let Some(watch) = watches.remove(watch).filter(|_| unmarks)
                {
                    // It fails for a directory that was removed at this moment.
                    let _ = inotify.rm_watch(watch);
                }
            }
            all.extend(node.below.into_values());
        }
    }

    /// Every event of what happened until now has been read.
    pub(super) fn is_drained(&mut self) {
        while let Some(at) = self.moving.iter().position(|moving| moving.since.elapsed() >= MOVE) {
            let PendingMove { node, .. } = self.moving.swap_remove(at);
            self.forget(node, true);
        }
    }

    /// Nothing waits to be read any more, and no event: what a reading that nothing has disturbed has not met is gone.
    pub(super) fn has_read_all(&mut self, core: &mut WatchCore) {
        match self.rescan.has_read_all(Instant::now()) {
            RescanStep::Nothing => {}
            RescanStep::Read(filter) => self.tops.iter().for_each(|&top| self.wait(core, top, filter)),
            RescanStep::Covered => {
                let last = self.rescan.number();
                let is_gone =
                    |(number, node): (&u64, &WatchedDirectory)| (node.reading < last).then_some(*number);
                let gone: Vec<u64> = self.nodes.iter().filter_map(is_gone).collect();
                gone.into_iter().for_each(|node| self.forget(node, true));
            }
        }
    }

    /// Marks and reads a directory that waits.
    pub(super) fn read(&mut self, core: &mut WatchCore, number: u64, work: &ReadTask, tell: ReportFn<'_>) {
        let Some((root, below)) = self.place(number) else { return };
        let dir = match core.roots[root].open_dir(&below) {
            Ok(dir) => dir,
            // It was moved, which the next events tell, or is gone. If the directory above is not where it was thought to be
            // either, that is waited for too, and at last a doubt.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
                if work.tries == 0 || work.tries < MOST_TRIES && !self.is_above_in_place(core, number) {
                    return core.deferred.push(ReadTask { tries: work.tries + 1, ..work.clone() });
                }
                if work.tries >= MOST_TRIES {
                    self.doubt(core);
                }
                return self.forget(number, true);
            }
            Err(errno) => {
                if errno != Errno::EXDEV {
                    core.fault(core.path(root, &below), "watch", errno);
                }
                return self.forget(number, true);
            }
        };
        let was_read = self.nodes.get_mut(&number).is_some_and(|node| {
            node.reading = self.rescan.number();
            node.key.is_some()
        });
        let mut is_known = false;
        match mark(&mut self.marks, &dir) {
            Ok(key) => match self.settle(number, key, &dir) {
                // Another directory stands in the place of the one that was there, and no event has told of that yet: where the
                // first one is, is not known.
                MoveOutcome::New if was_read => self.doubt(core),
                MoveOutcome::New => {}
                MoveOutcome::Known => is_known = true,
                // It is in the tree already, under the name that it had, and now under this one.
                MoveOutcome::Moved(node) => {
                    self.doubt(core);
                    let filter =
                        self.rescan.filter().filter(|_| !matches!(work.filter, RescanFilter::Since { .. }));
                    if let Some(node) = node {
                        self.wait(core, node, filter.unwrap_or(work.filter));
                    }
                    return;
                }
            },
            Err(errno) => is_known = self.cannot_mark(core, (root, &below), (number, errno)),
        }
        let filter = match work.filter {
            RescanFilter::All(_) | RescanFilter::Nothing if is_known => return,
            // What is new in the tree is so with all that it holds.
            RescanFilter::Since { .. } if !is_known => RescanFilter::All(Origin::Rescanned),
            RescanFilter::Nothing if was_read => RescanFilter::All(Origin::Rescanned),
            filter => filter,
        };
        let mut found = Vec::new();
        let mut put =
            |_: &mut WatchCore, name: &OsStr, filter: RescanFilter| found.push((name.to_owned(), filter));
        core.read(dir.as_fd(), (root, &below), filter, is_known, &mut put, tell);
        for (name, filter) in found {
            let is_there = self.nodes.get(&number).is_some_and(|node| node.below.contains_key(&name));
            if !is_there || matches!(filter, RescanFilter::Since { .. }) {
                let child = self.child(number, &name);
                self.wait(core, child, filter);
            }
        }
    }

    /// Whether the directory that holds this one is the one that is known, where it should be.
    fn is_above_in_place(&self, core: &WatchCore, number: u64) -> bool {
        let Some(above) = self.nodes.get(&number).and_then(|node| node.above) else { return true };
        let Some((root, below)) = self.place(above) else { return false };
        let expected = self.nodes.get(&above).and_then(|node| node.id);
        core.roots[root].open_dir(&below).and_then(id).ok() == expected && expected.is_some()
    }

    /// Notes by which mark a directory is known.
    fn settle(&mut self, number: u64, key: MarkKey, dir: &OwnedFd) -> MoveOutcome {
        let (above, name) = match self.nodes.get(&number) {
            Some(node) => {
                if node.key.as_ref() == Some(&key) {
                    return MoveOutcome::Known;
                }
                (node.above, node.name.clone())
            }
            None => return MoveOutcome::Moved(None),
        };
        if let Some(&other) = self.by_key.get(&key) {
            let is_top = self.nodes.get(&other).is_none_or(|other| other.above.is_none());
            return match above.filter(|_| !is_top) {
                Some(above) => {
                    self.moving.retain(|moving| moving.node != other);
                    MoveOutcome::Moved(self.hang(other, above, &name).then_some(other))
                }
                None => {
                    self.forget(number, false);
                    MoveOutcome::Moved(None)
                }
            };
        }
        let id = id(dir).ok();
        let Some(node) = self.nodes.get_mut(&number) else { return MoveOutcome::Moved(None) };
        let old = node.key.replace(key.clone());
        (node.id, node.is_unwatched) = (id, false);
        // What was known under this name is another directory now: it was removed, or moved away.
        let stale = if old.is_some() { std::mem::take(&mut node.below) } else { HashMap::new() };
        if let Some(old) = old.filter(|old| self.by_key.get(old) == Some(&number)) {
            self.by_key.remove(&old);
        }
        stale.into_values().for_each(|node| self.forget(node, true));
        self.by_key.insert(key, number);
        MoveOutcome::New
    }

    /// A directory is read without being marked. Whether it was before.
    fn cannot_mark(
        &mut self,
        core: &mut WatchCore,
        (root, below): (usize, &Path),
        (node, errno): (u64, Errno),
    ) -> bool {
        if let Some(node) = self.nodes.get_mut(&node)
            && std::mem::replace(&mut node.is_unwatched, true)
        {
            return true;
        }
        if errno != Errno::ENOSPC {
            core.fault(core.path(root, below), "watch", errno);
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

/// What the mark of a directory tells.
enum MoveOutcome {
    /// It was not marked.
    New,
    /// It is the one that was there before.
    Known,
    /// It is in the tree under another number.
    Moved(Option<u64>),
}

impl AsFd for DirectoryMarks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.marks.as_fd()
    }
}
