use super::*;
use proptest::prelude::*;

/// UTF-8 bytes read as windows-1252.
fn encoded_twice(text: &str) -> String {
    encoding_rs::WINDOWS_1252.decode_without_bom_handling(text.as_bytes()).0.into_owned()
}

/// UTF-8 bytes read as ISO-8859-1.
fn encoded_twice_as_latin_1(text: &str) -> String {
    text.bytes().map(char::from).collect()
}

#[test]
fn the_table_is_that_of_the_encoding_standard() {
    for (byte, c) in (0x80..=0x9F).zip(WINDOWS_1252) {
        let (decoded, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(std::slice::from_ref(&byte));
        assert_eq!(decoded.chars().collect::<Vec<_>>(), [c], "{byte:02X}");
    }
}

#[test]
fn names_of_many_languages_are_found_and_restored_when_encoded_twice() {
    for name in [
        "café.txt",
        "Übersicht.pdf",
        "Straße",
        "KÖLN.jpg",
        "naïve résumé",
        "Æblegrød",
        "ação e coração",
        "¿Qué pasa?",
        "Łódź",
        "Zażółć gęślą jaźń",
        "Žluťoučký kůň",
        "İstanbul ışığı",
        "Azərbaycan",
        "Timișoara",
        "Tiếng Việt",
        "Привет, мир.doc",
        "и вот",
        "Ελληνικά",
        "עברית",
        "العربية",
        "हिन्दी",
        "日本語",
        "第1回",
        "한국어",
        "it’s – “quoted” … ™ €",
        "100 %\u{A0}½ °C",
        "😀 party",
        "BOM\u{FEFF}",
    ] {
        for garbled in [encoded_twice(name), encoded_twice_as_latin_1(name)] {
            let span = find(&garbled).unwrap_or_else(|| panic!("{name:?} as {garbled:?} is not found"));
            assert_eq!(span.start, name.bytes().position(|byte| byte >= 0x80).unwrap(), "{name:?}");
            assert!(garbled[span.start..span.end].chars().all(|c| !c.is_ascii()), "{name:?}");
            assert_eq!(undo(&garbled).as_deref(), Some(name));
            assert_eq!(find(name), None, "{name:?} itself");
        }
    }
}

#[test]
fn the_span_covers_the_first_run_only() {
    assert_eq!(find("aÃ©bÃ©"), Some(Span::new(1, 5)));
    assert_eq!(find("Ã©Ã©b"), Some(Span::new(0, 8)));
}

#[test]
fn correct_names_are_not_reported() {
    for (name, why) in [
        ("", "empty"),
        ("report.txt", "ASCII"),
        ("NÃO", "Ã alone"),
        ("SÃO PAULO", "Ã alone"),
        ("IRMÃ", "Ã alone"),
        ("“IRMÔ", "the opening quotation mark reads as nothing"),
        ("MAÇÃ–VERDE", "Ç before it"),
        ("Âge", "Â alone"),
        ("CAFÉ™", "É™ would read as a lower-case letter"),
        ("CAFÉ…", "É… would read as a lower-case letter"),
        ("UMEÅ–KIRUNA", "Å– would read as Ŗ"),
        ("„ETÅ“", "quotation marks"),
        ("„Spaß“", "quotation marks"),
        ("Spaß“", "ß“ would read as N'Ko"),
        ("Maß–Einheit", "ß– would read as N'Ko"),
        ("groß…", "ß… would read as N'Ko"),
        ("Straß– Maß–", "twice"),
        ("3×½", "×½ would read as a Hebrew point"),
        ("4×²", "×² would read as a Hebrew point, too"),
        ("café…”", "é…” would read as Han"),
        ("olé!”", "é alone"),
        ("à la “carte”", "à alone"),
        ("été", "É alone"),
        ("L’Été", "’ alone"),
        ("Ünlü Çağrı", "Turkish; ğ and ı are not in windows-1252"),
        ("İÇERİK", "Turkish"),
        ("TÜRKÇE", "Turkish capitals that windows-1252 has"),
        ("ĐÃ", "Vietnamese; Đ is not in windows-1252"),
        ("Ðã“", "Icelandic capital; ã“ lacks a byte"),
        ("Người Việt", "Vietnamese"),
        ("ÞAÐ", "Icelandic"),
        ("Año ¿Qué?", "Spanish"),
        ("5€–10€", "€ alone"),
        ("日本語", "not in windows-1252"),
        ("Ã©日", "one run with intact text"),
        ("Ã© 日", "a run of intact text elsewhere"),
        ("Ã© é", "a run that reads as nothing elsewhere"),
        ("Â\u{80}", "would read as a C1 control"),
        ("ï¿¿", "would read as a noncharacter"),
        ("Ã", "truncated"),
        ("â€", "truncated"),
        ("À\u{80}", "overlong"),
        ("í\u{A0}\u{80}", "a surrogate code point"),
        ("õ\u{80}\u{80}\u{80}", "no lead byte"),
    ] {
        assert_eq!(find(name), None, "{name:?}: {why}");
    }
}

#[test]
fn the_garbled_names_that_are_not_found_are_known() {
    assert_eq!(find(&encoded_twice("и.txt")), None);
    assert_eq!(find(&encoded_twice("KOŠICE")), None);
}

#[test]
fn a_name_encoded_three_times_is_undone_step_by_step() {
    let twice = encoded_twice("naïve – café");
    let thrice = encoded_twice(&twice);
    assert!(find(&thrice).is_some());
    assert_eq!(undo(&thrice), Some(twice));
}

#[test]
fn undo_refuses_names_that_were_not_encoded_twice() {
    for name in ["", "abc", "é", "日本", "Ã", "Ã©é", "Ā"] {
        assert_eq!(undo(name), None, "{name:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn undo_reverses_a_double_encoding(text in "\\PC*[^\\x00-\\x7F]\\PC*") {
        prop_assert_eq!(undo(&encoded_twice(&text)), Some(text.clone()));
        prop_assert_eq!(undo(&encoded_twice_as_latin_1(&text)), Some(text));
    }

    #[test]
    fn every_found_name_can_be_undone(name in "[a-zA-Z -ÿ€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]{0,8}") {
        if let Some(span) = find(&name) {
            prop_assert!(undo(&name).is_some());
            prop_assert!(!span.is_empty() && name.get(span.start..span.end).is_some());
        }
    }
}
