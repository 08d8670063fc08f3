//! Reports names that break the policy when they appear: behind a mount, beside it, or where there is none.
//!
//! A [`Watch`] has a few trees and one to three engines (`engine`). `filesystem_mark` watches whole file systems by fanotify, `directory_marks`
//! watches each directory by fanotify or inotify. A name is checked when its event is read, and looked up only if it breaks the
//! policy. If the kernel loses events because its queue is full, the trees are read again, and names that may have appeared
//! meanwhile are reported.
//!
//! A watch changes nothing, and opens only directories. `docs/WATCH.md` says what it promises.

pub mod command;
mod core;
mod directory_marks;
mod engine;
mod filesystem_mark;
pub mod inotify;
mod replaced;
mod reported_cache;
mod rescan;
mod root;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use namegate_core::policy::Policy;
use namegate_scan::source::Fault;
use namegate_scan::source::scope::Exclude;
use namegate_sys::mounts::{self, MountEntry};
use namegate_telemetry::audit::AuditRecord;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::core::{DrainTime, Origin, ReportFn, RescanFilter, WatchCore};
use self::directory_marks::DirectoryMarks;
use self::engine::Engine;
use self::filesystem_mark::FilesystemMark;
use self::root::WatchRoot;

/// The kernel interface that watches a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchEngine {
    #[default]
    Auto,
    Fanotify,
    FanotifyDirs,
    Inotify,
}

impl WatchEngine {
    /// The word of each on the command line, and its help; in the order of the variants.
    pub const WORDS: &[(&str, Self, &str)] = &[
        ("auto", Self::Auto, "First of the others that the file system and your privileges allow"),
        ("fanotify", Self::Fanotify, "fanotify, one mark for the whole file system (root only)"),
        ("fanotify-dirs", Self::FanotifyDirs, "fanotify, one mark per directory"),
        ("inotify", Self::Inotify, "inotify, one watch per directory"),
    ];

    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

#[derive(Debug)]
pub struct WatchSettings {
    /// The policy to check names against.
    pub policy: Policy,
    /// Also report names that the policy only warns about.
    pub warnings: bool,
    /// Names to skip.
    pub exclude: Exclude,
    /// Skip other file systems mounted in a tree.
    pub one_file_system: bool,
    /// The kernel interface to watch with.
    pub engine: WatchEngine,
    /// Report existing names first.
    pub initial: bool,
    /// Let the kernel queue any number of events in its memory, if this process may ask for that.
    pub is_unlimited: bool,
}

/// A bad name that has appeared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its record; `parent` is an absolute path.
    pub record: AuditRecord,
    /// The absolute path, if the directory is known.
    pub path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Events that were read.
    pub events: u64,
    /// Names that were reported.
    pub findings: u64,
    /// Directories that were read.
    pub directories: u64,
    /// How often the kernel lost events.
    pub lost: u64,
    /// Paths that could not be watched or read.
    pub faults: u64,
    /// Directories that are not watched because of the kernel's limit.
    pub unwatched: u64,
    /// Bad names in directories that vanished before they were located.
    pub unplaced: u64,
    /// Directories still to be read, because they are new or because events were lost; 1 if their number is not known.
    /// New names in them have not been reported.
    pub uncovered: u64,
}

/// A watched tree and its engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The top of the tree.
    pub path: PathBuf,
    /// The type of its file system.
    pub kind: String,
    pub engine: WatchEngine,
    /// Why engines that come first cannot watch it.
    pub instead: Option<String>,
}

/// A watch: some trees and the engines that watch them.
#[derive(Debug)]
pub struct Watch {
    core: WatchCore,
    /// Those that watch a root, at most one of each kind.
    engines: Vec<Box<dyn Engine>>,
    watched: Vec<Watched>,
    /// When it was last checked that the given paths lead to the watched directories.
    checked: Option<Instant>,
}

