use super::*;
use crate::name::normalize::is_in_form;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// The lines of a Unicode data file of version 15.0, or `None` when the package is absent.
fn data_file(name: &str) -> Option<String> {
    let path = format!("/usr/share/unicode/{name}");
    let text = fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("SKIPPED: {path} is absent (Debian package unicode-data)");
    }
    text
}

fn scalar(hex: &str) -> Option<char> {
    char::from_u32(u32::from_str_radix(hex.trim(), 16).unwrap())
}

fn scalars(hex: &str) -> String {
    hex.split_whitespace().map(|one| scalar(one).unwrap()).collect()
}

/// Code points that UnicodeData.txt assigns, ranges filled in, with their simple upper case.
fn assigned_with_uppercase(text: &str) -> BTreeMap<char, char> {
    let mut assigned = BTreeMap::new();
    let mut range_start = None;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(';').collect();
        // Surrogate code points are listed, and are no scalar values.
        let Some(c) = scalar(fields[0]) else { continue };
        if fields[1].ends_with(", First>") {
            range_start = Some(c);
        } else if fields[1].ends_with(", Last>") {
            assigned.extend((range_start.take().unwrap()..=c).map(|c| (c, c)));
        } else {
            assigned.insert(c, if fields[12].is_empty() { c } else { scalar(fields[12]).unwrap() });
        }
    }
    assigned
}

/// The scalar values that can have case, a decomposition or a combining class: later planes have ideographs, tags and
/// private use, and checking them only takes time.
fn planes_with_letters() -> impl Iterator<Item = char> {
    ('\0'..'\u{20000}').chain('\u{2f800}'..='\u{2fa1f}')
}

#[test]
fn full_and_simple_folding_are_those_of_casefolding_txt() {
    let (Some(folding), Some(data)) = (data_file("CaseFolding.txt"), data_file("UnicodeData.txt")) else {
        return;
    };
    let (mut simple, mut full) = (BTreeMap::new(), BTreeMap::new());
    for line in folding.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let fields: Vec<&str> = line.split(';').map(str::trim).collect();
        let (from, to) = (scalar(fields[0]).unwrap(), scalars(fields[2]));
        match fields[1] {
            "C" => {
                simple.insert(from, to.clone());
                full.insert(from, to);
            }
            "S" => drop(simple.insert(from, to)),
            "F" => drop(full.insert(from, to)),
            "T" => {}
            status => panic!("unknown status {status}"),
        }
    }
    assert!(simple.len() > 1400 && full.len() > 1500, "the file was read");
    // Only what was assigned in the version of the file: later versions add letters. The one thing that stability allows
    // them to add for an old letter is a simple folding where there only was a full one; Unicode 15.1 added three.
    for (from, to) in [('\u{1fd3}', '\u{390}'), ('\u{1fe3}', '\u{3b0}'), ('\u{fb05}', '\u{fb06}')] {
        simple.insert(from, to.to_string());
    }
    for &c in assigned_with_uppercase(&data).keys() {
        let text = c.to_string();
        assert_eq!(fold(&text, Fold::Simple), *simple.get(&c).unwrap_or(&text), "simple, U+{:04X}", c as u32);
        assert_eq!(fold(&text, Fold::Full), *full.get(&c).unwrap_or(&text), "full, U+{:04X}", c as u32);
    }
}

#[test]
fn upcase_is_the_simple_upper_case_of_the_basic_plane() {
    let Some(data) = data_file("UnicodeData.txt") else { return };
    let assigned = assigned_with_uppercase(&data);
    assert!(assigned.values().filter(|&&upper| upper > '\u{FFFF}').count() > 100, "the file was read");
    for (&c, &upper) in &assigned {
        let expected = if c <= '\u{FFFF}' { upper } else { c };
        let actual = fold(&c.to_string(), Fold::Upcase).chars().next().unwrap();
        // A later version may add an upper case letter for an existing lower case letter.
        let is_later = upper == c && !assigned.contains_key(&actual);
        assert!(actual == expected || is_later, "U+{:04X}: {actual:?}", c as u32);
    }
}

