//! Escapes names for display: nothing in the output controls the terminal or is invisible to the reader.
//!
//! The output is for people. It is not a valid name, and there is no function that reads it back (for that there is
//! [`escape`](super::escape)), but it is unambiguous: two different names never look the same in it.
//!
//! These are escaped:
//! - ill-formed bytes, as `\xHH`;
//! - the backslash, as `\\`, and tab, line feed and carriage return, as `\t`, `\n`, `\r`;
//! - as `\u{HEX}`: all other control characters; format characters, which include the bidi controls, the tags and the
//!   joiners; all other default-ignorable code points, including variation selectors; line and paragraph separators; spaces
//!   other than U+0020, and U+2800, which looks like one; private-use and unassigned code points and noncharacters;
//!   U+FFFD, so that it does not look like damage by the display; U+0020 at the beginning or the end of the name; and a
//!   combining mark without an unescaped character before it to combine with.
//!
//! Letters of right-to-left scripts are not escaped, and a terminal may still reorder them. Look-alikes
//! of different scripts are not escaped either.
//!
//! Source: General_Category and Default_Ignorable_Code_Point of the Unicode Character Database, by `icu_properties`.

use std::fmt;
use std::path::Path;

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};
use unicode_width::UnicodeWidthStr;

use super::Span;

/// Cc, Cf, Co, Cn (Cs cannot occur in UTF-8), Zl, Zp, Zs.
const NEVER_SHOWN: GeneralCategoryGroup = GeneralCategoryGroup::Other.union(GeneralCategoryGroup::Separator);

/// Escapes `name` for display, as the [module](self) describes. Writing the result allocates nothing, and ignores width and
/// precision.
///
/// ```
/// use namegate_core::name::display::display;
/// assert_eq!(display(b"caf\xe9.txt").to_string(), r"caf\xE9.txt");
/// assert_eq!(display("Füße 日本".as_bytes()).to_string(), "Füße 日本");
/// assert_eq!(display(b"two\nlines\x1b[31m").to_string(), r"two\nlines\u{1B}[31m");
/// assert_eq!(display("gnp.\u{202e}exe".as_bytes()).to_string(), r"gnp.\u{202E}exe");
/// assert_eq!(display(br"C:\x").to_string(), r"C:\\x");
/// assert_eq!(display(b" a b ").to_string(), r"\u{20}a b\u{20}");
/// assert_eq!(display("\u{301}e\u{301}".as_bytes()).to_string(), "\\u{301}e\u{301}");
/// ```
pub const fn display(name: &[u8]) -> Display<'_> {
    Display { name, span: Span::new(0, name.len()) }
}

/// Escapes `path` as [`display`] escapes a name, for messages.
///
/// ```
/// use namegate_core::name::display::shown;
/// assert_eq!(shown("a\nb/c".as_ref()), r"a\nb/c");
/// ```
pub fn shown(path: &Path) -> String {
    display(path.as_os_str().as_encoded_bytes()).to_string()
}

/// Escapes text that somebody else wrote and that may be hostile, for display. Unlike in names, spaces and backslashes are not
/// escaped: they are part of a sentence or of an earlier escape.
///
/// ```
/// use namegate_core::name::display::harmless;
/// assert_eq!(harmless("   | ^ \\x1b \u{1b}[2J "), "   | ^ \\x1b \\u{1B}[2J ");
/// ```
pub fn harmless(text: &str) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive([' ', '\\']) {
        let word = part.trim_end_matches([' ', '\\']);
        shown.push_str(&display(word.as_bytes()).to_string());
        shown.push_str(&part[word.len()..]);
    }
    shown
}

/// Escapes the bytes of `name` in `span` as they are escaped within the whole name, so that the escaped parts of a name
/// together are the escaped name. A code point belongs to the part with its first byte.
///
/// ```
/// use namegate_core::name::{Span, display::display_part};
/// let shown = |start, end| display_part(b"a \xff ", Span::new(start, end)).to_string();
/// assert_eq!((shown(0, 2), shown(2, 3), shown(3, 4)), ("a ".into(), r"\xFF".into(), r"\u{20}".into()));
/// ```
pub const fn display_part(name: &[u8], span: Span) -> Display<'_> {
    Display { name, span }
}

