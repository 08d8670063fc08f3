use super::*;
use proptest::prelude::*;

fn encoding(label: &str) -> Encoding {
    label.parse().unwrap()
}

fn encoded(label: &str, text: &str) -> Vec<u8> {
    let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
    let (bytes, _, lossy) = encoding.encode(text);
    assert!(!lossy, "{text} in {label}");
    bytes.into_owned()
}

#[test]
fn labels_of_legacy_encodings_are_read_and_all_others_are_refused_by_name() {
    for (label, name) in [
        ("koi8-r", "KOI8-R"),
        ("CP866", "IBM866"),
        ("latin1", "windows-1252"),
        ("iso-8859-15", "ISO-8859-15"),
        ("sjis", "Shift_JIS"),
        ("cp932", "Shift_JIS"),
        ("cp936", "GBK"),
        ("CP949", "EUC-KR"),
        ("cp950", "Big5"),
        ("gb18030", "gb18030"),
        ("macintosh", "macintosh"),
        ("cp437", "cp437"),
        ("IBM850", "cp850"),
        ("cp1252", "windows-1252"),
        ("cp874", "windows-874"),
        ("cp10007", "x-mac-cyrillic"),
        ("mac-ce", "x-mac-ce"),
        ("MacTurkish", "x-mac-turkish"),
        ("cp866u", "cp1125"),
        ("koi8r", "KOI8-R"),
        ("KOI8_U", "KOI8-U"),
        ("mac_roman", "macintosh"),
        ("mac_latin2", "x-mac-ce"),
        ("euckr", "EUC-KR"),
        ("euc_jp", "EUC-JP"),
        ("437", "cp437"),
        ("l1", "windows-1252"),
        ("latin_1", "windows-1252"),
        ("8859-15", "ISO-8859-15"),
        ("ISO_8859-2:1987", "ISO-8859-2"),
        ("iso8859_9", "windows-1254"),
        ("windows_31j", "Shift_JIS"),
        ("ms932", "Shift_JIS"),
        ("big5hkscs", "Big5"),
        ("MS-CYRL", "windows-1251"),
        ("28605", "ISO-8859-15"),
    ] {
        assert_eq!(encoding(label).name(), name);
    }
    for label in ["utf-8", "UTF8", "utf-16", "utf-16be", "iso-2022-jp", "replacement", "x-user-defined"] {
        assert_eq!(
            label.parse::<Encoding>(),
            Err(NotLegacy { label: label.into(), is_known: true }),
            "{label}"
        );
    }
    for label in ["", "cp0", "koi9-r", "\u{202E}", "latin1\0"] {
        assert_eq!(
            label.parse::<Encoding>(),
            Err(NotLegacy { label: label.into(), is_known: false }),
            "{label:?}"
        );
    }
    let message = |label: &str| label.parse::<Encoding>().unwrap_err().to_string();
    assert_eq!(message("koi9-r"), "unknown encoding `koi9-r`; did you mean `KOI8-R`?");
    assert_eq!(message("mac_romann"), "unknown encoding `mac_romann`; did you mean `mac-roman`?");
    for (encoding, labels) in Encoding::all() {
        for label in labels.iter().map(String::as_str).chain([encoding.name()]) {
            assert_eq!(label.parse(), Ok(encoding), "{label}");
            let standard = encoding_rs::Encoding::for_label(label.as_bytes());
            assert!(standard.is_none_or(|standard| standard.name() == encoding.name()), "{label}");
        }
    }
    for (label, _) in encodings::TRIED {
        assert!(Encoding::all().any(|(known, _)| Ok(known) == label.parse()), "{label}");
    }
    let shown = NotLegacy { label: "a\u{FE00}\u{1B}".into(), is_known: false }.to_string();
    assert_eq!(shown, r"unknown encoding `a\u{FE00}\u{1B}`");
}

#[test]
fn a_reading_has_no_control_and_no_code_point_without_meaning() {
    for (label, bytes) in [
        ("windows-1252", &b"\x81"[..]),
        ("iso-8859-2", b"\x85"),
        ("shift_jis", b"\x80"),
        ("shift_jis", b"\xF0\x40"),
        ("macintosh", b"\xF0"),
        ("gb18030", b"\x84\x31\xA4\x37"),
        ("gb18030", b"\x81\x30\x81\x30"),
        ("euc-kr", b"\xC7"),
        ("windows-1253", b"\xFF"),
    ] {
        assert_eq!(encoding(label).read(bytes), None, "{bytes:02X?} in {label}");
    }
    assert_eq!(encoding("latin1").read(b"a\nb\xE9").as_deref(), Some("a\nbé"), "its own control stays");
}

