//! Names that programs damaged, made from words of many languages: what namegate is sure of is right, and what is not damaged stays.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use namegate_core::name::misread;
use namegate_core::name::reading::{EncodingCounts, EncodingGuess};
use namegate_core::policy::{Confidence, EncodingHint, Policy, profile};

/// Words that are not ASCII, by language.
const WORDS: [&[&str]; 14] = [
    &["Übersicht", "Größe", "für", "Straße", "schön", "Mütter", "Bücher", "Gebäude", "Schlüssel", "Fußball"],
    &["été", "façade", "résumé", "élève", "garçon", "théâtre", "château", "forêt", "déjà", "maïs"],
    &["ação", "coração", "NÃO", "português", "manhã", "irmã", "três", "avô", "às", "opinião"],
    &["señor", "niño", "español", "año", "mañana", "canción", "árbol", "pingüino", "jamón", "avión"],
    &["źdźbło", "gęślą", "jaźń", "łódź", "świąt", "wesołych", "zażółć", "książka", "żółw", "źródło"],
    &["žluťoučký", "kůň", "příliš", "řeka", "čeština", "šťastný", "děti", "město", "životopis", "účet"],
    &[
        "фотографии",
        "письмо",
        "музыка",
        "отчёт",
        "договор",
        "управление",
        "семья",
        "работа",
        "школа",
        "праздник",
    ],
    &[
        "φωτογραφίες",
        "μουσική",
        "αναφορά",
        "σπίτι",
        "άνθρωπος",
        "θάλασσα",
        "ελληνικά",
        "ημέρα",
        "γράμμα",
        "βιβλίο",
    ],
    &["Tiếng", "Việt", "người", "những", "được", "không", "trường", "học", "điện", "thoại"],
    &["報告書", "写真", "会議", "議事録", "音楽", "日本語", "東京", "新しい", "フォルダ", "ソフトウェア"],
    &["报告", "照片", "会议记录", "音乐", "新建文件夹", "工作计划", "中文", "下载", "电影", "学习"],
    &["보고서", "사진", "회의록", "음악", "파일", "한국어", "새폴더", "문서", "여행", "가족"],
    &["תמונות", "מסמך", "חשוב", "שיר", "ספרים", "עברית", "שלום", "משפחה", "חופשה", "עבודה"],
    &["صور", "مستند", "تقرير", "العربية", "موسيقى", "كتاب", "مدرسة", "عائلة", "رسالة", "جديد"],
];

/// Pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn title(&mut self, language: usize) -> String {
        let words = WORDS[language];
        let count = 2 + self.below(3);
        (0..count).map(|_| words[self.below(words.len())]).collect::<Vec<_>>().join(" ")
    }
}

/// A fixed seed and a fresh one, which a failure prints.
fn seeds() -> [u64; 2] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    [18, now.as_nanos() as u64]
}

/// The damaged name, and what it was or what is left of it.
type Damage = fn(&mut Random, usize) -> Option<(Vec<u8>, String)>;

fn cut(random: &mut Random, language: usize) -> Option<(Vec<u8>, String)> {
    let title = random.title(language);
    let at = 1 + random.below(title.len() - 1);
    let whole = (0..=at).rev().find(|&at| title.is_char_boundary(at))?;
    let extension = [".txt", ".mp4", "", ".tar.gz"][random.below(4)];
    let name = [&title.as_bytes()[..at], extension.as_bytes()].concat();
    (whole < at).then(|| (name, format!("{}{extension}", &title[..whole])))
}

fn half_escaped(random: &mut Random, language: usize) -> Option<(Vec<u8>, String)> {
    let title = random.title(language);
    let escape = |byte: u8| match byte {
        0x80..=0x9F => format!("%{byte:02X}").into_bytes(),
        byte => vec![byte],
    };
    let name: Vec<u8> = title.bytes().flat_map(escape).collect();
    std::str::from_utf8(&name).is_err().then_some((name, title))
}

fn surrogate_escaped(random: &mut Random, language: usize) -> Option<(Vec<u8>, String)> {
    let title = random.title(language);
    let escape = |byte: u8| match byte {
        0x80.. => vec![0xED, 0xB2 | (byte & 0x40) >> 6, 0x80 | byte & 0x3F],
        byte => vec![byte],
    };
    Some((title.bytes().flat_map(escape).collect(), title))
}

