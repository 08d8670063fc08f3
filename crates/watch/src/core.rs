//! Shared by all engines: the roots, checking and reporting names, reading directories, and the queue of directories to read.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use namegate_core::name::display::display;
use namegate_core::policy::{Verdict, Violation};
use namegate_scan::source::Fault;
use namegate_sys::directory;
use namegate_sys::stat::{self, Stat, Time};
use namegate_telemetry::audit::{AuditOutcome, AuditRecord, Requester};
use nix::errno::Errno;

use super::reported_cache::ReportedCache;
use super::root::{DirectoryId, WatchRoot, id};
use super::{Finding, WatchCounts, WatchEngine, WatchSettings};

/// File systems store times with a coarser resolution than our clock; FAT's is two seconds.
const SLACK: Duration = Duration::from_secs(3);

/// Where findings go.
pub(super) type ReportFn<'t> = &'t mut dyn FnMut(Finding);

/// How a name appeared, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was created.
    Made { is_dir: bool },
    /// Something was renamed to it, or it is in a directory that was moved here.
    Renamed,
    /// It existed when the watch began.
    Initial,
    /// It was found when a tree was read again, after events were lost.
    Rescanned,
}

/// Selects the names to report when a directory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RescanFilter {
    /// No name; the directory is read to find directories in it.
    Nothing,
    All(Origin),
    /// Names that may have appeared since `when`, while events were lost.
    Since {
        when: SystemTime,
        above_changed: bool,
    },
}

/// A directory in the queue, to be read.
#[derive(Clone, Debug)]
pub(super) struct ReadTask {
    /// The engine that is to read it.
    pub(super) engine: WatchEngine,
    pub(super) target: ReadTarget,
    pub(super) filter: RescanFilter,
    /// How often it was not found at its expected path.
    pub(super) tries: u8,
}

#[derive(Clone, Debug)]
pub(super) enum ReadTarget {
    /// The directory at this path from a root.
    Path { root: usize, below: PathBuf },
    /// The node with this number in the tree of the engine.
    Node(u64),
}

/// A moment at which all events had been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainTime {
    clock: SystemTime,
    instant: Instant,
}

impl DrainTime {
    pub(super) fn now() -> Self {
        Self { clock: SystemTime::now(), instant: Instant::now() }
    }

    /// The time from which on events may be missing. The clock may have been set since.
    fn since(self) -> SystemTime {
        let by_duration = SystemTime::now().checked_sub(self.instant.elapsed());
        let earlier = by_duration.map_or(self.clock, |time| time.min(self.clock));
        earlier.checked_sub(SLACK).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Where a directory is: the index of its root, and its path from there.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryPlace<'p> {
    pub(super) root: usize,
    pub(super) below: &'p Path,
}

/// A bad name, with everything that its report needs.
#[derive(Debug)]
pub(super) struct Sighting<'s> {
    pub(super) place: Option<DirectoryPlace<'s>>,
    /// The id of the directory, if it is known, even if the directory cannot be opened at that path.
    pub(super) id: Option<DirectoryId>,
    /// The directory, opened.
    pub(super) dir: Option<BorrowedFd<'s>>,
    pub(super) name: &'s OsStr,
    pub(super) origin: Origin,
    /// The process that created it, or 0.
    pub(super) pid: i32,
    pub(super) violation: Violation,
}

#[derive(Debug)]
pub(super) struct WatchCore {
    pub(super) settings: WatchSettings,
    pub(super) roots: Vec<WatchRoot>,
    pub(super) reported_cache: ReportedCache,
    pub(super) tasks: VecDeque<ReadTask>,
    /// Directories that were not found at their expected paths: retried when all pending events have been read.
    pub(super) deferred: Vec<ReadTask>,
    pub(super) counts: WatchCounts,
    pub(super) drained: DrainTime,
    /// When the last warning about lost events was logged.
    last_lost_warning: Option<Instant>,
    /// The processes behind the current batch of events.
    pub(super) requesters: HashMap<i32, Requester>,
    buffer: Vec<u8>,
    pub(super) event_buffer: Vec<u8>,
}

impl WatchCore {
    pub(super) fn new(settings: WatchSettings, roots: Vec<WatchRoot>) -> Self {
        Self {
            settings,
            roots,
            reported_cache: ReportedCache::default(),
            tasks: VecDeque::new(),
            deferred: Vec::new(),
            counts: WatchCounts::default(),
            drained: DrainTime::now(),
            last_lost_warning: None,
            requesters: HashMap::new(),
            buffer: vec![0; 64 * 1024],
            event_buffer: vec![0; 256 * 1024],
        }
    }

    /// Checks `name`, and returns the violation to report.
    pub(super) fn check(&self, name: &OsStr) -> Option<Violation> {
        let policy = &self.settings.policy;
        match policy.verdict(name.as_bytes()) {
            Verdict::Reject(violation) => Some(violation),
            Verdict::Accept(_) | Verdict::Rewrite(_) if self.settings.warnings => {
                policy.check(name.as_bytes()).violations.first().copied()
            }
            Verdict::Accept(_) | Verdict::Rewrite(_) => None,
        }
    }

