//! Suggests names to use instead of names that the policy rejects or that are damaged.
//!
//! A suggested name differs only where the name breaks a rule. The policy accepts it and suggests no other name for it. What is
//! repaired is decided here alone ([`RepairScope`]): errors and damage, and warnings only if they are requested.
//! Nothing is renamed. The caller knows which names are in use: a function for one name ([`Policy::suggest_name`]), the list
//! of names for a directory ([`Policy::suggest_names`]).
//!
//! The module `edit` has the change for each rule. The changes follow what people do by hand: characters that mean nothing to
//! a reader are removed, characters that a target reserves become `_`.

mod directory;
mod edit;
mod parts;
mod shorten;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::profile::{Limit, Test, Unit};
use super::{Policy, UnknownWord, Verdict, Violation};
use crate::name::escape::escape;
use crate::name::misread::{self, Misread, SharedMisreading};
use crate::name::normalize::{Form, is_in_form, to_form};
use crate::name::reading::{
    self, Contents, Damage, Encoding, EncodingCounts, EncodingGuess, GuessReader, NameReading, structural,
};
use crate::policy::rule::{RuleId, Severity};
pub use directory::{FingerprintIndex, NamesInUse};
pub(crate) use directory::{ImperfectName, Occupants};
pub use parts::PartsSuggester;

/// A suggested name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedName {
    /// The suggested name, which is valid under the policy.
    pub name: String,
    /// How likely it is the intended name.
    pub confidence: Confidence,
    /// What the bytes of the name were taken for, if they are not UTF-8 and were decoded here.
    pub decoded: Option<DecodedAs>,
    /// Whether a part of the name is left out because it is too long.
    pub is_shortened: bool,
}

/// Which violations suggested names repair. Names that are not UTF-8 and other damage ([`RuleId::is_damage`]) always count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairScope {
    /// The lowest severity of the violations that are repaired.
    pub min_severity: Severity,
    /// Names that are too long get shorter ones. Otherwise there is no suggested name for them.
    pub shortens: bool,
}

impl Default for RepairScope {
    fn default() -> Self {
        Self { min_severity: Severity::Error, shortens: false }
    }
}

/// How likely it is that a suggested name is the intended one, from most to least likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Confidence {
    /// Nothing else can be intended: another spelling of the same text, or the exact inverse of a known conversion.
    Certain,
    /// What a person would most probably choose; a decoding that is far more plausible than any other and that several
    /// names support; a requested decoding.
    Likely,
    /// A decoding of which another is nearly as plausible, or that few names support; an escape because nothing could be decoded, letters
    /// replaced by `_`, or a shortened name.
    Guess,
}

impl Confidence {
    /// All levels, from most to least likely.
    pub const ALL: [Self; 3] = [Self::Certain, Self::Likely, Self::Guess];

    /// `certain`, `likely` or `guess`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Guess => "guess",
        }
    }
}

impl FromStr for Confidence {
    type Err = UnknownWord;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownWord::new("confidence", s, Self::ALL.map(Self::as_str));
        Self::ALL.into_iter().find(|confidence| confidence.as_str() == s).ok_or_else(unknown)
    }
}

/// The longest name that Linux file systems store, in bytes (`NAME_MAX`, limits.h). Decoded legacy bytes can be three times
/// as long, but no entry could have such a name.
const NAME_MAX: usize = 255;
/// The number of steps after which a name counts as not repairable. Every step repairs what it found in the whole name; more
/// than a few steps happen only if two rules of a policy contradict each other.
const MAX_STEPS: usize = 24;
/// How many numbers are tried for a single name.
const MAX_NUMBERS: usize = 10_000;
/// How many numbered names may turn out invalid before numbers are given up.
const MAX_INVALID: usize = 16;

