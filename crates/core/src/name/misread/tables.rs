//! Which bytes a text was, if programs read them in an encoding.

use std::sync::LazyLock;

/// An encoding in which bytes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outer {
    /// By its number among those that read byte by byte.
    Bytewise(usize),
    /// By its number among those in which a character has two bytes.
    Wide(usize),
}

use crate::name::reading::Encoding;

/// The encodings in which programs read names wrongly, byte by byte: those of Western, Central European, Turkish, Cyrillic and Arabic
/// Windows, DOS, Unix and Macintosh systems.
const BYTEWISE: [&str; 11] = [
    "windows-1252",
    "cp437",
    "cp850",
    "ibm866",
    "windows-1250",
    "windows-1251",
    "windows-1254",
    "windows-1256",
    "koi8-r",
    "macintosh",
    "cp852",
];
/// Those in which two bytes are one character.
const WIDE: [&str; 2] = ["gbk", "shift_jis"];

/// windows-1252 is the first of [`BYTEWISE`]. Read as ISO 8859-1, its bytes 80 to 9F are controls.
pub(super) const WESTERN: usize = 0;

/// The code points below this one are in the table ...
const TABLE_END: usize = 0x2600;
/// ... and these, which macintosh has.
const BEYOND_TABLE: [char; 3] = ['\u{F8FF}', '\u{FB01}', '\u{FB02}'];

/// What a code point was in each of [`BYTEWISE`].
#[derive(Clone, Copy, Default)]
struct Bytes {
    /// The byte; 0 if there is none.
    in_encoding: [u8; BYTEWISE.len()],
    /// The encodings in which it is the first byte of a sequence in UTF-8, as a bit each.
    leads: u16,
    /// Those in which it is another byte of one.
    follows: u16,
}

struct Tables {
    encodings: Vec<Encoding>,
    bytes: Vec<Bytes>,
}

impl Tables {
    fn bytes(&self, c: char) -> Option<&Bytes> {
        self.bytes.get(place(c)?)
    }
}

/// Where `c` is in the table.
fn place(c: char) -> Option<usize> {
    if (c as usize) < TABLE_END {
        return Some(c as usize);
    }
    BEYOND_TABLE.iter().position(|&other| other == c).map(|at| TABLE_END + at)
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let encodings: Vec<Encoding> = BYTEWISE.iter().filter_map(|label| label.parse().ok()).collect();
    let mut bytes = vec![Bytes::default(); TABLE_END + BEYOND_TABLE.len()];
    for (number, encoding) in encodings.iter().enumerate() {
        let mut set = |c: char, byte: u8| {
            if let Some(of) = place(c).map(|at| &mut bytes[at]) {
                of.in_encoding[number] = byte;
                of.leads |= u16::from(matches!(byte, 0xC2..=0xF4)) << number;
                of.follows |= u16::from(matches!(byte, 0x80..=0xBF)) << number;
            }
        };
        for byte in 0x80..=0xFF {
            if number == WESTERN {
                set(char::from(byte), byte);
            }
            if let Some(c) = encoding.character(byte) {
                set(c, byte);
            }
        }
    }
    Tables { encodings, bytes }
});

/// What the two bytes of a code point were in UTF-8, for each of [`WIDE`] as a bit.
#[derive(Clone, Copy, Default)]
struct WideBytes {
    /// A character of two bytes.
    whole: u8,
    /// The first two of a character of three bytes.
    start: u8,
    /// The last one of a character, and something else.
    end: u8,
}

/// By code point of the basic plane.
static WIDE_BYTES: LazyLock<Vec<WideBytes>> = LazyLock::new(|| {
    let mut table = vec![WideBytes::default(); 0x1_0000];
    for (number, label) in WIDE.iter().enumerate() {
        let Ok(encoding) = label.parse::<Encoding>() else { continue };
        let starts = (0xC2..=0xEF).flat_map(|first| (0x80..=0xBF).map(move |second| (first, second)));
        let ends = (0x80..=0xBF).flat_map(|first| (0x40..=0xEF).map(move |second| (first, second)));
        for (first, second) in starts.chain(ends) {
            let text = encoding.read(&[first, second]);
            let character = text.and_then(|text| text.chars().next());
            let Some(bytes) = character.and_then(|c| table.get_mut(c as usize)) else { continue };
            let set = |bits: &mut u8, is_set| *bits |= u8::from(is_set) << number;
            let follows = matches!(second, 0x80..=0xBF);
            set(&mut bytes.whole, matches!(first, 0xC2..=0xDF) && follows);
            set(&mut bytes.start, matches!(first, 0xE0..=0xEF) && follows);
            set(&mut bytes.end, matches!(first, 0x80..=0xBF));
        }
    }
    table
});

