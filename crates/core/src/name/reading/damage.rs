//! UTF-8 that programs damaged: cut inside a character, half escaped, or with bytes replaced.
//!
//! RFC 3629, section 1: the probability that text in another encoding is valid UTF-8 is low and falls with its length. So each
//! character of several bytes in a damaged name is evidence that it was UTF-8.

use super::super::utf8::{Malformation, ill_formed};

/// The longest fragment of a character, in bytes.
const LONGEST_FRAGMENT: usize = 3;

/// How much of the extensions of a cut name is no part of the cut, in bytes, digits not counted.
const LONGEST_REST: usize = 24;

/// UTF-8 that was cut inside a character: at the end of a name, or before what a program added after the cut, such as an
/// extension or a number; or at the start of a name.
#[derive(Clone, Debug)]
pub(super) struct Cut<'n> {
    /// What is before the fragment.
    pub(super) before: &'n str,
    /// The first bytes of a character, or the last ones at the start of a name.
    pub(super) fragment: &'n [u8],
    /// What is after it.
    pub(super) after: &'n str,
}

impl<'n> Cut<'n> {
    /// The cut of `name`; `None` if no cut explains it.
    pub(super) fn find(name: &'n [u8]) -> Option<Self> {
        let error = std::str::from_utf8(name).err()?;
        let (before, rest) = name.split_at(error.valid_up_to());
        let fragment = match before {
            [] => rest.iter().take_while(|&&byte| matches!(byte, 0x80..=0xBF)).count(),
            _ => 0,
        };
        let is_start = fragment > 0;
        let len = match is_start {
            true => fragment,
            // The longest beginning of a sequence that RFC 3629 allows.
            false => error.error_len().unwrap_or(rest.len()),
        };
        let (fragment, after) = rest.split_at(len);
        if fragment.len() > LONGEST_FRAGMENT || !is_start && !matches!(fragment[0], 0xC2..=0xF4) {
            return None;
        }
        let (before, after) = (std::str::from_utf8(before).ok()?, std::str::from_utf8(after).ok()?);
        match is_start {
            // The start of a name is rarely cut, and the rest must show that it is UTF-8.
            true if after.is_ascii() => return None,
            false if !is_added(after) => return None,
            _ => {}
        }
        Some(Self { before, fragment, after })
    }

    /// The name without the fragment.
    pub(super) fn text(&self) -> String {
        [self.before, self.after].concat()
    }

    /// The lead byte of the cut character; `None` at the start of a name.
    pub(super) fn lead(&self) -> Option<u8> {
        Some(self.fragment[0]).filter(|lead| *lead >= 0xC2)
    }
}

/// Whether a program may have added `rest` to a name after it had cut it: an extension, a number, an ellipsis.
fn is_added(rest: &str) -> bool {
    let starts = |c: char| matches!(c, '.' | '…' | ' ' | '_' | '-' | '~' | '(' | '[' | '{');
    let is_stem = |c: char| c.is_ascii_alphanumeric() || starts(c) || matches!(c, ')' | ']' | '}');
    rest.is_empty()
        || rest.bytes().filter(|byte| !byte.is_ascii_digit()).count() <= LONGEST_REST
            && rest.starts_with(starts)
            && rest.chars().all(is_stem)
            && {
                // Words of letters are not added, except extensions.
                let stem = rest.split('.').next().unwrap_or_default();
                stem.bytes().filter(u8::is_ascii_alphabetic).count() <= 1
            }
}

/// How many bits of evidence `text` has that it is UTF-8: one for each character of two bytes, two for one of three, three for one of
/// four.
pub(crate) fn utf8_evidence(text: &str) -> usize {
    text.chars().filter(|c| !c.is_ascii()).map(|c| c.len_utf8() - 1).sum()
}

