//! What all engines share: the roots, the check and report of a name, the reading of a directory, and what waits to be
//! read.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;

use super::reported_cache::ReportedCache;
use super::root::{DirectoryId, WatchRoot, id};
use super::{Finding, WatchCounts, WatchSettings};
use crate::name::display::display;
use crate::policy::{Verdict, Violation};
use crate::source::Fault;
use crate::sys::directory;
use crate::sys::stat::{self, Stat, Time};
use crate::telemetry::audit::{AuditOutcome, AuditRecord, Requester};

/// Time stamps of files are taken from a clock that ticks more slowly than ours; FAT's ticks every two seconds.
const SLACK: Duration = Duration::from_secs(3);

/// Where findings go.
pub(super) type ReportFn<'t> = &'t mut dyn FnMut(Finding);

/// How a name came to be there, as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was made; a directory, if so.
    Made { is_dir: bool },
    /// Something got it as its new name, or came with a directory that was moved here.
    Renamed,
    /// It was there when the watch began.
    Initial,
    /// It was there when a tree was read again, after events had been lost.
    Rescanned,
}

/// Which names of a directory that is read are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RescanFilter {
    /// None: it is read for the directories in it.
    Nothing,
    /// All.
    All(Origin),
    /// Those that may have come since then, while events were lost.
    Since { when: SystemTime, above_changed: bool },
}

/// A directory that waits to be read.
#[derive(Clone, Debug)]
pub(super) struct ReadTask {
    pub(super) target: ReadTarget,
    pub(super) filter: RescanFilter,
    /// How often it was not where it was expected.
    pub(super) tries: u8,
}

#[derive(Clone, Debug)]
pub(super) enum ReadTarget {
    /// By its path from a root.
    Path { root: usize, below: PathBuf },
    /// By its number in the tree of the engine of that number.
    Node { engine: usize, node: u64 },
}

/// A moment at which every event had been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainTime {
    clock: SystemTime,
    instant: Instant,
}

impl DrainTime {
    pub(super) fn now() -> Self {
        Self { clock: SystemTime::now(), instant: Instant::now() }
    }

