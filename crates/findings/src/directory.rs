//! The check of one directory: everything that is reported about it.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use namegate_core::check::DirectoryCheck;
use namegate_core::name::Span;
use namegate_core::name::display::display;
use namegate_core::name::misread::SharedMisreading;
use namegate_core::name::reading::{Encoding, EncodingGuess};
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{
    Collision, Confidence, EncodingHint, FingerprintIndex, NameCheck, NamesInUse, PartsSuggester, Policy,
    SuggestedName, Violation,
};

use crate::located_names::LocatedNames;
use crate::location::DirectoryPath;
use crate::place_rules;
use crate::record::{
    CollisionGroup, Detail, DirectoryFindings, ReportedName, ReportedViolation, limit_violations,
};

/// Checks directories one by one.
#[derive(Clone, Copy)]
pub struct DirectoryScan<'s> {
    /// The policy.
    pub policy: &'s Policy,
    /// What the report shows of a finding.
    pub detail: Detail,
    /// Violations of a lower severity are left out.
    pub min_severity: Severity,
    /// The encoding of names that are not UTF-8, for suggested names; guessed per directory if `None`.
    pub encoding: Option<Encoding>,
    /// Reports whether it is known that this name of a directory breaks this rule: such violations are accepted, and not reported.
    pub accepts: Option<&'s AcceptsViolation<'s>>,
    /// Looks up the owner of a name in a directory, if owners are reported.
    pub owner_of: Option<OwnerOf>,
    /// Looks up the inode number of a directory on disk, if it is reported.
    pub inode_of: Option<InodeOf>,
    /// Nothing is handed over if more evidence could change how a name is decoded.
    pub waits: bool,
}

/// Whether the findings of a directory were handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// They were.
    Done,
    /// They wait for more evidence ([`DirectoryScan::waits`]).
    Waits,
}

/// Reports whether it is known that a name of a directory breaks a rule.
pub type AcceptsViolation<'s> = dyn Fn(&DirectoryPath, &[u8], RuleId) -> bool + Sync + 's;

/// Looks up the owner of a name in a directory, for people; `None` if unknown.
pub type OwnerOf = fn(&DirectoryPath, &[u8]) -> Option<String>;

/// Looks up the inode number of a directory on disk; `None` if unknown.
pub type InodeOf = fn(&[u8]) -> Option<u64>;

/// Which names of the directory are checked.
pub enum CheckedNames<'w> {
    /// All of them.
    All,
    /// Those that may have findings, because the directory is large.
    Suspects {
        /// Gives the other names of the directory.
        in_use: &'w mut NamesInUse<'w>,
        /// What is known of their fingerprints.
        used: FingerprintIndex<'w>,
        /// What is known about the encoding of names that are not UTF-8, besides what the user chose.
        hint: Option<EncodingHint<'w>>,
    },
    /// Some of those that may have findings. No name that is suggested for one of them is in use or suggested for another.
    Part(&'w PartsSuggester<'w>),
    /// All names that it ever had. Some were never there together, so they do not collide.
    Ever,
}

/// The most findings that are handed over at a time.
const MOST_TOGETHER: usize = 512;

impl<'s> DirectoryScan<'s> {
    /// A scan of everything, without known findings, owners and inode numbers.
    pub fn new(policy: &'s Policy, detail: Detail) -> Self {
        let min_severity = Severity::Warn;
        Self {
            policy,
            detail,
            min_severity,
            encoding: None,
            accepts: None,
            owner_of: None,
            inode_of: None,
            waits: false,
        }
    }

    /// Checks one directory and gives its findings to `emit`, in parts if there are many.
    pub fn check(
        &self,
        directory: &LocatedNames<'_>,
        checked: CheckedNames<'_>,
        emit: &mut dyn FnMut(DirectoryFindings),
    ) -> Handover {
        let policy = self.policy;
        let check = policy.check_directory(&directory.names);
        let by_place =
            || place_rules::apply_to(directory).then(|| DirectoryCheck::without_violations(&directory.names));
        let Some(mut check) = check.or_else(by_place) else { return Handover::Done };
        if matches!(checked, CheckedNames::Ever) {
            check.collisions.clear();
        }
        let by_place = place_violations(directory, policy, &check);
        if check.is_clean() && by_place.is_empty() {
            return Handover::Done;
        }
        let is_whole = matches!(checked, CheckedNames::All | CheckedNames::Ever);
        let misreading = (is_whole && self.has_messages()).then(|| check.shared_misreading()).flatten();
        let repairs = self.suggest(directory, &check, checked);
        let may_change = self.waits && directory.encodings.is_some_and(EncodingGuess::needs_evidence);
        if may_change && repairs.values().any(is_decoded_by_guess) {
            return Handover::Waits;
        }
        let mut findings = Findings {
            scan: self,
            directory,
            place: self.path_of(directory),
            check,
            by_place,
            misreading,
            repairs,
        };
        let (groups, mut by_collision, mut known) = findings.collisions();
        let found = findings.names(&by_collision, &known);
        let capacity = found.len().min(MOST_TOGETHER);
        let mut batch = DirectoryFindings { groups, ..DirectoryFindings::default() };
        batch.records.reserve(capacity);
        for at in found {
            let collides = by_collision.remove(&at).unwrap_or_default();
            let Some(name) = findings.report(at, collides, known.remove(&at).unwrap_or_default()) else {
                continue;
            };
            if batch.records.len() + batch.accepted.len() == MOST_TOGETHER {
                batch.has_more = true;
                emit(mem::take(&mut batch));
                batch.records.reserve(capacity);
            }
            let names = if name.objections.is_empty() { &mut batch.accepted } else { &mut batch.records };
            names.push(name);
        }
        if !batch.is_empty() {
            emit(batch);
        }
        Handover::Done
    }

