//! The check of one directory.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::{ScanSettings, container_rules};
use crate::check::DirectoryCheck;
use crate::name::Span;
use crate::name::display::display;
use crate::policy::rule::RuleId;
use crate::policy::{Collision, NameCheck, Policy, Violation};
use crate::report::baseline::Baseline;
use crate::report::{CollisionGroup, ReportedName, ReportedViolation};
use crate::source::location::{Container, DirectoryPath};
use crate::source::{DirectoryBatch, Parts};

/// The findings of one directory.
#[derive(Default)]
pub(super) struct DirectoryFindings {
    /// Groups of names that become one.
    pub(super) groups: Vec<Arc<CollisionGroup>>,
    /// Names with violations, in the order of their bytes.
    pub(super) records: Vec<ReportedName>,
}

/// Checks directories one by one.
pub(super) struct DirectoryScan<'s> {
    pub(super) policy: &'s Policy,
    pub(super) settings: &'s ScanSettings,
    /// Whether findings are shown. Otherwise they have no messages and no suggested names.
    pub(super) shows_findings: bool,
}

impl DirectoryScan<'_> {
    /// Checks one directory. If `batch` has only the suspects of a large directory, `parts` are all its names.
    pub(super) fn check(&self, batch: &DirectoryBatch, parts: Option<&mut dyn Parts>) -> DirectoryFindings {
        let &Self { policy, settings, shows_findings } = self;
        let directory = batch.directory(&settings.prefix);
        let check = policy.check_directory(&directory);
        // The container of the directory may have rules of its own.
        let by_container =
            || batch.container.is_some().then(|| DirectoryCheck::without_violations(&directory));
        let Some(check) = check.or_else(by_container) else { return DirectoryFindings::default() };
        let names = &check.names[..check.checked];
        let mut found = ObjectionsByName::new();
        for (&at, violations) in &check.violations {
            let check = NameCheck { name: names[at], violations: Vec::new() };
            let message = |v| if shows_findings { check.message(policy, v) } else { String::new() };
            let objections = violations.iter().map(|v| ReportedViolation {
                violation: *v,
                message: message(v),
                group: None,
            });
            found.entry(at).or_default().extend(objections);
        }
        if let Some(container) = batch.container.as_deref() {
            apply_container_rules(container, policy, batch, names, &mut found);
        }
        for (&at, violations) in &check.path_violations {
            let path = check.path_on_target(at);
            let objections = violations.iter().map(|v| path_violation(policy, &path, v, names[at]));
            found.entry(at).or_default().extend(objections);
        }
        if found.is_empty() && check.collisions.is_empty() {
            return DirectoryFindings::default();
        }
        let place = Arc::new(DirectoryPath {
            container: batch.container.clone(),
            dir: batch.dir.as_os_str().as_bytes().to_vec(),
            inode: batch.inode(),
        });
        let mut groups = Vec::with_capacity(check.collisions.len());
        for collision in &check.collisions {
            let twins = shows_findings.then(|| Twins::new(collision, &check.names));
            let group = Arc::new(group_of(collision, &check.names, &place));
            for (&at, &violation) in collision.members.iter().zip(&collision.violations) {
                // A sibling that is not checked is a member without a finding of its own.
                if at < names.len() {
                    let group = Some(Arc::clone(&group));
                    found.entry(at).or_default().push(ReportedViolation {
                        violation,
                        message: twins.as_ref().map_or_else(String::new, |twins| twins.message(at)),
                        group,
                    });
                }
            }
            groups.push(group);
        }
        if settings.baseline.as_ref().is_some_and(|known| accept(known, &place, names, &mut found)) {
            let reported: HashSet<*const CollisionGroup> =
                found.values().flatten().filter_map(|o| o.group.as_ref().map(Arc::as_ptr)).collect();
            groups.retain(|group| reported.contains(&Arc::as_ptr(group)));
        }
        if found.is_empty() {
            return DirectoryFindings::default();
        }
        let mut repairs = match parts {
            _ if !shows_findings => BTreeMap::new(),
            None => check.suggested_names(policy, settings.encoding),
            Some(parts) => {
                check.suggested_names_among(policy, settings.encoding, &mut |take| parts.each_name(take))
            }
        };
        let record = |(at, mut objections): (usize, Vec<ReportedViolation>)| {
            objections.sort_by_key(|o| (o.violation.span, o.violation.rule));
            ReportedName {
                place: Some(Arc::clone(&place)),
                location: batch.locations.get(at).copied(),
                name: names[at].to_vec(),
                objections,
                repair: repairs.remove(&at),
                owner: settings.owner_of.and_then(|owner_of| owner_of(&place, names[at])),
            }
        };
        let mut records: Vec<ReportedName> = found.into_iter().map(record).collect();
        records.sort_by(|a, b| a.name.cmp(&b.name));
        DirectoryFindings { groups, records }
    }
}

