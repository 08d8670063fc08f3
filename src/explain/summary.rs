//! What is wrong with the encoding of a name, said to somebody who has never read RFC 3629.

use crate::name::ucs4::Octet;
use crate::name::utf8::{self, IllFormed, Malformation};
use crate::name::{Span, display, ucs4};

/// One sentence about the whole name, without names in it: nothing in it needs escaping.
pub(super) fn summary(name: &[u8]) -> String {
    let mut found = utf8::ill_formed(name);
    let Some(first) = found.next() else { return well_formed(name) };
    let mut sentence = format!("not UTF-8: at byte {} {}", first.span.start, ill_formed(name, first));
    match found.count() {
        0 => {}
        1 => sentence += "; and one more ill-formed sequence",
        more => sentence += &format!("; and {more} more ill-formed sequences"),
    }
    sentence
}

fn well_formed(name: &[u8]) -> String {
    let scalars = String::from_utf8_lossy(name).chars().count();
    let octets = count(name.len(), "octet");
    let all = match scalars {
        _ if name.is_ascii() => format!("UTF-8: {octets}, all ASCII"),
        _ => format!("UTF-8: {octets}, {}", count(scalars, "code point")),
    };
    let nameless = match name {
        b"" => "empty, so it names nothing",
        b"." => "it names the directory itself",
        b".." => "it names the parent directory",
        _ if name.contains(&0) => "no entry can have it: a NUL ends a name for the system",
        _ if name.contains(&b'/') => "no entry can have it: `/` separates names",
        _ => return all,
    };
    format!("{all}; {nameless}")
}

fn ill_formed(name: &[u8], found: IllFormed) -> String {
    let Span { start, end } = found.span;
    let octets = display::octets(found.span.slice(name));
    let value = found.value.unwrap_or_default();
    match found.kind {
        Malformation::UnexpectedContinuation if found.span.len() == 1 => {
            format!("stands the continuation octet {octets}, and there is nothing that it continues")
        }
        Malformation::UnexpectedContinuation => {
            format!("stand the continuation octets {octets}, and there is nothing that they continue")
        }
        Malformation::Truncated => {
            let needed = Octet::classify(name[start]).sequence_len().unwrap_or(1);
            let rest = match end - start {
                1 => "no continuation octet follows".to_owned(),
                there => format!("only {there} of them are there"),
            };
            format!("the octet {:02X} begins a sequence of {needed} octets, and {rest}", name[start])
        }
        Malformation::Overlong | Malformation::NulSmuggling | Malformation::SeparatorSmuggling => {
            let shown = match char::from_u32(value).filter(char::is_ascii_graphic) {
                Some(c) => format!(" `{c}`"),
                None if value == 0 => " (NUL)".to_owned(),
                None => String::new(),
            };
            format!(
                "the octets {octets} are an overlong form of U+{value:04X}{shown}, whose only form in UTF-8 is {}",
                shortest(value)
            )
        }
        Malformation::Surrogate => format!(
            "the octets {octets} encode the surrogate U+{value:04X}, which is one half of a UTF-16 pair and no character"
        ),
        Malformation::SurrogatePair => format!(
            "the octets {octets} encode two surrogates, the UTF-16 pair for U+{value:04X} (CESU-8), whose only form in \
             UTF-8 is {}",
            shortest(value)
        ),
        Malformation::AboveMax => {
            format!("the octets {octets} encode {value:08X}, above the last code point U+10FFFF")
        }
        Malformation::FiveOrSixOctets => format!(
            "the {} octets {octets} encode {value:08X}, as ISO/IEC 10646-1:1993 allowed; UTF-8 now ends at four octets",
            end - start
        ),
        Malformation::InvalidOctet => {
            format!("stands the octet {octets}, which no UTF-8 of any edition uses")
        }
    }
}

fn shortest(value: u32) -> String {
    ucs4::encode(value).map_or_else(String::new, |sequence| display::octets(sequence.as_slice()))
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
