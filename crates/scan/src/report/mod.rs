//! Reports of findings.
//!
//! A [`Report`] writes findings in one format. It gets exact bytes, and reports nothing that is not in its findings.

pub mod baseline;
pub mod counts;
pub mod csv;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod layout;
pub mod multi_report;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod readiness;
pub mod sarif;
pub mod summary;
pub mod text;

use std::io;

use namegate_core::policy::rule::Severity;
use namegate_findings::fingerprint::CheckBasis;
pub use namegate_findings::record::{
    CollisionGroup, Detail, DirectoryFindings, ReportedName, ReportedViolation,
};
use namegate_findings::uri;

pub use self::summary::Summary;

/// Renders the findings of a directory for one report: in any thread, while others write.
pub type Renderer = Box<dyn Fn(&DirectoryFindings) -> RenderedFindings + Send + Sync>;

/// The findings of a directory as a [`Renderer`] made them for its report.
#[derive(Debug)]
pub enum RenderedFindings {
    /// Empty if the report renders them when it writes them.
    Bytes(Vec<u8>),
    /// The output for each of several reports.
    Each(Vec<RenderedFindings>),
}

impl RenderedFindings {
    /// The output for a report that is one alone.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Each(_) => &[],
        }
    }
}

/// The renderer of reports that render findings when they write them.
fn render_later() -> Renderer {
    Box::new(|_| RenderedFindings::Bytes(Vec::new()))
}

/// Writes findings in one format.
pub trait Report: Send {
    /// What the report shows of a finding.
    fn detail(&self) -> Detail {
        Detail::Everything
    }

    /// Renders findings for [`Report::write`].
    fn renderer(&self) -> Renderer {
        render_later()
    }

    /// Writes the findings of a directory, as the [`Renderer`] of this report rendered them.
    ///
    /// # Errors
    /// As writing to the output.
    fn write(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()>;

    /// Writes a fault: its path, and a complete sentence about it.
    ///
    /// # Errors
    /// As writing to the output.
    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()>;

    /// Flushes the output: nothing may follow for a long time. Reports that write everything at their end have nothing to flush.
    ///
    /// # Errors
    /// As writing to the output.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Writes the end of the report.
    ///
    /// # Errors
    /// As writing to the output.
    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()>;
}

/// The severity at which findings make a run fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOn {
    #[default]
    Warn,
    Error,
    Never,
}

impl FailOn {
    /// The word of each on the command line, and its help.
    pub const WORDS: &[(&str, Self, &str)] = &[
        ("warn", Self::Warn, "Warnings and errors"),
        ("error", Self::Error, "Errors only"),
        ("never", Self::Never, "None: findings do not change the exit status"),
    ];

    /// Reports whether the findings of a run make it fail.
    pub fn is_met(self, summary: &Summary) -> bool {
        match self {
            Self::Warn => summary.findings() > 0,
            Self::Error => summary.worst() == Some(Severity::Error),
            Self::Never => false,
        }
    }
}