#[test]
fn names_of_a_directory_are_read_as_they_were_written() {
    let directories: &[(&str, &[&str])] = &[
        ("latin1", &["café.txt", "Übersicht 2019.doc", "Größe.xls", "señor.jpg"]),
        ("latin1", &["Müller.pdf"]),
        ("latin1", &["Straße"]),
        ("iso-8859-2", &["Zażółć gęślą jaźń.txt", "wesołych świąt.jpg", "łódź.doc"]),
        ("koi8-r", &["отчёт.txt", "фотографии", "письмо маме.doc", "музыка"]),
        ("ibm866", &["отчет.txt", "фотографии", "управление проектом.doc", "музыка"]),
        ("windows-1251", &["отчёт.txt", "фотографии", "письмо маме.doc", "музыка"]),
        ("shift_jis", &["報告書.txt", "写真", "会議の議事録.doc", "ソフトウェア"]),
        ("euc-jp", &["報告書.txt", "写真", "会議の議事録.doc", "ソフトウェア"]),
        ("euc-kr", &["보고서.txt", "사진", "회의록 타조.doc", "음악 파일"]),
        ("gbk", &["报告.txt", "照片", "会议记录.doc", "音乐", "新建文件夹", "工作计划"]),
        ("big5", &["報告書.txt", "照片", "會議記錄.doc", "音樂檔案"]),
        ("windows-1253", &["αναφορά.txt", "φωτογραφίες", "μουσική"]),
        // The letters are capitals in KOI8-R. A final kaf is in three of the names.
        ("windows-1255", &["מסמך חשוב.doc", "תמונות מהחתונה", "שיר השירים.mp3", "הדרך הביתה.txt", "חינוך"]),
    ];
    for (label, names) in directories {
        let written: Vec<Vec<u8>> = names.iter().map(|name| encoded(label, name)).collect();
        let names_written = written.iter().map(Vec::as_slice);
        let guess = EncodingGuess::for_names(names_written, &EncodingCounts::default()).unwrap();
        let read: Vec<String> = written.iter().map(|name| guess.read(name).unwrap().text).collect();
        assert_eq!(read, *names, "{label}");
    }
}

#[test]
fn one_byte_in_a_latin_word_is_a_western_letter() {
    for (name, text) in [
        (&b"caf\xE9"[..], "café"),
        (b"na\xEFve.txt", "naïve.txt"),
        (b"\xFCber", "über"),
        (b"Stra\xDFe", "Straße"),
        (b"Jos\xE9", "José"),
        (b"\xC5ngstr\xF6m", "Ångström"),
        (b"fa\xE7ade", "façade"),
        (b"ma\xF1ana", "mañana"),
        (b"\xE9", "é"),
        (b"cr\xE8me br\xFBl\xE9e.doc", "crème brûlée.doc"),
        (b"R\xF8d gr\xF8d", "Rød grød"),
    ] {
        assert_eq!(likeliest(name)[0].1, text);
    }
}

#[test]
fn a_cut_behind_the_characters_that_are_compared_is_no_letter() {
    let words = ["pietre", "interner", "baserete", "selvagge", "fiaccati", "trasler", "pagante"];
    let name = |at: usize| {
        let text: Vec<&str> = (0..30).map(|n| words[(at + n * (at + 1)) % words.len()]).collect();
        [&text.join(" ").as_bytes()[..142], b"\xC3.mp4"].concat()
    };
    let names: Vec<Vec<u8>> = (0..5).map(name).collect();
    let guess =
        EncodingGuess::for_names(names.iter().map(Vec::as_slice), &EncodingCounts::default()).unwrap();
    for name in &names {
        assert_eq!(guess.read(name).unwrap().explanation.contents, Contents::CutUtf8);
    }
}

