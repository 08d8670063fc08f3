//! Several reports of one run.

use std::io::{self, ErrorKind, Write};

use namegate_findings::fingerprint::CheckBasis;

use super::{Detail, DirectoryFindings, RenderedFindings, Renderer, Report, Summary, render_later};

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
        for (at, entry) in self.reports.iter_mut().enumerate() {
            let Some(report) = entry else { continue };
            match write(at, &mut **report) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe && read > 1 => {
                    *entry = None;
                    read -= 1;
                }
                result => result?,
            }
        }
        Ok(())
    }
}

impl Report for MultiReport<'_> {
    fn detail(&self) -> Detail {
        self.reports.iter().flatten().map(|report| report.detail()).max().unwrap_or(Detail::Violations)
    }

    fn renderer(&self) -> Renderer {
        let reports = self.reports.iter().map(Option::as_ref);
        let renderers: Vec<Renderer> =
            reports.map(|report| report.map_or_else(render_later, |report| report.renderer())).collect();
        Box::new(move |findings| {
            RenderedFindings::Each(renderers.iter().map(|render| render(findings)).collect())
        })
    }

    fn write(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        let RenderedFindings::Each(rendered) = rendered else {
            return Err(io::Error::other("the findings were rendered for one report, and not for several"));
        };
        self.each(|at, report| report.write(findings, &rendered[at]))
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.each(|_, report| report.fault(path, message))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.each(|_, report| report.flush())
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

    fn write(&mut self, _findings: &DirectoryFindings, _rendered: &RenderedFindings) -> io::Result<()> {
        Ok(())
    }

    fn fault(&mut self, _path: &[u8], message: &str) -> io::Result<()> {
        writeln!(self.out, "namegate: {message}")?;
        self.out.flush()
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

    fn write(&mut self, _findings: &DirectoryFindings, _rendered: &RenderedFindings) -> io::Result<()> {
        Ok(())
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.0.fault(path, message)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.0.finish(basis, summary)
    }
}
