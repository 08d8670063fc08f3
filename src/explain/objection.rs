//! The profiles that object to a name, and their rules.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use namegate_core::name::Span;
use namegate_core::policy::profile::{self, Profile, ProfileSet};
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{NameCheck, Policy, Violation};
use serde::Serialize;

use super::MAX_EXPLAINED;

/// One rule that a name breaks at one place.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedViolation {
    /// The rule's id.
    pub rule: &'static str,
    /// The strictest severity of all profiles: `error` or `warn`.
    pub severity: &'static str,
    /// First byte of the place.
    pub start: usize,
    /// After its last byte.
    pub end: usize,
    /// The message, for this name.
    pub message: String,
    /// Every profile that objects.
    pub profiles: Vec<&'static str>,
    /// Those of `profiles` that only warn.
    pub only_warned_by: Vec<&'static str>,
}

/// A policy for each profile, because a combined one would hide which warn and which refuse; and one for all, for the messages.
struct Policies {
    single: Vec<(&'static Profile, Policy)>,
    all: Policy,
}

static POLICIES: LazyLock<Policies> = LazyLock::new(|| Policies {
    single: profile::ALL.iter().map(|&p| (p, Policy::from_profiles(&[p]))).collect(),
    all: Policy::from_profiles(profile::ALL),
});

/// All violations that begin within the first [`MAX_EXPLAINED`] bytes, in the order of the bytes.
pub(super) fn objections(name: &[u8], profiles: &[&'static Profile]) -> Vec<ExplainedViolation> {
    let mut found: BTreeMap<(Span, RuleId), Vec<(&'static Profile, Violation)>> = BTreeMap::new();
    let is_wanted = |profile: &Profile| profiles.iter().any(|wanted| wanted.name == profile.name);
    for &(profile, ref policy) in POLICIES.single.iter().filter(|(profile, _)| is_wanted(profile)) {
        let violations = policy.check(name).violations;
        for v in violations.into_iter().filter(|v| v.span.start < MAX_EXPLAINED) {
            found.entry((v.span, v.rule)).or_default().push((profile, v));
        }
    }
    let check = NameCheck { name, violations: Vec::new() };
    let objection = |((span, rule), by): ((Span, RuleId), Vec<(&'static Profile, Violation)>)| {
        let severity = by.iter().map(|(_, v)| v.severity).max().unwrap_or(Severity::Warn);
        let profiles: ProfileSet = by.iter().map(|(profile, _)| ProfileSet::from_profile(profile)).collect();
        let refuses = by.iter().filter(|(_, v)| v.severity == Severity::Error);
        let refused_by = refuses.map(|(profile, _)| ProfileSet::from_profile(profile)).collect();
        let is_certain = by.iter().any(|(_, v)| v.is_certain);
        let violation = Violation { rule, severity, span, profiles, refused_by, is_certain };
        let warns = by.iter().filter(|(_, v)| v.severity == Severity::Warn);
        ExplainedViolation {
            rule: rule.name(),
            severity: severity.as_str(),
            start: span.start,
            end: span.end,
            message: check.message(&POLICIES.all, &violation),
            profiles: profiles.names().collect(),
            only_warned_by: warns.map(|(profile, _)| profile.name).collect(),
        }
    };
    found.into_iter().map(objection).collect()
}
