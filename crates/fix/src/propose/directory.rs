//! Suggests names for the entries of one directory, and makes the lines of the plan when the entries are looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use namegate_core::check::DirectoryCheck;
use namegate_core::name::display::display;
use namegate_core::name::misread;
use namegate_core::name::reading::EncodingCounts;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{Confidence, FingerprintIndex, NamesInUse, Policy, SuggestedName, Violation};
use namegate_scan::source::DirectoryBatch;
use namegate_scan::source::encodings::EarlierNames;

use super::distinct::Distinct;
use super::draft::too_long;
use super::line_maker::{LineMaker, LineSink};
use super::meanings::{DecodedNames, Derivation, EncodingEvidence, NameMeanings};
use super::separators::{SeparatedPath, separate};
use super::settings::PlanSettings;
use crate::in_order::ranges_in_order;
use crate::plan::check::{find_merged, is_merge_rule};
use crate::plan::{Rename, Skipped};
use crate::plan_record::{LineRecord, tag};

/// So many names get their lines together.
const NAMES_TOGETHER: usize = 512;

/// The suggestions for one directory. They are made one after another, so that only one at a time is in memory with all that
/// stands in its line.
#[derive(Default)]
pub(super) struct DirectoryProposals<'d> {
    suggestions: Option<Suggestions<'d>>,
    /// Whether more evidence could make a guessed encoding likely, or change it.
    pub(super) is_uncertain: bool,
    /// The number of names that get no new name because the targets only advise against them.
    pub(super) left_out: u64,
}

struct Suggestions<'d> {
    policy: &'d Policy,
    check: DirectoryCheck<'d>,
    meanings: NameMeanings<'d>,
    repairs: BTreeMap<usize, SuggestedName>,
    /// The paths that names stand for, or why they stand for none.
    paths: BTreeMap<usize, Result<SeparatedPath, String>>,
    broken: RulesByName,
    /// Names that the target would still merge with another name, each with one of these.
    merging: BTreeMap<usize, Vec<u8>>,
    batch: &'d DirectoryBatch,
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
    /// Takes the violations of most names out of `check`, which keeps the indexes of the names.
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
            add(at, BrokenRules::new(violations, &merge_rules));
            // A name alone does not say what its kind and its place forbid. Everything else is found again.
            if violations.iter().all(|violation| violation.rule != RuleId::ReservedName) {
                drop(mem::take(violations));
            }
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

/// Suggests names for the names of directories.
#[derive(Clone, Copy)]
pub(super) struct NameProposer<'p> {
    pub(super) policy: &'p Policy,
    pub(super) settings: &'p PlanSettings,
    /// The policy with suggested names for what the targets only advise against, if `policy` has none.
    pub(super) advice: Option<&'p Policy>,
    /// The number of threads for one directory.
    pub(super) jobs: usize,
}

/// The other names of a directory, which no suggested name may equal.
pub(super) enum OtherNames<'u> {
    /// The batch has them.
    InBatch,
    /// The batch has those that may collide with each other or with suggested names. The names in use, and what is known of their
    /// fingerprints.
    Given(&'u mut NamesInUse<'u>, FingerprintIndex<'u>),
    /// Names are suggested without regard to them.
    Ignored,
}

