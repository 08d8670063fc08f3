//! Suggests names for a directory with more names to repair than should be held at a time.
//!
//! A suggested name follows from its name and the encoding of the directory. Only whether it is free depends on the other names, and
//! for that their fingerprints are enough: names whose suggestions may be in use are held and compared, all others are suggested and
//! dropped one by one.

use std::collections::BTreeMap;

use super::{EncodingHint, ImperfectName, SuggestedName, Suggester};
use crate::name::arena::Arena;
use crate::name::reading::{Encoding, EncodingCounts, EncodingGuess};
use crate::policy::{Policy, UsedFingerprints};

/// Suggests names without regard to the other names of the directory.
#[derive(Debug)]
pub struct PartsSuggester<'p> {
    suggester: Suggester<'p>,
    encoding: Option<Encoding>,
    guess: Option<EncodingGuess>,
}

impl Policy {
    /// Starts to suggest names for a directory that comes in parts. Names that are not UTF-8 are decoded in `encoding`; without one
    /// the encoding is guessed from `sample`, names of the directory that are not UTF-8.
    pub fn suggest_in_parts(&self, encoding: Option<Encoding>, sample: &Arena) -> PartsSuggester<'_> {
        let names = || sample.iter().map(|(_, name)| name);
        let guess = match encoding {
            Some(_) => None,
            None => EncodingGuess::for_names(names(), &EncodingCounts::default()),
        };
        PartsSuggester { suggester: Suggester::new(self), encoding, guess }
    }
}

impl PartsSuggester<'_> {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        self.suggester.policy
    }

    /// What is known about the encoding of names that are not UTF-8.
    pub fn hint(&self) -> EncodingHint<'_> {
        let given = self.encoding.map_or(EncodingHint::Unknown, EncodingHint::Given);
        self.guess.as_ref().map_or(given, EncodingHint::Guessed)
    }

    /// The suggested names for `imperfect`, by the index of each name in `names`.
    pub(crate) fn suggest(
        &self,
        names: &[&[u8]],
        imperfect: &[ImperfectName<'_>],
    ) -> BTreeMap<usize, SuggestedName> {
        self.suggester.suggest_all(names, imperfect, self.hint()).collect()
    }

    /// Whether `suggested` may equal the suggested name or the name of another entry than `name`; `false` is certain. `used` has all
    /// fingerprints.
    pub fn may_be_contested(&self, used: &UsedFingerprints, name: &[u8], suggested: &str) -> bool {
        let policy = self.suggester.policy;
        let own = std::str::from_utf8(name).ok();
        let mut is_contested = false;
        policy.each_number(suggested, |number| {
            let mut is_own = false;
            own.inspect(|own| policy.each_number(own, |other| is_own |= other == number));
            is_contested |=
                used.count_suggested(number) > 1 || used.count_existing(number) > usize::from(is_own);
        });
        is_contested
    }
}
