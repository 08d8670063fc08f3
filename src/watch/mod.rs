//! Names that break the policy, reported when they appear: behind a mount, beside it, or where there is none.
//!
//! A [`Watch`] is a few trees and one to three engines: whole file systems by fanotify (`wide`), directory by directory by
//! fanotify or inotify (`narrow`). A name is judged when the event that tells of it is read, and only for one that breaks the
//! policy it is looked up where it stands. When the kernel has lost events, because its queue was full, the trees are read
//! again, and what may have come meanwhile is reported as if its event had been there.
//!
//! It changes nothing, and opens directories only. `docs/WATCH.md` says what it promises.

pub mod command;
mod core;
pub mod fanotify;
pub mod inotify;
mod narrow;
mod rescan;
mod root;
mod seen;
mod wide;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::core::{Core, Drained, Filter, How, Target, Tell};
use self::narrow::Narrow;
use self::root::Root;
use self::wide::Wide;
use crate::policy::Policy;
use crate::source::Fault;
use crate::source::scope::Exclude;
use crate::sys::mounts::{self, Mount};
use crate::telemetry::audit::Record;

/// How a tree is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The first of the others that the file system and our rights allow.
    #[default]
    Auto,
    /// The whole file system, by one mark of fanotify.
    Fanotify,
    /// Each directory, by a mark of fanotify.
    FanotifyDirs,
    /// Each directory, by a watch of inotify.
    Inotify,
}

impl Engine {
    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Fanotify => "fanotify",
            Self::FanotifyDirs => "fanotify-dirs",
            Self::Inotify => "inotify",
        }
    }
}

/// What is watched for, and how.
#[derive(Debug)]
pub struct Settings {
    /// What names are judged by.
    pub policy: Policy,
    /// Whether names that the policy only warns of are reported too.
    pub warnings: bool,
    /// What is left out.
    pub exclude: Exclude,
    /// Whether other file systems that are mounted in a tree are left out.
    pub one_file_system: bool,
    /// How.
    pub engine: Engine,
    /// Whether names that are there already are reported first.
    pub initial: bool,
    /// Whether the kernel keeps any number of events, in its own memory, for whoever may ask for that.
    pub is_unlimited: bool,
}

/// A name that has appeared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is known of it; its `parent` is a path from the top.
    pub record: Record,
    /// The path from the top, if the directory is known.
    pub path: Option<PathBuf>,
}

/// What a watch has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were read.
    pub events: u64,
    /// Names that were reported.
    pub findings: u64,
    /// Directories that were read.
    pub directories: u64,
    /// How often the kernel lost events.
    pub lost: u64,
    /// Things that could not be watched or read.
    pub faults: u64,
    /// Directories that are not watched because there are too many.
    pub unwatched: u64,
    /// Bad names in directories that were gone before it could be told whether they were in a tree.
    pub unplaced: u64,
    /// Directories that wait to be read, because they have appeared or because events were lost; 1 if their number is not known.
    /// What appeared in them has not been reported.
    pub uncovered: u64,
}

/// A tree, and how it is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The top of the tree.
    pub path: PathBuf,
    /// The type of its file system.
    pub kind: String,
    /// How.
    pub engine: Engine,
    /// Why not by an engine that comes first, if so.
    pub instead: Option<String>,
}

/// Trees that are watched.
#[derive(Debug)]
pub struct Watch {
    core: Core,
    wide: Option<Wide>,
    narrow: Vec<Narrow>,
    watched: Vec<Watched>,
}

impl Watch {
    /// Begins to watch the trees at `paths`. Directories that are watched one by one, and what is there already if that is
    /// asked for, wait to be read by [`turn`](Self::turn).
    ///
    /// # Errors
    /// A path that is no directory, or cannot be watched in the way that is asked for.
    pub fn new(paths: &[PathBuf], settings: Settings) -> Result<Self, Fault> {
        let mounts = mounts::mounts().unwrap_or_default();
        let mut roots = Vec::<Root>::new();
        for path in paths {
            add_root(&mut roots, path, &mounts)?;
        }
        if !settings.one_file_system {
            for point in roots.iter().flat_map(|root| mounts::below(&mounts, &root.path)).collect::<Vec<_>>()
            {
                if is_of_kernel(point) {
                    continue;
                }
                // It is nobody's fault that a file system below a path is not for us.
                if let Err(fault) = add_root(&mut roots, &point.point, &mounts) {
                    log::warn!("{fault}");
                }
            }
        }
        drop_nested(&mut roots);
        let all = std::mem::take(&mut roots);
        let (given, below): (Vec<Root>, Vec<Root>) = all
            .into_iter()
            .partition(|root| paths.iter().any(|path| path.canonicalize().is_ok_and(|p| p == root.path)));
        let first_below = given.len();
        let mut watch = Self {
            core: Core::new(settings, given.into_iter().chain(below).collect()),
            wide: None,
            narrow: Vec::new(),
            watched: Vec::new(),
        };
        for index in 0..watch.core.roots.len() {
            match watch.begin(index) {
                Ok(watched) => watch.watched.push(watched),
                Err(fault) if index < first_below => return Err(fault),
                Err(fault) => {
                    log::warn!("{fault}");
                    watch.core.counts.faults += 1;
                }
            }
        }
        if watch.core.settings.initial
            && let Some(wide) = &mut watch.wide
        {
            wide.begin(&mut watch.core, Filter::All(How::Initial));
        }
        Ok(watch)
    }

