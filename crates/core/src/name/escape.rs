//! A reversible escape: converts any byte string to a valid name, and back.
//!
//! *Valid* means: UTF-8, no NUL, no `/`, and neither `.` nor `..`. The escape is U+2426 (symbol for
//! substitute form two) followed by two upper-case hexadecimal digits, which stand for one byte. Controls and look-alikes are not
//! escaped: to show a name to a person, use [`display`](super::display). The module reads no directory; a caller that shortens names
//! must resolve them.
//!
//! U+2426 is visible, means what the escape says, never changes by normalization or case, and has been in Unicode since 1.1. No
//! program that maps names uses it: neither rclone, which takes U+201B, U+2400 to U+2421 and the fullwidth forms as its own and
//! decodes them, nor SFM and SFU (private use), catia (Latin-1), shells, or text that was decoded by a wrong code page.
//!
//! # The rule
//! These bytes of a name are escaped, and no others:
//! 1. every byte outside the well-formed parts of the name, as [`<[u8]>::utf8_chunks`] divides it;
//! 2. NUL and `/`, which cannot occur in a directory but can in a list or an archive;
//! 3. the three bytes of a U+2426 that would be ambiguous: one followed by two upper-case hexadecimal digits, and one
//!    that begins a shortening mark (`␦~` and 16 upper-case hexadecimal digits, at the very end of the name);
//! 4. every byte of a name that is `.` or `..`.
//!
//! The empty name stays empty: there is nothing to escape, and nothing to lose.
//!
//! # Why it can be undone
//! Digits are never escaped. After a U+2426 that was not escaped, the escaped name therefore continues either as the name
//! does or, where an escape follows, with another U+2426, which is not a digit. So a U+2426 before two digits always comes
//! from rules 1 to 4.

use std::borrow::Cow;
use std::hash::Hasher;

/// The character that begins every escape and every shortening mark.
pub const ESCAPE_CHARACTER: char = '\u{2426}';
const SIGN: &[u8] = {
    const BYTES: [u8; ESCAPE_CHARACTER.len_utf8()] = {
        let mut bytes = [0; ESCAPE_CHARACTER.len_utf8()];
        ESCAPE_CHARACTER.encode_utf8(&mut bytes);
        bytes
    };
    &BYTES
};
/// U+2426 and two digits.
const TRIPLE: usize = SIGN.len() + 2;
const HASH_DIGITS: usize = 16;
/// Between [`ESCAPE_CHARACTER`] and the hash of a shortened name.
const SHORTENED: u8 = b'~';

/// Length in bytes of the shortest name that [`escape_within`] can make of one that is too long: the mark and the hash.
pub const SHORTEST_SHORTENED: usize = SIGN.len() + 1 + HASH_DIGITS;

const fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'F')
}

/// The byte that `rest` stands for when it begins with an escape.
fn escaped_byte(rest: &[u8]) -> Option<u8> {
    let digits = rest.strip_prefix(SIGN)?.get(..2)?;
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    Some(value(digits[0])? << 4 | value(digits[1])?)
}

/// Whether `rest` is a shortening mark with its hash and nothing else.
fn is_mark(rest: &[u8]) -> bool {
    rest.strip_prefix(SIGN)
        .and_then(|rest| rest.strip_prefix(&[SHORTENED]))
        .is_some_and(|hash| hash.len() == HASH_DIGITS && hash.iter().copied().all(is_digit))
}

/// How many bytes at the start of `rest`, which begins inside a well-formed part of a name, must be escaped.
fn offending(rest: &[u8]) -> usize {
    match rest.first() {
        Some(0 | b'/') => 1,
        Some(&byte) if byte == SIGN[0] && (escaped_byte(rest).is_some() || is_mark(rest)) => SIGN.len(),
        _ => 0,
    }
}

fn push_escaped(out: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    for &byte in bytes {
        out.push(ESCAPE_CHARACTER);
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 0xF)]);
    }
}

