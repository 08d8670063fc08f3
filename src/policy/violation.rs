//! What judging a name gives: violations, a verdict, a check.

use super::Policy;
use super::profile::ProfileSet;
use super::rule::{RuleId, Severity};
use crate::name::Span;

/// One reason against a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule is broken.
    pub rule: RuleId,
    /// How much that weighs under the policy.
    pub severity: Severity,
    /// At which bytes.
    pub span: Span,
    /// Which of the policy's profiles object.
    pub profiles: ProfileSet,
    /// Those of `profiles` by which it is an error; the others warn.
    pub refused_by: ProfileSet,
}

/// The decision about one name.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'n> {
    /// Admissible as it is.
    Accept(&'n str),
    /// Admissible in another spelling, which the policy asks to store.
    Rewrite(String),
    /// Not admissible: the first violation that is an error.
    Reject(Violation),
}

/// The weight of all violations of a name together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// No violation.
    Accept,
    /// Warnings only.
    Warn,
    /// At least one error.
    Reject,
}

impl Outcome {
    /// `accept`, `warn` or `reject`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Warn => "warn",
            Self::Reject => "reject",
        }
    }

    /// The weight of violations of these severities together.
    pub fn of(severities: impl IntoIterator<Item = Severity>) -> Self {
        match severities.into_iter().max() {
            None => Self::Accept,
            Some(Severity::Warn) => Self::Warn,
            Some(Severity::Error) => Self::Reject,
        }
    }
}

/// All reasons against one name, in the order of its bytes.
#[derive(Clone, Debug)]
pub struct NameCheck<'n> {
    /// The name that was judged.
    pub name: &'n [u8],
    /// Its violations, by span, then by rule.
    pub violations: Vec<Violation>,
}

impl NameCheck<'_> {
    /// The weight of all violations together.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.violations.iter().map(|v| v.severity))
    }

    /// Why the name breaks `violation`'s rule, in plain words for this name; names in it are escaped for display.
    pub fn message(&self, policy: &Policy, violation: &Violation) -> String {
        super::message::message(policy, self.name, violation)
    }
}
