//! Guesses the legacy encodings of names.
//!
//! Names of one directory can be in several encodings, so the names are not forced into one: a mixture of pairs of encoding and
//! language is fitted to them by expectation maximization, and each name is read in the encoding that explains it best, given the
//! others. Encodings that give a name the same text count together.

mod comparison;
mod counts;
mod mixture;
mod pairs;
mod reader;
mod readings;
mod rivals;
mod sample;
mod tried;

use std::borrow::Cow;
use std::sync::OnceLock;

use self::comparison::NameComparison;
pub use self::counts::EncodingCounts;
use self::mixture::{Mixture, SampledName};
use self::pairs::Lanes;
pub use self::reader::GuessReader;
use self::reader::{telling_words, without_numbers};
use self::readings::Readings;
use self::rivals::Rivals;
pub use self::sample::EncodingSample;
use self::tried::{CUT, MASKED, Number, UNEXPLAINED, contents};
use super::language::cost;
use super::{Contents, Damage, Wrapping, has_stray_bytes};
use crate::name::escape::stable_hash;

/// Letters are not independent of each other, so the costs overstate the evidence.
const WEIGHT_OF_EVIDENCE: f32 = 0.8;
/// A reading that is less likely than the best by more than this, as a logarithm, is not considered.
const NEGLIGIBLE: f32 = 12.0;
/// The names to which the mixture is fitted: more do not improve it.
const SAMPLE: usize = 96;

/// A text is called likely from this probability on ...
const LIKELY: f32 = 0.998;
/// ... and if so many names, with itself, are in the same encoding.
const ENOUGH_NAMES: f32 = 2.4;

/// The same for a text with parts in UTF-8: the others are shorter than names.
const LIKELY_FOR_PARTS: f32 = 0.999;
const ENOUGH_FOR_PARTS: f32 = 4.5;

/// The others of a tree say little more about names if so many of these are in one encoding.
const MANY_NAMES: f32 = 12.0;

/// The number of texts that a [`NameReading`] has beside the best.
const MAX_OTHERS: usize = 3;

/// The text of a name, as guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameReading {
    /// What happened to the name.
    pub explanation: Damage,
    /// The text.
    pub text: String,
    /// Whether the text is right in all but few cases: it is much likelier than any other, and other names support it, or the name
    /// alone shows what happened to it.
    pub is_likely: bool,
    /// Explanations that give other texts, the likeliest first. [`Damage::read`] gives the texts.
    pub others: Vec<Damage>,
}

/// A guess at the encodings of some names.
///
/// ```
/// use namegate_core::name::reading::{EncodingCounts, EncodingGuess};
/// let names = [&b"r\xE9sum\xE9.txt"[..], b"fa\xE7ade.jpg", b"\xCF\xF0\xE8\xE2\xE5\xF2 \xEC\xE8\xF0"];
/// let guess = EncodingGuess::for_names(names, &EncodingCounts::default()).unwrap();
/// assert_eq!(guess.read(names[0]).unwrap().text, "résumé.txt");
/// assert_eq!(guess.read(names[2]).unwrap().text, "Привет мир");
/// assert!(EncodingGuess::for_names([&b"ascii"[..]], &EncodingCounts::default()).is_none());
/// ```
#[derive(Clone, Debug)]
pub struct EncodingGuess {
    /// How common pairs are among the names.
    mixture: Mixture,
    /// [`Mixture::shares`].
    shares: OnceLock<Vec<Lanes>>,
    counts: EncodingCounts,
    /// The number of names with each explanation, and of earlier ones.
    own: Vec<f32>,
    others: Vec<f32>,
    names: usize,
    /// The number of names with different words.
    different: usize,
    /// The names to which the mixture was fitted, [without numbers](without_numbers), in order.
    sample: Vec<(Vec<u8>, SampledName)>,
}

