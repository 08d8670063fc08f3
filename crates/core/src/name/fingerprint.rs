//! One number for all spellings of a name that a target might treat as equal.
//!
//! Names that are canonically equivalent, or equal without regard to case under any [`Fold`], have the same fingerprint,
//! so the names of a directory with half a million entries can be compared as numbers. The reverse is not true: marks
//! are ignored (`e` and `é` are equal), and different names may share a number by chance. Names with equal fingerprints must be
//! compared.
//!
//! A code point contributes the starters of its case-folded canonical decomposition, if there is one or none; then
//! the order of marks does not matter, and a name is processed code point by code point. A name with any other code point is
//! folded and decomposed as a whole. Letters that only upper case mappings merge (`ı` and `i`) are merged here too.

use std::sync::OnceLock;

use icu_properties::CodePointMapData;
use icu_properties::props::CanonicalCombiningClass;

use super::casefold::{self, Fold};
use super::normalize::Form;

/// The fingerprint of `name`.
///
/// ```
/// use namegate_core::name::fingerprint::fingerprint;
/// assert_eq!(fingerprint("Straße"), fingerprint("STRASSE"));
/// assert_eq!(fingerprint("caf\u{E9}"), fingerprint("CAFE\u{301}"));
/// assert_ne!(fingerprint("Straße"), fingerprint("Strafe"));
/// ```
pub fn fingerprint(name: &str) -> u64 {
    if name.is_ascii() {
        return of_ascii(name.as_bytes());
    }
    let mut mixed = Mixed::default();
    for c in name.chars() {
        match counts_for(c) {
            NOTHING => {}
            SEVERAL => return of_folded(name),
            value => mixed.push(value),
        }
    }
    mixed.finish()
}

fn of_folded(name: &str) -> u64 {
    let mut mixed = Mixed::default();
    let folded = casefold::key(name, Some(Form::Nfd), Some(Fold::Full));
    let mut rest = folded.chars().peekable();
    while let Some(c) = rest.next() {
        // Hangul syllables contribute themselves, so decomposed ones are composed again.
        let vowel = rest.next_if(|&v| LEADS.contains(&c) && VOWELS.contains(&v));
        let value = match vowel {
            Some(vowel) => {
                let tail = rest.next_if(|t| TAILS.contains(t)).map_or(0, |t| t as u32 - 0x11A7);
                0xAC00 + ((c as u32 - 0x1100) * 21 + (vowel as u32 - 0x1161)) * 28 + tail
            }
            None => counts_for(c),
        };
        match value {
            NOTHING => {}
            // Marks are left out here too: one that folds to a letter could be before or after them.
            SEVERAL if is_starter(c) => mixed.push(c as u32),
            SEVERAL => {}
            value => mixed.push(value),
        }
    }
    mixed.finish()
}

/// Hangul by the arithmetic of the standard, section 3.12.
const LEADS: std::ops::RangeInclusive<char> = '\u{1100}'..='\u{1112}';
const VOWELS: std::ops::RangeInclusive<char> = '\u{1161}'..='\u{1175}';
const TAILS: std::ops::RangeInclusive<char> = '\u{11A8}'..='\u{11C2}';

/// Contributes nothing. (A noncharacter: NUL contributes, and U+FFFE itself does not.)
const NOTHING: u32 = 0xFFFE;
/// Contributes more than one code point, or one that depends on its neighbours.
const SEVERAL: u32 = 0xFFFF;

/// The contribution of `c`: a code point, [`NOTHING`] or [`SEVERAL`].
fn counts_for(c: char) -> u32 {
    /// By the upper byte of the code point; each is created on first use.
    static PAGES: [OnceLock<Box<[u16; 256]>>; 256] = [const { OnceLock::new() }; 256];
    let point = c as u32;
    match point {
        0..=0x7F => u32::from(c.to_ascii_lowercase()),
        0x80..=0xFFFF => {
            let page = PAGES[(point >> 8) as usize].get_or_init(|| {
                let mut page = Box::new([0; 256]);
                for (low, value) in (0..).zip(page.iter_mut()) {
                    *value = char::from_u32(point & 0xFF00 | low).map_or(SEVERAL, found_for) as u16;
                }
                page
            });
            u32::from(page[(point & 0xFF) as usize])
        }
        // Ideographs and emoji have neither case nor marks. Other code points in these planes are rare.
        0x1_F000..=0x1_FAFF | 0x2_0000..=0x2_EBEF => point,
        _ => SEVERAL,
    }
}

fn is_starter(c: char) -> bool {
    CodePointMapData::<CanonicalCombiningClass>::new().get(c) == CanonicalCombiningClass::NotReordered
}

