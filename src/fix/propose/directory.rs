//! Suggests names for the entries of one directory. Pure: the entries are looked up later.

use std::collections::BTreeMap;

use super::PlanSettings;
use super::guess::{EncodingChoice, PriorChoice, PriorSource, choose_encoding};
use super::map::CharMap;
use crate::check::DirectoryCheck;
use crate::fix::plan::Alternative;
use crate::name::display::display;
use crate::name::normalize::to_form;
use crate::name::reading::{Encoding, likeliest};
use crate::policy::profile::Test;
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{Confidence, DecodingMethod, EncodingHint, Policy, SuggestedName, Verdict};
use crate::source::DirectoryBatch;

/// The suggestions for one directory.
#[derive(Debug, Default)]
pub(super) struct DirectoryProposals {
    /// The new names, in the order of the names in the batch.
    pub(super) proposals: Vec<Proposal>,
    /// The names without a suggestion.
    pub(super) unplanned: Vec<Unplanned>,
    /// The names whose paths are too long without any rename.
    pub(super) long: Vec<Vec<u8>>,
    /// The encoding of the names that are not UTF-8, if there are any.
    pub(super) choice: Option<PriorChoice>,
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
#[derive(Debug, Default)]
struct BrokenRules {
    rules: Vec<RuleId>,
    has_error: bool,
}

impl BrokenRules {
    fn add(&mut self, rule: RuleId, severity: Severity) {
        if !self.rules.contains(&rule) {
            self.rules.push(rule);
        }
        self.has_error |= severity == Severity::Error;
    }
}

/// Reports whether the rule is about names that the target merges, and not only about similar names.
fn is_merge_rule(rule: RuleId) -> bool {
    matches!(rule, RuleId::CollisionNormalization | RuleId::CollisionCase)
}

/// Suggests names for a batch; `prior` is the encoding of a directory above.
pub(super) fn propose_names(
    batch: &DirectoryBatch,
    policy: &Policy,
    settings: &PlanSettings,
    prior: Option<PriorChoice>,
) -> DirectoryProposals {
    let directory = batch.directory(&settings.prefix);
    let check = policy.check_directory(&directory);
    let mapped = || is_mapped(batch, settings).then(|| DirectoryCheck::without_violations(&directory));
    let Some(check) = check.or_else(mapped) else { return DirectoryProposals::default() };
    let names = &check.names[..check.checked];
    let long = check.path_violations.keys().map(|&at| names[at].to_vec()).collect();
    let mut found = BTreeMap::<usize, BrokenRules>::new();
    for (&at, violations) in &check.violations {
        let reasons = found.entry(at).or_default();
        violations.iter().for_each(|v| reasons.add(v.rule, v.severity));
    }
    for collision in &check.collisions {
        for (&at, violation) in collision.members.iter().zip(&collision.violations) {
            if at < names.len() && is_merge_rule(violation.rule) {
                found.entry(at).or_default().add(violation.rule, Severity::Warn);
            }
        }
    }
    if !check.is_listed() {
        return DirectoryProposals { long, ..skip_unlisted(names, found) };
    }
    let all: Vec<&[u8]> = check.all_names().collect();
    let meanings = NameMeanings::read(&all, names.len(), settings, prior);
    let repairs = check.suggested_names_for_meanings(policy, &meanings.texts);
    let choice = meanings.prior();
    let mut findings = DirectoryProposals { long, choice, ..DirectoryProposals::default() };
    let mut after: Vec<&[u8]> = check.names.clone();
    for (&at, repair) in &repairs {
        after[at] = repair.name.as_bytes();
    }
    let merging = find_merging(policy, &after, names.len());
    for (at, name) in names.iter().enumerate() {
        let reasons = found.remove(&at).unwrap_or_default();
        if let Some(other) = merging.get(&at) {
            let why =
                format!("the target cannot tell it and {} apart, and no free name was found", display(other));
            findings.unplanned.push(Unplanned { name: name.to_vec(), reasons: reasons.rules, why });
        } else if let Some(repair) = repairs.get(&at) {
            findings.proposals.push(meanings.proposal(policy, at, name, repair.clone(), reasons.rules));
        } else if reasons.has_error {
            let why = "no valid name was found".to_owned();
            findings.unplanned.push(Unplanned { name: name.to_vec(), reasons: reasons.rules, why });
        }
    }
    findings
}

fn is_mapped(batch: &DirectoryBatch, settings: &PlanSettings) -> bool {
    let Some(map) = settings.map else { return false };
    let mut texts = batch.names.iter().filter_map(|(_, name)| std::str::from_utf8(name).ok());
    texts.any(|name| map.apply(name).is_some())
}

/// Skips the names of a directory whose other names are unknown: a suggested name could be taken.
fn skip_unlisted(names: &[&[u8]], found: BTreeMap<usize, BrokenRules>) -> DirectoryProposals {
    let why = "its directory cannot be listed, so any new name could be taken";
    let unplanned = found.into_iter().map(|(at, reasons)| Unplanned {
        name: names[at].to_vec(),
        reasons: reasons.rules,
        why: why.to_owned(),
    });
    DirectoryProposals { unplanned: unplanned.collect(), ..DirectoryProposals::default() }
}

/// Those of the first `count` names that the target would merge with another name, each with one of these.
fn find_merging<'n>(policy: &Policy, names: &[&'n [u8]], count: usize) -> BTreeMap<usize, &'n [u8]> {
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
                merging.insert(at, names[other]);
            }
        }
    }
    merging
}

/// The meanings of names that are not UTF-8 or have characters of a mapping.
struct NameMeanings {
    texts: Vec<Option<(String, Confidence)>>,
    /// The source of the meaning with the same index; `None` for a name that means what it says.
    sources: Vec<Option<MeaningSource>>,
    choice: Option<EncodingChoice>,
}

