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

fn restored(name: &str) -> Option<String> {
    undo(name).map(|misread| misread.text)
}

/// `text` in `written_in`, read in `read_as`.
fn misread_text(text: &str, written_in: &str, read_as: &str) -> String {
    let bytes = match written_in {
        "utf-8" => text.as_bytes().to_vec(),
        label => label.parse::<Encoding>().unwrap().write(text).unwrap(),
    };
    let read_as: Encoding = read_as.parse().unwrap();
    bytes.iter().map(|&byte| read_as.character(byte).unwrap()).collect()
}

#[test]
fn utf8_that_was_read_in_any_of_a_dozen_encodings_is_restored() {
    let western = ["Übersicht.pdf", "café.txt", "für Größe", "naïve résumé"];
    let other = ["Привет, мир.doc", "日本語", "Zażółć gęślą jaźń"];
    for label in [
        "windows-1252",
        "cp437",
        "cp850",
        "ibm866",
        "windows-1250",
        "windows-1251",
        "windows-1254",
        "koi8-r",
        "macintosh",
        "cp852",
    ] {
        for name in western.into_iter().chain(other) {
            let garbled = misread_text(name, "utf-8", label);
            let misread = undo(&garbled).unwrap_or_else(|| panic!("{name} as {garbled} in {label}"));
            assert_eq!((&*misread.text, misread.is_sure), (name, true), "{garbled} in {label}");
        }
    }
    assert_eq!(restored("уВ╡уГ│уГЧуГл.txt").as_deref(), Some("サンプル.txt"));
    assert_eq!(restored("cafe╠ü-probe.txt").as_deref(), Some("cafe\u{301}-probe.txt"));
    assert_eq!(restored("├╝m lautµ▒ëΦ»¡.txt").as_deref(), Some("üm laut汉语.txt"));
    assert_eq!(restored("ظ†ع¯ط§ط±ط³طھط§ظ†").as_deref(), Some("نگارستان"));
    assert_eq!(restored("鎴戠殑鏂囦欢").as_deref(), Some("我的文件"));
}

#[test]
fn one_letter_of_a_western_name_is_enough() {
    for (garbled, name) in [
        ("MÃ¼ller.txt", "Müller.txt"),
        ("BÃ¼ro", "Büro"),
        ("KÃ¶ln", "Köln"),
        ("JosÃ©", "José"),
        ("M√ºller", "Müller"),
        ("M├╝ller", "Müller"),
        ("20Â°C", "20°C"),
    ] {
        assert_eq!(restored(garbled).as_deref(), Some(name), "{garbled}");
    }
}

#[test]
fn other_text_that_was_read_wrongly_is_a_guess() {
    for (text, written_in, read_as) in [
        ("新建文件夹", "gbk", "cp437"),
        ("中文字幕", "gbk", "windows-1252"),
        ("雨中照片", "gbk", "ibm866"),
        ("Фантом", "windows-1251", "windows-1252"),
        ("Новая папка", "ibm866", "cp437"),
        ("фотографии", "koi8-r", "windows-1252"),
    ] {
        let garbled = misread_text(text, written_in, read_as);
        let misread = undo(&garbled).unwrap_or_else(|| panic!("{text} as {garbled}"));
        assert_eq!((&*misread.text, misread.is_sure), (text, false), "{garbled}");
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
            assert_eq!(restored(&garbled).as_deref(), Some(name));
            assert_eq!(find(name), None, "{name:?} itself");
        }
    }
}

#[test]
fn letters_that_are_utf8_by_chance_are_a_guess_at_most() {
    // 学习 in GBK read as cp437, 청혼 in EUC-KR and 向它 in GBK read as ISO-8859-1.
    for name in ["╤º╧░ ╤º╧░", "Ã»È¥.pdf", "ÏòËü"] {
        assert!(undo(name).is_none_or(|misread| !misread.is_sure), "{name}");
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
fn a_name_that_was_misread_several_times_is_restored_with_its_steps() {
    let thrice = encoded_twice(&encoded_twice(&encoded_twice("naïve – café")));
    let misread = undo(&thrice).unwrap();
    assert_eq!((&*misread.text, misread.is_sure), ("naïve – café", true));
    let steps: Vec<String> = misread.steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["UTF-8 read as windows-1252"; 3]);
}

#[test]
fn lines_that_a_person_draws_around_letters_are_no_damage() {
    for name in ["└─ключ", "│É│", "═══Привет═══", "═══Привет═══.txt", "║я║", "║ я ║", "┌──┐", "── é ──"]
    {
        assert_eq!(undo(name), None, "{name:?}");
    }
    for text in ["雨中", "照片", "女人"] {
        assert_eq!(restored(&misread_text(text, "gbk", "cp866")).as_deref(), Some(text));
        assert!(!undo(&misread_text(text, "gbk", "cp866")).unwrap().is_sure);
    }
}

#[test]
fn undo_refuses_names_that_were_not_misread() {
    for name in ["", "abc", "é", "日本", "Ã", "Ã©é", "Ā"] {
        assert_eq!(undo(name), None, "{name:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_found_name_can_be_undone(name in "[a-zA-Z -ÿ€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]{0,8}") {
        if let Some(span) = find(&name) {
            prop_assert!(undo(&name).is_some());
            prop_assert!(!span.is_empty() && name.get(span.start..span.end).is_some());
        }
    }
}
