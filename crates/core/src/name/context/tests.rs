use super::*;
use crate::name::scalar::{Class, class};

/// The invisible code points of `name`, each with the answer for it.
fn checked(name: &str) -> Vec<(char, bool)> {
    let invisible = |c| matches!(class(c), Some(Class::DefaultIgnorable | Class::TagCharacter));
    name.char_indices().filter(|&(_, c)| invisible(c)).map(|(at, c)| (c, is_needed(name, at))).collect()
}

fn answers(name: &str) -> Vec<bool> {
    checked(name).into_iter().map(|(_, needed)| needed).collect()
}

#[test]
fn a_name_that_is_misspelt_without_its_invisible_code_points_needs_all_of_them() {
    for (name, why) in [
        ("می\u{200C}خواهم.txt", "Persian prefix"),
        ("کتاب\u{200C}ها", "Persian plural"),
        ("بی\u{64E}\u{200C}\u{64B}خ", "vowel signs on both sides are transparent"),
        ("۱۴۰۰ه\u{200D}", "Hijri year, heh in its initial form"),
        ("ه\u{200D} ۱۴۰۰", "heh before a space"),
        ("क्\u{200D}ष", "Hindi half form"),
        ("क्\u{200C}ष", "Hindi visible virama"),
        ("क\u{93C}्\u{200D}ष", "nukta before the virama"),
        ("ශ්\u{200D}රී", "Sinhala Sri"),
        ("അവന്\u{200D}.txt", "Malayalam chillu before Unicode 5.1"),
        ("ক্\u{200C}ষ", "Bengali"),
        ("র\u{200D}্যাব", "Bengali ya-phalaa"),
        ("ರ\u{200D}್ಕ", "Kannada without repha"),
        ("ᠠ\u{180B}ᠡ", "Mongolian free variation selector"),
        ("ᠨ\u{180E}ᠠ", "Mongolian vowel separator"),
        ("ᠨ\u{180B}\u{180E}ᠠ", "separator after a selector"),
        ("葛\u{E0100}城市", "ideographic variation"),
        ("〆\u{E0101}", "an ideographic mark"),
        ("❤\u{FE0F}", "heart"),
        ("❤\u{FE0E}", "heart as text"),
        ("©\u{FE0F}", "copyright sign as emoji"),
        ("1\u{FE0F}\u{20E3}", "keycap"),
        ("#\u{FE0F}\u{20E3}", "keycap"),
        ("👨\u{200D}👩\u{200D}👧\u{200D}👦", "family"),
        ("🏳\u{FE0F}\u{200D}🌈", "rainbow flag"),
        ("👩🏽\u{200D}🚀", "skin tone"),
        ("👁\u{FE0F}\u{200D}🗨\u{FE0F}", "eye in speech bubble"),
        ("🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}", "England"),
        ("∩\u{FE00}", "intersection with serifs"),
        ("𝒜\u{FE01}", "roundhand A"),
        ("吆\u{FE00}", "compatibility ideograph"),
        ("！\u{FE01}", "corner-justified punctuation"),
        ("က\u{FE00}", "dotted Myanmar letter"),
        ("\u{13091}\u{FE00}", "rotated hieroglyph"),
    ] {
        let checked = checked(name);
        assert!(!checked.is_empty(), "{why}: nothing invisible in {name:?}");
        for (c, needed) in checked {
            assert!(needed, "{why}: U+{:04X} in {name:?}", u32::from(c));
        }
    }
}

#[test]
fn a_name_that_reads_the_same_without_them_needs_none() {
    for (name, why) in [
        ("a\u{200D}b", "Latin letters do not join"),
        ("a\u{200C}b", "Latin letters do not join"),
        ("\u{200D}", "alone"),
        ("\u{200C}", "alone"),
        ("\u{200D}abc", "leading"),
        ("abc\u{200D}", "trailing"),
        ("\u{200C}می", "leading, before a joining letter"),
        ("می\u{200C}", "trailing, nothing to keep apart"),
        ("\u{200D}ه", "leading joiner"),
        ("ک\u{200C}a", "Latin does not join"),
        ("کار\u{200C}ها", "reh does not join forward anyway"),
        ("ب\u{200D}ب", "letters that join anyway"),
        ("ب\u{200D}ـ", "tatweel joins anyway"),
        ("ه\u{200D}\u{200D}", "doubled"),
        ("می\u{200C}\u{200C}خواهم", "doubled"),
        ("👨\u{200D}\u{200D}👩", "doubled"),
        ("क\u{200D}ष", "no virama"),
        ("क्\u{200C}", "no letter behind"),
        ("क्\u{200D}ि", "a dependent vowel behind"),
        ("्\u{200D}", "a virama without a letter"),
        ("1्\u{200D}", "a virama on a digit"),
        ("র\u{200D}্", "virama with nothing behind"),
        ("👨\u{200D}", "nothing behind"),
        ("👨\u{200D}a", "a letter behind"),
        ("a\u{200D}👩", "a letter in front"),
        ("👨a\u{200D}👩", "a letter in front"),
        ("a\u{FE0F}", "not an emoji"),
        ("\u{FE0F}", "alone"),
        ("1\u{FE0F}", "no keycap behind"),
        ("1\u{FE0E}", "no keycap behind"),
        ("a\u{FE0F}\u{20E3}", "no keycap base"),
        ("a\u{FE00}", "no variants"),
        ("0\u{FE00}", "an ASCII digit"),
        ("한\u{FE00}", "no variants"),
        ("吆\u{FE03}", "no such variant"),
        ("❤\u{FE0A}", "no such variant"),
        ("a\u{180B}", "not Mongolian"),
        ("\u{180E}", "alone"),
        ("a\u{180E}b", "not Mongolian"),
        ("ᠠ\u{180E}", "nothing behind"),
        ("a\u{E0100}", "not an ideograph"),
        ("ひ\u{E0100}", "not an ideograph"),
        ("a\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}", "tags after a letter"),
        ("👨\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}", "tags after another emoji"),
        ("🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}", "no end tag"),
        ("🏴\u{E0067}\u{E0062}\u{E007F}", "no subdivision"),
        ("🏴\u{E0067}\u{E0062}\u{E0047}\u{E007F}", "a capital tag"),
        ("🏴\u{E007F}", "empty"),
        ("🏴\u{E0001}", "language tag"),
        ("\u{E0020}", "tag space"),
        ("a\u{AD}b", "soft hyphen"),
        ("a\u{34F}\u{301}", "combining grapheme joiner"),
        ("a\u{200B}b", "zero-width space"),
        ("a\u{2060}b", "word joiner"),
        ("ᄀ\u{1160}", "jungseong filler"),
        ("\u{115F}", "choseong filler"),
        ("\u{3164}", "Hangul filler"),
        ("\u{FFA0}", "half-width filler"),
        ("ក\u{17B4}", "Khmer inherent vowel"),
        ("a\u{206A}", "deprecated format character"),
    ] {
        let checked = checked(name);
        assert!(!checked.is_empty(), "{why}: nothing invisible in {name:?}");
        for (c, needed) in checked {
            assert!(!needed, "{why}: U+{:04X} in {name:?}", u32::from(c));
        }
    }
}

