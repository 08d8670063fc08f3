//! Decodes names that are not UTF-8: in legacy encodings, and by the structure of Annex R.
//!
//! The encoding of a name can only be guessed. More names of a directory give a better guess ([`EncodingGuess`]). Decoded text never
//! contains a control, a private-use code point or a replacement character that the bytes did not contain.
//!
//! Sources: the WHATWG Encoding Standard for encodings and labels, by `encoding_rs`; the OEM code pages of DOS, by `oem_cp`;
//! ISO/IEC 10646-1 Amd. 2 (Annex R) and Unicode Technical Report #26 (CESU-8) for [`structural`].

#[cfg(feature = "encodings")]
mod code_pages;
mod damage;
#[cfg(feature = "encodings")]
mod encodings;
#[cfg(not(feature = "encodings"))]
#[path = "reading/no_encodings.rs"]
mod encodings;
mod explanation;
#[cfg_attr(
    not(feature = "encodings"),
    allow(unreachable_code, unused_variables, reason = "without an encoding there is nothing to decode")
)]
mod guess;
#[cfg(feature = "encodings")]
mod labels;
mod language;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::Span;
use super::display::display;
use super::scalar::{self, Class};
use super::utf8::{Malformation, ill_formed};
pub(crate) use damage::utf8_evidence;
pub(crate) use explanation::unwrap_utf8;
pub use explanation::{Contents, Damage, Wrapping};
pub(crate) use guess::needs_guess;
pub use guess::{EncodingCounts, EncodingGuess, EncodingSample, GuessReader, NameReading};
pub(crate) use language::{cost, is_unused_letter};

/// An encoding in which the bytes 00..7F of a name are ASCII, and which is not UTF-8. Without the feature `encodings` there
/// is none.
///
/// ```
/// use namegate_core::name::reading::Encoding;
/// let koi8: Encoding = "koi8-r".parse()?;
/// assert_eq!(koi8.read(b"\xCD\xC9\xD2.txt").as_deref(), Some("мир.txt"));
/// assert!("utf-8".parse::<Encoding>().is_err());
/// # Ok::<(), namegate_core::name::reading::NotLegacy>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Encoding(
    #[cfg(feature = "encodings")] encodings::Characters,
    #[cfg(not(feature = "encodings"))] std::convert::Infallible,
);

impl Encoding {
    /// Decodes `bytes`; `None` if they are not valid in the encoding, or if the text contains a control, a noncharacter, a
    /// private-use code point or U+FFFD.
    ///
    /// ```
    /// use namegate_core::name::reading::Encoding;
    /// let japanese: Encoding = "shift_jis".parse().unwrap();
    /// assert_eq!(japanese.read(b"\x93\xFA\x96\x7B").as_deref(), Some("日本"));
    /// assert_eq!(japanese.read(b"caf\xE9.txt"), None);
    /// assert_eq!(Encoding::WINDOWS_1252.read(b"a\x81"), None); // U+0081
    /// ```
    pub fn read(self, bytes: &[u8]) -> Option<String> {
        let text = self.decode(bytes)?;
        let is_text = |c: char| {
            c.is_ascii()
                || !matches!(
                    scalar::class(c),
                    Some(
                        Class::C1Control
                            | Class::Noncharacter
                            | Class::PrivateUse
                            | Class::SmbPrivateUse
                            | Class::ReplacementCharacter
                    )
                )
        };
        text.chars().all(is_text).then(|| text.into_owned())
    }

    /// Decodes the parts of `name` that are not UTF-8.
    ///
    /// Well-formed sequences of several bytes are normally kept, and only the parts between them are decoded. They count as
    /// legacy text if decoding all of the name gives fewer scripts (symbols count as one), or as many in an encoding that is not
    /// Latin, unless they are most of the name: two bytes of EUC-KR are often valid UTF-8 by chance.
    ///
    /// ```
    /// use namegate_core::name::reading::Encoding;
    /// assert_eq!(Encoding::WINDOWS_1252.read_name(b"\xC3\xA9t\xE9").as_deref(), Some("été"));
    /// let dos: Encoding = "ibm866".parse().unwrap();
    /// // The bytes of `рав` are U+0822 in UTF-8.
    /// assert_eq!(dos.read_name(b"\xE3\xAF\xE0\xA0\xA2\xAB\xA5\xAD\xA8\xA5").as_deref(), Some("управление"));
    /// // The bytes of `Рі` are those of `г` in UTF-8, which is Cyrillic too.
    /// let windows: Encoding = "windows-1251".parse().unwrap();
    /// assert_eq!(windows.read_name(b"\xD0\xB3\xE2\xED\xEE").as_deref(), Some("Рівно"));
    /// // The bytes of `ğü` are an Arabic mark in UTF-8.
    /// let turkish: Encoding = "mac-turkish".parse().unwrap();
    /// assert_eq!(turkish.read_name(b"\x9Azg\x9Frl\x9F\xDB\x9F").as_deref(), Some("özgürlüğü"));
    /// ```
    pub fn read_name(self, name: &[u8]) -> Option<String> {
        self.read_parts(name).map(|(text, _)| text)
    }

