//! Names of a directory that is too large to be held.

use std::collections::BTreeSet;

use super::{needs_guess, without_numbers};
use crate::name::arena::Arena;
use crate::name::escape::stable_hash;

/// The names of a directory that need an encoding: all of them, or some that do not depend on their order.
///
/// ```
/// use namegate_core::name::reading::{EncodingCounts, EncodingGuess, EncodingSample};
/// let mut sample = EncodingSample::default();
/// for name in [&b"r\xE9sum\xE9.txt"[..], b"plain", b"fa\xE7ade.jpg", b"caf\xE9"] {
///     sample.add(name);
/// }
/// let guess = EncodingGuess::for_sample(&sample, &EncodingCounts::default()).unwrap();
/// assert_eq!((guess.names(), &*guess.read(b"caf\xE9").unwrap().text), (3, "café"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct EncodingSample {
    /// Names with their hashes: those with the lowest ones.
    names: BTreeSet<(u64, Box<[u8]>)>,
    /// How many names need an encoding.
    count: usize,
}

/// The number of names that are held.
const MOST_HELD: usize = 4096;

impl EncodingSample {
    /// Adds a name, if it needs an encoding and is not held already.
    pub fn add(&mut self, name: &[u8]) {
        if needs_guess(name).is_none() {
            return;
        }
        let hash = stable_hash(name);
        let is_full = self.names.len() == MOST_HELD;
        let is_left_out = is_full && self.names.last().is_some_and(|(last, _)| *last < hash);
        if !is_left_out && !self.names.insert((hash, name.into())) {
            return;
        }
        self.count += 1;
        if self.names.len() > MOST_HELD {
            self.names.pop_last();
        }
    }

    /// Adds a name, if it needs an encoding and differs from those that are held in more than numbers: a series of photos is no more
    /// evidence than one of them.
    pub fn add_form(&mut self, name: &[u8]) {
        self.add(&without_numbers(name));
    }

    /// Adds those of `names` that need an encoding.
    pub fn add_all(&mut self, names: &Arena) {
        names.ill_formed().for_each(|(_, name)| self.add(name));
    }

    /// The number of names that need an encoding.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The names that are held.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|(_, name)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::reading::{EncodingCounts, EncodingGuess};

    fn sample<'n>(names: impl IntoIterator<Item = &'n Vec<u8>>) -> EncodingSample {
        let mut sample = EncodingSample::default();
        names.into_iter().for_each(|name| sample.add(name));
        sample
    }

    /// Names in ISO-8859-15, and as many that need no encoding.
    fn names(count: usize) -> Vec<Vec<u8>> {
        let forms = [
            &b"Stra\xDFe "[..],
            b"\xDCbersicht ",
            b"caf\xE9 ",
            b"plain ",
            "gut\u{E9} ".as_bytes(),
            b"\xC0\xAF",
        ];
        (0..count).map(|n| [forms[n % 6], n.to_string().as_bytes()].concat()).collect()
    }

    #[test]
    fn all_names_are_held_until_there_are_too_many() {
        for count in [1, 100, 6000] {
            let names = names(count);
            let by_names =
                EncodingGuess::for_names(names.iter().map(Vec::as_slice), &EncodingCounts::default());
            let by_sample = EncodingGuess::for_sample(&sample(&names), &EncodingCounts::default());
            let [by_names, by_sample] = [by_names, by_sample].map(Option::unwrap);
            assert_eq!(format!("{by_sample:?}"), format!("{by_names:?}"), "{count}");
        }
    }

    #[test]
    fn a_sample_does_not_depend_on_the_order_and_counts_all_names() {
        let mut names = names(6 * MOST_HELD);
        let forwards = sample(&names);
        names.reverse();
        let backwards = sample(&names);
        assert_eq!((forwards.names.len(), forwards.count), (MOST_HELD, 3 * MOST_HELD));
        assert_eq!((&forwards.names, forwards.count), (&backwards.names, backwards.count));
        let guess = EncodingGuess::for_sample(&forwards, &EncodingCounts::default()).unwrap();
        assert_eq!(guess.names(), 3 * MOST_HELD);
        let counted = guess.counts().names();
        assert!((counted - 3.0).abs() < 0.1, "three words, however many numbers: {counted}");
    }
}