#[test]
fn one_of_two_in_a_row_is_never_needed() {
    assert_eq!(answers("क्\u{200D}\u{200D}ष"), [true, false]);
    assert_eq!(answers("❤\u{FE0F}\u{FE0F}"), [true, false]);
    assert_eq!(answers("葛\u{E0100}\u{E0101}"), [true, false]);
    assert_eq!(answers("ᠠ\u{180B}\u{180B}"), [true, false]);
    let after_the_flag = "🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}\u{E0061}\u{E007F}";
    assert_eq!(answers(after_the_flag), [true, true, true, true, true, true, false, false]);
}

#[test]
fn text_hidden_behind_a_flag_is_not_needed() {
    let hidden: String =
        "meetatnoon".chars().map(|c| char::from_u32(0xE0000 + u32::from(c)).unwrap()).collect();
    assert!(answers(&format!("🏴{hidden}\u{E007F}")).iter().all(|needed| !needed));
}

#[test]
fn an_offset_that_is_not_at_an_invisible_code_point_is_not_needed() {
    let name = "म\u{94D}\u{200D}ष👨\u{200D}👩";
    for at in (0..name.len() + 3).chain([usize::MAX]) {
        let expected = name.get(at..).is_some_and(|rest| rest.starts_with('\u{200D}'));
        assert_eq!(is_needed(name, at), expected, "at {at}");
    }
}

#[test]
fn a_context_beyond_reach_is_not_recognized_and_costs_no_more() {
    let marks = |count| "\u{64B}".repeat(count);
    let near = format!("ب{}\u{200C}ب", marks(REACH - 1));
    let far = format!("ب{}\u{200C}ب", marks(REACH));
    assert_eq!((answers(&near), answers(&far)), (vec![true], vec![false]));
    for unit in
        ["\u{200C}", "\u{200D}", "\u{64B}\u{200D}", "\u{E0061}", "\u{FE0F}", "्\u{200D}", "\u{1F3FB}\u{200D}"]
    {
        let name = unit.repeat(1 << 14);
        assert!(answers(&name).iter().filter(|&&needed| needed).count() <= 1);
    }
}

/// The sequences of a Unicode emoji or variation file: the code points before the first semicolon of each line.
fn sequences(file: &str) -> Vec<String> {
    let path = std::path::Path::new("/usr/share/unicode").join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("SKIPPED: {} does not exist (Debian package unicode-data)", path.display());
        return Vec::new();
    };
    let code_point = |digits: &str| char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap();
    let fields = text.lines().filter_map(|line| line.split('#').next()?.split(';').next());
    let lists = fields.map(str::trim).filter(|field| !field.is_empty() && !field.contains(".."));
    lists.map(|field| field.split(' ').map(code_point).collect()).collect()
}

#[test]
fn every_registered_emoji_sequence_needs_its_invisible_code_points() {
    for file in ["emoji/emoji-sequences.txt", "emoji/emoji-zwj-sequences.txt", "emoji/emoji-test.txt"] {
        for sequence in sequences(file) {
            for (c, needed) in checked(&sequence) {
                assert!(needed, "{file}: U+{:04X} in {sequence:?}", u32::from(c));
            }
        }
    }
}

#[test]
fn every_registered_variation_is_needed_except_after_ascii() {
    for file in ["emoji/emoji-variation-sequences.txt", "StandardizedVariants.txt"] {
        for sequence in sequences(file) {
            let expected = !sequence.starts_with(|c: char| c.is_ascii());
            assert_eq!(answers(&sequence), [expected], "{file}: {sequence:?}");
        }
    }
}