/// The bytes of `name`, in which bytes from 80 to 9F may be written as `%XX`; `None` if none is, or if the rest shows no sign of it: the
/// result must be UTF-8, or have at least two of these escapes beside other bytes beyond ASCII.
pub(super) fn unescape_percent(name: &[u8]) -> Option<Vec<u8>> {
    let escapes = memchr::memchr_iter(b'%', name).filter(|&at| escaped(&name[at..]).is_some()).count();
    if escapes == 0 {
        return None;
    }
    let (mut bytes, mut at, mut touching) = (Vec::with_capacity(name.len()), 0, 0);
    while let Some(&byte) = name.get(at) {
        match escaped(&name[at..]) {
            Some(value) => {
                let is_beyond = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii());
                touching += usize::from(is_beyond(bytes.last()) || is_beyond(name.get(at + 3)));
                bytes.push(value);
                at += 3;
            }
            None => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    let is_utf8 = std::str::from_utf8(&bytes).is_ok() || Cut::find(&bytes).is_some();
    (is_utf8 || touching >= 2 && touching == escapes).then_some(bytes)
}

/// The byte from 80 to 9F that `%XX` at the start of `rest` stands for.
fn escaped(rest: &[u8]) -> Option<u8> {
    let [b'%', high @ (b'8' | b'9'), low, ..] = *rest else { return None };
    let low = char::from(low).to_digit(16)?;
    Some((high - b'0') << 4 | low as u8)
}

/// The bytes of `name`, in which each surrogate from U+DC80 to U+DCFF stands for a byte (PEP 383); `None` if there is none, or if anything
/// else is ill-formed: then other text has these bytes by chance.
pub(super) fn unescape_surrogates(name: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    for found in ill_formed(name) {
        let (Malformation::Surrogate, Some(value @ 0xDC80..=0xDCFF)) = (found.kind, found.value) else {
            return None;
        };
        bytes.extend_from_slice(&name[at..found.span.start]);
        bytes.push((value - 0xDC00) as u8);
        at = found.span.end;
    }
    if at == 0 {
        return None;
    }
    bytes.extend_from_slice(&name[at..]);
    Some(bytes)
}

/// UTF-8 in which bytes from 80 to 9F were replaced.
#[derive(Clone, Debug)]
pub(super) struct Masked {
    /// The text, with `_` for each damaged character.
    pub(super) text: String,
    /// How many characters are damaged.
    pub(super) count: usize,
}

/// Reads `name` as UTF-8 in which bytes from 80 to 9F were replaced by `_` or `?`; `None` if that does not explain all ill-formed bytes, or
/// if no character of several bytes is left.
pub(super) fn masked(name: &[u8]) -> Option<Masked> {
    let (mut text, mut count, mut rest) = (String::with_capacity(name.len()), 0, name);
    loop {
        let error = match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                break;
            }
            Err(error) => error,
        };
        let (valid, bad) = rest.split_at(error.valid_up_to());
        text.push_str(std::str::from_utf8(valid).ok()?);
        let len = match bad[0] {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return None,
        };
        let (sequence, after) = bad.split_at_checked(len)?;
        let is_mask = |byte: &u8| matches!(byte, b'_' | b'?');
        let tail = &sequence[1..];
        if !tail.iter().any(is_mask) || !tail.iter().all(|byte| is_mask(byte) || matches!(byte, 0xA0..=0xBF))
        {
            return None;
        }
        text.push('_');
        count += 1;
        rest = after;
    }
    (!text.is_ascii() || count > 1).then_some(Masked { text, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_found_at_the_end_before_an_extension_and_before_what_programs_add() {
        for (name, text) in [
            (&b"f\xC3\xA5r p\xC3\xA5 r\xC3.ts"[..], "får på r.ts"),
            (b"\xE4\xBA\x8C\xE3\x80\x87\xE5\xB9.mp4", "二〇.mp4"),
            (b"\xE4\xBA\x8C\xE5", "二"),
            (b"party \xF0\x9F\x98", "party "),
            (b"\xD0\xBF\xD1 (2).tar.gz", "п (2).tar.gz"),
            (b"\xD0\xBF\xD1...", "п..."),
            (b"\x9F\x98\x80 \xC3\xA9.jpg", " é.jpg"),
        ] {
            assert_eq!(Cut::find(name).map(|cut| cut.text()).as_deref(), Some(text), "{name:02X?}");
        }
        for name in [
            &b"caf\xE9 noir.txt"[..],
            b"r\xE9sum\xE9.txt",
            b"\xC3 la carte.txt",
            b"a\xC0.txt",
            b"a\xFF.txt",
            b"a\x80.txt",
            b"plain",
        ] {
            assert!(Cut::find(name).is_none(), "{name:02X?}");
        }
    }

    #[test]
    fn escaped_and_replaced_bytes_are_found() {
        assert_eq!(unescape_percent(b"\xE8\xAF%98\xE6\xA3%8B").as_deref(), Some("诘棋".as_bytes()));
        assert_eq!(
            unescape_percent("100%80 é".as_bytes()),
            Some(b"100\x80 \xC3\xA9".to_vec()).filter(|_| false)
        );
        assert_eq!(unescape_percent(b"caf\xE9 80%"), None);
        assert_eq!(unescape_surrogates(b"caf\xED\xB3\xA9").as_deref(), Some(&b"caf\xE9"[..]));
        assert_eq!(unescape_surrogates(b"\xED\xA0\x80"), None);
        let ukrainian = b"\xEF\xEE\xE2\xED\xB3\xBA\xF8";
        assert_eq!(unescape_surrogates(ukrainian), None, "`повнієш` in windows-1251");
        let read = |name: &[u8]| masked(name).map(|masked| masked.text);
        assert_eq!(read(b"\xE8\xAF_\xE6\xA3\xAE").as_deref(), Some("_森"));
        assert_eq!(read(b"\xD0\xBF\xD1?\xD0\xB8").as_deref(), Some("п_и"));
        assert_eq!(read(b"caf\xE9_x"), None);
    }
}
