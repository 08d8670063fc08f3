//! Watches whole file systems, by one fanotify mark each: no directory has to be read first, and none is missed.
//!
//! An event identifies its directory by a kernel file handle. Handles are looked up only for names that break the policy, when
//! they are reported, so the report has the current path even if the directory was renamed since.
//! Needs CAP_SYS_ADMIN, and CAP_DAC_READ_SEARCH for the handles. Sources: fanotify(7), open_by_handle_at(2).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use namegate_sys::directory;
use namegate_sys::fanotify::{fsid, group, mark_file_system};
use namegate_sys::handle::{self, KernelHandle};
use namegate_sys::open::{again, path_of};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlink};
use nix::sys::fanotify::Fanotify;
use nix::sys::stat::{Mode, fstat};

use super::WatchEngine;
use super::core::{
    DirectoryPlace, Origin, ReadTarget, ReadTask, ReportFn, RescanFilter, Sighting, WatchCore, child,
};
use super::engine::{Engine, log_malformed};
use super::rescan::{Rescan, RescanStep};
use super::root::{DirectoryId, id};
use namegate_sys::fanotify_events::{EventEntry, EventObject, FanotifyEvent, events};

/// Number of directories whose last location is remembered.
const REMEMBERED: usize = 1 << 15;

const PASS: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// Identifies a directory in events: file system and handle.
type HandleKey = ([u8; 8], KernelHandle);

/// Where a directory is.
#[derive(Clone, Debug)]
enum DirectoryLocation {
    Inside(Rc<HeldDirectory>),
    Outside,
    /// The directory is gone. Its last location, if that is known.
    Gone(Option<(usize, PathBuf)>),
}

#[derive(Debug)]
struct HeldDirectory {
    root: usize,
    below: PathBuf,
    dir: OwnedFd,
    id: DirectoryId,
}

#[derive(Debug)]
pub(super) struct FilesystemMark {
    group: Fanotify,
    /// The roots on each file system.
    systems: HashMap<[u8; 8], Vec<usize>>,
    /// Where directories were when they were last looked up; `None` for outside of all roots.
    last_locations: HashMap<HandleKey, Option<(usize, PathBuf)>>,
    /// The ids of those directories.
    ids: HashMap<HandleKey, DirectoryId>,
    /// Where directories were created, to locate one that is gone before it was looked up.
    made: HashMap<HandleKey, (HandleKey, OsString)>,
    /// Lookups for the current batch of events.
    locations: HashMap<HandleKey, DirectoryLocation>,
    rescan: Rescan,
    /// Roots that are being read for the first time.
    reading: HashMap<usize, RescanFilter>,
}

impl FilesystemMark {
    pub(super) fn new(is_unlimited: bool) -> Result<Self, Errno> {
        Ok(Self {
            group: group(is_unlimited)?,
            systems: HashMap::new(),
            last_locations: HashMap::new(),
            ids: HashMap::new(),
            made: HashMap::new(),
            locations: HashMap::new(),
            rescan: Rescan::default(),
            reading: HashMap::new(),
        })
    }

    fn handle(&mut self, core: &mut WatchCore, event: &FanotifyEvent<'_>, report: ReportFn<'_>) {
        core.counts.events += 1;
        let renamed = event.to.or(event.entry.filter(|_| event.mask & libc::FAN_MOVED_TO != 0));
        let made = event.entry.filter(|_| event.mask & libc::FAN_CREATE != 0);
        let is_dir = event.mask & libc::FAN_ONDIR != 0;
        let (Some(entry), origin) = (match renamed {
            Some(entry) => (Some(entry), Origin::Renamed),
            None => (made, Origin::Made { is_dir }),
        }) else {
            return;
        };
        if is_dir {
            self.remember_made(event, entry);
            if renamed.is_some() {
                self.handle_renamed_directory(core, event.from, entry);
            }
        }
        let Some(violation) = core.check(entry.name) else { return };
        let place = self.locate(core, entry.dir);
        let (name, pid) = (entry.name, event.pid);
        let mut sighting = Sighting { place: None, id: None, dir: None, name, origin, pid, violation };
        match &place {
            DirectoryLocation::Outside => {}
            DirectoryLocation::Inside(held) => {
                sighting.place = Some(DirectoryPlace { root: held.root, below: &held.below });
                (sighting.id, sighting.dir) = (Some(held.id), Some(held.dir.as_fd()));
                core.report_event(&sighting, report);
            }
            DirectoryLocation::Gone(Some((root, below))) => {
                sighting.place = Some(DirectoryPlace { root: *root, below });
                sighting.id = key(entry.dir).and_then(|key| self.ids.get(&key).copied());
                core.report_event(&sighting, report);
            }
            DirectoryLocation::Gone(None) => core.report_unplaced(entry.name, &violation),
        }
    }

