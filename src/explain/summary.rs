//! Explains the encoding of a name to readers who do not know RFC 3629.

use namegate_core::name::ucs4::{Octet, notation};
use namegate_core::name::utf8::{self, IllFormed, Malformation};
use namegate_core::name::{Span, display};

/// One sentence about the whole name. It contains no names, so nothing in it needs escaping.
pub(super) fn summary(name: &[u8]) -> String {
    let mut found = utf8::ill_formed(name);
    let Some(first) = found.next() else { return well_formed(name) };
    let mut sentence = format!("not UTF-8: at byte {}, {}", first.span.start, ill_formed(name, first));
    match found.count() {
        0 => {}
        1 => sentence += "; and one more ill-formed sequence",
        more => sentence += &format!("; and {more} more ill-formed sequences"),
    }
    sentence
}

fn well_formed(name: &[u8]) -> String {
    let scalars = String::from_utf8_lossy(name).chars().count();
    let bytes = count(name.len(), "byte");
    let all = match scalars {
        _ if name.is_ascii() => format!("UTF-8: {bytes}, all ASCII"),
        _ => format!("UTF-8: {bytes}, {}", count(scalars, "code point")),
    };
    let nameless = match name {
        b"" => "an empty name is invalid",
        b"." => "it is the name of the directory itself",
        b".." => "it is the name of the parent directory",
        _ if name.contains(&0) => "no entry can have it: a NUL byte ends a name for the operating system",
        _ if name.contains(&b'/') => "no entry can have it: `/` separates names",
        _ => return all,
    };
    format!("{all}; {nameless}")
}

fn ill_formed(name: &[u8], found: IllFormed) -> String {
    let Span { start, end } = found.span;
    let bytes = display::octets(found.span.slice(name));
    let value = found.value.unwrap_or_default();
    match found.kind {
        Malformation::UnexpectedContinuation if found.span.len() == 1 => {
            format!("the continuation byte {bytes} follows no lead byte")
        }
        Malformation::UnexpectedContinuation => {
            format!("the continuation bytes {bytes} follow no lead byte")
        }
        Malformation::Truncated => {
            let needed = Octet::classify(name[start]).sequence_len().unwrap_or(1);
            let rest = match end - start {
                1 => "no continuation byte follows".to_owned(),
                there => format!("only {there} are present"),
            };
            format!("{:02X} begins a sequence of {needed} bytes, but {rest}", name[start])
        }
        Malformation::Overlong | Malformation::NulSmuggling | Malformation::SeparatorSmuggling => {
            let shown = match char::from_u32(value).filter(char::is_ascii_graphic) {
                Some(c) => format!(" `{c}`"),
                None if value == 0 => " (NUL)".to_owned(),
                None => String::new(),
            };
            format!("{bytes} is an overlong form of {}{shown}, {}", notation(value), only_form(value))
        }
        Malformation::Surrogate => format!(
            "{bytes} encodes the surrogate U+{value:04X}, which is half of a UTF-16 pair and not a character"
        ),
        Malformation::SurrogatePair => format!(
            "{bytes} encodes two surrogates, the UTF-16 pair for U+{value:04X} (CESU-8), {}",
            only_form(value)
        ),
        Malformation::AboveMax => {
            format!("{bytes} encodes {}, above the last code point U+10FFFF", notation(value))
        }
        Malformation::FiveOrSixOctets => format!(
            "the {} bytes {bytes} encode {}, as ISO/IEC 10646-1 allowed since Amendment 2 of 1996; RFC 3629 has at most four bytes",
            end - start,
            notation(value)
        ),
        Malformation::InvalidOctet => {
            format!("the byte {bytes} is never used in UTF-8")
        }
    }
}

/// Says which bytes encode `value` in UTF-8: those of its scalar value, or none (RFC 3629, section 3).
fn only_form(value: u32) -> String {
    match char::from_u32(value) {
        Some(c) => {
            format!("whose only form in UTF-8 is {}", display::octets(c.encode_utf8(&mut [0; 4]).as_bytes()))
        }
        None if value <= 0xFFFF => "a surrogate, which has no form in UTF-8".into(),
        None => "which has no form in UTF-8".into(),
    }
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