/// Removes known findings; returns whether there were any.
fn accept(known: &Baseline, place: &DirectoryPath, names: &[&[u8]], found: &mut ObjectionsByName) -> bool {
    let mut has_accepted = false;
    found.retain(|&at, objections| {
        let path = place.join(names[at]);
        let before = objections.len();
        objections.retain(|o| !known.accepts(&path, o.violation.rule));
        has_accepted |= objections.len() < before;
        !objections.is_empty()
    });
    has_accepted
}

fn group_of(collision: &Collision, names: &[&[u8]], place: &Arc<DirectoryPath>) -> CollisionGroup {
    let members = collision.members.iter().map(|&at| names[at].to_vec()).collect();
    CollisionGroup::new(Arc::clone(place), collision.violations[0], members)
}

/// Violations by the index of the name in its directory.
type ObjectionsByName = BTreeMap<usize, Vec<ReportedViolation>>;

/// Applies the rules of a container that is not a directory on disk.
fn apply_container_rules(
    container: &Container,
    policy: &Policy,
    batch: &DirectoryBatch,
    names: &[&[u8]],
    found: &mut ObjectionsByName,
) {
    let dir = batch.dir.as_os_str().as_bytes();
    for objections in found.values_mut() {
        for objection in objections {
            if let Some(message) = container_rules::message(container, dir, objection.violation.rule) {
                objection.message = message.to_owned();
            }
        }
    }
    for (at, name) in names.iter().enumerate() {
        let objections = container_rules::violations(policy, container, name);
        if !objections.is_empty() {
            found.entry(at).or_default().extend(objections);
        }
    }
}

/// Names that become one, as the message of each names the others.
struct Twins {
    how: &'static str,
    count: usize,
    /// The first by their bytes, each with its index: one more than are shown, because a message leaves out its own name.
    first: Vec<(usize, String)>,
}

impl Twins {
    /// A message is one line: a few names are enough.
    const SHOWN: usize = 3;

    fn new(collision: &Collision, names: &[&[u8]]) -> Self {
        let rule = collision.violations[0].rule;
        let how = match rule {
            RuleId::CollisionNormalization => "is canonically equivalent to",
            RuleId::CollisionCase => "differs in case alone from",
            _ => "looks like",
        };
        let mut members = collision.members.clone();
        members.sort_unstable_by_key(|&at| names[at]);
        members.truncate(Self::SHOWN + 1);
        let first =
            members.into_iter().map(|at| (at, format!("`{}`", distinguishable(rule, names[at])))).collect();
        Self { how, count: collision.members.len(), first }
    }

    /// The message for the name at `at`, with the names that collide with it.
    fn message(&self, at: usize) -> String {
        let others = self.first.iter().filter(|(other, _)| *other != at);
        let shown: Vec<&str> = others.take(Self::SHOWN).map(|(_, name)| name.as_str()).collect();
        let more = match self.count - 1 - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} {}{more}", self.how, shown.join(", "))
    }
}

/// The name in a form that differs from its twin: characters that only look alike are shown as code points.
fn distinguishable(rule: RuleId, name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if rule != RuleId::CollisionCase => text
            .chars()
            .map(|c| if matches!(c, ' '..='~') { c.to_string() } else { c.escape_unicode().to_string() })
            .collect(),
        _ => display(name).to_string(),
    }
}

/// The violation of a path, reported for the name at its end, which is what a reader sees.
fn path_violation(policy: &Policy, path: &[u8], violation: &Violation, name: &[u8]) -> ReportedViolation {
    let message = NameCheck { name: path, violations: Vec::new() }.message(policy, violation);
    ReportedViolation {
        violation: Violation { span: Span::new(0, name.len()), ..*violation },
        message,
        group: None,
    }
}
