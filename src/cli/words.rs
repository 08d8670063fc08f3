//! Options whose values are the words of an enum of another package.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Reads one of `words`, each with what it means and its help.
pub fn word_parser<T>(words: &'static [(&'static str, T, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let values = words.iter().map(|(word, _, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(|given| {
        let found = words.iter().find(|(word, ..)| *word == given);
        found.map(|&(_, meaning, _)| meaning).ok_or("not one of the words")
    })
}
