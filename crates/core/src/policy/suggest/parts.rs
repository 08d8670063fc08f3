//! Suggests names for a directory with more names to repair than should be held at a time.
//!
//! A suggested name follows from its name and the encoding of the directory. Only whether it is free depends on the other names, and
//! for that their fingerprints are enough: names whose suggestions may be in use are held and compared, all others are suggested and
//! dropped one by one.

use std::collections::BTreeMap;

use super::{EncodingHint, ImperfectName, SuggestedName, Suggester};
use crate::policy::Policy;

/// Suggests names without regard to the other names of the directory.
#[derive(Debug)]
pub struct PartsSuggester<'p> {
    suggester: Suggester<'p>,
    hint: EncodingHint<'p>,
}

impl Policy {
    /// Starts to suggest names for a directory that comes in parts. Names that are not UTF-8 are decoded as `hint` says.
    pub fn suggest_in_parts<'p>(&'p self, hint: EncodingHint<'p>) -> PartsSuggester<'p> {
        PartsSuggester { suggester: Suggester::new(self), hint }
    }
}

impl PartsSuggester<'_> {
    /// What is known about the encoding of names that are not UTF-8.
    pub fn hint(&self) -> EncodingHint<'_> {
        self.hint
    }

    /// The suggested names for `imperfect`, by the index of each name in `names`.
    pub(crate) fn suggest(
        &self,
        names: &[&[u8]],
        imperfect: &[ImperfectName<'_>],
    ) -> BTreeMap<usize, SuggestedName> {
        self.suggester.suggest_all(names, imperfect, self.hint()).collect()
    }
}
