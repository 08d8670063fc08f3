//! Rules for names that follow from where they are: in a git tree or an archive, in a directory, beside another entry.
//!
//! Such a name can be valid on its own, so that no policy reports it.

use std::sync::Arc;

use namegate_core::name::Span;
use namegate_core::policy::profile::ProfileSet;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{Policy, Violation};

use crate::group::Clashes;
use crate::located_names::LocatedNames;
use crate::location::{ArchiveKind, Container};
use crate::record::ReportedViolation;

/// The start of an escape sequence of ISO 2022 that a directory ends with: ESC 2/5. With a `/` and the final byte 4/7, 4/8 or 4/9 at the
/// start of a name in the directory, the path announces UTF-8 (ISO/IEC 10646-1 Amd. 2, R.6).
const ESCAPE_START: &[u8] = b"\x1B%";

/// Reports whether names in this directory have rules of their own.
pub(super) fn apply_to(directory: &LocatedNames<'_>) -> bool {
    let in_container = directory.container.is_some_and(|of| !matches!(**of, Container::List { .. }));
    in_container || !directory.clashes.is_empty() || directory.dir.ends_with(ESCAPE_START)
}

/// Reports whether `name` in the directory `dir` can have violations that follow from where it is.
pub fn are_broken_by(container: Option<&Arc<Container>>, dir: &[u8], clashes: &Clashes, name: &[u8]) -> bool {
    container.is_some_and(|container| are_broken_in(container, name))
        || ends_escape(dir, name)
        || clashes.contains_key(name)
}

fn are_broken_in(container: &Container, name: &[u8]) -> bool {
    match container {
        Container::Git { .. } => name == b".git",
        Container::Archive { .. } => memchr::memchr(b'\\', name).is_some(),
        Container::List { .. } => false,
    }
}

/// Reports whether `dir/name` has an escape sequence that goes beyond the `/`.
fn ends_escape(dir: &[u8], name: &[u8]) -> bool {
    dir.ends_with(ESCAPE_START) && matches!(name, [b'G'..=b'I', ..])
}

/// The violations of `name` that follow from where it is.
pub(super) fn violations(
    policy: &Policy,
    directory: &LocatedNames<'_>,
    name: &[u8],
) -> Vec<ReportedViolation> {
    let mut found = match directory.container {
        Some(container) if are_broken_in(container, name) => by_container(policy, container, name),
        _ => Vec::new(),
    };
    let mut by_rule = |id: RuleId, span: Span, message: String| {
        if let Some(rule) = policy.rules().iter().find(|rule| rule.test.rule() == id) {
            let (severity, profiles, refused_by) = (rule.severity, rule.profiles, rule.refused_by);
            let violation = Violation { rule: id, severity, span, profiles, refused_by, is_certain: true };
            found.push(ReportedViolation { violation, message, group: None });
        }
    };
    if ends_escape(directory.dir, name) {
        let message = "with the end of its directory's name this is an escape sequence: ESC % / and a letter";
        by_rule(RuleId::Iso2022Escape, Span::new(0, 1), message.to_owned());
    }
    if let Some(clash) = directory.clashes.get(name) {
        // The items of a list have other numbers where it is checked in parts.
        let [file, directory] = match directory.container.map(|container| &**container) {
            Some(Container::Archive { .. }) => {
                [clash.file, clash.directory].map(|number| format!(" (member {number})"))
            }
            _ => Default::default(),
        };
        let message =
            format!("the name of a file{file} and of a directory{directory}: no directory can have both");
        by_rule(RuleId::CollisionKind, Span::new(0, name.len()), message);
    }
    found
}

/// The violations of a name that is never valid in its container.
fn by_container(policy: &Policy, container: &Container, name: &[u8]) -> Vec<ReportedViolation> {
    let violation = |rule, severity, span, message: &str| {
        let profiles = policy.profile_set();
        let refused_by = if severity == Severity::Error { profiles } else { ProfileSet::EMPTY };
        ReportedViolation {
            violation: Violation { rule, severity, span, profiles, refused_by, is_certain: true },
            message: message.to_owned(),
            group: None,
        }
    };
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
