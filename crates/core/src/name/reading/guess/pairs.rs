//! Pairs of an explanation and a language.

use super::super::language::{LANES, Language};
use super::tried::{EXPLANATIONS, Number};

/// More languages than there are.
pub(super) const LANGUAGES: u16 = 64;

/// Numbers for the languages from one on.
pub(super) type Lanes = [f32; LANES];

/// How many lanes all pairs fill.
pub(super) const ALL_LANES: usize = EXPLANATIONS * LANGUAGES as usize / LANES;

/// An explanation and a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair(u16);

impl Pair {
    pub(super) fn new(explanation: Number, language: Language) -> Self {
        Self(explanation * LANGUAGES + u16::from(language))
    }

    pub(super) fn explanation(self) -> Number {
        self.0 / LANGUAGES
    }

    pub(super) fn language(self) -> usize {
        usize::from(self.0 % LANGUAGES)
    }

    /// The same language with another explanation.
    pub(super) fn with(self, explanation: Number) -> Self {
        Self(explanation * LANGUAGES + self.0 % LANGUAGES)
    }

    /// The pair so many languages later.
    pub(super) fn plus(self, lane: usize) -> Self {
        Self(self.0 + lane as u16)
    }

    /// The number of the lanes in which it is, among [`ALL_LANES`].
    pub(super) fn lanes(self) -> usize {
        usize::from(self.0) / LANES
    }

    /// Its lane there.
    pub(super) fn lane(self) -> usize {
        usize::from(self.0) % LANES
    }
}
