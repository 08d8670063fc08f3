//! Suggests names for the entries of one directory. Pure: the entries are looked up later.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;

use super::PlanSettings;
use super::meanings::NameMeanings;
use super::parts::Distinct;
use crate::check::DirectoryCheck;
use crate::fix::plan::Alternative;
use crate::name::display::display;
use crate::name::reading::EncodingCounts;
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{Confidence, Policy, SuggestedName, Violation};
use crate::source::DirectoryBatch;

/// The suggestions for one directory. They are made one after another, so that only one at a time is in memory with all that
/// stands in its line.
#[derive(Default)]
pub(super) struct DirectoryProposals<'d> {
    suggestions: Option<Suggestions<'d>>,
    /// How many names are in which encodings, if they were guessed.
    pub(super) encodings: Option<EncodingCounts>,
    /// Whether more evidence could make a guessed encoding likely, or change it.
    pub(super) is_uncertain: bool,
}

struct Suggestions<'d> {
    policy: &'d Policy,
    check: DirectoryCheck<'d>,
    meanings: NameMeanings<'d>,
    repairs: BTreeMap<usize, SuggestedName>,
    broken: RulesByName,
    /// Names that the target would still merge with another name, each with one of these.
    merging: BTreeMap<usize, Vec<u8>>,
}

/// What a plan says of one name.
#[derive(Debug)]
pub(super) enum NameProposal {
    /// It gets a new name.
    Rename(Proposal),
    /// It breaks a rule and gets no new name.
    Skip(Unplanned),
}

/// A new name for a name.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) old: Vec<u8>,
    pub(super) new: String,
    pub(super) reasons: Vec<RuleId>,
    pub(super) confidence: Confidence,
    pub(super) reading: String,
    pub(super) evidence: Option<String>,
    pub(super) alternatives: Vec<Alternative>,
}

/// A name that breaks a rule, and why it gets no new name.
#[derive(Debug)]
pub(super) struct Unplanned {
    pub(super) name: Vec<u8>,
    pub(super) reasons: Vec<RuleId>,
    pub(super) why: String,
}

/// The rules that a name breaks.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct BrokenRules {
    rules: Vec<RuleId>,
    has_error: bool,
}

/// The rules that the names of a directory break. Many names break the same rules, so each list of rules is stored once.
#[derive(Debug, Default)]
struct RulesByName {
    lists: Vec<BrokenRules>,
    /// The index of its list for each name that breaks rules, by the index of the name.
    of: BTreeMap<usize, u32>,
}

impl RulesByName {
    /// Takes the violations of each name out of `check`, which keeps the indexes of the names.
    fn take(check: &mut DirectoryCheck<'_>) -> Self {
        let mut merge_rules = BTreeMap::<usize, Vec<RuleId>>::new();
        for collision in &check.collisions {
            for (&at, violation) in collision.members.iter().zip(&collision.violations) {
                if at < check.checked && is_merge_rule(violation.rule) {
                    merge_rules.entry(at).or_default().push(violation.rule);
                }
            }
        }
        let (mut lists, mut of) = (Distinct::default(), BTreeMap::new());
        let mut add = |at: usize, broken: BrokenRules| of.insert(at, lists.number(broken));
        for (&at, violations) in &mut check.violations {
            let merge_rules = merge_rules.remove(&at).unwrap_or_default();
            add(at, BrokenRules::new(&mem::take(violations), &merge_rules));
        }
        for (&at, rules) in &merge_rules {
            add(at, BrokenRules::new(&[], rules));
        }
        Self { lists: lists.into_sorted().collect(), of }
    }

    /// The rules that the name at index `at` breaks; `None` if it breaks none.
    fn of(&self, at: usize) -> Option<&BrokenRules> {
        self.of.get(&at).map(|&list| &self.lists[list as usize])
    }
}

impl BrokenRules {
    fn new(violations: &[Violation], merge_rules: &[RuleId]) -> Self {
        let mut broken = Self::default();
        violations.iter().for_each(|v| broken.add(v.rule, v.severity));
        merge_rules.iter().for_each(|&rule| broken.add(rule, Severity::Warn));
        broken
    }

    fn add(&mut self, rule: RuleId, severity: Severity) {
        if !self.rules.contains(&rule) {
            self.rules.push(rule);
        }
        self.has_error |= severity == Severity::Error;
    }
}

/// Reports whether the rule is about names that the target merges, and not only about similar names.
pub(super) fn is_merge_rule(rule: RuleId) -> bool {
    matches!(rule, RuleId::CollisionNormalization | RuleId::CollisionCase)
}

/// The evidence for the encodings of a directory, besides its own names.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlierNames {
    pub(super) encodings: EncodingCounts,
    /// Where they are, as the end of a sentence; empty if there are none.
    pub(super) place: &'static str,
}

