//! Suggests names for the entries of one directory. Pure: the entries are looked up later.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::PlanSettings;
use super::conversion::NameConversion;
use crate::check::DirectoryCheck;
use crate::fix::plan::Alternative;
use crate::name::display::display;
use crate::name::mojibake;
use crate::name::normalize::to_form;
use crate::name::reading::{Encoding, EncodingCounts, EncodingGuess, has_stray_bytes, likeliest};
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
    /// How many names are in which encodings, if they were guessed.
    pub(super) encodings: Option<EncodingCounts>,
    /// Whether more evidence could make a guessed encoding likely, or change it.
    pub(super) is_uncertain: bool,
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

/// The evidence for the encodings of a directory, besides its own names.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlierNames {
    pub(super) encodings: EncodingCounts,
    /// Where they are, as the end of a sentence; empty if there are none.
    pub(super) place: &'static str,
}

/// Suggests names for a batch.
pub(super) fn propose_names(
    batch: &DirectoryBatch,
    policy: &Policy,
    settings: &PlanSettings,
    earlier: &EarlierNames,
) -> DirectoryProposals {
    let directory = batch.directory(&settings.prefix);
    let check = policy.check_directory(&directory);
    let converted = || is_converted(batch, settings).then(|| DirectoryCheck::without_violations(&directory));
    let Some(check) = check.or_else(converted) else { return DirectoryProposals::default() };
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
    let is_mojibake =
        |at: usize| found.get(&at).is_some_and(|broken| broken.rules.contains(&RuleId::Mojibake));
    let meanings = NameMeanings::read(&all, names.len(), settings, earlier, &is_mojibake);
    let repairs = check.suggested_names_for_meanings(policy, &meanings.texts);
    let encodings = meanings.guess.as_ref().map(|guess| guess.counts().clone());
    let is_uncertain = encodings.is_some() && meanings.have_guesses();
    let mut findings = DirectoryProposals { long, encodings, is_uncertain, ..DirectoryProposals::default() };
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

fn is_converted(batch: &DirectoryBatch, settings: &PlanSettings) -> bool {
    let mut texts = batch.names.iter().filter_map(|(_, name)| std::str::from_utf8(name).ok());
    texts.any(|name| settings.conversion.apply(name).is_some())
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

/// The meanings of names that are not UTF-8 or that are converted.
struct NameMeanings<'s> {
    conversion: &'s NameConversion,
    texts: Vec<Option<(String, Confidence)>>,
    /// The source of the meaning with the same index; `None` for a name that means what it says.
    sources: Vec<Option<MeaningSource>>,
    guess: Option<EncodingGuess>,
    /// The evidence for an encoding, in words.
    evidence: String,
}

#[derive(Clone)]
struct MeaningSource {
    /// How the text was decoded.
    decoded: DecodedText,
    /// The conversions of the text; empty if there was none.
    conversion: String,
}

#[derive(Clone)]
enum DecodedText {
    /// The name is the text.
    Name,
    /// The name was encoded twice.
    Mojibake,
    Bytes(DecodingMethod, Vec<(Encoding, String)>),
}

impl<'s> NameMeanings<'s> {
    /// Reads the first `count` of `names`; the others are only evidence for the encoding.
    fn read(
        names: &[&[u8]],
        count: usize,
        settings: &'s PlanSettings,
        earlier: &EarlierNames,
        is_mojibake: &dyn Fn(usize) -> bool,
    ) -> Self {
        let guess = match settings.encoding {
            Some(_) => None,
            None => EncodingGuess::for_names(names.iter().copied(), &earlier.encodings),
        };
        let evidence = match &guess {
            None => "requested with --encoding".to_owned(),
            Some(guess) => describe_evidence(guess, earlier),
        };
        let given = settings.encoding.map_or(EncodingHint::Unknown, EncodingHint::Given);
        let legacy = guess.as_ref().map_or(given, EncodingHint::Guessed);
        let (mut texts, mut sources) = (vec![None; names.len()], vec![None; names.len()]);
        for (at, name) in names.iter().enumerate().take(count) {
            let (text, confidence, decoded) = match std::str::from_utf8(name) {
                Err(_) => {
                    let meaning = legacy.read(name);
                    let decoded = DecodedText::Bytes(meaning.how, meaning.others);
                    (Cow::from(meaning.text), meaning.confidence, decoded)
                }
                Ok(text) => match is_mojibake(at).then(|| mojibake::undo(text)).flatten() {
                    Some(meant) => (meant.into(), Confidence::Likely, DecodedText::Mojibake),
                    None => (text.into(), Confidence::Certain, DecodedText::Name),
                },
            };
            let (text, confidence, conversion) = match settings.conversion.apply(&text) {
                Some(converted) => (converted.text, confidence.max(converted.confidence), converted.reading),
                // The policy repairs it.
                None if !matches!(decoded, DecodedText::Bytes(..)) => continue,
                None => (text.into_owned(), confidence, String::new()),
            };
            sources[at] = Some(MeaningSource { decoded, conversion });
            texts[at] = Some((text, confidence));
        }
        Self { conversion: &settings.conversion, texts, sources, guess, evidence }
    }

    /// Whether a name was decoded by a guess that is not likely.
    fn have_guesses(&self) -> bool {
        let is_decoded = |source: &Option<MeaningSource>| {
            let decoded = source.as_ref().map(|source| &source.decoded);
            matches!(decoded, Some(DecodedText::Bytes(DecodingMethod::Encoding(_), _)))
        };
        let is_guess = |text: &Option<(String, Confidence)>| matches!(text, Some((_, Confidence::Guess)));
        self.sources.iter().zip(&self.texts).any(|(source, text)| is_decoded(source) && is_guess(text))
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
        let (mut evidence, mut alternatives) = (None, Vec::new());
        let decoded = self.sources[at].as_ref().map(|source| &source.decoded);
        let mut reading = match decoded {
            Some(DecodedText::Bytes(how, others)) => {
                alternatives = self.find_alternatives(policy, name, &new, others);
                match how {
                    DecodingMethod::Structure => "structure".to_owned(),
                    DecodingMethod::Escape => "escape".to_owned(),
                    DecodingMethod::Encoding(encoding) => {
                        evidence = Some(self.evidence.clone());
                        encoding.name().to_owned()
                    }
                }
            }
            Some(DecodedText::Name) => String::new(),
            Some(DecodedText::Mojibake) | None if reasons.contains(&RuleId::Mojibake) => {
                evidence = Some("UTF-8 that was read as windows-1252 and encoded again".to_owned());
                "mojibake".to_owned()
            }
            _ => describe_change(policy, name, &new, &reasons),
        };
        if let Some(source) = self.sources[at].as_ref().filter(|source| !source.conversion.is_empty()) {
            let separator = if reading.is_empty() { "" } else { ", " };
            reading = format!("{reading}{separator}{}", source.conversion);
        }
        Proposal { old: name.to_vec(), new, reasons, confidence, reading, evidence, alternatives }
    }

    /// Other valid names that the bytes of `name` could stand for: `others` are texts that a guess considered.
    fn find_alternatives(
        &self,
        policy: &Policy,
        name: &[u8],
        new: &str,
        others: &[(Encoding, String)],
    ) -> Vec<Alternative> {
        /// More would not help the user to choose.
        const MAX: usize = 3;
        let by_itself =
            || if others.is_empty() && has_stray_bytes(name) { likeliest(name) } else { Vec::new() };
        let mut alternatives: Vec<Alternative> = Vec::new();
        for (encoding, text) in others.iter().cloned().chain(by_itself()) {
            let converted = self.conversion.apply(&text);
            let text = converted.map_or(text, |converted| converted.text);
            let valid = match policy.verdict(text.as_bytes()) {
                Verdict::Accept(_) => Some(text),
                _ => {
                    let suggested =
                        policy.suggest_name(text.as_bytes(), EncodingHint::Unknown, &mut |_| false);
                    suggested.map(|repair| repair.name)
                }
            };
            let Some(other) = valid else { continue };
            if other != new && alternatives.len() < MAX && alternatives.iter().all(|a| a.new != other) {
                alternatives.push(Alternative { new: other, reading: encoding.name().to_owned() });
            }
        }
        alternatives
    }
}

/// What the encodings of a directory were guessed from.
fn describe_evidence(guess: &EncodingGuess, earlier: &EarlierNames) -> String {
    let names = match guess.names() {
        1 => "this name alone".to_owned(),
        count => format!("the {count} names here that are not UTF-8"),
    };
    match earlier.place {
        "" => format!("guessed from {names}"),
        place => format!("guessed from {names} and those {place}"),
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
