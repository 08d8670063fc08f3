//! The summary of a run, counted while it runs, in memory that does not grow with it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use namegate_core::name::script;
use namegate_core::policy::profile::Profile;
use namegate_core::policy::rule::{Concern, RuleId, Severity};
use namegate_core::policy::{CheckOutcome, Confidence, Policy};
use namegate_findings::location::DirectoryPath;
use namegate_findings::record::{DirectoryFindings, ReportedName, ReportedViolation};
use namegate_findings::unmarked::UnmarkedNames;

use super::layout::counted;
use super::readiness::{Readiness, ReadinessVerdict};
use crate::encoded_text::EncodedNames;

#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Directories read.
    pub directories: u64,
    /// Names checked.
    pub names: u64,
    /// Names with at least one error.
    pub rejected: u64,
    /// Names with warnings only.
    pub warned: u64,
    /// Names with a violation that concerns security.
    pub insecure: u64,
    /// Things that could not be read.
    pub unreadable: u64,
    /// Entries that were gone before they were read.
    pub vanished: u64,
    /// Names with findings that are inside repositories of version control.
    pub in_repositories: u64,
    /// Names in trees with text that `fix plan --decode` decodes.
    pub encoded: EncodedNames,
    /// The run was stopped before everything was checked.
    pub was_interrupted: bool,
    /// Nobody reads the report any more, and the run ended for that reason. The summary has what was counted until then.
    pub is_unread: bool,
    /// The counts of each broken rule.
    pub rules: BTreeMap<RuleId, RuleCounts>,
    /// Findings by the scripts of their names; `NO_SCRIPT` and `NOT_UTF8` for the others.
    pub scripts: BTreeMap<&'static str, u64>,
    /// Groups of names that become one.
    pub collisions: u64,
    /// What each target does with the names.
    pub targets: Vec<Readiness>,
    /// Names that do not arrive unchanged at one or more of the targets.
    pub lost_or_changed: u64,
    /// The effect of the baseline, if there is one.
    pub baseline: Option<Accepted>,
    /// By archive: names that are not marked as UTF-8.
    pub unmarked: Vec<UnmarkedNames>,
    directories_with_most: TopDirectories,
}

/// Names without a letter of any script, such as `2024-01`.
pub(crate) const NO_SCRIPT: &str = "no script";
/// Names that are not UTF-8.
pub(crate) const NOT_UTF8: &str = "not UTF-8";

/// How often a rule is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    pub violations: u64,
    /// Names that break the rule, once or more.
    pub names: u64,
    /// The greatest severity of the violations.
    pub worst: Option<Severity>,
}

/// The effect of a baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Findings that it accepts; a name and a rule are one.
    pub accepted: u64,
    /// Entries without a finding; `None` if not all names were checked.
    pub stale: Option<u64>,
}

impl Summary {
    /// Creates an empty summary for a run with `policy`.
    pub fn of(policy: &Policy) -> Self {
        Self::for_targets(policy.profiles())
    }

