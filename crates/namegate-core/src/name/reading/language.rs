//! How well a text fits each of some forty languages.
//!
//! The fit of an alphabet is the cost of each letter after the one before it, that of ideographs and syllables how rare each is; both
//! are negative logarithms of probabilities, so costs of the same bytes in different encodings compare. `languages.bin` has the
//! numbers; `scripts/build-encoding-model` makes it from the names of countries, languages, currencies and times in the Unicode CLDR.

use std::collections::HashMap;
use std::sync::LazyLock;

use icu_properties::CodePointMapData;
use icu_properties::props::Script;

use super::encodings::level;
use crate::name::scalar::{self, Class};

/// Number of a language.
pub(super) type Language = u8;

/// A letter that the language does not have, or a letter of another script.
const FOREIGN: f32 = 13.0;
/// An ASCII letter in a language with another script.
const ASCII: f32 = 3.3;
/// A word in which ASCII letters touch those of another alphabet.
const MIXED: f32 = 10.0;

/// So many characters are enough to know a language.
const LONGEST: usize = 128;

/// The scripts whose languages have alphabets, in the order of the model.
const ALPHABETS: [Script; 6] =
    [Script::Latin, Script::Cyrillic, Script::Greek, Script::Hebrew, Script::Arabic, Script::Thai];

/// What a character is to a language.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A letter, or a mark on one, of the script with this number in [`ALPHABETS`].
    Letter(u8),
    /// Of a language with ideographs.
    Ideographic(Ideographic),
    /// A letter of another script.
    Other,
    /// No letter.
    None,
}

#[derive(Clone, Copy, PartialEq)]
enum Ideographic {
    Han,
    Kana,
    HalfKana,
    Hangul,
}

const LATIN: Kind = Kind::Letter(0);

fn kind(c: char) -> Kind {
    if c.is_ascii() {
        return if c.is_ascii_alphabetic() { LATIN } else { Kind::None };
    }
    match c {
        // Full-width forms.
        '\u{FF01}'..='\u{FF65}' => return Kind::None,
        '\u{FF66}'..='\u{FF9F}' => return Kind::Ideographic(Ideographic::HalfKana),
        'ー' => return Kind::Ideographic(Ideographic::Kana),
        'ª' | 'º' => return Kind::None,
        _ => {}
    }
    match CodePointMapData::<Script>::new().get(c) {
        Script::Han => Kind::Ideographic(Ideographic::Han),
        Script::Hiragana | Script::Katakana => Kind::Ideographic(Ideographic::Kana),
        Script::Hangul => Kind::Ideographic(Ideographic::Hangul),
        Script::Common | Script::Unknown => Kind::None,
        Script::Inherited => LATIN,
        script => match (0..).zip(ALPHABETS).find(|(_, alphabet)| *alphabet == script) {
            Some((number, _)) if !c.is_numeric() => Kind::Letter(number),
            Some(_) => Kind::None,
            None => Kind::Other,
        },
    }
}

struct Alphabet {
    /// Number of the script in [`ALPHABETS`].
    script: u8,
    /// By the number of the letter among those of the script: its number in `costs`; 0 if the language lacks it.
    numbers: Vec<u8>,
    /// The cost of a letter after another one, in sixteenths; number 0 is the start or the end of a word.
    costs: &'static [u8],
    side: usize,
}

impl Alphabet {
    fn cost(&self, before: Option<u16>, here: Option<u16>) -> f32 {
        let number = |letter: Option<u16>| match letter {
            Some(letter) => match self.numbers.get(usize::from(letter)) {
                None | Some(0) => None,
                Some(&number) => Some(usize::from(number)),
            },
            None => Some(0),
        };
        match (number(before), number(here)) {
            (_, None) => FOREIGN,
            // After a foreign letter any letter is as good as at the start of a word.
            (before, Some(here)) => f32::from(self.costs[before.unwrap_or(0) * self.side + here]) / 16.0,
        }
    }
}

/// The number of each character below this code point is in a table: all alphabets of the model are there.
const TABLE: usize = 0x2000;

struct Model {
    /// What each character of the table is, and the number of a letter among those of its script.
    characters: Vec<(Kind, Option<u16>)>,
    alphabets: Vec<Alphabet>,
    /// By language: the costs of frequent characters.
    ideographic: Vec<HashMap<char, f32>>,
}

static MODEL: LazyLock<Model> = LazyLock::new(|| Model::read(include_bytes!("languages.bin")));

/// The order of the languages with ideographs.
const JAPANESE: usize = 0;
const SIMPLIFIED: usize = 1;
const TRADITIONAL: usize = 2;
const KOREAN: usize = 3;

