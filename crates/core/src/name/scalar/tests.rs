use super::*;
use std::collections::{BTreeMap, HashMap};
use unicode_security::mixed_script::AugmentedScriptSet;

fn every_scalar_value() -> impl Iterator<Item = char> {
    '\0'..=char::MAX
}

/// The lines of a Unicode data file as `(first, last, fields)`, or `None` after saying why the test is skipped.
fn unicode_file(name: &str) -> Option<Vec<(u32, u32, Vec<String>)>> {
    let path = std::path::Path::new("/usr/share/unicode").join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("SKIPPED: {} does not exist (Debian package unicode-data)", path.display());
        return None;
    };
    let hex = |digits: &str| u32::from_str_radix(digits, 16).unwrap();
    let lines =
        text.lines().map(|line| line.split('#').next().unwrap().trim()).filter(|line| !line.is_empty());
    Some(
        lines
            .map(|line| {
                let mut fields = line.split(';').map(|field| field.trim().to_owned());
                let range = fields.next().unwrap();
                let (first, last) = range.split_once("..").unwrap_or((&range, &range));
                (hex(first), hex(last), fields.collect())
            })
            .collect(),
    )
}

/// Every code point of one binary property.
fn with_property(file: &str, property: &str) -> Option<Vec<char>> {
    let lines = unicode_file(file)?;
    let ranges = lines.iter().filter(|line| line.2[0] == property);
    Some(ranges.flat_map(|line| line.0..=line.1).filter_map(char::from_u32).collect())
}

/// General category of every assigned scalar value by UnicodeData.txt, the First/Last pairs filled in.
fn general_categories() -> Option<HashMap<char, String>> {
    let mut categories = HashMap::new();
    let mut range_start = None;
    for (first, _, fields) in unicode_file("UnicodeData.txt")? {
        if fields[0].ends_with(", First>") {
            range_start = Some(first);
            continue;
        }
        for value in range_start.take().unwrap_or(first)..=first {
            if let Some(c) = char::from_u32(value) {
                categories.insert(c, fields[1].clone());
            }
        }
    }
    assert!(categories.len() > 280_000);
    Some(categories)
}

