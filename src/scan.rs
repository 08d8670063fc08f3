//! A scan: names from a source, judged by a policy, findings to a report.
//!
//! Threads of the source judge the directories that they read; only what is found gets a path and passes the one lock in
//! front of the report.

mod directory;
mod kept;
mod large;
mod standing;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use self::directory::Findings;
use self::kept::Again;
pub use self::kept::{Counts, Keeper, Kept, Octets};
use crate::name::Span;
use crate::name::reading::Encoding;
use crate::policy::Policy;
use crate::policy::profile::Profile;
use crate::policy::rule::RuleId;
use crate::report::baseline::Baseline;
use crate::report::summary::Accepted;
use crate::report::{Record, Report, Summary};
use crate::source::location::DirectoryPath;
use crate::source::{Batch, Event, Fault, Frontier, Source, Version};

/// How far a scan has come, and whether it is to go on; another thread may look at it at any time.
#[derive(Debug, Default)]
pub struct Progress {
    /// Directories read.
    pub directories: AtomicU64,
    /// Names judged.
    pub names: AtomicU64,
    /// Names with violations.
    pub findings: AtomicU64,
    /// The directory that was read last.
    pub current: Mutex<PathBuf>,
    /// Set to end the scan with a report of what was found so far.
    pub stop: AtomicBool,
}

impl Progress {
    fn add(&self, dir: &Path, judged: &Judged) {
        self.directories.fetch_add(judged.directories, Relaxed);
        self.names.fetch_add(judged.names, Relaxed);
        self.findings.fetch_add(judged.findings.records.len() as u64, Relaxed);
        let mut current = self.current.lock();
        current.as_mut_os_string().clear();
        current.push(dir);
    }
}

/// What is not the policy's business.
#[derive(Debug, Default)]
pub struct Settings {
    /// The encoding in which names that are not UTF-8 are read for repairs; guessed per directory if `None`.
    pub encoding: Option<Encoding>,
    /// The targets whose readiness is told; the profiles of the policy if there are none.
    pub targets: Vec<&'static Profile>,
    /// What stands before each path on the target, without a separator at its end. Lengths of paths count it.
    pub prefix: Vec<u8>,
    /// Findings that are known: they are not reported.
    pub baseline: Option<Baseline>,
    /// Looks up the owner of a name in a directory, for the report; `None` if nobody asks.
    pub owner_of: Option<OwnerOf>,
}

/// Looks up the owner of a name in a directory, as people read it; `None` where that is not known.
pub type OwnerOf = fn(&DirectoryPath, &[u8]) -> Option<String>;