impl Policy {
    /// Suggests a name instead of `name`; `None` if it needs none, or if none is found. A name whose only violations are
    /// warnings needs none, unless [`Policy::with_repairs`] includes them; some warnings no change would fix (mixed scripts, private use).
    ///
    /// Bytes that are not UTF-8 are decoded as `legacy` says; if nothing is known, the encoding is guessed from this name, which
    /// [`Policy::suggest_names`] does better from all names of a directory. `in_use` decides whether a name is in use. If it
    /// is, `_2`, `_3` ... are inserted before the extension.
    ///
    /// Law: [`Policy::verdict`] accepts a suggested name, and there is no suggested name for it.
    ///
    /// ```
    /// # use namegate_core::policy::{Confidence, EncodingHint, Policy, profile};
    /// let policy = Policy::from_profiles(&[profile::by_name("strict")?]);
    /// let repair = |name: &[u8]| policy.suggest_name(name, EncodingHint::Unknown, &mut |other| other == "a b.txt");
    /// assert_eq!(repair(b"caf\xE9.txt").unwrap().name, "café.txt");
    /// assert_eq!(repair(b"a\nb.txt").unwrap().name, "a b_2.txt");
    /// assert_eq!(repair(b"good.txt"), None);
    /// # Ok::<(), namegate_core::policy::UnknownWord>(())
    /// ```
    pub fn suggest_name(
        &self,
        name: &[u8],
        legacy: EncodingHint<'_>,
        in_use: &mut dyn FnMut(&str) -> bool,
    ) -> Option<SuggestedName> {
        let suggester = Suggester::new(self);
        let suggested = suggester.suggest(name, None, &mut legacy.reader())?;
        if !in_use(&suggested.name) {
            return Some(suggested);
        }
        let (numbered, _) = suggester.numbered(&suggested, room_for(name), 2, MAX_NUMBERS, in_use)?;
        Some(numbered)
    }

    /// Whether a name that is UTF-8 gets a suggested name, whatever other names there are.
    pub fn advises_against(&self, name: &[u8]) -> bool {
        let text = std::str::from_utf8(name).ok();
        let suggest = |text| Suggester::new(self).suggest_for_text(name, text, Confidence::Certain, None);
        text.and_then(suggest).is_some()
    }

    /// The number of bytes of the decoded `text` if no entry could have it as its name; `name` is the name.
    pub fn excess_of_text(name: &[u8], text: &str) -> Option<usize> {
        Some(text.len()).filter(|&len| len > room_for(name))
    }
}

/// The text of a name that is not UTF-8, before any other repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedName {
    /// The text.
    pub text: String,
    /// How likely it is the intended text.
    pub confidence: Confidence,
    /// What happened to the name.
    pub explanation: Damage,
    /// Explanations that a guess considered and that give other texts, the likeliest first. [`Damage::read`] gives the texts.
    pub others: Vec<Damage>,
}

/// What a name that is not UTF-8 is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodedAs {
    /// What happened to the name.
    pub explanation: Damage,
    /// How likely that is right, whatever else the suggested name changes.
    pub confidence: Confidence,
}

impl fmt::Display for DecodedAs {
    /// For people, what the name is: `not UTF-8, probably windows-1252`.
    ///
    /// ```
    /// use namegate_core::policy::{Confidence, DecodedAs};
    /// let explanation = "windows-1252".parse().unwrap();
    /// let said = |confidence| DecodedAs { explanation, confidence }.to_string();
    /// assert_eq!(said(Confidence::Likely), "not UTF-8, probably windows-1252");
    /// assert_eq!(said(Confidence::Guess), "not UTF-8, perhaps windows-1252");
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doubt = match self.confidence {
            Confidence::Certain => "",
            Confidence::Likely => "probably ",
            Confidence::Guess => "perhaps ",
        };
        match self.explanation.contents {
            Contents::Unexplained => f.write_str("not UTF-8, and nothing that is known"),
            Contents::SurrogatePairs => write!(f, "not UTF-8, {doubt}UTF-8 with surrogate pairs (CESU-8)"),
            _ => write!(f, "not UTF-8, {doubt}{}", self.explanation),
        }
    }
}

/// What is known about the encoding of names that are not UTF-8.
#[derive(Clone, Copy, Debug)]
pub enum EncodingHint<'g> {
    /// The user chose the encoding.
    Given(Encoding),
    /// The encodings were guessed from the names of the directory.
    Guessed(&'g EncodingGuess),
    /// The encoding is unknown.
    Unknown,
}

/// The maximum length of a name suggested for `name`, in bytes: that of `name` itself, or [`NAME_MAX`] if that is more.
fn room_for(name: &[u8]) -> usize {
    name.len().max(NAME_MAX)
}

