//! Suggests names for the entries of one directory. Pure: the entries are looked up later.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::thread;

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
use crate::policy::{Confidence, DecodingMethod, EncodingHint, Policy, SuggestedName, Verdict, Violation};
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
    /// The rules about merged names that each name breaks.
    merge_rules: BTreeMap<usize, Vec<RuleId>>,
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
#[derive(Debug, Default)]
struct BrokenRules {
    rules: Vec<RuleId>,
    has_error: bool,
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

/// Another thread is started for at least so many names.
const NAMES_OF_A_THREAD: usize = 4096;

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
    let Some(check) = check.or_else(converted) else { return DirectoryProposals::default() };
    let names = &check.names[..check.checked];
    let mut merge_rules = BTreeMap::<usize, Vec<RuleId>>::new();
    for collision in &check.collisions {
        for (&at, violation) in collision.members.iter().zip(&collision.violations) {
            if at < names.len() && is_merge_rule(violation.rule) {
                merge_rules.entry(at).or_default().push(violation.rule);
            }
        }
    }
    let mut meanings = NameMeanings::none(settings);
    let (mut repairs, mut merging) = (BTreeMap::new(), BTreeMap::new());
    let (mut encodings, mut is_uncertain) = (None, false);
    if check.is_listed() {
        let all: Vec<&[u8]> = check.all_names().collect();
        let is_mojibake = |at: usize| {
            check.violations.get(&at).is_some_and(|found| found.iter().any(|v| v.rule == RuleId::Mojibake))
        };
        let (read, texts) = NameMeanings::read(&all, names.len(), settings, earlier, &is_mojibake, jobs);
        is_uncertain = read.guess.is_some() && read.have_guesses(&texts);
        repairs = check.suggested_names_for_meanings(policy, &texts);
        meanings = read;
        encodings = meanings.guess.as_ref().map(|guess| guess.counts().clone());
        let mut after: Vec<&[u8]> = check.names.clone();
        for (&at, repair) in &repairs {
            after[at] = repair.name.as_bytes();
        }
        merging = find_merging(policy, &after, names.len());
    }
    let suggestions = Suggestions { policy, check, meanings, repairs, merge_rules, merging };
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

    /// What the plan says of each name, in the order of the names in the batch.
    pub(super) fn names(&self) -> impl Iterator<Item = NameProposal> {
        let suggestions = self.suggestions.iter();
        suggestions.flat_map(|suggestions| suggestions.indexes().filter_map(|at| suggestions.proposal(at)))
    }
}

impl Suggestions<'_> {
    /// The indexes of names that may be planned, in order.
    fn indexes(&self) -> impl Iterator<Item = usize> {
        0..self.check.checked
    }

    fn broken_rules(&self, at: usize) -> BrokenRules {
        let violations = self.check.violations.get(&at).map_or(&[][..], Vec::as_slice);
        BrokenRules::new(violations, self.merge_rules.get(&at).map_or(&[], Vec::as_slice))
    }

    fn is_planned(&self, at: usize) -> bool {
        if !self.check.is_listed() {
            return self.check.violations.contains_key(&at) || self.merge_rules.contains_key(&at);
        }
        self.merging.contains_key(&at) || self.repairs.contains_key(&at) || self.broken_rules(at).has_error
    }

    fn proposal(&self, at: usize) -> Option<NameProposal> {
        if !self.is_planned(at) {
            return None;
        }
        let (name, reasons) = (self.check.names[at], self.broken_rules(at).rules);
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

/// The texts of names that are not UTF-8 or that are converted, by the indexes of the names.
type MeantTexts = Vec<Option<(String, Confidence)>>;

/// Where the texts of names come from that are not UTF-8 or that are converted.
struct NameMeanings<'s> {
    conversion: &'s NameConversion,
    /// By the indexes of the names; `None` for a name that means what it says.
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
    /// With encodings that give other texts.
    Bytes(DecodingMethod, Vec<Encoding>),
}

impl<'s> NameMeanings<'s> {
    /// Every name means what it says.
    fn none(settings: &'s PlanSettings) -> Self {
        Self { conversion: &settings.conversion, sources: Vec::new(), guess: None, evidence: String::new() }
    }

    /// Reads the first `count` of `names`; the others are only evidence for the encoding.
    fn read(
        names: &[&[u8]],
        count: usize,
        settings: &'s PlanSettings,
        earlier: &EarlierNames,
        is_mojibake: &(dyn Fn(usize) -> bool + Sync),
        jobs: usize,
    ) -> (Self, MeantTexts) {
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
        let meaning = |at: usize| {
            let name = names[at];
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
                None if !matches!(decoded, DecodedText::Bytes(..)) => return None,
                None => (text.into_owned(), confidence, String::new()),
            };
            Some((MeaningSource { decoded, conversion }, (text, confidence)))
        };
        let fill = |first: usize,
                    sources: &mut [Option<MeaningSource>],
                    texts: &mut [Option<(String, Confidence)>]| {
            for (at, (source, text)) in (first..).zip(sources.iter_mut().zip(texts)) {
                (*source, *text) = meaning(at).unzip();
            }
        };
        let part = count.div_ceil(jobs.max(1)).max(NAMES_OF_A_THREAD);
        let sources_of = sources[..count].chunks_mut(part);
        thread::scope(|scope| {
            let mut parts = (0..).step_by(part).zip(sources_of.zip(texts[..count].chunks_mut(part)));
            let own = parts.next();
            for (first, (sources, texts)) in parts {
                scope.spawn(move || fill(first, sources, texts));
            }
            own.into_iter().for_each(|(first, (sources, texts))| fill(first, sources, texts));
        });
        (Self { conversion: &settings.conversion, sources, guess, evidence }, texts)
    }

    /// Whether a name was decoded by a guess that is not likely.
    fn have_guesses(&self, texts: &MeantTexts) -> bool {
        let is_decoded = |source: &Option<MeaningSource>| {
            let decoded = source.as_ref().map(|source| &source.decoded);
            matches!(decoded, Some(DecodedText::Bytes(DecodingMethod::Encoding(_), _)))
        };
        let is_guess = |text: &Option<(String, Confidence)>| matches!(text, Some((_, Confidence::Guess)));
        self.sources.iter().zip(texts).any(|(source, text)| is_decoded(source) && is_guess(text))
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

    /// Other valid names that the bytes of `name` could stand for: `others` are encodings that a guess considered.
    fn find_alternatives(
        &self,
        policy: &Policy,
        name: &[u8],
        new: &str,
        others: &[Encoding],
    ) -> Vec<Alternative> {
        /// More would not help the user to choose.
        const MAX: usize = 3;
        let by_itself = match others {
            [] if has_stray_bytes(name) => likeliest(name),
            _ => Vec::new(),
        };
        let others = others.iter().filter_map(|encoding| Some((*encoding, encoding.read_name(name)?)));
        let mut alternatives: Vec<Alternative> = Vec::new();
        for (encoding, text) in others.chain(by_itself) {
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
