//! The names that are tried.

use super::trial_dir::TAG;

/// Characters beyond ASCII: of each class that a rule is about one or more, and letters of several scripts.
const BEYOND_ASCII: &str = "\u{80}\u{85}\u{9F}\u{A0}\u{AD}\u{378}\u{200B}\u{200D}\u{2028}\u{2029}\u{202E}\u{2066}\u{3000}\
    \u{E000}\u{F8FF}\u{F022}\u{F03A}\u{FDD0}\u{FEFF}\u{FFFD}\u{FFFE}\u{1FFFF}\u{E0041}éßжΣ漢가☃ﬁẞ\u{1F600}\u{10400}";

/// Text that is not in NFC.
const DECOMPOSED: [&str; 2] = ["e\u{301}", "\u{1100}\u{1161}"];

/// Bytes that are not UTF-8: lone ones, surrogates, a long form of a dot, and a number above U+10FFFF.
const NOT_UTF8: [&[u8]; 6] =
    [b"\xE4", b"\xFF", b"\xED\xA0\x80", b"\xED\xA0\x81\xED\xB0\x80", b"\xC0\xAE", b"\xF4\x90\x80\x80"];

/// Names of which the beginning or the end counts.
pub const SHAPES: [&str; 10] = [" x", "x ", "x.", "x. .", "...", "~x", "-x", ".x", "ABC.TXT", "x~1"];

/// Names that some systems reserve.
pub const RESERVED: [&str; 16] = [
    "CON",
    "PRN",
    "AUX",
    "NUL",
    "COM1",
    "COM0",
    "LPT9",
    "COM\u{B9}",
    "CONIN$",
    "CONOUT$",
    "CLOCK$",
    "nul.txt",
    "con.tar.gz",
    "desktop.ini",
    "Thumbs.db",
    ".git",
];

/// Pairs that are one name for some way to fold case, or for a normalization form.
pub const PAIRS: [(&str, &str); 17] = [
    ("Name", "name"),
    ("É", "é"),
    ("ẞ", "ß"),
    ("ß", "ss"),
    ("ſ", "s"),
    ("ς", "Σ"),
    ("ı", "I"),
    ("\u{B5}", "\u{3BC}"),
    ("\u{212A}", "k"),
    ("\u{10400}", "\u{10428}"),
    ("\u{1C90}", "\u{10D0}"),
    ("é", "e\u{301}"),
    ("\u{212B}", "\u{C5}"),
    ("가", "\u{1100}\u{1161}"),
    ("ﬁ", "fi"),
    ("É", "e\u{301}"),
    ("\u{2126}", "\u{3C9}"),
];

/// A character of each length in UTF-8, by which the longest name is found.
pub const WIDTHS: [char; 4] = ['a', 'é', '漢', '\u{1F600}'];

/// Names with one sample each, behind a tag of their own.
pub fn tagged() -> Vec<Vec<u8>> {
    let ascii = (1..=0x7F).filter(|&byte| byte != b'/').map(|byte| vec![byte]);
    let beyond = BEYOND_ASCII.chars().map(|c| c.to_string().into_bytes());
    let decomposed = DECOMPOSED.iter().map(|text| text.as_bytes().to_vec());
    let samples = ascii.chain(beyond).chain(decomposed).chain(NOT_UTF8.iter().map(|raw| raw.to_vec()));
    samples.enumerate().map(|(at, sample)| [format!("{at:04}").as_bytes(), &sample, b"x"].concat()).collect()
}

/// What was tried behind the tag; `None` for a name without one.
pub fn sample_of(name: &[u8]) -> Option<&[u8]> {
    let is_tagged = name.len() > TAG && name[..TAG].iter().all(u8::is_ascii_digit);
    name.get(TAG..)?.strip_suffix(b"x").filter(|_| is_tagged)
}
