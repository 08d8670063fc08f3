//! Names of clients and stored names of a gate that encodes: a bijection.
//!
//! A character that the policy refuses is stored as its substitute. What would be taken for a substitute or for a quote gets the quote
//! U+201B in front, as rclone writes it. So every name of a client has one stored name, and gets it back. A stored name is *canonical* if
//! a client's name is stored so: `encode(decode(s)) == s`. Others exist because a program wrote them into the source: `a:b`, or a quote
//! that quotes nothing. They are shown [escaped](crate::name::escape).
//!
//! In rclone (lib/encoder/encoder.go, commit 64ab1ac32260) `␀` and `／` stand for NUL and `/`, which no name of a client can have. They stay as
//! they are, quoted or not, as in a copy by rclone from or to a plain Linux directory. rclone decodes a last space or dot before the quotes in
//! front of it, so of `a‛‛␠` it makes `a‛␠`; here it is `a‛` and a space.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use super::{Gate, Mode, bytes};
use crate::name::Span;
use crate::name::casefold::has_other_spellings;
use crate::name::normalize::{Form, to_form};
use crate::name::substitutes::{KnownMap, QUOTE};
use crate::policy::rule::Severity;
use crate::policy::{Policy, Verdict, Violation};

/// What stands for NUL and `/` in rclone.
const NEVER_DECODED: [char; 2] = ['␀', '／'];

/// The mapping of a gate that encodes: those characters of a table that the policy refuses, and whose substitutes it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameEncoder {
    map: KnownMap,
    /// The ASCII characters that are encoded wherever they are, one bit each.
    anywhere: u128,
    /// Those that are encoded at the end of a name.
    at_end: u128,
}

/// Why a gate cannot encode with a table of substitutes under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodingConflict {
    /// The policy refuses no character that the table has.
    Nothing(KnownMap),
    /// The policy refuses characters that the table has, and all of their substitutes.
    Refused(KnownMap),
    /// The normalization form changes a substitute, or another name into one.
    Unstable(KnownMap, Form),
    /// A substitute is a letter, and case is ignored: it would be another name's letter in another case.
    Letter(KnownMap),
}

impl NameEncoder {
    /// The mapping by `map` under `policy`.
    fn new(policy: &Policy, map: KnownMap) -> Result<Self, EncodingConflict> {
        let (mut encoder, mut is_refused) = (Self { map, anywhere: 0, at_end: 0 }, false);
        // Whether the character itself is refused: a policy may refuse the whole name.
        let refuses = |c: char, rest| {
            let (name, span) = (format!("a{c}{rest}"), Span::new(1, 1 + c.len_utf8()));
            let is_it = |found: &Violation| found.severity == Severity::Error && found.span == span;
            policy.check(name.as_bytes()).violations.iter().any(is_it)
        };
        for (rest, encoded) in [("b", &mut encoder.anywhere), ("", &mut encoder.at_end)] {
            for c in '\0'..='\x7F' {
                let Some(substitute) = map.substitute(c, rest.is_empty()) else { continue };
                if !refuses(c, rest) {
                    continue;
                }
                is_refused = true;
                if let Some(form) = policy.normalization().map(|normalization| normalization.form)
                    && !is_stable(substitute, form)
                {
                    return Err(EncodingConflict::Unstable(map, form));
                }
                if !refuses(substitute, rest) {
                    *encoded |= 1 << u32::from(c);
                }
            }
        }
        match encoder.anywhere | encoder.at_end {
            0 if is_refused => Err(EncodingConflict::Refused(map)),
            0 => Err(EncodingConflict::Nothing(map)),
            _ => Ok(encoder),
        }
    }

    /// What is stored instead of `c`.
    fn substitute(&self, c: char, is_last: bool) -> Option<char> {
        let encoded = if is_last { self.at_end } else { self.anywhere };
        let is_encoded = c.is_ascii() && encoded >> u32::from(c) & 1 == 1;
        is_encoded.then(|| self.map.substitute(c, is_last)).flatten()
    }

    /// The character of which `c` is the substitute.
    fn substituted(&self, c: char, is_last: bool) -> Option<char> {
        let meant = if c.is_ascii() { None } else { self.map.substituted(c, is_last) };
        meant.filter(|&meant| self.substitute(meant, is_last).is_some())
    }

