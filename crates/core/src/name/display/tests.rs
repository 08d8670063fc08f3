use super::*;

use std::collections::BTreeMap;
use std::fs;

fn shown(name: &str) -> String {
    display(name.as_bytes()).to_string()
}

fn is_shown_as_itself(c: char) -> bool {
    let name = format!("a{c}b");
    shown(&name) == name
}

fn range(field: &str) -> std::ops::RangeInclusive<u32> {
    let hex = |text: &str| u32::from_str_radix(text.trim(), 16).unwrap();
    let (first, last) = field.split_once("..").unwrap_or((field, field));
    hex(first)..=hex(last)
}

#[test]
fn names_are_shown_without_ambiguity() {
    let cases: &[(&[u8], &str)] = &[
        (b"", ""),
        (b"plain-name_1.txt", "plain-name_1.txt"),
        (b"a  b", "a  b"),
        (b" ", r"\u{20}"),
        (b"   ", r"\u{20}\u{20}\u{20}"),
        (b"  a ", r"\u{20}\u{20}a\u{20}"),
        (b" \xFF ", r"\u{20}\xFF\u{20}"),
        (b"\\", r"\\"),
        (br"\xE9", r"\\xE9"),
        (br"\u{20}", r"\\u{20}"),
        (b"\xE9", r"\xE9"),
        (b"\t\r\n\0\x7F", r"\t\r\n\u{0}\u{7F}"),
        (b"\xC0\xAF", r"\xC0\xAF"),
        (b"\xED\xA0\x80", r"\xED\xA0\x80"),
        ("\u{85}\u{9b}".as_bytes(), r"\u{85}\u{9B}"),
        ("\u{a0}\u{3000}x\u{2028}".as_bytes(), r"\u{A0}\u{3000}x\u{2028}"),
        ("\u{fffd}\u{feff}\u{fffe}\u{e000}".as_bytes(), r"\u{FFFD}\u{FEFF}\u{FFFE}\u{E000}"),
        ("e\u{301}\u{323}".as_bytes(), "e\u{301}\u{323}"),
        ("\u{301}\u{323}e".as_bytes(), "\\u{301}\\u{323}e"),
        ("\u{200b}\u{301}".as_bytes(), r"\u{200B}\u{301}"),
        (b"\xFF\xCC\x81", r"\xFF\u{301}"),
        (b"a\xFF\xCC\x81", r"a\xFF\u{301}"),
        ("\u{e0041}\u{10ffff}".as_bytes(), r"\u{E0041}\u{10FFFF}"),
    ];
    for &(name, expected) in cases {
        assert_eq!(display(name).to_string(), expected, "{name:02X?}");
    }
}

#[test]
fn printable_ascii_is_unchanged_but_for_the_backslash() {
    for byte in b'!'..=b'~' {
        let name = [byte];
        assert_eq!(display(&name).to_string().as_bytes() == name, byte != b'\\', "{byte:02X}");
    }
}

#[test]
fn no_bidi_control_joiner_or_separator_is_shown() {
    for range in [
        '\0'..='\u{1f}',
        '\u{7f}'..='\u{a0}',
        '\u{ad}'..='\u{ad}',
        '\u{34f}'..='\u{34f}',
        '\u{61c}'..='\u{61c}',
        '\u{180b}'..='\u{180f}',
        '\u{2000}'..='\u{200f}',
        '\u{2028}'..='\u{202f}',
        '\u{205f}'..='\u{206f}',
        '\u{2800}'..='\u{2800}',
        '\u{3000}'..='\u{3000}',
        '\u{3164}'..='\u{3164}',
        '\u{e000}'..='\u{f8ff}',
        '\u{fdd0}'..='\u{fdef}',
        '\u{fe00}'..='\u{fe0f}',
        '\u{feff}'..='\u{feff}',
        '\u{fff0}'..='\u{fffb}',
        '\u{fffd}'..='\u{ffff}',
        '\u{1fffe}'..='\u{1ffff}',
        '\u{e0000}'..='\u{10ffff}',
    ] {
        for c in range {
            assert!(!is_shown_as_itself(c), "U+{:04X}", u32::from(c));
        }
    }
}

#[test]
fn what_is_shown_follows_the_unicode_character_database() {
    let read = |name| fs::read_to_string(format!("/usr/share/unicode/{name}"));
    let (Ok(categories), Ok(core)) =
        (read("extracted/DerivedGeneralCategory.txt"), read("DerivedCoreProperties.txt"))
    else {
        println!("SKIPPED: /usr/share/unicode is incomplete (Debian package unicode-data)");
        return;
    };
    let mut hidden = BTreeMap::new();
    for line in categories.lines() {
        let Some((field, value)) = line.split('#').next().unwrap().split_once(';') else { continue };
        let is_hidden = matches!(value.trim(), "Cc" | "Cf" | "Co" | "Zs" | "Zl" | "Zp");
        // Later versions of Unicode assign what is unassigned in the file's.
        if value.trim() != "Cn" && value.trim() != "Cs" {
            hidden.extend(range(field).map(|point| (point, is_hidden)));
        }
    }
    for line in core.lines() {
        let Some((field, value)) = line.split('#').next().unwrap().split_once(';') else { continue };
        if value.trim() == "Default_Ignorable_Code_Point" {
            hidden.extend(range(field).map(|point| (point, true)));
        }
    }
    hidden.extend([0x5C, 0x2800, 0xFFFD].map(|point| (point, true)));
    hidden.insert(0x20, false);
    assert!(hidden.len() > 280_000, "the files were read");
    for (point, is_hidden) in hidden {
        let c = char::from_u32(point).unwrap();
        assert_eq!(is_shown_as_itself(c), !is_hidden, "U+{point:04X}");
    }
}

#[test]
fn width_is_that_of_the_text_shown() {
    let cases: &[(&[u8], usize)] = &[
        (b"", 0),
        (b"abc", 3),
        (b"a b", 3),
        (b" a", 7),
        (b"a ", 7),
        (b"a\\b", 4),
        (b"\xFF", 4),
        (b"\n", 2),
        ("\u{e9}".as_bytes(), 1),
        ("e\u{301}".as_bytes(), 1),
        ("\u{301}".as_bytes(), 7),
        ("\u{65e5}\u{672c}".as_bytes(), 4),
        ("\u{1f600}".as_bytes(), 2),
        ("\u{202e}".as_bytes(), 8),
    ];
    for &(name, expected) in cases {
        assert_eq!(width(name), expected, "{name:02X?}");
    }
}
