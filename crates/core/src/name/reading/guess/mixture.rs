//! The mixture of pairs of explanation and language that is fitted to the names of a sample.
//!
//! Of all pairs only those have a weight in which any of the names can be, and explanations that give all names the same texts are one.

use super::super::language::LANES;
use super::counts::EncodingCounts;
use super::pairs::{ALL_LANES, LANGUAGES, Lanes, Pair};
use super::readings::Readings;
use super::tried::{EXPLANATIONS, Number, weight_of};

/// The most rounds in which the mixture is fitted.
const ROUNDS: usize = 10;
/// The mixture fits if a round changes no probability by more than this.
const SETTLED: f32 = 1e-3;
/// The share of a pair in which no name of the sample can be.
const UNSEEN: f32 = 1e-8;
/// What the common encodings count beside the names, in names.
const PRIOR_NAMES: f32 = 1.0;
/// About so many languages are plausible for an explanation.
const MANY_LANGUAGES: f32 = 8.0;
/// What earlier names count beside the common encodings.
const WEIGHT_OF_EARLIER: f32 = 10.0;

/// Names of the sample that differ in numbers only.
#[derive(Clone, Debug)]
pub(super) struct SampledName {
    pub(super) readings: Readings,
    /// The hash of their [words](super::reader::telling_words).
    pub(super) words: u32,
    /// How much they count: a name with a word of its own is one.
    pub(super) count: f32,
    /// The index of their likeliest text.
    pub(super) best: usize,
}

/// The pairs of one explanation with some languages.
#[derive(Clone, Debug)]
struct Slot {
    first: Pair,
    /// How common each pair is before any name is read: 0 if no name can be in it.
    joined: Lanes,
    /// The sum of this over the explanations that give the names the same texts.
    all: Lanes,
    /// How many names are in each.
    count: Lanes,
}

#[derive(Clone, Debug)]
pub(super) struct Mixture {
    slots: Vec<Slot>,
    /// For each explanation: the first of those that give the names the same texts.
    same: [Number; EXPLANATIONS],
    prior: Prior,
    /// The number of names in the sample.
    sampled: f32,
}

impl Mixture {
    /// Fits the mixture to the names of a sample, whose readings get their probabilities. `earlier` are other names, without the words
    /// that names of the sample have.
    pub(super) fn fit(sample: &mut [(Vec<u8>, SampledName)], earlier: EncodingCounts) -> Self {
        let mut names: Vec<&mut SampledName> = sample.iter_mut().map(|(_, name)| name).collect();
        let same = same_explanations(names.iter().map(|name| &name.readings));
        let (mut slots, numbers) = slots(&mut names, &same);
        let prior = Prior::new(&mut slots, &numbers, &same, earlier);
        for SampledName { readings, count, .. } in &mut names {
            readings.weigh(
                &mut *slots,
                |slots, slot, _| slots[slot].joined,
                |slots, slot, change| add(&mut slots[slot].count, *count, change),
            );
        }
        let sampled: f32 = names.iter().map(|name| name.count).sum();
        // A name is no evidence for itself: it is read by what the others are, and alone by what is common.
        for _ in 1..if sampled <= 1.0 { 1 } else { ROUNDS } {
            let change = names.iter_mut().map(|name| read_by_others(name, &mut slots, sampled));
            if change.fold(0.0, f32::max) < SETTLED {
                break;
            }
        }
        Self { slots, same, prior, sampled }
    }

    pub(super) fn earlier(&self) -> &EncodingCounts {
        &self.prior.earlier
    }

    /// How many names are in which pairs, if `scale` stand for each of the sample.
    pub(super) fn counts(&self, scale: f32) -> EncodingCounts {
        let mut names = Vec::new();
        self.each_pair(EncodingCounts::LEAST / scale, |pair, of_pair| names.push((pair, of_pair * scale)));
        EncodingCounts::from_names(names.into_iter())
    }

