//! Signatures at the beginning of a text: byte order marks.
//!
//! A byte order mark in UTF-8 (EF BB BF) is a signature, not a part of the text (RFC 3629, section 6): it is skipped, and the log says
//! so. The signatures of UTF-16 and UCS-4 (ISO/IEC 10646, annex H in the edition of 1993; RFC 2781, section 3.2) say that the text is in
//! another encoding: that is an error, because every ASCII character of such a text would have bytes of value 0.

use std::io::{self, BufRead, Chain, Cursor, Read};

/// What a text consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// JSON, CSV, TOML or lines of another syntax: no valid text begins with a signature.
    Syntax,
    /// File names, each on a line of its own. A name can have any bytes: also those of a signature.
    Lines,
    /// The same, where each name is checked exactly as it is given: a byte order mark is part of the first one.
    ExactLines,
    /// File names with a NUL after each: no text, so a byte order mark is part of the first name.
    NulSeparated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signature {
    Utf8,
    Utf16,
    Ucs4,
}

/// So many bytes show whether names or UTF-16 follow.
const TELLING: usize = 1 << 10;

impl Signature {
    /// All signatures with their bytes. A longer one comes before those that it begins with.
    const ALL: [(&[u8], Self); 5] = [
        (b"\0\0\xFE\xFF", Self::Ucs4),
        (b"\xFF\xFE\0\0", Self::Ucs4),
        (b"\xFE\xFF", Self::Utf16),
        (b"\xFF\xFE", Self::Utf16),
        (b"\xEF\xBB\xBF", Self::Utf8),
    ];

    /// The signature with which `start` begins.
    fn of(start: &[u8], kind: TextKind) -> Option<Self> {
        let (bytes, found) = Self::ALL.into_iter().find(|(bytes, _)| start.starts_with(bytes))?;
        let is_signature = match (found, kind) {
            (Self::Utf8, kind) => matches!(kind, TextKind::Syntax | TextKind::Lines),
            (Self::Utf16, TextKind::Lines | TextKind::ExactLines) => {
                // No name contains a NUL, and the line feed of UTF-16 does.
                let behind = &start[bytes.len()..];
                let end = memchr::memchr(b'\n', behind).map_or(behind.len(), |at| at + 2);
                behind[..end.min(behind.len())].contains(&0)
            }
            (Self::Utf16, TextKind::NulSeparated) => {
                let units = start[bytes.len()..].chunks_exact(2).take(3);
                let high = usize::from(bytes[0] == 0xFF);
                units.len() == 3 && units.into_iter().all(|unit| unit[high] == 0 && unit[1 - high] != 0)
            }
            _ => true,
        };
        is_signature.then_some(found)
    }

    /// The error for a text in this encoding, and nothing for UTF-8.
    fn accept(self, name: &str) -> io::Result<()> {
        let (encoding, label) = match self {
            Self::Utf8 => {
                log::info!("{name}: skipping the byte order mark at its beginning");
                return Ok(());
            }
            Self::Utf16 => ("UTF-16", "UTF-16"),
            Self::Ucs4 => ("UCS-4 (UTF-32)", "UTF-32"),
        };
        let message = format!(
            "it begins with the signature of {encoding}, and UTF-8 is expected; convert it first: iconv -f {label} -t UTF-8"
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, message))
    }
}

/// `text` without a byte order mark; `name` is that of the file, for the log.
///
/// # Errors
/// The text is UTF-16 or UCS-4 by its signature.
pub fn strip<'t>(text: &'t [u8], kind: TextKind, name: &str) -> io::Result<&'t [u8]> {
    match Signature::of(&text[..text.len().min(TELLING)], kind) {
        None => Ok(text),
        Some(found) => found.accept(name).map(|()| &text[3..]),
    }
}

/// A stream without a byte order mark.
pub type Unsigned<R> = Chain<Cursor<Vec<u8>>, R>;