    /// The suggested names, by the indexes of the names.
    fn suggest(
        &self,
        directory: &LocatedNames<'_>,
        check: &DirectoryCheck<'_>,
        checked: CheckedNames<'_>,
    ) -> BTreeMap<usize, SuggestedName> {
        match checked {
            _ if !self.has_messages() || directory.in_repository => BTreeMap::new(),
            CheckedNames::All | CheckedNames::Ever => {
                check.suggested_names(self.policy, self.hint(directory.encodings))
            }
            CheckedNames::Suspects { in_use, used, hint } => {
                let hint = hint.or_else(|| self.hint(directory.encodings));
                check.suggested_names_among(self.policy, hint, in_use, used)
            }
            CheckedNames::Part(suggester) => check.suggested_names_alone(self.policy, suggester),
        }
    }

    fn path_of(&self, directory: &LocatedNames<'_>) -> Arc<DirectoryPath> {
        let inode_of = self.inode_of.filter(|_| self.has_messages() && directory.container.is_none());
        Arc::new(DirectoryPath {
            container: directory.container.cloned(),
            dir: directory.dir.to_vec(),
            inode: inode_of.and_then(|inode_of| inode_of(directory.dir)),
        })
    }

    /// What is known about the encoding of names that are not UTF-8: what the user chose, or what was `guessed`.
    pub fn hint<'n>(&self, guessed: Option<&'n EncodingGuess>) -> Option<EncodingHint<'n>> {
        self.encoding.map(EncodingHint::Given).or_else(|| guessed.map(EncodingHint::Guessed))
    }

    /// Reports whether findings have messages and suggested names.
    pub fn has_messages(&self) -> bool {
        self.detail > Detail::Violations
    }

    /// The violations of a name alone, with the messages that the report shows.
    fn objections(
        &self,
        name: &[u8],
        violations: Vec<Violation>,
        directory: &LocatedNames<'_>,
        misreading: Option<&SharedMisreading>,
    ) -> Vec<ReportedViolation> {
        let &Self { policy, detail, .. } = self;
        let check = NameCheck { name, violations };
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
                place_rules::message(directory.container?, directory.dir, violation.rule).map(str::to_owned)
            };
            let by_directory = || {
                let misreading = misreading.filter(|_| violation.rule == RuleId::Mojibake)?;
                misreading.undo(std::str::from_utf8(name).ok()?).map(|misread| misread.to_string())
            };
            let message = match is_shown {
                true => {
                    by_container().or_else(by_directory).unwrap_or_else(|| check.message(policy, violation))
                }
                false => String::new(),
            };
            ReportedViolation { violation: *violation, message, group: None }
        };
        check.violations.iter().enumerate().map(objection).collect()
    }
}

/// What was found in a directory and is not reported yet.
struct Findings<'f, 'n> {
    scan: &'f DirectoryScan<'f>,
    directory: &'f LocatedNames<'n>,
    place: Arc<DirectoryPath>,
    check: DirectoryCheck<'n>,
    by_place: ObjectionsByName,
    misreading: Option<Arc<SharedMisreading>>,
    repairs: BTreeMap<usize, SuggestedName>,
}

impl Findings<'_, '_> {
    fn accepts(&self, name: &[u8], rule: RuleId) -> bool {
        self.scan.accepts.is_some_and(|accepts| accepts(&self.place, name, rule))
    }