/// Checks that what is likely is what was meant in 99.5 % of the names of a kind, and that so many in a hundred are likely.
fn check(kind: &str, damage: Damage, least_likely: usize) {
    for seed in seeds() {
        let mut random = Random(seed);
        let (mut all, mut likely, mut wrong) = (0, 0, Vec::new());
        for directory in 0..140 {
            let names: HashMap<Vec<u8>, String> =
                (0..5).filter_map(|_| damage(&mut random, directory % WORDS.len())).collect();
            let guess = EncodingGuess::for_names(names.keys().map(Vec::as_slice), &EncodingCounts::default());
            let mut reader = guess.as_ref().map_or(EncodingHint::Unknown, EncodingHint::Guessed).reader();
            for (name, meant) in names {
                let decoded = reader.read(&name);
                all += 1;
                if decoded.confidence < Confidence::Guess {
                    likely += 1;
                    if decoded.text != meant {
                        wrong.push((meant, decoded));
                    }
                }
            }
        }
        assert!(wrong.len() * 200 <= likely, "{kind}, seed {seed}: {likely} likely, wrong: {wrong:#?}");
        assert!(likely * 100 >= least_likely * all, "{kind}, seed {seed}: {likely} of {all} are likely");
    }
}

#[test]
fn damage_of_every_kind_is_explained_and_what_is_likely_is_right() {
    check("cut", cut, 60);
    check("half escaped", half_escaped, 80);
    check("surrogateescape", surrogate_escaped, 100);
}

/// Pairs by the index of their language: the encoding of the text, and that in which it was read.
const MISREAD: [(usize, &str, &str); 11] = [
    (6, "windows-1251", "windows-1252"),
    (6, "koi8-r", "cp437"),
    (6, "ibm866", "cp437"),
    (6, "windows-1251", "cp850"),
    (9, "shift_jis", "cp437"),
    (9, "shift_jis", "cp850"),
    (10, "gbk", "cp437"),
    (10, "gbk", "windows-1252"),
    (10, "gbk", "ibm866"),
    (11, "euc-kr", "cp850"),
    (11, "euc-kr", "windows-1252"),
];

/// `text` in `written_in`, read in `read_as`; `None` if a byte has no character there.
fn misread_as(text: &str, written_in: &str, read_as: &str) -> Option<String> {
    let bytes = encoding_rs::Encoding::for_label(written_in.as_bytes())?.encode(text).0;
    let read_as: namegate_core::name::reading::Encoding = read_as.parse().ok()?;
    bytes.iter().map(|&byte| read_as.read(&[byte])).collect()
}

#[test]
fn names_that_were_misread_together_support_each_other_and_what_is_likely_is_right() {
    let policy = Policy::from_profiles(&[profile::by_name("strict").unwrap()]);
    for seed in seeds() {
        let mut random = Random(seed);
        let (mut found, mut right_alone, mut right, mut likely, mut wrong) = (0, 0, 0, 0, Vec::new());
        for directory in 0..55 {
            let (language, written_in, read_as) = MISREAD[directory % MISREAD.len()];
            // No word is in two names: that would be less evidence.
            let start = random.below(10);
            let word = |at: usize| WORDS[language][(start + at * 3) % 10];
            let titles = (0..5).map(|at| format!("{} {}", word(2 * at), word(2 * at + 1)));
            let meant = titles.filter_map(|title| Some((misread_as(&title, written_in, read_as)?, title)));
            let meant: HashMap<String, String> = meant.collect();
            let names: Vec<&[u8]> = meant.keys().map(String::as_bytes).collect();
            for ((name, title), suggested) in meant.iter().zip(policy.suggest_names(&names, None)) {
                let Some(suggested) = suggested else { continue };
                found += 1;
                right_alone += usize::from(misread::undo(name).is_some_and(|misread| misread.text == *title));
                right += usize::from(suggested.name == *title);
                if suggested.confidence < Confidence::Guess {
                    likely += 1;
                    if suggested.name != *title {
                        wrong.push((name.clone(), title.clone(), suggested));
                    }
                }
            }
        }
        assert!(wrong.len() * 200 <= likely, "seed {seed}: {likely} likely, wrong: {wrong:#?}");
        assert!(likely * 100 >= 60 * found && found > 200, "seed {seed}: {likely} of {found} are likely");
        assert!(right >= right_alone, "seed {seed}: {right} are right together, {right_alone} alone");
    }
}

#[test]
fn words_of_many_languages_are_not_taken_for_damage() {
    let marks = ["", "…", "!", "™", "’s", " – x", "(½)", "²", "“", "”"];
    let words = WORDS.concat();
    let mut names: Vec<String> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let mark = marks[at % marks.len()];
        names.extend([
            word.to_string(),
            word.to_uppercase(),
            format!("{word}{mark}"),
            format!("{}{mark}", word.to_uppercase()),
        ]);
        names.extend(words.iter().step_by(7).map(|other| format!("{word} {other}{mark}.txt")));
    }
    let drawn = ["═══ title ═══", "┌─┐", "█▓▒░", "├── file", "╔══╗ box", "│ a │", "3×½", "①②③", "★★★"];
    names.extend(drawn.map(str::to_owned));
    let taken: Vec<_> = names.iter().filter_map(|name| Some((name, misread::undo(name)?))).collect();
    assert!(taken.is_empty(), "{taken:#?}");
}
