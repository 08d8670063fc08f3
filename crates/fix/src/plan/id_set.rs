//! A set of ids of renames.

use std::collections::HashSet;

/// Smaller ids take one bit each. Only a plan that was made by hand has greater ones.
const DENSE: u64 = 1 << 26;

/// A set of ids, small for ids that begin at 1 and have few gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdSet {
    words: Vec<u64>,
    others: HashSet<u64>,
}

impl IdSet {
    const fn bit_of(id: u64) -> (usize, u64) {
        ((id / 64) as usize, 1 << (id % 64))
    }

    /// Adds an id; reports whether it is new.
    pub fn insert(&mut self, id: u64) -> bool {
        if id >= DENSE {
            return self.others.insert(id);
        }
        let (word, bit) = Self::bit_of(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Removes an id.
    pub fn remove(&mut self, id: u64) {
        let (word, bit) = Self::bit_of(id);
        match self.words.get_mut(word).filter(|_| id < DENSE) {
            Some(word) => *word &= !bit,
            None => drop(self.others.remove(&id)),
        }
    }

    /// Adds all ids of another set.
    pub(crate) fn add_all(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, added)| *word |= added);
        self.others.extend(&other.others);
    }

    /// Reports whether the set has the id.
    pub fn contains(&self, id: u64) -> bool {
        let (word, bit) = Self::bit_of(id);
        match id < DENSE {
            true => self.words.get(word).is_some_and(|word| word & bit != 0),
            false => self.others.contains(&id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_size_are_in_the_set_until_they_are_removed() {
        let ids = [1, 63, 64, 1000, DENSE - 1, DENSE, u64::MAX];
        let mut set = IdSet::default();
        for id in ids {
            assert!(!set.contains(id) && set.insert(id) && !set.insert(id) && set.contains(id), "{id}");
        }
        let mut other = IdSet::default();
        other.insert(65);
        other.insert(2);
        set.add_all(&other);
        other.add_all(&set);
        assert!(set.contains(65) && set.contains(2) && set == other);
        set.remove(2);
        for id in ids {
            set.remove(id);
            assert!(!set.contains(id), "{id}");
        }
        set.remove(7);
        assert!(!set.contains(7) && !set.contains(2));
    }
}
