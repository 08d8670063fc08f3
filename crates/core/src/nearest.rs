//! Suggests the nearest known word for a mistyped one.

use std::fmt;

use crate::name::display::display;

/// An unknown word, such as the name of a rule or a profile, and the nearest known word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    what: &'static str,
    word: String,
    nearest: Option<String>,
}

impl UnknownWord {
    /// An error about `word`. `what` is the kind of word, such as `rule`; `known` are all valid words.
    pub fn new<'k>(what: &'static str, word: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        Self { what, word: word.to_owned(), nearest: nearest(word, known).map(str::to_owned) }
    }

    /// Whether `word` is probably `known`, mistyped: another word with letters in common, such as an option of another program, is not.
    #[cfg(feature = "config")]
    pub fn is_mistyped(word: &str, known: &str) -> bool {
        // In shorter words one letter makes another word: `uid` and `suid`.
        const SHORTEST: usize = 4;
        let longest = word.chars().count().max(known.chars().count());
        word.len() >= SHORTEST && 3 * strsim::osa_distance(word, known) <= longest
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

/// The word of `known` that is nearest to `word`; `None` if none is near.
#[cfg(feature = "config")]
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Below this similarity a suggestion confuses; found by trying typing errors on the rule names.
    const NEAR: f64 = 0.75;
    // The time and memory of the comparison grow with the product of the lengths. No known word is nearly as long.
    if word.len() > 100 {
        return None;
    }
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(word, k), k))
        .filter(|&(near, known)| near >= NEAR && UnknownWord::is_mistyped(word, known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

/// Without the feature `config` no word is suggested.
#[cfg(not(feature = "config"))]
pub(crate) fn nearest<'k>(_: &str, _: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::display::acts_or_hides;

    #[test]
    #[cfg(feature = "config")]
    fn a_mistyped_word_is_recognized_and_another_word_is_not_taken_for_one() {
        let known = [
            "noatime",
            "user",
            "suid",
            "ro",
            "allow-other",
            "enforcing",
            "windows",
            "mount",
            "man",
            "guard",
            "upgrade",
        ];
        for (word, expected) in [
            ("allow-othr", Some("allow-other")),
            ("enforce", Some("enforcing")),
            ("widnows", Some("windows")),
            ("mont", Some("mount")),
            ("upgrad", Some("upgrade")),
            ("nonempty", None),
            ("use_ino", None),
            ("uid", None),
            ("rootcontext", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }

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
