//! Reports of findings.
//!
//! A [`Report`] writes records in one format. It gets exact bytes, and reports nothing that is not in its records.

pub mod baseline;
pub mod csv;
pub mod fan;
pub mod html;
pub mod json;
pub mod junit;
pub mod layout;
pub mod readiness;
pub mod sarif;
pub mod summary;
pub mod text;
mod uri;

use std::io;
use std::sync::Arc;

pub use self::summary::Summary;
use crate::name::escape::stable_hash;
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{CheckOutcome, NameCheck, Policy, SuggestedName, Violation};
use crate::source::location::{DirectoryPath, Location};

/// A name and its findings.
#[derive(Clone, Debug)]
pub struct ReportedName {
    /// The directory of the name, shared by all names in it; `None` for a name without a directory.
    pub place: Option<Arc<DirectoryPath>>,
    /// The location of the name in its container, if there is one.
    pub location: Option<Location>,
    /// The name.
    pub name: Vec<u8>,
    /// Its violations.
    pub objections: Vec<ReportedViolation>,
    /// The suggested name.
    pub repair: Option<SuggestedName>,
    /// The user who owns the file, for people, if owners are reported.
    pub owner: Option<String>,
}

/// A violation and its text.
#[derive(Clone, Debug)]
pub struct ReportedViolation {
    /// The violation.
    pub violation: Violation,
    /// The message, in one line.
    pub message: String,
    /// For collisions: the names that become one with this one.
    pub group: Option<Arc<CollisionGroup>>,
}

/// Names of one directory that become one name on a target.
#[derive(Debug)]
pub struct CollisionGroup {
    /// Identifies the same names in the same directory in every run and every format.
    pub id: String,
    /// Their directory.
    pub place: Arc<DirectoryPath>,
    /// The rule that each of them breaks, with its severity and the profiles that object; the span is that of the first.
    pub violation: Violation,
    /// All of them, sorted by bytes.
    pub members: Vec<Vec<u8>>,
}

impl CollisionGroup {
    /// Creates the group of the names `members` in one directory.
    pub fn new(place: Arc<DirectoryPath>, violation: Violation, mut members: Vec<Vec<u8>>) -> Self {
        members.sort_unstable();
        let parts = [place.dir.as_slice(), violation.rule.name().as_bytes()].into_iter();
        let id = fingerprint(parts.chain(members.iter().map(Vec::as_slice)));
        Self { id, place, violation, members }
    }
}

/// 16 hexadecimal digits that identify these byte strings in this order; the same in every run and release. The strings
/// contain no NUL.
fn fingerprint<'p>(parts: impl Iterator<Item = &'p [u8]>) -> String {
    let joined: Vec<&[u8]> = parts.collect();
    format!("{:016x}", stable_hash(&joined.join(&0)))
}

impl ReportedName {
    /// The record of a name without a directory.
    pub fn of(policy: &Policy, check: &NameCheck<'_>) -> Self {
        let objection = |v: &Violation| ReportedViolation {
            violation: *v,
            message: check.message(policy, v),
            group: None,
        };
        Self {
            place: None,
            location: None,
            name: check.name.to_vec(),
            objections: check.violations.iter().map(objection).collect(),
            repair: None,
            owner: None,
        }
    }

    /// The outcome of all violations together.
    pub fn outcome(&self) -> CheckOutcome {
        CheckOutcome::from_severities(self.objections.iter().map(|o| o.violation.severity))
    }

    /// The path: directory, separator, name; only the name if it has no directory.
    pub fn path(&self) -> Vec<u8> {
        self.place.as_ref().map_or_else(|| self.name.clone(), |place| place.join(&self.name))
    }

    /// Identifies the finding that this name breaks `rule` in every run: by path and rule, not by wording.
    pub fn fingerprint(&self, rule: RuleId) -> String {
        fingerprint([self.path().as_slice(), rule.name().as_bytes()].into_iter())
    }
}

/// The findings of one directory.
#[derive(Debug, Default)]
pub struct DirectoryFindings {
    /// Groups of names that become one.
    pub groups: Vec<Arc<CollisionGroup>>,
    /// Names with violations, in the order of their bytes.
    pub records: Vec<ReportedName>,
}

/// What a report shows of a finding; the rest is not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Its path, rules and places.
    Violations,
    /// A suggested name too, and a message for the first violation of each rule and severity.
    OneMessagePerRule,
    /// A suggested name too, and a message for each violation.
    Everything,
}

/// Renders the findings of a directory for one report: in any thread, while others write.
pub trait Renderer: Send + Sync {
    /// Renders the findings.
    fn render(&self, findings: &DirectoryFindings) -> RenderedFindings;
}

/// The findings of a directory as a [`Renderer`] made them for its report.
#[derive(Debug)]
pub enum RenderedFindings {
    /// The report renders them when it writes them: what it writes depends on what it wrote before.
    Later,
    /// The output.
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
    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()>;
}

/// The severity at which findings make a run fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOn {
    /// Any finding.
    #[default]
    Warn,
    /// Findings that are errors.
    Error,
    /// No finding.
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
