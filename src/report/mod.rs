//! Where findings go.
//!
//! A [`Report`] writes records in one format. It gets exact bytes and says nothing about a name that it was not given.

pub mod json;
pub mod layout;
pub mod text;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::name::place::{Mark, Place};
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{NameCheck, Outcome, Policy, Repair, Violation};

/// A name and everything that is to be said of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where the name stands, shared by the names of a directory; `None` for a name without a directory.
    pub place: Option<Arc<Place>>,
    /// Where it is found there, if there is more to say of that than the directory.
    pub mark: Option<Mark>,
    /// The name.
    pub name: Vec<u8>,
    /// The reasons against it.
    pub objections: Vec<Objection>,
    /// A better name.
    pub repair: Option<Repair>,
}

/// A violation and its text.
#[derive(Clone, Debug)]
pub struct Objection {
    /// The violation.
    pub violation: Violation,
    /// Why, in one line.
    pub message: String,
}

impl Record {
    /// The record of a name by itself.
    pub fn of(policy: &Policy, check: &NameCheck<'_>) -> Self {
        let objection = |v: &Violation| Objection { violation: *v, message: check.message(policy, v) };
        Self {
            place: None,
            mark: None,
            name: check.name.to_vec(),
            objections: check.violations.iter().map(objection).collect(),
            repair: None,
        }
    }

    /// The weight of all objections together.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.objections.iter().map(|o| o.violation.severity))
    }

    /// The path: directory, separator, name; the name alone where it has no directory.
    pub fn path(&self) -> Vec<u8> {
        let mut path = self.place.as_ref().map(|place| place.dir.clone()).unwrap_or_default();
        if !path.is_empty() && path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(&self.name);
        path
    }
}

/// What a whole run found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Directories read.
    pub directories: u64,
    /// Names judged.
    pub names: u64,
    /// Names with at least one error.
    pub rejected: u64,
    /// Names with warnings only.
    pub warned: u64,
    /// Things that could not be read.
    pub unreadable: u64,
    /// Entries that were gone when their turn came.
    pub vanished: u64,
    /// Per rule: how many violations, and the greatest severity among them.
    pub rules: BTreeMap<RuleId, (u64, Option<Severity>)>,
}

impl Summary {
    /// Counts a record that is reported.
    pub fn count(&mut self, record: &Record) {
        self.count_as(record.outcome());
        for Objection { violation, .. } in &record.objections {
            let (count, severity) = self.rules.entry(violation.rule).or_default();
            *count += 1;
            *severity = (*severity).max(Some(violation.severity));
        }
    }

    /// Counts a name of which only the outcome is asked for.
    pub fn count_as(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Accept => {}
            Outcome::Warn => self.warned += 1,
            Outcome::Reject => self.rejected += 1,
        }
    }

    /// Names with any violation.
    pub fn findings(&self) -> u64 {
        self.rejected + self.warned
    }
}

/// Writes records in one format.
pub trait Report: Send {
    /// Writes a name.
    ///
    /// # Errors
    /// Whatever writing meets.
    fn record(&mut self, record: &Record) -> io::Result<()>;

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
