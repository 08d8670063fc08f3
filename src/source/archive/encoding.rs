//! Encodings of names in a zip.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::name::reading::Encoding;

/// An encoding of names in an archive, in which the bytes 00..7F are ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEncoding {
    /// A legacy encoding.
    Legacy(Encoding),
    /// None: the bytes are the name.
    Utf8,
}

impl MemberEncoding {
    /// Decodes `bytes`; returns the bytes themselves if they are invalid.
    pub(super) fn decode(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        if bytes.is_ascii() {
            return Cow::Borrowed(bytes);
        }
        let text = match self {
            Self::Utf8 => None,
            Self::Legacy(encoding) => encoding.read(bytes),
        };
        text.map_or(Cow::Borrowed(bytes), |text| Cow::Owned(text.into_bytes()))
    }
}

/// The error for an unknown encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEncoding;

impl fmt::Display for UnknownEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected utf-8, an OEM code page such as cp437 or cp850, or an encoding such as shift_jis",
        )
    }
}

impl std::error::Error for UnknownEncoding {}

impl FromStr for MemberEncoding {
    type Err = UnknownEncoding;

    fn from_str(label: &str) -> Result<Self, UnknownEncoding> {
        match &label.to_ascii_lowercase()[..] {
            "utf-8" | "utf8" => Ok(Self::Utf8),
            _ => label.parse().map(Self::Legacy).map_err(|_| UnknownEncoding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_in_the_given_encoding() {
        let cases: [(&str, &[u8], &[u8]); 6] = [
            ("cp437", b"caf\x82", "café".as_bytes()),
            ("IBM850", b"\xD5", "ı".as_bytes()),
            ("shift_jis", b"\x93\xFA", "日".as_bytes()),
            ("utf-8", b"caf\xE9", b"caf\xE9"),
            ("cp437", b"plain\0", b"plain\0"),
            ("shift_jis", b"\xFF", b"\xFF"),
        ];
        for (label, bytes, name) in cases {
            let encoding: MemberEncoding = label.parse().unwrap();
            assert_eq!(encoding.decode(bytes), name, "{label}");
        }
        assert_eq!("nothing".parse::<MemberEncoding>(), Err(UnknownEncoding));
    }
}
