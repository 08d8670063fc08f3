//! The check of one directory.

use std::collections::BTreeMap;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::{ScanSettings, container_rules};
use crate::check::DirectoryCheck;
use crate::name::Span;
use crate::name::display::display;
use crate::policy::rule::RuleId;
use crate::policy::{Collision, NameCheck, NamesInUse, Policy, UsedFingerprints, Violation};
use crate::report::{CollisionGroup, Detail, DirectoryFindings, ReportedName, ReportedViolation};
use crate::source::location::{Container, DirectoryPath};
use crate::source::{DirectoryBatch, Parts};

/// Checks directories one by one.
pub(super) struct DirectoryScan<'s> {
    pub(super) policy: &'s Policy,
    pub(super) settings: &'s ScanSettings,
    /// What the report shows of a finding.
    pub(super) detail: Detail,
}

/// Which names of a directory a batch has.
pub(super) enum CheckedNames<'w> {
    /// All of them.
    All,
    /// The suspects of a large directory; its parts have all names. The fingerprints of these, if they were computed.
    Suspects(&'w mut dyn Parts, Option<&'w UsedFingerprints>),
    /// All names that it ever had. Some were never there together, so they do not collide.
    Ever,
    /// Names that were there together, of all that it ever had.
    Together(&'w DirectoryBatch),
}

/// The most findings that are rendered at a time.
const MOST_TOGETHER: usize = 512;