/// What a formatter writes on an image of 16 MiB; `None` if the program is absent.
fn formatted(program: &str, options: &[&str]) -> Option<Vec<u8>> {
    let path = std::env::temp_dir().join(format!("namegate-{}-{program}", std::process::id()));
    fs::File::create(&path).unwrap().set_len(16 << 20).unwrap();
    let output = Command::new(program).args(options).arg(&path).output();
    let image = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    match output {
        Ok(output) => assert!(output.status.success(), "{program}: {output:?}"),
        Err(error) => {
            println!("SKIPPED: {program}: {error}");
            return None;
        }
    }
    Some(image)
}

fn number<const LEN: usize>(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + LEN].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// The table in `units`, in which FFFF and a count stand for units that are their own upper case.
fn uncompressed(units: &[u8]) -> Vec<u32> {
    let mut units = units.as_chunks::<2>().0.iter().map(|&unit| u32::from(u16::from_le_bytes(unit)));
    let mut table = Vec::new();
    while let Some(unit) = units.next() {
        let next = table.len() as u32;
        match unit {
            // The last unit stands for itself.
            0xFFFF => table.extend(next..=next + units.next().map_or(0, |count| count - 1)),
            unit => table.push(unit),
        }
    }
    table
}

/// Checks that `fold` merges what the table merges, and else only letters that Unicode did not have in `version`, if there is one.
fn assert_folds_as(table: &[u32], fold_by: Fold, version: Option<(u8, u8)>) {
    let of = |c: char| fold(&c.to_string(), fold_by).chars().next().unwrap();
    let upper = |c: char| table.get(c as usize).map_or(c, |&upper| char::from_u32(upper).unwrap());
    let assigned = version.map(|version| age::assigned_by(version).unwrap());
    let mut count = 0;
    for c in '\0'..='\u{FFFF}' {
        count += usize::from(upper(c) != c);
        assert_eq!(of(c), of(upper(c)), "{fold_by:?} misses U+{:04X}", c as u32);
        let folded = of(c);
        let is_newer =
            assigned.as_ref().is_some_and(|assigned| !assigned.contains(c) || !assigned.contains(folded));
        assert!(upper(c) == upper(folded) || is_newer, "{fold_by:?} merges U+{:04X} and {folded}", c as u32);
    }
    assert!(count > 800, "{count}");
}

#[test]
fn the_fold_of_exfat_is_the_recommended_up_case_table() {
    let Some(image) = formatted("mkfs.exfat", &[]) else { return };
    let sector = 1 << image[108];
    let (heap, root) = (number::<4>(&image, 88), number::<4>(&image, 96));
    let place = |cluster: usize| (heap + ((cluster - 2) << image[109])) * sector;
    let entry = (place(root)..).step_by(32).find(|&at| image[at] == 0x82).unwrap();
    let table = &image[place(number::<4>(&image, entry + 20))..][..number::<8>(&image, entry + 24)];
    let add = |sum: u32, &byte: &u8| sum.rotate_right(1).wrapping_add(u32::from(byte));
    assert_eq!(table.iter().fold(0, add), 0xE619_D30D, "the checksum in the specification");
    assert_folds_as(&uncompressed(table), Fold::Exfat, None);
}

#[test]
fn the_fold_of_ntfs_is_the_table_of_a_volume() {
    let Some(image) = formatted("mkntfs", &["-F", "-Q", "-q"]) else { return };
    let begin: Vec<u8> = (0..=0x60_u16).chain([0x41, 0x42]).flat_map(u16::to_le_bytes).collect();
    let at = memchr::memmem::find(&image, &begin).expect("the volume has the table");
    let units = image[at..].as_chunks::<2>().0[..1 << 16].iter();
    let table: Vec<u32> = units.map(|&unit| u16::from_le_bytes(unit).into()).collect();
    assert_folds_as(&table, Fold::Ntfs, Some((5, 1)));
}

