//! What names mean: the texts of those that are not UTF-8, were encoded twice, or are converted, and how a plan explains them.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use namegate_core::name::misread::{self, Misread, Reread};
use namegate_core::name::normalize::to_form;
use namegate_core::name::reading::{
    Contents, Damage, EncodingCounts, EncodingGuess, has_stray_bytes, likeliest,
};
use namegate_core::policy::profile::Test;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{Confidence, EncodingHint, LegacyReader, Policy, SuggestedName, Verdict};
use namegate_scan::source::encodings::EarlierNames;

use super::distinct::Distinct;
use super::settings::PlanSettings;
use crate::in_order::ranges_in_order;
use crate::plan::Alternative;
use crate::plan::check::is_merge_rule;

/// So many names are read together.
const NAMES_TOGETHER: usize = 4096;

/// The texts of names that are not UTF-8 or that are converted, by the indexes of the names.
pub(super) type DecodedNames = Vec<Option<(String, Confidence)>>;

/// Where the texts of names come from that are not UTF-8 or that are converted.
pub(super) struct NameMeanings<'s> {
    settings: &'s PlanSettings,
    /// Each source once: many names have the same.
    sources: Vec<MeaningSource>,
    /// The indexes of the sources of names, by the indexes of the names; `None` for a name that means what it says.
    source_of: Vec<Option<u32>>,
    evidence: Arc<EncodingEvidence>,
}

/// What is known of the encodings of the names in a directory.
#[derive(Default)]
pub(super) struct EncodingEvidence {
    guess: Option<EncodingGuess>,
    /// In words.
    description: String,
}

impl EncodingEvidence {
    /// The evidence of `earlier` names, and of those of the directory: `guess` guesses their encodings.
    pub(super) fn new(
        settings: &PlanSettings,
        earlier: &EarlierNames,
        guess: impl FnOnce(&EncodingCounts) -> Option<EncodingGuess>,
    ) -> Self {
        let guess = match settings.encoding {
            Some(_) => None,
            None => guess(&earlier.encodings),
        };
        let description = match &guess {
            None => "requested with --encoding".to_owned(),
            Some(guess) => describe_guess(guess, earlier),
        };
        Self { guess, description }
    }

    fn hint(&self, settings: &PlanSettings) -> EncodingHint<'_> {
        let given = settings.encoding.map_or(EncodingHint::Unknown, EncodingHint::Given);
        self.guess.as_ref().map_or(given, EncodingHint::Guessed)
    }

    /// How many names are in which encodings, if they were guessed.
    pub(super) fn counts(&self) -> Option<&EncodingCounts> {
        self.guess.as_ref().map(EncodingGuess::counts)
    }
}

#[derive(PartialEq, Eq, Hash)]
struct MeaningSource {
    /// How the text was decoded.
    decoded: DecodedText,
    /// The conversions of the text; empty if there was none.
    conversion: String,
}

#[derive(PartialEq, Eq, Hash)]
enum DecodedText {
    /// The name is the text.
    Name,
    /// The name was read in a wrong encoding.
    Misread(Vec<Reread>),
    /// The name was read so, says the user.
    ReadAgain(Reread),
    /// With explanations that give other texts.
    Bytes(Damage, Vec<Damage>),
}

/// How a new name follows from the old one, as the plan says it.
#[derive(Default)]
pub(super) struct Derivation {
    pub(super) reading: String,
    pub(super) evidence: Option<String>,
    pub(super) alternatives: Vec<Alternative>,
}

impl<'s> NameMeanings<'s> {
    /// Every name means what it says.
    pub(super) fn none(settings: &'s PlanSettings) -> Self {
        Self { settings, sources: Vec::new(), source_of: Vec::new(), evidence: Arc::default() }
    }