    fn remember_made(&mut self, event: &FanotifyEvent<'_>, entry: EventEntry<'_>) {
        let Some((target, dir)) = event.target.and_then(key).zip(key(entry.dir)) else { return };
        if self.made.len() >= REMEMBERED {
            self.made.clear();
        }
        self.made.insert(target, (dir, entry.name.to_owned()));
    }

    /// Handles the renaming of a directory. If it comes from outside, everything in it has appeared too.
    fn handle_renamed_directory(
        &mut self,
        core: &mut WatchCore,
        from: Option<EventEntry<'_>>,
        to: EventEntry<'_>,
    ) {
        // Cached locations may be outdated.
        self.locations.clear();
        let DirectoryLocation::Inside(held) = self.locate(core, to.dir) else { return };
        let was_inside = from.is_some_and(|from| match self.locate(core, from.dir) {
            DirectoryLocation::Inside(_) | DirectoryLocation::Gone(Some(_)) => true,
            DirectoryLocation::Outside | DirectoryLocation::Gone(None) => false,
        });
        let filter = match was_inside {
            false => RescanFilter::All(Origin::Renamed),
            // What is being read may have been read at the new parent already, and at the old parent not yet.
            true => match self.reading.get(&held.root).copied().or(self.rescan.filter()) {
                Some(filter) => filter,
                None => return,
            },
        };
        core.tasks.push_back(task(held.root, child(&held.below, to.name), filter));
    }

    /// Looks up where the directory is now.
    fn locate(&mut self, core: &WatchCore, dir: EventObject<'_>) -> DirectoryLocation {
        let Some(key) = key(dir) else { return DirectoryLocation::Gone(None) };
        if let Some(known) = self.locations.get(&key) {
            return known.clone();
        }
        // A file system that was watched stays marked: its directories may be in other trees.
        let Some(roots) = self.systems.get(&dir.fsid) else { return DirectoryLocation::Outside };
        let found = find(core, roots, &key.1).unwrap_or_else(|| match self.last_location(core, &key, 0) {
            Some(None) => DirectoryLocation::Outside,
            last => DirectoryLocation::Gone(last.flatten()),
        });
        let last = match &found {
            DirectoryLocation::Inside(held) => {
                self.ids.insert(key.clone(), held.id);
                Some(Some((held.root, held.below.clone())))
            }
            DirectoryLocation::Outside => Some(None),
            DirectoryLocation::Gone(_) => None,
        };
        if let Some(last) = last {
            if self.last_locations.len() >= REMEMBERED {
                self.last_locations.clear();
                self.ids.clear();
            }
            self.last_locations.insert(key.clone(), last);
        }
        self.locations.insert(key, found.clone());
        found
    }

    /// The last location of a directory that is gone: `Some(None)` for outside, `None` if that is not known.
    fn last_location(
        &self,
        core: &WatchCore,
        key: &HandleKey,
        depth: usize,
    ) -> Option<Option<(usize, PathBuf)>> {
        /// Deeper trees are rarely created and removed at once.
        const DEEPEST: usize = 64;
        if let Some(last) = self.last_locations.get(key) {
            return Some(last.clone());
        }
        let (above, name) = self.made.get(key).filter(|_| depth < DEEPEST)?;
        let roots = self.systems.get(&above.0).map_or(&[][..], Vec::as_slice);
        let place = match find(core, roots, &above.1) {
            Some(DirectoryLocation::Inside(held)) => Some((held.root, held.below.clone())),
            Some(_) => None,
            None => self.last_location(core, above, depth + 1)?,
        };
        Some(place.map(|(root, below)| (root, child(&below, name))))
    }

