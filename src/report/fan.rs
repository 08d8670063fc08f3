//! Several reports of one run.

use std::io::{self, ErrorKind, Write};

use super::{CollisionGroup, Report, ReportedName, Summary};
use crate::policy::Policy;

/// Writes everything to several reports.
///
/// A closed pipe ends only its own report. If it was the only one, there is nothing more to do, and the error is
/// returned.
pub struct MultiReport<'o> {
    reports: Vec<Box<dyn Report + 'o>>,
}

impl<'o> MultiReport<'o> {
    /// Writes to all of `reports`.
    pub fn new(reports: Vec<Box<dyn Report + 'o>>) -> Self {
        Self { reports }
    }

    fn each(&mut self, mut write: impl FnMut(&mut dyn Report) -> io::Result<()>) -> io::Result<()> {
        let mut at = 0;
        while let Some(report) = self.reports.get_mut(at) {
            match write(&mut **report) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe && self.reports.len() > 1 => {
                    self.reports.remove(at);
                }
                result => {
                    result?;
                    at += 1;
                }
            }
        }
        Ok(())
    }
}

impl Report for MultiReport<'_> {
    fn shows_findings(&self) -> bool {
        self.reports.iter().any(|report| report.shows_findings())
    }

    fn collision(&mut self, group: &CollisionGroup) -> io::Result<()> {
        self.each(|report| report.collision(group))
    }

    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        self.each(|report| report.record(record))
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.each(|report| report.fault(path, message))
    }

    fn pause(&mut self) -> io::Result<()> {
        self.each(|report| report.pause())
    }

    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()> {
        self.each(|report| report.finish(policy, summary))
    }
}

/// Writes only faults: for a person, next to a report that is made for programs.
pub struct FaultReport<W> {
    out: W,
}

impl<W: Write + Send> FaultReport<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write + Send> Report for FaultReport<W> {
    fn shows_findings(&self) -> bool {
        false
    }

    fn record(&mut self, _record: &ReportedName) -> io::Result<()> {
        Ok(())
    }

    fn fault(&mut self, _path: &[u8], message: &str) -> io::Result<()> {
        writeln!(self.out, "namegate: {message}")?;
        self.out.flush()
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, _policy: &Policy, _summary: &Summary) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the summary and faults, but no findings.
pub struct SummaryReport<'o>(Box<dyn Report + 'o>);

impl<'o> SummaryReport<'o> {
    /// Writes the summary of `report`.
    pub fn new(report: Box<dyn Report + 'o>) -> Self {
        Self(report)
    }
}

impl Report for SummaryReport<'_> {
    fn shows_findings(&self) -> bool {
        false
    }

    fn record(&mut self, _record: &ReportedName) -> io::Result<()> {
        Ok(())
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.0.fault(path, message)
    }

    fn pause(&mut self) -> io::Result<()> {
        self.0.pause()
    }

    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()> {
        self.0.finish(policy, summary)
    }
}
