//! Where findings go.
//!
//! A [`Report`] writes records in one format. It gets exact bytes and says nothing about a name that it was not given.

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

/// A name and everything that is to be said of it.
#[derive(Clone, Debug)]
pub struct ReportedName {
    /// Where the name stands, shared by the names of a directory; `None` for a name without a directory.
    pub place: Option<Arc<DirectoryPath>>,
    /// Where it is found there, if there is more to say of that than the directory.
    pub location: Option<Location>,
    /// The name.
    pub name: Vec<u8>,
    /// The reasons against it.
    pub objections: Vec<ReportedViolation>,
    /// A better name.
    pub repair: Option<SuggestedName>,
    /// The user who owns what has the name, as people read it, if the run asked for it.
    pub owner: Option<String>,
}

/// A violation and its text.
#[derive(Clone, Debug)]
pub struct ReportedViolation {
    /// The violation.
    pub violation: Violation,
    /// Why, in one line.
    pub message: String,
    /// The names that become one with this one, if that is what is wrong.
    pub group: Option<Arc<CollisionGroup>>,
}

/// Names of one directory that become one on a target.
#[derive(Debug)]
pub struct CollisionGroup {
    /// What stands for the same names in the same directory in every run and every format.
    pub id: String,
    /// Where they stand.
    pub place: Arc<DirectoryPath>,
    /// The rule that each of them breaks, with its weight and who objects; the span is that of the first.
    pub violation: Violation,
    /// All of them, in the order of their bytes.
    pub members: Vec<Vec<u8>>,
}

impl CollisionGroup {
    /// The names `members` of one directory.
    pub fn new(place: Arc<DirectoryPath>, violation: Violation, mut members: Vec<Vec<u8>>) -> Self {
        members.sort_unstable();
        let parts = [place.dir.as_slice(), violation.rule.name().as_bytes()].into_iter();
        let id = fingerprint(parts.chain(members.iter().map(Vec::as_slice)));
        Self { id, place, violation, members }
    }
}

/// 16 hexadecimal digits that stand for these byte strings, none of which holds a NUL, in this order; the same in every
/// run and release.
fn fingerprint<'p>(parts: impl Iterator<Item = &'p [u8]>) -> String {
    let joined: Vec<&[u8]> = parts.collect();
    format!("{:016x}", stable_hash(&joined.join(&0)))
}

impl ReportedName {
    /// The record of a name by itself.
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

    /// The weight of all objections together.
    pub fn outcome(&self) -> CheckOutcome {
        CheckOutcome::from_severities(self.objections.iter().map(|o| o.violation.severity))
    }

    /// The path: directory, separator, name; the name alone where it has no directory.
    pub fn path(&self) -> Vec<u8> {
        self.place.as_ref().map_or_else(|| self.name.clone(), |place| place.join(&self.name))
    }

    /// What stands for the finding that this name breaks `rule`, in every run: path and rule, and not the wording.
    pub fn fingerprint(&self, rule: RuleId) -> String {
        fingerprint([self.path().as_slice(), rule.name().as_bytes()].into_iter())
    }
}

/// Writes records in one format.
pub trait Report: Send {
    /// Writes names that become one; their records follow, each by itself.
    ///
    /// # Errors
    /// Whatever writing meets.
    fn collision(&mut self, _group: &CollisionGroup) -> io::Result<()> {
        Ok(())
    }

    /// Writes a name.
    ///
    /// # Errors
    /// Whatever writing meets.
    fn record(&mut self, record: &ReportedName) -> io::Result<()>;

    /// Writes that something could not be read: its path, and a whole sentence about it.
    ///
    /// # Errors
    /// Whatever writing meets.
    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()>;

    /// Lets out what was written so far: nothing may follow for a long time.
    ///
    /// # Errors
    /// Whatever writing meets.
    fn pause(&mut self) -> io::Result<()>;

    /// Writes what is said at the end.
    ///
    /// # Errors
    /// Whatever writing meets.
    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()>;
}

/// The levels at which findings make a run fail.
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
    /// Whether what a run found makes it fail.
    pub fn is_met(self, summary: &Summary) -> bool {
        match self {
            Self::Warn => summary.findings() > 0,
            Self::Error => summary.worst() == Some(Severity::Error),
            Self::Never => false,
        }
    }
}
