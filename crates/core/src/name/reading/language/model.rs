//! The numbers of the languages, arranged so that all languages of a script are compared at once.

use std::collections::HashMap;
use std::sync::LazyLock;

use icu_properties::CodePointMapData;
use icu_properties::props::Script;

use super::super::encodings::each_of_two_levels;
use crate::name::scalar::{self, Class};

/// Costs in the model are in these parts.
pub(super) const PARTS: f32 = 16.0;

/// A letter that the language does not have, or a letter of another script.
pub(super) const FOREIGN: u8 = 13 * PARTS as u8;
/// A letter that many languages with Latin letters have in words from others.
const BORROWED: u8 = 10 * PARTS as u8;
const BORROWED_LETTERS: [char; 7] = ['à', 'â', 'é', 'è', 'ê', 'ç', 'ñ'];

/// The scripts whose languages have alphabets, in the order of the model.
const ALPHABETS: [Script; 6] =
    [Script::Latin, Script::Cyrillic, Script::Greek, Script::Hebrew, Script::Arabic, Script::Thai];

/// Number of a language. Those of one script follow each other.
pub(in super::super) type Language = u8;

/// So many languages are compared at once; those of each script begin at a multiple of it.
pub(in super::super) const LANES: usize = 4;
/// The most languages that a script has, with those that fill its last lanes.
pub(in super::super) const MOST_LANGUAGES: usize = 32;

/// What a character is to a language.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A letter, or a mark on one, of the alphabet with this number.
    Letter(u8),
    /// Of a language with ideographs.
    Ideographic,
    /// A letter of another script.
    Other,
    /// No letter.
    None,
}

pub(super) const LATIN: Kind = Kind::Letter(0);