/// Suggests names under a policy, with the parts of it that every suggestion needs.
#[derive(Debug)]
struct Suggester<'p> {
    policy: &'p Policy,
    /// The form that suggested names have. If rules require different forms, the strictest rule wins.
    form: Option<Form>,
    limits: Vec<(Limit, Severity)>,
    /// The replacement for characters that are not allowed.
    stand_in: char,
    /// Leave punctuation out where its place remains visible, instead of replacing it.
    leaves_out: bool,
    /// How names of the directory were read wrongly.
    misreading: Option<&'p SharedMisreading>,
}

/// A name after one step of repair.
struct Step {
    name: String,
    confidence: Confidence,
    is_shortened: bool,
}

impl Step {
    /// A step that leaves out a part of the name.
    fn shortened(name: String) -> Self {
        Self { name, confidence: Confidence::Guess, is_shortened: true }
    }

    fn new(name: String, confidence: Confidence) -> Self {
        Self { name, confidence, is_shortened: false }
    }
}

/// What is left to repair in a name.
enum Repair {
    /// This.
    Step(Step),
    /// Nothing that can be repaired.
    Done {
        /// The policy accepts the name as it is.
        is_valid: bool,
    },
}

impl<'p> Suggester<'p> {
    fn new(policy: &'p Policy) -> Self {
        let asked = policy.rules.iter().filter_map(|rule| match rule.test {
            Test::Form(form) => Some((rule.severity, form)),
            _ => None,
        });
        let limits = policy.rules.iter().filter_map(|rule| match rule.test {
            Test::Length(limit) => Some((limit, rule.severity)),
            _ => None,
        });
        Self {
            policy,
            // Of equal severities the first rule wins: `max_by_key` would choose the last.
            form: policy
                .stored_form()
                .or_else(|| asked.reduce(|a, b| if b.0 > a.0 { b } else { a }).map(|(_, form)| form)),
            limits: limits.collect(),
            stand_in: edit::stand_in(policy),
            // A requested replacement replaces.
            leaves_out: policy.replacement.is_none(),
            misreading: None,
        }
    }

    /// Whether suggested names repair a violation of `rule`.
    fn repairs(&self, rule: RuleId, severity: Severity) -> bool {
        severity >= self.policy.repairs.min_severity || rule.is_damage()
    }

    /// Repairs `name` as far as possible; `None` if nothing can or must be repaired, or if the result is not valid. `known` are
    /// its violations, if it was checked.
    fn suggest(
        &self,
        name: &[u8],
        known: Option<&[Violation]>,
        legacy: &mut LegacyReader<'_>,
    ) -> Option<SuggestedName> {
        match std::str::from_utf8(name) {
            Ok(text) => match self.misreading.and_then(|misreading| misreading.undo(text)) {
                Some(Misread { text, is_sure, .. }) => {
                    let confidence = if is_sure { Confidence::Likely } else { Confidence::Guess };
                    self.suggest_for_text(name, &text, confidence, None)
                }
                None => self.suggest_for_text(name, text, Confidence::Certain, known),
            },
            Err(_) => {
                let DecodedName { text, confidence, explanation, .. } = legacy.read(name);
                let suggested = self.suggest_for_text(name, &text, confidence, None)?;
                Some(SuggestedName { decoded: Some(DecodedAs { explanation, confidence }), ..suggested })
            }
        }
    }

    /// Suggests a name for `name`, whose decoded text is `text`. `known` are the violations of the text, if it was checked.
    fn suggest_for_text(
        &self,
        name: &[u8],
        text: &str,
        mut confidence: Confidence,
        mut known: Option<&[Violation]>,
    ) -> Option<SuggestedName> {
        let room = room_for(name);
        let (mut text, mut is_shortened) = (Cow::Borrowed(text), false);
        for _ in 0..MAX_STEPS {
            match self.step(&text, room, known.take()) {
                Repair::Step(step) => {
                    text = Cow::Owned(step.name);
                    confidence = confidence.max(step.confidence);
                    is_shortened |= step.is_shortened;
                }
                Repair::Done { .. } if is_repository(&text) && text.as_bytes() != name => {
                    text.to_mut().insert(0, self.stand_in);
                    confidence = confidence.max(Confidence::Likely);
                }
                Repair::Done { is_valid } => {
                    let is_new = is_valid && text.as_bytes() != name;
                    return is_new.then(|| SuggestedName {
                        name: text.into_owned(),
                        confidence,
                        is_shortened,
                        decoded: None,
                    });
                }
            }
        }
        None
    }