    /// The absolute path of a directory.
    pub(super) fn path(&self, DirectoryPlace { root, below }: DirectoryPlace<'_>) -> PathBuf {
        match below.as_os_str().is_empty() {
            true => self.roots[root].path.clone(),
            false => self.roots[root].path.join(below),
        }
    }

    /// Logs and counts that something could not be watched or read.
    pub(super) fn fault(&mut self, path: PathBuf, attempt: &'static str, error: Errno) {
        log::warn!("{}", Fault { path, attempt, error: error.into() });
        self.counts.faults += 1;
    }

    /// Reports a name from an event, unless it is excluded or was reported before.
    pub(super) fn report_event(&mut self, sighting: &Sighting<'_>, report: ReportFn<'_>) {
        let stat = sighting.dir.and_then(|dir| lookup(dir, sighting.name));
        if self.is_excluded(sighting, stat.as_ref().is_some_and(is_directory)) {
            return;
        }
        let identity = stat.as_ref().map(identity);
        let is_new =
            sighting.id.is_none_or(|id| self.reported_cache.is_new_by_event(id, sighting.name, identity));
        if is_new {
            self.emit(sighting, stat.as_ref(), report);
        }
    }

    /// Whether the name, or a directory above it, is excluded.
    fn is_excluded(&self, sighting: &Sighting<'_>, is_dir: bool) -> bool {
        let exclude = &self.settings.exclude;
        let Some(DirectoryPlace { below, .. }) = sighting.place.filter(|_| !exclude.is_empty()) else {
            return false;
        };
        let mut above = below.ancestors().filter(|path| !path.as_os_str().is_empty());
        above.any(|dir| exclude.matches(dir, true)) || exclude.matches(&below.join(sighting.name), is_dir)
    }

    fn emit(&mut self, sighting: &Sighting<'_>, stat: Option<&Stat>, report: ReportFn<'_>) {
        let operation = match sighting.origin {
            Origin::Renamed => "rename",
            Origin::Initial => "initial",
            Origin::Rescanned => "rescan",
            Origin::Made { is_dir } => stat.map_or(if is_dir { "mkdir" } else { "create" }, made_by),
        };
        let parent = sighting.place.map(|place| self.path(place));
        let requester = self
            .requesters
            .entry(sighting.pid)
            .or_insert_with_key(|&pid| Requester::from_process(u32::try_from(pid).unwrap_or_default()));
        self.counts.findings += 1;
        report(Finding {
            path: parent.as_ref().map(|parent| parent.join(sighting.name)),
            record: AuditRecord {
                count: 1,
                time: SystemTime::now(),
                outcome: AuditOutcome::Seen,
                operation,
                name: sighting.name.to_owned(),
                target: None,
                parent,
                rule: Some(sighting.violation.rule),
                span: sighting.violation.span,
                requester: requester.clone(),
            },
        });
    }

    /// Counts lost events, and logs a warning at most once per interval.
    pub(super) fn count_lost(&mut self) {
        const INTERVAL: Duration = Duration::from_secs(10);
        self.counts.lost += 1;
        if self.last_lost_warning.is_none_or(|said| said.elapsed() >= INTERVAL) {
            self.last_lost_warning = Some(Instant::now());
            log::warn!("the kernel lost events because too many came at once; reading the trees again");
        }
    }

    /// The filter for reading `roots` again after events were lost.
    pub(super) fn lost_filter(&self, roots: &[usize]) -> RescanFilter {
        let is_far = roots.iter().any(|&root| self.roots[root].is_far());
        let when = if is_far { SystemTime::UNIX_EPOCH } else { self.drained.since() };
        RescanFilter::Since { when, above_changed: false }
    }

