//! Guesses the legacy encodings of names.
//!
//! Names of one directory can be in several encodings, so the names are not forced into one: a mixture of pairs of encoding and
//! language is fitted to them by expectation maximization, and each name is read in the encoding that explains it best, given the
//! others. Encodings that give a name the same text count together.

mod reader;
mod sample;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use self::reader::GuessReader;
use self::reader::without_numbers;
pub use self::sample::EncodingSample;
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
/// The mixture fits if a round changes no probability by more than this.
const SETTLED: f32 = 1e-4;
/// The share of a pair in which no name of the sample can be.
const UNSEEN: f32 = 1e-8;
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

    fn index(self) -> usize {
        usize::from(self.0)
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
        self.0[pair.index()]
    }

    fn of_mut(&mut self, pair: Pair) -> &mut f32 {
        &mut self.0[pair.index()]
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
        let number = (0..).zip(tried_encodings()).find(|(_, tried)| tried.encoding == encoding);
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
    /// Encodings that give other texts, the likeliest first. [`Encoding::read_name`] gives the texts.
    pub others: Vec<Encoding>,
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
    /// The number of names in each encoding, with earlier ones.
    supporting: Vec<f32>,
    names: usize,
    /// The names to which the mixture was fitted, [without numbers](without_numbers).
    sample: BTreeMap<Vec<u8>, SampledName>,
}

/// Names of the sample that differ in numbers only.
#[derive(Clone, Debug)]
struct SampledName {
    readings: Readings,
    /// How many there are.
    count: f32,
}

/// A reading of a name.
#[derive(Clone, Debug)]
struct Candidate {
    pair: Pair,
    /// The number of its text.
    text: u16,
    /// How well the text fits the language, relative to the best.
    likelihood: f32,
    /// The probability of the reading among all of the name.
    probability: f32,
}

/// The plausible readings of a name.
#[derive(Clone, Debug)]
struct Readings {
    /// The number of the first encoding that gives each text.
    texts: Vec<u16>,
    candidates: Vec<Candidate>,
}

impl Readings {
    /// Computes the probabilities of the readings, if pairs are as common as `share` says, which also gets the probability before.
    /// `note` gets the probability of each pair before and after. Returns the greatest change. `weights` is overwritten.
    fn weigh(
        &mut self,
        weights: &mut Vec<f32>,
        share: impl Fn(Pair, f32) -> f32,
        mut note: impl FnMut(Pair, f32, f32),
    ) -> f32 {
        weights.clear();
        let weight =
            |candidate: &Candidate| share(candidate.pair, candidate.probability) * candidate.likelihood;
        weights.extend(self.candidates.iter().map(weight));
        let all: f32 = weights.iter().sum();
        let mut change = 0.0_f32;
        for (candidate, weight) in self.candidates.iter_mut().zip(weights) {
            let before = std::mem::replace(&mut candidate.probability, *weight / all);
            change = change.max((candidate.probability - before).abs());
            note(candidate.pair, before, candidate.probability);
        }
        change
    }
}