    /// Adds a number to a suggested name: the first from `from` on with which the name is valid and not in use. Tries at most
    /// `attempts` numbers.
    fn numbered(
        &self,
        suggested: &SuggestedName,
        room: usize,
        from: usize,
        attempts: usize,
        in_use: &mut dyn FnMut(&str) -> bool,
    ) -> Option<(SuggestedName, usize)> {
        let mut invalid = 0;
        for number in from..from.saturating_add(attempts) {
            let candidate = self.with_number(&suggested.name, room, number)?;
            if in_use(&candidate.name) {
                continue;
            }
            if self.is_settled(&candidate.name, room) {
                let is_shortened = suggested.is_shortened || candidate.is_shortened;
                let confidence = suggested.confidence.max(candidate.confidence);
                return Some((
                    SuggestedName { name: candidate.name, confidence, is_shortened, ..*suggested },
                    number,
                ));
            }
            invalid += 1;
            if invalid == MAX_INVALID {
                break;
            }
        }
        None
    }

    /// `name` with `number` before its extension; shortened as far as that needs, if that is requested.
    fn with_number(&self, name: &str, room: usize, number: usize) -> Option<Step> {
        let (stem, extension) = shorten::split(name);
        let tail = format!("{}{number}{extension}", self.stand_in);
        let whole = format!("{stem}{tail}");
        if shorten::fits(&whole, &self.limits(room, Severity::Warn))
            || !self.policy.repairs.shortens && shorten::fits(&whole, &self.limits(room, Severity::Error))
        {
            return Some(Step::new(whole, Confidence::Likely));
        }
        let shorter = self.policy.repairs.shortens.then(|| {
            [Severity::Warn, Severity::Error]
                .into_iter()
                .find_map(|least| shorten::fit(stem, &tail, self.stand_in, &self.limits(room, least)))
        });
        shorter.flatten().map(Step::shortened)
    }

    /// Whether `name` is valid and has nothing left to repair.
    fn is_settled(&self, name: &str, room: usize) -> bool {
        !is_repository(name) && matches!(self.step(name, room, None), Repair::Done { is_valid: true })
    }

    fn is_accepted(&self, name: &str) -> bool {
        matches!(self.policy.verdict(name.as_bytes()), Verdict::Accept(_))
    }

    /// One step towards a name without repairable violations. `known` are the violations of `name`, if it was checked.
    ///
    /// The order matters: text that was encoded twice contains spaces and controls that are not its own, and conversion to a
    /// compatibility form may produce reserved characters.
    fn step(&self, name: &str, room: usize, known: Option<&[Violation]>) -> Repair {
        let violations =
            known.map_or_else(|| Cow::Owned(self.policy.check(name.as_bytes()).violations), Cow::Borrowed);
        if violations.iter().any(|v| v.rule == RuleId::Mojibake)
            && let Some(misread) = misread::undo(name)
        {
            let confidence = if misread.is_sure { Confidence::Likely } else { Confidence::Guess };
            return Repair::Step(Step::new(misread.text, confidence));
        }
        // A form that a rule asks for was looked for by the check; that in which names are stored was not.
        let asks_for_form = |v: &Violation| v.rule == RuleId::NotInForm && self.repairs(v.rule, v.severity);
        let may_differ = self.policy.stored_form().is_some() || violations.iter().any(asks_for_form);
        if let Some(form) = self.form.filter(|&form| may_differ && !is_in_form(name, form)) {
            let confidence = if form.is_compatibility() { Confidence::Likely } else { Confidence::Certain };
            return Repair::Step(Step::new(to_form(name, form).into_owned(), confidence));
        }
        if let Some(step) = self.edited(name, &violations) {
            return Repair::Step(step);
        }
        let is_too_long = name.len() > room
            || violations.iter().any(|v| v.rule == RuleId::NameTooLong && self.repairs(v.rule, v.severity));
        let shortens = is_too_long && self.policy.repairs.shortens;
        match shortens.then(|| self.shortened(name, room)).flatten() {
            Some(step) => Repair::Step(step),
            // The name is in the form in which it is stored, so only an error can make it invalid.
            None => Repair::Done {
                is_valid: name.len() <= room && violations.iter().all(|v| v.severity < Severity::Error),
            },
        }
    }

