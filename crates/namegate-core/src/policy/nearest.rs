//! The nearest known word to a mistyped one.

use std::fmt;

use crate::name::display::display;

/// A word that names nothing known, and the known word nearest to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    what: &'static str,
    word: String,
    nearest: Option<String>,
}

impl UnknownWord {
    /// `what` is the kind of thing looked for, such as `rule`; `known` are all its words.
    pub fn new<'k>(what: &'static str, word: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        Self { what, word: word.to_owned(), nearest: nearest(word, known).map(str::to_owned) }
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`", self.what, display(self.word.as_bytes()))?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownWord {}

/// The word of `known` that `word` was probably meant to be; `None` when none is near.
#[cfg(feature = "config")]
fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Below this a suggestion confuses more than it helps; found by trying typing errors on the rule names.
    const NEAR: f64 = 0.75;
    // The distance takes time and memory by the product of the lengths: no known word is anywhere near this long.
    if word.len() > 100 {
        return None;
    }
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(word, k), k))
        .filter(|&(near, _)| near >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

/// Without the feature `config` no word is compared.
#[cfg(not(feature = "config"))]
fn nearest<'k>(_: &str, _: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::display::acts_or_hides;

    #[test]
    fn the_unknown_word_is_escaped_for_display() {
        let error = |word: &str| UnknownWord::new("rule", word, ["trailing-dot"]).to_string();
        assert_eq!(error("a\u{FE00}b"), "unknown rule `a\\u{FE00}b`");
        let hidden = ('\0'..=char::MAX).filter(|&c| acts_or_hides(c));
        for text in hidden.map(|c| error(&format!("a{c}"))) {
            assert!(!text.contains(acts_or_hides), "{text:?}");
        }
    }
}