    fn queue_root(&self, core: &mut WatchCore, root: usize, filter: RescanFilter) {
        core.tasks.push_back(task(root, PathBuf::new(), filter));
    }
}

fn task(root: usize, below: PathBuf, filter: RescanFilter) -> ReadTask {
    let target = ReadTarget::Path { root, below };
    ReadTask { engine: WatchEngine::Fanotify, target, filter, tries: 0 }
}

impl Engine for FilesystemMark {
    fn kind(&self) -> WatchEngine {
        WatchEngine::Fanotify
    }

    fn roots(&self) -> Vec<usize> {
        self.systems.values().flatten().copied().collect()
    }

    fn rescan(&self) -> &Rescan {
        &self.rescan
    }

    fn rescan_mut(&mut self) -> &mut Rescan {
        &mut self.rescan
    }

    fn add(&mut self, core: &mut WatchCore, index: usize, filter: RescanFilter) -> Result<(), Errno> {
        let root = &core.roots[index];
        // Check that this file system has handles, and that this process may open them.
        let (handle, _) = handle::from_fd(&root.dir)?;
        let opened = handle::open(&root.dir, &handle, PASS)?;
        if id(&opened)? != root.id {
            return Err(Errno::EOPNOTSUPP);
        }
        let system = fsid(&root.dir)?;
        mark_file_system(&self.group, &root.dir)?;
        self.systems.entry(system).or_default().push(index);
        if filter != RescanFilter::Nothing {
            self.reading.insert(index, filter);
            self.queue_root(core, index, filter);
        }
        Ok(())
    }

    /// Forgets what is known of directories in it, too.
    fn remove(&mut self, index: usize) {
        self.systems.values_mut().for_each(|roots| roots.retain(|&root| root != index));
        self.systems.retain(|_, roots| !roots.is_empty());
        self.reading.remove(&index);
        self.last_locations.clear();
        self.ids.clear();
        self.made.clear();
    }

    fn on_idle(&mut self, core: &mut WatchCore) {
        self.reading.clear();
        if let RescanStep::Read(filter) = self.rescan.on_idle(Instant::now()) {
            self.roots().into_iter().for_each(|root| self.queue_root(core, root, filter));
        }
    }

    fn handle_events(&mut self, core: &mut WatchCore, bytes: &[u8], report: ReportFn<'_>) -> bool {
        let mut is_lost = false;
        for event in events(bytes) {
            match event {
                Ok(event) if event.mask & libc::FAN_Q_OVERFLOW != 0 => is_lost = true,
                Ok(event) => self.handle(core, &event, report),
                Err(malformed) => {
                    log_malformed(malformed);
                    is_lost = true;
                }
            }
        }
        self.locations.clear();
        is_lost
    }

    fn read(&mut self, core: &mut WatchCore, read: &ReadTask, report: ReportFn<'_>) {
        let ReadTarget::Path { root, below } = &read.target else { return };
        let place = DirectoryPlace { root: *root, below };
        let dir = match core.roots[*root].open_dir(below) {
            Ok(dir) => dir,
            // The directory was moved here with names in it, and a directory above it has been renamed since, so it is no longer at
            // this path. The event of the directory above does not cause a read of what is below.
            Err(Errno::ENOENT | Errno::ENOTDIR)
                if matches!(read.filter, RescanFilter::All(Origin::Renamed)) =>
            {
                return self.request_rescan(core);
            }
            // Another file system is a root of its own, or not wanted. If the directory was moved, an event says so.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => return,
            Err(errno) => return core.fault(core.path(place), "open", errno),
        };
        let mut put = |core: &mut WatchCore, name: &OsStr, filter: RescanFilter| {
            core.tasks.push_front(task(*root, child(below, name), filter));
        };
        core.read(dir.as_fd(), place, read.filter, false, &mut put, report);
    }
}

impl AsFd for FilesystemMark {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_fd()
    }
}