#[test]
fn letters_that_are_not_the_lower_case_of_their_upper_case_differ_on_windows() {
    let merges = |fold_by: Fold, a: &str, b: &str| fold(a, fold_by) == fold(b, fold_by);
    for (a, b) in
        [("ı", "I"), ("ı", "i"), ("ſ", "s"), ("µ", "μ"), ("ǅ", "Ǆ"), ("ϐ", "Β"), ("ẛ", "Ṡ"), ("ß", "ẞ")]
    {
        assert!(!merges(Fold::Ntfs, a, b) && !merges(Fold::Exfat, a, b), "{a} {b}");
    }
    for (a, b) in [("i", "I"), ("ά", "Ά"), ("ÿ", "Ÿ"), ("я", "Я"), ("ǆ", "Ǆ"), ("ⅷ", "Ⅷ"), ("ᾳ", "ᾼ")]
    {
        assert!(merges(Fold::Ntfs, a, b) && merges(Fold::Exfat, a, b), "{a} {b}");
    }
    assert!(merges(Fold::Exfat, "ς", "σ") && !merges(Fold::Ntfs, "ς", "σ"));
    // Cherokee, Georgian and Cyrillic letters that got another case after the table of exFAT was written.
    for (a, b) in [("\u{AB70}", "\u{13A0}"), ("\u{10D0}", "\u{1C90}"), ("\u{525}", "\u{524}")] {
        assert!(merges(Fold::Ntfs, a, b) && !merges(Fold::Exfat, a, b), "{a} {b}");
    }
}

#[test]
fn ascii_folds_only_ascii_letters() {
    for c in planes_with_letters() {
        let expected = if c.is_ascii_uppercase() { c.to_ascii_lowercase() } else { c };
        assert_eq!(fold(&c.to_string(), Fold::Ascii), expected.to_string());
    }
}

#[test]
fn folds_are_idempotent_over_all_scalar_values() {
    for case in Fold::ALL {
        for c in planes_with_letters() {
            let text = c.to_string();
            let once = fold(&text, case);
            assert_eq!(fold(&once, case), once, "{case:?} U+{:04X}", c as u32);
        }
    }
}

#[test]
fn keys_of_all_scalar_values_are_idempotent_and_blind_to_spelling_and_case() {
    let mut count = 0;
    for c in planes_with_letters() {
        // A following mark makes every reordering and composition visible.
        let text = String::from_iter([c, '\u{323}']);
        let plain = is_in_form(&text, Form::Nfc) && is_in_form(&text, Form::Nfkd);
        if plain && Fold::ALL.iter().all(|&case| fold(&text, case) == text) {
            continue;
        }
        count += 1;
        let spellings = |forms: &[Form]| -> std::collections::BTreeSet<String> {
            forms.iter().map(|&form| to_form(&text, form).into_owned()).collect()
        };
        let canonical = spellings(&[Form::Nfc, Form::Nfd]);
        let all = spellings(&Form::ALL);
        // Fold after ordering: U+0345 folds to a letter, which marks cannot move across.
        let ordered = to_form(&text, Form::Nfd);
        for case in Fold::ALL {
            let folded = fold(&ordered, case);
            for form in [Form::Nfc, Form::Nfkc] {
                let of = |name: &str| key(name, Some(form), Some(case)).into_owned();
                let once = of(&text);
                let about = || format!("{case:?} {form} U+{:04X}", c as u32);
                assert_eq!(of(&once), once, "{}: the key of a key", about());
                for spelled in if form.is_compatibility() { &all } else { &canonical } {
                    assert_eq!(of(spelled), once, "{}: as {spelled:?}", about());
                }
                // The tables of Windows keep a final sigma, which is the compatibility form of a letter that they fold. No target
                // normalizes and folds by them.
                if !form.is_compatibility() || !matches!(case, Fold::Ntfs | Fold::Exfat) {
                    assert_eq!(of(&folded), once, "{}: folded", about());
                }
            }
            for (one, other) in [(Form::Nfc, Form::Nfd), (Form::Nfkc, Form::Nfkd)] {
                assert_eq!(key(&text, Some(one), Some(case)), key(&text, Some(other), Some(case)));
            }
        }
    }
    assert!(count > 16_000, "{count} scalar values have something to normalize or fold");
}

