//! What happened to a name that is not UTF-8: the explanations among which a guess chooses.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::damage::{self, Cut};
use super::{Encoding, NotLegacy, structural};
use crate::name::escape::escape;

/// How the bytes of a name were written as other bytes before they became the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wrapping {
    /// Not at all.
    None,
    /// The bytes 80 to 9F as `%XX`, as wget did before version 1.19.
    Percent,
    /// Each byte that is not part of UTF-8 as a code point of U+DC80 to U+DCFF in three bytes: Python's `surrogateescape`, written with
    /// `surrogatepass`.
    SurrogateEscape,
}

impl Wrapping {
    /// The wrapping of `name`, which is not UTF-8, and the bytes in it.
    pub(super) fn find(name: &[u8]) -> (Self, Cow<'_, [u8]>) {
        if let Some(bytes) = damage::unescape_surrogates(name) {
            return (Self::SurrogateEscape, Cow::Owned(bytes));
        }
        match damage::unescape_percent(name) {
            Some(bytes) => (Self::Percent, Cow::Owned(bytes)),
            None => (Self::None, Cow::Borrowed(name)),
        }
    }

    fn unwrap(self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::None => Some(Cow::Borrowed(name)),
            Self::Percent => damage::unescape_percent(name).map(Cow::Owned),
            Self::SurrogateEscape => damage::unescape_surrogates(name).map(Cow::Owned),
        }
    }
}

/// What bytes are that are not UTF-8, or what they are after they were unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contents {
    /// UTF-8.
    Utf8,
    /// UTF-8 that was cut inside a character. The text is without the fragment.
    CutUtf8,
    /// UTF-8 in which bytes of 80 to 9F were replaced by `_` or `?`. The text has one `_` for each damaged character.
    MaskedUtf8,
    /// UTF-8 with parts in an encoding.
    MixedUtf8(Encoding),
    /// Text in an encoding.
    Legacy(Encoding),
    /// UTF-16 encoded surrogate by surrogate (CESU-8).
    SurrogatePairs,
    /// Nothing that has a text. The bytes are escaped.
    Unexplained,
}

/// What happened to a name that is not UTF-8.
///
/// ```
/// use namegate_core::name::reading::{Contents, Damage, Wrapping};
/// let half_escaped = Damage { wrapping: Wrapping::Percent, contents: Contents::Utf8 };
/// assert_eq!(half_escaped.read(b"\xE8\xAF%98\xE6\xA3%8B").as_deref(), Some("诘棋"));
/// assert_eq!(half_escaped.to_string(), "half-escaped UTF-8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Damage {
    /// How the bytes were written.
    pub wrapping: Wrapping,
    /// What the bytes are.
    pub contents: Contents,
}

impl Damage {
    /// The bytes are escaped, because nothing explains them.
    pub const UNEXPLAINED: Self = Self::new(Contents::Unexplained);

    pub(crate) const fn new(contents: Contents) -> Self {
        Self { wrapping: Wrapping::None, contents }
    }

    /// The text of `name` if this is what happened to it; `None` if it cannot be.
    pub fn read(self, name: &[u8]) -> Option<String> {
        if self.contents == Contents::Unexplained {
            return Some(escape(name).into_owned());
        }
        let bytes = self.wrapping.unwrap(name)?;
        match self.contents {
            Contents::Utf8 => String::from_utf8(bytes.into_owned()).ok(),
            Contents::CutUtf8 => Cut::find(&bytes).map(|cut| cut.text()),
            Contents::MaskedUtf8 => damage::masked(&bytes).map(|masked| masked.text),
            Contents::MixedUtf8(encoding) | Contents::Legacy(encoding) => encoding.read_name(&bytes),
            Contents::SurrogatePairs => structural(&bytes),
            Contents::Unexplained => None,
        }
    }

    /// The encoding of the name, if all of it is text in one.
    pub fn encoding(self) -> Option<Encoding> {
        match self {
            Self { wrapping: Wrapping::None, contents: Contents::Legacy(encoding) } => Some(encoding),
            _ => None,
        }
    }
}

const CUT: &str = "cut UTF-8";
const MASKED: &str = "UTF-8 with lost bytes";
const MIXED: &str = "UTF-8 and ";
const PAIRS: &str = "CESU-8";
const UNEXPLAINED: &str = "escape";
const HALF_ESCAPED: &str = "half-escaped ";
const SURROGATE_ESCAPED: &str = "surrogate-escaped ";

impl fmt::Display for Damage {
    /// The explanation in a few words: the name of an encoding, `cut UTF-8`, and so on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.wrapping {
            Wrapping::None => "",
            Wrapping::Percent => HALF_ESCAPED,
            Wrapping::SurrogateEscape => SURROGATE_ESCAPED,
        })?;
        match self.contents {
            Contents::Utf8 => f.write_str("UTF-8"),
            Contents::CutUtf8 => f.write_str(CUT),
            Contents::MaskedUtf8 => f.write_str(MASKED),
            Contents::MixedUtf8(encoding) => write!(f, "{MIXED}{encoding}"),
            Contents::Legacy(encoding) => f.write_str(encoding.name()),
            Contents::SurrogatePairs => f.write_str(PAIRS),
            Contents::Unexplained => f.write_str(UNEXPLAINED),
        }
    }
}

impl FromStr for Damage {
    type Err = NotLegacy;

    /// Reads what [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// It names no explanation and no encoding.
    fn from_str(text: &str) -> Result<Self, NotLegacy> {
        let wrappings = [(HALF_ESCAPED, Wrapping::Percent), (SURROGATE_ESCAPED, Wrapping::SurrogateEscape)];
        let wrapped =
            wrappings.iter().find_map(|&(prefix, wrapping)| Some((wrapping, text.strip_prefix(prefix)?)));
        let (wrapping, text) = wrapped.unwrap_or((Wrapping::None, text));
        let contents = match text {
            "UTF-8" => Contents::Utf8,
            CUT => Contents::CutUtf8,
            MASKED => Contents::MaskedUtf8,
            PAIRS => Contents::SurrogatePairs,
            UNEXPLAINED => Contents::Unexplained,
            _ => match text.strip_prefix(MIXED) {
                Some(encoding) => Contents::MixedUtf8(encoding.parse()?),
                None => Contents::Legacy(text.parse()?),
            },
        };
        Ok(Self { wrapping, contents })
    }
}

/// The text of `name` if it is UTF-8 that was only wrapped, and whether that is sure.
pub(crate) fn unwrap_utf8(name: &[u8]) -> Option<(Damage, String, bool)> {
    /// By chance, one byte beyond ASCII and `%80` form a character of two bytes.
    const ENOUGH: usize = 2;
    let (wrapping, bytes) = Wrapping::find(name);
    if wrapping == Wrapping::None {
        return None;
    }
    let text = String::from_utf8(bytes.into_owned()).ok()?;
    let is_sure = wrapping == Wrapping::SurrogateEscape || damage::utf8_evidence(&text) >= ENOUGH;
    Some((Damage { wrapping, contents: Contents::Utf8 }, text, is_sure))
}
