//! The names of a directory by their keys, in little memory: a name takes its bytes, one for its length, an eighth more at
//! most, and 10 to 21 bytes of the table.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;

use hashbrown::HashTable;

use super::NameEquivalence;

/// A name in the index.
#[derive(Clone, Copy, Debug)]
struct IndexedName {
    /// Of its key.
    hash: u32,
    /// Where its length stands.
    at: u32,
}

/// Names by their keys. The keys are computed again to compare them.
#[derive(Debug, Default)]
pub(super) struct SpellingIndex {
    table: HashTable<IndexedName>,
    /// Each name behind a byte with its length.
    names: Vec<u8>,
    /// Bytes of `names` that belong to removed names.
    garbage: usize,
    /// Keys are names that others may choose: nobody can make many of them collide.
    hasher: RandomState,
}

impl SpellingIndex {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.names.capacity() + self.table.allocation_size()
    }

    /// Adds `name`, which has the key `key`; returns whether there was room for it.
    pub(super) fn insert(&mut self, key: &OsStr, name: &OsStr) -> bool {
        let hash = self.hash(key);
        if self.table.find(spread(hash), |entry| self.name(*entry) == name).is_some() {
            return true;
        }
        let (Ok(at), Ok(len)) = (u32::try_from(self.names.len()), u8::try_from(name.len())) else {
            return false;
        };
        if self.names.capacity() - self.names.len() <= name.len() {
            // Doubling would waste half of it.
            self.names.reserve_exact(self.names.len() / 8 + 256);
        }
        self.names.push(len);
        self.names.extend_from_slice(name.as_bytes());
        self.table.insert_unique(spread(hash), IndexedName { hash, at }, |entry| spread(entry.hash));
        true
    }

    /// Removes `name`, which has the key `key`.
    pub(super) fn remove(&mut self, key: &OsStr, name: &OsStr) {
        let (hash, names) = (self.hash(key), &self.names);
        let found = self.table.find_entry(spread(hash), |entry| name_in(names, *entry) == name);
        if let Ok(found) = found {
            found.remove();
            self.garbage += 1 + name.len();
        }
        if self.garbage > self.names.len() / 2 {
            self.compact();
        }
    }

    /// The first name with this key, in byte order.
    pub(super) fn first(&self, equivalence: &dyn NameEquivalence, key: &OsStr) -> Option<&OsStr> {
        let hash = self.hash(key);
        let same = self.table.iter_hash(spread(hash)).filter(|entry| entry.hash == hash);
        same.map(|entry| self.name(*entry)).filter(|name| *equivalence.key(name) == *key).min()
    }

    /// All names.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &OsStr> {
        self.table.iter().map(|entry| self.name(*entry))
    }

    /// Gives the memory of removed names back.
    fn compact(&mut self) {
        let mut names = Vec::with_capacity(self.names.len() - self.garbage);
        for entry in self.table.iter_mut() {
            let name = name_in(&self.names, *entry);
            // It is shorter than before.
            entry.at = names.len() as u32;
            names.push(name.len() as u8);
            names.extend_from_slice(name.as_bytes());
        }
        (self.names, self.garbage) = (names, 0);
    }

    fn name(&self, entry: IndexedName) -> &OsStr {
        name_in(&self.names, entry)
    }

    fn hash(&self, key: &OsStr) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }
}

/// The hash for the table, which uses the lowest and the highest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

fn name_in(names: &[u8], entry: IndexedName) -> &OsStr {
    let at = entry.at as usize;
    OsStr::from_bytes(&names[at + 1..][..names[at].into()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use namegate_core::gate::{Gate, IgnoreCase, Mode};
    use namegate_core::policy::Policy;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The model is a set of names. Few names, so that they meet; many changes, so that removed ones are given back.
        #[test]
        fn the_first_name_with_a_key_is_found_after_any_changes(
            changes in prop::collection::vec((any::<bool>(), "[aAbB]{1,3}"), 1..400),
        ) {
            let policy = Arc::new(Policy::builder().build().unwrap());
            let gate = Gate::new(policy, Mode::Enforcing).with_ignore_case(Some(IgnoreCase::Ntfs));
            let (mut index, mut model) = (SpellingIndex::default(), BTreeSet::new());
            for (is_new, name) in &changes {
                let (key, name) = (name.to_uppercase(), OsStr::new(name));
                match is_new {
                    true => {
                        prop_assert!(index.insert(OsStr::new(&key), name));
                        model.insert(name);
                    }
                    false => {
                        index.remove(OsStr::new(&key), name);
                        model.remove(name);
                    }
                }
                let expected = model.iter().find(|name| name.to_str().unwrap().to_uppercase() == key);
                prop_assert_eq!(index.first(&gate, OsStr::new(&key)), expected.copied());
                prop_assert!(index.names.len() <= 2 * (4 * model.len() + 4), "what is removed is given back");
            }
            prop_assert_eq!(index.iter().collect::<BTreeSet<_>>(), model);
        }
    }
}
