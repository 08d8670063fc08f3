//! Rules for names in a git tree or in an archive.
//!
//! Such a name can be valid on its own, so that no policy reports it; but it is never valid in its container.

use namegate_core::name::Span;
use namegate_core::policy::profile::ProfileSet;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{Policy, Violation};

use crate::location::{ArchiveKind, Container};
use crate::record::ReportedViolation;

/// Reports whether names in this container have rules of their own.
pub(super) fn apply_to(container: &Container) -> bool {
    !matches!(container, Container::List { .. })
}

/// Reports whether `name` has violations that follow from its container.
pub(super) fn are_broken_by(container: &Container, name: &[u8]) -> bool {
    match container {
        Container::Git { .. } => name == b".git",
        Container::Archive { .. } => memchr::memchr(b'\\', name).is_some(),
        Container::List { .. } => false,
    }
}

/// The violations of `name` that follow from its container.
pub(super) fn violations(policy: &Policy, container: &Container, name: &[u8]) -> Vec<ReportedViolation> {
    let violation = |rule, severity, span, message: &str| {
        let profiles = policy.profile_set();
        let refused_by = if severity == Severity::Error { profiles } else { ProfileSet::EMPTY };
        ReportedViolation {
            violation: Violation { rule, severity, span, profiles, refused_by, is_certain: true },
            message: message.to_owned(),
            group: None,
        }
    };
    if !are_broken_by(container, name) {
        return Vec::new();
    }
    match container {
        // The rule finds only lookalikes, because on disk `.git` itself is the repository.
        Container::Git { .. } => {
            let message = "git reserves this name: a checkout would write into the repository";
            let whole = Span::new(0, name.len());
            vec![violation(RuleId::DotGitLookalike, Severity::Error, whole, message)]
        }
        // The separator in an archive is `/` (zip: APPNOTE 4.4.17.1; tar: pax in POSIX.1).
        Container::Archive { kind, .. } => {
            let (rule, severity) = match kind {
                ArchiveKind::Zip => (RuleId::SeparatorSmuggling, Severity::Error),
                ArchiveKind::Tar => (RuleId::ReservedCharacter, Severity::Warn),
            };
            let message = "a `\\`, which is part of the name here, but a separator on Windows";
            let at = memchr::memchr_iter(b'\\', name);
            at.map(|at| violation(rule, severity, Span::new(at, at + 1), message)).collect()
        }
        Container::List { .. } => Vec::new(),
    }
}

/// A more specific message for a violation, which takes the container into account.
pub(super) fn message(container: &Container, dir: &[u8], rule: RuleId) -> Option<&'static str> {
    match (container, rule) {
        (Container::List { .. }, _) => None,
        (_, RuleId::EmptyName) if dir.is_empty() => {
            Some("no name before the first `/`: the path is absolute or empty")
        }
        (_, RuleId::EmptyName) => Some("no name between two `/`"),
        (_, RuleId::DotName) => Some(
            "not a name but a step in a path: `..` leads out of the directory in which the archive is unpacked",
        ),
        _ => None,
    }
}