impl Model {
    fn read(mut bytes: &'static [u8]) -> Self {
        let mut next = |len: usize| {
            let (head, rest) = bytes.split_at(len);
            bytes = rest;
            head
        };
        let number = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
        let letter = |bytes: &[u8]| char::from_u32(number(bytes).into()).expect("a letter");
        let (mut letters, mut counts) = (HashMap::<char, u16>::new(), [0; ALPHABETS.len()]);
        let mut alphabets = Vec::new();
        for _ in 0..number(next(2)) {
            let &[script, count] = next(2) else { unreachable!("two bytes") };
            let side = usize::from(count) + 1;
            let mut numbers = Vec::new();
            for (at, code) in (1..).zip(next(2 * usize::from(count)).chunks(2)) {
                let known = *letters.entry(letter(code)).or_insert_with(|| {
                    counts[usize::from(script)] += 1;
                    counts[usize::from(script)] - 1
                });
                let known = usize::from(known);
                numbers.resize(numbers.len().max(known + 1), 0);
                numbers[known] = at;
            }
            alphabets.push(Alphabet { script, numbers, costs: next(side * side), side });
        }
        let languages = number(next(2));
        let ideographic = (0..languages).map(|_| {
            let count = usize::from(number(next(2)));
            let costs = next(3 * count).chunks(3);
            costs.map(|entry| (letter(entry), f32::from(entry[2]) / 16.0)).collect()
        });
        let ideographic = ideographic.collect();
        let character = |c: char| {
            let mut lower = c.to_lowercase();
            let letter = match (lower.next(), lower.next()) {
                (Some(lower), None) => letters.get(&lower).copied(),
                _ => None,
            };
            (kind(c), letter)
        };
        let below = char::from_u32(TABLE as u32).expect("a code point");
        let characters = ('\0'..below).map(character).collect();
        Self { characters, alphabets, ideographic }
    }

    fn unit(&self, character: char) -> Unit {
        let known = self.characters.get(character as usize).copied();
        let (kind, letter) = known.unwrap_or_else(|| (kind(character), None));
        Unit { kind, character, letter }
    }

    /// The cost of a character in a language with ideographs.
    fn ideograph(&self, language: usize, c: char, kind: Ideographic) -> f32 {
        const COMMON: f32 = 9.5;
        const RARE: f32 = 12.5;
        const UNHEARD_OF: f32 = 15.0;
        if let Some(&cost) = self.ideographic[language].get(&c) {
            return cost;
        }
        let by_level = |standard| match level(c, standard) {
            Some(1) => COMMON,
            Some(_) => RARE,
            None => UNHEARD_OF,
        };
        match (language, kind) {
            (JAPANESE, Ideographic::Kana) => 8.0,
            (JAPANESE, Ideographic::HalfKana) => 9.0,
            (JAPANESE, Ideographic::Han) => by_level(("euc-jp", 0xCF, 0xF4)),
            (SIMPLIFIED, Ideographic::Han) => by_level(("gbk", 0xD7, 0xF7)),
            (TRADITIONAL, Ideographic::Han) => by_level(("big5", 0xC8, 0xF9)),
            (KOREAN, Ideographic::Hangul) => by_level(("euc-kr", 0xC8, 0xC8)),
            (KOREAN, Ideographic::Han) => 13.0,
            _ => UNHEARD_OF,
        }
    }
}

/// A character of a text that is to be compared with languages.
struct Unit {
    kind: Kind,
    character: char,
    /// Its number among the letters of its script.
    letter: Option<u16>,
}

/// A text, prepared for the comparison.
pub(super) struct Prepared {
    units: Vec<Unit>,
    /// What no language changes: symbols, and letters whose case is odd.
    common: f32,
}

impl Prepared {
    /// Prepares `text`, of which a short ASCII extension says nothing.
    pub(super) fn new(text: &str) -> Self {
        let text = without_extension(text);
        let units: Vec<Unit> = text.chars().take(LONGEST).map(|c| MODEL.unit(c)).collect();
        let symbols: f32 = (0..units.len()).map(|at| symbol(&units, at)).sum();
        let words = units.split(|unit| unit.kind == Kind::None);
        let common = symbols + words.map(odd_case).sum::<f32>();
        Self { units, common }
    }

    /// The least cost that any language could give.
    pub(super) fn least(&self) -> f32 {
        self.common
    }

    /// Calls `take` with the cost of the text in each language that has its scripts, unless it is above a limit. `take` returns the
    /// limit for those that follow.
    pub(super) fn costs(&self, mut limit: f32, mut take: impl FnMut(Language, f32) -> f32) {
        let is_beyond = |unit: &&Unit| !unit.character.is_ascii();
        let has = |kind: Kind| self.units.iter().filter(is_beyond).any(|unit| unit.kind == kind);
        let is_ideographic = self.units.iter().any(|unit| matches!(unit.kind, Kind::Ideographic(_)));
        let is_alphabetic: [bool; ALPHABETS.len()] = std::array::from_fn(|at| has(Kind::Letter(at as u8)));
        let has_none = !is_ideographic && !is_alphabetic.contains(&true);
        for (number, alphabet) in (0..).zip(&MODEL.alphabets) {
            if is_alphabetic[usize::from(alphabet.script)] || has_none && alphabet.script == 0 {
                let cost = self.alphabetic(alphabet, limit);
                if cost <= limit {
                    limit = take(number, cost);
                }
            }
        }
        if is_ideographic {
            for language in 0..MODEL.ideographic.len() {
                let number = (MODEL.alphabets.len() + language) as Language;
                let cost = self.common + self.ideographic(language);
                if cost <= limit {
                    limit = take(number, cost);
                }
            }
        }
    }