fn found_for(c: char) -> u32 {
    let starter = |c: char| -> Result<Option<char>, ()> {
        match c {
            '\u{AC00}'..='\u{D7A3}' => return Ok(Some(c)),
            // Conjoining jamo: their contribution depends on their neighbours.
            '\u{1100}'..='\u{11FF}' => return Err(()),
            _ => {}
        }
        let text = c.to_string();
        let folded = casefold::key(&text, Some(Form::Nfd), Some(Fold::Full));
        let mut starters = folded.chars().filter(|&c| is_starter(c));
        let first = starters.next();
        if starters.next().is_some() { Err(()) } else { Ok(first) }
    };
    let upper = |c: char| casefold::fold(c.to_string().as_str(), Fold::Upcase).chars().next().unwrap_or(c);
    match starter(c).map(|first| first.map(upper).map_or(Ok(None), starter)) {
        Ok(Ok(Some(c))) if (c as u32) < SEVERAL => c as u32,
        Ok(Ok(None)) => NOTHING,
        _ => SEVERAL,
    }
}

/// Mixes bytes in lower case into one number, eight at a time.
#[derive(Default)]
struct Mixed {
    state: u64,
    word: u64,
    len: u32,
    /// Non-ASCII code points, hashed separately: for few names their order relative to ASCII matters.
    beyond: u64,
}

impl Mixed {
    fn push(&mut self, value: u32) {
        if value < 0x80 {
            self.push_byte(value as u8);
        } else {
            let value = u64::from(value) | u64::from(self.len) << 32;
            self.beyond = (self.beyond.rotate_left(7) ^ value).wrapping_mul(ODD);
        }
    }

    fn push_byte(&mut self, byte: u8) {
        self.word |= u64::from(byte) << (self.len % 8 * 8);
        self.len += 1;
        if self.len.is_multiple_of(8) {
            self.state = mix(self.state, self.word);
            self.word = 0;
        }
    }

    fn finish(self) -> u64 {
        mix(mix(self.state, self.word), u64::from(self.len)) ^ self.beyond
    }
}

fn of_ascii(name: &[u8]) -> u64 {
    let (words, rest) = name.as_chunks::<8>();
    let state = words.iter().fold(0, |state, &word| mix(state, lower_case(u64::from_le_bytes(word))));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(state, lower_case(u64::from_le_bytes(last))), name.len() as u64)
}

/// Eight ASCII bytes in lower case.
fn lower_case(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // The highest bit of each byte is set if it is at least `A`; if it is greater than `Z`.
    let from_a = word + EACH * (0x80 - u64::from(b'A'));
    let behind_z = word + EACH * (0x7F - u64::from(b'Z'));
    word | (from_a & !behind_z & (EACH * 0x80)) >> 2
}

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Any good mixing will do: equal numbers by chance only cost an exact comparison.
fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word ^ 0x243F_6A88_85A3_08D3) * u128::from(ODD);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::normalize::to_form;

    fn spellings(name: &str) -> Vec<String> {
        let mut all = vec![to_form(name, Form::Nfc).into_owned(), to_form(name, Form::Nfd).into_owned()];
        all.extend(Fold::ALL.map(|fold| casefold::fold(name, fold).into_owned()));
        all.extend(Fold::ALL.map(|fold| casefold::key(name, Some(Form::Nfc), Some(fold)).into_owned()));
        all.extend([name.to_lowercase(), name.to_uppercase()]);
        all
    }

    #[test]
    fn every_spelling_of_every_code_point_has_its_fingerprint() {
        // Above these planes no code point has a case or a decomposition.
        for c in '\0'..='\u{2FFFF}' {
            let name = c.to_string();
            for spelling in spellings(&name) {
                // Full lower case of a dotted capital I keeps a dot that no target has.
                let same = fingerprint(&name) == fingerprint(&spelling);
                assert!(same, "{name} U+{:04X}, {spelling:?}", c as u32);
            }
        }
    }

    #[test]
    fn ascii_of_any_length_is_lowercased_and_nothing_else_is_lost() {
        let mut seen = std::collections::HashSet::new();
        for len in 0..40 {
            let name: String = (0..len).map(|at| char::from(b'@' + at)).collect();
            assert_eq!(fingerprint(&name), fingerprint(&name.to_ascii_uppercase()));
            assert!(seen.insert(fingerprint(&name)), "{name}");
            let mixed = name.bytes().fold(Mixed::default(), |mut mixed, b| {
                mixed.push(counts_for(char::from(b)));
                mixed
            });
            assert_eq!(mixed.finish(), fingerprint(&name), "both ways give the same");
        }
        for byte in 0..0x80_u64 {
            let lower = u64::from((byte as u8).to_ascii_lowercase());
            assert_eq!(lower_case(byte << 16 | byte), lower << 16 | lower, "{byte:02X}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_spelling_of_a_name_has_its_fingerprint(
            parts in prop::collection::vec(
                prop_oneof![
                    any::<char>(),
                    prop::sample::select("\0aAiI1. ßẞſKıİéÉᾳᾼ\u{301}\u{323}\u{345}\u{344}각각\u{1100}\u{1161}\u{11A8}ো\u{9C7}\u{9BE}ﬁ가Ω🎉𐐀\u{1D165}\u{1E944}".chars().collect::<Vec<_>>()),
                ],
                0..12,
            )
        ) {
            let name: String = parts.into_iter().collect();
            for spelling in spellings(&name) {
                prop_assert_eq!(fingerprint(&name), fingerprint(&spelling), "{:?} {:?}", name, spelling);
            }
        }
    }
}
