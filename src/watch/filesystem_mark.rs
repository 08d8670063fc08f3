//! Whole file systems, by one fanotify mark each: no directory is read before names appear, and none is missed.
//!
//! An event names its directory by a kernel file handle. That is looked up for names that break the policy alone, at the
//! moment at which they are reported, so that a directory that was renamed meanwhile is told under its present name.
//! It needs CAP_SYS_ADMIN, and CAP_DAC_READ_SEARCH for the handles. Source: fanotify(7), open_by_handle_at(2).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlink};
use nix::sys::fanotify::Fanotify;
use nix::sys::stat::{Mode, fstat};

use super::core::{Origin, ReadTarget, ReadTask, ReportFn, RescanFilter, Sighting, WatchCore, child};
use super::fanotify::{EventEntry, EventObject, FanotifyEvent, events};
use super::rescan::{Rescan, RescanStep};
use super::root::{DirectoryId, WatchRoot, id};
use crate::sys::directory;
use crate::sys::fanotify::{fsid, group, mark_file_system};
use crate::sys::handle::{self, KernelHandle};
use crate::sys::open::{again, path_of};

/// What one read may fill.
const BUFFER: usize = 256 * 1024;

/// Of so many directories it is remembered where they were.
const REMEMBERED: usize = 1 << 15;

const PASS: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// A directory, as events name it.
type HandleKey = ([u8; 8], KernelHandle);

/// Where a directory is.
#[derive(Clone, Debug)]
enum DirectoryPlace {
    Inside(Rc<HeldDirectory>),
    Outside,
    /// It is gone; it was there, if that is known.
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
    buffer: Vec<u8>,
    /// The roots on each file system.
    systems: HashMap<[u8; 8], Vec<usize>>,
    /// Where directories were when they were last looked up; `None` for outside.
    last: HashMap<HandleKey, Option<(usize, PathBuf)>>,
    /// Which directories those are.
    ids: HashMap<HandleKey, DirectoryId>,
    /// Where directories were made, so that one that is gone before it was looked up can be placed.
    made: HashMap<HandleKey, (HandleKey, OsString)>,
    /// What was looked up for the events at hand.
    places: HashMap<HandleKey, DirectoryPlace>,
    rescan: Rescan,
}

impl FilesystemMark {
    pub(super) fn new(is_unlimited: bool) -> Result<Self, Errno> {
        Ok(Self {
            group: group(is_unlimited)?,
            buffer: vec![0; BUFFER],
            systems: HashMap::new(),
            last: HashMap::new(),
            ids: HashMap::new(),
            made: HashMap::new(),
            places: HashMap::new(),
            rescan: Rescan::default(),
        })
    }

    /// Watches the file system of `root`.
    pub(super) fn add(&mut self, index: usize, root: &WatchRoot) -> Result<(), Errno> {
        // Whether handles can be opened here, and by us.
        let (handle, _) = handle::from_fd(&root.dir)?;
        let opened = handle::open(&root.dir, &handle, PASS)?;
        if id(&opened)? != root.id {
            return Err(Errno::EOPNOTSUPP);
        }
        let system = fsid(&root.dir)?;
        mark_file_system(&self.group, &root.dir)?;
        self.systems.entry(system).or_default().push(index);
        Ok(())
    }

    pub(super) fn roots(&self) -> impl Iterator<Item = usize> {
        self.systems.values().flatten().copied()
    }

    /// Reads all roots, beside the events that come.
    pub(super) fn begin(&mut self, core: &mut WatchCore, filter: RescanFilter) {
        self.rescan.lost(filter);
        self.has_read_all(core);
    }

    /// Has all roots read.
    fn read_all(&self, core: &mut WatchCore, filter: RescanFilter) {
        for root in self.roots() {
            let target = ReadTarget::Path { root, below: PathBuf::new() };
            core.works.push_back(ReadTask { target, filter, tries: 0 });
        }
    }

    /// Nothing waits to be read any more, and every event of what was moved meanwhile has been read.
    pub(super) fn has_read_all(&mut self, core: &mut WatchCore) {
        if let RescanStep::Read(filter) = self.rescan.has_read_all(Instant::now()) {
            self.read_all(core, filter);
        }
    }

    /// Whether all is being read again.
    pub(super) fn is_rescanning(&self) -> bool {
        self.rescan.is_going_on()
    }

    /// The watch ends: what is to be read again is read at once.
    pub(super) fn hurry(&mut self) {
        self.rescan.hurry();
    }