impl EncodingGuess {
    /// Guesses the encodings of those `names` that need one; `None` if none does. `earlier` are names for which the encodings have
    /// been guessed before, as those of a directory above.
    pub fn for_names<'n>(
        names: impl IntoIterator<Item = &'n [u8]>,
        earlier: &EncodingCounts,
    ) -> Option<Self> {
        let names: Vec<Cow<'_, [u8]>> = names.into_iter().filter_map(needs_guess).collect();
        Self::fit(names.iter().map(|name| without_numbers(name)).collect(), names.len(), earlier)
    }

    /// [`EncodingGuess::for_names`] for the names of a sample.
    pub fn for_sample(sample: &EncodingSample, earlier: &EncodingCounts) -> Option<Self> {
        let forms = sample.names().filter_map(needs_guess).map(|name| without_numbers(&name));
        Self::fit(forms.collect(), sample.count(), earlier)
    }

    /// Fits the mixture to some of `count` names, which have these forms.
    fn fit(mut forms: Vec<Vec<u8>>, count: usize, earlier: &EncodingCounts) -> Option<Self> {
        // The guess must not depend on the order of a directory.
        forms.sort_unstable();
        forms.dedup();
        let (forms, mut sample) = (forms.len(), sampled(forms));
        if sample.is_empty() {
            return None;
        }
        let mut words: Vec<u32> = sample.iter().map(|(_, name)| name.words).collect();
        words.sort_unstable();
        words.dedup();
        let mut earlier = earlier.clone();
        earlier.retain_words(|earlier| words.binary_search(&earlier).is_err());
        let others = earlier.by_explanation();
        let mixture = Mixture::fit(&mut sample, earlier);
        let mut counts = mixture.counts(forms as f32 / sample.len() as f32);
        for (_, SampledName { readings, words, best, .. }) in &mut sample {
            *best = readings.ranked().first().map_or(0, |&(_, best)| best);
            readings.explanations_of(*best).for_each(|number| counts.add_words(number, *words));
        }
        let (own, shares, different) = (counts.by_explanation(), OnceLock::new(), words.len());
        Some(Self { mixture, shares, counts, own, others, names: count, different, sample })
    }

    /// How many names are in which encodings.
    pub fn counts(&self) -> &EncodingCounts {
        &self.counts
    }

    /// The number of names with one of `explanations`, with earlier ones as far as they differ in words.
    fn support(&self, explanations: &[Number]) -> f32 {
        let of =
            |supporting: &[f32]| explanations.iter().map(|&number| supporting[usize::from(number)]).sum();
        let others: f32 = of(&self.others);
        of(&self.own)
            + if others > 0.0 {
                others.min(self.mixture.earlier().words_of(|number| explanations.contains(&number)))
            } else {
                0.0
            }
    }

    /// The number of names that need an encoding.
    pub fn names(&self) -> usize {
        self.names
    }

    /// Whether the names that need an encoding have the same words beyond ASCII: they are no more evidence than one of them.
    pub fn is_one_series(&self) -> bool {
        self.names > 1 && self.different == 1
    }

    /// Whether more names, from elsewhere, could be evidence for these: there are few of them, or they are in many encodings.
    pub fn needs_evidence(&self) -> bool {
        (0..MASKED).all(|number| self.own[usize::from(number)] < MANY_NAMES)
    }

    /// Decodes `name`, one of the names of which this is the guess; `None` if no encoding can. [`EncodingGuess::reader`] is faster
    /// for many names.
    pub fn read(&self, name: &[u8]) -> Option<NameReading> {
        self.reader().read(name)
    }

    /// Reads the names of the guess.
    pub fn reader(&self) -> GuessReader<'_> {
        GuessReader::new(self)
    }

    /// The name of the sample with this form.
    fn sampled(&self, form: &[u8]) -> Option<&SampledName> {
        let at = self.sample.binary_search_by(|(sampled, _)| (**sampled).cmp(form)).ok()?;
        Some(&self.sample[at].1)
    }

    /// How common pairs are, for names that are not in the sample.
    fn shares(&self) -> &[Lanes] {
        self.shares.get_or_init(|| self.mixture.shares())
    }

    /// How common an explanation is, by the earlier names and without any name.
    fn prior_of(&self, number: Number) -> f32 {
        self.mixture.prior_of(number, self.others[usize::from(number)])
    }

    /// Chooses how to read a name with this form.
    fn choose(&self, form: &[u8], readings: &Readings, rivals: &mut Rivals) -> Option<Choice> {
        let texts = &readings.texts;
        let ranked = readings.ranked();
        let &(probability, best) = ranked.first()?;
        // The explanations that give this text, and the most common one of them among the names.
        let same: Vec<Number> = readings.explanations_of(best).collect();
        let support = |number: Number| self.own[usize::from(number)] + self.others[usize::from(number)];
        let number =
            same.iter().copied().max_by(|&a, &b| support(a).total_cmp(&support(b)).then(b.cmp(&a)))?;
        let support = self.support(&same);
        let is_supported = match number {
            MASKED | UNEXPLAINED => false,
            CUT => readings.shows_utf8 || support >= ENOUGH_NAMES,
            _ if texts[best].is_mixed => {
                support >= ENOUGH_FOR_PARTS && probability >= LIKELY_FOR_PARTS && !may_be_whole(number, form)
            }
            _ => !readings.is_odd && support >= ENOUGH_NAMES,
        };
        let others =
            ranked.iter().skip(1).map(|&(_, at)| texts[at].number).filter(|&number| number != UNEXPLAINED);
        let others = others.take(MAX_OTHERS).map(contents).collect();
        let mut is_likely = probability >= LIKELY && is_supported;
        if is_likely && number != CUT {
            is_likely = !rivals.has_rival(self, form, readings, (number, best));
        }
        Some(Choice { contents: contents(number), is_likely, others })
    }
}