/// Judges all names of `source`.
///
/// What cannot be read is reported and counted, and never ends the scan. A `keeper` is told how far it has come whenever
/// the source tells. What another scan has told `before` is told first, as if this one had found it.
///
/// # Errors
/// Writing the report failed, or keeping, or reading what was kept; the scan ended there.
pub fn scan(
    source: &dyn Source,
    policy: &Policy,
    settings: &Settings,
    report: &mut dyn Report,
    progress: &Progress,
    keeper: Option<&dyn Keeper>,
    before: Option<Kept>,
) -> io::Result<Summary> {
    let targets = if settings.targets.is_empty() { policy.profiles() } else { &settings.targets };
    let mut sink = Sink {
        report,
        summary: Summary::for_targets(targets),
        keeper,
        baseline: settings.baseline.as_ref(),
        accepted_before: 0,
        failure: None,
        said: Said::default(),
    };
    if let Some(before) = before {
        sink.tell_again(before)?;
    }
    let sink = Mutex::new(sink);
    source.read(&|event| {
        let told = match event {
            Event::Directory(batch) => {
                let judged = Judged::new(&batch, directory::judge(&batch, policy, settings));
                progress.add(&batch.dir, &judged);
                Told::Judged(judged)
            }
            Event::Large(parts) => Told::Judged(large::judge(parts, policy, settings, progress)),
            Event::Fault(fault) => Told::Fault(fault),
            Event::Vanished => Told::Vanished,
            Event::Frontier(frontier) => Told::Frontier(frontier),
        };
        let mut sink = sink.lock();
        if sink.failure.is_none()
            && let Err(error) = sink.take(&told)
        {
            sink.failure = Some(error);
        }
        if sink.failure.is_some() || progress.stop.load(Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let sink = sink.into_inner();
    let accepted = sink.accepted();
    let Sink { report, mut summary, failure, .. } = sink;
    summary.was_interrupted = progress.stop.load(Relaxed);
    summary.baseline = settings
        .baseline
        .as_ref()
        .map(|known| Accepted { accepted, stale: known.len().saturating_sub(accepted) });
    match failure {
        Some(error) => Err(error),
        None => report.finish(policy, &summary).map(|()| summary),
    }
}

/// The names of one directory, or of one version of it, judged.
#[derive(Default)]
struct Judged {
    directories: u64,
    names: u64,
    findings: Findings,
    /// Whether the directory has several versions.
    is_version: bool,
}

impl Judged {
    fn new(batch: &Batch, findings: Findings) -> Self {
        let version = batch.version.unwrap_or(Version { is_first: true, again: 0 });
        Self {
            directories: u64::from(batch.is_whole() && version.is_first),
            names: (batch.count - version.again) as u64,
            findings,
            is_version: batch.version.is_some(),
        }
    }
}

/// What is to be told in one piece.
enum Told {
    Judged(Judged),
    Fault(Fault),
    Vanished,
    Frontier(Frontier),
}

struct Sink<'s> {
    report: &'s mut dyn Report,
    summary: Summary,
    keeper: Option<&'s dyn Keeper>,
    baseline: Option<&'s Baseline>,
    /// Entries of the baseline that were met by the scan that this one goes on from.
    accepted_before: u64,
    failure: Option<io::Error>,
    said: Said,
}

/// What was said of directories that have several versions.
#[derive(Default)]
struct Said {
    /// Of their names, by path.
    names: HashMap<Vec<u8>, Vec<(RuleId, Span)>>,
    /// Of names that become one.
    groups: HashSet<String>,
}

impl Sink<'_> {
    fn take(&mut self, told: &Told) -> io::Result<()> {
        match told {
            Told::Judged(Judged { directories, names, findings, is_version }) => {
                self.summary.directories += directories;
                self.summary.names += names;
                if let Some(keeper) = self.keeper
                    && let Some(line) = kept::of_findings(findings)
                {
                    keeper.tell(&line)?;
                }
                self.tell(findings, *is_version)?;
            }
            Told::Fault(fault) => {
                if let Some(keeper) = self.keeper {
                    keeper.tell(&kept::of_fault(fault))?;
                }
                self.tell_fault(&fault.path, &fault.to_string())?;
            }
            Told::Vanished => self.summary.vanished += 1,
            Told::Frontier(frontier) => {
                // What is kept as told must not be lost with us.
                self.report.pause()?;
                if let Some(keeper) = self.keeper {
                    keeper.keep(frontier, &self.counts())?;
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, findings: &Findings, is_version: bool) -> io::Result<()> {
        for group in &findings.groups {
            if !is_version || self.said.groups.insert(group.id.clone()) {
                self.summary.collisions += 1;
                self.report.collision(group)?;
            }
        }
        for record in &findings.records {
            if !is_version {
                self.summary.count(record);
                self.report.record(record)?;
            } else if let Some(news) = self.news(record) {
                self.report.record(&news)?;
            }
        }
        if !findings.records.is_empty() {
            self.report.pause()?;
        }
        Ok(())
    }

    fn tell_fault(&mut self, path: &Path, message: &str) -> io::Result<()> {
        self.summary.unreadable += 1;
        self.report.fault(path.as_os_str().as_bytes(), message)
    }

    /// Tells what another scan has told.
    fn tell_again(&mut self, before: Kept) -> io::Result<()> {
        for line in BufRead::split(before.lines, b'\n') {
            match kept::read(&line?)? {
                Again::Findings(findings) => self.tell(&findings, false)?,
                Again::Fault { path, message } => self.tell_fault(&path, &message)?,
            }
        }
        let Counts { directories, names, vanished, accepted } = before.counts;
        self.summary.directories = directories;
        self.summary.names = names;
        self.summary.vanished = vanished;
        self.accepted_before = accepted;
        Ok(())
    }

    fn counts(&self) -> Counts {
        let Summary { directories, names, vanished, .. } = self.summary;
        Counts { directories, names, vanished, accepted: self.accepted() }
    }

    /// Entries of the baseline that were met, now and before.
    fn accepted(&self) -> u64 {
        self.accepted_before + self.baseline.map_or(0, Baseline::met)
    }

    /// What was not said of the name yet, counted; `None` if everything was.
    fn news(&mut self, record: &Record) -> Option<Record> {
        let said = self.said.names.entry(record.path()).or_default();
        let is_known = !said.is_empty();
        let mut news = record.clone();
        news.objections.retain(|o| !said.contains(&(o.violation.rule, o.violation.span)));
        said.extend(news.objections.iter().map(|o| (o.violation.rule, o.violation.span)));
        if news.objections.is_empty() {
            return None;
        }
        if is_known {
            self.summary.count_rules(&news)
        } else {
            self.summary.count(&news)
        }
        Some(news)
    }
}
