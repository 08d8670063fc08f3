//! The bytes, code points and normalization forms of names.
//!
//! A *name* is one path component. Nothing here decides whether a name is *allowed*; that is [`crate::policy`].

pub mod age;
pub mod arena;
pub mod casefold;
pub mod confusable;
pub mod context;
pub mod display;
pub mod escape;
pub mod fingerprint;
pub mod misread;
pub mod normalize;
pub mod reading;
pub mod scalar;
pub mod script;
pub mod spelling;
pub mod substitutes;
pub mod ucs4;
pub mod utf8;

/// A half-open range of bytes `start..end` within one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// The span `start..end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The number of bytes.
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether the span has no bytes.
    pub const fn is_empty(self) -> bool {
        self.end == self.start
    }

    /// The bytes of `name` that the span covers.
    ///
    /// # Panics
    /// If the span does not lie within `name`.
    pub fn slice(self, name: &[u8]) -> &[u8] {
        &name[self.start..self.end]
    }
}