#[test]
fn well_formed_sequences_among_stray_bytes_stay() {
    let latin = Encoding::WINDOWS_1252;
    assert_eq!(latin.read_name("é\u{0}日本".as_bytes()).as_deref(), Some("é\0日本"));
    assert_eq!(latin.read_name(b"\xC3\xA9\xE9").as_deref(), Some("éé"));
    assert_eq!(latin.read_name(b"\xE6\x97\xA5\xE9.txt").as_deref(), Some("日é.txt"));
    let koi8 = encoding("koi8-r");
    let name = [&b"\xF0"[..], "ривет".as_bytes()].concat();
    assert_eq!(koi8.read_name(&name).as_deref(), Some("Привет"));
    let sjis = encoding("shift_jis");
    // The second byte of this character is a backslash.
    let name = ["日本語".as_bytes(), &encoded("shift_jis", "表.txt")].concat();
    assert_eq!(sjis.read_name(&name).as_deref(), Some("日本語表.txt"));
}

#[test]
fn sequences_that_are_well_formed_by_chance_are_letters_of_the_rest() {
    for (label, name, text) in [
        // An Arabic mark, and a letter of N’Ko.
        ("mac-turkish", &b"Sizin s\x9Arl\x9F\xDB\x9Fn.doc"[..], "Sizin sörlüğün.doc"),
        ("mac-turkish", b"d\x9F\xDF\x9Fnd\x9Frm\x9Fyordu", "düşündürmüyordu"),
        // Of four letters, two are a Cyrillic letter in UTF-8.
        ("cp855", b"\xE3\xA8\xD0\xA8", "селе"),
        // Letters of three scripts.
        ("cp855", b"\xE3\xC6\xA0\xD8\xA0\xEB\xA0\x92\xA8.mp3", "скапавање.mp3"),
    ] {
        assert_eq!(encoding(label).read_name(name).as_deref(), Some(text), "{label}");
    }
    // Latin letters that Latin letters give are kept: `Ü` would be `Ãœ`.
    assert_eq!(
        Encoding::WINDOWS_1252.read_name(b"\xC3\x9Cbersicht f\xFCr M\xFCtter \xE4").as_deref(),
        Some("Übersicht für Mütter ä")
    );
}

#[test]
fn the_readings_differ_begin_with_the_guess_and_are_few() {
    let readings = likeliest(&encoded("koi8-r", "письмо маме.doc"));
    assert_eq!(readings[0].1, "письмо маме.doc");
    assert!((2..=4).contains(&readings.len()), "{readings:?}");
    for (at, (_, text)) in readings.iter().enumerate() {
        assert!(readings[..at].iter().all(|(_, other)| other != text));
    }
    assert_eq!(likeliest(b"\xC0\xAF"), []);
}

#[test]
fn structure_decodes_pairs_of_surrogates_and_no_overlong_form() {
    let cases: &[(&[u8], Option<&str>)] = &[
        (b"a\xED\xA0\xBD\xED\xB8\x80b", Some("a\u{1F600}b")),
        (b"\xF0\x82\x82\xAC.txt", None),
        (b"\xC1\xA1\xED\xA1\x8C\xED\xBE\xB4\xC3\xA9", None),
        (b"\xED\xA1\x8C\xED\xBE\xB4\xC3\xA9", Some("\u{233B4}é")),
        (b"abc", None),
        (b"", None),
        (b"\xC0\x80", None),
        (b"\xE0\x80\xAE", None),
        (b"\xE0\x80\xAF", None),
        (b"\xC0\x8A", None),
        (b"\xC1\xBF", None),
        (b"\xE0\x82\x85", None),
        (b"\xF0\x8D\xA0\x80", None),
        (b"\xED\xA0\x80", None),
        (b"\xC1\xA1\xE9", None),
        (b"\xF8\x88\x80\x80\x80", None),
    ];
    for &(name, expected) in cases {
        assert_eq!(structural(name).as_deref(), expected, "{name:02X?}");
    }
}

#[test]
fn overlong_forms_and_surrogates_are_no_evidence() {
    let guess = |names: &[&[u8]]| {
        EncodingGuess::for_names(names.iter().copied(), &EncodingCounts::default()).map(|guess| guess.names())
    };
    let without: [&[u8]; 5] = [b"\xC1\xA1", b"\xED\xA0\x80", b"\xC0\xAF", "é".as_bytes(), b"a"];
    assert_eq!(guess(&without), None);
    assert_eq!(guess(&[&without[..], &[b"caf\xE9"]].concat()), Some(1));
}

