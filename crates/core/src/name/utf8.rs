//! Strict UTF-8: RFC 3629's grammar decides, ISO/IEC 10646-1's structure diagnoses.
//!
//! Two separate paths: [`validate`] and [`super::arena`] decide, at the speed of the standard library and of SIMD;
//! [`IllFormedSequences`] is slower and exact, and diagnoses each ill-formed sequence. Nothing here repairs, replaces or accepts
//! anything beyond RFC 3629.
//!
//! ```text
//! UTF8-octets = *( UTF8-char )                                    RFC 3629, section 4
//! UTF8-1      = %x00-7F
//! UTF8-2      = %xC2-DF UTF8-tail
//! UTF8-3      = %xE0 %xA0-BF UTF8-tail / %xE1-EC 2( UTF8-tail ) /
//!               %xED %x80-9F UTF8-tail / %xEE-EF 2( UTF8-tail )
//! UTF8-4      = %xF0 %x90-BF 2( UTF8-tail ) / %xF1-F3 3( UTF8-tail ) / %xF4 %x80-8F 2( UTF8-tail )
//! UTF8-tail   = %x80-BF
//! ```

use std::fmt;

use super::Span;
use super::ucs4::{self, Octet};

/// Why a sequence of bytes is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformation {
    /// `80..BF` where a sequence should begin (Annex R.7, class 2). One violation covers a whole run.
    UnexpectedContinuation,
    /// A lead octet without enough continuation octets (Annex R.7, class 1).
    Truncated,
    /// A longer encoding than the value needs.
    Overlong,
    /// An overlong form of U+0000.
    NulSmuggling,
    /// An overlong form of `/` or `.`.
    SeparatorSmuggling,
    /// A surrogate code point, U+D800..DFFF, on its own.
    Surrogate,
    /// A high surrogate and a low one, three octets each: CESU-8 for one scalar value.
    SurrogatePair,
    /// Four octets above U+10FFFF.
    AboveMax,
    /// A sequence of five or six octets, legal in ISO/IEC 10646-1:1993.
    FiveOrSixOctets,
    /// `FE` or `FF` (Annex R.7, class 3).
    InvalidOctet,
}

/// One ill-formed sequence of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllFormed {
    /// The kind of defect.
    pub kind: Malformation,
    /// The lead octet and the continuation octets that belong to it.
    pub span: Span,
    /// The UCS-4 value that the octets carry by Annex R, if any; for a surrogate pair the scalar value that it encodes.
    pub value: Option<u32>,
}

impl fmt::Display for IllFormed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ill-formed UTF-8 at bytes {}..{}", self.span.start, self.span.end)
    }
}

impl std::error::Error for IllFormed {}

/// Decides whether `name` is UTF-8.
///
/// # Errors
/// The first ill-formed sequence. It starts where [`std::str::Utf8Error::valid_up_to`] says.
///
/// ```
/// use namegate_core::name::utf8::{self, Malformation};
/// assert_eq!(utf8::validate("café".as_bytes()), Ok("café"));
/// let e = utf8::validate(b"caf\xE9.txt").unwrap_err();
/// assert_eq!((e.kind, e.span.start, e.span.end), (Malformation::Truncated, 3, 4));
/// ```
pub fn validate(name: &[u8]) -> Result<&str, IllFormed> {
    // The diagnosis is cold: keeping it out of line keeps the accepting path small.
    std::str::from_utf8(name).map_err(|e| diagnose(name, e.valid_up_to()))
}

/// All ill-formed sequences of `name`, in order.
///
/// ```
/// use namegate_core::name::utf8::{Malformation::*, ill_formed};
/// let kinds: Vec<_> = ill_formed(b"\xC0\xAFa\xED\xA0\x80\xFF").map(|i| i.kind).collect();
/// assert_eq!(kinds, [SeparatorSmuggling, Surrogate, InvalidOctet]);
/// ```
pub fn ill_formed(name: &[u8]) -> IllFormedSequences<'_> {
    IllFormedSequences { name, at: 0 }
}

/// Iterator of [`ill_formed`].
#[derive(Clone, Debug)]
pub struct IllFormedSequences<'n> {
    name: &'n [u8],
    at: usize,
}

impl Iterator for IllFormedSequences<'_> {
    type Item = IllFormed;

    fn next(&mut self) -> Option<IllFormed> {
        let rest = &self.name[self.at..];
        let valid = match std::str::from_utf8(rest) {
            Ok(_) => {
                self.at = self.name.len();
                return None;
            }
            Err(e) => e.valid_up_to(),
        };
        let found = diagnose(self.name, self.at + valid);
        self.at = found.span.end;
        Some(found)
    }
}

/// Splits `name` into its well-formed parts, each with the offset of its first byte; empty parts are left out.
pub fn well_formed_parts(name: &[u8]) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let mut bad = ill_formed(name);
    let mut done = false;
    std::iter::from_fn(move || {
        while !done {
            let (end, next) = match bad.next() {
                Some(i) => (i.span.start, i.span.end),
                None => (name.len(), name.len()),
            };
            done = next == name.len();
            let (start, part) = (at, &name[at..end]);
            at = next;
            if !part.is_empty() {
                let part =
                    std::str::from_utf8(part).expect("what lies between ill-formed sequences is well-formed");
                return Some((start, part));
            }
        }
        None
    })
}

/// Diagnoses the sequence at `at`, which RFC 3629 does not accept.
#[cold]
#[inline(never)]
pub fn diagnose(name: &[u8], at: usize) -> IllFormed {
    let rest = &name[at..];
    let found = |kind, len, value| IllFormed { kind, span: Span::new(at, at + len), value };
    match Octet::classify(rest[0]) {
        Octet::Invalid => found(Malformation::InvalidOctet, 1, None),
        // A run is one finding: readers see one defect, which is often the tail of a truncated sequence.
        Octet::Continuation | Octet::Single => {
            let run = rest.iter().take_while(|&&b| Octet::classify(b) == Octet::Continuation).count();
            found(Malformation::UnexpectedContinuation, run.max(1), None)
        }
        Octet::Lead(_) => match ucs4::decode(rest) {
            None => {
                let tail =
                    rest[1..].iter().take_while(|&&b| Octet::classify(b) == Octet::Continuation).count();
                found(Malformation::Truncated, 1 + tail, None)
            }
            Some((value, len)) => {
                let (kind, len, value) = classify(rest, value, len);
                found(kind, len, Some(value))
            }
        },
    }
}

/// Names the defect of a complete sequence of `len` octets that carries `value`.
fn classify(rest: &[u8], value: u32, len: usize) -> (Malformation, usize, u32) {
    if value < ucs4::min_value(len) {
        let kind = match value {
            0 => Malformation::NulSmuggling,
            0x2E | 0x2F => Malformation::SeparatorSmuggling,
            _ => Malformation::Overlong,
        };
        return (kind, len, value);
    }
    match len {
        3 => match (value, ucs4::decode(&rest[3..])) {
            (0xD800..=0xDBFF, Some((low @ 0xDC00..=0xDFFF, 3))) => {
                (Malformation::SurrogatePair, 6, 0x1_0000 + ((value - 0xD800) << 10) + (low - 0xDC00))
            }
            _ => (Malformation::Surrogate, 3, value),
        },
        4 => (Malformation::AboveMax, 4, value),
        _ => (Malformation::FiveOrSixOctets, len, value),
    }
}

#[cfg(test)]
mod tests;