    /// The groups of names that collide and are not all accepted, their violations, and those that are accepted.
    fn collisions(&self) -> (Vec<Arc<CollisionGroup>>, ObjectionsByName, AcceptedByName) {
        let check = &self.check;
        let mut groups = Vec::with_capacity(check.collisions.len());
        let (mut by_name, mut known) = (ObjectionsByName::new(), AcceptedByName::new());
        for collision in &check.collisions {
            let twins = self.scan.has_messages().then(|| Twins::new(collision, &check.names));
            let group = Arc::new(group_of(collision, &check.names, &self.place));
            let mut is_new = false;
            for (&at, &violation) in collision.members.iter().zip(&collision.violations) {
                // A sibling that is not checked is a member without a finding of its own.
                if at >= check.checked || violation.severity < self.scan.min_severity {
                    continue;
                }
                if self.accepts(check.names[at], violation.rule) {
                    known.entry(at).or_default().push(violation);
                } else {
                    is_new = true;
                    let message = twins.as_ref().map_or_else(String::new, |twins| twins.message(at));
                    let group = Some(Arc::clone(&group));
                    by_name.entry(at).or_default().push(ReportedViolation { violation, message, group });
                }
            }
            if is_new {
                groups.push(group);
            }
        }
        (groups, by_name, known)
    }

    /// The names with findings, by their bytes.
    fn names(&self, by_collision: &ObjectionsByName, known: &AcceptedByName) -> Vec<usize> {
        let check = &self.check;
        let mut found: Vec<usize> = [check.violations.keys(), check.path_violations.keys()]
            .into_iter()
            .flatten()
            .chain(by_collision.keys())
            .chain(self.by_place.keys())
            .chain(known.keys())
            .copied()
            .collect();
        found.sort_unstable_by_key(|&at| check.names[at]);
        found.dedup();
        found
    }

    /// What is reported of a name, besides how it collides; `None` if nothing is.
    fn report(
        &mut self,
        at: usize,
        collides: Vec<ReportedViolation>,
        mut known: Vec<Violation>,
    ) -> Option<ReportedName> {
        let (scan, name) = (self.scan, self.check.names[at]);
        let mut own = self.check.violations.get_mut(&at).map(mem::take).unwrap_or_default();
        own.retain(|violation| violation.severity >= scan.min_severity);
        let mut unlisted = limit_violations(&mut own, self.place.dir.len() + name.len());
        let mut objections = scan.objections(name, own, self.directory, self.misreading.as_deref());
        objections.extend(self.by_place.remove(&at).unwrap_or_default());
        if let Some(violations) = self.check.path_violations.remove(&at) {
            let path = self.check.path_on_target(at);
            objections.extend(violations.iter().map(|v| path_violation(scan.policy, &path, v, name)));
        }
        objections.retain(|o| o.violation.severity >= scan.min_severity);
        if scan.accepts.is_some() {
            let is_known = |o: &mut ReportedViolation| self.accepts(name, o.violation.rule);
            known.extend(objections.extract_if(.., is_known).map(|o| o.violation));
            unlisted.retain(|unlisted| !self.accepts(name, unlisted.rule));
        }
        objections.extend(collides);
        if objections.is_empty() && known.is_empty() {
            return None;
        }
        objections.sort_by_key(|o| (o.violation.span, o.violation.rule));
        // Removing it would rebalance the map each time.
        let repair =
            self.repairs.get_mut(&at).map(|new| SuggestedName { name: mem::take(&mut new.name), ..*new });
        Some(ReportedName {
            place: Some(Arc::clone(&self.place)),
            location: self.directory.locations.get(at),
            name: name.to_vec(),
            objections,
            unlisted,
            accepted: known,
            repair,
            owner: scan.owner_of.and_then(|owner_of| owner_of(&self.place, name)),
        })
    }
}

/// Whether a name was decoded by a guess, which more evidence could change.
pub fn is_decoded_by_guess(new: &SuggestedName) -> bool {
    new.decoded.is_some_and(|decoded| decoded.confidence == Confidence::Guess)
}

fn group_of(collision: &Collision, names: &[&[u8]], place: &Arc<DirectoryPath>) -> CollisionGroup {
    let members = collision.members.iter().map(|&at| names[at].to_vec()).collect();
    CollisionGroup::new(Arc::clone(place), collision.violations[0], members)
}

/// Violations by the index of the name in its directory.
type ObjectionsByName = BTreeMap<usize, Vec<ReportedViolation>>;

/// Accepted violations by the index of the name in its directory.
type AcceptedByName = BTreeMap<usize, Vec<Violation>>;

/// The violations that follow from where the names are.
fn place_violations(
    directory: &LocatedNames<'_>,
    policy: &Policy,
    check: &DirectoryCheck<'_>,
) -> ObjectionsByName {
    if !place_rules::apply_to(directory) {
        return ObjectionsByName::new();
    }
    let names = check.names[..check.checked].iter().enumerate();
    let found = names.map(|(at, name)| (at, place_rules::violations(policy, directory, name)));
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