impl EncodingGuess {
    /// Guesses the encodings of those `names` that need one; `None` if none does. `earlier` are names for which the encodings have
    /// been guessed before, as those of a directory above.
    pub fn for_names<'n>(
        names: impl IntoIterator<Item = &'n [u8]>,
        earlier: &EncodingCounts,
    ) -> Option<Self> {
        let names: Vec<&[u8]> = names.into_iter().filter(|name| has_stray_bytes(name)).collect();
        let count = names.len();
        Self::fit(names, count, earlier)
    }

    /// [`EncodingGuess::for_names`] for the names of a sample.
    pub fn for_sample(sample: &EncodingSample, earlier: &EncodingCounts) -> Option<Self> {
        Self::fit(sample.names().collect(), sample.count(), earlier)
    }

    /// Fits the mixture to some of `count` names.
    fn fit(mut names: Vec<&[u8]>, count: usize, earlier: &EncodingCounts) -> Option<Self> {
        // The guess must not depend on the order of a directory.
        names.sort_unstable();
        let step = names.len().div_ceil(SAMPLE).max(1);
        let (mut sample, mut sampled) = (BTreeMap::new(), 0);
        for name in names.iter().step_by(step) {
            let known = sample.entry(without_numbers(name));
            known.or_insert_with(|| SampledName { readings: readings(name), count: 0.0 }).count += 1.0;
            sampled += 1;
        }
        if sample.is_empty() {
            return None;
        }
        let (pairs, prior) = prior(sample.values().map(|name| &name.readings), earlier);
        let (mut counts, mut weights) = (Weights::filled(0.0), Vec::new());
        for SampledName { readings, count } in sample.values_mut() {
            readings.weigh(
                &mut weights,
                |pair, _| prior.of(pair),
                |pair, _, now| *counts.of_mut(pair) += *count * now,
            );
        }
        // A name is no evidence for itself: it is read by what the others are, and alone by what is common.
        let others = (sampled - 1) as f32 + PRIOR_NAMES;
        for _ in 1..if sampled == 1 { 1 } else { ROUNDS } {
            let mut change = 0.0_f32;
            for SampledName { readings, count } in sample.values_mut() {
                let known = Cell::from_mut(&mut counts.0[..]).as_slice_of_cells();
                let of_name = readings.weigh(
                    &mut weights,
                    |pair, before| {
                        let of_others = known[pair.index()].get() - *count * before + (*count - 1.0) * before;
                        sparse((of_others.max(0.0) + PRIOR_NAMES * prior.of(pair)) / others)
                    },
                    |pair, before, now| {
                        let known = &known[pair.index()];
                        known.set(known.get() - *count * before + *count * now);
                    },
                );
                change = change.max(of_name);
            }
            if change < SETTLED {
                break;
            }
        }
        let all = sampled as f32 + PRIOR_NAMES;
        let mut shares = Weights::filled(UNSEEN);
        for &pair in &pairs {
            let share = (counts.of(pair).max(0.0) + PRIOR_NAMES * prior.of(pair)) / all;
            *shares.of_mut(pair) = sparse(share);
        }
        let scale = count as f32 / sampled as f32;
        let counts = pairs.iter().map(|&pair| (pair, (counts.of(pair) * scale * PARTS).round() as u64));
        let counts = EncodingCounts(counts.filter(|(_, count)| *count > 0).collect());
        let of_encoding = |number: u16| counts.of(number) + earlier.of(number);
        let supporting = (0..TRIED.len() as u16).map(of_encoding).collect();
        Some(Self { shares, counts, supporting, names: count, sample })
    }

    /// How many names are in which encodings.
    pub fn counts(&self) -> &EncodingCounts {
        &self.counts
    }

    fn support(&self, encoding: u16) -> f32 {
        self.supporting[usize::from(encoding)]
    }

    /// The number of names that need an encoding.
    pub fn names(&self) -> usize {
        self.names
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

    fn choose(&self, Readings { texts, candidates }: &Readings) -> Option<Choice> {
        let mut by_text = vec![0.0; texts.len()];
        candidates.iter().for_each(|candidate| by_text[usize::from(candidate.text)] += candidate.probability);
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by(|&a, &b| by_text[b].total_cmp(&by_text[a]));
        let best = *order.first()?;
        // The encodings that give this text, and the most common one of them among the names.
        let same = candidates.iter().filter(|candidate| usize::from(candidate.text) == best);
        let mut same: Vec<u16> = same.map(|candidate| candidate.pair.encoding()).collect();
        same.dedup();
        let number = same
            .iter()
            .copied()
            .max_by(|&a, &b| self.support(a).total_cmp(&self.support(b)).then(b.cmp(&a)))?;
        let encoding = tried_encodings()[usize::from(number)].encoding;
        let support: f32 = same.iter().map(|&encoding| self.support(encoding)).sum();
        let is_likely = by_text[best] >= LIKELY && support >= ENOUGH_NAMES;
        let others = order.iter().skip(1).take(MAX_OTHERS);
        let others = others.map(|&at| tried_encodings()[usize::from(texts[at])].encoding).collect();
        Some(Choice { encoding, is_likely, others })
    }
}

/// The encoding in which a name is read: [`NameReading`] without the text.
#[derive(Clone, Debug)]
struct Choice {
    encoding: Encoding,
    is_likely: bool,
    others: Vec<Encoding>,
}

/// The weight of an encoding that is as common as `share` says: lower where it is rare, because the names of a directory are
/// rarely in more than one or two encodings.
fn sparse(share: f32) -> f32 {
    share * share.sqrt()
}

/// A text that a name can be.
enum Text<'t> {
    /// Each byte is a character. The table has those of 80..FF.
    Bytewise(&'t [char; 128]),
    Decoded(String, Prepared),
}