    /// Creates an empty summary for a run that reports the readiness for `targets`.
    pub(crate) fn for_targets(targets: &[&'static Profile]) -> Self {
        Self { targets: targets.iter().map(|target| Readiness::new(target)).collect(), ..Self::default() }
    }

    /// Counts a record. A name whose violations the baseline accepts counts for targets alone.
    pub fn count(&mut self, record: &ReportedName) {
        let fates = self.targets.iter_mut().filter_map(|target| target.count(record));
        self.lost_or_changed += u64::from(fates.fold(false, |is_lost, fate| is_lost | !fate.is_harmless()));
        let outcome = record.outcome();
        self.count_as(outcome);
        if outcome == CheckOutcome::Accept {
            return;
        }
        self.count_rules(record, &[]);
        let is_security = |o: &ReportedViolation| o.violation.rule.rule().concern == Concern::Security;
        self.insecure += u64::from(record.objections.iter().any(is_security));
        self.count_scripts(&record.name);
        if let Some(place) = &record.place {
            self.directories_with_most.count_in(place);
        }
    }

    pub(crate) fn count_findings(&mut self, findings: &DirectoryFindings) {
        findings.records.iter().chain(&findings.accepted).for_each(|record| self.count(record));
        self.collisions += findings.groups.len() as u64;
    }

    /// Whether everything was read and checked.
    pub fn is_complete(&self) -> bool {
        self.unreadable == 0 && !self.was_interrupted
    }

    /// How certain the encodings are in which names of archives were read; `None` if none was read in another one than UTF-8.
    pub fn encodings(&self) -> Option<Confidence> {
        let read = self.unmarked.iter().filter(|names| !names.are_stored);
        read.filter_map(UnmarkedNames::confidence).max()
    }

    /// The verdict about a target. It depends on encodings that nothing states.
    pub fn verdict(&self, target: &Readiness) -> ReadinessVerdict {
        let by_names = target.verdict(self.is_complete());
        by_names.max(match self.encodings() {
            None | Some(Confidence::Certain) => by_names,
            Some(Confidence::Likely) => ReadinessVerdict::Doubtful,
            Some(Confidence::Guess) => ReadinessVerdict::Uncertain,
        })
    }

    /// `no finding`, or `no new finding` if a baseline accepts some.
    pub(crate) fn no_finding(&self) -> &'static str {
        match self.baseline {
            Some(Accepted { accepted: 1.., .. }) => "no new finding",
            _ => "no finding",
        }
    }

    /// What is missing in a run that is not complete, and why: `not all names were checked: ...`.
    pub fn incompleteness(&self) -> Option<String> {
        let interrupted = self.was_interrupted.then(|| "the run was interrupted".to_owned());
        let unread = (self.unreadable > 0)
            .then(|| format!("{} could not be read", counted(self.unreadable, "entry", "entries")));
        let reasons: Vec<String> = [interrupted, unread].into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| format!("not all names were checked: {}", reasons.join(", and ")))
    }

    /// Counts further violations of a name that was counted before, with the rules `known`.
    pub(crate) fn count_rules(&mut self, record: &ReportedName, known: &[RuleId]) {
        for (at, ReportedViolation { violation, .. }) in record.objections.iter().enumerate() {
            let rule = violation.rule;
            let is_first = record.objections[..at].iter().all(|earlier| earlier.violation.rule != rule);
            let names = u64::from(is_first && !known.contains(&rule));
            self.count_rule(rule, RuleCounts { violations: 1, names, worst: Some(violation.severity) });
        }
        for unlisted in &record.unlisted {
            let worst = Some(unlisted.severity);
            self.count_rule(unlisted.rule, RuleCounts { violations: unlisted.count, names: 0, worst });
        }
    }

    /// Adds the counts of another part of the same run.
    pub fn add(&mut self, part: Self) {
        self.directories += part.directories;
        self.names += part.names;
        self.rejected += part.rejected;
        self.warned += part.warned;
        self.insecure += part.insecure;
        self.unreadable += part.unreadable;
        self.vanished += part.vanished;
        self.in_repositories += part.in_repositories;
        self.encoded.add(part.encoded);
        self.collisions += part.collisions;
        self.lost_or_changed += part.lost_or_changed;
        for (rule, counts) in part.rules {
            self.count_rule(rule, counts);
        }
        for (script, count) in part.scripts {
            *self.scripts.entry(script).or_default() += count;
        }
        for (target, part) in self.targets.iter_mut().zip(part.targets) {
            target.add(part);
        }
        self.directories_with_most.add(part.directories_with_most);
        self.unmarked.extend(part.unmarked);
    }

    fn count_rule(&mut self, rule: RuleId, counts: RuleCounts) {
        let all = self.rules.entry(rule).or_default();
        all.violations += counts.violations;
        all.names += counts.names;
        all.worst = all.worst.max(counts.worst);
    }

    fn count_scripts(&mut self, name: &[u8]) {
        let mut count = |script| *self.scripts.entry(script).or_default() += 1;
        match std::str::from_utf8(name) {
            Ok(text) => {
                let mut scripts = script::scripts(text).peekable();
                if scripts.peek().is_none() {
                    count(NO_SCRIPT);
                }
                scripts.for_each(count);
            }
            Err(_) => count(NOT_UTF8),
        }
    }

    /// Counts a name by its outcome only.
    pub fn count_as(&mut self, outcome: CheckOutcome) {
        match outcome {
            CheckOutcome::Accept => {}
            CheckOutcome::Warn => self.warned += 1,
            CheckOutcome::Reject => self.rejected += 1,
        }
    }

    /// Names with a violation.
    pub fn findings(&self) -> u64 {
        self.rejected + self.warned
    }

    /// The greatest severity of all findings.
    pub fn worst(&self) -> Option<Severity> {
        match (self.rejected, self.warned) {
            (0, 0) => None,
            (0, _) => Some(Severity::Warn),
            _ => Some(Severity::Error),
        }
    }

    /// Violations of all rules.
    pub fn violations(&self) -> u64 {
        self.rules.values().map(|counts| counts.violations).sum()
    }

    /// The broken rules with their counts, the most frequent first.
    pub(crate) fn rules_by_count(&self) -> Vec<(RuleId, RuleCounts)> {
        let mut rules: Vec<_> = self.rules.iter().map(|(&rule, &counts)| (rule, counts)).collect();
        rules.sort_by_key(|&(rule, counts)| (Reverse(counts.violations), rule));
        rules
    }

    /// The directories with the most names with findings, the worst first.
    pub(crate) fn worst_directories(&self) -> Vec<(&[u8], u64)> {
        self.directories_with_most.sorted()
    }
}

