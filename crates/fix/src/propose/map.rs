//! Mappings of characters: well-known ones ([`KnownMap`]), and tables of users ([`char_table`](super::char_table)).

use std::fmt;
use std::sync::Arc;

use namegate_core::name::substitutes::{KnownMap, meanings_of_private};
use namegate_core::policy::Confidence;

use super::char_table::CharTable;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharMap {
    /// A well-known mapping.
    Known(KnownMap),
    Table(Arc<CharTable>),
}

impl CharMap {
    /// Reports whether names get private use characters.
    pub fn makes_private_use(&self) -> bool {
        match self {
            Self::Known(known) => known.is_encoding() && known.is_private_use(),
            Self::Table(table) => table.makes_private_use(),
        }
    }

    /// How certain the mapped name for `name` is: only mappings use the private use characters of SMB, but people use the characters of
    /// others, and two characters have another meaning in another mapping.
    pub fn confidence(&self, name: &str) -> Confidence {
        let is_ambiguous = |c: char| meanings_of_private(c).count() > 1;
        match self {
            Self::Known(known) if known.is_private_use() && !name.contains(is_ambiguous) => {
                Confidence::Certain
            }
            Self::Known(_) | Self::Table(_) => Confidence::Likely,
        }
    }

    /// The mapped name; `None` if no character is mapped.
    pub fn apply(&self, name: &str) -> Option<String> {
        match self {
            Self::Known(known) => known.apply(name),
            Self::Table(table) => table.apply(name),
        }
    }
}

impl fmt::Display for CharMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(known) => write!(f, "{known}"),
            Self::Table(table) => write!(f, "{table}"),
        }
    }
}
