//! Why a gate refuses a name.

use std::error::Error;
use std::fmt;

use super::NAME_MAX;
use crate::name::Span;
use crate::policy::Violation;
use crate::policy::rule::RuleId;

/// Why a gate refuses a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The name breaks the policy.
    Violates(Violation),
    /// The name, or the spelling stored for it, is longer than [`NAME_MAX`].
    TooLong {
        /// How many bytes would have to be stored.
        bytes: usize,
        /// The excess bytes of the given name; all of it if another spelling would be stored.
        span: Span,
    },
    /// No entry can have this name.
    CannotExist(Violation),
    /// A new name looks like the escaped form of another name, so it would be shown under a third name.
    ReadsAsEscape {
        /// The length of the name.
        bytes: usize,
    },
    /// The name is an escaped form, but no entry has the original name.
    NotShown {
        /// The length of the name.
        bytes: usize,
    },
}

impl Refusal {
    /// The rule that the name breaks; `None` if it is refused because of escaping.
    pub fn rule(&self) -> Option<RuleId> {
        match self {
            Self::Violates(violation) | Self::CannotExist(violation) => Some(violation.rule),
            Self::TooLong { .. } => Some(RuleId::NameTooLong),
            Self::ReadsAsEscape { .. } | Self::NotShown { .. } => None,
        }
    }

    /// The bytes of the given name that break the rule.
    pub fn span(&self) -> Span {
        match self {
            Self::Violates(violation) | Self::CannotExist(violation) => violation.span,
            Self::TooLong { span, .. } => *span,
            Self::ReadsAsEscape { bytes } | Self::NotShown { bytes } => Span::new(0, *bytes),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violates(violation) => violation.fmt(f),
            Self::TooLong { bytes, .. } => {
                write!(f, "the name is {bytes} bytes long; the limit is {NAME_MAX}")
            }
            Self::CannotExist(violation) => write!(f, "no entry can have this name: {violation}"),
            Self::ReadsAsEscape { .. } => f.write_str("the name looks like the escaped form of another name"),
            Self::NotShown { .. } => {
                f.write_str("the name is an escaped form, and no entry has the original name")
            }
        }
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Violates(violation) | Self::CannotExist(violation) => Some(violation),
            Self::TooLong { .. } | Self::ReadsAsEscape { .. } | Self::NotShown { .. } => None,
        }
    }
}