    /// What is watched, and how.
    pub fn watched(&self) -> &[Watched] {
        &self.watched
    }

    /// What it has come to.
    pub fn counts(&self) -> Counts {
        let is_covered =
            self.wide.as_ref().is_none_or(Wide::is_covered) && self.narrow.iter().all(Narrow::is_covered);
        let works = self.core.works.iter().chain(&self.core.deferred);
        let waiting = works.filter(|work| work.filter != Filter::Nothing).count() as u64;
        Counts { uncovered: waiting.max(u64::from(!is_covered)), ..self.core.counts }
    }

    /// Whether directories wait to be read.
    pub fn is_reading(&self) -> bool {
        !(self.core.works.is_empty() && self.core.deferred.is_empty())
    }

    /// How many directories are watched one by one.
    pub fn directories(&self) -> usize {
        self.narrow.iter().map(Narrow::len).sum()
    }

    /// Judges by another policy from now on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.core.settings.policy = policy;
    }

    /// The watch ends as soon as nothing more is to be done: what is to be read again is read at once.
    pub fn hurry(&mut self) {
        self.wide.iter_mut().for_each(Wide::hurry);
        self.narrow.iter_mut().for_each(Narrow::hurry);
    }

    /// Reads what has happened, and some directories of those that wait; whether there may be more to do at once.
    pub fn turn(&mut self, tell: Tell<'_>) -> bool {
        /// Events must not wait for long while directories are read.
        const SLICE: Duration = Duration::from_millis(5);
        let now = Drained::now();
        let mut has_read = false;
        if let Some(wide) = &mut self.wide {
            has_read |= wide.turn(&mut self.core, tell);
        }
        for narrow in &mut self.narrow {
            has_read |= narrow.turn(&mut self.core, tell);
        }
        self.core.forget_askers();
        if !has_read {
            self.core.drained = now;
            self.core.seen.is_drained();
            self.narrow.iter_mut().for_each(Narrow::is_drained);
            let deferred = std::mem::take(&mut self.core.deferred);
            self.core.works.extend(deferred);
            if !self.is_reading() {
                self.wide.iter_mut().for_each(|wide| wide.has_read_all(&mut self.core));
                self.narrow.iter_mut().for_each(|narrow| narrow.has_read_all(&mut self.core));
            }
        }
        let begin = Instant::now();
        while begin.elapsed() < SLICE
            && let Some(work) = self.core.works.pop_front()
        {
            match &work.target {
                Target::Path { root, below } => {
                    if let Some(wide) = &mut self.wide {
                        wide.read(&mut self.core, (*root, below), &work, tell);
                    }
                }
                Target::Node { engine, node } => {
                    if let Some(narrow) = self.narrow.get_mut(*engine) {
                        narrow.read(&mut self.core, *node, &work, tell);
                    }
                }
            }
        }
        has_read || self.is_reading() || self.is_rescanning()
    }

    fn is_rescanning(&self) -> bool {
        self.wide.as_ref().is_some_and(Wide::is_rescanning) || self.narrow.iter().any(Narrow::is_rescanning)
    }

    /// Waits until something happens, `also` can be read, or the time is over.
    ///
    /// # Errors
    /// As poll(2) says.
    pub fn wait(&self, also: Option<BorrowedFd<'_>>, most: Duration) -> Result<(), Errno> {
        /// A directory that was moved out of a tree is let go of some time later.
        const MOVE: Duration = Duration::from_millis(600);
        let is_waiting =
            self.narrow.iter().any(Narrow::is_waiting) || self.wide.as_ref().is_some_and(Wide::is_waiting);
        let most = if is_waiting { most.min(MOVE) } else { most };
        let engines = self.wide.iter().map(AsFd::as_fd).chain(self.narrow.iter().map(AsFd::as_fd));
        let mut fds: Vec<PollFd<'_>> =
            engines.chain(also).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Rounded up, or the last millisecond would be spent in turns that find nothing.
        let most = most.saturating_add(Duration::from_micros(999)).min(Duration::from_secs(60));
        match poll(&mut fds, PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Watches one root by the first engine that can.
    fn begin(&mut self, index: usize) -> Result<Watched, Fault> {
        let asked = self.core.settings.engine;
        let order: &[Engine] = match asked {
            Engine::Auto => &[Engine::Fanotify, Engine::FanotifyDirs, Engine::Inotify],
            Engine::Fanotify => &[Engine::Fanotify],
            Engine::FanotifyDirs => &[Engine::FanotifyDirs],
            Engine::Inotify => &[Engine::Inotify],
        };
        let mut reasons = Vec::new();
        for &engine in order {
            let errno = match self.try_engine(engine, index) {
                Ok(()) => {
                    let Root { path, kind, .. } = &self.core.roots[index];
                    let instead = (!reasons.is_empty()).then(|| reasons.join("; "));
                    return Ok(Watched { path: path.clone(), kind: kind.clone(), engine, instead });
                }
                Err(errno) => errno,
            };
            reasons.push(format!("{} cannot: {}", engine.as_str(), why(engine, errno)));
        }
        let path = self.core.roots[index].path.clone();
        Err(Fault { path, attempt: "watch", error: std::io::Error::other(reasons.join("; ")) })
    }

    fn try_engine(&mut self, engine: Engine, index: usize) -> Result<(), Errno> {
        let is_unlimited = self.core.settings.is_unlimited;
        if matches!(engine, Engine::Fanotify | Engine::Auto) {
            let mut wide = match self.wide.take() {
                Some(wide) => wide,
                None => Wide::new(is_unlimited)?,
            };
            let result = wide.add(index, &self.core.roots[index]);
            self.wide = Some(wide).filter(|wide| wide.roots().next().is_some());
            return result;
        }
        let is_fanotify = engine == Engine::FanotifyDirs;
        let filter = if self.core.settings.initial { Filter::All(How::Initial) } else { Filter::Nothing };
        if let Some(narrow) = self.narrow.iter_mut().find(|narrow| narrow.is_fanotify() == is_fanotify) {
            return narrow.add(&mut self.core, index, filter);
        }
        let number = self.narrow.len();
        let mut narrow = match is_fanotify {
            true => Narrow::by_fanotify(number, is_unlimited)?,
            false => Narrow::by_inotify(number)?,
        };
        narrow.add(&mut self.core, index, filter)?;
        self.narrow.push(narrow);
        Ok(())
    }
}

/// Opens a root, unless it is one already.
fn add_root(roots: &mut Vec<Root>, path: &Path, mounts: &[Mount]) -> Result<(), Fault> {
    let root = Root::open(path, mounts)?;
    if roots.iter().all(|known| known.id != root.id) {
        roots.push(root);
    }
    Ok(())
}

/// Drops the roots that another one reaches.
fn drop_nested(roots: &mut Vec<Root>) {
    let tops: Vec<(PathBuf, u64)> = roots.iter().map(|root| (root.path.clone(), root.id.0)).collect();
    let reaches = |top: &Root, (path, device): &(PathBuf, u64)| {
        top.path != *path && path.starts_with(&top.path) && top.id.0 == *device
    };
    let is_nested =
        |at: usize| roots.iter().any(|top| reaches(top, &tops[at]) && can_reach(top, &tops[at].0));
    let kept: Vec<bool> = (0..roots.len()).map(|at| !is_nested(at)).collect();
    let mut kept = kept.into_iter();
    roots.retain(|_| kept.next().unwrap_or(true));
}

/// Whether no other mount lies on the way.
fn can_reach(top: &Root, path: &Path) -> bool {
    path.strip_prefix(&top.path).is_ok_and(|below| top.open_dir(below).is_ok())
}

/// File systems in which nobody but the kernel gives names.
fn is_of_kernel(mount: &Mount) -> bool {
    const KINDS: [&str; 20] = [
        "proc",
        "sysfs",
        "cgroup",
        "cgroup2",
        "devpts",
        "debugfs",
        "tracefs",
        "securityfs",
        "configfs",
        "fusectl",
        "pstore",
        "bpf",
        "efivarfs",
        "binfmt_misc",
        "nsfs",
        "rpc_pipefs",
        "selinuxfs",
        "autofs",
        "nfsd",
        "cpuset",
    ];
    KINDS.contains(&mount.kind.as_str())
}

/// Why an engine cannot watch, for people.
fn why(engine: Engine, errno: Errno) -> String {
    match (engine, errno) {
        (Engine::Fanotify | Engine::Auto, Errno::EPERM) => {
            "it needs CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH".into()
        }
        (Engine::Fanotify, Errno::EOPNOTSUPP | Errno::ENODEV | Errno::EXDEV | Errno::ESTALE) => {
            format!("the file system cannot be watched as a whole ({})", errno.desc())
        }
        (Engine::FanotifyDirs, Errno::EPERM) => "for other users than root it needs Linux 5.13".into(),
        (Engine::Inotify, Errno::EMFILE) => {
            "too many instances of inotify: fs.inotify.max_user_instances, or open files".into()
        }
        (Engine::FanotifyDirs | Engine::Fanotify, Errno::EMFILE) => {
            "too many groups of fanotify: fs.fanotify.max_user_groups, or open files".into()
        }
        (Engine::Inotify, Errno::ENOSPC) => "no watch is left: fs.inotify.max_user_watches".into(),
        (_, Errno::ENOSPC) => "no mark is left: fs.fanotify.max_user_marks".into(),
        (_, errno) => errno.desc().into(),
    }
}
