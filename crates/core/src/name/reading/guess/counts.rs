//! How many names are in which encodings: the evidence for other names.

use std::collections::BTreeSet;

use super::super::Encoding;
use super::pairs::Pair;
use super::tried::{EXPLANATIONS, Number, tried_encodings};

/// How many names are in which encodings and languages, as far as they were guessed: the evidence for other names. Those of one
/// directory that have the same words beyond ASCII count once.
#[derive(Clone, Debug, Default)]
pub struct EncodingCounts {
    /// In the order of the pairs.
    names: Vec<(Pair, u64)>,
    /// The explanations that give the likeliest texts of the names, with hashes of the words of these: the lowest ones of each, in
    /// order. A word is no more evidence if other directories have it too.
    words: Vec<(Number, u32)>,
}

/// Counts are in these parts of a name, so that sums do not depend on their order.
const PARTS: f32 = 256.0;

/// The number of hashes that are kept for an explanation: more words are not needed to support it.
const MOST_WORDS: usize = 8;

impl EncodingCounts {
    /// A pair with less of a name counts nothing.
    pub(super) const LEAST: f32 = 0.5 / PARTS;

    /// Adds the names of `other`.
    pub fn add(&mut self, other: &Self) {
        for &(pair, count) in &other.names {
            match self.names.binary_search_by_key(&pair, |(known, _)| *known) {
                Ok(at) => self.names[at].1 += count,
                Err(at) => self.names.insert(at, (pair, count)),
            }
        }
        other.words.iter().for_each(|&(number, words)| self.add_words(number, words));
    }

    /// Counts `names`, by pairs that are all different.
    pub(super) fn from_names(names: impl Iterator<Item = (Pair, f32)>) -> Self {
        let names = names.filter(|(_, count)| *count >= Self::LEAST);
        let mut names: Vec<_> = names.map(|(pair, count)| (pair, (count * PARTS).round() as u64)).collect();
        names.sort_unstable();
        Self { names, words: Vec::new() }
    }

    pub(super) fn add_words(&mut self, number: Number, words: u32) {
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
            if let Ok(at) = self.names.binary_search_by_key(pair, |(known, _)| *known) {
                self.names[at].1 = self.names[at].1.saturating_sub(*count);
            }
        }
        self.names.retain(|(_, count)| *count > 0);
    }

    /// Keeps the words for which `is_kept` says so.
    pub(super) fn retain_words(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.words.retain(|&(_, words)| is_kept(words));
    }

    /// The number of names.
    pub fn names(&self) -> f32 {
        self.names.iter().map(|(_, count)| count).sum::<u64>() as f32 / PARTS
    }

    /// The number of names in `encoding`.
    pub fn names_in(&self, encoding: Encoding) -> f32 {
        let number = tried_encodings().iter().position(|tried| tried.encoding == encoding);
        number.map_or(0.0, |number| self.by_explanation()[number])
    }

    /// Each pair with the number of its names.
    pub(super) fn by_pair(&self) -> impl Iterator<Item = (Pair, f32)> {
        self.names.iter().map(|&(pair, count)| (pair, count as f32 / PARTS))
    }

    /// The number of names with `pair`.
    pub(super) fn of(&self, pair: Pair) -> f32 {
        let found = self.names.binary_search_by_key(&pair, |(known, _)| *known);
        found.map_or(0.0, |at| self.names[at].1 as f32 / PARTS)
    }

    /// The number of names by explanation.
    pub(super) fn by_explanation(&self) -> Vec<f32> {
        let mut names = vec![0; EXPLANATIONS];
        for (pair, count) in &self.names {
            names[usize::from(pair.explanation())] += count;
        }
        names.into_iter().map(|count: u64| count as f32 / PARTS).collect()
    }

    /// The number of different words of the names with an explanation that `is_asked`, as far as they are kept.
    pub(super) fn words_of(&self, is_asked: impl Fn(Number) -> bool) -> f32 {
        let words = self.words.iter().filter(|(number, _)| is_asked(*number));
        words.map(|(_, words)| words).collect::<BTreeSet<_>>().len() as f32
    }
}