impl<'p> NameProposer<'p> {
    /// Suggests names for a directory. `earlier` are names that were read before.
    pub(super) fn propose<'d>(
        &self,
        batch: &'d DirectoryBatch,
        earlier: &EarlierNames,
    ) -> DirectoryProposals<'d>
    where
        'p: 'd,
    {
        let directory = batch.directory(&self.settings.prefix);
        let check = self.policy.check_directory(&directory);
        let converted = || self.converts(batch).then(|| DirectoryCheck::without_violations(&directory));
        let Some(check) = check.or_else(converted) else { return DirectoryProposals::default() };
        let evidence = match check.is_listed() {
            true => EncodingEvidence::new(self.settings, earlier, |counts| batch.guess_encodings(counts)),
            false => EncodingEvidence::default(),
        };
        self.suggest(check, batch, &Arc::new(evidence), OtherNames::InBatch)
    }

    /// Suggests names for some names of a directory whose encodings are known.
    pub(super) fn propose_part<'d>(
        &self,
        batch: &'d DirectoryBatch,
        evidence: &Arc<EncodingEvidence>,
        others: OtherNames<'_>,
    ) -> DirectoryProposals<'d>
    where
        'p: 'd,
    {
        let directory = batch.directory(&self.settings.prefix);
        let check = self.policy.check_directory(&directory);
        let mut check = check.unwrap_or_else(|| DirectoryCheck::without_violations(&directory));
        if matches!(others, OtherNames::Ignored) {
            check.collisions.clear();
        }
        self.suggest(check, batch, evidence, others)
    }

    /// Reports whether a name is converted.
    pub(super) fn converts(&self, batch: &DirectoryBatch) -> bool {
        let mut texts = batch.names.iter().filter_map(|(_, name)| std::str::from_utf8(name).ok());
        texts.any(|name| self.settings.conversion.converts(name))
    }

    fn suggest<'d>(
        &self,
        mut check: DirectoryCheck<'d>,
        batch: &'d DirectoryBatch,
        evidence: &Arc<EncodingEvidence>,
        others: OtherNames<'_>,
    ) -> DirectoryProposals<'d>
    where
        'p: 'd,
    {
        let &Self { policy, settings, jobs, .. } = self;
        // Of names that come in parts, none is evidence for another.
        let is_whole = matches!(others, OtherNames::InBatch);
        let misreading = is_whole.then(|| check.shared_misreading()).flatten();
        let broken = RulesByName::take(&mut check);
        let mut meanings = NameMeanings::none(settings);
        let (mut repairs, mut merging, mut paths) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut is_uncertain = false;
        if check.is_listed() {
            let names = &check.names[..check.checked];
            let undo = |at: usize, name: &str| {
                broken.of(at).filter(|broken| broken.rules.contains(&RuleId::Mojibake))?;
                let together = misreading.as_ref().and_then(|misreading| misreading.undo(name));
                together.or_else(|| misread::undo(name))
            };
            let (read, texts) = NameMeanings::read(names, settings, evidence, &undo, jobs);
            is_uncertain = !batch.in_repository && read.have_guesses(&texts);
            meanings = read;
            paths = self.separate(names, &texts);
            let are_compared = !matches!(others, OtherNames::Ignored);
            repairs = match others {
                OtherNames::InBatch => check.suggested_names_for_meanings(policy, texts),
                OtherNames::Given(in_use, used) => {
                    check.suggested_names_for_meanings_among(policy, texts, in_use, used)
                }
                OtherNames::Ignored => check.suggested_names_for_meanings_alone(policy, texts),
            };
            repairs.retain(|at, _| !paths.contains_key(at));
            if are_compared {
                let mut after: Vec<&[u8]> = check.names.clone();
                for (&at, repair) in &repairs {
                    after[at] = repair.name.as_bytes();
                }
                let merged = find_merged(policy, &after).into_iter().filter(|(at, _)| *at < check.checked);
                merging = merged.map(|(at, other)| (at, after[other].to_vec())).collect();
            }
        }
        let suggestions = Suggestions { policy, check, meanings, repairs, paths, broken, merging, batch };
        let left_out = self.advice.map_or(0, |advice| suggestions.count_left_out(advice));
        DirectoryProposals { suggestions: Some(suggestions), is_uncertain, left_out }
    }
}

impl NameProposer<'_> {
    /// The paths that names stand for, by the indexes of the names.
    fn separate(
        &self,
        names: &[&[u8]],
        texts: &DecodedNames,
    ) -> BTreeMap<usize, Result<SeparatedPath, String>> {
        let paths = names.iter().zip(texts).enumerate().filter_map(|(at, (name, text))| {
            let (text, confidence) = match text {
                Some((text, confidence)) => (&**text, *confidence),
                None => (std::str::from_utf8(name).ok()?, Confidence::Certain),
            };
            let wanted = self.settings.conversion.separates(text).then(|| separate(self.policy, text))?;
            Some((
                at,
                wanted.map(|path| SeparatedPath { confidence: path.confidence.max(confidence), ..path }),
            ))
        });
        paths.collect()
    }
}

impl DirectoryProposals<'_> {
    /// How many names are in which encodings, if they were guessed.
    pub(super) fn encodings(&self) -> Option<&EncodingCounts> {
        self.suggestions.as_ref().and_then(|suggestions| suggestions.meanings.encodings())
    }

    /// The names whose paths are too long without any rename.
    pub(super) fn long(&self) -> impl Iterator<Item = &[u8]> {
        let check = self.suggestions.as_ref().map(|suggestions| &suggestions.check);
        check.into_iter().flat_map(|check| check.path_violations.keys().map(|&at| check.names[at]))
    }

    /// The number of names with a line.
    pub(super) fn count(&self) -> usize {
        let Some(suggestions) = &self.suggestions else { return 0 };
        (0..self.len()).filter(|&at| suggestions.is_planned(at)).count()
    }

    /// The number of names that were checked.
    pub(super) fn len(&self) -> usize {
        self.suggestions.as_ref().map_or(0, |suggestions| suggestions.check.checked)
    }

    /// The name at index `at`, and the name that is suggested for it.
    pub(super) fn name(&self, at: usize) -> Option<(&[u8], Option<&str>)> {
        let suggestions = self.suggestions.as_ref()?;
        let new = suggestions.repairs.get(&at).map(|repair| &*repair.name);
        Some((suggestions.check.names[at], new))
    }

    /// What the plan says of the name at index `at`; `None` if it says nothing, or if the entry is gone.
    pub(super) fn line(&self, at: usize, lines: &LineMaker<'_>) -> Option<LineRecord> {
        self.suggestions.as_ref()?.line(at, lines)
    }

    /// Gives all lines to `take`, made in at most `jobs` threads.
    pub(super) fn make_lines(
        &self,
        lines: &LineMaker<'_>,
        jobs: usize,
        take: &mut LineSink<'_>,
    ) -> io::Result<()> {
        let make =
            |part: Range<usize>| -> Vec<LineRecord> { part.filter_map(|at| self.line(at, lines)).collect() };
        ranges_in_order(self.len(), NAMES_TOGETHER, jobs, make, &mut |lines| take(&lines))
    }

    /// The lines of the names whose paths are too long without any rename.
    pub(super) fn long_lines(&self, lines: &LineMaker<'_>) -> Vec<LineRecord> {
        let long = self.long().map(|name| too_long(&lines.directory(), name.to_vec()));
        long.map(|line| LineRecord::new_skipped(tag::LONG, &line)).collect()
    }
}

