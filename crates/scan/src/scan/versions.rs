//! Directories that had different names over time.
//!
//! All names that a directory ever had are checked once. Only where some of them could collide, the versions are read again to
//! find out which were there together.

use std::collections::{HashMap, HashSet};

use namegate_core::name::Span;
use namegate_core::name::arena::Arena;
use namegate_core::policy::rule::RuleId;
use namegate_core::policy::{FingerprintIndex, NamesInUse};
use namegate_findings::directory::CheckedNames;

use super::batch_scan::BatchScan;
use crate::report::{DirectoryFindings, Summary};
use crate::source::VersionedDirectory;

/// Checks the names of a directory in all its versions and gives the findings to `emit`. The same finding may come several times.
pub(super) fn check(
    directory: &mut dyn VersionedDirectory,
    scan: &BatchScan<'_>,
    emit: &mut dyn FnMut(DirectoryFindings),
) {
    scan.check(directory.names(), CheckedNames::Ever, emit);
    let Some(mut fingerprints) = scan.directories.policy.fingerprints() else { return };
    fingerprints.add_all(&directory.names().names);
    let shared = fingerprints.shared();
    if shared.is_empty() {
        return;
    }
    let mut alike = Arena::new();
    for (_, name) in directory.names().names.iter().filter(|(_, name)| shared.has(name)) {
        alike.push(name).expect("it comes from an arena");
    }
    let mut found = Vec::new();
    directory.each_set_of(&alike, &mut |together| found.push(together));
    let ever = &directory.names().names;
    for together in &found {
        let in_use: &mut NamesInUse<'_> = &mut |_, take| ever.iter().for_each(|(_, name)| take(name));
        let used = FingerprintIndex::Unknown;
        scan.check(together, CheckedNames::Suspects { in_use, used, hint: None }, emit);
    }
}

/// What was reported of a directory that has several versions.
#[derive(Default)]
pub(super) struct Deduplicator {
    /// Violations by the path of the name.
    names: HashMap<Vec<u8>, Vec<(RuleId, Span)>>,
    /// Paths of names whose violations the baseline accepts.
    accepted: HashSet<Vec<u8>>,
    /// Ids of groups of names that become one.
    groups: HashSet<String>,
}

impl Deduplicator {
    /// Removes what was reported before, and counts the rest.
    pub(super) fn keep_new(&mut self, findings: &mut DirectoryFindings, summary: &mut Summary) {
        findings.groups.retain(|group| self.groups.insert(group.id.clone()));
        findings.records.retain_mut(|record| {
            let reported = self.names.entry(record.path()).or_default();
            record.objections.retain(|o| !reported.contains(&(o.violation.rule, o.violation.span)));
            if record.objections.is_empty() {
                return false;
            }
            match reported.is_empty() {
                true => summary.count(record),
                false => {
                    let known: Vec<RuleId> = reported.iter().map(|&(rule, _)| rule).collect();
                    summary.count_rules(record, &known);
                }
            }
            reported.extend(record.objections.iter().map(|o| (o.violation.rule, o.violation.span)));
            true
        });
        findings.accepted.retain(|record| {
            let is_new = self.accepted.insert(record.path());
            if is_new {
                summary.count(record);
            }
            is_new
        });
        summary.collisions += findings.groups.len() as u64;
    }
}
