//! Guesses the legacy encodings of names.
//!
//! Names of one directory can be in several encodings, so the names are not forced into one: a mixture of pairs of encoding and
//! language is fitted to them by expectation maximization, and each name is read in the encoding that explains it best, given the
//! others. Encodings that give a name the same text count together.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::encodings::TRIED;
use super::language::{Language, Prepared};
use super::{Encoding, has_stray_bytes};

/// Letters are not independent of each other, so the costs overstate the evidence.
const WEIGHT_OF_EVIDENCE: f32 = 0.8;
/// A reading that is less likely than the best by more than this, as a logarithm, is not considered.
const NEGLIGIBLE: f32 = 18.0;
/// The names to which the mixture is fitted: more do not improve it.
const SAMPLE: usize = 96;
const ROUNDS: usize = 10;
/// The share of a pair in which no name of the sample can be.
const UNSEEN: f32 = 1e-8;
/// Above 1, because the names of a directory are rarely in more than one or two encodings.
const SPARSITY: f32 = 1.5;
/// What the common encodings count beside the names, in names.
const PRIOR_NAMES: f32 = 1.0;
/// What earlier names count beside the common encodings.
const WEIGHT_OF_EARLIER: f32 = 10.0;

/// A text is called likely from this probability on ...
const LIKELY: f32 = 0.99;
/// ... and if so many names, with itself, are in the same encoding.
const ENOUGH_NAMES: f32 = 2.5;

/// The number of texts that a [`NameReading`] has beside the best.
const MAX_OTHERS: usize = 3;

/// More languages than there are.
const LANGUAGES: u16 = 64;

/// An encoding, by its number in [`TRIED`], and a language. Its number is an index into [`Weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair(u16);

impl Pair {
    fn new(encoding: u16, language: Language) -> Self {
        Self(encoding * LANGUAGES + u16::from(language))
    }

    fn encoding(self) -> u16 {
        self.0 / LANGUAGES
    }
}

/// A number for each pair.
#[derive(Clone, Debug)]
struct Weights(Vec<f32>);

impl Weights {
    fn filled(with: f32) -> Self {
        Self(vec![with; TRIED.len() * usize::from(LANGUAGES)])
    }

    fn of(&self, pair: Pair) -> f32 {
        self.0[usize::from(pair.0)]
    }

    fn of_mut(&mut self, pair: Pair) -> &mut f32 {
        &mut self.0[usize::from(pair.0)]
    }
}

/// How many names are in which encodings and languages, as far as they were guessed: the evidence for other names.
#[derive(Clone, Debug, Default)]
pub struct EncodingCounts(BTreeMap<Pair, u64>);

/// Counts are in these parts of a name, so that sums do not depend on their order.
const PARTS: f32 = 256.0;

impl EncodingCounts {
    /// Adds the names of `other`.
    pub fn add(&mut self, other: &Self) {
        for (&pair, count) in &other.0 {
            *self.0.entry(pair).or_default() += count;
        }
    }

    /// Removes the names of `other`, which were added before.
    pub fn remove(&mut self, other: &Self) {
        for (pair, count) in &other.0 {
            if let Some(known) = self.0.get_mut(pair) {
                *known = known.saturating_sub(*count);
            }
        }
        self.0.retain(|_, count| *count > 0);
    }

    /// The number of names.
    pub fn names(&self) -> f32 {
        self.0.values().sum::<u64>() as f32 / PARTS
    }

    /// The number of names in `encoding`.
    pub fn names_in(&self, encoding: Encoding) -> f32 {
        let number = (0..).zip(tried_encodings()).find(|(_, (candidate, _))| *candidate == encoding);
        number.map_or(0.0, |(number, _)| self.of(number))
    }

    fn of(&self, encoding: u16) -> f32 {
        let pairs = self.0.range(Pair::new(encoding, 0)..Pair::new(encoding + 1, 0));
        pairs.map(|(_, count)| count).sum::<u64>() as f32 / PARTS
    }
}

/// The text of a name, as guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameReading {
    /// The encoding.
    pub encoding: Encoding,
    /// The text.
    pub text: String,
    /// Whether the text is right in all but few cases: it is much likelier than any other, and other names support it.
    pub is_likely: bool,
    /// Other texts with their encodings, the likeliest first.
    pub others: Vec<(Encoding, String)>,
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
    /// How common each pair is among the names.
    shares: Weights,
    counts: EncodingCounts,
    /// Names of the evidence, with earlier ones.
    supporting: EncodingCounts,
    names: usize,
    /// The names to which the mixture was fitted.
    sample: BTreeMap<Vec<u8>, Readings>,
}

