//! A scan: names from a source, checked against a policy, findings to a report.
//!
//! The threads of the source check the directories that they read; only findings get a path and pass the one lock in front of
//! the report.

mod checkpoint;
mod chunked;
mod container_rules;
mod directory;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use parking_lot::Mutex;

use self::checkpoint::Replay;
pub use self::checkpoint::{Checkpoint, CheckpointCounts, CheckpointSink};
use self::directory::{DirectoryFindings, DirectoryScan};
use crate::name::Span;
use crate::name::reading::Encoding;
use crate::policy::Policy;
use crate::policy::profile::Profile;
use crate::policy::rule::RuleId;
use crate::progress::Observer;
use crate::report::baseline::Baseline;
use crate::report::summary::Accepted;
use crate::report::{Report, ReportedName, Summary};
use crate::source::location::DirectoryPath;
use crate::source::{DirectoryBatch, DirectoryVersion, Fault, Frontier, Source, SourceEvent};

/// Settings of a scan besides the policy.
#[derive(Debug, Default)]
pub struct ScanSettings {
    /// The encoding of names that are not UTF-8, for suggested names; guessed per directory if `None`.
    pub encoding: Option<Encoding>,
    /// The targets whose readiness is reported; the profiles of the policy if there are none.
    pub targets: Vec<&'static Profile>,
    /// The prefix of each path on the target, without a separator at its end. Lengths of paths count it.
    pub prefix: Vec<u8>,
    /// Known findings, which are not reported.
    pub baseline: Option<Baseline>,
    /// Looks up the owner of a name in a directory, for the report; `None` if owners are not reported.
    pub owner_of: Option<OwnerOf>,
}

/// Looks up the owner of a name in a directory, for people; `None` if unknown.
pub type OwnerOf = fn(&DirectoryPath, &[u8]) -> Option<String>;

