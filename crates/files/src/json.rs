//! JSON that holds any bytes and is safe to print.
//!
//! JSON text is Unicode, file names are bytes. [`Hex`] and [`Base64`] hold the exact bytes. The writers escape every code
//! point that acts on a terminal or is invisible.

use std::fmt;
use std::io::{self, Write};
use std::ops::Deref;

use data_encoding::{BASE64, DecodeError, HEXLOWER, HEXLOWER_PERMISSIVE};
use namegate_core::name::display::{acts_or_hides, display};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

/// Bytes in lower-case hexadecimal: names, which people compare byte by byte. Upper case is read too.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex<B = Vec<u8>>(pub B);

/// Bytes in base64 (RFC 4648, section 4): paths and targets, which are long.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base64<B = Vec<u8>>(pub B);

impl<B> Deref for Hex<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.0
    }
}

impl<B> Deref for Base64<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.0
    }
}

impl<B: AsRef<[u8]>> Serialize for Hex<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&HEXLOWER.encode_display(self.0.as_ref()))
    }
}

impl<B: AsRef<[u8]>> Serialize for Base64<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&BASE64.encode_display(self.0.as_ref()))
    }
}

/// A text as bytes. JSON can have a lone surrogate (`"\\ud800"`, RFC 8259, section 8.2), which no UTF-8 has: it becomes the three bytes
/// that the pattern of UTF-8 gives it, ED A0 80, and bytes that are not UTF-8 stay what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextBytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for TextBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyText;
        impl de::Visitor<'_> for AnyText {
            type Value = TextBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<TextBytes, E> {
                Ok(TextBytes(bytes.to_vec()))
            }
        }
        // Only by this the parser does not ask for UTF-8.
        deserializer.deserialize_bytes(AnyText)
    }
}

/// The text in a document where `steps` lead: keys of objects and indexes of arrays. `None` if it is nowhere.
///
/// # Errors
/// It is not JSON, or no text.
pub fn text_at(json: &[u8], steps: &[String]) -> serde_json::Result<Option<Vec<u8>>> {
    let mut parser = serde_json::Deserializer::from_slice(json);
    let found = Steps(steps).deserialize(&mut parser)?;
    parser.end().map(|()| found)
}

struct Steps<'s>(&'s [String]);

impl<'de> DeserializeSeed<'de> for Steps<'_> {
    type Value = Option<Vec<u8>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => TextBytes::deserialize(deserializer).map(|text| Some(text.0)),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> de::Visitor<'de> for Steps<'_> {
    type Value = Option<Vec<u8>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.0.split_first() {
                Some((step, rest)) if *step == key => found = map.next_value_seed(Steps(rest))?,
                _ => _ = map.next_value::<de::IgnoredAny>()?,
            }
        }
        Ok(found)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Some((step, rest)) = self.0.split_first() else { return Ok(None) };
        for at in 0_u64.. {
            if step.parse() == Ok(at) {
                let found = seq.next_element_seed(Steps(rest))?;
                while seq.next_element::<de::IgnoredAny>()?.is_some() {}
                return Ok(found.flatten());
            }
            if seq.next_element::<de::IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(None)
    }
}

impl<'de, B: From<Vec<u8>>> Deserialize<'de> for Hex<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let decode = |text: &str| HEXLOWER_PERMISSIVE.decode(text.as_bytes());
        decoded(deserializer, "hexadecimal", decode).map(|bytes| Self(bytes.into()))
    }
}

impl<'de, B: From<Vec<u8>>> Deserialize<'de> for Base64<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let decode = |text: &str| BASE64.decode(text.as_bytes());
        decoded(deserializer, "base64", decode).map(|bytes| Self(bytes.into()))
    }
}

fn decoded<'de, D: Deserializer<'de>>(
    deserializer: D,
    encoding: &str,
    decode: impl Fn(&str) -> Result<Vec<u8>, DecodeError>,
) -> Result<Vec<u8>, D::Error> {
    parse_text(deserializer, |text| {
        decode(text).map_err(|error| format!("`{text}` is not {encoding}: {error}"))
    })
}

/// Deserializes a string by `parse`, whose error is a sentence. The string is not copied.
///
/// # Errors
/// The value is no string, or `parse` fails.
pub fn parse_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct TextVisitor<P>(P);

    impl<T, P: Fn(&str) -> Result<T, String>> de::Visitor<'_> for TextVisitor<P> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).map_err(E::custom)
        }
    }

    deserializer.deserialize_str(TextVisitor(parse))
}

