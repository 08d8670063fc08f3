//! Paths as URI references: any bytes, in ASCII characters that have no special meaning for a reader, a shell or a spreadsheet.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Everything except the unreserved characters of RFC 3986 and the slash. The colon is encoded, so that no path looks
/// like it has a scheme.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'_').remove(b'~').remove(b'-');

/// The bytes of a path, percent-encoded (RFC 3986, section 2.1); also a leading `-`, which spreadsheets read as a formula.
pub fn encoded(path: &[u8]) -> String {
    match path.strip_prefix(b"-") {
        Some(rest) => format!("%2D{}", percent_encode(rest, ESCAPED)),
        None => percent_encode(path, ESCAPED).to_string(),
    }
}

/// A URI reference to a file: relative if the path is relative, otherwise with the scheme `file`.
pub fn reference(path: &[u8]) -> String {
    if path.starts_with(b"/") { format!("file://{}", encoded(path)) } else { encoded(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_from_a_reference() {
        let path: Vec<u8> = (0..=255).collect();
        let decoded: Vec<u8> = percent_encoding::percent_decode_str(&encoded(&path)).collect();
        assert_eq!(decoded, path);
        assert!(encoded(&path).bytes().all(|b| b.is_ascii_alphanumeric() || b"/._~-%".contains(&b)));
    }

    #[test]
    fn a_reference_is_never_a_scheme_or_a_formula() {
        assert_eq!(reference(b"a:b/\xE9"), "a%3Ab/%E9");
        assert_eq!(reference(b"/srv/a b"), "file:///srv/a%20b");
        assert_eq!(reference(b"-1+1"), "%2D1%2B1");
        assert_eq!(reference(b"=cmd"), "%3Dcmd");
    }
}
