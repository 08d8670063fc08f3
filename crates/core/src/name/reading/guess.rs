//! Guesses the legacy encodings of names.
//!
//! Names of one directory can be in several encodings, so the names are not forced into one: a mixture of pairs of encoding and
//! language is fitted to them by expectation maximization, and each name is read in the encoding that explains it best, given the
//! others. Encodings that give a name the same text count together.

mod reader;
mod readings;
mod sample;
mod tried;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use self::reader::GuessReader;
use self::reader::{telling_words, without_numbers};
use self::readings::{Lanes, NameComparison, Readings};
pub use self::sample::EncodingSample;
use self::tried::{CUT, EXPLANATIONS, MASKED, Number, UNEXPLAINED, contents, tried_encodings, weight_of};
use super::language::{LANES, Language};
use super::{Contents, Damage, Encoding, Wrapping, has_stray_bytes};
use crate::name::escape::stable_hash;

/// Letters are not independent of each other, so the costs overstate the evidence.
const WEIGHT_OF_EVIDENCE: f32 = 0.8;
/// A reading that is less likely than the best by more than this, as a logarithm, is not considered.
const NEGLIGIBLE: f32 = 12.0;
/// The names to which the mixture is fitted: more do not improve it.
const SAMPLE: usize = 96;
const ROUNDS: usize = 10;
/// The mixture fits if a round changes no probability by more than this.
const SETTLED: f32 = 1e-3;
/// The share of a pair in which no name of the sample can be.
const UNSEEN: f32 = 1e-8;
/// What the common encodings count beside the names, in names.
const PRIOR_NAMES: f32 = 1.0;
/// What earlier names count beside the common encodings.
const WEIGHT_OF_EARLIER: f32 = 10.0;

/// A text is called likely from this probability on ...
const LIKELY: f32 = 0.99;
/// ... and if so many names, with itself, are in the same encoding.
const ENOUGH_NAMES: f32 = 2.4;

/// The same for a text with parts in UTF-8: the others are shorter than names.
const LIKELY_FOR_PARTS: f32 = 0.999;
const ENOUGH_FOR_PARTS: f32 = 4.5;

/// The others of a tree say little more about names if so many of these are in one encoding.
const MANY_NAMES: f32 = 12.0;

/// The number of texts that a [`NameReading`] has beside the best.
const MAX_OTHERS: usize = 3;

/// More languages than there are.
const LANGUAGES: u16 = 64;

/// An explanation and a language. Its number is an index into [`Weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair(u16);

impl Pair {
    fn new(explanation: Number, language: Language) -> Self {
        Self(explanation * LANGUAGES + u16::from(language))
    }