    /// The cost in a language with this alphabet, or one above `limit`.
    fn alphabetic(&self, alphabet: &Alphabet, limit: f32) -> f32 {
        let own = Kind::Letter(alphabet.script);
        let (mut cost, mut before, mut kind_before) = (self.common, None, Kind::None);
        for unit in &self.units {
            if cost > limit {
                return cost;
            }
            let here = unit.letter.filter(|_| unit.kind == own);
            let is_guest = own != LATIN && unit.kind == LATIN && unit.character.is_ascii();
            match unit.kind {
                _ if is_guest => {
                    cost += ASCII + if kind_before == own { MIXED } else { 0.0 };
                    cost += if before.is_some() { alphabet.cost(before, None) } else { 0.0 };
                }
                Kind::None => {
                    cost += if before.is_some() { alphabet.cost(before, None) } else { 0.0 };
                }
                kind if kind == own && here.is_some() => {
                    cost += if own != LATIN && kind_before == LATIN { MIXED } else { 0.0 };
                    cost += alphabet.cost(before, here);
                }
                _ => cost += FOREIGN + if kind_before == own { MIXED } else { 0.0 },
            }
            (before, kind_before) = (here, unit.kind);
        }
        cost + if before.is_some() { alphabet.cost(before, None) } else { 0.0 }
    }

    fn ideographic(&self, language: usize) -> f32 {
        let is_latin = |at: usize| self.units.get(at).is_some_and(|unit| unit.kind == LATIN);
        let cost = |(at, unit): (usize, &Unit)| match unit.kind {
            Kind::Ideographic(kind) => {
                let touching = usize::from(at > 0 && is_latin(at - 1)) + usize::from(is_latin(at + 1));
                MODEL.ideograph(language, unit.character, kind) + [0.0, 4.0, MIXED][touching]
            }
            _ if unit.character.is_ascii() => ASCII,
            Kind::None => 0.0,
            _ => FOREIGN,
        };
        self.units.iter().enumerate().map(cost).sum()
    }
}

/// `text` without an extension of at most five ASCII letters and digits.
fn without_extension(text: &str) -> &str {
    match text.rsplit_once('.') {
        Some((stem, extension))
            if (1..=5).contains(&extension.len()) && extension.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            stem
        }
        _ => text,
    }
}

/// The cost of a character beyond ASCII that is no letter.
fn symbol(units: &[Unit], at: usize) -> f32 {
    let unit = &units[at];
    if unit.kind == Kind::Other {
        return FOREIGN;
    }
    if unit.character.is_ascii() || unit.kind != Kind::None {
        return 0.0;
    }
    let is_letter = |at: usize| units.get(at).is_some_and(|unit| unit.kind != Kind::None);
    let in_word = at > 0 && is_letter(at - 1) && is_letter(at + 1);
    match unit.character {
        '’' | '·' => 8.0,
        // Nobody writes it: ISO 8859-15 has the euro sign in its place.
        '¤' => 16.0,
        '–' | '—' | '“' | '”' | '‘' | '„' | '…' | '«' | '»' | '•' | '€' | '°' | '№' | '™' | '©' | '®'
        | '´' | '¿' | '¡' | '§' | '‚' | 'ª' | 'º' => {
            if in_word {
                11.0
            } else {
                8.0
            }
        }
        '\u{A0}' | '\u{AD}' => 9.0,
        '\u{3000}'..='\u{303F}' | '\u{FF01}'..='\u{FF65}' => 8.0,
        // Lines and blocks.
        '\u{2500}'..='\u{259F}' => 14.0,
        c if scalar::class(c) == Some(Class::Unassigned) => 20.0,
        _ => {
            if in_word {
                14.0
            } else {
                12.0
            }
        }
    }
}

/// The cost of a word whose letters are not all lower-case.
fn odd_case(word: &[Unit]) -> f32 {
    let is_lower = |unit: &Unit| unit.character.is_lowercase();
    let is_upper = |unit: &Unit| unit.character.is_uppercase();
    let upper = word.iter().filter(|unit| is_upper(unit)).count();
    let turns = word.windows(2).filter(|pair| is_lower(&pair[0]) && is_upper(&pair[1])).count();
    match upper {
        0 => 0.0,
        1 if is_upper(&word[0]) => 0.7,
        2.. if !word.iter().any(is_lower) => 2.0,
        _ => 1.0 + 4.0 * turns as f32 + if upper > 1 { 2.0 } else { 0.0 },
    }
}
