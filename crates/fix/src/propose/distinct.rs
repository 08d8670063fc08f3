//! What many names of a directory have in common is kept once.

use std::collections::HashMap;
use std::hash::Hash;

/// Values that many names have, each once.
#[derive(Debug)]
pub(super) struct Distinct<T>(HashMap<T, u32>);

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Eq + Hash> Distinct<T> {
    /// The number of a value, from 0 in the order in which they come.
    pub(super) fn number(&mut self, value: T) -> u32 {
        let next = u32::try_from(self.0.len()).expect("a directory has fewer names");
        *self.0.entry(value).or_insert(next)
    }

    /// The values in the order of their numbers.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = T> {
        let mut values: Vec<(T, u32)> = self.0.into_iter().collect();
        values.sort_unstable_by_key(|(_, number)| *number);
        values.into_iter().map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_one_number() {
        let mut values = Distinct::default();
        let numbers: Vec<u32> = "abcabd".chars().map(|c| values.number(c)).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1, 3]);
        assert_eq!(values.into_sorted().collect::<String>(), "abcd");
    }
}