    /// Reads the directory `dir`, reports the bad names that the filter selects, and calls `below` with each directory in it and
    /// the filter for that. `is_known` says that the directory was here before events were lost.
    pub(super) fn read(
        &mut self,
        dir: BorrowedFd<'_>,
        place: DirectoryPlace<'_>,
        filter: RescanFilter,
        is_known: bool,
        below: &mut dyn FnMut(&mut Self, &OsStr, RescanFilter),
        report: ReportFn<'_>,
    ) {
        self.counts.directories += 1;
        let (stat, id) = match stat::at(dir, OsStr::new("")).and_then(|stat| Ok((stat, id(dir)?))) {
            Ok(both) => both,
            Err(errno) => return self.fault(self.path(place), "look at", errno),
        };
        let (filter, for_below) = narrow(filter, &stat, is_known);
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let filled = match directory::read(dir, &mut buffer) {
                Ok(0) => break,
                Ok(filled) => filled,
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOENT) => break,
                Err(errno) => {
                    self.fault(self.path(place), "read the directory", errno);
                    break;
                }
            };
            let mut rest = &buffer[..filled];
            while let Some((entry, len)) = directory::first(rest) {
                rest = &rest[len..];
                if matches!(entry.name.as_bytes(), b"." | b"..") {
                    continue;
                }
                if filter != RescanFilter::Nothing
                    && let Some(violation) = self.check(entry.name)
                {
                    let (origin, name) = (filter.origin(), entry.name);
                    let (place, id, dir) = (Some(place), Some(id), Some(dir));
                    let sighting = Sighting { place, id, dir, name, origin, pid: 0, violation };
                    self.report_read(&sighting, filter, report);
                }
                if is_dir(dir, entry) && !self.is_left_out(place.below, entry.name) {
                    below(self, entry.name, for_below);
                }
            }
        }
        self.buffer = buffer;
    }

    fn is_left_out(&self, dir: &Path, name: &OsStr) -> bool {
        let exclude = &self.settings.exclude;
        !exclude.is_empty() && exclude.matches(&dir.join(name), true)
    }

    /// Reports a name that was found by reading a directory.
    fn report_read(&mut self, sighting: &Sighting<'_>, filter: RescanFilter, report: ReportFn<'_>) {
        // If it is gone already, its event reports it.
        let Some((dir, id)) = sighting.dir.zip(sighting.id) else { return };
        let Some(stat) = lookup(dir, sighting.name) else { return };
        if let (RescanFilter::Since { when, .. }, Some(DirectoryPlace { root, .. })) =
            (filter, sighting.place)
        {
            let changed = time(stat.ctime);
            if changed < when && self.roots[root].stamps_renames() {
                return;
            }
        }
        if self.is_excluded(sighting, is_directory(&stat)) {
            return;
        }
        if self.reported_cache.is_new_by_reading(id, sighting.name, Some(identity(&stat))) {
            self.emit(sighting, Some(&stat), report);
        }
    }

    /// Logs and counts a bad name whose directory vanished before it was located.
    pub(super) fn report_unplaced(&mut self, name: &OsStr, violation: &Violation) {
        self.counts.unplaced += 1;
        log::info!(
            "{} ({}) appeared in a directory that vanished before it was located, in a watched tree or elsewhere on the file system",
            display(name.as_bytes()),
            violation.rule
        );
    }
}

impl RescanFilter {
    /// The filter that selects what either filter selects. A pass that replaces an unfinished one must cover that one too: it may
    /// have missed directories that were moved meanwhile.
    pub(super) fn and(self, other: Option<Self>) -> Self {
        match (self, other) {
            (Self::Since { when, .. }, Some(Self::Since { when: other, .. })) => {
                Self::Since { when: when.min(other), above_changed: false }
            }
            (_, Some(all @ Self::All(_))) => all,
            (filter, _) => filter,
        }
    }

    fn origin(self) -> Origin {
        match self {
            Self::All(origin) => origin,
            Self::Nothing | Self::Since { .. } => Origin::Rescanned,
        }
    }
}

/// Returns the filter for the names in one directory, and the filter for the directories below it.
fn narrow(filter: RescanFilter, stat: &Stat, is_known: bool) -> (RescanFilter, RescanFilter) {
    let RescanFilter::Since { when, above_changed } = filter else { return (filter, filter) };
    let changed = time(stat.ctime) >= when;
    let entries_changed = time(stat.mtime) >= when;
    // Moving a directory changes its own times and those of its parent, but not the times of what is in it.
    if above_changed && changed && !is_known {
        return (RescanFilter::All(Origin::Rescanned), RescanFilter::All(Origin::Rescanned));
    }
    let for_below = RescanFilter::Since { when, above_changed: changed || entries_changed };
    (if changed || entries_changed { filter } else { RescanFilter::Nothing }, for_below)
}

fn time(time: Time) -> SystemTime {
    let since = Duration::new(u64::try_from(time.seconds).unwrap_or_default(), time.nanoseconds);
    SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn is_dir(dir: BorrowedFd<'_>, entry: directory::RawDirEntry<'_>) -> bool {
    match entry.kind {
        libc::DT_DIR => true,
        libc::DT_UNKNOWN => lookup(dir, entry.name).is_some_and(|stat| is_directory(&stat)),
        _ => false,
    }
}

/// The attributes of `name` in `dir`, if it exists.
fn lookup(dir: BorrowedFd<'_>, name: &OsStr) -> Option<Stat> {
    stat::at(dir, name).ok()
}

fn is_directory(stat: &Stat) -> bool {
    stat.kind == libc::S_IFDIR
}

/// Identifies a file, and hardly ever a later one with the same inode number.
fn identity(stat: &Stat) -> u64 {
    let Time { seconds, nanoseconds } = stat.btime.unwrap_or_default();
    let born = (seconds as u64).rotate_left(30) ^ u64::from(nanoseconds);
    stat.ino.rotate_left(32) ^ born.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The system call that probably created the file.
fn made_by(stat: &Stat) -> &'static str {
    match stat.kind {
        libc::S_IFDIR => "mkdir",
        _ if stat.links > 1 => "link",
        libc::S_IFLNK => "symlink",
        libc::S_IFREG => "create",
        _ => "mknod",
    }
}

/// The path of the directory `name` in `below`.
pub(super) fn child(below: &Path, name: &OsStr) -> PathBuf {
    let mut path: OsString = below.as_os_str().to_owned();
    if !path.is_empty() {
        path.push("/");
    }
    path.push(name);
    path.into()
}