    /// Shortens `name` to all limits, or else to those that are errors.
    fn shortened(&self, name: &str, room: usize) -> Option<Step> {
        let shorter = [Severity::Warn, Severity::Error]
            .into_iter()
            .find_map(|least| shorten::shorten(name, self.stand_in, &self.limits(room, least)))
            .filter(|shorter| shorter != name)?;
        Some(Step::shortened(shorter))
    }

    /// The limits of at least the severity `least`.
    fn limits(&self, room: usize, least: Severity) -> Vec<Limit> {
        let asked = self.limits.iter().filter(|&&(_, severity)| severity >= least).map(|&(limit, _)| limit);
        asked.chain([Limit { max: room, unit: Unit::Bytes }]).collect()
    }
}

/// Whether git treats a directory of that name as a repository. No other name is repaired to this one: a name such as
/// `.git` with an invisible character was made to deceive.
fn is_repository(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}

impl<'g> EncodingHint<'g> {
    /// Decodes `name`, which is not UTF-8. [`EncodingHint::reader`] is faster for many names.
    ///
    /// ```
    /// use namegate_core::name::reading::{Contents, Encoding};
    /// use namegate_core::policy::EncodingHint;
    /// let meaning = EncodingHint::Given(Encoding::WINDOWS_1252).read(b"caf\xE9");
    /// assert_eq!((&*meaning.text, &*meaning.explanation.to_string()), ("café", "windows-1252"));
    /// let pair = EncodingHint::Unknown.read(b"x\xED\xA1\x8C\xED\xBE\xB4");
    /// assert_eq!(pair.explanation.contents, Contents::SurrogatePairs);
    /// ```
    pub fn read(self, name: &[u8]) -> DecodedName {
        self.reader().read(name)
    }

    /// Decodes names that are not UTF-8.
    pub fn reader(self) -> LegacyReader<'g> {
        match self {
            Self::Given(encoding) => LegacyReader::Given(encoding),
            Self::Guessed(guess) => LegacyReader::Guessed(guess.reader()),
            Self::Unknown => LegacyReader::Unknown,
        }
    }
}

/// Decodes names by an [`EncodingHint`].
#[derive(Debug)]
pub enum LegacyReader<'g> {
    /// In the encoding that the user chose.
    Given(Encoding),
    /// As guessed from the names of the directory.
    Guessed(GuessReader<'g>),
    /// As guessed from each name alone.
    Unknown,
}

impl LegacyReader<'_> {
    /// As [`EncodingHint::read`].
    pub fn read(&mut self, name: &[u8]) -> DecodedName {
        let decoded =
            |text, confidence, explanation| DecodedName { text, confidence, explanation, others: Vec::new() };
        if let Some(text) = structural(name) {
            return decoded(text, Confidence::Certain, Damage::new(Contents::SurrogatePairs));
        }
        if let Some((explanation, text, is_sure)) = reading::unwrap_utf8(name) {
            let confidence = if is_sure { Confidence::Likely } else { Confidence::Guess };
            return decoded(text, confidence, explanation);
        }
        let has_strays = reading::needs_guess(name).is_some();
        let by_guess = |reading: NameReading| {
            let confidence = if reading.is_likely { Confidence::Likely } else { Confidence::Guess };
            let NameReading { explanation, text, others, .. } = reading;
            DecodedName { text, confidence, explanation, others }
        };
        let by_encoding = match self {
            Self::Given(encoding) => (has_strays || !encoding.is_latin())
                .then(|| encoding.read_name(name))
                .flatten()
                .map(|text| decoded(text, Confidence::Likely, Damage::new(Contents::Legacy(*encoding)))),
            // Overlong forms are text only where other names prove that the encoding is in use: they may be an attack.
            Self::Guessed(reader) => {
                reader.read(name).filter(|reading| has_strays || reading.is_likely).map(by_guess)
            }
            Self::Unknown => EncodingGuess::for_names([name], &EncodingCounts::default())
                .and_then(|guess| guess.read(name))
                .map(by_guess),
        };
        let escaped = || decoded(escape(name).into_owned(), Confidence::Guess, Damage::UNEXPLAINED);
        by_encoding.unwrap_or_else(escaped)
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
