//! A scan: names from a source, checked against a policy, findings to a report.
//!
//! The threads of the source check the directories that they read, count their findings and render them; only writing the
//! report needs a lock.

mod batch_scan;
mod checkpoint;
mod chunked;
mod tree_evidence;
mod versions;

use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use namegate_core::name::reading::{Encoding, EncodingGuess};
use namegate_core::policy::Policy;
use namegate_core::policy::profile::Profile;
use namegate_core::policy::rule::Severity;
pub use namegate_findings::directory::OwnerOf;
use namegate_findings::directory::{CheckedNames, DirectoryScan, Handover};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::location::DirectoryPath;
use parking_lot::Mutex;

use self::batch_scan::BatchScan;
use self::checkpoint::Replay;
pub use self::checkpoint::{Checkpoint, CheckpointCounts, CheckpointSink};
use self::chunked::LargeCheck;
use self::tree_evidence::TreeEvidence;
use self::versions::Deduplicator;
use crate::encoded_text::EncodedNames;
use crate::progress::Observer;
use crate::report::baseline::Baseline;
use crate::report::summary::Accepted;
use crate::report::{Detail, DirectoryFindings, RenderedFindings, Renderer, Report, Summary};
use crate::source::encodings::EarlierNames;
use crate::source::{self, DirectoryBatch, Fault, Frontier, Source, SourceEvent};

