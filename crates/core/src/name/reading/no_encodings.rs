//! Without the feature `encodings` there are no legacy encodings, so none is guessed or parsed.

use std::borrow::Cow;
use std::str::FromStr;

use super::{Encoding, NotLegacy};

impl Encoding {
    /// None.
    pub fn all() -> impl Iterator<Item = (Self, Vec<String>)> {
        std::iter::empty()
    }

    pub(super) fn nearest_label(_: &str) -> Option<&'static str> {
        None
    }

    /// The name of the encoding in the Encoding Standard.
    pub fn name(self) -> &'static str {
        match self.0 {}
    }

    /// Whether its characters beyond ASCII are mostly Latin letters.
    pub fn is_latin(self) -> bool {
        match self.0 {}
    }

    pub(super) fn is_single_byte(self) -> bool {
        match self.0 {}
    }

    pub(super) fn decode(self, _: &[u8]) -> Option<Cow<'_, str>> {
        match self.0 {}
    }

    pub(crate) fn character(self, _: u8) -> Option<char> {
        match self.0 {}
    }

    pub(crate) fn write(self, _: &str) -> Option<Vec<u8>> {
        match self.0 {}
    }
}

impl FromStr for Encoding {
    type Err = NotLegacy;

    /// Knows no label.
    ///
    /// # Errors
    /// Always.
    fn from_str(label: &str) -> Result<Self, NotLegacy> {
        Err(NotLegacy { label: label.to_owned(), is_known: false })
    }
}

/// The encodings that a guess tries: none.
pub(super) const TRIED: [(&str, f32); 0] = [];

/// No character has a level without the encodings of East Asia.
pub(super) fn each_of_two_levels(_: &str, _: [u8; 2], _: impl FnMut(char, u8)) {}
