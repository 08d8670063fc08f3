use super::*;

#[test]
fn a_word_of_one_script_or_writing_system_passes() {
    for (name, why) in [
        ("", "nothing"),
        ("report-v2.txt", "ASCII"),
        ("отчёт.txt", "the extension is a word of its own"),
        ("отчёт_v2", "an underscore ends a word"),
        ("日本語 report-v2", "two words"),
        ("東京Tower", "Latin may stand with Han"),
        ("ひらがなカタカナ漢字abc", "Latin with Japanese"),
        ("한국어漢字abc", "Latin with Korean"),
        ("ㄅㄆ注音abc", "Latin with Han and Bopomofo"),
        ("résumé", "precomposed Latin"),
        ("re\u{301}sume\u{301}", "accents are Inherited"),
        ("файл2024", "ASCII digits are Common"),
        ("تقرير٣", "Arabic digits with Arabic letters"),
        ("می\u{200C}خواهم", "a joiner is Inherited"),
        ("क्\u{200D}ष", "a joiner is Inherited"),
        ("ー々", "Common by script, Japanese by extension"),
        ("Tiếng Việt", "Latin with Vietnamese marks"),
        ("5µm", "the micro sign is Common"),
        ("👨\u{200D}👩abc", "symbols are in no word"),
        ("\u{E000}я\u{E000}a", "private use ends a word"),
    ] {
        assert_eq!(mixed(name), None, "{name:?}: {why}");
    }
}

#[test]
fn a_word_of_several_scripts_is_found_with_its_bytes() {
    for (name, word) in [
        ("pаypal", "pаypal"), // Latin with a Cyrillic letter
        ("a pаypal b", "pаypal"),
        ("ok.txt.pаypal", "pаypal"),
        ("Ηello", "Ηello"), // a Greek capital
        ("отчётPDF", "отчётPDF"),
        ("p\u{200B}а", "p\u{200B}а"), // what is not seen does not end a word
        ("a৪", "a৪"),                 // a Bengali digit that looks like 8
        ("漢字я", "漢字я"),           // Cyrillic with Han
        ("한ひ", "한ひ"),             // Korean and Japanese are two writing systems
        ("10kΩ", "10kΩ"),             // U+03A9 is Greek
        ("ok pаy аpple", "pаy"),      // the first one is reported
    ] {
        let start = name.find(word).unwrap();
        assert_eq!(mixed(name), Some(Span::new(start, start + word.len())), "{name:?}");
    }
}

#[test]
fn a_word_is_checked_like_an_identifier_by_the_restriction_level_of_uts_39() {
    use unicode_security::{GeneralSecurityProfile, RestrictionLevel, RestrictionLevelDetection};
    let parts = ["a", "é", "я", "漢", "ひ", "カ", "한", "Ω", "1", "א", "ع", "क"];
    assert!(parts.iter().all(|part| part.chars().all(GeneralSecurityProfile::identifier_allowed)));
    for one in parts {
        for two in parts {
            for three in parts {
                let word = format!("{one}{two}{three}");
                let highly_restrictive =
                    word.as_str().check_restriction_level(RestrictionLevel::HighlyRestrictive);
                assert_eq!(mixed(&word).is_none(), highly_restrictive, "{word}");
            }
        }
    }
}

#[test]
fn the_extensions_of_a_code_point_hold_its_script() {
    for c in ('\0'..=char::MAX).filter(|&c| belongs_to_word(c)) {
        if !matches!(scalar::script_name(c), "Common" | "Inherited") {
            let mut scripts = AugmentedScriptSet::for_char(c).base.iter();
            assert!(
                scripts.any(|script| script.full_name() == scalar::script_name(c)),
                "U+{:04X}",
                u32::from(c)
            );
        }
    }
}

#[test]
fn scripts_are_named_once_in_order_of_appearance() {
    assert!(scripts("ab 漢字 cd ひ 字").eq(["Latin", "Han", "Hiragana"]));
    assert!(scripts("e\u{301}").eq(["Latin"]));
    assert_eq!(scripts("").next(), None);
    assert_eq!(scripts("1 \u{E000}\u{50000}").next(), None);
    for c in '\0'..=char::MAX {
        let name = scalar::script_name(c);
        let own = Some(name).filter(|name| !matches!(*name, "Common" | "Inherited" | "Unknown"));
        assert!(scripts(c.encode_utf8(&mut [0; 4])).eq(own), "U+{:04X}", u32::from(c));
    }
}