    /// The characters of `name`, each with its offset, the quote in front of what is stored, and what is stored.
    fn pieces<'n>(&self, name: &'n str) -> impl Iterator<Item = (usize, Option<char>, char)> + use<'n, '_> {
        name.char_indices().map(|(at, c)| {
            let rest = &name[at + c.len_utf8()..];
            match self.substitute(c, rest.is_empty()) {
                Some(substitute) => (at, None, substitute),
                None => (at, self.is_quoted(c, rest).then_some(QUOTE), c),
            }
        })
    }

    /// Whether `c` of a client's name, with `rest` behind it, is stored with a quote.
    fn is_quoted(&self, c: char, rest: &str) -> bool {
        match c {
            QUOTE => !rest.starts_with(NEVER_DECODED),
            _ => self.substituted(c, rest.is_empty()).is_some(),
        }
    }

    /// The name under which `name` is stored.
    pub(super) fn encode<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let encoded = || self.pieces(name).flat_map(|(_, quote, c)| quote.into_iter().chain([c]));
        if encoded().eq(name.chars()) { Cow::Borrowed(name) } else { Cow::Owned(encoded().collect()) }
    }

    /// The bytes of `name` that are stored as `span`.
    pub(super) fn span_in(&self, name: &str, span: Span) -> Span {
        let (mut stored, mut given) = (0, Span::new(0, name.len()));
        for (at, quote, c) in self.pieces(name) {
            if stored <= span.start {
                given.start = at;
            }
            if stored >= span.end {
                return Span::new(given.start, at);
            }
            stored += quote.map_or(0, char::len_utf8) + c.len_utf8();
        }
        given
    }

    /// The first character of a client's name that is stored as `stored`, and how many bytes are stored for it; `None` if no name is
    /// stored with this beginning.
    fn first(&self, stored: &str) -> Option<(char, usize)> {
        let mut chars = stored.chars();
        let first = chars.next()?;
        let rest = chars.as_str();
        if first != QUOTE {
            let is_last = rest.is_empty();
            let meant = self.substituted(first, is_last).unwrap_or(first);
            return self.substitute(first, is_last).is_none().then_some((meant, first.len_utf8()));
        }
        let second = chars.next()?;
        if NEVER_DECODED.contains(&second) {
            return Some((first, first.len_utf8()));
        }
        self.is_quoted(second, chars.as_str()).then_some((second, first.len_utf8() + second.len_utf8()))
    }

    /// The client's name that is stored as `stored`; `None` if that is not canonical.
    pub(super) fn decode<'n>(&self, stored: &'n str) -> Option<Cow<'n, str>> {
        let (mut name, mut rest) = (String::new(), stored);
        while !rest.is_empty() {
            let (c, len) = self.first(rest)?;
            name.push(c);
            rest = &rest[len..];
        }
        // A directory has no such entries, so a client cannot write these names.
        let is_possible = !matches!(&*name, "." | "..");
        is_possible.then_some(if name == stored { Cow::Borrowed(stored) } else { Cow::Owned(name) })
    }

    /// Whether the character at `at` of a stored name that is not canonical is escaped: what no client's name begins with there, and the
    /// substitute of a dot, which may be all that makes the name one that no client can write.
    pub(super) fn is_escaped_at(&self, stored: &str, at: usize) -> bool {
        matches!(self.first(&stored[at..]), None | Some(('.', 2..)))
    }
}

impl Gate {
    /// The mapping of the gate; `None` if it does not encode.
    pub(super) fn find_encoder(&self) -> Result<Option<NameEncoder>, EncodingConflict> {
        match self.mode {
            Mode::Encoding => NameEncoder::new(&self.policy, self.substitutes).map(Some),
            Mode::Enforcing | Mode::Permissive => Ok(None),
        }
    }

    /// Checks that the gate encodes if its mode says so. With a conflict it encodes nothing.
    ///
    /// # Errors
    /// Why policy and substitutes exclude each other.
    pub fn check_encoding(&self) -> Result<(), EncodingConflict> {
        let (encoder, fold) = (self.find_encoder()?, self.equivalence().fold);
        let has_case = |substitute: char| has_other_spellings(&substitute.to_string(), None, fold);
        let is_letter =
            |encoder: NameEncoder| ('\0'..='\x7F').filter_map(|c| encoder.substitute(c, false)).any(has_case);
        if encoder.is_some_and(is_letter) { Err(EncodingConflict::Letter(self.substitutes)) } else { Ok(()) }
    }

    /// Whether both gates encode in the same way.
    pub fn encodes_like(&self, other: &Self) -> bool {
        self.encoder == other.encoder
    }

    /// The name under which the gate stores a client's `name`, before normalization: the name itself unless the gate encodes.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use namegate_core::gate::{Gate, Mode};
    /// use namegate_core::policy::{Policy, profile};
    ///
    /// let policy = Policy::from_profiles(&[profile::by_name("windows")?]);
    /// let gate = Gate::new(Arc::new(policy), Mode::Encoding);
    /// assert_eq!(*gate.encoded_bytes(b"a:b"), *"a：b".as_bytes());
    /// assert_eq!(*gate.show_bytes("a：b".as_bytes()).unwrap().0, *b"a:b");
    /// # Ok::<(), namegate_core::policy::UnknownWord>(())
    /// ```
    pub fn encoded_bytes<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        let encode = |encoder: &NameEncoder| Some(bytes(encoder.encode(std::str::from_utf8(name).ok()?)));
        self.encoder.as_ref().and_then(encode).unwrap_or(Cow::Borrowed(name))
    }

    /// Because of which violation `name` was `encoded`; `None` if it only got quotes.
    pub(super) fn violation_of(&self, name: &[u8], encoded: &[u8]) -> Option<Violation> {
        match (name != encoded).then(|| self.policy.verdict(name)) {
            Some(Verdict::Reject(violation)) => Some(violation),
            _ => None,
        }
    }

    /// The violation of the encoded `name`, with its span in the name as given.
    pub(super) fn in_given(&self, name: &[u8], violation: Violation) -> Violation {
        match (&self.encoder, std::str::from_utf8(name)) {
            (Some(encoder), Ok(text)) => {
                Violation { span: encoder.span_in(text, violation.span), ..violation }
            }
            _ => violation,
        }
    }
}

/// Whether `form` leaves `c` alone and makes it of no other character.
fn is_stable(c: char, form: Form) -> bool {
    let decomposed = match form {
        Form::Nfc | Form::Nfd => Form::Nfd,
        Form::Nfkc | Form::Nfkd => Form::Nfkd,
    };
    matches!(to_form(c.encode_utf8(&mut [0; 4]), decomposed), Cow::Borrowed(_))
}

impl fmt::Display for EncodingConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(map) => {
                write!(f, "the policy refuses no character for which {} has a substitute", map.inverse())
            }
            Self::Refused(map) => write!(f, "the policy refuses the substitutes of {}", map.inverse()),
            Self::Unstable(map, form) => {
                write!(f, "the substitutes of {} are not stable in {form}", map.inverse())
            }
            Self::Letter(map) => {
                write!(f, "a substitute of {} is a letter, whose case would be ignored", map.inverse())
            }
        }
    }
}

impl Error for EncodingConflict {}
