//! Findings: names with their violations, messages and suggested names.

use std::borrow::Cow;
use std::sync::Arc;

use namegate_core::name::Span;
use namegate_core::name::escape::stable_hash;
use namegate_core::policy::rule::{RuleId, RuleKind, Severity};
use namegate_core::policy::{CheckOutcome, NameCheck, Policy, SuggestedName, Violation};

use crate::location::{DirectoryPath, Location};

/// A name and its findings.
#[derive(Clone, Debug)]
pub struct ReportedName {
    /// The directory of the name, shared by all names in it; `None` for a name without a directory.
    pub place: Option<Arc<DirectoryPath>>,
    /// The location of the name in its container, if there is one.
    pub location: Option<Location>,
    /// The name.
    pub name: Vec<u8>,
    /// Its violations.
    pub objections: Vec<ReportedViolation>,
    /// Further violations, which are only counted.
    pub unlisted: Vec<UnlistedViolations>,
    /// Further violations, which the baseline accepts: they are not reported, and what a target does with the name depends on
    /// them as well.
    pub accepted: Vec<Violation>,
    /// The suggested name.
    pub repair: Option<SuggestedName>,
    /// The user who owns the file, for people, if owners are reported.
    pub owner: Option<String>,
}

/// Violations of one rule and severity that a report does not list, because the name has too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnlistedViolations {
    /// The rule.
    pub rule: RuleId,
    /// The severity.
    pub severity: Severity,
    /// Their number.
    pub count: u64,
}

/// A report lists so many violations of a name, and further ones if they are the first of their kind. No name on disk has more; one in a list or an
/// archive can have 65,536 bytes, each of them a violation.
const MOST_LISTED: usize = 256;

/// Formats with a row for each violation repeat the path: a long one is not repeated beyond these bytes, ...
const MOST_REPEATED: usize = 1 << 16;

/// ... but always a few times.
const FEW_LISTED: usize = 4;

/// Removes the violations beyond the limit for a path of so many bytes that say nothing new but where they are, and counts them.
pub fn limit_violations(violations: &mut Vec<Violation>, path_len: usize) -> Vec<UnlistedViolations> {
    let most = (MOST_REPEATED / path_len.max(1)).clamp(FEW_LISTED, MOST_LISTED);
    let mut unlisted: Vec<UnlistedViolations> = Vec::new();
    if violations.len() <= most {
        return unlisted;
    }
    let kind = |v: &Violation| Violation { span: Span::new(0, 0), ..*v };
    let mut kinds: Vec<Violation> = Vec::new();
    let mut listed = 0;
    violations.retain(|violation| {
        let is_new = !kinds.contains(&kind(violation));
        if is_new {
            kinds.push(kind(violation));
        }
        listed += 1;
        if listed <= most || is_new {
            return true;
        }
        let of_kind =
            |u: &&mut UnlistedViolations| (u.rule, u.severity) == (violation.rule, violation.severity);
        match unlisted.iter_mut().find(of_kind) {
            Some(of_kind) => of_kind.count += 1,
            None => {
                let &Violation { rule, severity, .. } = violation;
                unlisted.push(UnlistedViolations { rule, severity, count: 1 });
            }
        }
        false
    });
    unlisted
}

/// A violation and its text.
#[derive(Clone, Debug)]
pub struct ReportedViolation {
    /// The violation.
    pub violation: Violation,
    /// The message, in one line.
    pub message: String,
    /// For collisions: the names that become one with this one.
    pub group: Option<Arc<CollisionGroup>>,
}

/// Names of one directory that become one name on a target.
#[derive(Debug)]
pub struct CollisionGroup {
    /// Identifies the same names in the same directory in every run and every format.
    pub id: String,
    /// Their directory.
    pub place: Arc<DirectoryPath>,
    /// The rule that each of them breaks, with its severity and the profiles that object; the span is that of the first.
    pub violation: Violation,
    /// All of them, sorted by bytes.
    pub members: Vec<Vec<u8>>,
}

impl CollisionGroup {
    /// Creates the group of the names `members` in one directory.
    pub fn new(place: Arc<DirectoryPath>, violation: Violation, mut members: Vec<Vec<u8>>) -> Self {
        members.sort_unstable();
        let parts = [place.dir.as_slice(), violation.rule.name().as_bytes()].into_iter();
        let id = fingerprint(parts.chain(members.iter().map(Vec::as_slice)));
        Self { id, place, violation, members }
    }
}