impl Watch {
    /// Starts to watch the trees at `paths`. [`run_once`](Self::run_once) reads the directories that are to be marked, and existing
    /// names if the settings say so.
    ///
    /// # Errors
    /// A path is not a directory, or no requested engine can watch it.
    pub fn new(paths: &[PathBuf], settings: WatchSettings) -> Result<Self, Fault> {
        let mounts = mounts::mounts().unwrap_or_default();
        let mut roots = Vec::<WatchRoot>::new();
        for path in paths {
            add_root(&mut roots, path, &mounts)?;
        }
        if !settings.one_file_system {
            for point in roots.iter().flat_map(|root| mounts::below(&mounts, &root.path)).collect::<Vec<_>>()
            {
                if point.is_kernels() {
                    continue;
                }
                // A file system below a path that this process cannot open is not an error.
                if let Err(fault) = add_root(&mut roots, &point.point, &mounts) {
                    log::warn!("{fault}");
                }
            }
        }
        drop_nested(&mut roots);
        for root in &mut roots {
            let leads_here = |path: &&PathBuf| path.canonicalize().is_ok_and(|path| path == root.path);
            root.given = paths.iter().find(leads_here).cloned();
        }
        let (given, below): (Vec<WatchRoot>, Vec<WatchRoot>) =
            roots.into_iter().partition(|root| root.given.is_some());
        let first_below = given.len();
        let mut watch = Self {
            core: WatchCore::new(settings, given.into_iter().chain(below).collect()),
            engines: Vec::new(),
            watched: Vec::new(),
            checked: Some(Instant::now()),
        };
        let filter = match watch.core.settings.initial {
            true => RescanFilter::All(Origin::Initial),
            false => RescanFilter::Nothing,
        };
        for index in 0..watch.core.roots.len() {
            match watch.watch_root(index, filter) {
                Ok(watched) => watch.watched.push(watched),
                Err(fault) if index < first_below => return Err(fault),
                Err(fault) => {
                    log::warn!("{fault}");
                    watch.core.counts.faults += 1;
                }
            }
        }
        Ok(watch)
    }

    /// The watched trees and their engines.
    pub fn watched(&self) -> &[Watched] {
        &self.watched
    }

    pub fn counts(&self) -> WatchCounts {
        let is_covered = self.engines.iter().all(|engine| engine.rescan().is_covered());
        let tasks = self.core.tasks.iter().chain(&self.core.deferred);
        let waiting = tasks.filter(|task| task.filter != RescanFilter::Nothing).count() as u64;
        let gone = self.core.roots.iter().filter(|root| root.is_gone).count() as u64;
        WatchCounts {
            uncovered: waiting.max(u64::from(!is_covered)),
            faults: self.core.counts.faults + gone,
            ..self.core.counts
        }
    }

    /// Whether directories are queued to be read.
    pub fn is_reading(&self) -> bool {
        !(self.core.tasks.is_empty() && self.core.deferred.is_empty())
    }

    /// Number of directories that are watched one by one.
    pub fn directories(&self) -> usize {
        self.engines.iter().map(|engine| engine.directories()).sum()
    }