fn key(object: EventObject<'_>) -> Option<HandleKey> {
    KernelHandle::from_parts(object.kind, object.handle).map(|handle| (object.fsid, handle))
}

/// Looks up a directory by its handle; `None` if it is gone.
fn find(core: &WatchCore, roots: &[usize], handle: &KernelHandle) -> Option<DirectoryLocation> {
    // A lookup fails if the directory is renamed at the same moment.
    const TRIES: usize = 8;
    let any_root = &core.roots[*roots.first()?];
    let dir = handle::open(&any_root.dir, handle, PASS).ok()?;
    let stat = fstat(&dir).ok()?;
    // A removed directory that is still open has no links.
    if stat.st_nlink == 0 {
        return None;
    }
    let id = (stat.st_dev, stat.st_ino);
    for _ in 0..TRIES {
        let found = by_path(core, roots, &dir, id).or_else(|| by_climbing(core, roots, &dir, id));
        match found {
            Some(Some((root, below))) => {
                return Some(DirectoryLocation::Inside(Rc::new(HeldDirectory { root, below, dir, id })));
            }
            Some(None) => return Some(DirectoryLocation::Outside),
            None => {}
        }
    }
    None
}

/// Locates a directory by the path that the kernel reports, after checking that the path leads to it; `None` if that is not
/// conclusive.
fn by_path(
    core: &WatchCore,
    roots: &[usize],
    dir: &OwnedFd,
    found: DirectoryId,
) -> Option<Option<(usize, PathBuf)>> {
    let path = PathBuf::from(readlink(path_of(dir).as_str()).ok()?);
    let mut is_apart = true;
    for &root in roots {
        let top = PathBuf::from(readlink(path_of(&core.roots[root].dir).as_str()).ok()?);
        let Ok(below) = path.strip_prefix(&top) else { continue };
        is_apart = false;
        if core.roots[root].open_dir(below).and_then(id) == Ok(found) {
            return Some(Some((root, below.to_path_buf())));
        }
    }
    // If a part of the file system is mounted elsewhere too, the directory has other paths as well.
    (is_apart && is_mounted_once(core, roots)).then_some(None)
}

/// Whether all roots are in one mount of the whole file system, where each directory has exactly one path.
fn is_mounted_once(core: &WatchCore, roots: &[usize]) -> bool {
    let mount = roots.first().and_then(|&root| core.roots[root].mount);
    roots.iter().all(|&root| core.roots[root].is_on_whole && core.roots[root].mount == mount)
}

/// Locates a directory by walking up from it: slow, but correct for all mounts and depths.
fn by_climbing(
    core: &WatchCore,
    roots: &[usize],
    dir: &OwnedFd,
    found: DirectoryId,
) -> Option<Option<(usize, PathBuf)>> {
    let (mut names, mut held, mut at) = (Vec::<OsString>::new(), None::<OwnedFd>, found);
    loop {
        if let Some(&root) = roots.iter().find(|&&root| core.roots[root].id == at) {
            names.reverse();
            let below = names.join(OsStr::new("/"));
            return Some(Some((root, below.into())));
        }
        let above = openat(held.as_ref().unwrap_or(dir), "..", PASS, Mode::empty()).ok()?;
        let next = id(&above).ok()?;
        if next == at || next.0 != at.0 {
            return Some(None);
        }
        names.push(name_in(&above, at.1)?);
        (held, at) = (Some(above), next);
    }
}

/// The name in `dir` of the directory with the inode number `ino`.
fn name_in(dir: &OwnedFd, ino: u64) -> Option<OsString> {
    let dir = again(dir, OFlag::O_RDONLY | OFlag::O_DIRECTORY).ok()?;
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let filled = directory::read(&dir, &mut buffer).ok().filter(|&filled| filled > 0)?;
        let mut rest = &buffer[..filled];
        while let Some((entry, len)) = directory::first(rest) {
            if entry.ino == ino && !matches!(entry.name.as_bytes(), b"." | b"..") {
                return Some(OsString::from_vec(entry.name.as_bytes().to_vec()));
            }
            rest = &rest[len..];
        }
    }
}