/// 16 hexadecimal digits that identify these byte strings in this order; the same in every run and release. The strings
/// contain no NUL.
fn fingerprint<'p>(parts: impl Iterator<Item = &'p [u8]>) -> String {
    let joined: Vec<&[u8]> = parts.collect();
    format!("{:016x}", stable_hash(&joined.join(&0)))
}

impl ReportedName {
    /// The record of a name without a directory.
    pub fn of(policy: &Policy, check: &NameCheck<'_>) -> Self {
        let mut violations = check.violations.clone();
        let unlisted = limit_violations(&mut violations, check.name.len());
        let objection = |v: &Violation| ReportedViolation {
            violation: *v,
            message: check.message(policy, v),
            group: None,
        };
        Self {
            place: None,
            location: None,
            name: check.name.to_vec(),
            objections: violations.iter().map(objection).collect(),
            unlisted,
            accepted: Vec::new(),
            repair: None,
            owner: None,
        }
    }

    /// All violations, also those that the baseline accepts.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.objections.iter().map(|objection| &objection.violation).chain(&self.accepted)
    }

    /// For a name that is not UTF-8: that it is not, and what it is taken for, if that is known.
    pub fn encoding_note(&self) -> Option<Cow<'static, str>> {
        if std::str::from_utf8(&self.name).is_ok() {
            return None;
        }
        let decoded = self.repair.as_ref().and_then(|repair| repair.decoded);
        Some(decoded.map_or(Cow::Borrowed("not UTF-8"), |decoded| decoded.to_string().into()))
    }

    /// The message of a violation for a format that shows each by itself: what the name is comes before what is wrong with its
    /// bytes.
    pub fn message_of<'o>(&self, objection: &'o ReportedViolation) -> Cow<'o, str> {
        let is_of_bytes = objection.violation.rule.rule().kind == RuleKind::Encoding;
        let message = self.counted_message(objection);
        match self.encoding_note().filter(|_| is_of_bytes) {
            Some(note) => format!("{note}; {message}").into(),
            None => message,
        }
    }

    /// The message of a violation. The first one of a kind of which not all are listed says how many are not.
    pub fn counted_message<'o>(&self, objection: &'o ReportedViolation) -> Cow<'o, str> {
        let kind = |v: &Violation| (v.rule, v.severity);
        let of = kind(&objection.violation);
        let unlisted = self.unlisted.iter().find(|unlisted| (unlisted.rule, unlisted.severity) == of);
        let is_first = || {
            let first = self.objections.iter().find(|other| kind(&other.violation) == of);
            first.is_some_and(|first| first.violation.span == objection.violation.span)
        };
        match unlisted.filter(|_| is_first()) {
            Some(UnlistedViolations { rule, count, .. }) => {
                format!("{}; {count} more of {rule} are not listed", objection.message).into()
            }
            None => Cow::Borrowed(&objection.message),
        }
    }

    /// The outcome of all reported violations together.
    pub fn outcome(&self) -> CheckOutcome {
        CheckOutcome::from_severities(self.objections.iter().map(|o| o.violation.severity))
    }

    /// The path: directory, separator, name; only the name if it has no directory.
    pub fn path(&self) -> Vec<u8> {
        self.place.as_ref().map_or_else(|| self.name.clone(), |place| place.join(&self.name))
    }

    /// Identifies the finding that this name breaks `rule` in every run: by path and rule, not by wording.
    pub fn fingerprint(&self, rule: RuleId) -> String {
        fingerprint([self.path().as_slice(), rule.name().as_bytes()].into_iter())
    }
}

/// The findings of one directory.
#[derive(Debug, Default)]
pub struct DirectoryFindings {
    /// Groups of names that become one.
    pub groups: Vec<Arc<CollisionGroup>>,
    /// Names with violations, in the order of their bytes.
    pub records: Vec<ReportedName>,
    /// Names whose violations the baseline accepts, all of them: they are only counted.
    pub accepted: Vec<ReportedName>,
    /// Whether more names follow, which may be in the same groups.
    pub has_more: bool,
}

impl DirectoryFindings {
    /// Reports whether there is nothing to report or to count.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.records.is_empty() && self.accepted.is_empty()
    }
}

/// What a report shows of a finding; the rest is not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Its path, rules and places.
    Violations,
    /// A suggested name too, and a message for the first violation of each rule and severity.
    OneMessagePerRule,
    /// A suggested name too, and a message for each violation.
    Everything,
}
