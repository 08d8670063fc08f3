//! Measures names in the units that targets count.

use super::profile::{Limit, Unit};
use crate::name::Span;
use crate::name::normalize::sum_in_form;

/// The length of `name` in `unit`.
///
/// Each byte that is not UTF-8 counts as one unit in every unit: how a target converts it is unknown, and it is an error
/// anyway.
pub(super) fn measure(name: &[u8], unit: Unit) -> usize {
    match unit {
        Unit::Bytes => name.len(),
        Unit::Dots => memchr::memchr_iter(b'.', name).count(),
        Unit::Components => name.split(|&b| b == b'/').filter(|part| !part.is_empty()).count(),
        Unit::BytesIn(form) => chunks(name, |s| sum_in_form(s, form, char::len_utf8)),
        Unit::Utf16 => chunks(name, utf16),
        Unit::Utf16In(form) => chunks(name, |s| sum_in_form(s, form, char::len_utf16)),
        Unit::CodePoints => chunks(name, |s| s.chars().count()),
        Unit::StemCodePoints => measure(&name[..stem_end(name)], Unit::CodePoints),
        Unit::ExtensionCodePoints => measure(&name[(stem_end(name) + 1).min(name.len())..], Unit::CodePoints),
        Unit::OstaBytes => {
            let narrow = std::str::from_utf8(name).is_ok_and(|s| s.chars().all(|c| c <= '\u{FF}'));
            // The first byte says which of the two follows (ECMA-167 1/7.2.12, OSTA UDF 2.1.1).
            1 + if narrow { chunks(name, |s| s.chars().count()) } else { 2 * chunks(name, utf16) }
        }
    }
}

impl Limit {
    /// Whether the limit counts all of a name, so that a program that adds to the name uses it up.
    pub(super) fn counts_all(self) -> bool {
        match self.unit {
            Unit::Bytes | Unit::BytesIn(_) | Unit::Utf16 | Unit::Utf16In(_) => true,
            Unit::CodePoints | Unit::OstaBytes => true,
            Unit::StemCodePoints | Unit::ExtensionCodePoints | Unit::Dots | Unit::Components => false,
        }
    }

    /// No name of up to this many bytes exceeds the limit, whatever its content, so most names need not be measured.
    pub(super) fn harmless_bytes(self) -> usize {
        match self.unit {
            // Each of these has a byte of its own.
            Unit::Bytes
            | Unit::Utf16
            | Unit::CodePoints
            | Unit::StemCodePoints
            | Unit::ExtensionCodePoints
            | Unit::Dots
            | Unit::Components => self.max,
            // A test of `name::normalize` bounds how much a form can grow (U+FDFA: 3 bytes, in NFKD 33).
            Unit::BytesIn(form) | Unit::Utf16In(form) if form.is_compatibility() => self.max / 11,
            Unit::BytesIn(_) | Unit::Utf16In(_) => self.max / 3,
            Unit::OstaBytes => self.max.saturating_sub(1) / 2,
        }
    }
}

/// Where `name` exceeds `limit`: from the first excess byte to the end, or the whole name if the unit cannot be counted
/// byte by byte. `None` if the name does not exceed the limit.
pub(super) fn excess(name: &[u8], limit: Limit) -> Option<Span> {
    if name.len() <= limit.harmless_bytes() || measure(name, limit.unit) <= limit.max {
        return None;
    }
    let whole = Span::new(0, name.len());
    let counted: fn(char) -> usize = match limit.unit {
        Unit::Bytes => char::len_utf8,
        Unit::Utf16 => char::len_utf16,
        Unit::CodePoints => |_| 1,
        _ => return Some(whole),
    };
    let Ok(text) = std::str::from_utf8(name) else {
        return Some(if limit.unit == Unit::Bytes { Span::new(limit.max, name.len()) } else { whole });
    };
    let mut units = 0;
    let fits = |&(_, c): &(usize, char)| {
        units += counted(c);
        units <= limit.max
    };
    let end = text.char_indices().take_while(fits).last().map_or(0, |(at, c)| at + c.len_utf8());
    Some(Span::new(end, name.len()))
}

