//! Whether another explanation than that of a name is nearly as good for the names that share it.
//!
//! A mixture gives nearly all weight to one of two explanations that read most names the same, and the many names hide how few tell them
//! apart. So the two are compared by these few alone, and each context, a character with its neighbours, counts once: a word that stands
//! in many names is one piece of evidence.

use std::collections::{BTreeSet, HashMap};

use super::mixture::SampledName;
use super::readings::Readings;
use super::tried::{Number, reads_differ};
use super::{EncodingGuess, NEGLIGIBLE};

/// An explanation is no rival if it is less likely than the best by more than this, as a logarithm.
const MARGIN: f32 = 4.6;

/// Compares explanations by the names of a guess.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// How common each language is among the names; empty until it is needed.
    languages: Vec<f32>,
    /// How likely each text is, for each name of the sample.
    likelihoods: Vec<Vec<f32>>,
    /// By two explanations.
    compared: HashMap<(Number, Number), Comparison>,
}

/// How much likelier the names are with one explanation than with another one.
#[derive(Debug)]
struct Comparison {
    gain: f32,
    /// What tells the two apart in the names.
    contexts: BTreeSet<u32>,
}

impl Rivals {
    /// Whether a name could also have another text than that at index `best`, which `number` gives: its form is `form`.
    pub(super) fn has_rival(
        &mut self,
        guess: &EncodingGuess,
        form: &[u8],
        readings: &Readings,
        (number, best): (Number, usize),
    ) -> bool {
        if self.languages.is_empty() {
            self.languages = guess.mixture.languages();
            let names = guess.sample.iter().map(|(_, name)| name.readings.log_likelihoods(&self.languages));
            self.likelihoods = names.collect();
        }
        let own = guess.sampled(form).is_none().then(|| readings.log_likelihoods(&self.languages));
        readings.explanations.iter().any(|&(rival, text)| {
            let text = usize::from(text);
            // Explanations that the sample does not tell apart are one rival.
            let is_first = own.is_some() || guess.mixture.is_first(rival);
            if text == best || !is_first {
                return false;
            }
            let Self { likelihoods, compared, .. } = self;
            let known =
                compared.entry((number, rival)).or_insert_with(|| compare(guess, likelihoods, number, rival));
            let own = own.as_ref().map_or(0.0, |own| {
                let contexts: Vec<u32> = contexts(form, number, rival).collect();
                let new = contexts.iter().filter(|context| !known.contexts.contains(context)).count();
                gain(own[best], own[text]) * new as f32 / contexts.len().max(1) as f32
            });
            known.gain + own < MARGIN
        })
    }
}

/// Compares two explanations by the names of the sample whose likeliest text the first one gives. `likelihoods` are those of their texts.
fn compare(guess: &EncodingGuess, likelihoods: &[Vec<f32>], first: Number, second: Number) -> Comparison {
    let prior = guess.prior_of(first) / guess.prior_of(second);
    let mut compared = Comparison { gain: prior.ln(), contexts: BTreeSet::new() };
    for ((form, SampledName { readings, best, .. }), likelihoods) in guess.sample.iter().zip(likelihoods) {
        let second_text = readings.text_of(second);
        if second_text == Some(*best) || readings.text_of(first) != Some(*best) {
            continue;
        }
        let (mut all, mut new) = (0.0, 0.0);
        for context in contexts(form, first, second) {
            all += 1.0;
            new += f32::from(u8::from(compared.contexts.insert(context)));
        }
        if new > 0.0 {
            let of_second = second_text.map_or(f32::NEG_INFINITY, |text| likelihoods[text]);
            compared.gain += gain(likelihoods[*best], of_second) * readings.evidence * new / all;
        }
    }
    compared
}

/// How much likelier a text is than another one.
fn gain(first: f32, second: f32) -> f32 {
    (first - second).clamp(-NEGLIGIBLE, NEGLIGIBLE)
}

/// The bytes of a name that two explanations read differently, each with what is beside it.
fn contexts(form: &[u8], first: Number, second: Number) -> impl Iterator<Item = u32> {
    let beside = |at: Option<usize>| match at.and_then(|at| form.get(at)) {
        Some(byte) if byte.is_ascii_alphabetic() || !byte.is_ascii() => byte.to_ascii_lowercase(),
        _ => 0,
    };
    let differ = move |(_, byte): &(usize, &u8)| !byte.is_ascii() && reads_differ(**byte, first, second);
    form.iter().enumerate().filter(differ).map(move |(at, &byte)| {
        u32::from_be_bytes([0, beside(at.checked_sub(1)), byte, beside(Some(at + 1))])
    })
}
