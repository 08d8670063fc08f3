//! Encodings of names in lists and inventories.

use std::borrow::Cow;

use data_encoding::BASE64;

/// The encoding of names in a list or an inventory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoding {
    /// Names are not encoded.
    #[default]
    None,
    /// Bytes as `%XX` (RFC 3986).
    Percent,
    /// Bytes as `%XX` and spaces as `+`, as in HTML forms.
    Form,
    /// Base64 with padding (RFC 4648, section 4).
    Base64,
}

impl Decoding {
    /// Decodes `text`; `None` if it is invalid.
    pub fn decode(self, text: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::None => Some(text),
            Self::Percent => unescape(&text, false).map(Cow::Owned),
            Self::Form => unescape(&text, true).map(Cow::Owned),
            Self::Base64 => BASE64.decode(&text).ok().map(Cow::Owned),
        }
    }
}

/// The crate `percent-encoding` accepts malformed text.
fn unescape(text: &[u8], is_form: bool) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| (*byte? as char).to_digit(16);
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'%' => {
                bytes.push(u8::try_from(16 * digit(text.get(at + 1))? + digit(text.get(at + 2))?).ok()?);
                at += 2;
            }
            b'+' if is_form => bytes.push(b' '),
            _ => bytes.push(byte),
        }
        at += 1;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_or_refused() {
        let cases: [(Decoding, &str, Option<&[u8]>); 9] = [
            (Decoding::None, "a%20b", Some(b"a%20b")),
            (Decoding::Percent, "a%20%E9+%2f", Some(b"a \xE9+/")),
            (Decoding::Form, "a+b%2B", Some(b"a b+")),
            (Decoding::Percent, "%00", Some(b"\0")),
            (Decoding::Percent, "%2", None),
            (Decoding::Percent, "%G0", None),
            (Decoding::Percent, "%+1", None),
            (Decoding::Base64, "/w==", Some(b"\xFF")),
            (Decoding::Base64, "/w", None),
        ];
        for (decoding, text, bytes) in cases {
            assert_eq!(decoding.decode(text.as_bytes().into()).as_deref(), bytes, "{decoding:?} {text}");
        }
    }
}
