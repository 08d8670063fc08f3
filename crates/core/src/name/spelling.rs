//! Recognizes names that have only one spelling.
//!
//! Under a normalization form, all strings with the same normal form are spellings of one name. Most names have only one, and
//! their code points show it one by one.
//!
//! Proof: let two different strings have the same decomposition, and consider one of them. Either it contains a code point
//! that decomposes; or one that is reordered (canonical combining class other than 0); or it is that decomposition itself
//! and the other string contains a code point that decomposes into a part of it, so that it contains the *last* code point of
//! that decomposition. A name with none of the three has no second spelling. The search is for the last
//! code point and not the first, because the last is usually a combining mark, and the first a letter. Source: UAX #15; two
//! strings have the same NFC if they have the same NFD (D70), and the same for compatibility.

use std::sync::LazyLock;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;

use super::normalize::{Form, NFD, NFKD};

/// Code points from here on neither decompose nor are reordered nor occur in a decomposition.
const END: u32 = 0x3_0000;

static CANONICAL: LazyLock<SpellingSet> = LazyLock::new(|| for_decomposer(&NFD));
static COMPATIBILITY: LazyLock<SpellingSet> = LazyLock::new(|| for_decomposer(&NFKD));

/// Code points of which every name with another spelling contains one: one bit for each below [`END`].
pub(super) struct SpellingSet(Box<[u64]>);

/// Those of names with another spelling under a normalization form.
fn for_decomposer(decomposer: &DecomposingNormalizerBorrowed<'static>) -> SpellingSet {
    let class = CanonicalCombiningClassMapBorrowed::new();
    SpellingSet::new(|c, add| {
        let mut decomposition = decomposer.normalize_iter(std::iter::once(c));
        let (first, last) = (decomposition.next(), decomposition.last());
        if first != Some(c) || last.is_some() {
            add(c);
            last.or(first).into_iter().for_each(add);
        } else if class.get_u8(c) != 0 {
            add(c);
        }
    })
}

impl SpellingSet {
    /// The code points that `look_at` adds when it is called for each.
    pub(super) fn new(look_at: impl Fn(char, &mut dyn FnMut(char))) -> Self {
        let mut bits = vec![0; END as usize / 64].into_boxed_slice();
        let mut add = |c: char| bits[c as usize / 64] |= 1 << (c as usize % 64);
        for c in ('\0'..=char::MAX).take_while(|&c| u32::from(c) < END) {
            look_at(c, &mut add);
        }
        Self(bits)
    }

    pub(super) fn contains(&self, c: char) -> bool {
        self.0.get(c as usize / 64).is_some_and(|word| word >> (c as usize % 64) & 1 != 0)
    }
}

/// Whether another string may have the same `form` as `name`. `false` is certain; `true` is also returned for some names whose
/// marks compose with nothing, and for nearly all names under compatibility forms, where each ASCII letter has a wide twin.
///
/// ```
/// use namegate_core::name::{normalize::Form, spelling::has_others};
/// assert!(has_others("caf\u{e9}", Form::Nfc));
/// assert!(has_others("cafe\u{301}", Form::Nfc));
/// assert!(!has_others("cafe", Form::Nfc));
/// assert!(!has_others("\u{65e5}\u{672c}", Form::Nfc));
/// // U+212A KELVIN SIGN is canonically equivalent to it.
/// assert!(has_others("K", Form::Nfc));
/// assert!(has_others("cafe", Form::Nfkc));
/// ```
pub fn has_others(name: &str, form: Form) -> bool {
    let set = if form.is_compatibility() { &COMPATIBILITY } else { &CANONICAL };
    name.chars().any(|c| set.contains(c))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::normalize::to_form;
    use super::*;

    #[test]
    fn nothing_behind_the_table_could_stand_in_it() {
        let class = CanonicalCombiningClassMapBorrowed::new();
        for c in '\0'..=char::MAX {
            let decomposed: Vec<char> = NFKD.normalize_iter(std::iter::once(c)).collect();
            assert!(decomposed.iter().all(|&part| part == c || u32::from(part) < END), "{c:?}");
            if u32::from(c) >= END {
                assert_eq!((decomposed, class.get_u8(c)), (vec![c], 0), "{c:?}");
            }
        }
    }

    #[test]
    fn the_ascii_characters_with_a_canonical_twin_are_three() {
        let with = |form| ('\0'..'\u{80}').filter(|&c| has_others(&c.to_string(), form)).collect::<String>();
        for form in [Form::Nfc, Form::Nfd] {
            assert_eq!(with(form), ";K`");
        }
        let printable: String = (' '..'\u{7F}').collect();
        for form in [Form::Nfkc, Form::Nfkd] {
            assert_eq!(with(form), printable);
        }
    }

    /// Strings of every scalar value that is another in some form, alone and behind a letter, and all strings of up to
    /// three of some that have to do with each other: whichever are equal in a form are known to have other spellings.
    #[test]
    fn names_that_share_their_form_are_known_to_have_other_spellings() {
        let mut names = BTreeSet::new();
        let alone = ('\0'..=char::MAX).filter(|c| to_form(&c.to_string(), Form::Nfkd) != c.to_string());
        for c in alone {
            for form in Form::ALL {
                for name in [c.to_string(), format!("a{c}")] {
                    names.insert(to_form(&name, form).into_owned());
                    names.insert(name);
                }
            }
        }
        let related = [
            'e', 'é', 'ê', 'ế', '\u{301}', '\u{302}', '\u{323}', 'ẹ', 'K', '\u{212A}', '\u{1100}',
            '\u{1161}', '\u{11A8}', '가', '각', 'ﬁ', 'f', 'i', '\u{F43}', '\u{F42}', '\u{FB7}', '日',
        ];
        let words = |shorter: &[String]| {
            let longer = |word: &String| related.iter().map(|c| format!("{word}{c}")).collect::<Vec<_>>();
            shorter.iter().flat_map(longer).collect::<Vec<_>>()
        };
        let one = words(&[String::new()]);
        let two = words(&one);
        names.extend(words(&two));
        names.extend(one.into_iter().chain(two));
        for form in Form::ALL {
            let mut same = BTreeMap::<_, Vec<&str>>::new();
            for name in &names {
                same.entry(to_form(name, form)).or_default().push(name);
            }
            let several = same.values().filter(|names| names.len() > 1);
            let mut count = 0;
            for name in several.flatten() {
                assert!(has_others(name, form), "{name:?} in {form}");
                count += 1;
            }
            assert!(count > 10_000, "{form}: {count}");
        }
    }

    #[test]
    fn common_names_without_another_spelling_are_known() {
        for name in ["", "readme.txt", "日本", "отчет.txt", "λογος", "ß", "עברית", "😀", "ひらかな", "a\u{1}"]
        {
            for form in [Form::Nfc, Form::Nfd] {
                assert!(!has_others(name, form), "{name:?}");
            }
        }
    }
}