/// All plausible readings of `name`.
fn readings(name: &[u8]) -> Readings {
    // Well-formed sequences of several bytes may stay what they are.
    let is_bytewise = name.utf8_chunks().all(|chunk| chunk.valid().is_ascii());
    let mut beyond: Vec<usize> =
        name.iter().filter_map(|byte| byte.checked_sub(0x80)).map(usize::from).collect();
    beyond.sort_unstable();
    beyond.dedup();
    let character = |table: &[char; 128], byte: u8| match byte.checked_sub(0x80) {
        None => char::from(byte),
        Some(at) => table[usize::from(at)],
    };
    let mut texts: Vec<(u16, Text<'_>)> = Vec::new();
    let mut encodings = Vec::new();
    for (number, tried) in (0..).zip(tried_encodings()) {
        let (text, known) = match &tried.characters {
            Some(table) if is_bytewise => {
                if beyond.iter().any(|&at| table[at] == NO_CHARACTER) {
                    continue;
                }
                let is_same = |text: &Text<'_>| match text {
                    Text::Bytewise(other) => beyond.iter().all(|&at| other[at] == table[at]),
                    Text::Decoded(other, _) => {
                        name.iter().map(|&byte| character(table, byte)).eq(other.chars())
                    }
                };
                (Ok(table), texts.iter().position(|(_, text)| is_same(text)))
            }
            _ => {
                let Some(text) = tried.encoding.read_name(name) else { continue };
                let is_same = |other: &Text<'_>| match other {
                    Text::Bytewise(table) => name.iter().map(|&byte| character(table, byte)).eq(text.chars()),
                    Text::Decoded(other, _) => *other == text,
                };
                let known = texts.iter().position(|(_, other)| is_same(other));
                (Err(text), known)
            }
        };
        encodings.push((number, known.unwrap_or(texts.len())));
        if known.is_none() {
            let text = match text {
                Ok(table) => Text::Bytewise(table),
                Err(text) => {
                    let prepared = Prepared::for_text(&text);
                    Text::Decoded(text, prepared)
                }
            };
            texts.push((number, text));
        }
    }
    let mut bytewise = Prepared::for_bytes(name);
    let mut with = |text: &mut Text<'_>, compare: &mut dyn FnMut(&mut Prepared)| match text {
        Text::Bytewise(table) => {
            bytewise.set_beyond(|at| character(table, name[at]));
            compare(&mut bytewise);
        }
        Text::Decoded(_, prepared) => compare(prepared),
    };
    let mut order = Vec::with_capacity(texts.len());
    for (at, (_, text)) in texts.iter_mut().enumerate() {
        with(text, &mut |prepared| order.push((prepared.least(), at)));
    }
    // The order makes the first costs low, so that most of the others need not be computed.
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut best = f32::INFINITY;
    let mut costs: Vec<(Language, f32)> = Vec::new();
    // The costs of each text.
    let mut of_text = vec![0..0; texts.len()];
    for (least, at) in order {
        if least * WEIGHT_OF_EVIDENCE > best + NEGLIGIBLE {
            break;
        }
        let limit = |best: f32| (best + NEGLIGIBLE) / WEIGHT_OF_EVIDENCE;
        let first = costs.len();
        with(&mut texts[at].1, &mut |prepared| {
            prepared.costs(least, limit(best), |language, cost| {
                let cost = cost * WEIGHT_OF_EVIDENCE;
                best = best.min(cost);
                costs.push((language, cost));
                limit(best)
            });
        });
        of_text[at] = first..costs.len();
    }
    let mut found = Vec::new();
    for (number, text) in encodings {
        let plausible = costs[of_text[text].clone()].iter().filter(|(_, cost)| *cost <= best + NEGLIGIBLE);
        found.extend(plausible.map(|&(language, cost)| Candidate {
            pair: Pair::new(number, language),
            text: text as u16,
            likelihood: (best - cost).exp(),
            probability: 0.0,
        }));
    }
    Readings { texts: texts.iter().map(|&(number, _)| number).collect(), candidates: found }
}

/// The pairs in which any name of the sample can be, and how common each is before any name is read.
fn prior<'r>(sample: impl Iterator<Item = &'r Readings>, earlier: &EncodingCounts) -> (Vec<Pair>, Weights) {
    let mut weights = Weights::filled(0.0);
    let mut pairs = Vec::new();
    for Candidate { pair, .. } in sample.flat_map(|readings| &readings.candidates) {
        if weights.of(*pair) == 0.0 {
            *weights.of_mut(*pair) = tried_encodings()[usize::from(pair.encoding())].weight;
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

/// An encoding that a guess tries.
struct TriedEncoding {
    encoding: Encoding,
    /// How common names in it are compared to the others.
    weight: f32,
    /// The characters of the bytes 80..FF, if each byte is a character, and [`NO_CHARACTER`] for bytes that cannot be read.
    characters: Option<Box<[char; 128]>>,
}

/// In a table of the characters beyond ASCII.
const NO_CHARACTER: char = '\0';

impl TriedEncoding {
    fn new(label: &str, weight: f32) -> Self {
        let encoding: Encoding = label.parse().expect("a label");
        let character = |at: usize| {
            let text = encoding.read(&[0x80 + at as u8]);
            text.and_then(|text| text.chars().next()).unwrap_or(NO_CHARACTER)
        };
        let characters = encoding.is_bytewise().then(|| Box::new(std::array::from_fn(character)));
        Self { encoding, weight, characters }
    }
}

fn tried_encodings() -> &'static [TriedEncoding] {
    static TRIED_ENCODINGS: LazyLock<Vec<TriedEncoding>> =
        LazyLock::new(|| TRIED.iter().map(|(label, weight)| TriedEncoding::new(label, *weight)).collect());
    &TRIED_ENCODINGS
}
