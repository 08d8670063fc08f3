//! The nearest known word to a mistyped one.

use std::fmt;

/// A word that names nothing known, and the known word nearest to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    what: &'static str,
    word: String,
    nearest: Option<String>,
}

impl Unknown {
    /// `what` is the kind of thing looked for, such as `rule`; `known` are all its words.
    pub fn new<'k>(what: &'static str, word: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        Self { what, word: word.to_owned(), nearest: nearest(word, known).map(str::to_owned) }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`", self.what, self.word.escape_debug())?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Unknown {}

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