/// What [`display`] and [`display_part`] return.
#[derive(Clone, Copy, Debug)]
pub struct Display<'n> {
    name: &'n [u8],
    span: Span,
}

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        if is_plain(name) {
            let shown = name.get(self.span.start..self.span.end).unwrap_or_default();
            return f.write_str(std::str::from_utf8(shown).unwrap_or_default());
        }
        let wanted = self.span.start..self.span.end;
        let inner_start = name.iter().position(|&byte| byte != b' ').unwrap_or(name.len());
        let inner_end = name.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
        let inner = inner_start..inner_end;
        let mut start = 0;
        for chunk in name.utf8_chunks() {
            let text = chunk.valid();
            // What is shown as it is, is written together: code points from here on.
            let (mut has_base, mut from) = (false, 0);
            for (at, c) in text.char_indices() {
                has_base = match c {
                    ' ' => inner.contains(&(start + at)),
                    '\\' => false,
                    '!'..='~' => true,
                    _ => is_shown(c, has_base),
                };
                let is_wanted = wanted.contains(&(start + at));
                if has_base && is_wanted {
                    continue;
                }
                f.write_str(&text[from..at])?;
                from = at + c.len_utf8();
                if is_wanted {
                    write_escaped(f, c)?;
                }
            }
            f.write_str(&text[from..])?;
            start += text.len();
            for byte in chunk.invalid() {
                if wanted.contains(&start) {
                    write!(f, "\\x{byte:02X}")?;
                }
                start += 1;
            }
        }
        Ok(())
    }
}

/// Whether `name` is ASCII of which [`display`] escapes nothing.
pub fn is_plain(name: &[u8]) -> bool {
    // No early exit, so that the loop becomes a few vector instructions: names are short.
    let is_ascii = name.iter().fold(true, |all, &byte| all & matches!(byte, b' '..=b'~') & (byte != b'\\'));
    is_ascii && name.first() != Some(&b' ') && name.last() != Some(&b' ')
}

/// Whether `c`, which is not ASCII or is a control, is shown unescaped; `has_base`: whether the code point before it is.
pub(crate) fn is_shown(c: char, has_base: bool) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    !NEVER_SHOWN.contains(category)
        && (has_base || !GeneralCategoryGroup::Mark.contains(category))
        && !matches!(c, '\u{2800}' | '\u{FFFD}')
        && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// Whether `c` acts on a terminal or is invisible, so that output for people must not contain it unescaped.
pub fn acts_or_hides(c: char) -> bool {
    !matches!(c, ' '..='~' | '\u{FFFD}') && !is_shown(c, true)
}

fn write_escaped(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        '\\' => f.write_str(r"\\"),
        '\t' => f.write_str(r"\t"),
        '\n' => f.write_str(r"\n"),
        '\r' => f.write_str(r"\r"),
        _ => write!(f, "\\u{{{:X}}}", u32::from(c)),
    }
}

/// The number of terminal columns that [`display`] of `name` takes, for aligned tables: wide characters take two, combining
/// marks none (UAX #11, as implemented by `unicode-width`).
///
/// ```
/// use namegate_core::name::display::width;
/// assert_eq!(width(b"abc"), 3);
/// assert_eq!(width("日本".as_bytes()), 4);
/// assert_eq!(width("e\u{301}".as_bytes()), 1);
/// assert_eq!(width(b"\xff"), 4);
/// ```
pub fn width(name: &[u8]) -> usize {
    // In printable ASCII without escapes every byte is a column; anything else must be formatted to be measured.
    if is_plain(name) {
        return name.len();
    }
    display(name).to_string().width()
}

/// Formats the bytes in hexadecimal for a message: at most eight, because a run of stray bytes can be as long as
/// the name.
///
/// ```
/// use namegate_core::name::display::octets;
/// assert_eq!(octets(b"\xC0\xAF"), "C0 AF");
/// assert_eq!(octets(&[0x80; 9]), "80 80 80 80 80 80 80 80 ...");
/// ```
pub fn octets(bytes: &[u8]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<String> = bytes.iter().take(SHOWN).map(|b| format!("{b:02X}")).collect();
    if bytes.len() > SHOWN {
        shown.push("...".into());
    }
    shown.join(" ")
}

#[cfg(test)]
mod tests;