    /// Whether the time of the next reading is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        self.rescan.is_waiting()
    }

    /// Whether what came while events were lost has been found, as far as it is still there.
    pub(super) fn is_covered(&self) -> bool {
        self.rescan.is_covered()
    }

    /// Reads what waits, once; whether anything did.
    pub(super) fn turn(&mut self, core: &mut WatchCore, tell: ReportFn<'_>) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let filled = match nix::unistd::read(&self.group, &mut buffer) {
            Ok(filled) => filled,
            Err(Errno::EAGAIN | Errno::EINTR) => 0,
            Err(errno) => {
                core.fault(PathBuf::from("fanotify"), "read events of", errno);
                0
            }
        };
        let mut is_lost = false;
        for event in events(&buffer[..filled]) {
            match event {
                Ok(event) if event.mask & libc::FAN_Q_OVERFLOW != 0 => is_lost = true,
                Ok(event) => self.take(core, &event, tell),
                Err(malformed) => {
                    log::error!("cannot parse an event of the kernel: {malformed}");
                    is_lost = true;
                }
            }
        }
        self.buffer = buffer;
        self.places.clear();
        if is_lost {
            core.count_lost();
            let filter = core.since_lost(self.roots());
            self.rescan.lost(filter);
        }
        filled > 0
    }

    fn take(&mut self, core: &mut WatchCore, event: &FanotifyEvent<'_>, tell: ReportFn<'_>) {
        core.counts.events += 1;
        let renamed = event.to.or(event.entry.filter(|_| event.mask & libc::FAN_MOVED_TO != 0));
        let made = event.entry.filter(|_| event.mask & libc::FAN_CREATE != 0);
        let is_dir = event.mask & libc::FAN_ONDIR != 0;
        let (Some(entry), how) = (match renamed {
            Some(entry) => (Some(entry), Origin::Renamed),
            None => (made, Origin::Made { is_dir }),
        }) else {
            return;
        };
        if is_dir {
            self.remember_made(event, entry);
            if renamed.is_some() {
                self.take_moved(core, event.from, entry);
            }
        }
        let Some(violation) = core.check(entry.name) else { return };
        let place = self.place(core, entry.dir);
        let (name, pid) = (entry.name, event.pid);
        let mut sighting = Sighting { place: None, id: None, dir: None, name, how, pid, violation };
        match &place {
            DirectoryPlace::Outside => {}
            DirectoryPlace::Inside(held) => {
                sighting.place = Some((held.root, &held.below));
                (sighting.id, sighting.dir) = (Some(held.id), Some(held.dir.as_fd()));
                core.report_event(&sighting, tell);
            }
            DirectoryPlace::Gone(Some((root, below))) => {
                sighting.place = Some((*root, below));
                sighting.id = key(entry.dir).and_then(|key| self.ids.get(&key).copied());
                core.report_event(&sighting, tell);
            }
            DirectoryPlace::Gone(None) => core.unplaced(entry.name, &violation),
        }
    }

    fn remember_made(&mut self, event: &FanotifyEvent<'_>, entry: EventEntry<'_>) {
        let Some((target, dir)) = event.target.and_then(key).zip(key(entry.dir)) else { return };
        if self.made.len() >= REMEMBERED {
            self.made.clear();
        }
        self.made.insert(target, (dir, entry.name.to_owned()));
    }

    /// A directory has a new name. What it brings along from outside has appeared too.
    fn take_moved(&mut self, core: &mut WatchCore, from: Option<EventEntry<'_>>, to: EventEntry<'_>) {
        // Where directories are may have changed.
        self.places.clear();
        let DirectoryPlace::Inside(held) = self.place(core, to.dir) else { return };
        let was_inside = from.is_some_and(|from| match self.place(core, from.dir) {
            DirectoryPlace::Inside(_) | DirectoryPlace::Gone(Some(_)) => true,
            DirectoryPlace::Outside | DirectoryPlace::Gone(None) => false,
        });
        let filter = match was_inside {
            false => RescanFilter::All(Origin::Renamed),
            // Whoever reads the tree may have passed its new place and not have come to the old one.
            true => match self.rescan.filter() {
                Some(filter) => filter,
                None => return,
            },
        };
        let target = ReadTarget::Path { root: held.root, below: child(&held.below, to.name) };
        core.works.push_back(ReadTask { target, filter, tries: 0 });
    }

    /// Where the directory is now.
    fn place(&mut self, core: &WatchCore, dir: EventObject<'_>) -> DirectoryPlace {
        let Some(key) = key(dir) else { return DirectoryPlace::Gone(None) };
        if let Some(known) = self.places.get(&key) {
            return known.clone();
        }
        let roots = self.systems.get(&dir.fsid).map_or(&[][..], Vec::as_slice);
        let found = find(core, roots, &key.1).unwrap_or_else(|| match self.last_place(core, &key, 0) {
            Some(None) => DirectoryPlace::Outside,
            last => DirectoryPlace::Gone(last.flatten()),
        });
        let last = match &found {
            DirectoryPlace::Inside(held) => {
                self.ids.insert(key.clone(), held.id);
                Some(Some((held.root, held.below.clone())))
            }
            DirectoryPlace::Outside => Some(None),
            DirectoryPlace::Gone(_) => None,
        };
        if let Some(last) = last {
            if self.last.len() >= REMEMBERED {
                self.last.clear();
                self.ids.clear();
            }
            self.last.insert(key.clone(), last);
        }
        self.places.insert(key, found.clone());
        found
    }

    /// Where a directory that is gone was: `Some(None)` for outside, `None` if that is not known.
    fn last_place(
        &self,
        core: &WatchCore,
        key: &HandleKey,
        depth: usize,
    ) -> Option<Option<(usize, PathBuf)>> {
        /// Deeper trees than that are seldom made and removed at once.
        const DEEPEST: usize = 64;
        if let Some(last) = self.last.get(key) {
            return Some(last.clone());
        }
        let (above, name) = self.made.get(key).filter(|_| depth < DEEPEST)?;
        let roots = self.systems.get(&above.0).map_or(&[][..], Vec::as_slice);
        let place = match find(core, roots, &above.1) {
            Some(DirectoryPlace::Inside(held)) => Some((held.root, held.below.clone())),
            Some(_) => None,
            None => self.last_place(core, above, depth + 1)?,
        };
        Some(place.map(|(root, below)| (root, child(&below, name))))
    }

    /// Reads a directory that waits.
    pub(super) fn read(
        &mut self,
        core: &mut WatchCore,
        (root, below): (usize, &Path),
        work: &ReadTask,
        tell: ReportFn<'_>,
    ) {
        let dir = match core.roots[root].open_dir(below) {
            Ok(dir) => dir,
            // It came with old names in it, and one of those above it has been renamed since: it is not at this path any more,
            // and the events of those above say nothing of what is new below them.
            Err(Errno::ENOENT | Errno::ENOTDIR)
                if matches!(work.filter, RescanFilter::All(Origin::Renamed)) =>
            {
                let filter = core.since_lost(self.roots());
                return self.rescan.doubt(filter, Instant::now());
            }
            // Another file system is another root, or nobody asked for it. What was moved is told by an event.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => return,
            Err(errno) => return core.fault(core.path(root, below), "open", errno),
        };
        let mut put = |core: &mut WatchCore, name: &OsStr, filter: RescanFilter| {
            let target = ReadTarget::Path { root, below: child(below, name) };
            core.works.push_front(ReadTask { target, filter, tries: 0 });
        };
        core.read(dir.as_fd(), (root, below), work.filter, false, &mut put, tell);
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

/// Looks a directory up; `None` if it is gone.
fn find(core: &WatchCore, roots: &[usize], handle: &KernelHandle) -> Option<DirectoryPlace> {
    // A directory that is renamed at the same moment is looked up again.
    const TRIES: usize = 8;
    let first = &core.roots[*roots.first()?];
    let dir = handle::open(&first.dir, handle, PASS).ok()?;
    let stat = fstat(&dir).ok()?;
    // What is removed and still open has no link left.
    if stat.st_nlink == 0 {
        return None;
    }
    let id = (stat.st_dev, stat.st_ino);
    for _ in 0..TRIES {
        let found = by_path(core, roots, &dir, id).or_else(|| by_climbing(core, roots, &dir, id));
        match found {
            Some(Some((root, below))) => {
                return Some(DirectoryPlace::Inside(Rc::new(HeldDirectory { root, below, dir, id })));
            }
            Some(None) => return Some(DirectoryPlace::Outside),
            None => {}
        }
    }
    None
}

/// By the path that the kernel tells, once it has proved to lead there; `None` if that does not decide.
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
    // Where a part of the file system is mounted elsewhere too, a directory has more paths than this one.
    (is_apart && is_mounted_once(core, roots)).then_some(None)
}

/// Whether all roots are reached by one mount that shows the file system from its top: each directory has one path there.
fn is_mounted_once(core: &WatchCore, roots: &[usize]) -> bool {
    let mount = roots.first().and_then(|&root| core.roots[root].mount);
    roots.iter().all(|&root| core.roots[root].is_on_whole && core.roots[root].mount == mount)
}

/// By going up, directory by directory: slow, and right whatever is mounted where and however deep it is.
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

/// The name of the directory with that inode number.
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