#[test]
fn a_long_name_costs_no_more_than_its_bytes() {
    for name in [vec![0xE9; 100_000], b"\xC3\xA9\xE9".repeat(33_000), b"\xED\xA0\x80".repeat(33_000)] {
        let started = std::time::Instant::now();
        let _ = likeliest(&name);
        let _ = structural(&name);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_is_the_opposite_of_writing(text in "[a-zA-Z0-9 ._¡-ÿ€Ÿ-]{0,20}") {
        let (bytes, _, lossy) = encoding_rs::WINDOWS_1252.encode(&text);
        prop_assert!(!lossy);
        prop_assert_eq!(Encoding::WINDOWS_1252.read(&bytes), Some(text));
    }

    #[test]
    fn no_bytes_panic_and_no_reading_adds_a_control_or_a_separator(
        name in prop::collection::vec(any::<u8>(), 0..24)
    ) {
        let controls = |text: &str| text.chars().filter(|c| c.is_control()).count();
        let own: usize = name.utf8_chunks().map(|chunk| controls(chunk.valid())).sum();
        let texts = likeliest(&name).into_iter().map(|(_, text)| text).chain(structural(&name));
        for text in texts {
            prop_assert!(controls(&text) <= own);
            prop_assert!(!text.contains('/') || name.contains(&b'/'));
        }
    }
}

/// The tables by Python's codecs, which are made from those of the Unicode Consortium.
#[test]
fn code_pages_of_dos_and_the_macintosh_are_read() {
    for (label, bytes, text) in [
        ("cp437", &b"caf\x82 \xE1\xE6"[..], "café ßµ"),
        ("cp850", b"\xD5\x9B\xC6\xF5", "ıøã§"),
        ("cp852", b"\xA5\xBE\xFD", "ążř"),
        ("cp737", b"\x98\xAA\xE9", "ας\u{3CE}"),
        ("cp862", b"\x80\x9A", "את"),
        ("mac-ce", b"\x88\xFD\xB8", "ążł"),
        ("mac-greek", b"\xE1\xF7", "ας"),
        ("mac-turkish", b"\xDD\xDF", "ış"),
        ("mac-icelandic", b"\xDE\xDD", "Þð"),
        ("mac-croatian", b"\xF0\xB9", "đš"),
        ("mac-romanian", b"\xBE\xDE", "ăȚ"),
        ("cp1125", b"\xF7\xF9", "ії"),
        ("windows-1258", b"\xEA\xEC", "ế"),
    ] {
        assert_eq!(encoding(label).read(bytes).as_deref(), Some(text), "{label}");
    }
    assert_eq!(encoding("cp857").read(b"\xE7"), None, "a byte without a character");
}

/// Every table of this crate has a different character for each byte.
#[test]
fn no_code_page_has_a_character_twice() {
    for label in
        ["mac-ce", "mac-croatian", "mac-greek", "mac-icelandic", "mac-romanian", "mac-turkish", "cp1125"]
    {
        let mut texts: Vec<String> =
            (0x80..=0xFF).filter_map(|byte: u8| encoding(label).read(&[byte])).collect();
        let count = texts.len();
        texts.sort();
        texts.dedup();
        assert!(texts.len() == count && count > 120, "{label}: {count}");
    }
}

#[test]
fn names_in_two_encodings_in_one_directory_are_told_apart() {
    let russian = ["отчёт.txt", "фотографии 2019", "письмо маме.doc", "музыка и песни"];
    let german = ["Übersicht.doc", "Größe der Räume.xls", "für Mütter", "schön"];
    let (koi8, latin) =
        (russian.map(|name| encoded("koi8-r", name)), german.map(|name| encoded("latin1", name)));
    let names = koi8.iter().chain(&latin).map(Vec::as_slice);
    let guess = EncodingGuess::for_names(names, &EncodingCounts::default()).unwrap();
    for (bytes, text) in koi8.iter().zip(russian).chain(latin.iter().zip(german)) {
        let reading = guess.read(bytes).unwrap();
        assert_eq!((&*reading.text, reading.is_likely), (text, true), "{reading:?}");
    }
    assert!((guess.counts().names() - 8.0).abs() < 1.0, "{:?}", guess.counts());
    assert!(guess.counts().names_in(encoding("koi8-r")) > 1.5);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A reader remembers what it chose for names that differ in numbers only.
    #[test]
    fn what_is_read_does_not_depend_on_the_names_before(
        stems in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'#'), b'a'..=b'z', Just(b'.'), 0x80..=0xFFu8], 1..8), 1..4),
        numbers in prop::collection::vec(prop_oneof![0..10u32, 0..100_000u32], 1..200),
    ) {
        let mut numbers = numbers.iter().cycle();
        let mut named = |stem: &[u8]| -> Vec<u8> {
            stem.iter().flat_map(|&b| if b == b'#' { numbers.next().unwrap().to_string().into_bytes() } else { vec![b] }).collect()
        };
        let names: Vec<Vec<u8>> = (0..150).map(|at| named(&stems[at % stems.len()])).collect();
        let Some(guess) = EncodingGuess::for_names(names.iter().map(Vec::as_slice), &EncodingCounts::default()) else {
            return Ok(());
        };
        let mut reader = guess.reader();
        for name in &names {
            prop_assert_eq!(reader.read(name), guess.read(name), "{:02X?}", name);
        }
    }
}

