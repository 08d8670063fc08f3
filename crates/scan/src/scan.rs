//! A scan: names from a source, checked against a policy, findings to a report.
//!
//! The threads of the source check the directories that they read, count their findings and render them; only writing the
//! report needs a lock.

mod batch_scan;
mod checkpoint;
mod chunked;
mod scan_output;
mod tree_evidence;
mod versions;

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
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
pub use self::checkpoint::{Checkpoint, CheckpointCounts, CheckpointSink};
use self::chunked::{LargeCheck, LargeScan};
use self::scan_output::{Counters, ScanOutput};
use self::tree_evidence::TreeEvidence;
use self::versions::Deduplicator;
use crate::encoded_text::EncodedNames;
use crate::progress::Observer;
use crate::report::baseline::Baseline;
use crate::report::{Detail, DirectoryFindings, Renderer, Report, Summary};
use crate::source::encodings::EarlierNames;
use crate::source::{self, DirectoryBatch, Parts, Source, SourceEvent, VersionedDirectory};

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
    let (render, counters, prefix) = (report.renderer(), Counters::new(targets), &*settings.prefix);
    let mut output = ScanOutput::new(report, &counters, checkpoints, baseline);
    if let Some(before) = before {
        output.replay(before, &render)?;
    }
    let run = ScanRun {
        observer,
        counters: &counters,
        render,
        is_resumable: checkpoints.is_some(),
        first: BatchScan { directories: DirectoryScan { waits: evidence.can_wait(), ..directories }, prefix },
        last: BatchScan { directories, prefix },
        evidence,
        output: Mutex::new(output),
        has_failed: AtomicBool::new(false),
    };
    run.evidence.survey(&|| observer.is_stopped());
    source.read(&|event| run.handle(event));
    run.checking(|| run.review(&|| run.is_over()));
    observer.finishing();
    let basis = CheckBasis::new(policy, prefix, settings.encoding, min_severity);
    run.output.into_inner().finish(&basis, observer.is_stopped())
}

/// A scan while the source is read, in several threads.
struct ScanRun<'s> {
    observer: &'s dyn Observer,
    counters: &'s Counters<'s>,
    render: Renderer,
    /// Findings are kept for a scan that resumes this one.
    is_resumable: bool,
    /// The first check of a directory, after which its findings may wait for the names of others.
    first: BatchScan<'s>,
    /// The check of a directory that has waited.
    last: BatchScan<'s>,
    evidence: TreeEvidence<'s>,
    output: Mutex<ScanOutput<'s>>,
    has_failed: AtomicBool,
}