/// Any bytes as an object: text for people, and the exact bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JsonBytes {
    /// Escaped for display.
    pub shown: String,
    /// The exact bytes.
    pub base64: Base64,
}

impl JsonBytes {
    /// Encodes `bytes`.
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        Self { shown: display(bytes).to_string(), base64: Base64(bytes.to_vec()) }
    }
}

/// The version of a format that has not changed incompatibly since version 1.0 of the program: `docs/STABILITY.md`.
pub const FORMAT_VERSION: u32 = 1;

/// Deserializes the version of a format that this program reads.
///
/// # Errors
/// It is another one.
pub fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let version = u32::deserialize(deserializer)?;
    check_version(version).map_err(de::Error::custom)
}

/// Returns a version that this program reads.
///
/// # Errors
/// A sentence about another one.
pub fn check_version(version: u32) -> Result<u32, String> {
    match version {
        FORMAT_VERSION => Ok(version),
        other => Err(format!(
            "format version {other} is not supported; this program reads version {FORMAT_VERSION}"
        )),
    }
}

/// An object that says what it is: its `type`, and the version of that format.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct TypedObject<T> {
    r#type: &'static str,
    version: u32,
    #[serde(flatten)]
    fields: T,
}

impl<T> TypedObject<T> {
    /// Puts the type in front of `fields`.
    pub const fn new(r#type: &'static str, fields: T) -> Self {
        Self { r#type, version: FORMAT_VERSION, fields }
    }
}

/// Writes one object and a line feed.
///
/// # Errors
/// The output cannot be written.
pub fn write_line(out: &mut (impl Write + ?Sized), object: &impl Serialize) -> io::Result<()> {
    write(out, object)?;
    out.write_all(b"\n")
}

/// Writes one object.
///
/// # Errors
/// The output cannot be written.
pub fn write(out: &mut (impl Write + ?Sized), object: &impl Serialize) -> io::Result<()> {
    object.serialize(&mut serde_json::Serializer::with_formatter(out, SafeFormatter { in_markup: false }))?;
    Ok(())
}

/// Writes one object for use inside HTML: it contains no markup.
///
/// # Errors
/// The output cannot be written.
pub fn write_in_markup(out: &mut (impl Write + ?Sized), object: &impl Serialize) -> io::Result<()> {
    object.serialize(&mut serde_json::Serializer::with_formatter(out, SafeFormatter { in_markup: true }))?;
    Ok(())
}

/// One object as a line without a line feed.
pub fn to_line(object: &impl Serialize) -> String {
    let mut line = Vec::new();
    write(&mut line, object).expect("an object of strings and numbers is JSON, and memory takes every write");
    String::from_utf8(line).expect("JSON is UTF-8")
}

/// Compact JSON that is safe on a terminal: C1 controls, bidi controls and invisible code points are escaped too.
struct SafeFormatter {
    /// Whether the JSON is part of an HTML page.
    in_markup: bool,
}

impl SafeFormatter {
    fn escapes(&self, c: char) -> bool {
        acts_or_hides(c) || self.in_markup && matches!(c, '<' | '>' | '&')
    }
}

impl Formatter for SafeFormatter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Most fragments are ASCII, which is checked many bytes at a time.
        if !self.in_markup && fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| self.escapes(c)) {
            CompactFormatter.write_string_fragment(writer, &rest[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_read_as_they_were_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        let hex = to_line(&Hex(&bytes));
        assert_eq!(serde_json::from_str::<Hex>(&hex).unwrap().0, bytes);
        assert_eq!(serde_json::from_str::<Hex>(&hex.to_uppercase()).unwrap().0, bytes);
        assert_eq!(serde_json::from_str::<Base64>(&to_line(&Base64(&bytes))).unwrap().0, bytes);
        for (text, expected) in
            [("\"6\"", "not hexadecimal"), ("\"zz\"", "not hexadecimal"), ("7", "invalid type")]
        {
            let error = serde_json::from_str::<Hex>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(serde_json::from_str::<Base64>("\"AAA\"").unwrap_err().to_string().contains("not base64"));
    }

    #[test]
    fn nothing_that_is_written_acts_on_a_terminal_or_is_markup() {
        let text = "\u{202E}\u{1B}\u{85}<\u{E0041}>é";
        assert_eq!(to_line(&text), "\"\\u202e\\u001b\\u0085<\\udb40\\udc41>é\"");
        let mut out = Vec::new();
        write_in_markup(&mut out, &"<&>").unwrap();
        assert_eq!(out, br#""\u003c\u0026\u003e""#);
    }
}
