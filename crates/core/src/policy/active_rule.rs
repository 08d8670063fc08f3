//! A rule of a policy, and how much it weighs where a name breaks it.

use super::Violation;
use super::entry::{AppliesTo, Entry};
use super::profile::{ProfileSet, Test};
use super::rule::{RuleId, Severity};
use crate::name::Span;

/// A rule that is in effect, with all profiles that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveRule {
    /// What is looked for.
    pub test: Test,
    /// The strictest severity that a profile or the configuration gives it.
    pub severity: Severity,
    /// The profiles that have the rule.
    pub profiles: ProfileSet,
    /// The profiles for which it is an error.
    pub refused_by: ProfileSet,
    /// The standard, manual or source code that the rule is based on.
    pub source: &'static str,
    /// Whether the source was checked.
    pub verified: bool,
    /// Whether a target accepts such a name but stores or shows another one.
    pub stored_otherwise: bool,
}

impl ActiveRule {
    pub(super) fn weight(&self) -> RuleWeight {
        RuleWeight {
            severity: self.severity,
            profiles: self.profiles,
            refused_by: self.refused_by,
            is_certain: true,
        }
    }
}

/// The severity of a violation, and the profiles that report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleWeight {
    pub(super) severity: Severity,
    pub(super) profiles: ProfileSet,
    pub(super) refused_by: ProfileSet,
    pub(super) is_certain: bool,
}

impl RuleWeight {
    /// An error for all of `profiles`.
    pub(super) fn error(profiles: ProfileSet) -> Self {
        Self { severity: Severity::Error, profiles, refused_by: profiles, is_certain: true }
    }

    pub(super) fn violation(self, rule: RuleId, span: Span) -> Violation {
        let Self { severity, profiles, refused_by, is_certain } = self;
        Violation { rule, severity, span, profiles, refused_by, is_certain }
    }

    /// The weight of a rule for an entry; `None` if the rule does not apply to it. A rule that may not apply only warns.
    pub(super) fn for_entry(self, applies_to: AppliesTo, entry: Entry) -> Option<Self> {
        match applies_to.includes(entry) {
            Some(applies) => applies.then_some(self),
            None => Some(Self {
                severity: Severity::Warn,
                refused_by: ProfileSet::EMPTY,
                is_certain: false,
                ..self
            }),
        }
    }

    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            severity: self.severity.max(other.severity),
            profiles: self.profiles.union(other.profiles),
            refused_by: self.refused_by.union(other.refused_by),
            is_certain: self.is_certain || other.is_certain,
        }
    }
}
