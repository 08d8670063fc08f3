//! The results of a check: violations, a verdict, an outcome.

use std::fmt;

use super::Policy;
use super::profile::ProfileSet;
use super::rule::{RuleId, Severity};
use crate::name::Span;

/// One rule that a name breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub rule: RuleId,
    /// Whether the name is rejected or only reported.
    pub severity: Severity,
    /// The bytes that break the rule.
    pub span: Span,
    /// The profiles that have the rule.
    pub profiles: ProfileSet,
    /// The profiles for which the violation is an error; for the others it is a warning.
    pub refused_by: ProfileSet,
    /// Whether the rule applies; `false` if that depends on the kind or the place of the entry, which is unknown. Such a violation is a
    /// warning, and no name is suggested for it.
    pub is_certain: bool,
}

impl fmt::Display for Violation {
    /// Shows the rule and the position. [`NameCheck::message`] explains the violation and shows the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, severity, span, .. } = self;
        write!(
            f,
            "{severity}: {} at bytes {}..{} (rule {})",
            rule.rule().summary,
            span.start,
            span.end,
            rule.name()
        )
    }
}

impl std::error::Error for Violation {}

/// Whether a name is allowed.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'n> {
    /// The name is valid as it is.
    Accept(&'n str),
    /// The name is valid in another spelling, which is to be stored instead.
    Rewrite(String),
    /// The name is invalid: its first violation that is an error.
    Reject(Violation),
}

/// The result of a check: the gravest severity of all violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CheckOutcome {
    /// No violation.
    Accept,
    /// Warnings only.
    Warn,
    /// At least one error.
    Reject,
}

impl CheckOutcome {
    /// `accept`, `warn` or `reject`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Warn => "warn",
            Self::Reject => "reject",
        }
    }

    /// The outcome of violations with these severities.
    pub fn from_severities(severities: impl IntoIterator<Item = Severity>) -> Self {
        match severities.into_iter().max() {
            None => Self::Accept,
            Some(Severity::Warn) => Self::Warn,
            Some(Severity::Error) => Self::Reject,
        }
    }
}

/// All violations of one name, in the order of its bytes.
#[derive(Clone, Debug)]
pub struct NameCheck<'n> {
    /// The checked name.
    pub name: &'n [u8],
    /// Its violations, by span, then by rule.
    pub violations: Vec<Violation>,
}

impl NameCheck<'_> {
    /// The gravest severity of all violations.
    pub fn outcome(&self) -> CheckOutcome {
        CheckOutcome::from_severities(self.violations.iter().map(|v| v.severity))
    }

    /// Explains why the name breaks the rule of `violation`, in one line. Names in it are escaped for display.
    pub fn message(&self, policy: &Policy, violation: &Violation) -> String {
        super::message::message(policy, self.name, violation)
    }
}