    /// [`Encoding::read_name`], and what was kept.
    fn read_parts(self, name: &[u8]) -> Option<(String, Kept)> {
        let kept = non_ascii_in_utf8(name);
        if kept == 0 {
            return Some((self.read(name)?, Kept::Nothing));
        }
        let span = foreign_span(name);
        let by_words = || {
            let text = self.read(span.slice(name))?;
            let (before, after) = (&name[..span.start], &name[span.end..]);
            Some([std::str::from_utf8(before).ok()?, &text, std::str::from_utf8(after).ok()?].concat())
        };
        let is_one_word = span == Span::new(0, name.len());
        let (whole, apart) = (self.read(name), self.read_apart(name));
        let words = if is_one_word { None } else { by_words() };
        let kept_in_words = if is_one_word { 0 } else { non_ascii_in_utf8(span.slice(name)) };
        let is_same = words.is_none() || words == apart;
        let apart = match (words, apart) {
            (Some(words), Some(apart))
                if !self.is_kept(&words, &apart, kept_in_words, non_ascii(span.slice(name))) =>
            {
                Some(words)
            }
            (words, apart) => apart.or(words),
        };
        let kept_parts = if is_same { Kept::Parts } else { Kept::SomeParts };
        let (Some(all), Some(parts)) = (&whole, &apart) else {
            return apart.map(|text| (text, kept_parts)).or(whole.map(|text| (text, Kept::Nothing)));
        };
        match all != parts && self.is_kept(all, parts, kept, non_ascii(name)) {
            true => apart.map(|text| (text, kept_parts)),
            false => whole.map(|text| (text, Kept::Nothing)),
        }
    }

    /// Whether well-formed sequences with `kept` of the `beyond` bytes beyond ASCII are better kept, as in `parts`, than decoded, as in
    /// `all`. Where most of a name is well-formed, chance is the worse explanation, except of two more scripts. Where a Latin encoding
    /// gives as few scripts, its letters are those of UTF-8 read wrongly: `Ãœ` for `Ü`.
    fn is_kept(self, all: &str, parts: &str, kept: usize, beyond: usize) -> bool {
        let strays = beyond - kept;
        let (of_all, of_parts) = (kinds(all), kinds(parts));
        match of_parts.cmp(&of_all) {
            Ordering::Less => true,
            Ordering::Equal => self.is_latin() || kept > strays,
            Ordering::Greater => of_parts == of_all + 1 && kept > 3 * strays,
        }
    }

    /// Keeps the well-formed sequences of several bytes and decodes the parts between them, including ASCII: in several
    /// encodings an ASCII byte may be the second half of a character.
    fn read_apart(self, name: &[u8]) -> Option<String> {
        let mut text = String::with_capacity(name.len());
        let mut between = Vec::new();
        for chunk in name.utf8_chunks() {
            for c in chunk.valid().chars() {
                if let Ok(octet @ 0..=0x7F) = u8::try_from(c) {
                    between.push(octet);
                } else {
                    text.push_str(&self.read(&between)?);
                    between.clear();
                    text.push(c);
                }
            }
            between.extend_from_slice(chunk.invalid());
        }
        text.push_str(&self.read(&between)?);
        Some(text)
    }
}

/// What [`Encoding::read_parts`] kept of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Nothing: all of it was decoded.
    Nothing,
    /// All well-formed sequences of several bytes.
    Parts,
    /// Some of them: others seem to be well-formed by chance.
    SomeParts,
}

/// The words of `name` from the first to the last one with ill-formed sequences.
fn foreign_span(name: &[u8]) -> Span {
    // The second byte of a character of two bytes can be `_`.
    let separates = |at: usize| match name[at] {
        b' ' | b'-' | b'.' | b',' | b'(' | b')' | b'+' | b'&' => true,
        b'_' => at == 0 || name[at - 1].is_ascii(),
        _ => false,
    };
    let mut found = ill_formed(name).map(|found| found.span);
    let Some(first) = found.next() else { return Span::new(0, 0) };
    let last = found.last().unwrap_or(first);
    let start = (0..first.start).rev().find(|&at| separates(at)).map_or(0, |at| at + 1);
    let end = (last.end..name.len()).find(|&at| separates(at)).unwrap_or(name.len());
    Span::new(start, end)
}