    /// How common each pair is among the names, in [`ALL_LANES`]: for names that are not in the sample.
    pub(super) fn shares(&self) -> Vec<Lanes> {
        let mut shares = vec![[UNSEEN; LANES]; ALL_LANES];
        let all = self.sampled + PRIOR_NAMES;
        self.each_pair(f32::NEG_INFINITY, |pair, of_pair| {
            let share = (of_pair + PRIOR_NAMES * self.prior.of(pair)) / all;
            shares[pair.lanes()][pair.lane()] = sparse(share);
        });
        shares
    }

    /// How common each language is among the names and earlier ones.
    pub(super) fn languages(&self) -> Vec<f32> {
        /// What a language counts that no name has, in names.
        const RARE: f32 = 0.3;
        /// The most that all earlier names count.
        const MOST_EARLIER: f32 = 8.0;
        let mut languages = vec![RARE; LANGUAGES.into()];
        for Slot { first, count, .. } in &self.slots {
            (0..LANES).for_each(|lane| languages[first.plus(lane).language()] += count[lane].max(0.0));
        }
        let earlier = &self.prior.earlier;
        let weight = MOST_EARLIER / earlier.names().max(MOST_EARLIER);
        earlier.by_pair().for_each(|(pair, names)| languages[pair.language()] += weight * names);
        let all: f32 = languages.iter().sum();
        languages.iter_mut().for_each(|language| *language /= all);
        languages
    }

    /// How common an explanation is that so many earlier names have.
    pub(super) fn prior_of(&self, number: Number, earlier: f32) -> f32 {
        self.prior.scale * weight_of(number) * MANY_LANGUAGES + self.prior.of_earlier * earlier
    }

    /// Whether no explanation before `number` gives all names the same texts.
    pub(super) fn is_first(&self, number: Number) -> bool {
        self.same[usize::from(number)] == number
    }

    /// Calls `take` with each pair in which a name can be, and with the number of its names, unless that is less than `least`. The names do
    /// not tell explanations with the same texts apart, so they count for each as far as it is common.
    fn each_pair(&self, least: f32, mut take: impl FnMut(Pair, f32)) {
        for Slot { first, joined, all, count } in &self.slots {
            for lane in (0..LANES).filter(|&lane| joined[lane] > 0.0 && count[lane] >= least) {
                let (pair, count) = (first.plus(lane), count[lane].max(0.0));
                let same = (0..).zip(&self.same).filter(|(_, same)| **same == first.explanation());
                for (number, _) in same {
                    let pair = pair.with(number);
                    take(pair, count * self.prior.of(pair) / all[lane]);
                }
            }
        }
    }
}

/// How common pairs are before any name is read.
#[derive(Clone, Debug)]
struct Prior {
    /// What the weight of an explanation is multiplied by.
    scale: f32,
    earlier: EncodingCounts,
    /// What an earlier name counts.
    of_earlier: f32,
}

impl Prior {
    /// Sets how common the pairs of `slots` are. `numbers` are the numbers of these.
    fn new(
        slots: &mut [Slot],
        numbers: &SlotNumbers,
        same: &[Number; EXPLANATIONS],
        earlier: EncodingCounts,
    ) -> Self {
        let (mut weights, mut sparse_weights) = ([0.0; EXPLANATIONS], [0.0; EXPLANATIONS]);
        for (number, &first) in (0..).zip(same) {
            weights[usize::from(first)] += weight_of(number);
            sparse_weights[usize::from(first)] += sparse(weight_of(number));
        }
        let weight = |slot: &Slot| weights[usize::from(slot.first.explanation())];
        let plausible = |slot: &Slot| slot.joined.iter().filter(|joined| **joined > 0.0).count();
        let all: f32 = slots.iter().map(|slot| weight(slot) * plausible(slot) as f32).sum();
        let earlier_names = earlier.names();
        // A few earlier names count less than many, and those with the same words not more than one.
        let different = earlier_names.min(earlier.words_of(|_| true));
        let of_all_earlier = WEIGHT_OF_EARLIER * different / (different + 1.0);
        let scale = 1.0 / (all * (1.0 + of_all_earlier));
        let of_earlier = of_all_earlier / ((1.0 + of_all_earlier) * earlier_names.max(1.0));
        let mut before = (Number::MAX, 0.0);
        for slot in &mut *slots {
            let first = slot.first.explanation();
            if before.0 != first {
                before = (first, scale * share_of(sparse_weights[usize::from(first)]));
            }
            let all = scale * weights[usize::from(first)];
            slot.joined = slot.joined.map(|joined| if joined > 0.0 { before.1 } else { 0.0 });
            slot.all = slot.joined.map(|joined| if joined > 0.0 { all } else { 0.0 });
        }
        for (pair, names) in earlier.by_pair() {
            let first = pair.with(same[usize::from(pair.explanation())]);
            let Some(slot) = numbers.get(first).and_then(|at| slots.get_mut(at)) else { continue };
            let lane = first.lane();
            if slot.joined[lane] > 0.0 {
                let base = scale * weight_of(pair.explanation());
                let known = of_earlier * names;
                slot.all[lane] += known;
                let sum = sparse(slot.joined[lane]) + sparse(base + known) - sparse(base);
                slot.joined[lane] = share_of(sum);
            }
        }
        Self { scale, earlier, of_earlier }
    }

