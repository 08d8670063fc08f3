//! Names that were encoded twice: UTF-8 bytes read as windows-1252 or ISO-8859-1 and encoded as UTF-8 again, so that `café`
//! became `cafÃ©`.
//!
//! [`undo`] is the exact inverse of that conversion. [`find`] also rates the result, because a few correct names happen to be
//! invertible. Other legacy encodings are not guessed.
//!
//! Sources: RFC 3629 for the sequences; the WHATWG Encoding Standard's windows-1252, where bytes 81,
//! 8D, 8F, 90 and 9D are C1 controls.

use icu_properties::CodePointMapData;
use icu_properties::props::Script;

use super::{Span, scalar};

/// Finds the first run of `name` that is text encoded twice; `None` if the name as a whole does not qualify.
///
/// A name counts if
/// - it contains only ASCII and the characters of bytes 80..FF in windows-1252 or ISO-8859-1,
/// - every longest run of non-ASCII code points reads as well-formed UTF-8 again, into code points that a name may
///   contain (no control, no unassigned or private one), and
/// - at least one run is hard to explain otherwise: it decodes to two or more code points, to one of four bytes, to one
///   of three bytes that is Latin, a symbol, or not next to an ASCII letter, or to one of two bytes that is a Latin
///   letter or a symbol and, after an ASCII capital, a capital of Latin-1.
///
/// So `CAFÉ™`, `groß–klein` and `„Spaß“` are not reported, though their bytes would decode as UTF-8. The price is that a
/// name whose only garbled text is a single letter of another script (`Ð¸.txt`) is not reported either, nor is a name with
/// both garbled and intact non-ASCII text. Allocates nothing.
///
/// ```
/// use namegate_core::name::{Span, mojibake::find};
/// assert_eq!(find("cafÃ©.txt"), Some(Span::new(3, 7)));
/// assert_eq!(find("NÃO"), None);
/// assert_eq!(find("CAFÉ™"), None);
/// ```
pub fn find(name: &str) -> Option<Span> {
    if name.is_ascii() {
        return None;
    }
    let mut rest = name;
    let mut previous = None;
    let mut first = None;
    let mut is_convincing = false;
    while let Some(c) = rest.chars().next() {
        if c.is_ascii() {
            previous = Some(c);
            rest = &rest[1..];
            continue;
        }
        let run = Run::read(rest)?;
        let start = name.len() - rest.len();
        first.get_or_insert(Span::new(start, start + run.len));
        is_convincing |= run.is_convincing(previous, rest[run.len..].chars().next());
        rest = &rest[run.len..];
    }
    first.filter(|_| is_convincing)
}

/// Reverses one double encoding of `name`; `None` if the name is ASCII or not the result of one.
///
/// Law: for every text with a non-ASCII code point, encoding it as UTF-8, reading the bytes as windows-1252 and undoing
/// gives the text again. The reverse is not true: undoing succeeds on some correct names, so call [`find`] first.
///
/// ```
/// use namegate_core::name::mojibake::undo;
/// assert_eq!(undo("cafÃ©.txt").as_deref(), Some("café.txt"));
/// assert_eq!(undo("ðŸ˜€").as_deref(), Some("😀"));
/// assert_eq!(undo("café"), None);
/// ```
pub fn undo(name: &str) -> Option<String> {
    if name.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> = name.chars().map(windows_byte).collect();
    String::from_utf8(bytes?).ok()
}

/// The characters of 80..9F in windows-1252, by the Encoding Standard.
#[rustfmt::skip]
const WINDOWS_1252: [char; 32] = [
    '\u{20AC}', '\u{81}', '\u{201A}', '\u{192}', '\u{201E}', '\u{2026}', '\u{2020}', '\u{2021}', //
    '\u{2C6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8D}', '\u{17D}', '\u{8F}', //
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201C}', '\u{201D}', '\u{2022}', '\u{2013}', '\u{2014}', //
    '\u{2DC}', '\u{2122}', '\u{161}', '\u{203A}', '\u{153}', '\u{9D}', '\u{17E}', '\u{178}', //
];

/// The byte that `c` stands for in windows-1252, or in ISO-8859-1 for a C1 control.
fn windows_byte(c: char) -> Option<u8> {
    if let Ok(byte) = u8::try_from(c) {
        return Some(byte);
    }
    let at = WINDOWS_1252.iter().position(|&decoded| decoded == c)?;
    u8::try_from(0x80 + at).ok()
}

/// A run of non-ASCII code points, decoded as UTF-8 once more.
struct Run {
    /// Length in bytes of the name.
    len: usize,
    /// Number of code points that it decodes to.
    count: usize,
    /// The first of them.
    first: char,
}

impl Run {
    /// The run at the start of `text`, if all of it reads as UTF-8.
    fn read(text: &str) -> Option<Self> {
        let (first, mut len) = read_sequence(text)?;
        let mut count = 1;
        while text[len..].chars().next().is_some_and(|c| !c.is_ascii()) {
            len += read_sequence(&text[len..])?.1;
            count += 1;
        }
        Some(Self { len, count, first })
    }

    fn is_convincing(&self, before: Option<char>, after: Option<char>) -> bool {
        let glued =
            before.is_some_and(|c| c.is_ascii_alphabetic()) || after.is_some_and(|c| c.is_ascii_alphabetic());
        let after_capital = before.is_some_and(|c| c.is_ascii_uppercase());
        let script = CodePointMapData::<Script>::new().get(self.first);
        let fits_latin = matches!(script, Script::Latin | Script::Common);
        match self.first.len_utf8() {
            _ if self.count > 1 => true,
            2 if after_capital => self.first <= '\u{FF}' && self.first.is_uppercase(),
            2 => fits_latin,
            3 => fits_latin || !glued,
            _ => true,
        }
    }
}

/// Decodes one sequence of two to four bytes at the start of `text`: its code point, if a name may contain it, and the number
/// of bytes of `text` that spell it.
fn read_sequence(text: &str) -> Option<(char, usize)> {
    let mut chars = text.chars();
    let mut bytes = [0; 4];
    bytes[0] = windows_byte(chars.next()?)?;
    let len = match bytes[0] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return None,
    };
    for slot in &mut bytes[1..len] {
        *slot = windows_byte(chars.next()?)?;
    }
    let decoded = std::str::from_utf8(&bytes[..len]).ok()?.chars().next()?;
    let is_plausible = !matches!(
        scalar::class(decoded),
        Some(
            scalar::Class::C1Control
                | scalar::Class::Unassigned
                | scalar::Class::Noncharacter
                | scalar::Class::PrivateUse
        )
    );
    is_plausible.then(|| (decoded, text.len() - chars.as_str().len()))
}

#[cfg(test)]
mod tests;