impl DirectoryScan<'_> {
    /// Checks one directory and gives its findings to `emit`, in parts if there are many.
    pub(super) fn check(
        &self,
        batch: &DirectoryBatch,
        checked: CheckedNames<'_>,
        emit: &mut dyn FnMut(DirectoryFindings),
    ) {
        let &Self { policy, settings, .. } = self;
        let directory = batch.directory(&settings.prefix);
        let check = policy.check_directory(&directory);
        // The container of the directory may have rules of its own.
        let by_container =
            || batch.container.is_some().then(|| DirectoryCheck::without_violations(&directory));
        let Some(mut check) = check.or_else(by_container) else { return };
        if matches!(checked, CheckedNames::Ever) {
            check.collisions.clear();
        }
        let mut by_container = match batch.container.as_deref() {
            Some(container) => container_violations(container, policy, &check),
            None => BTreeMap::new(),
        };
        if check.is_clean() && by_container.is_empty() {
            return;
        }
        let place = Arc::new(DirectoryPath {
            container: batch.container.clone(),
            dir: batch.dir.as_os_str().as_bytes().to_vec(),
            inode: if self.has_messages() { batch.inode() } else { None },
        });
        let accepts = |name: &[u8], rule: RuleId| {
            settings.baseline.as_ref().is_some_and(|known| known.accepts(&place.join(name), rule))
        };
        let mut groups = Vec::with_capacity(check.collisions.len());
        let mut by_collision = ObjectionsByName::new();
        for collision in &check.collisions {
            let twins = self.has_messages().then(|| Twins::new(collision, &check.names));
            let group = Arc::new(group_of(collision, &check.names, &place));
            let mut is_new = false;
            for (&at, &violation) in collision.members.iter().zip(&collision.violations) {
                // A sibling that is not checked is a member without a finding of its own.
                if at < check.checked && !accepts(check.names[at], violation.rule) {
                    is_new = true;
                    let message = twins.as_ref().map_or_else(String::new, |twins| twins.message(at));
                    let group = Some(Arc::clone(&group));
                    let objection = ReportedViolation { violation, message, group };
                    by_collision.entry(at).or_default().push(objection);
                }
            }
            if is_new {
                groups.push(group);
            }
        }
        let mut repairs = match checked {
            _ if !self.has_messages() => BTreeMap::new(),
            CheckedNames::All | CheckedNames::Ever => check.suggested_names(policy, settings.encoding),
            CheckedNames::Suspects(parts, used) => {
                let in_use: &mut NamesInUse<'_> = &mut |take| parts.each_name(take);
                check.suggested_names_among(policy, settings.encoding, in_use, used)
            }
            CheckedNames::Together(ever) => {
                let in_use: &mut NamesInUse<'_> =
                    &mut |take| ever.names.iter().for_each(|(_, name)| take(name));
                check.suggested_names_among(policy, settings.encoding, in_use, None)
            }
        };
        let mut found: Vec<usize> = [check.violations.keys(), check.path_violations.keys()]
            .into_iter()
            .flatten()
            .chain(by_collision.keys())
            .chain(by_container.keys())
            .copied()
            .collect();
        found.sort_unstable_by_key(|&at| check.names[at]);
        found.dedup();
        let mut records = Vec::with_capacity(found.len().min(MOST_TOGETHER));
        for at in found {
            let name = check.names[at];
            let own = check.violations.remove(&at).unwrap_or_default();
            let mut objections = self.objections(name, own, batch);
            objections.extend(by_container.remove(&at).unwrap_or_default());
            if let Some(violations) = check.path_violations.remove(&at) {
                let path = check.path_on_target(at);
                objections.extend(violations.iter().map(|v| path_violation(policy, &path, v, name)));
            }
            if settings.baseline.is_some() {
                objections.retain(|o| !accepts(name, o.violation.rule));
            }
            objections.extend(by_collision.remove(&at).unwrap_or_default());
            if objections.is_empty() {
                continue;
            }
            objections.sort_by_key(|o| (o.violation.span, o.violation.rule));
            records.push(ReportedName {
                place: Some(Arc::clone(&place)),
                location: batch.locations.get(at).copied(),
                name: name.to_vec(),
                objections,
                repair: repairs.remove(&at),
                owner: settings.owner_of.and_then(|owner_of| owner_of(&place, name)),
            });
            if records.len() == MOST_TOGETHER {
                emit(DirectoryFindings { groups: mem::take(&mut groups), records: mem::take(&mut records) });
            }
        }
        if !records.is_empty() {
            emit(DirectoryFindings { groups, records });
        }
    }

    pub(super) fn has_messages(&self) -> bool {
        self.detail > Detail::Violations
    }

    /// The violations of a name alone, with the messages that the report shows.
    fn objections(
        &self,
        name: &[u8],
        violations: Vec<Violation>,
        batch: &DirectoryBatch,
    ) -> Vec<ReportedViolation> {
        let &Self { policy, detail, .. } = self;
        let check = NameCheck { name, violations };
        let dir = batch.dir.as_os_str().as_bytes();
        let objection = |(of, violation): (usize, &Violation)| {
            let kind = |v: &Violation| (v.rule, v.severity);
            let is_shown = match detail {
                Detail::Violations => false,
                Detail::OneMessagePerRule => {
                    !check.violations[..of].iter().any(|earlier| kind(earlier) == kind(violation))
                }
                Detail::Everything => true,
            };
            let by_container = || {
                container_rules::message(batch.container.as_deref()?, dir, violation.rule).map(str::to_owned)
            };
            let message = match is_shown {
                true => by_container().unwrap_or_else(|| check.message(policy, violation)),
                false => String::new(),
            };
            ReportedViolation { violation: *violation, message, group: None }
        };
        check.violations.iter().enumerate().map(objection).collect()
    }
}

fn group_of(collision: &Collision, names: &[&[u8]], place: &Arc<DirectoryPath>) -> CollisionGroup {
    let members = collision.members.iter().map(|&at| names[at].to_vec()).collect();
    CollisionGroup::new(Arc::clone(place), collision.violations[0], members)
}

/// Violations by the index of the name in its directory.
type ObjectionsByName = BTreeMap<usize, Vec<ReportedViolation>>;

/// The violations that follow from a container that is not a directory on disk.
fn container_violations(
    container: &Container,
    policy: &Policy,
    check: &DirectoryCheck<'_>,
) -> ObjectionsByName {
    let names = check.names[..check.checked].iter().enumerate();
    let found = names.map(|(at, name)| (at, container_rules::violations(policy, container, name)));
    found.filter(|(_, objections)| !objections.is_empty()).collect()
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
