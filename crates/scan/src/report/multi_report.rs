//! Several reports of one run.

use namegate_findings::fingerprint::CheckBasis;
use std::io::{self, ErrorKind, Write};

use super::{
    CollisionGroup, Detail, DirectoryFindings, RenderedFindings, RenderedLater, Renderer, Report,
    ReportedName, Summary,
};

/// Writes everything to several reports.
///
/// A closed pipe ends only its own report. If it was the only one, there is nothing more to do, and the error is
/// returned.
pub struct MultiReport<'o> {
    /// `None`: nobody reads this report any more.
    reports: Vec<Option<Box<dyn Report + 'o>>>,
}

impl<'o> MultiReport<'o> {
    /// Writes to all of `reports`.
    pub fn new(reports: Vec<Box<dyn Report + 'o>>) -> Self {
        Self { reports: reports.into_iter().map(Some).collect() }
    }

    fn each(&mut self, mut write: impl FnMut(usize, &mut dyn Report) -> io::Result<()>) -> io::Result<()> {
        let mut read = self.reports.iter().flatten().count();
        for (at, place) in self.reports.iter_mut().enumerate() {
            let Some(report) = place else { continue };
            match write(at, &mut **report) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe && read > 1 => {
                    *place = None;
                    read -= 1;
                }
                result => result?,
            }
        }
        Ok(())
    }
}

/// Renders for several reports.
struct MultiRenderer(Vec<Box<dyn Renderer>>);

impl Renderer for MultiRenderer {
    fn render(&self, findings: &DirectoryFindings) -> RenderedFindings {
        RenderedFindings::Each(self.0.iter().map(|renderer| renderer.render(findings)).collect())
    }
}

impl Report for MultiReport<'_> {
    fn detail(&self) -> Detail {
        self.reports.iter().flatten().map(|report| report.detail()).max().unwrap_or(Detail::Violations)
    }

    fn renderer(&self) -> Box<dyn Renderer> {
        let renderer = |report: &Option<Box<dyn Report + '_>>| match report {
            Some(report) => report.renderer(),
            None => Box::new(RenderedLater),
        };
        Box::new(MultiRenderer(self.reports.iter().map(renderer).collect()))
    }

    fn directory(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        self.each(|at, report| match rendered {
            RenderedFindings::Each(rendered) => report.directory(findings, &rendered[at]),
            rendered => report.directory(findings, rendered),
        })
    }

    fn collision(&mut self, group: &CollisionGroup) -> io::Result<()> {
        self.each(|_, report| report.collision(group))
    }

    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        self.each(|_, report| report.record(record))
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.each(|_, report| report.fault(path, message))
    }

    fn pause(&mut self) -> io::Result<()> {
        self.each(|_, report| report.pause())
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.each(|_, report| report.finish(basis, summary))
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
    fn detail(&self) -> Detail {
        Detail::Violations
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

    fn finish(&mut self, _basis: &CheckBasis, _summary: &Summary) -> io::Result<()> {
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
    fn detail(&self) -> Detail {
        Detail::Violations
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

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.0.finish(basis, summary)
    }
}