    /// Checks names against another policy from now on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.core.settings.policy = policy;
    }

    /// Starts postponed checks and passes at once, because the watch is about to end.
    pub fn skip_pauses(&mut self) {
        self.checked = None;
        self.engines.iter_mut().for_each(|engine| engine.rescan_mut().skip_pauses());
    }

    /// Handles pending events, and reads some of the queued directories. Returns whether there may be more to do at once.
    pub fn run_once(&mut self, report: ReportFn<'_>) -> bool {
        /// Events must not wait for long while directories are read.
        const SLICE: Duration = Duration::from_millis(5);
        let now = DrainTime::now();
        let mut has_read = false;
        for engine in &mut self.engines {
            has_read |= engine.read_events(&mut self.core, report);
        }
        // Process ids may be reused.
        self.core.requesters.clear();
        self.check_roots(!has_read);
        if !has_read {
            self.core.drained = now;
            self.core.reported_cache.on_drained();
            self.engines.iter_mut().for_each(|engine| engine.on_drained());
            let deferred = std::mem::take(&mut self.core.deferred);
            self.core.tasks.extend(deferred);
            if !self.is_reading() {
                self.engines.iter_mut().for_each(|engine| engine.on_idle(&mut self.core));
            }
        }
        let begin = Instant::now();
        while begin.elapsed() < SLICE
            && let Some(task) = self.core.tasks.pop_front()
        {
            if let Some(engine) = self.engines.iter_mut().find(|engine| engine.kind() == task.engine) {
                engine.read(&mut self.core, &task, report);
            }
        }
        has_read || self.is_reading() || self.engines.iter().any(|engine| engine.rescan().is_running())
    }

    /// Waits until there are events, `also` is readable, or the time is over.
    ///
    /// # Errors
    /// As poll(2) says.
    pub fn wait(&self, also: Option<BorrowedFd<'_>>, most: Duration) -> Result<(), Errno> {
        /// Directories that left a tree are forgotten after a while.
        const MOVE: Duration = Duration::from_millis(600);
        let is_waiting = self.engines.iter().any(|engine| engine.is_waiting());
        let most = if is_waiting { most.min(MOVE) } else { most }.min(replaced::INTERVAL);
        let engines = self.engines.iter().map(|engine| engine.as_fd());
        let mut fds: Vec<PollFd<'_>> =
            engines.chain(also).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Round up, or the last millisecond would be spent polling in vain.
        let most = most + Duration::from_micros(999);
        match poll(&mut fds, PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Watches one root by the first engine that can.
    /// Directories are queued to be read with `filter`.
    fn watch_root(&mut self, index: usize, filter: RescanFilter) -> Result<Watched, Fault> {
        let asked = self.core.settings.engine;
        let order: &[WatchEngine] = match asked {
            WatchEngine::Auto => &[WatchEngine::Fanotify, WatchEngine::FanotifyDirs, WatchEngine::Inotify],
            WatchEngine::Fanotify => &[WatchEngine::Fanotify],
            WatchEngine::FanotifyDirs => &[WatchEngine::FanotifyDirs],
            WatchEngine::Inotify => &[WatchEngine::Inotify],
        };
        let mut reasons = Vec::new();
        for &engine in order {
            let errno = match self.try_engine(engine, index, filter) {
                Ok(()) => {
                    let WatchRoot { path, kind, .. } = &self.core.roots[index];
                    let instead = (!reasons.is_empty()).then(|| reasons.join("; "));
                    return Ok(Watched { path: path.clone(), kind: kind.clone(), engine, instead });
                }
                Err(errno) => errno,
            };
            reasons.push(format!("{} cannot: {}", engine.as_str(), reason(engine, errno)));
        }
        let path = self.core.roots[index].path.clone();
        Err(Fault { path, attempt: "watch", error: std::io::Error::other(reasons.join("; ")) })
    }

    fn try_engine(&mut self, kind: WatchEngine, index: usize, filter: RescanFilter) -> Result<(), Errno> {
        let is_unlimited = self.core.settings.is_unlimited;
        let mut engine: Box<dyn Engine> = match self.engines.iter().position(|engine| engine.kind() == kind) {
            Some(at) => self.engines.remove(at),
            None => match kind {
                WatchEngine::Auto | WatchEngine::Fanotify => Box::new(FilesystemMark::new(is_unlimited)?),
                WatchEngine::FanotifyDirs => Box::new(DirectoryMarks::by_fanotify(is_unlimited)?),
                WatchEngine::Inotify => Box::new(DirectoryMarks::by_inotify()?),
            },
        };
        let added = engine.add(&mut self.core, index, filter);
        if !engine.roots().is_empty() {
            self.engines.push(engine);
        }
        added
    }
}

/// Opens a root, unless it is one already.
fn add_root(roots: &mut Vec<WatchRoot>, path: &Path, mounts: &[MountEntry]) -> Result<(), Fault> {
    let root = WatchRoot::open(path, mounts)?;
    if roots.iter().all(|known| known.id != root.id) {
        roots.push(root);
    }
    Ok(())
}

/// Drops roots that are inside of another root.
fn drop_nested(roots: &mut Vec<WatchRoot>) {
    let tops: Vec<(PathBuf, u64)> = roots.iter().map(|root| (root.path.clone(), root.id.0)).collect();
    let reaches = |top: &WatchRoot, (path, device): &(PathBuf, u64)| {
        top.path != *path && path.starts_with(&top.path) && top.id.0 == *device
    };
    let is_nested =
        |at: usize| roots.iter().any(|top| reaches(top, &tops[at]) && can_reach(top, &tops[at].0));
    let kept: Vec<bool> = (0..roots.len()).map(|at| !is_nested(at)).collect();
    let mut kept = kept.into_iter();
    roots.retain(|_| kept.next().unwrap_or(true));
}

/// Whether the path from `top` to `path` crosses no other mount.
fn can_reach(top: &WatchRoot, path: &Path) -> bool {
    path.strip_prefix(&top.path).is_ok_and(|below| top.open_dir(below).is_ok())
}

/// Explains why an engine cannot watch.
fn reason(engine: WatchEngine, errno: Errno) -> String {
    match (engine, errno) {
        (WatchEngine::Fanotify | WatchEngine::Auto, Errno::EPERM) => {
            "it needs CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH".into()
        }
        (WatchEngine::Fanotify, Errno::EOPNOTSUPP | Errno::ENODEV | Errno::EXDEV | Errno::ESTALE) => {
            format!("the file system cannot be watched as a whole ({})", errno.desc())
        }
        (WatchEngine::FanotifyDirs, Errno::EPERM) => "for other users than root it needs Linux 5.13".into(),
        (WatchEngine::Inotify, Errno::EMFILE) => {
            "too many instances of inotify: fs.inotify.max_user_instances, or open files".into()
        }
        (WatchEngine::FanotifyDirs | WatchEngine::Fanotify, Errno::EMFILE) => {
            "too many groups of fanotify: fs.fanotify.max_user_groups, or open files".into()
        }
        (WatchEngine::Inotify, Errno::ENOSPC) => "no watch is left: fs.inotify.max_user_watches".into(),
        (_, Errno::ENOSPC) => "no mark is left: fs.fanotify.max_user_marks".into(),
        (_, errno) => errno.desc().into(),
    }
}