/// Suggests names for a batch, in at most `jobs` threads.
pub(super) fn propose_names<'d>(
    batch: &'d DirectoryBatch,
    policy: &'d Policy,
    settings: &'d PlanSettings,
    earlier: &EarlierNames,
    jobs: usize,
) -> DirectoryProposals<'d> {
    let directory = batch.directory(&settings.prefix);
    let check = policy.check_directory(&directory);
    let converted = || is_converted(batch, settings).then(|| DirectoryCheck::without_violations(&directory));
    let Some(mut check) = check.or_else(converted) else { return DirectoryProposals::default() };
    let broken = RulesByName::take(&mut check);
    let names = &check.names[..check.checked];
    let mut meanings = NameMeanings::none(settings);
    let (mut repairs, mut merging) = (BTreeMap::new(), BTreeMap::new());
    let (mut encodings, mut is_uncertain) = (None, false);
    if check.is_listed() {
        let all: Vec<&[u8]> = check.all_names().collect();
        let is_mojibake =
            |at: usize| broken.of(at).is_some_and(|broken| broken.rules.contains(&RuleId::Mojibake));
        let (read, texts) = NameMeanings::read(&all, names.len(), settings, earlier, &is_mojibake, jobs);
        is_uncertain = read.guess.is_some() && read.have_guesses(&texts);
        repairs = check.suggested_names_for_meanings(policy, texts);
        meanings = read;
        encodings = meanings.guess.as_ref().map(|guess| guess.counts().clone());
        let mut after: Vec<&[u8]> = check.names.clone();
        for (&at, repair) in &repairs {
            after[at] = repair.name.as_bytes();
        }
        merging = find_merging(policy, &after, names.len());
    }
    let suggestions = Suggestions { policy, check, meanings, repairs, broken, merging };
    DirectoryProposals { suggestions: Some(suggestions), encodings, is_uncertain }
}

impl DirectoryProposals<'_> {
    /// The names whose paths are too long without any rename.
    pub(super) fn long(&self) -> impl Iterator<Item = &[u8]> {
        let check = self.suggestions.as_ref().map(|suggestions| &suggestions.check);
        check.into_iter().flat_map(|check| check.path_violations.keys().map(|&at| check.names[at]))
    }

    /// The number of names in [`DirectoryProposals::names`].
    pub(super) fn count(&self) -> usize {
        let Some(suggestions) = &self.suggestions else { return 0 };
        suggestions.indexes().filter(|&at| suggestions.is_planned(at)).count()
    }

    /// The number of names that were checked.
    pub(super) fn len(&self) -> usize {
        self.suggestions.as_ref().map_or(0, |suggestions| suggestions.check.checked)
    }

    /// What the plan says of the names in `part` of those that were checked.
    pub(super) fn names(&self, part: Range<usize>) -> impl Iterator<Item = NameProposal> {
        let suggestions = self.suggestions.iter();
        suggestions.flat_map(move |suggestions| part.clone().filter_map(|at| suggestions.proposal(at)))
    }
}

impl Suggestions<'_> {
    /// The indexes of names that may be planned, in order.
    fn indexes(&self) -> impl Iterator<Item = usize> {
        0..self.check.checked
    }

    fn is_planned(&self, at: usize) -> bool {
        let broken = self.broken.of(at);
        if !self.check.is_listed() {
            return broken.is_some();
        }
        self.merging.contains_key(&at)
            || self.repairs.contains_key(&at)
            || broken.is_some_and(|broken| broken.has_error)
    }

    fn proposal(&self, at: usize) -> Option<NameProposal> {
        if !self.is_planned(at) {
            return None;
        }
        let reasons = self.broken.of(at).map(|broken| broken.rules.clone()).unwrap_or_default();
        let name = self.check.names[at];
        let skip = |reasons, why| Some(NameProposal::Skip(Unplanned { name: name.to_vec(), reasons, why }));
        if !self.check.is_listed() {
            let why = "its directory cannot be listed, so any new name could be taken";
            return skip(reasons, why.to_owned());
        }
        if let Some(other) = self.merging.get(&at) {
            let why =
                format!("the target cannot tell it and {} apart, and no free name was found", display(other));
            return skip(reasons, why);
        }
        match self.repairs.get(&at) {
            Some(repair) => {
                let repair = repair.clone();
                Some(NameProposal::Rename(self.meanings.proposal(self.policy, at, name, repair, reasons)))
            }
            None => skip(reasons, "no valid name was found".to_owned()),
        }
    }
}

fn is_converted(batch: &DirectoryBatch, settings: &PlanSettings) -> bool {
    let mut texts = batch.names.iter().filter_map(|(_, name)| std::str::from_utf8(name).ok());
    texts.any(|name| settings.conversion.apply(name).is_some())
}

/// Those of the first `count` names that the target would merge with another name, each with one of these.
fn find_merging(policy: &Policy, names: &[&[u8]], count: usize) -> BTreeMap<usize, Vec<u8>> {
    let mut merging = BTreeMap::new();
    let Some(mut fingerprints) = policy.fingerprints() else { return merging };
    names.iter().for_each(|name| fingerprints.add(name));
    let shared = fingerprints.shared();
    if shared.is_empty() {
        return merging;
    }
    for collision in shared.collisions(names) {
        let violation = collision.violations[0];
        if !is_merge_rule(violation.rule) || violation.severity != Severity::Error {
            continue;
        }
        for &at in collision.members.iter().filter(|&&at| at < count) {
            if let Some(&other) = collision.members.iter().find(|&&other| other != at) {
                merging.insert(at, names[other].to_vec());
            }
        }
    }
    merging
}
