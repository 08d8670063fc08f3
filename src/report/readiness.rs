//! How ready names are for one target: what it would refuse, change, merge, or not reach.

use std::collections::BTreeMap;
use std::fmt;

use super::Record;
use crate::policy::profile::{Profile, ProfileSet};
use crate::policy::rule::{RuleId, RuleKind, Severity};
use crate::policy::{CheckOutcome, Violation};

/// What one target makes of the names of a run. A name counts under everything that happens to it.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// The target.
    pub target: &'static Profile,
    as_set: ProfileSet,
    /// Names that it does not take.
    pub refused: u64,
    /// Names that it takes, and stores or shows as others.
    pub changed: u64,
    /// Names that become one with another of their directory.
    pub merged: u64,
    /// Names whose path is longer than it takes.
    pub too_long: u64,
    /// Names with an error, each once.
    pub rejected: u64,
    /// Names with warnings only.
    pub warned: u64,
    /// Names by the rule that they break.
    pub rules: BTreeMap<RuleId, u64>,
}

/// What happens to a name on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not taken.
    Refused,
    /// It is taken, and stored or shown as another.
    Changed,
    /// It becomes one with another.
    Merged,
    /// Its path is too long.
    TooLong,
    /// It is taken; something is to be said against it.
    Doubted,
}

/// Whether a tree can be moved to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadinessVerdict {
    /// Every name arrives as it is.
    Ready,
    /// Nothing is known to be lost; there are warnings to read.
    Doubtful,
    /// Names do not arrive, or arrive as others.
    NotReady,
}

impl ReadinessVerdict {
    /// `ready`, `doubtful` or `not-ready`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Doubtful => "doubtful",
            Self::NotReady => "not-ready",
        }
    }

    /// The same for a reader.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Doubtful => "ready, with warnings",
            Self::NotReady => "not ready",
        }
    }
}

impl fmt::Display for ReadinessVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

impl Readiness {
    /// Nothing counted yet.
    pub fn of(target: &'static Profile) -> Self {
        Self {
            target,
            as_set: ProfileSet::from_profile(target),
            refused: 0,
            changed: 0,
            merged: 0,
            too_long: 0,
            rejected: 0,
            warned: 0,
            rules: BTreeMap::new(),
        }
    }

    /// What the target makes of a name with this violation; `None` if it does not object.
    pub fn fate(&self, violation: &Violation) -> Option<(Fate, Severity)> {
        if !violation.profiles.contains(self.as_set) {
            return None;
        }
        let refuses = violation.refused_by.contains(self.as_set);
        let severity = if refuses { Severity::Error } else { Severity::Warn };
        let fate = match violation.rule.rule().kind {
            // What only looks alike stays two names.
            RuleKind::Directory if violation.rule != RuleId::CollisionConfusable => Fate::Merged,
            RuleKind::Path => Fate::TooLong,
            _ if self.target.stores_otherwise(violation.rule) => Fate::Changed,
            _ if refuses => Fate::Refused,
            _ => Fate::Doubted,
        };
        Some((fate, severity))
    }

    /// Counts a record.
    pub fn count(&mut self, record: &Record) {
        let objections = record.objections.iter();
        let fates: Vec<(RuleId, Fate, Severity)> = objections
            .filter_map(|o| {
                self.fate(&o.violation).map(|(fate, severity)| (o.violation.rule, fate, severity))
            })
            .collect();
        let has = |wanted| u64::from(fates.iter().any(|&(_, fate, _)| fate == wanted));
        self.refused += has(Fate::Refused);
        self.changed += has(Fate::Changed);
        self.merged += has(Fate::Merged);
        self.too_long += has(Fate::TooLong);
        match CheckOutcome::from_severities(fates.iter().map(|&(_, _, severity)| severity)) {
            CheckOutcome::Accept => {}
            CheckOutcome::Warn => self.warned += 1,
            CheckOutcome::Reject => self.rejected += 1,
        }
        let mut rules: Vec<RuleId> = fates.iter().map(|&(rule, _, _)| rule).collect();
        rules.sort_unstable();
        rules.dedup();
        for rule in rules {
            *self.rules.entry(rule).or_default() += 1;
        }
    }

    /// Whether what was counted can be moved.
    pub fn verdict(&self) -> ReadinessVerdict {
        match (self.rejected, self.warned) {
            (0, 0) => ReadinessVerdict::Ready,
            (0, _) => ReadinessVerdict::Doubtful,
            _ => ReadinessVerdict::NotReady,
        }
    }
}