/// Code points at the ends of the classes, and their neighbours.
const CLASSES: &[(char, Option<Class>)] = {
    use Class::*;
    &[
        ('\0', Some(C0Control)),
        ('\x1B', Some(C0Control)),
        ('\x1F', Some(C0Control)),
        (' ', None),
        ('~', None),
        ('\x7F', Some(Delete)),
        ('\u{80}', Some(C1Control)),
        ('\u{85}', Some(C1Control)),
        ('\u{9F}', Some(C1Control)),
        ('\u{A0}', Some(NonAsciiSpace)),
        ('\u{A1}', None),
        ('\u{AD}', Some(DefaultIgnorable)),
        ('é', None),
        ('\u{0301}', None),
        ('\u{034F}', Some(DefaultIgnorable)),
        ('\u{0600}', None), // a visible format character
        ('\u{061C}', Some(BidiControl)),
        ('\u{115F}', Some(DefaultIgnorable)),
        ('\u{1160}', Some(DefaultIgnorable)),
        ('\u{1680}', Some(NonAsciiSpace)),
        ('\u{17B4}', Some(DefaultIgnorable)),
        ('\u{180B}', Some(DefaultIgnorable)),
        ('\u{180E}', Some(DefaultIgnorable)), // a space until Unicode 6.2
        ('\u{2000}', Some(NonAsciiSpace)),
        ('\u{200B}', Some(DefaultIgnorable)),
        ('\u{200C}', Some(DefaultIgnorable)),
        ('\u{200D}', Some(DefaultIgnorable)),
        ('\u{200E}', Some(BidiControl)),
        ('\u{200F}', Some(BidiControl)),
        ('\u{2010}', None),
        ('\u{2028}', Some(LineSeparator)),
        ('\u{2029}', Some(LineSeparator)),
        ('\u{202A}', Some(BidiControl)),
        ('\u{202E}', Some(BidiControl)),
        ('\u{202F}', Some(NonAsciiSpace)),
        ('\u{2060}', Some(DefaultIgnorable)),
        ('\u{2065}', Some(Unassigned)), // reserved as ignorable, but unassigned says more
        ('\u{2066}', Some(BidiControl)),
        ('\u{2069}', Some(BidiControl)),
        ('\u{206A}', Some(DefaultIgnorable)),
        ('\u{2800}', None), // the blank braille pattern is a symbol
        ('\u{3000}', Some(NonAsciiSpace)),
        ('\u{3164}', Some(DefaultIgnorable)),
        ('語', None),
        ('한', None),
        ('\u{E000}', Some(PrivateUse)),
        ('\u{F000}', Some(PrivateUse)),
        ('\u{F001}', Some(SmbPrivateUse)),
        ('\u{F029}', Some(SmbPrivateUse)),
        ('\u{F02A}', Some(PrivateUse)),
        ('\u{F8FF}', Some(PrivateUse)),
        ('\u{FDCF}', None),
        ('\u{FDD0}', Some(Noncharacter)),
        ('\u{FDEF}', Some(Noncharacter)),
        ('\u{FE0F}', Some(DefaultIgnorable)),
        ('\u{FEFF}', Some(ByteOrderMark)),
        ('\u{FFA0}', Some(DefaultIgnorable)),
        ('\u{FFF9}', None),
        ('\u{FFFC}', None),
        ('\u{FFFD}', Some(ReplacementCharacter)),
        ('\u{FFFE}', Some(Noncharacter)),
        ('\u{1F600}', None),
        ('\u{1FFFF}', Some(Noncharacter)),
        ('\u{50000}', Some(Unassigned)),
        ('\u{E0000}', Some(TagCharacter)), // unassigned, but inside the tag block
        ('\u{E0001}', Some(TagCharacter)),
        ('\u{E0067}', Some(TagCharacter)),
        ('\u{E007F}', Some(TagCharacter)),
        ('\u{E0080}', Some(Unassigned)),
        ('\u{E0100}', Some(DefaultIgnorable)),
        ('\u{E01EF}', Some(DefaultIgnorable)),
        ('\u{E01F0}', Some(Unassigned)),
        ('\u{F0000}', Some(PrivateUse)),
        ('\u{10FFFD}', Some(PrivateUse)),
        ('\u{10FFFE}', Some(Noncharacter)),
        ('\u{10FFFF}', Some(Noncharacter)),
    ]
};

#[test]
fn each_class_is_given_to_its_code_points_and_not_to_the_neighbours() {
    for &(c, expected) in CLASSES {
        assert_eq!(class(c), expected, "U+{:04X}", u32::from(c));
    }
}

#[test]
fn each_class_has_as_many_members_as_the_standard_fixes() {
    let mut counts = BTreeMap::new();
    for c in every_scalar_value().filter_map(class) {
        *counts.entry(c).or_insert(0u32) += 1;
    }
    let fixed = [
        (Class::C0Control, 32),
        (Class::Delete, 1),
        (Class::C1Control, 32),
        (Class::LineSeparator, 2),
        (Class::Noncharacter, 66),
        (Class::ByteOrderMark, 1),
        (Class::BidiControl, 12),
        (Class::TagCharacter, 128),
        (Class::PrivateUse, 6400 + 2 * 65_534 - 41),
        (Class::SmbPrivateUse, 41),
        (Class::ReplacementCharacter, 1),
        (Class::NonAsciiSpace, 16),
    ];
    for (class, count) in fixed {
        assert_eq!(counts.get(&class), Some(&count), "{class:?}");
    }
    assert_eq!(counts.len(), Class::ALL.len(), "every class has a member");
    assert!(Class::ALL.is_sorted() && Class::ALL.iter().enumerate().all(|(at, class)| at == *class as usize));
}