/// Converts `name` to a valid name; borrowed, without allocating, if it is already valid and unambiguous.
///
/// Laws: `unescape(escape(n)) == n` for every byte string, so different names have different escapes; the result is
/// valid unless `name` is empty; it is `name` itself when the [rule](self) finds nothing to escape; it is never
/// [shortened](is_shortened). It is at most 5 times as long as `name`.
///
/// ```
/// use namegate_core::name::escape::{escape, unescape};
/// assert_eq!(escape(b"caf\xe9.txt"), "caf\u{2426}E9.txt");
/// assert_eq!(unescape("caf\u{2426}E9.txt"), &b"caf\xe9.txt"[..]);
/// // A name that looks like an escape is escaped, so that the two stay different.
/// assert_eq!(escape("\u{2426}E9".as_bytes()), "\u{2426}E2\u{2426}90\u{2426}A6E9");
/// assert_eq!(escape("\u{2426}alone".as_bytes()), "\u{2426}alone");
/// assert_eq!(escape(b".."), "\u{2426}2E\u{2426}2E");
/// assert_eq!(escape(b"a/b"), "a\u{2426}2Fb");
/// assert_eq!(escape(b""), "");
/// ```
pub fn escape(name: &[u8]) -> Cow<'_, str> {
    escape_with(name, |_| false)
}

/// [`escape`], with the characters of `name` at whose offsets `also` is true escaped too; hexadecimal digits and `~` must not be.
fn escape_with(name: &[u8], also: impl Fn(usize) -> bool) -> Cow<'_, str> {
    if matches!(name, b"." | b"..") {
        let mut out = String::with_capacity(2 * TRIPLE);
        push_escaped(&mut out, name);
        return Cow::Owned(out);
    }
    if let Ok(text) = std::str::from_utf8(name)
        && text.char_indices().all(|(at, _)| offending(&name[at..]) == 0 && !also(at))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(name.len() + 4 * TRIPLE);
    let mut start = 0;
    for chunk in name.utf8_chunks() {
        let valid = chunk.valid();
        let mut shown = 0;
        for (at, c) in valid.char_indices() {
            // Digits and marks are well-formed, so they cannot be in a later chunk than the U+2426 before them; only the
            // whole name shows where it ends.
            let count = if also(start + at) { c.len_utf8() } else { offending(&name[start + at..]) };
            if count > 0 {
                out.push_str(&valid[shown..at]);
                push_escaped(&mut out, &valid.as_bytes()[at..at + count]);
                shown = at + c.len_utf8();
            }
        }
        out.push_str(&valid[shown..]);
        push_escaped(&mut out, chunk.invalid());
        start += valid.len() + chunk.invalid().len();
    }
    Cow::Owned(out)
}

/// Decodes `name`: every U+2426 with two upper-case hexadecimal digits becomes the byte; borrowed if there is none.
///
/// This decodes more than [`escape`] writes: `␦41` becomes `A`, which is never escaped. If two spellings must not
/// reach the same entry, accept `name` only if `escape(&unescape(name))` is `name` again. For a [shortened](is_shortened)
/// name the result is not the original.
///
/// ```
/// use namegate_core::name::escape::{escape, unescape};
/// assert_eq!(unescape("\u{2426}FF\u{2426}ff"), &b"\xff\xe2\x90\xa6ff"[..]);
/// assert_eq!(unescape("\u{2426}41"), &b"A"[..]);
/// assert_ne!(escape(b"A"), "\u{2426}41");
/// ```
pub fn unescape(name: &str) -> Cow<'_, [u8]> {
    let mut rest = name.as_bytes();
    if !is_escaped(name) {
        return Cow::Borrowed(rest);
    }
    let mut out = Vec::with_capacity(rest.len());
    while let Some((&byte, behind)) = rest.split_first() {
        if let Some(decoded) = escaped_byte(rest) {
            out.push(decoded);
            rest = &rest[TRIPLE..];
        } else {
            out.push(byte);
            rest = behind;
        }
    }
    Cow::Owned(out)
}

/// Whether `name` contains an escape, so that [`unescape`] changes it.
///
/// ```
/// use namegate_core::name::escape::is_escaped;
/// assert!(is_escaped("caf\u{2426}E9"));
/// assert!(!is_escaped("caf\u{2426}e9"));
/// ```
pub fn is_escaped(name: &str) -> bool {
    name.as_bytes().windows(TRIPLE).any(|window| escaped_byte(window).is_some())
}

/// Whether `name` could be the escaped form of a name in a directory: it contains an escape of a byte above 7F, or ends with a
/// shortening mark. Names in directories need no other escapes: they contain neither NUL nor `/`, they are neither `.` nor `..`,
/// and other ASCII is never escaped. A name with only such escapes (`␦7F`, `␦2F`) is an ordinary name.
///
/// ```
/// use namegate_core::name::escape::reads_as_escape;
/// assert!(reads_as_escape("caf\u{2426}E9") && reads_as_escape("x\u{2426}~0123456789ABCDEF"));
/// assert!(!reads_as_escape("x\u{2426}7F") && !reads_as_escape("\u{2426}2F"));
/// ```
pub fn reads_as_escape(name: &str) -> bool {
    let is_needed = |window: &[u8]| escaped_byte(window).is_some_and(|byte| !byte.is_ascii());
    name.as_bytes().windows(TRIPLE).any(is_needed) || is_shortened(name)
}