impl ScanRun<'_> {
    fn handle(&self, event: SourceEvent<'_>) -> ControlFlow<()> {
        self.checking(|| self.process(event));
        if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Tells the observer of the work that checks names.
    fn checking(&self, work: impl FnOnce()) {
        self.observer.check_begins();
        work();
        self.observer.check_ends();
    }

    fn process(&self, event: SourceEvent<'_>) {
        match event {
            SourceEvent::Directory(batch) => self.check(batch),
            SourceEvent::History(directory) => self.check_versions(directory),
            SourceEvent::Large(parts) => self.check_large(parts),
            SourceEvent::Fault(fault) => self.write(|output| output.write_fault(&fault, 1)),
            SourceEvent::RepeatedFault(fault, count) => {
                self.write(|output| output.write_fault(&fault, count))
            }
            SourceEvent::Unmarked(names) => {
                self.counters.count(|summary| summary.unmarked.push(names.clone()))
            }
            SourceEvent::Vanished => self.counters.count(|summary| summary.vanished += 1),
            SourceEvent::Frontier(frontier) => {
                // What a checkpoint takes for reported must have been reported, with the evidence that there is.
                self.review(&|| false);
                self.write(|output| output.save(&frontier));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.has_failed.load(Relaxed) || self.observer.is_stopped()
    }

    fn check(&self, mut batch: DirectoryBatch) {
        self.counters.count(|summary| {
            summary.directories += u64::from(batch.is_whole());
            summary.names += batch.count as u64;
            summary.encoded.add(count_encoded(&batch));
        });
        self.observer.checked(&batch.dir, batch.count as u64, 0);
        if let Some(guess) = self.evidence.guess(&batch) {
            batch.encodings = Some(Arc::new(guess));
        }
        let emit = &mut |findings| self.report(findings, batch.in_repository);
        if self.first.check(&batch, CheckedNames::All, emit) == Handover::Waits {
            match self.evidence.available_now(&batch) {
                Some(earlier) => self.check_again(batch, &earlier),
                None => self.evidence.put_off(batch),
            }
        }
    }

    /// Checks a directory that has waited for evidence.
    fn check_again(&self, mut batch: DirectoryBatch, earlier: &EarlierNames) {
        batch.encodings = batch.guess_encodings(&earlier.encodings).map(Arc::new);
        self.last
            .check(&batch, CheckedNames::All, &mut |findings| self.report(findings, batch.in_repository));
    }

    fn check_versions(&self, directory: &mut dyn VersionedDirectory) {
        let (dir, names) = (directory.names().dir.clone(), directory.names().count as u64);
        self.counters.count(|summary| {
            summary.directories += 1;
            summary.names += names;
        });
        self.observer.checked(&dir, names, 0);
        let mut reported = Deduplicator::default();
        versions::check(directory, &self.first, &mut |mut findings| {
            self.show(&findings);
            // A name that collided before can collide with another one in a new version.
            self.counters.count(|summary| reported.keep_new(&mut findings, summary));
            self.write_findings(&findings);
        });
    }

    fn check_large(&self, parts: &mut dyn Parts) {
        let (mut encoded, in_repository) = (EncodedNames::default(), Cell::new(false));
        let mut look = |part: &DirectoryBatch| {
            in_repository.set(part.in_repository);
            encoded.add(count_encoded(part));
            self.observer.checked(&part.dir, part.count as u64, 0);
        };
        let guess = |dir: &Path, sample: &_| self.evidence.guess_of(dir.as_os_str().as_bytes(), sample);
        let large = LargeScan::new(&self.first, &guess);
        let LargeCheck { names, waits } =
            large.check(parts, &mut look, &mut |findings| self.report(findings, in_repository.get()));
        if let Some((dir, root_len)) = waits {
            self.evidence.put_off_large(dir, root_len);
        }
        self.counters.count(|summary| {
            summary.encoded.add(encoded);
            summary.directories += 1;
            summary.names += names;
        });
    }

    /// Reports the directories whose findings wait for the evidence of more names.
    fn review(&self, is_stopped: &(dyn Fn() -> bool + Sync)) {
        self.evidence.review(is_stopped, &|event, earlier| match event {
            SourceEvent::Directory(batch) => self.check_again(batch, earlier),
            SourceEvent::Large(parts) => {
                let guess = |_: &Path, sample: &_| EncodingGuess::for_sample(sample, &earlier.encodings);
                let large = LargeScan::new(&self.last, &guess);
                // What is in a repository does not wait: no name is suggested for it.
                large.check(parts, &mut |_| {}, &mut |findings| self.report(findings, false));
            }
            SourceEvent::Fault(fault) => self.write(|output| output.write_fault(&fault, 1)),
            SourceEvent::Vanished => self.counters.count(|summary| summary.vanished += 1),
            _ => {}
        });
    }

    fn report(&self, findings: DirectoryFindings, in_repository: bool) {
        self.show(&findings);
        self.counters.count(|summary| {
            summary.in_repositories += if in_repository { findings.records.len() as u64 } else { 0 };
            summary.count_findings(&findings);
        });
        self.write_findings(&findings);
    }

    /// Shows findings to the observer, which has seen their names already.
    fn show(&self, DirectoryFindings { records, .. }: &DirectoryFindings) {
        if let Some(place) = records.first().and_then(|record| record.place.as_ref()) {
            self.observer.checked(Path::new(OsStr::from_bytes(&place.dir)), 0, records.len() as u64);
        }
    }

    /// Writes findings that are counted.
    fn write_findings(&self, findings: &DirectoryFindings) {
        if !findings.is_empty() {
            let rendered = (self.render)(findings);
            let line = if self.is_resumable { checkpoint::findings_line(findings) } else { None };
            self.write(|output| output.write_findings(findings, &rendered, line.as_deref()));
        }
    }

    /// Writes, unless writing has failed before.
    fn write(&self, write: impl FnOnce(&mut ScanOutput<'_>) -> io::Result<()>) {
        let mut output = self.output.lock();
        if output.failure.is_none()
            && let Err(error) = write(&mut output)
        {
            output.failure = Some(error);
            self.has_failed.store(true, Relaxed);
        }
    }
}

/// The names of a tree that have encoded text. `fix plan` is for trees, and leaves repositories alone.
fn count_encoded(batch: &DirectoryBatch) -> EncodedNames {
    match batch.container.is_none() && !batch.in_repository {
        true => EncodedNames::count(&batch.names),
        false => EncodedNames::default(),
    }
}