impl Suggestions<'_> {
    /// The number of names that `advice` suggests another name for, and the policy none.
    fn count_left_out(&self, advice: &Policy) -> u64 {
        let Self { check, repairs, broken, .. } = self;
        if self.batch.in_repository || !check.is_listed() {
            return 0;
        }
        let merged = check.collisions.iter().filter(|collision| {
            let Violation { rule, severity, .. } = collision.violations[0];
            is_merge_rule(rule) && severity < Severity::Error
        });
        // One of them keeps its name.
        let merged: BTreeSet<usize> =
            merged.flat_map(|collision| collision.members.iter().copied().skip(1)).collect();
        let is_left_out = |&at: &usize| {
            let is_advised = broken.of(at).is_some_and(|broken| !broken.has_error);
            let is_renamed = || merged.contains(&at) || advice.advises_against(check.names[at]);
            is_advised && !repairs.contains_key(&at) && is_renamed()
        };
        broken.of.keys().filter(|at| is_left_out(at)).count() as u64
    }

    fn is_planned(&self, at: usize) -> bool {
        let broken = self.broken.of(at);
        if !self.check.is_listed() {
            return broken.is_some();
        }
        self.merging.contains_key(&at)
            || self.repairs.contains_key(&at)
            || self.paths.contains_key(&at)
            || broken.is_some_and(|broken| broken.has_error)
    }

    fn line(&self, at: usize, lines: &LineMaker<'_>) -> Option<LineRecord> {
        if !self.is_planned(at) {
            return None;
        }
        let (name, directory) = (self.check.names[at], lines.directory());
        let broken = self.broken.of(at).map_or(&[][..], |broken| &broken.rules);
        let mut reasons = broken.to_vec();
        let new = match self.new_name(at) {
            Ok(new) => {
                let kind = self.batch.names.kind_of(name);
                lines.look_up(name, kind, new.name())?.map(|entry| (new, entry))
            }
            Err(why) => Err(why),
        };
        let (new, entry) = match new {
            Ok(new) => new,
            Err(why) => {
                let skipped = Skipped { directory, name: name.to_vec(), reasons, why };
                return Some(LineRecord::new_skipped(tag::SKIPPED, &skipped));
            }
        };
        let (confidence, derivation) = match new {
            NewName::Path(path) => (path.confidence, self.meanings.explain_path(at)),
            NewName::Repair(repair) => {
                if repair.is_shortened && !reasons.contains(&RuleId::NameTooLong) {
                    reasons.push(RuleId::NameTooLong);
                }
                (repair.confidence, self.meanings.explain(self.policy, at, name, repair, broken))
            }
        };
        let Derivation { reading, evidence, alternatives } = derivation;
        let (old, new) = (name.to_vec(), new.name().to_owned());
        let rename = Rename {
            id: 0,
            directory,
            old,
            new,
            entry,
            reasons,
            confidence,
            reading,
            evidence,
            alternatives,
        };
        Some(LineRecord::new_rename(&rename))
    }

    /// The new name of a name that is planned.
    ///
    /// # Errors
    /// Why there is none.
    fn new_name(&self, at: usize) -> Result<NewName<'_>, String> {
        if self.batch.in_repository {
            return Err("it is inside a repository, which a new name would damage".to_owned());
        }
        if !self.check.is_listed() {
            return Err("its directory cannot be listed, so any new name could be taken".to_owned());
        }
        if let Some(other) = self.merging.get(&at) {
            let other = display(other);
            return Err(format!("the target cannot tell it and {other} apart, and no free name was found"));
        }
        if let Some(path) = self.paths.get(&at) {
            return path.as_ref().map(NewName::Path).map_err(Clone::clone);
        }
        self.repairs.get(&at).map(NewName::Repair).ok_or_else(|| {
            let why = self.meanings.objection(self.policy, self.check.names[at]);
            why.unwrap_or_else(|| "no valid name was found".to_owned())
        })
    }
}

/// A new name, which may be a path.
#[derive(Clone, Copy)]
enum NewName<'s> {
    Repair(&'s SuggestedName),
    Path(&'s SeparatedPath),
}

impl<'s> NewName<'s> {
    fn name(self) -> &'s str {
        match self {
            Self::Repair(repair) => &repair.name,
            Self::Path(path) => &path.path,
        }
    }
}