    /// Reads `names`. `undo` gets the index of a name that is UTF-8 and the name, and finds what it was if it was read in a wrong encoding.
    pub(super) fn read(
        names: &[&[u8]],
        settings: &'s PlanSettings,
        evidence: &Arc<EncodingEvidence>,
        undo: &(dyn Fn(usize, &str) -> Option<Misread> + Sync),
        jobs: usize,
    ) -> (Self, DecodedNames) {
        let legacy = evidence.hint(settings);
        let meaning = |at: usize, legacy: &mut LegacyReader<'_>| {
            let name = names[at];
            let (text, confidence, decoded) = match std::str::from_utf8(name) {
                Err(_) => {
                    let meaning = legacy.read(name);
                    let decoded = DecodedText::Bytes(meaning.explanation, meaning.others);
                    (Cow::from(meaning.text), meaning.confidence, decoded)
                }
                Ok(text) => {
                    if let Some((reread, text)) = settings.conversion.read_again(text) {
                        (text.into(), Confidence::Likely, DecodedText::ReadAgain(reread))
                    } else if let Some(misread) = undo(at, text) {
                        let confidence = if misread.is_sure { Confidence::Likely } else { Confidence::Guess };
                        (misread.text.into(), confidence, DecodedText::Misread(misread.steps))
                    } else {
                        (text.into(), Confidence::Certain, DecodedText::Name)
                    }
                }
            };
            let (text, confidence, conversion) = match settings.conversion.apply(&text) {
                Some(converted) => (converted.text, confidence.max(converted.confidence), converted.reading),
                // The policy repairs it.
                None if matches!(decoded, DecodedText::Name) => return None,
                None => (text.into_owned(), confidence, String::new()),
            };
            Some((MeaningSource { decoded, conversion }, (text, confidence)))
        };
        let read = |part: Range<usize>| {
            let (mut sources, mut legacy) = (Distinct::default(), legacy.reader());
            let read = |at| meaning(at, &mut legacy).map(|(source, text)| (sources.number(source), text));
            let found: Vec<_> = part.map(read).collect();
            (found, sources)
        };
        let (mut texts, mut source_of) = (Vec::with_capacity(names.len()), Vec::with_capacity(names.len()));
        let mut sources = Distinct::default();
        let Ok(()) = ranges_in_order(names.len(), NAMES_TOGETHER, jobs, read, &mut |(found, of_part)| {
            let numbers: Vec<u32> = of_part.into_sorted().map(|source| sources.number(source)).collect();
            for meaning in found {
                let (source, text) = meaning.unzip();
                source_of.push(source.map(|source: u32| numbers[source as usize]));
                texts.push(text);
            }
            Ok::<(), Infallible>(())
        });
        let sources = sources.into_sorted().collect();
        (Self { settings, sources, source_of, evidence: Arc::clone(evidence) }, texts)
    }

    fn source(&self, at: usize) -> Option<&MeaningSource> {
        self.source_of[at].map(|source| &self.sources[source as usize])
    }

    /// How many names are in which encodings, if they were guessed.
    pub(super) fn encodings(&self) -> Option<&EncodingCounts> {
        self.evidence.counts()
    }

    /// Whether a name was decoded by a guess that is not likely and that more evidence could change.
    pub(super) fn have_guesses(&self, texts: &DecodedNames) -> bool {
        if !self.evidence.guess.as_ref().is_some_and(EncodingGuess::needs_evidence) {
            return false;
        }
        let is_decoded = |at: usize| {
            let decoded = self.source(at).map(|source| &source.decoded);
            matches!(decoded, Some(DecodedText::Bytes(..)))
        };
        let is_guess = |at: usize| matches!(texts[at], Some((_, Confidence::Guess)));
        (0..self.source_of.len()).any(|at| is_guess(at) && is_decoded(at))
    }

    /// How the new name of the name at index `at` follows from it. `broken` are the rules that the name breaks.
    pub(super) fn explain(
        &self,
        policy: &Policy,
        at: usize,
        name: &[u8],
        repair: &SuggestedName,
        broken: &[RuleId],
    ) -> Derivation {
        let mut derivation = match self.source(at) {
            Some(source) => self.explain_source(source),
            None => Derivation {
                reading: describe_change(policy, name, &repair.name, broken),
                ..Derivation::default()
            },
        };
        if let Some(MeaningSource { decoded: DecodedText::Bytes(_, others), .. }) = self.source(at) {
            derivation.alternatives = self.find_alternatives(policy, name, &repair.name, others);
        }
        if repair.is_shortened {
            derivation.reading += ", shorten";
        }
        derivation
    }

    /// How the path that the name at index `at` stands for follows from it.
    pub(super) fn explain_path(&self, at: usize) -> Derivation {
        let mut derivation = self.source(at).map(|source| self.explain_source(source)).unwrap_or_default();
        let separator = if derivation.reading.is_empty() { "" } else { ", " };
        derivation.reading += &format!("{separator}decode backslash");
        derivation
    }

    fn explain_source(&self, MeaningSource { decoded, conversion }: &MeaningSource) -> Derivation {
        let decoding = match decoded {
            DecodedText::Name => None,
            DecodedText::Misread(steps) => Some(misread::describe(steps)),
            DecodedText::ReadAgain(reread) => Some(reread.to_string()),
            DecodedText::Bytes(damage, _) => Some(damage.to_string()),
        };
        let conversion = Some(conversion.clone()).filter(|conversion| !conversion.is_empty());
        let reading = decoding.into_iter().chain(conversion).collect::<Vec<_>>().join(", ");
        let is_guessed = matches!(decoded, DecodedText::Bytes(damage, _)
            if !matches!(damage.contents, Contents::SurrogatePairs | Contents::Unexplained | Contents::Utf8));
        let evidence = is_guessed.then(|| self.evidence.description.clone());
        Derivation { reading, evidence, alternatives: Vec::new() }
    }

    /// Why there is no new name for `name`, if it is too long.
    pub(super) fn objection(&self, policy: &Policy, name: &[u8]) -> Option<String> {
        if policy.repairs().shortens {
            return None;
        }
        let text = match std::str::from_utf8(name) {
            Ok(text) => Cow::from(text),
            Err(_) => self.evidence.hint(self.settings).read(name).text.into(),
        };
        if let Some(bytes) = Policy::excess_of_text(name, &text) {
            return Some(format!(
                "decoded it has {bytes} bytes, more than file systems store; --shorten shortens it"
            ));
        }
        let mut violations = policy.check(text.as_bytes()).violations.into_iter();
        violations
            .any(|v| v.rule == RuleId::NameTooLong && v.severity == Severity::Error)
            .then(|| "it is too long for the target; --shorten shortens it".to_owned())
    }

    /// Other valid names that the bytes of `name` could stand for: `others` are explanations that a guess considered.
    fn find_alternatives(
        &self,
        policy: &Policy,
        name: &[u8],
        new: &str,
        others: &[Damage],
    ) -> Vec<Alternative> {
        /// More would not help the user to choose.
        const MAX: usize = 3;
        let by_itself = match others {
            [] if has_stray_bytes(name) => likeliest(name),
            _ => Vec::new(),
        };
        let others = others.iter().filter_map(|explanation| Some((*explanation, explanation.read(name)?)));
        let mut alternatives: Vec<Alternative> = Vec::new();
        for (explanation, text) in others.chain(by_itself) {
            let converted = self.settings.conversion.apply(&text);
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
                alternatives.push(Alternative { new: other, reading: explanation.to_string() });
            }
        }
        alternatives
    }
}

/// What the encodings of a directory were guessed from.
fn describe_guess(guess: &EncodingGuess, earlier: &EarlierNames) -> String {
    let names = match guess.names() {
        1 => "this name alone".to_owned(),
        count if guess.is_one_series() => {
            format!("the {count} names here that are not UTF-8, which say as much as one")
        }
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