/// `stream` without a byte order mark; `name` is that of the file, for the log. No more is read than shows whether there is a
/// signature: the rest may come much later.
///
/// # Errors
/// The stream cannot be read, or it is UTF-16 or UCS-4 by its signature.
pub fn skip<R: BufRead>(mut stream: R, kind: TextKind, name: &str) -> io::Result<Unsigned<R>> {
    let buffered = stream.fill_buf()?;
    let begins_one = |start: &[u8]| Signature::ALL.iter().any(|(bytes, _)| bytes.starts_with(start));
    let mut start = Vec::new();
    if begins_one(&buffered[..buffered.len().min(2)]) {
        let goes_on = |start: &[u8]| {
            Signature::ALL.iter().any(|(bytes, _)| bytes.len() > start.len() && bytes.starts_with(start))
        };
        while goes_on(&start) {
            if (&mut stream).take(1).read_to_end(&mut start)? == 0 {
                break;
            }
        }
        let is_wide = start.starts_with(b"\xFE\xFF") || start.starts_with(b"\xFF\xFE");
        if is_wide && kind != TextKind::Syntax {
            let read =
                |stream: &mut R, to: &mut Vec<u8>, most: usize| stream.take(most as u64).read_to_end(to);
            match kind {
                TextKind::NulSeparated => _ = read(&mut stream, &mut start, 8)?,
                _ => {
                    (&mut stream).take(TELLING as u64).read_until(b'\n', &mut start)?;
                    read(&mut stream, &mut start, 1)?;
                }
            }
        }
        if let Some(found) = Signature::of(&start, kind) {
            found.accept(name)?;
            start.drain(..3);
        }
    }
    Ok(Cursor::new(start).chain(stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// Hands over one byte at a time.
    struct Slow<'b>(&'b [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(buffer.len()).min(1);
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    /// What is left of `text`, as a stream in two speeds and in memory; all must agree.
    fn left(text: &[u8], kind: TextKind) -> Result<Vec<u8>, String> {
        let read = |stream: &mut dyn BufRead| {
            let mut stream = skip(stream, kind, "test").map_err(|error| error.to_string())?;
            let mut left = Vec::new();
            stream.read_to_end(&mut left).map_err(|error| error.to_string())?;
            Ok(left)
        };
        let whole = strip(text, kind, "test").map(<[u8]>::to_vec).map_err(|error| error.to_string());
        assert_eq!(read(&mut &*text), whole, "{kind:?} {}", text.escape_ascii());
        assert_eq!(
            read(&mut BufReader::with_capacity(1, Slow(text))),
            whole,
            "{kind:?} {}",
            text.escape_ascii()
        );
        whole
    }

    fn utf16(text: &str, is_big: bool) -> Vec<u8> {
        let bytes = |unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(bytes).collect()
    }

    #[test]
    fn a_byte_order_mark_is_skipped_where_it_is_a_signature() {
        use TextKind::{Lines, NulSeparated, Syntax};
        for kind in [Syntax, Lines] {
            assert_eq!(left(b"\xEF\xBB\xBFa\n", kind), Ok(b"a\n".to_vec()));
            assert_eq!(left(b"\xEF\xBB\xBF", kind), Ok(Vec::new()));
            assert_eq!(left(b"\xEF\xBB\xBF\xEF\xBB\xBFa", kind), Ok(b"\xEF\xBB\xBFa".to_vec()), "one");
        }
        for text in
            [&b""[..], b"a", b"\xEF", b"\xEF\xBB", b"\xEF\xBBx\n", b"a\xEF\xBB\xBF", b"\0\0", b"\0\0\xFE"]
        {
            for kind in [Syntax, Lines, NulSeparated] {
                assert_eq!(left(text, kind), Ok(text.to_vec()));
            }
        }
        for kind in [NulSeparated, TextKind::ExactLines] {
            assert_eq!(left(b"\xEF\xBB\xBFa\0", kind), Ok(b"\xEF\xBB\xBFa\0".to_vec()));
        }
    }

    #[test]
    fn other_encodings_are_named_with_what_converts_them() {
        use TextKind::{Lines, NulSeparated, Syntax};
        for kind in [Syntax, Lines, NulSeparated] {
            for is_big in [false, true] {
                let error = left(&utf16("dir/name\nb\n", is_big), kind).unwrap_err();
                assert!(error.contains("UTF-16") && error.contains("iconv -f UTF-16 -t UTF-8"), "{error}");
            }
            for start in [b"\0\0\xFE\xFF\0\0\0a", b"\xFF\xFE\0\0a\0\0\0"] {
                let error = left(start, kind).unwrap_err();
                assert!(error.contains("UCS-4") && error.contains("iconv -f UTF-32 -t UTF-8"), "{error}");
            }
        }
        for is_big in [false, true] {
            assert!(left(&utf16("日本\n語\n", is_big), Lines).is_err(), "only the line feed has a NUL");
        }
    }

    #[test]
    fn names_can_begin_with_bytes_that_utf8_never_uses() {
        for text in [&b"\xFF\xFEname\nb\n"[..], b"\xFE\xFF", b"\xFF\xFE\n", b"\xFF\xFE\nb\0"] {
            assert_eq!(left(text, TextKind::Lines), Ok(text.to_vec()));
        }
        for text in [&b"\xFF\xFEname\0b\0"[..], b"\xFE\xFF\0", b"\xFF\xFEa\0bcd\0"] {
            assert_eq!(left(text, TextKind::NulSeparated), Ok(text.to_vec()));
        }
        assert!(left(b"\xFF\xFE{}", TextKind::Syntax).is_err());
    }
}