fn chunks(name: &[u8], measure: impl Fn(&str) -> usize) -> usize {
    name.utf8_chunks().map(|chunk| measure(chunk.valid()) + chunk.invalid().len()).sum()
}

fn utf16(s: &str) -> usize {
    s.chars().map(char::len_utf16).sum()
}

/// The position of the last dot; the end if there is none.
fn stem_end(name: &[u8]) -> usize {
    memchr::memrchr(b'.', name).unwrap_or(name.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::normalize::Form;

    #[test]
    fn each_unit_counts_what_its_name_says() {
        let cases: &[(&str, Unit, usize)] = &[
            ("é", Unit::Bytes, 2),
            ("é", Unit::Utf16, 1),
            ("\u{1F600}", Unit::Utf16, 2),
            ("\u{1F600}", Unit::CodePoints, 1),
            ("é", Unit::Utf16In(Form::Nfd), 2),
            ("e\u{301}", Unit::BytesIn(Form::Nfc), 2),
            ("\u{390}", Unit::BytesIn(Form::Nfd), 6),
            ("a.tar.gz", Unit::StemCodePoints, 5),
            ("a.tar.gz", Unit::ExtensionCodePoints, 2),
            ("readme", Unit::StemCodePoints, 6),
            ("readme", Unit::ExtensionCodePoints, 0),
            ("é", Unit::OstaBytes, 2),
            ("日本", Unit::OstaBytes, 5),
            ("a.tar.gz", Unit::Dots, 2),
            ("/a//b/c", Unit::Components, 3),
            ("ab/cd", Unit::Components, 2),
        ];
        for &(name, unit, length) in cases {
            assert_eq!(measure(name.as_bytes(), unit), length, "{name} in {unit:?}");
        }
        assert_eq!(measure(b"a\xE9b", Unit::Utf16), 3);
    }

    #[test]
    fn the_excess_begins_at_the_first_character_that_does_not_fit() {
        let name = "a\u{1F600}b".as_bytes();
        let at = |max, unit| excess(name, Limit { max, unit });
        assert_eq!(at(4, Unit::Utf16), None);
        assert_eq!(at(3, Unit::Utf16), Some(Span::new(5, 6)));
        assert_eq!(at(2, Unit::Utf16), Some(Span::new(1, 6)));
        assert_eq!(at(0, Unit::Utf16), Some(Span::new(0, 6)));
        assert_eq!(at(3, Unit::Bytes), Some(Span::new(1, 6)));
        assert_eq!(at(1, Unit::Utf16In(Form::Nfd)), Some(Span::new(0, 6)));
        assert_eq!(excess(b"ab\xFFc", Limit { max: 2, unit: Unit::Bytes }), Some(Span::new(2, 4)));
    }

    #[test]
    fn a_name_that_is_short_enough_to_be_harmless_in_a_unit_passes_no_limit_in_it() {
        let forms = Form::ALL.into_iter().flat_map(|form| [Unit::BytesIn(form), Unit::Utf16In(form)]);
        let others = [
            Unit::Bytes,
            Unit::Utf16,
            Unit::CodePoints,
            Unit::StemCodePoints,
            Unit::ExtensionCodePoints,
            Unit::OstaBytes,
            Unit::Dots,
            Unit::Components,
        ];
        let longest = ["\u{FDFA}", "\u{390}", "\u{1D160}", "\u{1F600}", "日", "é", "a", "..", "a/"];
        for unit in forms.chain(others) {
            for name in longest.iter().flat_map(|text| (1..20).map(|n| text.repeat(n))) {
                let measured = measure(name.as_bytes(), unit);
                for max in 0..measured {
                    assert!(
                        name.len() > Limit { max, unit }.harmless_bytes(),
                        "{name} of {measured} in {unit:?}"
                    );
                }
            }
        }
    }
}