/// A reading of a name.
#[derive(Clone, Debug)]
struct Candidate {
    pair: Pair,
    /// The number of its text.
    text: usize,
    /// How well the text fits the language, relative to the best.
    likelihood: f32,
    /// The probability of the reading among all of the name.
    probability: f32,
}

/// The plausible readings of a name.
#[derive(Clone, Debug)]
struct Readings {
    texts: Vec<(Encoding, String)>,
    candidates: Vec<Candidate>,
}

impl Readings {
    /// Computes the probabilities of the readings, if pairs are as common as `share` says.
    fn weigh(&mut self, share: impl Fn(Pair) -> f32) {
        let mut all = 0.0;
        for candidate in &mut self.candidates {
            candidate.probability = share(candidate.pair) * candidate.likelihood;
            all += candidate.probability;
        }
        self.candidates.iter_mut().for_each(|candidate| candidate.probability /= all);
    }

    fn each(&self, mut take: impl FnMut(Pair, f32)) {
        self.candidates.iter().for_each(|candidate| take(candidate.pair, candidate.probability));
    }
}

impl EncodingGuess {
    /// Guesses the encodings of those `names` that need one; `None` if none does. `earlier` are names for which the encodings have
    /// been guessed before, as those of a directory above.
    pub fn for_names<'n>(
        names: impl IntoIterator<Item = &'n [u8]>,
        earlier: &EncodingCounts,
    ) -> Option<Self> {
        let mut names: Vec<&[u8]> = names.into_iter().filter(|name| has_stray_bytes(name)).collect();
        // The guess must not depend on the order of a directory.
        names.sort_unstable();
        let step = names.len().div_ceil(SAMPLE).max(1);
        let mut sample: BTreeMap<Vec<u8>, Readings> =
            names.iter().step_by(step).map(|name| (name.to_vec(), readings(name))).collect();
        if sample.is_empty() {
            return None;
        }
        let (pairs, prior) = prior(sample.values(), earlier);
        let mut counts = Weights::filled(0.0);
        for readings in sample.values_mut() {
            readings.weigh(|pair| prior.of(pair));
            readings.each(|pair, probability| *counts.of_mut(pair) += probability);
        }
        // A name is no evidence for itself: it is read by what the others are, and alone by what is common.
        let others = (sample.len() - 1) as f32 + PRIOR_NAMES;
        for _ in 1..if sample.len() == 1 { 1 } else { ROUNDS } {
            for readings in sample.values_mut() {
                readings.each(|pair, probability| *counts.of_mut(pair) -= probability);
                readings.weigh(|pair| {
                    let share = (counts.of(pair).max(0.0) + PRIOR_NAMES * prior.of(pair)) / others;
                    share.powf(SPARSITY)
                });
                readings.each(|pair, probability| *counts.of_mut(pair) += probability);
            }
        }
        let all = sample.len() as f32 + PRIOR_NAMES;
        let mut shares = Weights::filled(UNSEEN);
        for &pair in &pairs {
            let share = (counts.of(pair).max(0.0) + PRIOR_NAMES * prior.of(pair)) / all;
            *shares.of_mut(pair) = share.powf(SPARSITY);
        }
        let scale = names.len() as f32 / sample.len() as f32;
        let counts = pairs.iter().map(|&pair| (pair, (counts.of(pair) * scale * PARTS).round() as u64));
        let counts = EncodingCounts(counts.filter(|(_, count)| *count > 0).collect());
        let mut supporting = counts.clone();
        supporting.add(earlier);
        Some(Self { shares, counts, supporting, names: names.len(), sample })
    }

    /// How many names are in which encodings.
    pub fn counts(&self) -> &EncodingCounts {
        &self.counts
    }

    /// The number of names that need an encoding.
    pub fn names(&self) -> usize {
        self.names
    }

    /// Decodes `name`, one of the names of which this is the guess; `None` if no encoding can.
    pub fn read(&self, name: &[u8]) -> Option<NameReading> {
        let other;
        let Readings { texts, candidates } = match self.sample.get(name) {
            Some(known) => known,
            None => {
                let mut readings = readings(name);
                readings.weigh(|pair| self.shares.of(pair));
                other = readings;
                &other
            }
        };
        let mut by_text = vec![0.0; texts.len()];
        candidates.iter().for_each(|candidate| by_text[candidate.text] += candidate.probability);
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by(|&a, &b| by_text[b].total_cmp(&by_text[a]));
        let best = *order.first()?;
        // The encodings that give this text, and the most common one of them among the names.
        let same = candidates.iter().filter(|candidate| candidate.text == best);
        let mut same: Vec<u16> = same.map(|candidate| candidate.pair.encoding()).collect();
        same.dedup();
        let number = same
            .iter()
            .copied()
            .max_by(|&a, &b| self.supporting.of(a).total_cmp(&self.supporting.of(b)).then(b.cmp(&a)))?;
        let encoding = tried_encodings()[usize::from(number)].0;
        let support: f32 = same.iter().map(|&encoding| self.supporting.of(encoding)).sum();
        let is_likely = by_text[best] >= LIKELY && support >= ENOUGH_NAMES;
        let text = texts[best].1.clone();
        let others = order.iter().skip(1).take(MAX_OTHERS).map(|&at| texts[at].clone()).collect();
        Some(NameReading { encoding, text, is_likely, others })
    }
}