/// The encodings of [`WIDE`] in which the first two of the code points beyond ASCII can have been UTF-8, as a bit each.
fn wide_candidates(first: char, second: impl FnOnce() -> Option<char>) -> u8 {
    if first < '\u{2E80}' {
        return 0;
    }
    let of = |c: char| WIDE_BYTES.get(c as usize).copied().unwrap_or_default();
    let (first, second) = (of(first), second().map(of));
    // In Shift_JIS a byte can be a character of its own.
    let next = second.map_or(u8::MAX, |second| second.whole | second.start | second.end);
    first.whole & next | first.start & second.map_or(0, |second| second.end)
}

/// The encodings in which `name` may be UTF-8 that was read wrongly: those in which each code point beyond ASCII was a byte that UTF-8 can
/// have there. Nearly all names have none, and that is fast.
pub(super) fn candidates(name: &str) -> Vec<Outer> {
    let tables = &*TABLES;
    let (mut possible, mut leads, mut is_inside) = (u16::MAX, 0, false);
    for c in name.chars() {
        if c.is_ascii() {
            possible &= !leads;
            (leads, is_inside) = (0, false);
        } else {
            let bytes = tables.bytes(c).copied().unwrap_or_default();
            possible &= if is_inside { bytes.follows | bytes.leads & !leads } else { bytes.leads };
            (leads, is_inside) = (bytes.leads, true);
        }
        if possible == 0 {
            break;
        }
    }
    possible &= !leads;
    let mut beyond = name.chars().filter(|c| !c.is_ascii());
    let Some(first) = beyond.next() else { return Vec::new() };
    let wide = wide_candidates(first, || beyond.next());
    if possible == 0 && wide == 0 {
        return Vec::new();
    }
    let bytewise = (0..tables.encodings.len()).filter(|&number| possible & 1 << number != 0);
    let wide = (0..WIDE.len()).filter(|&number| wide & 1 << number != 0);
    bytewise.map(Outer::Bytewise).chain(wide.map(Outer::Wide)).collect()
}

/// The bytes of `text` in `encoding`; `None` if it is not a text in it.
pub(super) fn bytes_of(text: &str, encoding: Encoding) -> Option<Vec<u8>> {
    match TABLES.encodings.iter().position(|&other| other == encoding) {
        Some(number) => Outer::Bytewise(number).bytes(text),
        None => encoding.write(text),
    }
}

impl Outer {
    /// All in which bytes that are not UTF-8 are looked for.
    pub(super) const WESTERN: [Self; 4] =
        [Self::Bytewise(WESTERN), Self::Bytewise(1), Self::Bytewise(2), Self::Bytewise(3)];

    /// Whether it is an encoding of Windows with Latin letters: the signs that people write after words have the same bytes in each.
    pub(super) fn is_western(self) -> bool {
        const CENTRAL_EUROPEAN: usize = 4;
        const TURKISH: usize = 6;
        matches!(self, Self::Bytewise(WESTERN | CENTRAL_EUROPEAN | TURKISH))
    }

    /// The encoding.
    pub(super) fn encoding(self) -> Option<Encoding> {
        match self {
            Self::Bytewise(number) => TABLES.encodings.get(number).copied(),
            Self::Wide(number) => WIDE[number].parse().ok(),
        }
    }

    /// The bytes of `text` in the encoding; `None` if it is not a text in it.
    pub(super) fn bytes(self, text: &str) -> Option<Vec<u8>> {
        let Self::Bytewise(number) = self else { return self.encoding()?.write(text) };
        let byte = |c: char| match u8::try_from(c) {
            Ok(byte @ 0..=0x7F) => Some(byte),
            _ => Some(TABLES.bytes(c)?.in_encoding[number]).filter(|&byte| byte != 0),
        };
        text.chars().map(byte).collect()
    }
}