#[test]
fn names_that_collide_have_equal_keys_and_others_do_not() {
    use Fold::{Ascii, Exfat, Full, Ntfs, Simple, Upcase};
    let (nfc, nfkc) = (Some(Form::Nfc), Some(Form::Nfkc));
    let cases: &[(&str, &str, Option<Form>, &[Fold])] = &[
        ("README", "readme", None, &[Ascii, Simple, Full, Upcase, Ntfs, Exfat]),
        ("\u{c9}t\u{c9}", "\u{e9}T\u{e9}", None, &[Simple, Full, Upcase, Ntfs, Exfat]),
        ("\u{df}", "SS", nfc, &[Full]),
        ("\u{df}", "\u{1e9e}", nfc, &[Simple, Full]),
        ("\u{fb01}", "FI", nfc, &[Full]),
        ("\u{fb01}", "FI", nfkc, &[Ascii, Simple, Full, Upcase, Ntfs, Exfat]),
        ("\u{212b}", "\u{c5}", nfc, &[Ascii, Simple, Full, Upcase, Ntfs, Exfat]),
        ("\u{212b}", "A\u{30a}", nfc, &[Ascii, Simple, Full, Upcase, Ntfs, Exfat]),
        ("\u{212b}", "\u{e5}", nfc, &[Ascii, Simple, Full, Upcase, Ntfs, Exfat]),
        ("\u{212b}", "\u{e5}", None, &[Simple, Full]),
        // Final and other sigma.
        ("\u{3c3}", "\u{3c2}", None, &[Simple, Full, Upcase, Exfat]),
        ("\u{39f}\u{3a3}", "\u{3bf}\u{3c2}", nfc, &[Simple, Full, Upcase, Exfat]),
        // Dotted and dotless i: no Turkic mapping, but the simple upper case of a dotless i is I.
        ("\u{131}", "i", nfc, &[Upcase]),
        ("\u{130}", "i\u{307}", nfc, &[Ascii, Simple, Full, Upcase, Ntfs, Exfat]),
        ("\u{212a}", "k", None, &[Simple, Full]),
        // U+0345 folds to a letter, so it must be ordered after the other marks before it is folded.
        ("\u{1fb4}", "\u{391}\u{345}\u{301}", nfc, &[Simple, Full, Upcase, Ntfs, Exfat]),
        ("\u{1fb4}", "\u{3ac}\u{3b9}", nfc, &[Simple, Full, Upcase]),
        // Compatibility-equivalent: the half-width mark becomes a combining one, which is ordered before U+0345.
        (
            "\u{1f80}\u{ff9e}",
            "\u{3b1}\u{3099}\u{313}\u{345}",
            nfkc,
            &[Ascii, Simple, Full, Upcase, Ntfs, Exfat],
        ),
        // A Deseret letter is two UTF-16 units.
        ("\u{10400}", "\u{10428}", None, &[Simple, Full]),
        ("a", "b", nfkc, &[]),
    ];
    for &(left, right, form, equal) in cases {
        for case in Fold::ALL {
            let same = key(left, form, Some(case)) == key(right, form, Some(case));
            assert_eq!(same, equal.contains(&case), "{left:?} and {right:?} under {case:?} and {form:?}");
        }
    }
}

#[test]
fn a_name_equal_to_its_key_is_borrowed() {
    for (name, case) in [
        ("plain.txt", Fold::Ascii),
        ("plain.txt", Fold::Full),
        ("\u{65e5}\u{672c}", Fold::Full),
        ("\u{65e5}\u{672c}", Fold::Simple),
        ("\u{65e5}\u{672c}", Fold::Upcase),
        ("PLAIN.TXT", Fold::Upcase),
    ] {
        for form in [None, Some(Form::Nfc), Some(Form::Nfkd)] {
            assert!(matches!(key(name, form, Some(case)), Cow::Borrowed(_)), "{name} {case:?} {form:?}");
        }
        assert!(matches!(key(name, Some(Form::Nfc), None), Cow::Borrowed(_)));
        assert!(matches!(key(name, None, None), Cow::Borrowed(_)));
    }
}

/// Every scalar value alone and behind a letter, by the keys of the folds and forms of mounts: those of names with one key are known
/// to have other spellings.
#[test]
fn names_that_share_their_key_are_known_to_have_other_spellings() {
    for case in [Fold::Ascii, Fold::Simple, Fold::Full, Fold::Ntfs] {
        for form in [None, Some(Form::Nfc), Some(Form::Nfkc)] {
            let mut same = BTreeMap::<String, Vec<String>>::new();
            for c in planes_with_letters() {
                for name in [c.to_string(), format!("s{c}"), format!("\u{3b1}{c}")] {
                    same.entry(key(&name, form, Some(case)).into_owned()).or_default().push(name);
                }
            }
            let several = same.into_values().filter(|names| names.len() > 1).flatten().collect::<Vec<_>>();
            assert!(several.len() > 52, "{form:?} {case:?}: {}", several.len());
            for name in several {
                assert!(has_other_spellings(&name, form, Some(case)), "{name:?} {form:?} {case:?}");
            }
        }
    }
}