#[test]
fn one_name_is_never_likely_unless_earlier_names_support_it() {
    let none = EncodingCounts::default();
    let name = encoded("koi8-r", "фотографии с дачи");
    let alone = EncodingGuess::for_names([&*name], &none).unwrap();
    assert!(!alone.read(&name).unwrap().is_likely);
    let others = ["отчёт.txt", "письмо маме.doc", "музыка"].map(|name| encoded("koi8-r", name));
    let above = EncodingGuess::for_names(others.iter().map(Vec::as_slice), &none).unwrap();
    let below = EncodingGuess::for_names([&*name], above.counts()).unwrap();
    let reading = below.read(&name).unwrap();
    assert_eq!((&*reading.text, reading.is_likely), ("фотографии с дачи", true));
}

#[test]
fn names_that_differ_in_numbers_or_in_ascii_words_are_one_piece_of_evidence() {
    let read = |names: &[String], earlier: &EncodingCounts| {
        let names: Vec<Vec<u8>> = names.iter().map(|name| encoded("koi8-r", name)).collect();
        let guess = EncodingGuess::for_names(names.iter().map(Vec::as_slice), earlier).unwrap();
        let likely: Vec<bool> = names.iter().map(|name| guess.read(name).unwrap().is_likely).collect();
        (likely, guess)
    };
    let none = EncodingCounts::default();
    let series: Vec<String> = (8..120).map(|n| format!("отпуск {n}.jpg")).collect();
    let others = ["отпуск.doc", "отпуск old.txt", "The отпуск (2)"].map(str::to_owned);
    let words: Vec<String> = (8..20).map(|n| format!("дача и отпуск с семьёй {n}.jpg")).collect();
    for names in [&series[..], &others, &words, &[&series[..], &others].concat()] {
        let (likely, guess) = read(names, &none);
        assert!(!likely.contains(&true) && guess.is_one_series(), "{names:?}");
        assert!(guess.counts().names() < 1.1, "{:?}", guess.counts());
    }
    let different = ["письмо маме.doc".to_owned(), "музыка".to_owned()];
    let (likely, guess) = read(&[&series[..], &different].concat(), &none);
    assert!(!likely.contains(&false) && !guess.is_one_series());

    // A hundred directories with one of these names are no more, and with others they are.
    let mut tree = EncodingCounts::default();
    series.iter().for_each(|name| tree.add(read(std::slice::from_ref(name), &none).1.counts()));
    assert_eq!(read(&series[..1], &tree).0, [false]);
    assert_eq!(read(&["фотографии".to_owned()], &tree).0, [false]);
    different.iter().for_each(|name| tree.add(read(std::slice::from_ref(name), &none).1.counts()));
    assert_eq!(read(&series[..1], &tree).0, [true]);
}

/// Of a directory: how each name is read, and whether that is likely.
fn read_together(names: &[Vec<u8>]) -> Vec<(String, bool)> {
    let guess =
        EncodingGuess::for_names(names.iter().map(Vec::as_slice), &EncodingCounts::default()).unwrap();
    let read = |name: &Vec<u8>| guess.read(name).map(|reading| (reading.text, reading.is_likely)).unwrap();
    names.iter().map(read).collect()
}

#[test]
fn a_name_is_a_guess_if_only_it_tells_two_encodings_apart() {
    // All but the last have the same letters in windows-1252, where `š` is `ð`.
    let names = ["öösel", "jõgi", "käsi", "rõõm ja mõõk", "küünal", "hõbe", "sõber", "sandvitš"];
    let names = names.map(|name| encoded("windows-1257", name));
    let read = read_together(&names);
    assert!(read[..7].iter().all(|(_, is_likely)| *is_likely), "{read:?}");
    assert!(read[7].0 == "sandvitš" || !read[7].1, "{read:?}");
}