/// Like [`escape`], but never longer than `max_bytes`: a longer result is shortened to as many whole scalar values and
/// whole escapes as fit, the mark `␦~`, and the 64-bit hash of `name` as 16 upper-case hexadecimal digits.
///
/// A shortened name is resolved by reading the directory and shortening each of its names in the same way;
/// [`unescape`] does not return the original. The hash is SipHash-2-4 with the key 00 01 … 0F over the bytes of
/// `name`, in every release. The key is public, so with 2^32 hashes anybody can find two names with the same
/// shortened form: the caller must expect two originals of one shortened name in a directory.
///
/// A `max_bytes` below [`SHORTEST_SHORTENED`] counts as that.
///
/// ```
/// use namegate_core::name::escape::{escape_within, is_shortened};
/// assert_eq!(escape_within(b"\xff.txt", 255), "\u{2426}FF.txt");
/// let long = [0xff; 100];
/// let short = escape_within(&long, 32);
/// assert_eq!(short, "\u{2426}FF\u{2426}FF\u{2426}~84B695AFEF5061AF");
/// assert!(is_shortened(&short));
/// ```
pub fn escape_within(name: &[u8], max_bytes: usize) -> Cow<'_, str> {
    escape_within_with(name, max_bytes, |_| false)
}

/// [`escape_within`] for names of which more characters are escaped, as by [`escape_with`].
pub(crate) fn escape_within_with(
    name: &[u8],
    max_bytes: usize,
    also: impl Fn(usize) -> bool,
) -> Cow<'_, str> {
    let escaped = escape_with(name, also);
    let max_bytes = max_bytes.max(SHORTEST_SHORTENED);
    if escaped.len() <= max_bytes {
        return escaped;
    }
    let room = max_bytes - SHORTEST_SHORTENED;
    let mut end = 0;
    while let Some(c) = escaped[end..].chars().next() {
        let unit = if escaped_byte(&escaped.as_bytes()[end..]).is_some() { TRIPLE } else { c.len_utf8() };
        if end + unit > room {
            break;
        }
        end += unit;
    }
    Cow::Owned(format!(
        "{}{ESCAPE_CHARACTER}{}{:016X}",
        &escaped[..end],
        char::from(SHORTENED),
        stable_hash(name)
    ))
}

/// Whether `name` ends like a name that [`escape_within`] shortened. [`escape`] never returns such a name.
///
/// ```
/// use namegate_core::name::escape::{escape, is_shortened};
/// assert!(is_shortened("x\u{2426}~0123456789ABCDEF"));
/// assert!(!is_shortened("x\u{2426}~0123456789abcdef"));
/// assert!(!is_shortened(&escape("x\u{2426}~0123456789ABCDEF".as_bytes())));
/// ```
pub fn is_shortened(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len().checked_sub(SHORTEST_SHORTENED).is_some_and(|at| is_mark(&bytes[at..]))
}