/// All plausible readings of `name`.
fn readings(name: &[u8]) -> Readings {
    let mut texts: Vec<(Encoding, String)> = Vec::new();
    let mut prepared: Vec<Prepared> = Vec::new();
    let mut encodings = Vec::new();
    for (number, (encoding, _)) in (0..).zip(tried_encodings()) {
        let Some(text) = encoding.read_name(name) else { continue };
        let known = texts.iter().position(|(_, other)| *other == text);
        encodings.push((number, known.unwrap_or(texts.len())));
        if known.is_none() {
            prepared.push(Prepared::new(&text));
            texts.push((*encoding, text));
        }
    }
    // The order makes the first costs low, so that most of the others need not be computed.
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by(|&a, &b| prepared[a].least().total_cmp(&prepared[b].least()));
    let mut best = f32::INFINITY;
    let mut costs: Vec<Vec<(Language, f32)>> = vec![Vec::new(); texts.len()];
    for at in order {
        if prepared[at].least() * WEIGHT_OF_EVIDENCE > best + NEGLIGIBLE {
            break;
        }
        let limit = |best: f32| (best + NEGLIGIBLE) / WEIGHT_OF_EVIDENCE;
        prepared[at].costs(limit(best), |language, cost| {
            let cost = cost * WEIGHT_OF_EVIDENCE;
            best = best.min(cost);
            costs[at].push((language, cost));
            limit(best)
        });
    }
    let mut found = Vec::new();
    for (number, text) in encodings {
        let plausible = costs[text].iter().filter(|(_, cost)| *cost <= best + NEGLIGIBLE);
        found.extend(plausible.map(|&(language, cost)| Candidate {
            pair: Pair::new(number, language),
            text,
            likelihood: (best - cost).exp(),
            probability: 0.0,
        }));
    }
    Readings { texts, candidates: found }
}

/// The pairs in which any name of the sample can be, and how common each is before any name is read.
fn prior<'r>(sample: impl Iterator<Item = &'r Readings>, earlier: &EncodingCounts) -> (Vec<Pair>, Weights) {
    let mut weights = Weights::filled(0.0);
    let mut pairs = Vec::new();
    for Candidate { pair, .. } in sample.flat_map(|readings| &readings.candidates) {
        if weights.of(*pair) == 0.0 {
            *weights.of_mut(*pair) = tried_encodings()[usize::from(pair.encoding())].1;
            pairs.push(*pair);
        }
    }
    pairs.sort_unstable();
    let all: f32 = pairs.iter().map(|&pair| weights.of(pair)).sum();
    let earlier_names = earlier.names();
    // A few earlier names count less than many.
    let weight = WEIGHT_OF_EARLIER * earlier_names / (earlier_names + 1.0);
    for &pair in &pairs {
        let known = earlier.0.get(&pair).map_or(0.0, |&count| count as f32 / PARTS) / earlier_names.max(1.0);
        *weights.of_mut(pair) = (weights.of(pair) / all + weight * known) / (1.0 + weight);
    }
    (pairs, weights)
}

fn tried_encodings() -> &'static [(Encoding, f32)] {
    static PARSED: LazyLock<Vec<(Encoding, f32)>> = LazyLock::new(|| {
        TRIED.iter().map(|(label, weight)| (label.parse().expect("a label"), *weight)).collect()
    });
    &PARSED
}