/// Settings of a scan besides the policy.
#[derive(Debug, Default)]
pub struct ScanSettings {
    /// The encoding of names that are not UTF-8, for suggested names; guessed per directory if `None`.
    pub encoding: Option<Encoding>,
    /// The targets whose readiness is reported; the profiles of the policy if there are none.
    pub targets: Vec<&'static Profile>,
    /// The prefix of each path on the target, without a separator at its end. Lengths of paths count it.
    pub prefix: Vec<u8>,
    /// Findings of a lower severity are neither reported nor counted.
    pub min_severity: Option<Severity>,
    /// Known findings, which are not reported.
    pub baseline: Option<Baseline>,
    /// Looks up the owner of a name in a directory, for the report; `None` if owners are not reported.
    pub owner_of: Option<OwnerOf>,
}

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
    // A scan that resumes this one can have another report.
    let detail = if checkpoints.is_some() { Detail::Everything } else { report.detail() };
    let baseline = settings.baseline.as_ref();
    let min_severity = settings.min_severity.unwrap_or(Severity::Warn);
    let accepts = move |place: &DirectoryPath, name: &[u8], rule| {
        baseline.is_some_and(|known| known.accepts(place, name, rule))
    };
    let directories = DirectoryScan {
        encoding: settings.encoding,
        min_severity,
        accepts: baseline.map(|_| &accepts as _),
        owner_of: settings.owner_of,
        inode_of: Some(source::inode_of),
        ..DirectoryScan::new(policy, detail)
    };
    let guesses = directories.has_messages() && settings.encoding.is_none();
    let evidence = TreeEvidence::new(source.as_tree().filter(|_| guesses));
    let decided = BatchScan { directories, prefix: &settings.prefix };
    let directories = DirectoryScan { waits: evidence.can_wait(), ..directories };
    let directories = BatchScan { directories, ..decided };
    let renderer = report.renderer();
    let counters = Counters::new(targets);
    let mut output =
        ScanOutput { report, counters: &counters, checkpoints, baseline, accepted_before: 0, failure: None };
    if let Some(before) = before {
        output.replay(before, &*renderer)?;
    }
    let output = Mutex::new(output);
    let has_failed = AtomicBool::new(false);
    let write = |write: &dyn Fn(&mut ScanOutput<'_>) -> io::Result<()>| {
        let mut output = output.lock();
        if output.failure.is_none()
            && let Err(error) = write(&mut output)
        {
            output.failure = Some(error);
            has_failed.store(true, Relaxed);
        }
    };
    let write_findings = |findings: DirectoryFindings| {
        if !findings.is_empty() {
            let rendered = renderer.render(&findings);
            let line = checkpoints.and_then(|_| checkpoint::findings_line(&findings));
            write(&|output| output.write_findings(&findings, &rendered, line.as_deref()));
        }
    };
    let report_findings = |findings: DirectoryFindings| {
        counters.count(|summary| summary.count_findings(&findings));
        write_findings(findings);
    };
    let report_of = |batch: &DirectoryBatch, findings: DirectoryFindings| {
        observer.checked(&batch.dir, 0, findings.records.len() as u64);
        if batch.in_repository {
            counters.count(|summary| summary.in_repositories += findings.records.len() as u64);
        }
        report_findings(findings);
    };
    let decide = |mut batch: DirectoryBatch, earlier: &EarlierNames| {
        batch.encodings = batch.guess_encodings(&earlier.encodings).map(Arc::new);
        decided.check(&batch, CheckedNames::All, &mut |findings| report_of(&batch, findings));
    };
    // Reports the directories whose findings wait for the evidence of more names.
    let review = |is_stopped: &(dyn Fn() -> bool + Sync)| {
        evidence.review(is_stopped, &|event, earlier| match event {
            SourceEvent::Directory(batch) => decide(batch, earlier),
            SourceEvent::Large(parts) => {
                let guess = |_: &Path, sample: &_| EncodingGuess::for_sample(sample, &earlier.encodings);
                let emit = &mut |findings| report_findings(findings);
                chunked::check(parts, &decided, &guess, &FindingsOnly(observer), &mut |_| {}, emit);
            }
            SourceEvent::Fault(fault) => write(&|output| output.write_fault(&fault, 1)),
            SourceEvent::Vanished => counters.count(|summary| summary.vanished += 1),
            _ => {}
        });
    };
    evidence.survey(&|| observer.is_stopped());
    source.read(&|event| {
        match event {
            SourceEvent::Directory(mut batch) => {
                counters.count(|summary| {
                    summary.directories += u64::from(batch.is_whole());
                    summary.names += batch.count as u64;
                    summary.encoded.add(count_encoded(&batch));
                });
                observer.checked(&batch.dir, batch.count as u64, 0);
                if let Some(guess) = evidence.guess(&batch) {
                    batch.encodings = Some(Arc::new(guess));
                }
                let emit = &mut |findings| report_of(&batch, findings);
                if directories.check(&batch, CheckedNames::All, emit) == Handover::Waits {
                    match evidence.available_now(&batch) {
                        Some(earlier) => decide(batch, &earlier),
                        None => evidence.put_off(batch),
                    }
                }
            }
            SourceEvent::History(directory) => {
                let (dir, names) = (directory.names().dir.clone(), directory.names().count as u64);
                counters.count(|summary| {
                    summary.directories += 1;
                    summary.names += names;
                });
                observer.checked(&dir, names, 0);
                let mut reported = Deduplicator::default();
                versions::check(directory, &directories, &mut |mut findings| {
                    observer.checked(&dir, 0, findings.records.len() as u64);
                    // A name that collided before can collide with another one in a new version.
                    counters.count(|summary| reported.keep_new(&mut findings, summary));
                    write_findings(findings);
                });
            }
            SourceEvent::Large(parts) => {
                let mut encoded = EncodedNames::default();
                let mut look = |part: &DirectoryBatch| encoded.add(count_encoded(part));
                let guess = |dir: &Path, sample: &_| evidence.guess_of(dir.as_os_str().as_bytes(), sample);
                let emit = &mut |findings| report_findings(findings);
                let LargeCheck { names, waits } =
                    chunked::check(parts, &directories, &guess, observer, &mut look, emit);
                if let Some((dir, root_len)) = waits {
                    evidence.put_off_large(dir, root_len);
                }
                counters.count(|summary| {
                    summary.encoded.add(encoded);
                    summary.directories += 1;
                    summary.names += names;
                });
            }
            SourceEvent::Fault(fault) => write(&|output| output.write_fault(&fault, 1)),
            SourceEvent::RepeatedFault(fault, count) => write(&|output| output.write_fault(&fault, count)),
            SourceEvent::Unmarked(names) => counters.count(|summary| summary.unmarked.push(names.clone())),
            SourceEvent::Vanished => counters.count(|summary| summary.vanished += 1),
            SourceEvent::Frontier(frontier) => {
                // What a checkpoint takes for reported must have been reported, with the evidence that there is.
                review(&|| false);
                write(&|output| output.save(&frontier));
            }
        }
        if has_failed.load(Relaxed) || observer.is_stopped() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    review(&|| has_failed.load(Relaxed) || observer.is_stopped());
    observer.finishing();
    let output = output.into_inner();
    let (accepted, mut summary) = (output.accepted(), counters.sum());
    let ScanOutput { report, failure, .. } = output;
    summary.was_interrupted = observer.is_stopped();
    // Of what was not checked nobody knows whether it has gone.
    summary.baseline = settings.baseline.as_ref().map(|known| Accepted {
        accepted,
        stale: summary.is_complete().then(|| known.count().saturating_sub(accepted)),
    });
    let basis = CheckBasis::new(policy, &settings.prefix, settings.encoding, min_severity);
    let written = failure.map_or_else(|| report.finish(&basis, &summary), Err);
    summary.is_unread = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if summary.is_unread { Ok(summary) } else { written.map(|()| summary) }
}

/// The names of a tree that have encoded text. `fix plan` is for trees, and leaves repositories alone.
fn count_encoded(batch: &DirectoryBatch) -> EncodedNames {
    match batch.container.is_none() && !batch.in_repository {
        true => EncodedNames::count(&batch.names),
        false => EncodedNames::default(),
    }
}

/// Tells of findings, and not of names, which were checked before.
struct FindingsOnly<'o>(&'o dyn Observer);