/// SipHash-2-4 with the key of its authors' test vectors. Not `DefaultHasher`, whose function may change with any release
/// of Rust: shortened names in scripts and logs would no longer match.
pub fn stable_hash(bytes: &[u8]) -> u64 {
    #[expect(
        deprecated,
        reason = "its successor does not promise a function that stays; this one is SipHash-2-4"
    )]
    let mut hasher = std::hash::SipHasher::new_with_keys(0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908);
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What can meet at an edge: escape characters whole and in part, digits, escapes, marks, and what no name may contain.
    const NASTY: [&[u8]; 22] = [
        b"",
        b"\xE2\x90\xA6",
        b"\xE2\x90",
        b"\xE2",
        b"\x80",
        b"\xA6",
        b"\xFF",
        b"\xC0\xAF",
        b"\xED\xA0\x80",
        b"\xF0\x9F\x98",
        b"0",
        b"4",
        b"F",
        b"a",
        b"~",
        b"E9",
        b"\xE2\x90\xA641",
        b"\xE2\x90\xA6~0123456789ABCDEF",
        b"0123456789ABCDEF",
        b"/",
        b"\0",
        b".",
    ];

    fn is_valid_name(name: &str) -> bool {
        !name.contains(['\0', '/']) && !matches!(name, "." | "..")
    }

    fn check_laws(name: &[u8]) {
        let escaped = escape(name);
        assert_eq!(unescape(&escaped), name, "{name:02X?} comes back from {escaped}");
        assert!(is_valid_name(&escaped), "{escaped:?}");
        assert!(!is_shortened(&escaped), "{escaped:?}");
        let needs_none = std::str::from_utf8(name)
            .is_ok_and(|text| is_valid_name(text) && !is_escaped(text) && !is_shortened(text));
        assert_eq!(escaped.as_bytes() == name, needs_none, "{name:02X?} as {escaped}");
        assert_eq!(matches!(escaped, Cow::Borrowed(_)), needs_none);
        assert_eq!(unescape(&escaped) != escaped.as_bytes(), is_escaped(&escaped));
    }

    #[test]
    fn laws_hold_for_all_strings_of_four_nasty_symbols() {
        for first in NASTY {
            for second in NASTY {
                for third in NASTY {
                    for fourth in NASTY {
                        check_laws(&[first, second, third, fourth].concat());
                    }
                }
            }
        }
    }

    #[test]
    fn laws_hold_for_all_strings_of_two_bytes_after_an_escape_character() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                check_laws(&[first, second]);
                check_laws(&[0xE2, 0x90, 0xA6, first, second]);
                check_laws(&[first, 0xE2, 0x90, 0xA6, second, b'A']);
            }
        }
    }

    #[test]
    fn only_the_bytes_of_the_rule_are_escaped() {
        let cases: &[(&[u8], &str)] = &[
            (b"", ""),
            (b"...", "..."),
            (b".", "␦2E"),
            (b"..", "␦2E␦2E"),
            (b".git", ".git"),
            (b"\0", "␦00"),
            (b"/", "␦2F"),
            (b"\xC3\xA9\xC3", "é␦C3"),
            ("␦".as_bytes(), "␦"),
            ("␦4".as_bytes(), "␦4"),
            ("␦4g".as_bytes(), "␦4g"),
            ("␦e9".as_bytes(), "␦e9"),
            ("␦E9".as_bytes(), "␦E2␦90␦A6E9"),
            ("␦␦41".as_bytes(), "␦␦E2␦90␦A641"),
            (b"\xE2\x90\xA6\xFF", "␦␦FF"),
            (b"\xE2\x90\xA64\xFF", "␦4␦FF"),
            ("␦~0123456789ABCDE".as_bytes(), "␦~0123456789ABCDE"),
            ("␦~0123456789ABCDEF".as_bytes(), "␦E2␦90␦A6~0123456789ABCDEF"),
            ("␦~0123456789ABCDEF.x".as_bytes(), "␦~0123456789ABCDEF.x"),
        ];
        for &(name, expected) in cases {
            assert_eq!(escape(name), expected, "{name:02X?}");
        }
    }

    #[test]
    fn a_shortened_name_fits_and_is_cut_between_units() {
        let name = ["é".as_bytes(), b"\xFF", "日".as_bytes(), "␦41".as_bytes()].concat().repeat(9);
        let whole = escape(&name);
        for max_bytes in 0..=whole.len() {
            let short = escape_within(&name, max_bytes);
            if max_bytes == whole.len() {
                assert_eq!(short, whole);
                break;
            }
            assert!(short.len() <= max_bytes.max(SHORTEST_SHORTENED), "{max_bytes}: {short}");
            assert!(is_shortened(&short));
            let prefix = &short[..short.len() - SHORTEST_SHORTENED];
            assert!(whole.starts_with(prefix));
            assert!(name.starts_with(&unescape(prefix)), "{prefix} ends with a whole escape");
            assert!(whole.len() > max_bytes);
            assert!(short.len() + TRIPLE > max_bytes.max(SHORTEST_SHORTENED), "no more is cut than must be");
        }
    }

    #[test]
    fn long_names_with_one_beginning_differ_in_their_hash() {
        let names: Vec<String> = (0..1000_u32)
            .map(|n| escape_within(format!("{:0300}", n).as_bytes(), 255).into_owned())
            .collect();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn the_hash_is_siphash_2_4_as_published() {
        // From the authors' reference implementation: key 00 01 … 0F, input the first n of 00 01 02 …
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(stable_hash(&[]), 0x726F_DB47_DD0E_0E31);
        assert_eq!(stable_hash(&bytes[..1]), 0x74F8_39C5_93DC_67FD);
        assert_eq!(stable_hash(&bytes), 0xA129_CA61_49BE_45E5);
    }
}
