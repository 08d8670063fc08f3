//! Mappings of characters: well-known ones ([`KnownMap`]), and tables of users ([`char_table`](super::char_table)).

use std::fmt;
use std::sync::Arc;

use super::char_table::CharTable;
use crate::name::substitutes::KnownMap;
use crate::policy::Confidence;

/// A mapping of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharMap {
    /// A well-known mapping.
    Known(KnownMap),
    /// A table of the user.
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

    /// How certain a mapped name is: only mappings use the private use characters of SMB, but people use the characters of others.
    pub fn confidence(&self) -> Confidence {
        match self {
            Self::Known(known) if known.is_private_use() => Confidence::Certain,
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