/// Checks all names of `source`.
///
/// Anything that cannot be read is reported and counted, and the scan continues. `checkpoints` receives a checkpoint whenever
/// the source has a frontier to report. The findings of `before`, the checkpoint of an interrupted scan, are reported first.
///
/// # Errors
/// The report or a checkpoint cannot be written (a reader that went away is no error), or `before` cannot be read; the scan ended there.
pub fn scan(
    source: &dyn Source,
    policy: &Policy,
    settings: &ScanSettings,
    report: &mut dyn Report,
    observer: &dyn Observer,
    checkpoints: Option<&dyn CheckpointSink>,
    before: Option<Checkpoint>,
) -> io::Result<Summary> {
    let targets = if settings.targets.is_empty() { policy.profiles() } else { &settings.targets };
    let mut sink = ReportSink {
        report,
        summary: Summary::for_targets(targets),
        checkpoints,
        baseline: settings.baseline.as_ref(),
        accepted_before: 0,
        failure: None,
        reported: Deduplicator::default(),
    };
    if let Some(before) = before {
        sink.replay(before)?;
    }
    let shows_findings = sink.report.shows_findings() || checkpoints.is_some();
    let directories = DirectoryScan { policy, settings, shows_findings };
    let sink = Mutex::new(sink);
    source.read(&|event| {
        let output = match event {
            SourceEvent::Directory(batch) => {
                let result = DirectoryResult::new(&batch, directories.check(&batch, None));
                let findings = result.findings.records.len() as u64;
                observer.checked(&batch.dir, result.names, findings);
                ScanOutput::Directory(result)
            }
            SourceEvent::Large(parts) => ScanOutput::Directory(chunked::check(parts, &directories, observer)),
            SourceEvent::Fault(fault) => ScanOutput::Fault(fault, 1),
            SourceEvent::RepeatedFault(fault, count) => ScanOutput::Fault(fault, count),
            SourceEvent::Vanished => ScanOutput::Vanished,
            SourceEvent::Frontier(frontier) => ScanOutput::Frontier(frontier),
        };
        let mut sink = sink.lock();
        if sink.failure.is_none()
            && let Err(error) = sink.report(&output)
        {
            sink.failure = Some(error);
        }
        if sink.failure.is_some() || observer.is_stopped() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let sink = sink.into_inner();
    let accepted = sink.accepted();
    let ReportSink { report, mut summary, failure, .. } = sink;
    summary.was_interrupted = observer.is_stopped();
    summary.baseline = settings
        .baseline
        .as_ref()
        .map(|known| Accepted { accepted, stale: known.len().saturating_sub(accepted) });
    let written = failure.map_or_else(|| report.finish(policy, &summary), Err);
    summary.is_unread = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if summary.is_unread { Ok(summary) } else { written.map(|()| summary) }
}

/// The result of one directory, or of one version of it.
#[derive(Default)]
struct DirectoryResult {
    directories: u64,
    names: u64,
    findings: DirectoryFindings,
    /// Whether the directory has several versions.
    is_version: bool,
}

impl DirectoryResult {
    fn new(batch: &DirectoryBatch, findings: DirectoryFindings) -> Self {
        let version = batch.version.unwrap_or(DirectoryVersion { is_first: true, again: 0 });
        Self {
            directories: u64::from(batch.is_whole() && version.is_first),
            names: (batch.count - version.again) as u64,
            findings,
            is_version: batch.version.is_some(),
        }
    }
}

/// A piece of the report, written under one lock.
enum ScanOutput {
    Directory(DirectoryResult),
    Fault(Fault, u64),
    Vanished,
    Frontier(Frontier),
}

struct ReportSink<'s> {
    report: &'s mut dyn Report,
    summary: Summary,
    checkpoints: Option<&'s dyn CheckpointSink>,
    baseline: Option<&'s Baseline>,
    /// Entries of the baseline that the scan before the checkpoint found.
    accepted_before: u64,
    failure: Option<io::Error>,
    reported: Deduplicator,
}

/// What was reported of directories that have several versions.
#[derive(Default)]
struct Deduplicator {
    /// Violations by the path of the name.
    names: HashMap<Vec<u8>, Vec<(RuleId, Span)>>,
    /// Ids of groups of names that become one.
    groups: HashSet<String>,
}

impl ReportSink<'_> {
    fn report(&mut self, output: &ScanOutput) -> io::Result<()> {
        match output {
            ScanOutput::Directory(DirectoryResult { directories, names, findings, is_version }) => {
                self.summary.directories += directories;
                self.summary.names += names;
                if let Some(checkpoints) = self.checkpoints
                    && let Some(line) = checkpoint::findings_line(findings)
                {
                    checkpoints.append(&line)?;
                }
                self.report_findings(findings, *is_version)?;
            }
            ScanOutput::Fault(fault, count) => {
                if let Some(checkpoints) = self.checkpoints {
                    checkpoints.append(&checkpoint::fault_line(fault))?;
                }
                self.report_fault(&fault.path, &fault.to_string(), *count)?;
            }
            ScanOutput::Vanished => self.summary.vanished += 1,
            ScanOutput::Frontier(frontier) => {
                // What a checkpoint takes for reported must have been written.
                self.report.pause()?;
                if let Some(checkpoints) = self.checkpoints {
                    checkpoints.save(frontier, &self.counts())?;
                }
            }
        }
        Ok(())
    }

    fn report_findings(&mut self, findings: &DirectoryFindings, is_version: bool) -> io::Result<()> {
        for group in &findings.groups {
            if !is_version || self.reported.groups.insert(group.id.clone()) {
                self.summary.collisions += 1;
                self.report.collision(group)?;
            }
        }
        for record in &findings.records {
            if !is_version {
                self.summary.count(record);
                self.report.record(record)?;
            } else if let Some(new) = self.deduplicate(record) {
                self.report.record(&new)?;
            }
        }
        if !findings.records.is_empty() {
            self.report.pause()?;
        }
        Ok(())
    }

    fn report_fault(&mut self, path: &Path, message: &str, count: u64) -> io::Result<()> {
        self.summary.unreadable += count;
        self.report.fault(path.as_os_str().as_bytes(), message)
    }

    /// Reports the findings of a checkpoint.
    fn replay(&mut self, before: Checkpoint) -> io::Result<()> {
        for line in BufRead::split(before.lines, b'\n') {
            match checkpoint::read(&line?)? {
                Replay::Findings(findings) => self.report_findings(&findings, false)?,
                Replay::Fault { path, message } => self.report_fault(&path, &message, 1)?,
            }
        }
        let CheckpointCounts { directories, names, vanished, accepted } = before.counts;
        self.summary.directories = directories;
        self.summary.names = names;
        self.summary.vanished = vanished;
        self.accepted_before = accepted;
        Ok(())
    }

    fn counts(&self) -> CheckpointCounts {
        let Summary { directories, names, vanished, .. } = self.summary;
        CheckpointCounts { directories, names, vanished, accepted: self.accepted() }
    }

    /// Entries of the baseline that were found, now and before the checkpoint.
    fn accepted(&self) -> u64 {
        self.accepted_before + self.baseline.map_or(0, Baseline::met)
    }

    /// The violations of the name that were not reported yet, counted; `None` if all were.
    fn deduplicate(&mut self, record: &ReportedName) -> Option<ReportedName> {
        let reported = self.reported.names.entry(record.path()).or_default();
        let is_known = !reported.is_empty();
        let mut new = record.clone();
        new.objections.retain(|o| !reported.contains(&(o.violation.rule, o.violation.span)));
        reported.extend(new.objections.iter().map(|o| (o.violation.rule, o.violation.span)));
        if new.objections.is_empty() {
            return None;
        }
        if is_known {
            self.summary.count_rules(&new)
        } else {
            self.summary.count(&new)
        }
        Some(new)
    }
}