/// Finds the directories with the most findings among more than can be kept. Findings of one directory arrive together, so each
/// directory is counted completely before it is compared.
#[derive(Clone, Debug, Default)]
struct TopDirectories {
    /// The directory of the last finding.
    current: Option<(Vec<u8>, u64)>,
    /// The same as its findings have it.
    place: Option<Arc<DirectoryPath>>,
    kept: Vec<(Vec<u8>, u64)>,
}

impl TopDirectories {
    const KEPT: usize = 20;

    /// Counts a finding. Those of one directory share its path, so nearly always no path is compared.
    fn count_in(&mut self, place: &Arc<DirectoryPath>) {
        match &mut self.current {
            Some((_, count)) if self.place.as_ref().is_some_and(|last| Arc::ptr_eq(last, place)) => {
                *count += 1;
            }
            _ => {
                self.count(&place.heading(), 1);
                self.place = Some(Arc::clone(place));
            }
        }
    }

    fn count(&mut self, dir: &[u8], findings: u64) {
        self.place = None;
        match &mut self.current {
            Some((current, count)) if current == dir => *count += findings,
            _ => {
                self.settle();
                // A directory that occurs again, as in a list, continues its count.
                let known = self.kept.iter().position(|(kept, _)| kept == dir);
                let before = known.map_or(0, |at| self.kept.swap_remove(at).1);
                self.current = Some((dir.to_vec(), before + findings));
            }
        }
    }

    fn add(&mut self, part: Self) {
        for (dir, count) in part.kept.into_iter().chain(part.current) {
            self.count(&dir, count);
        }
    }

    fn settle(&mut self) {
        self.kept.extend(self.current.take());
        if self.kept.len() > 2 * Self::KEPT {
            self.kept.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
            self.kept.truncate(Self::KEPT);
        }
    }

    fn sorted(&self) -> Vec<(&[u8], u64)> {
        let all = self.kept.iter().chain(&self.current);
        let mut sorted: Vec<(&[u8], u64)> = all.map(|(dir, count)| (dir.as_slice(), *count)).collect();
        sorted.sort_by_key(|&(dir, count)| (Reverse(count), dir));
        sorted.truncate(Self::KEPT);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directories_with_the_most_findings_are_found_among_many() {
        let mut most = TopDirectories::default();
        for dir in 0..1000_u32 {
            for _ in 0..=dir % 100 {
                most.count(format!("{dir:04}").as_bytes(), 1);
            }
        }
        most.count(b"0099", 1);
        let found = most.sorted();
        assert_eq!(found.len(), TopDirectories::KEPT);
        assert_eq!(found[0], (&b"0099"[..], 101), "a directory that comes again goes on");
        assert_eq!(found[1], (&b"0199"[..], 100));
        assert_eq!(found[10], (&b"0098"[..], 99));
    }
}