impl Observer for FindingsOnly<'_> {
    fn checked(&self, dir: &Path, _: u64, findings: u64) {
        self.0.checked(dir, 0, findings);
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// Counts in any thread: each takes a summary that no other uses, so that none waits while another counts.
struct Counters<'t> {
    targets: &'t [&'static Profile],
    idle: Mutex<Vec<Summary>>,
}

impl<'t> Counters<'t> {
    fn new(targets: &'t [&'static Profile]) -> Self {
        Self { targets, idle: Mutex::default() }
    }

    fn count(&self, count: impl FnOnce(&mut Summary)) {
        let idle = self.idle.lock().pop();
        let mut summary = idle.unwrap_or_else(|| Summary::for_targets(self.targets));
        count(&mut summary);
        self.idle.lock().push(summary);
    }

    /// The sum of all counts, when no thread counts.
    fn sum(&self) -> Summary {
        let mut sum = Summary::for_targets(self.targets);
        self.idle.lock().iter().for_each(|part| sum.add(part.clone()));
        sum
    }
}

/// Where findings and faults go, under one lock.
struct ScanOutput<'s> {
    report: &'s mut dyn Report,
    counters: &'s Counters<'s>,
    checkpoints: Option<&'s dyn CheckpointSink>,
    baseline: Option<&'s Baseline>,
    /// Entries of the baseline that the scan before the checkpoint found.
    accepted_before: u64,
    failure: Option<io::Error>,
}

impl ScanOutput<'_> {
    /// Writes findings, and `line` for a scan that resumes this one.
    fn write_findings(
        &mut self,
        findings: &DirectoryFindings,
        rendered: &RenderedFindings,
        line: Option<&[u8]>,
    ) -> io::Result<()> {
        if let (Some(checkpoints), Some(line)) = (self.checkpoints, line) {
            checkpoints.append(line)?;
        }
        self.report.directory(findings, rendered)?;
        self.report.pause()
    }

    fn write_fault(&mut self, fault: &Fault, count: u64) -> io::Result<()> {
        if let Some(checkpoints) = self.checkpoints {
            checkpoints.append(&checkpoint::fault_line(fault))?;
        }
        self.report_fault(&fault.path, &fault.to_string(), count)
    }

    fn report_fault(&mut self, path: &Path, message: &str, count: u64) -> io::Result<()> {
        self.counters.count(|summary| summary.unreadable += count);
        self.report.fault(path.as_os_str().as_bytes(), message)
    }

    fn save(&mut self, frontier: &Frontier) -> io::Result<()> {
        // What a checkpoint takes for reported must have been written.
        self.report.pause()?;
        let Some(checkpoints) = self.checkpoints else { return Ok(()) };
        let Summary { directories, names, vanished, .. } = self.counters.sum();
        checkpoints
            .save(frontier, &CheckpointCounts { directories, names, vanished, accepted: self.accepted() })
    }

    /// Reports the findings of a checkpoint.
    fn replay(&mut self, before: Checkpoint, renderer: &dyn Renderer) -> io::Result<()> {
        for line in BufRead::split(before.lines, b'\n') {
            match checkpoint::read(&line?)? {
                Replay::Findings(findings) => {
                    self.counters.count(|summary| summary.count_findings(&findings));
                    self.write_findings(&findings, &renderer.render(&findings), None)?;
                }
                Replay::Fault { path, message } => self.report_fault(&path, &message, 1)?,
            }
        }
        let CheckpointCounts { directories, names, vanished, accepted } = before.counts;
        self.counters.count(|summary| {
            summary.directories = directories;
            summary.names = names;
            summary.vanished = vanished;
        });
        self.accepted_before = accepted;
        Ok(())
    }

    /// Entries of the baseline that were found, now and before the checkpoint.
    fn accepted(&self) -> u64 {
        self.accepted_before + self.baseline.map_or(0, Baseline::met)
    }
}