    fn of(&self, pair: Pair) -> f32 {
        self.scale * weight_of(pair.explanation()) + self.of_earlier * self.earlier.of(pair)
    }
}

/// The numbers of slots, by the lanes of their pairs.
struct SlotNumbers([u16; ALL_LANES]);

impl SlotNumbers {
    const NONE: u16 = u16::MAX;

    fn get(&self, pair: Pair) -> Option<usize> {
        Some(self.0[pair.lanes()]).filter(|&number| number != Self::NONE).map(usize::from)
    }
}

/// The pairs in which any of `names` can be, whose readings are considered. [`Slot::joined`] is not 0 for these.
fn slots(names: &mut [&mut SampledName], same: &[Number; EXPLANATIONS]) -> (Vec<Slot>, SlotNumbers) {
    let (mut slots, mut numbers) = (Vec::<Slot>::new(), SlotNumbers([SlotNumbers::NONE; ALL_LANES]));
    for name in names {
        name.readings.consider(|first, likelihoods| {
            if same[usize::from(first.explanation())] != first.explanation() {
                return None;
            }
            let number = &mut numbers.0[first.lanes()];
            if *number == SlotNumbers::NONE {
                *number = slots.len() as u16;
                slots.push(Slot { first, joined: [0.0; LANES], all: [0.0; LANES], count: [0.0; LANES] });
            }
            add(&mut slots[usize::from(*number)].joined, 1.0, likelihoods);
            Some(*number)
        });
    }
    (slots, numbers)
}

/// For each explanation: the first of those that give the names the same texts.
fn same_explanations<'r>(names: impl Iterator<Item = &'r Readings>) -> [Number; EXPLANATIONS] {
    /// An odd number, which spreads what it is multiplied with.
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hashes = [0_u64; EXPLANATIONS];
    for (name, readings) in (1_u64..).zip(names) {
        for &(number, text) in &readings.explanations {
            let hash = &mut hashes[usize::from(number)];
            *hash = (hash.rotate_left(23) ^ (name << 16 | u64::from(text))).wrapping_mul(SPREAD);
        }
    }
    std::array::from_fn(|number| {
        let first = hashes[..number].iter().position(|&hash| hash == hashes[number]);
        first.unwrap_or(number) as Number
    })
}

/// Reads a name by what the others are. Returns the greatest change of a probability.
fn read_by_others(name: &mut SampledName, slots: &mut [Slot], sampled: f32) -> f32 {
    let SampledName { readings, count, .. } = name;
    let own = readings.evidence;
    let scale = 1.0 / (sampled - own + PRIOR_NAMES);
    readings.weigh(
        slots,
        |slots, slot, before| {
            let Slot { count: known, joined: prior, .. } = &slots[slot];
            let mut share = [0.0; LANES];
            for lane in 0..LANES {
                let of_others = known[lane] - own * before[lane];
                let of_others = if of_others > 0.0 { of_others } else { 0.0 };
                share[lane] = sparse((of_others + PRIOR_NAMES * prior[lane]) * scale);
            }
            share
        },
        |slots, slot, change| add(&mut slots[slot].count, *count, change),
    )
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
