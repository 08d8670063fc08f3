//! Reports of findings.
//!
//! A [`Report`] writes records in one format. It gets exact bytes, and reports nothing that is not in its records.

pub mod baseline;
pub mod counts;
pub mod csv;
pub mod fan;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod layout;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod readiness;
pub mod sarif;
pub mod summary;
pub mod text;

use std::io;

use clap::ValueEnum;
use namegate_core::policy::rule::Severity;
use namegate_findings::fingerprint::CheckBasis;
pub use namegate_findings::record::{
    CollisionGroup, Detail, DirectoryFindings, ReportedName, ReportedViolation,
};
use namegate_findings::uri;

pub use self::summary::Summary;

/// Renders the findings of a directory for one report: in any thread, while others write.
pub trait Renderer: Send + Sync {
    fn render(&self, findings: &DirectoryFindings) -> RenderedFindings;
}

/// The findings of a directory as a [`Renderer`] made them for its report.
#[derive(Debug)]
pub enum RenderedFindings {
    /// The report renders them when it writes them: what it writes depends on what it wrote before.
    Later,
    Bytes(Vec<u8>),
    /// The output for each of several reports.
    Each(Vec<RenderedFindings>),
}

/// The renderer of reports that render findings when they write them.
struct RenderedLater;

impl Renderer for RenderedLater {
    fn render(&self, _findings: &DirectoryFindings) -> RenderedFindings {
        RenderedFindings::Later
    }
}

/// Writes records in one format.
pub trait Report: Send {
    /// What the report shows of a finding.
    fn detail(&self) -> Detail {
        Detail::Everything
    }

    /// Renders findings for [`Report::directory`].
    fn renderer(&self) -> Box<dyn Renderer> {
        Box::new(RenderedLater)
    }

    /// Writes the findings of a directory, as the [`Renderer`] of this report rendered them.
    ///
    /// # Errors
    /// As writing to the output.
    fn directory(&mut self, findings: &DirectoryFindings, _rendered: &RenderedFindings) -> io::Result<()> {
        findings.groups.iter().try_for_each(|group| self.collision(group))?;
        findings.records.iter().try_for_each(|record| self.record(record))
    }

    /// Writes a group of names that become one; their records follow.
    ///
    /// # Errors
    /// As writing to the output.
    fn collision(&mut self, _group: &CollisionGroup) -> io::Result<()> {
        Ok(())
    }

    /// Writes a name.
    ///
    /// # Errors
    /// As writing to the output.
    fn record(&mut self, record: &ReportedName) -> io::Result<()>;

    /// Writes a fault: its path, and a complete sentence about it.
    ///
    /// # Errors
    /// As writing to the output.
    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()>;

    /// Flushes the output: nothing may follow for a long time.
    ///
    /// # Errors
    /// As writing to the output.
    fn pause(&mut self) -> io::Result<()>;

    /// Writes the end of the report.
    ///
    /// # Errors
    /// As writing to the output.
    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()>;
}

/// The severity at which findings make a run fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Warnings and errors
    #[default]
    Warn,
    /// Errors only
    Error,
    /// None: findings do not change the exit status
    Never,
}

impl FailOn {
    /// Reports whether the findings of a run make it fail.
    pub fn is_met(self, summary: &Summary) -> bool {
        match self {
            Self::Warn => summary.findings() > 0,
            Self::Error => summary.worst() == Some(Severity::Error),
            Self::Never => false,
        }
    }
}