#[derive(Clone, Copy)]
enum MeaningSource {
    Bytes(DecodingMethod),
    Mapped(CharMap),
}

impl NameMeanings {
    /// Reads the first `count` of `names`; the others are only evidence for the encoding.
    fn read(names: &[&[u8]], count: usize, settings: &PlanSettings, prior: Option<PriorChoice>) -> Self {
        let has_legacy = names.iter().any(|name| std::str::from_utf8(name).is_err());
        let choice = match settings.encoding {
            None if has_legacy => choose_encoding(names, prior),
            Some(encoding) if has_legacy => Some(EncodingChoice {
                encoding,
                confidence: Confidence::Likely,
                names: names.len(),
                evidence: "requested with --encoding".to_owned(),
                others: Vec::new(),
            }),
            _ => None,
        };
        let legacy = match (&choice, settings.encoding) {
            (_, Some(encoding)) => EncodingHint::Given(encoding),
            (Some(choice), None) => EncodingHint::Guessed(choice.encoding, choice.confidence),
            (None, None) => EncodingHint::Unknown,
        };
        let mut meanings = Self { texts: vec![None; names.len()], sources: vec![None; names.len()], choice };
        for (at, name) in names.iter().enumerate().take(count) {
            match std::str::from_utf8(name) {
                Err(_) => {
                    let meaning = legacy.read(name);
                    meanings.sources[at] = Some(MeaningSource::Bytes(meaning.how));
                    meanings.texts[at] = Some((meaning.text, meaning.confidence));
                }
                Ok(text) => {
                    let mapped = settings.map.and_then(|map| Some((map, map.apply(text)?)));
                    if let Some((map, text)) = mapped {
                        meanings.sources[at] = Some(MeaningSource::Mapped(map));
                        meanings.texts[at] = Some((text, map.confidence()));
                    }
                }
            }
        }
        meanings
    }

    fn prior(&self) -> Option<PriorChoice> {
        let choice = self.choice.as_ref()?;
        let EncodingChoice { encoding, confidence, names, .. } = *choice;
        Some(PriorChoice { encoding, confidence, names, source: PriorSource::Above })
    }

    fn proposal(
        &self,
        policy: &Policy,
        at: usize,
        name: &[u8],
        repair: SuggestedName,
        reasons: Vec<RuleId>,
    ) -> Proposal {
        let SuggestedName { name: new, confidence } = repair;
        let chosen = self.choice.as_ref();
        let (mut evidence, mut alternatives) = (None, Vec::new());
        let reading = match self.sources[at] {
            Some(MeaningSource::Mapped(map)) => format!("map {map}"),
            Some(MeaningSource::Bytes(how)) => {
                alternatives = self.alternatives(policy, name, &new, how);
                match how {
                    DecodingMethod::Structure => "structure".to_owned(),
                    DecodingMethod::Escape => "escape".to_owned(),
                    DecodingMethod::Encoding(encoding) => {
                        let of_choice = chosen.filter(|choice| choice.encoding == encoding);
                        evidence = Some(of_choice.map_or_else(
                            || "guessed from this name alone".to_owned(),
                            |choice| choice.evidence.clone(),
                        ));
                        encoding.name().to_owned()
                    }
                }
            }
            None if reasons.contains(&RuleId::Mojibake) => {
                evidence = Some("UTF-8 that was read as windows-1252 and encoded again".to_owned());
                "mojibake".to_owned()
            }
            None => describe_change(policy, name, &new, &reasons),
        };
        Proposal { old: name.to_vec(), new, reasons, confidence, reading, evidence, alternatives }
    }

    /// Other valid names that the bytes of `name` could stand for.
    fn alternatives(&self, policy: &Policy, name: &[u8], new: &str, how: DecodingMethod) -> Vec<Alternative> {
        /// More would not help the user to choose.
        const MAX: usize = 3;
        let readings: Vec<(String, String)> = match (how, &self.choice) {
            (DecodingMethod::Encoding(_), Some(choice)) => {
                let read =
                    |encoding: &Encoding| Some((encoding.read_name(name)?, encoding.name().to_owned()));
                choice.others.iter().filter_map(read).collect()
            }
            _ => likeliest(name).into_iter().map(|r| (r.text, r.encoding.name().to_owned())).collect(),
        };
        let mut alternatives: Vec<Alternative> = Vec::new();
        for (text, reading) in readings {
            let valid = match policy.verdict(text.as_bytes()) {
                Verdict::Accept(_) => Some(text),
                _ => policy.suggest_name(text.as_bytes(), None, &mut |_| false).map(|repair| repair.name),
            };
            let Some(other) = valid else { continue };
            if other != new && alternatives.len() < MAX && alternatives.iter().all(|a| a.new != other) {
                alternatives.push(Alternative { new: other, reading });
            }
        }
        alternatives
    }
}

/// How the new name follows from a name that is UTF-8 and means what it says.
fn describe_change(policy: &Policy, name: &[u8], new: &str, reasons: &[RuleId]) -> String {
    let converted = policy.normalization().map(|normalization| normalization.form);
    let asked = policy.rules().iter().filter_map(|line| match line.test {
        Test::Form(form) => Some(form),
        _ => None,
    });
    let text = std::str::from_utf8(name).unwrap_or_default();
    if let Some(form) = converted.into_iter().chain(asked).find(|&form| to_form(text, form) == new) {
        return format!("normalize {form}");
    }
    match reasons.iter().all(|&rule| is_merge_rule(rule)) {
        true => "number".to_owned(),
        false => "repair".to_owned(),
    }
}
