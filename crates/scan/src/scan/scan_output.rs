//! Where counts, findings and faults of a scan go.

use std::io::{self, BufRead};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use namegate_core::policy::profile::Profile;
use namegate_findings::fingerprint::CheckBasis;
use parking_lot::Mutex;

use super::checkpoint::{self, Checkpoint, CheckpointCounts, CheckpointReader, CheckpointSink, Replay};
use crate::report::baseline::Baseline;
use crate::report::summary::Accepted;
use crate::report::{DirectoryFindings, RenderedFindings, Renderer, Report, Summary};
use crate::source::{Fault, Frontier};

/// Counts in any thread: each takes a summary that no other uses, so that none waits while another counts.
pub(super) struct Counters<'t> {
    targets: &'t [&'static Profile],
    idle: Mutex<Vec<Summary>>,
}

impl<'t> Counters<'t> {
    pub(super) fn new(targets: &'t [&'static Profile]) -> Self {
        Self { targets, idle: Mutex::default() }
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Summary)) {
        let idle = self.idle.lock().pop();
        let mut summary = idle.unwrap_or_else(|| Summary::for_targets(self.targets));
        count(&mut summary);
        self.idle.lock().push(summary);
    }

    /// The sum of all counts, when no thread counts.
    pub(super) fn sum(&self) -> Summary {
        let mut sum = Summary::for_targets(self.targets);
        self.idle.lock().iter().for_each(|part| sum.add(part.clone()));
        sum
    }
}

/// Where findings and faults go, under one lock.
pub(super) struct ScanOutput<'s> {
    report: &'s mut dyn Report,
    counters: &'s Counters<'s>,
    checkpoints: Option<&'s dyn CheckpointSink>,
    baseline: Option<&'s Baseline>,
    /// Entries of the baseline that the scan before the checkpoint found.
    accepted_before: u64,
    /// Why the report or a checkpoint cannot be written.
    pub(super) failure: Option<io::Error>,
}

impl<'s> ScanOutput<'s> {
    pub(super) fn new(
        report: &'s mut dyn Report,
        counters: &'s Counters<'s>,
        checkpoints: Option<&'s dyn CheckpointSink>,
        baseline: Option<&'s Baseline>,
    ) -> Self {
        Self { report, counters, checkpoints, baseline, accepted_before: 0, failure: None }
    }

    /// Writes findings, and `line` for a scan that resumes this one.
    pub(super) fn write_findings(
        &mut self,
        findings: &DirectoryFindings,
        rendered: &RenderedFindings,
        line: Option<&[u8]>,
    ) -> io::Result<()> {
        if let (Some(checkpoints), Some(line)) = (self.checkpoints, line) {
            checkpoints.append(line)?;
        }
        self.report.write(findings, rendered)?;
        self.report.flush()
    }

    pub(super) fn write_fault(&mut self, fault: &Fault, count: u64) -> io::Result<()> {
        if let Some(checkpoints) = self.checkpoints {
            checkpoints.append(&checkpoint::fault_line(fault))?;
        }
        self.report_fault(&fault.path, &fault.to_string(), count)
    }

    fn report_fault(&mut self, path: &Path, message: &str, count: u64) -> io::Result<()> {
        self.counters.count(|summary| summary.unreadable += count);
        self.report.fault(path.as_os_str().as_bytes(), message)
    }

    pub(super) fn save(&mut self, frontier: &Frontier) -> io::Result<()> {
        // What a checkpoint takes for reported must have been written.
        self.report.flush()?;
        let Some(checkpoints) = self.checkpoints else { return Ok(()) };
        let Summary { directories, names, vanished, .. } = self.counters.sum();
        checkpoints
            .save(frontier, &CheckpointCounts { directories, names, vanished, accepted: self.accepted() })
    }

    /// Reports the findings of a checkpoint.
    pub(super) fn replay(&mut self, before: Checkpoint, render: &Renderer) -> io::Result<()> {
        let mut reader = CheckpointReader::default();
        for line in BufRead::split(before.lines, b'\n') {
            match reader.read(&line?)? {
                Replay::Findings(findings) => {
                    self.counters.count(|summary| summary.count_findings(&findings));
                    self.write_findings(&findings, &render(&findings), None)?;
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

    /// Writes the end of the report, and returns the summary.
    pub(super) fn finish(self, basis: &CheckBasis, was_interrupted: bool) -> io::Result<Summary> {
        let (accepted, mut summary) = (self.accepted(), self.counters.sum());
        let Self { report, failure, baseline, .. } = self;
        summary.was_interrupted = was_interrupted;
        // Of what was not checked nobody knows whether it has gone.
        summary.baseline = baseline.map(|known| Accepted {
            accepted,
            stale: summary.is_complete().then(|| known.count().saturating_sub(accepted)),
        });
        let written = failure.map_or_else(|| report.finish(basis, &summary), Err);
        summary.is_unread = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if summary.is_unread { Ok(summary) } else { written.map(|()| summary) }
    }
}
