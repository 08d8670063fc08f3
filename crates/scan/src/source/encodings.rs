//! What the names of a tree say about the encodings of its other names.
//!
//! A directory with few names that are not UTF-8 is decoded with the names of the nearest directory above as evidence, and, if that leaves
//! doubt, once more with those of the rest of the tree. Scans and plans do the same, so they suggest the same names.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use namegate_core::name::arena::Arena;
use namegate_core::name::reading::{EncodingCounts, EncodingGuess};

use super::{DirectoryBatch, SiblingNames};

/// The names of other directories that are evidence for the encodings of one.
#[derive(Clone, Debug, Default)]
pub struct EarlierNames {
    /// How many of them are in which encodings.
    pub encodings: EncodingCounts,
    /// Where they are, as the end of a sentence; empty if there are none.
    pub place: &'static str,
}

impl EarlierNames {
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }
}

/// The encodings of the names of a tree, as far as they were guessed.
#[derive(Debug, Default)]
pub struct TreeEncodings {
    /// Those of each directory, by the hashes of their paths.
    by_directory: HashMap<u64, EncodingCounts>,
    hash: RandomState,
    all: EncodingCounts,
}

impl TreeEncodings {
    /// Adds those of the directory `dir`, once.
    pub fn add(&mut self, dir: &[u8], encodings: &EncodingCounts) {
        if let Entry::Vacant(entry) = self.by_directory.entry(self.hash.hash_one(dir)) {
            entry.insert(encodings.clone());
            self.all.add(encodings);
        }
    }

    /// The names of the nearest directory above `dir` that has any in legacy encodings, of those that were added.
    pub fn above(&self, dir: &[u8]) -> EarlierNames {
        if self.by_directory.is_empty() {
            return EarlierNames::default();
        }
        let mut above = Path::new(OsStr::from_bytes(dir)).ancestors().skip(1);
        let found = above.find_map(|dir| self.of(dir.as_os_str().as_bytes()));
        found.map_or_else(EarlierNames::default, |encodings| EarlierNames {
            encodings: encodings.clone(),
            place: "in a directory above",
        })
    }

    /// The names of all directories but `dir`; `None` if they are too few to be evidence.
    pub fn elsewhere(&self, dir: &[u8]) -> Option<EarlierNames> {
        let mut encodings = self.all.clone();
        if let Some(own) = self.of(dir) {
            encodings.remove(own);
        }
        (encodings.names() >= 1.0).then_some(EarlierNames { encodings, place: "in the rest of the tree" })
    }

    fn of(&self, dir: &[u8]) -> Option<&EncodingCounts> {
        self.by_directory.get(&self.hash.hash_one(dir))
    }
}

impl DirectoryBatch {
    /// Whether a name to check is not UTF-8.
    pub(crate) fn needs_encodings(&self) -> bool {
        self.names.ill_formed().next().is_some()
    }

    /// Guesses the encodings of the names of the directory, excluded ones too; `None` if all names to check are UTF-8.
    pub fn guess_encodings(&self, earlier: &EncodingCounts) -> Option<EncodingGuess> {
        if !self.needs_encodings() {
            return None;
        }
        let siblings = match &self.siblings {
            SiblingNames::Compared(names) | SiblingNames::Excluded(names) => Some(names),
            SiblingNames::None | SiblingNames::Unknown => None,
        };
        let names = [Some(&self.names), siblings].into_iter().flatten().flat_map(Arena::ill_formed);
        EncodingGuess::for_names(names.map(|(_, name)| name), earlier)
    }
}