fn non_ascii_in_utf8(name: &[u8]) -> usize {
    name.utf8_chunks().map(|chunk| non_ascii(chunk.valid().as_bytes())).sum()
}

/// How many scripts `text` is written in beyond ASCII; symbols count as one more.
fn kinds(text: &str) -> usize {
    let mut found: Vec<&'static str> = Vec::new();
    for script in text.chars().filter(|c| !c.is_ascii()).map(scalar::script_name) {
        if !found.contains(&script) {
            found.push(script);
        }
    }
    found.len()
}

fn non_ascii(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| !b.is_ascii()).count()
}

impl Hash for Encoding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoding({})", self.name())
    }
}

/// A label that is unknown, or whose encoding is not a legacy encoding of file names.
///
/// ```
/// use namegate_core::name::reading::Encoding;
/// let unknown = "koi9".parse::<Encoding>().unwrap_err();
/// assert_eq!(unknown.to_string(), "unknown encoding `koi9`; did you mean `koi8`?");
/// let modern = "utf-16le".parse::<Encoding>().unwrap_err();
/// assert_eq!(modern.to_string(), "`utf-16le` is not a legacy encoding of file names");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLegacy {
    /// The label as given.
    pub label: String,
    /// Whether the label is that of another encoding.
    pub is_known: bool,
}

impl fmt::Display for NotLegacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = display(self.label.as_bytes());
        if self.is_known {
            write!(f, "`{label}` is not a legacy encoding of file names")
        } else {
            write!(f, "unknown encoding `{label}`")?;
            match Encoding::nearest_label(&self.label) {
                Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
                None => Ok(()),
            }
        }
    }
}

impl std::error::Error for NotLegacy {}

/// Whether `name` has an ill-formed sequence that is neither an overlong form nor a surrogate.
pub fn has_stray_bytes(name: &[u8]) -> bool {
    use Malformation::{NulSmuggling, Overlong, SeparatorSmuggling, Surrogate, SurrogatePair};
    ill_formed(name)
        .any(|i| !matches!(i.kind, Overlong | NulSmuggling | SeparatorSmuggling | Surrogate | SurrogatePair))
}

/// The texts that `name` alone may have been, each with what happened to the name then, the likeliest first; none if it is UTF-8.
///
/// ```
/// use namegate_core::name::reading::likeliest;
/// let readings = likeliest(b"caf\xE9.txt");
/// assert_eq!((&*readings[0].0.to_string(), &*readings[0].1), ("windows-1252", "café.txt"));
/// assert!(likeliest("café.txt".as_bytes()).is_empty());
/// ```
pub fn likeliest(name: &[u8]) -> Vec<(Damage, String)> {
    let guess = EncodingGuess::for_names([name], &EncodingCounts::default());
    let Some(reading) = guess.and_then(|guess| guess.read(name)) else { return Vec::new() };
    let first = Some((reading.explanation, reading.text));
    let mut texts: Vec<_> =
        first.into_iter().filter(|(explanation, _)| *explanation != Damage::UNEXPLAINED).collect();
    let others = reading.others.into_iter();
    texts.extend(others.filter_map(|explanation| Some((explanation, explanation.read(name)?))));
    texts
}

/// The likeliest encoding of `name` alone, with the text; `None` if it is UTF-8 or no text.
pub(crate) fn likeliest_encoding(name: &[u8]) -> Option<(Encoding, String)> {
    let reading = EncodingGuess::for_names([name], &EncodingCounts::default())?.read(name)?;
    Some((reading.explanation.encoding()?, reading.text))
}

/// Decodes pairs of surrogates (CESU-8); `None` if the name is UTF-8, or if it has an ill-formed sequence of another kind. Overlong
/// forms are never decoded: RFC 3629, sections 3 and 10, forbids it, because they hide what programs look for.
///
/// ```
/// use namegate_core::name::reading::structural;
/// assert_eq!(structural(b"x\xED\xA1\x8C\xED\xBE\xB4").as_deref(), Some("x\u{233B4}"));
/// assert_eq!(structural(b"\xC1\xA1"), None);
/// assert_eq!(structural(b"caf\xE9"), None);
/// ```
pub fn structural(name: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(name.len());
    let mut at = 0;
    for found in ill_formed(name) {
        let meant = Some(found).filter(|found| found.kind == Malformation::SurrogatePair)?.value?;
        text.push_str(std::str::from_utf8(&name[at..found.span.start]).ok()?);
        text.push(char::from_u32(meant)?);
        at = found.span.end;
    }
    if at == 0 {
        return None;
    }
    text.push_str(std::str::from_utf8(&name[at..]).ok()?);
    Some(text)
}

#[cfg(feature = "encodings")]
#[cfg(test)]
mod tests;
