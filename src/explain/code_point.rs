//! A code point with its name and the properties that matter in a file name (UAX #44).

use namegate_core::name::scalar::{self, Class};
use serde::Serialize;

/// A code point with its properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodePoint {
    /// As `U+0063`.
    pub code_point: String,
    /// Its Unicode name, or its label in angle brackets if it has none, such as `<control-000A>`.
    pub name: String,
    /// The properties; `None` for a surrogate, which is not a scalar value.
    #[serde(flatten)]
    pub properties: Option<Properties>,
}

/// The properties of a scalar value, by their long names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Properties {
    /// The scalar value itself.
    pub character: char,
    pub general_category: &'static str,
    pub script: &'static str,
    pub bidi_class: &'static str,
    /// Id of the rule that looks for its class, if it is suspicious in a file name.
    pub class: Option<&'static str>,
}

impl CodePoint {
    /// The code point `value`; `None` above U+10FFFF.
    ///
    /// ```
    /// use namegate::explain::CodePoint;
    /// assert_eq!(CodePoint::from_value(0xE9).unwrap().name, "LATIN SMALL LETTER E WITH ACUTE");
    /// assert_eq!(CodePoint::from_value(0x0A).unwrap().name, "<control-000A>");
    /// assert_eq!(CodePoint::from_value(0xD800).unwrap().name, "<surrogate-D800>");
    /// assert_eq!(CodePoint::from_value(0x11_0000), None);
    /// ```
    pub fn from_value(value: u32) -> Option<Self> {
        let code_point = format!("U+{value:04X}");
        match char::from_u32(value) {
            Some(c) => Some(Self {
                code_point,
                name: scalar::character_name(c),
                properties: Some(Properties::for_char(c)),
            }),
            None if value <= 0xFFFF => {
                Some(Self { code_point, name: format!("<surrogate-{value:04X}>"), properties: None })
            }
            None => None,
        }
    }
}

impl Properties {
    fn for_char(c: char) -> Self {
        Self {
            character: c,
            general_category: scalar::general_category_name(c),
            script: scalar::script_name(c),
            bidi_class: scalar::bidi_class_name(c),
            class: scalar::class(c).map(class_name),
        }
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::C0Control => "c0-control",
        Class::Delete => "delete",
        Class::C1Control => "c1-control",
        Class::LineSeparator => "line-separator",
        Class::Noncharacter => "noncharacter",
        Class::ByteOrderMark => "byte-order-mark",
        Class::BidiControl => "bidi-control",
        Class::TagCharacter => "tag-character",
        Class::DefaultIgnorable => "default-ignorable",
        Class::PrivateUse => "private-use",
        Class::SmbPrivateUse => "smb-private-use",
        Class::ReplacementCharacter => "replacement-character",
        Class::Unassigned => "unassigned",
        Class::NonAsciiSpace => "non-ascii-space",
    }
}

#[cfg(test)]
mod tests {
    use namegate_core::policy::rule::RuleId;

    use super::*;

    #[test]
    fn names_agree_with_the_unicode_data_file() {
        let path = "/usr/share/unicode/UnicodeData.txt";
        let Ok(data) = std::fs::read_to_string(path) else {
            println!("SKIPPED: {path} is not there; Debian's package unicode-data has it");
            return;
        };
        let mut compared = 0;
        for line in data.lines() {
            let mut fields = line.split(';');
            let (Some(value), Some(expected)) = (fields.next(), fields.next()) else { continue };
            let value = u32::from_str_radix(value, 16).unwrap();
            let name = CodePoint::from_value(value).unwrap().name;
            let expected = match expected {
                "<control>" => format!("<control-{value:04X}>"),
                _ if expected.contains("Private Use,") => format!("<private-use-{value:04X}>"),
                _ if expected.contains("Surrogate") => format!("<surrogate-{value:04X}>"),
                _ if expected.starts_with("<CJK Ideograph") => format!("CJK UNIFIED IDEOGRAPH-{value:04X}"),
                _ if expected.starts_with("<Tangut Ideograph") => format!("TANGUT IDEOGRAPH-{value:04X}"),
                _ if expected.starts_with("<Hangul Syllable, First") => "HANGUL SYLLABLE GA".to_owned(),
                _ if expected.starts_with("<Hangul Syllable, Last") => "HANGUL SYLLABLE HIH".to_owned(),
                _ => expected.to_owned(),
            };
            assert_eq!(name, expected);
            compared += 1;
        }
        assert!(compared > 30_000, "the file holds {compared} lines");
    }

    #[test]
    fn every_code_point_has_a_name_or_a_label_of_printable_ascii() {
        for c in '\0'..=char::MAX {
            let name = scalar::character_name(c);
            assert!(name.bytes().all(|b| matches!(b, b' '..=b'~')) && !name.is_empty(), "{c:?}: {name}");
        }
        for (value, label) in
            [(0xFFFE, "<noncharacter-FFFE>"), (0x378, "<reserved-0378>"), (0xE000, "<private-use-E000>")]
        {
            assert_eq!(CodePoint::from_value(value).unwrap().name, label);
        }
    }

    #[test]
    fn a_class_has_the_name_of_its_rule() {
        for class in Class::ALL {
            assert!(class_name(class).parse::<RuleId>().is_ok(), "{class:?}");
        }
    }
}