    fn explanation(self) -> Number {
        self.0 / LANGUAGES
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A number for each pair.
#[derive(Clone, Debug)]
struct Weights(Vec<Lanes>);

impl Weights {
    fn filled(with: f32) -> Self {
        Self(vec![[with; LANES]; EXPLANATIONS * usize::from(LANGUAGES) / LANES])
    }

    fn of(&self, pair: Pair) -> f32 {
        self.0.as_flattened()[pair.index()]
    }

    fn of_mut(&mut self, pair: Pair) -> &mut f32 {
        &mut self.0.as_flattened_mut()[pair.index()]
    }

    /// The numbers of this pair, which is the first in its lanes, and of the next ones.
    fn lanes(&self, first: Pair) -> &Lanes {
        &self.0[first.index() / LANES]
    }

    fn lanes_mut(&mut self, first: Pair) -> &mut Lanes {
        &mut self.0[first.index() / LANES]
    }
}

/// How many names are in which encodings and languages, as far as they were guessed: the evidence for other names. Those of one
/// directory that have the same words beyond ASCII count once.
#[derive(Clone, Debug, Default)]
pub struct EncodingCounts {
    names: BTreeMap<Pair, u64>,
    /// The explanations that give the likeliest texts of the names, with hashes of the words of these: the lowest ones of each, in
    /// order. A word is no more evidence if other directories have it too.
    words: Vec<(Number, u32)>,
}

/// Counts are in these parts of a name, so that sums do not depend on their order.
const PARTS: f32 = 256.0;

/// The number of hashes that are kept for an explanation: more words are not needed to support it.
const MOST_WORDS: usize = 8;

impl EncodingCounts {
    /// Adds the names of `other`.
    pub fn add(&mut self, other: &Self) {
        for (&pair, count) in &other.names {
            *self.names.entry(pair).or_default() += count;
        }
        other.words.iter().for_each(|&(number, words)| self.add_words(number, words));
    }

    fn add_words(&mut self, number: Number, words: u32) {
        let Err(at) = self.words.binary_search(&(number, words)) else { return };
        let first = self.words.partition_point(|known| known.0 < number);
        let end = self.words.partition_point(|known| known.0 <= number);
        let is_full = end - first == MOST_WORDS;
        if is_full && at == end {
            return;
        }
        if is_full {
            self.words.remove(end - 1);
        }
        self.words.insert(at, (number, words));
    }

    /// Removes the names of `other`, which were added before. A guess does not count their words anyway.
    pub fn remove(&mut self, other: &Self) {
        for (pair, count) in &other.names {
            if let Some(known) = self.names.get_mut(pair) {
                *known = known.saturating_sub(*count);
            }
        }
        self.names.retain(|_, count| *count > 0);
    }

    /// The number of names.
    pub fn names(&self) -> f32 {
        self.names.values().sum::<u64>() as f32 / PARTS
    }

    /// The number of names in `encoding`.
    pub fn names_in(&self, encoding: Encoding) -> f32 {
        let number = (0..).zip(tried_encodings()).find(|(_, tried)| tried.encoding == encoding);
        number.map_or(0.0, |(number, _)| self.of(number))
    }

    fn of(&self, explanation: Number) -> f32 {
        let pairs = self.names.range(Pair::new(explanation, 0)..Pair::new(explanation + 1, 0));
        pairs.map(|(_, count)| count).sum::<u64>() as f32 / PARTS
    }

    /// The number of names by explanation.
    fn by_explanation(&self) -> Vec<f32> {
        let mut names = vec![0; EXPLANATIONS];
        for (pair, count) in &self.names {
            names[usize::from(pair.explanation())] += count;
        }
        names.into_iter().map(|count: u64| count as f32 / PARTS).collect()
    }

    /// The number of different words of the names with an explanation that `is_asked`, as far as they are kept.
    fn words_of(&self, is_asked: impl Fn(Number) -> bool) -> f32 {
        let words = self.words.iter().filter(|(number, _)| is_asked(*number));
        words.map(|(_, words)| words).collect::<BTreeSet<_>>().len() as f32
    }
}

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
/// use crate::name::reading::{EncodingCounts, EncodingGuess};
/// let names = [&b"r\xE9sum\xE9.txt"[..], b"fa\xE7ade.jpg", b"\xCF\xF0\xE8\xE2\xE5\xF2 \xEC\xE8\xF0"];
/// let guess = EncodingGuess::for_names(names, &EncodingCounts::default()).unwrap();
/// assert_eq!(guess.read(names[0]).unwrap().text, "résumé.txt");
/// assert_eq!(guess.read(names[2]).unwrap().text, "Привет мир");
/// assert!(EncodingGuess::for_names([&b"ascii"[..]], &EncodingCounts::default()).is_none());
/// ```
#[derive(Clone, Debug)]
pub struct EncodingGuess {
    /// How common each pair is among the names.
    shares: Weights,
    counts: EncodingCounts,
    /// The earlier names, without the words that names of the guess have.
    earlier: EncodingCounts,
    /// The number of names with each explanation, and of earlier ones.
    own: Vec<f32>,
    others: Vec<f32>,
    names: usize,
    /// The number of names with different words.
    different: usize,
    /// The names to which the mixture was fitted, [without numbers](without_numbers).
    sample: BTreeMap<Vec<u8>, SampledName>,
}

/// Names of the sample that differ in numbers only.
#[derive(Clone, Debug)]
struct SampledName {
    readings: Readings,
    /// The hash of their [words](telling_words).
    words: u32,
    /// How much they count: a name with words of its own is one.
    count: f32,
}

impl EncodingGuess {
    /// Guesses the encodings of those `names` that need one; `None` if none does. `earlier` are names for which the encodings have
    /// been guessed before, as those of a directory above.
    pub fn for_names<'n>(
        names: impl IntoIterator<Item = &'n [u8]>,
        earlier: &EncodingCounts,
    ) -> Option<Self> {
        let names: Vec<Cow<'_, [u8]>> = names.into_iter().filter_map(needs_guess).collect();
        let count = names.len();
        Self::fit(names, count, earlier)
    }

    /// [`EncodingGuess::for_names`] for the names of a sample.
    pub fn for_sample(sample: &EncodingSample, earlier: &EncodingCounts) -> Option<Self> {
        Self::fit(sample.names().filter_map(needs_guess).collect(), sample.count(), earlier)
    }

    /// Fits the mixture to some of `count` names.
    fn fit(names: Vec<Cow<'_, [u8]>>, count: usize, earlier: &EncodingCounts) -> Option<Self> {
        // The guess must not depend on the order of a directory.
        let mut names: Vec<_> = names.into_iter().map(|name| (without_numbers(&name), name)).collect();
        names.sort_unstable();
        names.dedup_by(|later, first| later.0 == first.0);
        let forms = names.len();
        let step = forms.div_ceil(SAMPLE).max(1);
        let mut with_words = HashMap::<u32, u32>::new();
        let mut comparison = NameComparison::default();
        let sampled = names.into_iter().step_by(step).map(|(form, name)| {
            let words = stable_hash(&telling_words(&name)) as u32;
            *with_words.entry(words).or_default() += 1;
            (form, SampledName { readings: comparison.readings(&name), words, count: 0.0 })
        });
        let mut sample: BTreeMap<_, SampledName> = sampled.collect();
        let mut sampled = 0.0;
        for SampledName { readings, words, count } in sample.values_mut() {
            *count = readings.evidence / with_words[words] as f32;
            sampled += *count;
        }
        if sample.is_empty() {
            return None;
        }
        let mut earlier = earlier.clone();
        earlier.words.retain(|(_, words)| !with_words.contains_key(words));
        let (pairs, prior) = prior(sample.values().map(|name| &name.readings), &earlier);
        let same = same_explanations(sample.values().map(|name| &name.readings), &prior);
        let is_first = |number: Number| same[usize::from(number)] == number;
        sample.values_mut().for_each(|name| name.readings.consider(is_first));
        // Explanations that give all names the same texts are one for the mixture, as common as all of them.
        let first_of =
            |pair: Pair| Pair(same[usize::from(pair.explanation())] * LANGUAGES + pair.0 % LANGUAGES);
        let (mut joined, mut all_joined) = (Weights::filled(0.0), Weights::filled(0.0));
        for &pair in &pairs {
            *joined.of_mut(first_of(pair)) += sparse(prior.of(pair));
            *all_joined.of_mut(first_of(pair)) += prior.of(pair);
        }
        for &pair in pairs.iter().filter(|&&pair| is_first(pair.explanation())) {
            *joined.of_mut(pair) = share_of(joined.of(pair));
        }
        let mut counts = Weights::filled(0.0);
        for SampledName { readings, count, .. } in sample.values_mut() {
            readings.weigh(
                &mut counts,
                |_, first, _| *joined.lanes(first),
                |counts, first, change| add(counts.lanes_mut(first), *count, change),
            );
        }
        // A name is no evidence for itself: it is read by what the others are, and alone by what is common.
        for _ in 1..if sampled <= 1.0 { 1 } else { ROUNDS } {
            let mut change = 0.0_f32;
            for SampledName { readings, count, .. } in sample.values_mut() {
                let own = readings.evidence;
                let scale = 1.0 / (sampled - own + PRIOR_NAMES);
                let of_name = readings.weigh(
                    &mut counts,
                    |counts, first, before| {
                        let (known, prior) = (counts.lanes(first), joined.lanes(first));
                        let mut share = [0.0; LANES];
                        for lane in 0..LANES {
                            let of_others = known[lane] - own * before[lane];
                            let of_others = if of_others > 0.0 { of_others } else { 0.0 };
                            share[lane] = sparse((of_others + PRIOR_NAMES * prior[lane]) * scale);
                        }
                        share
                    },
                    |counts, first, change| add(counts.lanes_mut(first), *count, change),
                );
                change = change.max(of_name);
            }
            if change < SETTLED {
                break;
            }
        }
        let all = sampled + PRIOR_NAMES;
        let scale = forms as f32 / sample.len() as f32;
        let (mut shares, mut names) = (Weights::filled(UNSEEN), BTreeMap::new());
        for &pair in &pairs {
            // The names do not tell these explanations apart, so they count for each as far as it is common.
            let part = prior.of(pair) / all_joined.of(first_of(pair));
            let of_pair = counts.of(first_of(pair)).max(0.0) * part;
            *shares.of_mut(pair) = sparse((of_pair + PRIOR_NAMES * prior.of(pair)) / all);
            let in_parts = of_pair * scale * PARTS;
            // Most are nothing.
            if in_parts >= 0.5 {
                names.insert(pair, in_parts.round() as u64);
            }
        }
        let mut counts = EncodingCounts { names, words: Vec::new() };
        for SampledName { readings, words, .. } in sample.values() {
            let best = readings.ranked().first().map(|&(_, best)| readings.explanations_of(best));
            best.into_iter().flatten().for_each(|number| counts.add_words(number, *words));
        }
        let (own, others) = (counts.by_explanation(), earlier.by_explanation());
        Some(Self { shares, counts, earlier, own, others, names: count, different: with_words.len(), sample })
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
                others.min(self.earlier.words_of(|number| explanations.contains(&number)))
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

    fn choose(&self, readings: &Readings) -> Option<Choice> {
        let texts = &readings.texts;
        let ranked = readings.ranked();
        let &(probability, best) = ranked.first()?;
        // The explanations that give this text, and the most common one of them among the names.
        let same = readings.explanations_of(best);
        let support = |number: Number| self.own[usize::from(number)] + self.others[usize::from(number)];
        let number =
            same.iter().copied().max_by(|&a, &b| support(a).total_cmp(&support(b)).then(b.cmp(&a)))?;
        let support = self.support(&same);
        let is_supported = match number {
            MASKED | UNEXPLAINED => false,
            CUT => readings.shows_utf8 || support >= ENOUGH_NAMES,
            _ if texts[best].is_mixed => support >= ENOUGH_FOR_PARTS && probability >= LIKELY_FOR_PARTS,
            _ => !readings.is_odd && support >= ENOUGH_NAMES,
        };
        let others =
            ranked.iter().skip(1).map(|&(_, at)| texts[at].number).filter(|&number| number != UNEXPLAINED);
        let others = others.take(MAX_OTHERS).map(contents).collect();
        Some(Choice { contents: contents(number), is_likely: probability >= LIKELY && is_supported, others })
    }
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

/// The weight of an encoding that is as common as `share` says: lower where it is rare, because the names of a directory are
/// rarely in more than one or two encodings.
fn sparse(share: f32) -> f32 {
    share * share.sqrt()
}

/// The opposite of [`sparse`].
fn share_of(weight: f32) -> f32 {
    (weight * weight).cbrt()
}

fn add(lanes: &mut Lanes, factor: f32, change: &Lanes) {
    (0..LANES).for_each(|lane| lanes[lane] += factor * change[lane]);
}

/// The pairs in which any name of the sample can be, and how common each is before any name is read.
fn prior<'r>(sample: impl Iterator<Item = &'r Readings>, earlier: &EncodingCounts) -> (Vec<Pair>, Weights) {
    let (mut weights, mut firsts) = (Weights::filled(0.0), Vec::new());
    for (first, likelihoods) in sample.flat_map(Readings::pairs) {
        let lanes = weights.lanes_mut(first);
        (0..LANES).for_each(|lane| lanes[lane] += likelihoods[lane]);
        firsts.push(first);
    }
    firsts.sort_unstable();
    firsts.dedup();
    let mut pairs = Vec::with_capacity(firsts.len() * LANES);
    for first in firsts {
        let weight = weight_of(first.explanation());
        for pair in (first.0..).take(LANES).map(Pair) {
            if weights.of(pair) > 0.0 {
                *weights.of_mut(pair) = weight;
                pairs.push(pair);
            }
        }
    }
    let all: f32 = pairs.iter().map(|&pair| weights.of(pair)).sum();
    let earlier_names = earlier.names();
    // A few earlier names count less than many, and those with the same words not more than one.
    let different = earlier_names.min(earlier.words_of(|_| true));
    let weight = WEIGHT_OF_EARLIER * different / (different + 1.0);
    let mut earlier = earlier.names.iter().peekable();
    for &pair in &pairs {
        // Both are in the order of the pairs.
        while earlier.next_if(|(other, _)| **other < pair).is_some() {}
        let known =
            earlier.next_if(|(other, _)| **other == pair).map_or(0.0, |(_, &count)| count as f32 / PARTS)
                / earlier_names.max(1.0);
        *weights.of_mut(pair) = (weights.of(pair) / all + weight * known) / (1.0 + weight);
    }
    (pairs, weights)
}

/// For each explanation: the one that stands for all that give the names of the sample the same texts, which is the most common.
fn same_explanations<'r>(
    sample: impl Iterator<Item = &'r Readings>,
    prior: &Weights,
) -> [Number; EXPLANATIONS] {
    let mut texts: [Vec<u32>; EXPLANATIONS] = std::array::from_fn(|_| Vec::new());
    for (name, readings) in (0_u32..).zip(sample) {
        for &(number, text) in &readings.explanations {
            texts[usize::from(number)].push(name << 16 | u32::from(text));
        }
    }
    let of_explanations = prior.0.as_flattened().chunks_exact(LANGUAGES.into());
    let common: Vec<f32> = of_explanations.map(|weights| weights.iter().sum()).collect();
    let mut order: Vec<usize> = (0..EXPLANATIONS).collect();
    order.sort_by(|&a, &b| common[b].total_cmp(&common[a]));
    let mut first: HashMap<&[u32], Number> = HashMap::new();
    let mut same = [0; EXPLANATIONS];
    for number in order {
        same[number] = *first.entry(&texts[number]).or_insert(number as Number);
    }
    same
}
