//! Decodes names that are not UTF-8: in legacy encodings, and by the structure of Annex R.
//!
//! The encoding of a name can only be guessed. More names of a directory give a better guess ([`EncodingGuess`]). Decoded text never
//! contains a control, a private-use code point or a replacement character that the bytes did not contain.
//!
//! Sources: the WHATWG Encoding Standard for encodings and labels, by `encoding_rs`; the OEM code pages of DOS, by `oem_cp`;
//! ISO/IEC 10646-1 Amd. 2 (Annex R) and Unicode Technical Report #26 (CESU-8) for [`structural`].

#[cfg(feature = "encodings")]
mod code_pages;
#[cfg(feature = "encodings")]
mod encodings;
#[cfg(not(feature = "encodings"))]
#[path = "reading/no_encodings.rs"]
mod encodings;
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

pub use guess::{EncodingCounts, EncodingGuess, EncodingSample, GuessReader, NameReading};

use super::display::display;
use super::scalar::{self, Class};
use super::utf8::{Malformation, ill_formed};

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
        let kept: usize = name.utf8_chunks().map(|chunk| non_ascii(chunk.valid().as_bytes())).sum();
        if kept == 0 {
            return self.read(name);
        }
        let (whole, apart) = (self.read(name), self.read_apart(name));
        let (Some(all), Some(parts)) = (&whole, &apart) else { return apart.or(whole) };
        let strays = non_ascii(name) - kept;
        // Where most of a name is well-formed, chance is the worse explanation, except of two more scripts. Where a Latin encoding gives
        // as few scripts, its letters are those of UTF-8 read wrongly: `Ãœ` for `Ü`.
        let (of_all, of_parts) = (kinds(all), kinds(parts));
        let is_kept = match of_parts.cmp(&of_all) {
            Ordering::Less => true,
            Ordering::Equal => self.is_latin() || kept > strays,
            Ordering::Greater => of_parts == of_all + 1 && kept > 3 * strays,
        };
        if is_kept { apart } else { whole }
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
/// assert_eq!(unknown.to_string(), "unknown encoding `koi9`");
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

/// The texts that `name` alone may have been, each with an encoding that gives it, the likeliest first; none if it is UTF-8.
///
/// ```
/// use namegate_core::name::reading::likeliest;
/// let readings = likeliest(b"caf\xE9.txt");
/// assert_eq!((readings[0].0.name(), &*readings[0].1), ("windows-1252", "café.txt"));
/// assert!(likeliest("café.txt".as_bytes()).is_empty());
/// ```
pub fn likeliest(name: &[u8]) -> Vec<(Encoding, String)> {
    let guess = EncodingGuess::for_names([name], &EncodingCounts::default());
    let Some(reading) = guess.and_then(|guess| guess.read(name)) else { return Vec::new() };
    let mut texts = vec![(reading.encoding, reading.text)];
    let others = reading.others.into_iter();
    texts.extend(others.filter_map(|encoding| Some((encoding, encoding.read_name(name)?))));
    texts
}

/// Decodes ill-formed sequences by their structure: pairs of surrogates (CESU-8) and overlong forms. `None` if the name is
/// UTF-8, if it has a sequence of another kind, or if a sequence encodes a character that only an attacker hides: NUL, `/`,
/// `.` or another control.
///
/// ```
/// use namegate_core::name::reading::structural;
/// assert_eq!(structural(b"x\xED\xA1\x8C\xED\xBE\xB4").as_deref(), Some("x\u{233B4}"));
/// assert_eq!(structural(b"\xC1\xA1").as_deref(), Some("a"));
/// assert_eq!(structural(b"\xC0\xAF"), None);
/// assert_eq!(structural(b"caf\xE9"), None);
/// ```
pub fn structural(name: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(name.len());
    let mut at = 0;
    for found in ill_formed(name) {
        if !matches!(found.kind, Malformation::SurrogatePair | Malformation::Overlong) {
            return None;
        }
        let meant = char::from_u32(found.value?).filter(|c| !c.is_control())?;
        text.push_str(std::str::from_utf8(&name[at..found.span.start]).ok()?);
        text.push(meant);
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