fn kind(c: char) -> Kind {
    if c.is_ascii() {
        return if c.is_ascii_alphabetic() { LATIN } else { Kind::None };
    }
    match c {
        // Full-width forms.
        '\u{FF01}'..='\u{FF65}' | 'ª' | 'º' => return Kind::None,
        '\u{FF66}'..='\u{FF9F}' | 'ー' => return Kind::Ideographic,
        _ => {}
    }
    match CodePointMapData::<Script>::new().get(c) {
        Script::Han | Script::Hiragana | Script::Katakana | Script::Hangul => Kind::Ideographic,
        Script::Common | Script::Unknown => Kind::None,
        Script::Inherited => LATIN,
        script => match (0..).zip(ALPHABETS).find(|(_, alphabet)| *alphabet == script) {
            Some((number, _)) if !c.is_numeric() => Kind::Letter(number),
            Some(_) => Kind::None,
            None => Kind::Other,
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Case {
    Lower,
    Upper,
    None,
}

/// A character of a text that is to be compared with languages.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct TextCharacter {
    pub(super) character: char,
    pub(super) kind: Kind,
    pub(super) case: Case,
    /// Its number among the letters of its alphabet, from 1 on; 0 if no language of the model has it.
    letter: u8,
    /// What it costs as no letter, and what inside a word.
    pub(super) symbol: [u8; 2],
}

impl TextCharacter {
    pub(in super::super) fn new(character: char) -> Self {
        let known = MODEL.characters.get(character as usize).copied();
        known.unwrap_or_else(|| Self::with_letter(character, None))
    }

    /// `known` is the alphabet of the letter and its number there, if it is one of the model.
    fn with_letter(character: char, known: Option<(u8, u8)>) -> Self {
        let case = match () {
            () if character.is_lowercase() => Case::Lower,
            () if character.is_uppercase() => Case::Upper,
            () => Case::None,
        };
        // Arabic marks have no script in Unicode, but those that the model has are Arabic there.
        let kind = known.map_or_else(|| kind(character), |(script, _)| Kind::Letter(script));
        let symbol = symbol(character, kind);
        Self { character, kind, case, letter: known.map_or(0, |(_, letter)| letter), symbol }
    }

    pub(super) fn is_ascii(&self) -> bool {
        self.character.is_ascii()
    }

    /// Its number in the rows of an alphabet.
    pub(super) fn letter(&self, alphabet: Kind) -> u8 {
        if self.kind == alphabet { self.letter } else { 0 }
    }
}

/// The cost of a character beyond ASCII that is no letter, alone and inside a word.
fn symbol(c: char, kind: Kind) -> [u8; 2] {
    const FOREIGN_SCRIPT: u8 = 13;
    match kind {
        Kind::Other => return [FOREIGN_SCRIPT; 2],
        Kind::None if !c.is_ascii() => {}
        _ => return [0; 2],
    }
    match c {
        '’' | '·' => [8, 8],
        // In several encodings of East Asia, two bytes of which one is a letter.
        '“' | '”' | '‘' | '„' | '‚' | '«' | '»' | '…' | '№' => [8, 16],
        '\u{3000}'..='\u{303F}' | '\u{FF01}'..='\u{FF65}' => [8, 14],
        // Nobody writes it: ISO 8859-15 has the euro sign in its place.
        '¤' => [16, 16],
        '–' | '—' | '•' | '€' | '°' | '™' | '©' | '®' | '´' | '¿' | '¡' | '§' | 'ª' | 'º' => {
            [8, 11]
        }
        '\u{A0}' | '\u{AD}' => [11, 11],
        // Lines and blocks.
        '\u{2500}'..='\u{259F}' => [14, 14],
        c if scalar::class(c) == Some(Class::Unassigned) => [20, 20],
        _ => [12, 14],
    }
}

/// The languages of one alphabet.
pub(super) struct Alphabet {
    pub(super) first: Language,
    pub(super) languages: usize,
    /// The languages, with those that fill the last lanes.
    width: usize,
    /// The number of letters, and one: number 0 is the start or the end of a word.
    letters: usize,
    /// By letter, by the letter after it: the cost of the latter in each language.
    rows: Vec<u8>,
}

impl Alphabet {
    /// Adds the costs of a letter after another one in each language.
    pub(super) fn add_step(&self, before: u8, here: u8, sums: &mut [i16; MOST_LANGUAGES]) {
        let at = (usize::from(before) * self.letters + usize::from(here)) * self.width;
        if self.width == MOST_LANGUAGES {
            let row: &[u8; MOST_LANGUAGES] = self.rows[at..].first_chunk().expect("a row");
            (0..MOST_LANGUAGES).for_each(|lane| sums[lane] += i16::from(row[lane]));
        } else {
            let row = &self.rows[at..at + self.width];
            for (sums, row) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(row.as_chunks::<LANES>().0) {
                (0..LANES).for_each(|lane| sums[lane] += i16::from(row[lane]));
            }
        }
    }
}

/// How the model has the letters of a language.
struct Letters {
    script: u8,
    /// By the number of the letter among those of the script: its number in `costs`; 0 if the language lacks it.
    numbers: Vec<u8>,
    /// The cost of a letter after another one; number 0 is the start or the end of a word.
    costs: &'static [u8],
    side: usize,
}

impl Letters {
    /// Sets the costs of this language, which is in `lane`.
    fn fill(&self, borrowed: &[u8], alphabet: &mut Alphabet, lane: usize) {
        let count = alphabet.letters;
        let number = |letter: usize| usize::from(self.numbers.get(letter).copied().unwrap_or(0));
        let mut unknown = vec![FOREIGN; count];
        if self.script == 0 {
            borrowed.iter().for_each(|&letter| unknown[usize::from(letter)] = BORROWED);
        }
        for before in 0..count {
            // After a foreign letter any letter is as good as at the start of a word.
            let costs = &self.costs[number(before) * self.side..][..self.side];
            let rows = &mut alphabet.rows[before * count * alphabet.width..];
            for (here, row) in rows.chunks_mut(alphabet.width).take(count).enumerate() {
                row[lane] = match number(here) {
                    0 if here > 0 => unknown[here],
                    _ if here == 0 && before == 0 => 0,
                    known => costs[known],
                };
            }
        }
    }
}

/// The number of each character below this code point is in a table: all alphabets of the model are there.
const TABLE: usize = 0x2000;
/// The code points of the Basic Multilingual Plane: all but rare ideographs are there.
const PLANE: usize = 0x1_0000;

pub(super) struct Model {
    /// The characters of the table.
    characters: Vec<TextCharacter>,
    pub(super) alphabets: Vec<Alphabet>,
    pub(super) first_with_ideographs: Language,
    /// By code point: the cost in each language with ideographs.
    ideographs: Vec<[u8; LANES]>,
}

pub(super) static MODEL: LazyLock<Model> = LazyLock::new(|| Model::read(include_bytes!("../languages.bin")));

impl Model {
    fn read(mut bytes: &'static [u8]) -> Self {
        let mut next = |len: usize| {
            let (head, rest) = bytes.split_at(len);
            bytes = rest;
            head
        };
        let number = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
        let letter = |bytes: &[u8]| char::from_u32(number(bytes).into()).expect("a letter");
        let (mut known, mut counts) = (HashMap::<char, (u8, u8)>::new(), [1_u8; ALPHABETS.len()]);
        let mut languages = Vec::new();
        for _ in 0..number(next(2)) {
            let &[script, count] = next(2) else { unreachable!("two bytes") };
            let side = usize::from(count) + 1;
            let mut numbers = Vec::new();
            for (at, code) in (1..).zip(next(2 * usize::from(count)).chunks(2)) {
                let (_, letter) = *known.entry(letter(code)).or_insert_with(|| {
                    counts[usize::from(script)] += 1;
                    (script, counts[usize::from(script)] - 1)
                });
                let letter = usize::from(letter);
                numbers.resize(numbers.len().max(letter + 1), 0);
                numbers[letter] = at;
            }
            languages.push(Letters { script, numbers, costs: next(side * side), side });
        }
        let borrowed = BORROWED_LETTERS.iter().filter_map(|c| known.get(c)).map(|&(_, letter)| letter);
        let borrowed: Vec<u8> = borrowed.collect();
        let (mut alphabets, mut first) = (Vec::new(), 0);
        for (script, &letters) in (0..).zip(&counts) {
            let of_script = || languages.iter().filter(|language| language.script == script);
            let (languages, letters) = (of_script().count(), usize::from(letters));
            let width = languages.next_multiple_of(LANES);
            let rows = vec![0; letters * letters * width];
            let mut alphabet = Alphabet { first: first as Language, languages, width, letters, rows };
            of_script()
                .enumerate()
                .for_each(|(lane, language)| language.fill(&borrowed, &mut alphabet, lane));
            alphabets.push(alphabet);
            first += width;
        }
        let mut ideographs = ideographs();
        let mut set = |c: char, language: usize, cost| ideographs[c as usize][language] = cost;
        for language in 0..usize::from(number(next(2))) {
            let count = usize::from(number(next(2)));
            for entry in next(3 * count).chunks(3) {
                set(letter(entry), language, entry[2]);
            }
        }
        let character = |c: char| {
            let mut lower = c.to_lowercase();
            let letter = match (lower.next(), lower.next()) {
                (Some(lower), None) => known.get(&lower).copied(),
                _ => None,
            };
            TextCharacter::with_letter(c, letter)
        };
        let below = char::from_u32(TABLE as u32).expect("a code point");
        let characters = ('\0'..below).map(character).collect();
        Self { characters, alphabets, first_with_ideographs: first as Language, ideographs }
    }

    /// The cost of a character in each language with ideographs.
    pub(super) fn ideograph(&self, c: char) -> [u8; LANES] {
        self.ideographs.get(c as usize).copied().unwrap_or(OF_HAN)
    }
}

/// The order of the languages with ideographs.
const JAPANESE: usize = 0;
const SIMPLIFIED: usize = 1;
const TRADITIONAL: usize = 2;
const KOREAN: usize = 3;

const UNHEARD_OF: u8 = 15 * PARTS as u8;
/// The costs of a Han character that no standard has.
const OF_HAN: [u8; LANES] = {
    let mut costs = [UNHEARD_OF; LANES];
    costs[KOREAN] = FOREIGN;
    costs
};

/// By code point: what a character costs in each language with ideographs that is not one of the language's frequent ones.
fn ideographs() -> Vec<[u8; LANES]> {
    const COMMON: u8 = (9.5 * PARTS) as u8;
    const RARE: u8 = (12.5 * PARTS) as u8;
    const KANA: u8 = 8 * PARTS as u8;
    const HALF_WIDTH_KANA: u8 = 9 * PARTS as u8;
    let is_kana = |c: u32| matches!(c, 0x3041..=0x30FF | 0x31F0..=0x31FF | 0x32D0..=0x32FE | 0x3300..=0x3357);
    let is_half_width_kana = |c: u32| matches!(c, 0xFF66..=0xFF9F);
    let is_hangul = |c: u32| {
        matches!(c, 0x1100..=0x11FF | 0x302E..=0x302F | 0x3131..=0x318E | 0x3200..=0x321E | 0x3260..=0x327E
        | 0xA960..=0xA97C | 0xAC00..=0xD7FB | 0xFFA0..=0xFFDC)
    };
    let of = |c: usize| {
        let mut costs = OF_HAN;
        match c as u32 {
            c if is_half_width_kana(c) => (costs[JAPANESE], costs[KOREAN]) = (HALF_WIDTH_KANA, UNHEARD_OF),
            c if is_kana(c) => (costs[JAPANESE], costs[KOREAN]) = (KANA, UNHEARD_OF),
            c if is_hangul(c) => costs[KOREAN] = UNHEARD_OF,
            _ => {}
        }
        costs
    };
    let mut costs: Vec<_> = (0..PLANE).map(of).collect();
    let is_han = |c: u32| !is_kana(c) && !is_half_width_kana(c) && !is_hangul(c);
    let standards = [
        (JAPANESE, "euc-jp", [0xCF, 0xF4]),
        (SIMPLIFIED, "gbk", [0xD7, 0xF7]),
        (TRADITIONAL, "big5", [0xC8, 0xF9]),
        (KOREAN, "euc-kr", [0xC8, 0xC8]),
    ];
    for (language, encoding, levels) in standards {
        each_of_two_levels(encoding, levels, |c, level| {
            let fits = if language == KOREAN { is_hangul(c.into()) } else { is_han(c.into()) };
            if fits && let Some(of_character) = costs.get_mut(c as usize) {
                of_character[language] = if level == 1 { COMMON } else { RARE };
            }
        });
    }
    costs
}
