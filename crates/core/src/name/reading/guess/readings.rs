//! All plausible readings of one name, and how probable each is.

use std::ops::Range;

use super::super::language::{LANES, Language};
use super::pairs::{Lanes, Pair};
use super::tried::Number;

/// Where a text of a name comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextOrigin {
    /// The first explanation that gives it.
    pub(super) number: Number,
    /// Whether it has parts in UTF-8 and others in an encoding.
    pub(super) is_mixed: bool,
    /// Which of [`Readings::fits`] are its own.
    pub(super) first_fit: u16,
    pub(super) end_of_fits: u16,
}

impl TextOrigin {
    pub(super) fn new(number: Number, is_mixed: bool) -> Self {
        Self { number, is_mixed, first_fit: 0, end_of_fits: 0 }
    }

    pub(super) fn fits(&self) -> Range<usize> {
        self.first_fit.into()..self.end_of_fits.into()
    }
}

/// How well a text fits some languages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    pub(super) first: Language,
    /// Relative to the best language and text of the name.
    pub(super) likelihoods: Lanes,
}

/// An explanation of a name and some languages.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The index of the pairs among those that are weighed.
    slot: u16,
    /// The number of the [`Fit`].
    fit: u16,
    /// The number of the text.
    text: u16,
    /// The probability of each pair among all readings of the name.
    probabilities: Lanes,
    /// What the probabilities are computed from.
    weights: Lanes,
}

/// The plausible readings of a name.
#[derive(Clone, Debug)]
pub(super) struct Readings {
    pub(super) texts: Vec<TextOrigin>,
    /// The explanations, in order, and the number of the text that each gives.
    pub(super) explanations: Vec<(Number, u16)>,
    pub(super) fits: Vec<Fit>,
    readings: Vec<Reading>,
    /// How much the name says about the other names, from 0 to 1.
    pub(super) evidence: f32,
    /// Whether the name alone shows that it is UTF-8 that was cut.
    pub(super) shows_utf8: bool,
    /// Whether no text of the name can be sure, because its bytes look like no text.
    pub(super) is_odd: bool,
}

impl Readings {
    /// Readings of which none is considered yet.
    pub(super) fn new(texts: Vec<TextOrigin>, explanations: Vec<(Number, u16)>, fits: Vec<Fit>) -> Self {
        let readings = Vec::new();
        Self { texts, explanations, fits, readings, evidence: 1.0, shows_utf8: false, is_odd: false }
    }

    /// Considers the readings by those explanations for whose pairs `slot_of` has a slot. It gets the first of some pairs and how likely
    /// each is.
    pub(super) fn consider(&mut self, mut slot_of: impl FnMut(Pair, &Lanes) -> Option<u16>) {
        self.readings.clear();
        for &(number, text) in &self.explanations {
            for at in self.texts[usize::from(text)].fits() {
                let fit = &self.fits[at];
                let Some(slot) = slot_of(Pair::new(number, fit.first), &fit.likelihoods) else { break };
                let (probabilities, weights) = ([0.0; LANES], [0.0; LANES]);
                self.readings.push(Reading { slot, fit: at as u16, text, probabilities, weights });
            }
        }
    }

    /// Computes the probabilities of the readings, if the pairs of a slot are as common as `share` says, which gets their probabilities
    /// before. `note` gets what the probabilities of these have changed by. Both get `known`. Returns the greatest change.
    pub(super) fn weigh<K: ?Sized>(
        &mut self,
        known: &mut K,
        share: impl Fn(&K, usize, &Lanes) -> Lanes,
        note: impl Fn(&mut K, usize, &Lanes),
    ) -> f32 {
        let mut sums = [0.0; LANES];
        for reading in &mut self.readings {
            reading.weights = share(known, reading.slot.into(), &reading.probabilities);
            let likelihoods = &self.fits[usize::from(reading.fit)].likelihoods;
            for lane in 0..LANES {
                reading.weights[lane] *= likelihoods[lane];
                sums[lane] += reading.weights[lane];
            }
        }
        let all: f32 = sums.iter().sum();
        let scale = if all > 0.0 { 1.0 / all } else { 0.0 };
        let mut greatest = [0.0_f32; LANES];
        for reading in &mut self.readings {
            let mut change = [0.0; LANES];
            for lane in 0..LANES {
                let probability = reading.weights[lane] * scale;
                change[lane] = probability - reading.probabilities[lane];
                reading.probabilities[lane] = probability;
                let size = change[lane].abs();
                greatest[lane] = if size > greatest[lane] { size } else { greatest[lane] };
            }
            note(known, reading.slot.into(), &change);
        }
        greatest.into_iter().fold(0.0, f32::max)
    }

    /// The probabilities and the indexes of the texts, the likeliest first.
    pub(super) fn ranked(&self) -> Vec<(f32, usize)> {
        let mut ranked: Vec<(f32, usize)> = (0..self.texts.len()).map(|at| (0.0, at)).collect();
        for reading in &self.readings {
            ranked[usize::from(reading.text)].0 += reading.probabilities.iter().sum::<f32>();
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked
    }

    /// The explanations that give the text at index `text`.
    pub(super) fn explanations_of(&self, text: usize) -> impl Iterator<Item = Number> {
        self.explanations.iter().filter(move |(_, of)| usize::from(*of) == text).map(|&(number, _)| number)
    }

    /// The index of the text that an explanation gives.
    pub(super) fn text_of(&self, number: Number) -> Option<usize> {
        let at = self.explanations.binary_search_by_key(&number, |(known, _)| *known).ok()?;
        Some(usize::from(self.explanations[at].1))
    }

    /// How likely each text is, as a logarithm, if `languages` says how common the languages are.
    pub(super) fn log_likelihoods(&self, languages: &[f32]) -> Vec<f32> {
        let of_fit = |fit: &Fit| {
            let languages = &languages[usize::from(fit.first)..];
            fit.likelihoods.iter().zip(languages).map(|(likelihood, common)| likelihood * common).sum::<f32>()
        };
        let of_text = |text: &TextOrigin| self.fits[text.fits()].iter().map(of_fit).sum::<f32>().ln();
        self.texts.iter().map(of_text).collect()
    }
}