/// Whether a name that has parts in UTF-8 is nearly as good a text if all of it is in the encoding.
fn may_be_whole(number: Number, form: &[u8]) -> bool {
    /// What the text of all of it must cost more.
    const GAIN_OF_PARTS: f32 = 6.0;
    let Contents::Legacy(encoding) = contents(number) else { return false };
    let (Some(whole), Some(parts)) = (encoding.read(form), encoding.read_name(form)) else { return false };
    whole != parts && cost(&whole) < cost(&parts) + GAIN_OF_PARTS
}

/// How a name is read: [`NameReading`] without the text.
#[derive(Clone, Debug)]
struct Choice {
    contents: Contents,
    is_likely: bool,
    others: Vec<Contents>,
}

/// The bytes of a name whose encoding must be guessed; `None` for another name.
pub(crate) fn needs_guess(name: &[u8]) -> Option<Cow<'_, [u8]>> {
    if std::str::from_utf8(name).is_ok() {
        return None;
    }
    Some(Wrapping::find(name).1).filter(|bytes| has_stray_bytes(bytes))
}

/// Some of the forms of names, which are in order.
fn sampled(forms: Vec<Vec<u8>>) -> Vec<(Vec<u8>, SampledName)> {
    let step = forms.len().div_ceil(SAMPLE).max(1);
    let mut comparison = NameComparison::default();
    let sampled = forms.into_iter().step_by(step).map(|form| {
        let words = stable_hash(&telling_words(&form).collect::<Vec<_>>().join(&b' ')) as u32;
        let name = SampledName { readings: comparison.readings(&form), words, count: 0.0, best: 0 };
        (form, name)
    });
    let mut sample: Vec<_> = sampled.collect();
    count_words(&mut sample);
    sample
}

/// Sets how much each name counts: one with a word of its own is one. A word in several names is shared by them, and so are all words of
/// names that have the same.
fn count_words(sample: &mut [(Vec<u8>, SampledName)]) {
    let mut words: Vec<u64> =
        sample.iter().flat_map(|(form, _)| telling_words(form)).map(hash_of_word).collect();
    let mut together: Vec<u64> = sample.iter().map(|(_, name)| name.words.into()).collect();
    words.sort_unstable();
    together.sort_unstable();
    let share = |words: &[u64], word: u64| {
        let names =
            words.partition_point(|other| *other <= word) - words.partition_point(|other| *other < word);
        1.0 / names.max(1) as f32
    };
    for (form, SampledName { readings, words: all, count, .. }) in sample {
        let own: f32 = telling_words(form).map(|word| share(&words, hash_of_word(word))).sum();
        *count = readings.evidence * own.min(share(&together, (*all).into()));
    }
}

/// The hash of a word, the same in capitals. In capitals other bytes are beyond ASCII, so they do not count beside letters of ASCII.
fn hash_of_word(word: &[u8]) -> u64 {
    let mut word = word.to_ascii_lowercase();
    if word.iter().any(u8::is_ascii) {
        word.iter_mut().for_each(|byte| *byte = if byte.is_ascii() { *byte } else { b'?' });
    }
    stable_hash(&word)
}
