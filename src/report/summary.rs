//! What a whole run found, counted while it runs, in a space that does not grow with it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::readiness::Readiness;
use super::{ReportedName, ReportedViolation};
use crate::name::script;
use crate::policy::profile::Profile;
use crate::policy::rule::{Concern, RuleId, Severity};
use crate::policy::{CheckOutcome, Policy};

/// What a whole run found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Directories read.
    pub directories: u64,
    /// Names judged.
    pub names: u64,
    /// Names with at least one error.
    pub rejected: u64,
    /// Names with warnings only.
    pub warned: u64,
    /// Names with a violation that concerns security.
    pub insecure: u64,
    /// Things that could not be read.
    pub unreadable: u64,
    /// Entries that were gone when their turn came.
    pub vanished: u64,
    /// The run was ended before everything was judged.
    pub was_interrupted: bool,
    /// Per rule: how many violations, and the greatest severity among them.
    pub rules: BTreeMap<RuleId, (u64, Option<Severity>)>,
    /// Findings by the scripts that their names are written in; [`NO_SCRIPT`] and [`NOT_UTF8`] for the others.
    pub scripts: BTreeMap<&'static str, u64>,
    /// Groups of names that become one.
    pub collisions: u64,
    /// What each target does with the names.
    pub targets: Vec<Readiness>,
    /// Names that do not arrive as they are at one of the targets at least.
    pub lost_or_changed: u64,
    /// What a baseline did, if there is one.
    pub baseline: Option<Accepted>,
    directories_with_most: TopDirectories,
}

/// Names without any letter of a script, such as `2024-01`.
pub const NO_SCRIPT: &str = "no script";
/// Names that are not UTF-8.
pub const NOT_UTF8: &str = "not UTF-8";

/// What a baseline did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Findings that it accepts, a name and a rule each.
    pub accepted: u64,
    /// Entries of it that nothing was found for.
    pub stale: u64,
}

impl Summary {
    /// Nothing counted yet, in a run under `policy`.
    pub fn of(policy: &Policy) -> Self {
        Self::for_targets(policy.profiles())
    }

    /// Nothing counted yet, in a run that asks how ready the names are for `targets`.
    pub fn for_targets(targets: &[&'static Profile]) -> Self {
        Self { targets: targets.iter().map(|target| Readiness::new(target)).collect(), ..Self::default() }
    }

    /// Counts a record that is reported.
    pub fn count(&mut self, record: &ReportedName) {
        let outcome = record.outcome();
        self.count_as(outcome);
        if outcome == CheckOutcome::Accept {
            return;
        }
        self.count_rules(record);
        let is_security = |o: &ReportedViolation| o.violation.rule.rule().concern == Concern::Security;
        self.insecure += u64::from(record.objections.iter().any(is_security));
        let fates = self.targets.iter_mut().filter_map(|target| target.count(record));
        self.lost_or_changed += u64::from(fates.max().is_some_and(|fate| !fate.arrives()));
        self.count_scripts(&record.name);
        if let Some(place) = &record.place {
            self.directories_with_most.count(&place.heading());
        }
    }

    /// Counts the violations of a name that was counted before, and of which there is more to say.
    pub fn count_rules(&mut self, record: &ReportedName) {
        for ReportedViolation { violation, .. } in &record.objections {
            let (count, severity) = self.rules.entry(violation.rule).or_default();
            *count += 1;
            *severity = (*severity).max(Some(violation.severity));
        }
    }

    fn count_scripts(&mut self, name: &[u8]) {
        let scripts = match std::str::from_utf8(name) {
            Ok(text) => script::scripts(text),
            Err(_) => vec![NOT_UTF8],
        };
        let scripts = if scripts.is_empty() { vec![NO_SCRIPT] } else { scripts };
        for script in scripts {
            *self.scripts.entry(script).or_default() += 1;
        }
    }

    /// Counts a name of which only the outcome is asked for.
    pub fn count_as(&mut self, outcome: CheckOutcome) {
        match outcome {
            CheckOutcome::Accept => {}
            CheckOutcome::Warn => self.warned += 1,
            CheckOutcome::Reject => self.rejected += 1,
        }
    }

    /// Names with any violation.
    pub fn findings(&self) -> u64 {
        self.rejected + self.warned
    }

    /// The greatest weight among all findings.
    pub fn worst(&self) -> Option<Severity> {
        match (self.rejected, self.warned) {
            (0, 0) => None,
            (0, _) => Some(Severity::Warn),
            _ => Some(Severity::Error),
        }
    }

    /// The rules that were broken, with how often and how gravely, the most frequent first.
    pub fn rules_by_count(&self) -> Vec<(RuleId, u64, Option<Severity>)> {
        let mut rules: Vec<_> =
            self.rules.iter().map(|(&rule, &(count, severity))| (rule, count, severity)).collect();
        rules.sort_by_key(|&(rule, count, _)| (Reverse(count), rule));
        rules
    }

    /// The directories with most findings, the worst first.
    pub fn worst_directories(&self) -> Vec<(&[u8], u64)> {
        self.directories_with_most.sorted()
    }
}

/// The directories with most findings, among more than can be kept. Findings of one directory come together, so that each
/// is counted whole before it is compared.
#[derive(Clone, Debug, Default)]
struct TopDirectories {
    /// The directory of the last finding.
    current: Option<(Vec<u8>, u64)>,
    kept: Vec<(Vec<u8>, u64)>,
}

impl TopDirectories {
    const KEPT: usize = 20;

    fn count(&mut self, dir: &[u8]) {
        match &mut self.current {
            Some((current, count)) if current == dir => *count += 1,
            _ => {
                self.settle();
                // One that comes again, as lists may have it, goes on where it was left.
                let known = self.kept.iter().position(|(kept, _)| kept == dir);
                let before = known.map_or(0, |at| self.kept.swap_remove(at).1);
                self.current = Some((dir.to_vec(), before + 1));
            }
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
    fn the_directories_with_most_findings_are_found_among_many() {
        let mut most = TopDirectories::default();
        for dir in 0..1000_u32 {
            for _ in 0..=dir % 100 {
                most.count(format!("{dir:04}").as_bytes());
            }
        }
        most.count(b"0099");
        let found = most.sorted();
        assert_eq!(found.len(), TopDirectories::KEPT);
        assert_eq!(found[0], (&b"0099"[..], 101), "a directory that comes again goes on");
        assert_eq!(found[1], (&b"0199"[..], 100));
        assert_eq!(found[10], (&b"0098"[..], 99));
    }
}