#[test]
fn the_classes_agree_with_the_data_files_of_unicode_15() {
    let (Some(categories), Some(ignorable), Some(bidi), Some(nonchar)) = (
        general_categories(),
        with_property("DerivedCoreProperties.txt", "Default_Ignorable_Code_Point"),
        with_property("PropList.txt", "Bidi_Control"),
        with_property("PropList.txt", "Noncharacter_Code_Point"),
    ) else {
        return;
    };
    let mut expected: HashMap<char, Class> = HashMap::new();
    for &c in &ignorable {
        expected.insert(c, Class::DefaultIgnorable);
    }
    for (&c, category) in &categories {
        let class = match (category.as_str(), c) {
            ("Cc", '\0'..='\x1F') => Class::C0Control,
            ("Cc", '\x7F') => Class::Delete,
            ("Cc", _) => Class::C1Control,
            ("Zl" | "Zp", _) => Class::LineSeparator,
            ("Zs", c) if c != ' ' => Class::NonAsciiSpace,
            ("Co", '\u{F001}'..='\u{F029}') => Class::SmbPrivateUse,
            ("Co", _) => Class::PrivateUse,
            _ => continue,
        };
        expected.insert(c, class);
    }
    expected.extend(bidi.into_iter().map(|c| (c, Class::BidiControl)));
    expected.extend(nonchar.iter().map(|&c| (c, Class::Noncharacter)));
    expected.extend(('\u{E0000}'..='\u{E007F}').map(|c| (c, Class::TagCharacter)));
    expected.insert('\u{FEFF}', Class::ByteOrderMark);
    expected.insert('\u{FFFD}', Class::ReplacementCharacter);

    let mut compared = 0;
    for c in every_scalar_value().filter(|c| categories.contains_key(c) || nonchar.contains(c)) {
        assert_eq!(class(c), expected.get(&c).copied(), "U+{:04X}", u32::from(c));
        compared += 1;
    }
    assert!(compared > 280_000);
}

#[test]
fn a_code_point_that_is_not_looked_up_has_no_class_by_the_data_either() {
    for c in ('\u{4E00}'..='\u{9FFF}').chain('\u{AC00}'..='\u{D7A3}') {
        assert_eq!((class(c), class_beyond_ascii(c)), (None, None), "U+{:04X}", u32::from(c));
    }
}

#[test]
fn an_ignorable_code_point_always_has_a_class() {
    for c in every_scalar_value().filter(|&c| is_default_ignorable(c)) {
        assert!(class(c).is_some(), "U+{:04X} is shown as nothing and has no class", u32::from(c));
    }
}

/// `unicode-security` states the version of its tables in a constant, and its script data leave the scripts of a
/// code point empty exactly if it is unassigned, private or a noncharacter: two crates that agree on every code point hold one version.
#[test]
fn the_unicode_version_is_the_one_of_the_data() {
    let stated = (u64::from(UNICODE_VERSION.0), u64::from(UNICODE_VERSION.1), u64::from(UNICODE_VERSION.2));
    assert_eq!(
        unicode_security::UNICODE_VERSION,
        stated,
        "unicode-security has other tables now: bring it, icu_properties and UNICODE_VERSION to one version"
    );
    let mut assigned = 0;
    for c in every_scalar_value() {
        let known = !AugmentedScriptSet::for_char(c).base.is_empty();
        let category = CodePointMapData::<GeneralCategory>::new().get(c);
        let here = !matches!(category, GeneralCategory::Unassigned | GeneralCategory::PrivateUse);
        assert_eq!(
            here,
            known,
            "U+{:04X}: icu_properties no longer has Unicode {UNICODE_VERSION:?}: set UNICODE_VERSION anew",
            u32::from(c)
        );
        assigned += u32::from(here);
    }
    assert_eq!(assigned, ASSIGNED, "the data no longer has the code points of Unicode {UNICODE_VERSION:?}");
}

/// 172 808 characters and 65 controls, as both crates have them; Unicode 17.0 had 159 801 characters.
const ASSIGNED: u32 = 172_873;

#[test]
fn property_names_are_the_long_names_of_the_standard() {
    for (c, category, script, bidi) in [
        ('A', "Uppercase_Letter", "Latin", "Left_To_Right"),
        ('٣', "Decimal_Number", "Arabic", "Arabic_Number"),
        ('א', "Other_Letter", "Hebrew", "Right_To_Left"),
        ('\u{0301}', "Nonspacing_Mark", "Inherited", "Nonspacing_Mark"),
        ('\0', "Control", "Common", "Boundary_Neutral"),
        ('\u{E000}', "Private_Use", "Unknown", "Left_To_Right"),
        ('\u{50000}', "Unassigned", "Unknown", "Left_To_Right"),
    ] {
        assert_eq!((general_category_name(c), script_name(c), bidi_class_name(c)), (category, script, bidi));
    }
    for c in every_scalar_value() {
        assert!(PropertyNamesLong::<Script>::new().get(CodePointMapData::<Script>::new().get(c)).is_some());
    }
}