#[test]
fn a_word_in_many_names_is_one_piece_of_evidence() {
    let names = [
        "bârâie",
        "Fluorizându",
        "DECIGRAM FLUORIZÂNDU",
        "cumincior bârâie",
        "spalet fluorizându",
        "Bârâie 2",
    ];
    let names = names.map(|name| encoded("windows-1250", name));
    for (text, is_likely) in read_together(&names) {
        assert!(text.to_lowercase().contains('â') || !is_likely, "{text}");
    }
}

#[test]
fn the_length_of_numbers_decides_nothing() {
    let stems = ["Größe #", "Übersicht #.doc", "# für Mütter", "sandvitð #", "Fl#ß"];
    let read = |number: &str| {
        let names: Vec<Vec<u8>> =
            stems.map(|stem| encoding_rs::WINDOWS_1252.encode(&stem.replace('#', number)).0.into()).into();
        read_together(&names)
            .into_iter()
            .map(|(text, is_likely)| (text.replace(number, "#"), is_likely))
            .collect::<Vec<_>>()
    };
    let short = read("7");
    assert!(short.iter().any(|(_, is_likely)| *is_likely), "{short:?}");
    for number in ["2024", "20240131", "000000000000000000000001", &"9".repeat(150)] {
        assert_eq!(read(number), short, "{number}");
    }
}

#[test]
fn the_guess_does_not_depend_on_the_order_of_names() {
    let mut names: Vec<Vec<u8>> =
        ["отчёт.txt", "письмо маме.doc", "год"].map(|name| encoded("koi8-r", name)).into();
    names.extend(["Größe", "für", "façade", "señor"].map(|name| encoded("latin1", name)));
    let read = |names: &[Vec<u8>], name: &[u8]| {
        let guess = EncodingGuess::for_names(names.iter().map(Vec::as_slice), &EncodingCounts::default());
        guess.unwrap().read(name).unwrap()
    };
    let backwards: Vec<Vec<u8>> = names.iter().rev().cloned().collect();
    for name in &names {
        assert_eq!(read(&names, name), read(&backwards, name));
    }
}

/// The costs of `text` in all languages that have its scripts.
fn all_costs(prepared: &language::Prepared) -> (f32, Vec<(language::Language, f32)>) {
    let (least, mut found) = (prepared.least(), Vec::new());
    prepared.compare(least, |costs| {
        let of = |lane| costs.common + language::in_whole(costs.own[usize::from(lane)]);
        found.extend((0..costs.languages as u8).map(|lane| (costs.first + lane, of(lane))));
    });
    (least, found)
}

#[test]
fn an_arabic_mark_is_no_letter_of_another_alphabet() {
    let best = |text: &str| {
        let (_, costs) = all_costs(&language::Prepared::for_text(text));
        costs.into_iter().map(|(_, cost)| cost).fold(f32::INFINITY, f32::min)
    };
    for mark in '\u{64B}'..='\u{655}' {
        assert!(best(&format!("libert{mark}")) > best("libertà") + 10.0, "{:04X}", mark as u32);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The texts of a name share the costs of what they have in common.
    #[test]
    fn a_text_costs_the_same_by_its_bytes_and_by_itself(
        name in prop::collection::vec(prop_oneof![b'a'..=b'z', b' '..=b'~', 0x80..=0xFFu8], 0..160)
    ) {
        let mut by_bytes = language::Prepared::default();
        by_bytes.set_bytes(&name);
        for label in ["windows-1252", "koi8-r", "cp437", "cp862", "windows-1256", "iso-8859-7", "windows-874"] {
            let encoding = encoding(label);
            let Some(text) = encoding.read(&name) else { continue };
            let character = |at| encoding.read(&name[at..=at]).unwrap().chars().next().unwrap();
            by_bytes.set_beyond(|at| language::TextCharacter::new(character(at)));
            let (least, costs) = all_costs(&by_bytes);
            let (alone, expected) = all_costs(&language::Prepared::for_text(&text));
            prop_assert!((least - alone).abs() < 1e-3, "{}: {} {}", label, least, alone);
            prop_assert_eq!(costs.len(), expected.len());
            for (cost, expected) in costs.iter().zip(&expected) {
                prop_assert_eq!(cost.0, expected.0);
                prop_assert!((cost.1 - expected.1).abs() < 0.01, "{} in {}: {:?} {:?}", text, label, cost, expected);
            }
        }
    }
}