    /// The time since which events may be missing. The clock may have been set meanwhile.
    fn since(self) -> SystemTime {
        let by_duration = SystemTime::now().checked_sub(self.instant.elapsed());
        let earlier = by_duration.map_or(self.clock, |time| time.min(self.clock));
        earlier.checked_sub(SLACK).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// A name that is to be reported.
#[derive(Debug)]
pub(super) struct Sighting<'s> {
    /// The directory: the root's number, and the path from there.
    pub(super) place: Option<(usize, &'s Path)>,
    /// Which directory that is, if it is known, even if it cannot be opened where it should be.
    pub(super) id: Option<DirectoryId>,
    /// The same, open.
    pub(super) dir: Option<BorrowedFd<'s>>,
    pub(super) name: &'s OsStr,
    pub(super) how: Origin,
    /// Who made it, or 0.
    pub(super) pid: i32,
    pub(super) violation: Violation,
}

#[derive(Debug)]
pub(super) struct WatchCore {
    pub(super) settings: WatchSettings,
    pub(super) roots: Vec<WatchRoot>,
    pub(super) reported_cache: ReportedCache,
    pub(super) works: VecDeque<ReadTask>,
    /// Those that were not where they were expected: they wait until what is on its way has been read.
    pub(super) deferred: Vec<ReadTask>,
    pub(super) counts: WatchCounts,
    pub(super) drained: DrainTime,
    /// When the log was last told that events were lost.
    said_lost: Option<Instant>,
    /// Who the processes of the events at hand are.
    requesters: HashMap<i32, Requester>,
    buffer: Vec<u8>,
}

impl WatchCore {
    pub(super) fn new(settings: WatchSettings, roots: Vec<WatchRoot>) -> Self {
        Self {
            settings,
            roots,
            reported_cache: ReportedCache::default(),
            works: VecDeque::new(),
            deferred: Vec::new(),
            counts: WatchCounts::default(),
            drained: DrainTime::now(),
            said_lost: None,
            requesters: HashMap::new(),
            buffer: vec![0; 64 * 1024],
        }
    }

    /// The violation to report for `name`.
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

    /// The events at hand have been dealt with.
    pub(super) fn forget_requesters(&mut self) {
        self.requesters.clear();
    }

    /// The path of a directory, from the top.
    pub(super) fn path(&self, root: usize, below: &Path) -> PathBuf {
        match below.as_os_str().is_empty() {
            true => self.roots[root].path.clone(),
            false => self.roots[root].path.join(below),
        }
    }

    /// Something could not be watched or read.
    pub(super) fn fault(&mut self, path: PathBuf, attempt: &'static str, error: Errno) {
        log::warn!("{}", Fault { path, attempt, error: error.into() });
        self.counts.faults += 1;
    }

    /// Reports a name that an event tells of.
    pub(super) fn report_event(&mut self, sighting: &Sighting<'_>, tell: ReportFn<'_>) {
        let there = sighting.dir.and_then(|dir| look(dir, sighting.name));
        if self.is_excluded(sighting, there.as_ref().is_some_and(is_directory)) {
            return;
        }
        let identity = there.as_ref().map(identity);
        let is_new =
            sighting.id.is_none_or(|id| self.reported_cache.is_new_by_event(id, sighting.name, identity));
        if is_new {
            self.tell(sighting, there.as_ref(), tell);
        }
    }

    /// Whether the name, or a directory that leads to it, is left out.
    fn is_excluded(&self, sighting: &Sighting<'_>, is_dir: bool) -> bool {
        let exclude = &self.settings.exclude;
        let Some((_, below)) = sighting.place.filter(|_| !exclude.is_empty()) else { return false };
        let mut above = below.ancestors().filter(|path| !path.as_os_str().is_empty());
        above.any(|dir| exclude.matches(dir, true)) || exclude.matches(&below.join(sighting.name), is_dir)
    }

    fn tell(&mut self, sighting: &Sighting<'_>, there: Option<&Stat>, tell: ReportFn<'_>) {
        let operation = match sighting.how {
            Origin::Renamed => "rename",
            Origin::Initial => "initial",
            Origin::Rescanned => "rescan",
            Origin::Made { is_dir } => there.map_or(if is_dir { "mkdir" } else { "create" }, made_by),
        };
        let requester = self
            .requesters
            .entry(sighting.pid)
            .or_insert_with_key(|&pid| Requester::from_process(u32::try_from(pid).unwrap_or_default()));
        let parent = sighting.place.map(|(root, below)| match below.as_os_str().is_empty() {
            true => self.roots[root].path.clone(),
            false => self.roots[root].path.join(below),
        });
        self.counts.findings += 1;
        tell(Finding {
            path: parent.as_ref().map(|parent| parent.join(sighting.name)),
            record: AuditRecord {
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

    /// The kernel says that events were lost. The log hears of it now and then, however often it happens.
    pub(super) fn count_lost(&mut self) {
        const INTERVAL: Duration = Duration::from_secs(10);
        self.counts.lost += 1;
        if self.said_lost.is_none_or(|said| said.elapsed() >= INTERVAL) {
            self.said_lost = Some(Instant::now());
            log::warn!("the kernel lost events because too many came at once; reading the trees again");
        }
    }

    /// Events were lost: what an engine watches has to be read again, all of these roots.
    pub(super) fn since_lost(&self, mut roots: impl Iterator<Item = usize>) -> RescanFilter {
        let is_far = roots.any(|root| self.roots[root].is_far());
        let when = if is_far { SystemTime::UNIX_EPOCH } else { self.drained.since() };
        RescanFilter::Since { when, above_changed: false }
    }

    /// Reads the directory `dir`, reports what the filter lets pass, and hands the directories in it to `below`, each with
    /// its filter. `is_known` says that it was here before events were lost.
    pub(super) fn read(
        &mut self,
        dir: BorrowedFd<'_>,
        (root, path): (usize, &Path),
        filter: RescanFilter,
        is_known: bool,
        below: &mut dyn FnMut(&mut Self, &OsStr, RescanFilter),
        tell: ReportFn<'_>,
    ) {
        self.counts.directories += 1;
        let stat = match stat::at(dir, OsStr::new("")) {
            Ok(stat) => stat,
            Err(errno) => return self.fault(self.path(root, path), "look at", errno),
        };
        let id = match id(dir) {
            Ok(id) => id,
            Err(errno) => return self.fault(self.path(root, path), "look at", errno),
        };
        let (filter, for_below) = narrowed(filter, &stat, is_known);
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let filled = match directory::read(dir, &mut buffer) {
                Ok(0) => break,
                Ok(filled) => filled,
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOENT) => break,
                Err(errno) => {
                    self.fault(self.path(root, path), "read the directory", errno);
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
                    let place = Some((root, path));
                    let how = filter.how();
                    let (dir, id, name) = (Some(dir), Some(id), entry.name);
                    let sighting = Sighting { place, id, dir, name, how, pid: 0, violation };
                    self.report_read(&sighting, filter, tell);
                }
                if is_dir(dir, entry) && !self.is_left_out(path, entry.name) {
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

    /// Reports a name that was found by reading.
    fn report_read(&mut self, sighting: &Sighting<'_>, filter: RescanFilter, tell: ReportFn<'_>) {
        // What is gone already was there for its event alone.
        let Some((dir, id)) = sighting.dir.zip(sighting.id) else { return };
        let Some(there) = look(dir, sighting.name) else { return };
        if let (RescanFilter::Since { when, .. }, Some((root, _))) = (filter, sighting.place) {
            let changed = time(there.ctime);
            if changed < when && self.roots[root].stamps_renames() {
                return;
            }
        }
        if self.is_excluded(sighting, is_directory(&there)) {
            return;
        }
        if self.reported_cache.is_new_by_reading(id, sighting.name, Some(identity(&there))) {
            self.tell(sighting, Some(&there), tell);
        }
    }

    /// A name whose directory is gone, and was never placed.
    pub(super) fn unplaced(&mut self, name: &OsStr, violation: &Violation) {
        self.counts.unplaced += 1;
        log::info!(
            "{} ({}) appeared in a directory that vanished before it was located, in a watched tree or elsewhere on the file system",
            display(name.as_bytes()),
            violation.rule
        );
    }
}

impl RescanFilter {
    /// What lets pass what either of them does. A reading that begins before another one has ended goes on for that one, too:
    /// what has been moved meanwhile may have escaped it.
    pub(super) fn and(self, other: Option<Self>) -> Self {
        match (self, other) {
            (Self::Since { when, .. }, Some(Self::Since { when: other, .. })) => {
                Self::Since { when: when.min(other), above_changed: false }
            }
            (_, Some(all @ Self::All(_))) => all,
            (filter, _) => filter,
        }
    }

    fn how(self) -> Origin {
        match self {
            Self::All(how) => how,
            Self::Nothing | Self::Since { .. } => Origin::Rescanned,
        }
    }
}

/// What the filter comes to for the names of one directory, and for those below it.
fn narrowed(filter: RescanFilter, stat: &Stat, is_known: bool) -> (RescanFilter, RescanFilter) {
    let RescanFilter::Since { when, above_changed } = filter else { return (filter, filter) };
    let changed = time(stat.ctime) >= when;
    let entries_changed = time(stat.mtime) >= when;
    // A directory that was moved has changed itself, and so has what holds it. What it brought along is older than that.
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
        libc::DT_UNKNOWN => look(dir, entry.name).is_some_and(|there| is_directory(&there)),
        _ => false,
    }
}

/// What stands under `name` in `dir`, if anything does.
fn look(dir: BorrowedFd<'_>, name: &OsStr) -> Option<Stat> {
    stat::at(dir, name).ok()
}

fn is_directory(there: &Stat) -> bool {
    there.kind == libc::S_IFDIR
}

/// A number that stands for a file, and hardly ever for the next one that gets its inode.
fn identity(there: &Stat) -> u64 {
    let Time { seconds, nanoseconds } = there.btime.unwrap_or_default();
    let born = (seconds as u64).rotate_left(30) ^ u64::from(nanoseconds);
    there.ino.rotate_left(32) ^ born.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The system call that makes such a thing, about.
fn made_by(there: &Stat) -> &'static str {
    match there.kind {
        libc::S_IFDIR => "mkdir",
        _ if there.links > 1 => "link",
        libc::S_IFLNK => "symlink",
        libc::S_IFREG => "create",
        _ => "mknod",
    }
}

/// The directory `name` in the one at `below`.
pub(super) fn child(below: &Path, name: &OsStr) -> PathBuf {
    let mut path: OsString = below.as_os_str().to_owned();
    if !path.is_empty() {
        path.push("/");
    }
    path.push(name);
    path.into()
}
