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
/// A letter that many languages with Latin letters have in words from others.
const BORROWED: f32 = 10.0;
const BORROWED_LETTERS: [char; 7] = ['à', 'â', 'é', 'è', 'ê', 'ç', 'ñ'];
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
            (_, None) if here.is_some_and(|letter| self.script == 0 && MODEL.is_borrowed(letter)) => BORROWED,
            (_, None) => FOREIGN,
            // After a foreign letter any letter is as good as at the start of a word.
            (before, Some(here)) => f32::from(self.costs[before.unwrap_or(0) * self.side + here]) / 16.0,
        }
    }

    /// The cost of a step from one character to the next; `None` is the start or the end of the text.
    fn step(&self, before: Option<&Unit>, here: Option<&Unit>) -> f32 {
        let own = Kind::Letter(self.script);
        let letter = |unit: Option<&Unit>| unit.filter(|unit| unit.kind == own).and_then(|unit| unit.letter);
        let kind_before = before.map_or(Kind::None, |unit| unit.kind);
        let before = letter(before);
        let end_of_word = || if before.is_some() { self.cost(before, None) } else { 0.0 };
        let Some(unit) = here else { return end_of_word() };
        let is_guest = own != LATIN && unit.kind == LATIN && unit.is_ascii();
        match unit.kind {
            _ if is_guest => ASCII + if kind_before == own { MIXED } else { 0.0 } + end_of_word(),
            Kind::None => end_of_word(),
            kind if kind == own && unit.letter.is_some() => {
                let is_mixed = own != LATIN && kind_before == LATIN;
                self.cost(before, unit.letter) + if is_mixed { MIXED } else { 0.0 }
            }
            _ => FOREIGN + if kind_before == own { MIXED } else { 0.0 },
        }
    }
}

/// The number of each character below this code point is in a table: all alphabets of the model are there.
const TABLE: usize = 0x2000;

struct Model {
    /// The characters of the table.
    characters: Vec<Unit>,
    alphabets: Vec<Alphabet>,
    /// The numbers of [`BORROWED_LETTERS`] among Latin letters.
    borrowed: Vec<u16>,
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
        let (mut letters, mut counts) = (HashMap::<char, (u8, u16)>::new(), [0; ALPHABETS.len()]);
        let mut alphabets = Vec::new();
        for _ in 0..number(next(2)) {
            let &[script, count] = next(2) else { unreachable!("two bytes") };
            let side = usize::from(count) + 1;
            let mut numbers = Vec::new();
            for (at, code) in (1..).zip(next(2 * usize::from(count)).chunks(2)) {
                let (_, known) = *letters.entry(letter(code)).or_insert_with(|| {
                    counts[usize::from(script)] += 1;
                    (script, counts[usize::from(script)] - 1)
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
            Unit::new(c, letter)
        };
        let borrowed =
            BORROWED_LETTERS.iter().filter_map(|c| letters.get(c)).map(|&(_, letter)| letter).collect();
        let below = char::from_u32(TABLE as u32).expect("a code point");
        let characters = ('\0'..below).map(character).collect();
        Self { characters, alphabets, borrowed, ideographic }
    }

    fn is_borrowed(&self, letter: u16) -> bool {
        self.borrowed.contains(&letter)
    }

    fn unit(&self, character: char) -> Unit {
        let known = self.characters.get(character as usize).copied();
        known.unwrap_or_else(|| Unit::new(character, None))
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
#[derive(Clone, Copy)]
struct Unit {
    character: char,
    kind: Kind,
    case: Case,
    /// Its number among the letters of its script.
    letter: Option<u16>,
}

#[derive(Clone, Copy, PartialEq)]
enum Case {
    Lower,
    Upper,
    None,
}

impl Unit {
    /// `known` is the script of the letter and its number there, if it is one of the model.
    fn new(character: char, known: Option<(u8, u16)>) -> Self {
        let case = match () {
            () if character.is_lowercase() => Case::Lower,
            () if character.is_uppercase() => Case::Upper,
            () => Case::None,
        };
        // Arabic marks have no script in Unicode, but those that the model has are Arabic there.
        let kind = known.map_or_else(|| kind(character), |(script, _)| Kind::Letter(script));
        Self { character, kind, case, letter: known.map(|(_, letter)| letter) }
    }

    fn is_ascii(&self) -> bool {
        self.character.is_ascii()
    }
}

/// The cost of `text` in the language that it fits best.
pub(crate) fn cost(text: &str) -> f32 {
    let mut prepared = Prepared::for_text(text);
    let (least, mut best) = (prepared.least(), f32::INFINITY);
    prepared.costs(least, f32::INFINITY, |_, cost| {
        best = best.min(cost);
        best
    });
    // A text in a script that no language of the model has.
    if best.is_finite() { best } else { least }
}

/// A text, prepared for the comparison.
///
/// The cost of a text is a sum over its steps, from each character to the next one. Where only the characters beyond ASCII
/// change, as they do from one encoding to another, all other steps cost the same.
pub(super) struct Prepared {
    units: Vec<Unit>,
    /// The positions of the characters beyond ASCII.
    beyond: Vec<usize>,
    /// The numbers of the steps from and to these. Step 0 leads to the first character, the last one from the last.
    steps: Vec<usize>,
    /// By alphabet: the cost of all other steps, if it was computed.
    fixed: Vec<Option<f32>>,
}

impl Prepared {
    /// Prepares `text`, of which a short ASCII extension says nothing.
    pub(super) fn for_text(text: &str) -> Self {
        Self::new(text[..stem_len(text.as_bytes())].chars())
    }

    /// Prepares `name` for all texts in which each byte is a character, and ASCII is itself. The characters beyond ASCII must be
    /// set by [`Prepared::set_beyond`].
    pub(super) fn for_bytes(name: &[u8]) -> Self {
        Self::new(name[..stem_len(name)].iter().map(|&byte| char::from(byte)))
    }

    fn new(text: impl Iterator<Item = char>) -> Self {
        let units: Vec<Unit> = text.take(LONGEST).map(|c| MODEL.unit(c)).collect();
        let beyond: Vec<usize> = (0..units.len()).filter(|&at| !units[at].is_ascii()).collect();
        let mut steps: Vec<usize> = beyond.iter().flat_map(|&at| [at, at + 1]).collect();
        steps.dedup();
        Self { units, beyond, steps, fixed: vec![None; MODEL.alphabets.len()] }
    }

    /// Replaces the characters beyond ASCII. `character` is called with their positions.
    pub(super) fn set_beyond(&mut self, character: impl Fn(usize) -> char) {
        self.beyond.iter().for_each(|&at| self.units[at] = MODEL.unit(character(at)));
    }

    /// The cost of what no language changes: symbols, and letters whose case is odd. It is the least cost that any language could
    /// give.
    pub(super) fn least(&self) -> f32 {
        let symbols: f32 = self.beyond.iter().map(|&at| symbol(&self.units, at)).sum();
        let words = self.units.split(|unit| unit.kind == Kind::None);
        symbols + self.lonely() + words.map(odd_case).sum::<f32>()
    }

    /// The cost of a letter of another alphabet than the Latin one that stands alone, in a text without a word in that alphabet.
    fn lonely(&self) -> f32 {
        const LONELY: f32 = 6.0;
        const WORD: usize = 3;
        let is_other = |unit: &Unit| matches!(unit.kind, Kind::Letter(script) if script > 0);
        if self.beyond.len() >= 2 * WORD || self.units.iter().filter(|unit| is_other(unit)).count() >= WORD {
            return 0.0;
        }
        let is_letter = |at: usize| self.units.get(at).is_some_and(|unit| unit.kind != Kind::None);
        let stands_alone = |at: usize| !is_letter(at + 1) && !at.checked_sub(1).is_some_and(is_letter);
        let lonely = self.beyond.iter().filter(|&&at| is_other(&self.units[at]) && stands_alone(at));
        LONELY * lonely.count() as f32
    }

    /// Calls `take` with the cost of the text in each language that has its scripts, unless it is above a limit. `take` returns the
    /// limit for those that follow. `least` is [`Prepared::least`].
    pub(super) fn costs(&mut self, least: f32, mut limit: f32, mut take: impl FnMut(Language, f32) -> f32) {
        let mut is_alphabetic = [false; ALPHABETS.len()];
        let mut is_ideographic = false;
        for &at in &self.beyond {
            match self.units[at].kind {
                Kind::Letter(script) => is_alphabetic[usize::from(script)] = true,
                Kind::Ideographic(_) => is_ideographic = true,
                Kind::Other | Kind::None => {}
            }
        }
        let has_none = !is_ideographic && !is_alphabetic.contains(&true);
        for (number, alphabet) in (0..).zip(&MODEL.alphabets) {
            if is_alphabetic[usize::from(alphabet.script)] || has_none && alphabet.script == 0 {
                let cost = self.alphabetic(usize::from(number), alphabet, least, limit);
                if cost <= limit {
                    limit = take(number, cost);
                }
            }
        }
        if is_ideographic {
            for language in 0..MODEL.ideographic.len() {
                let number = (MODEL.alphabets.len() + language) as Language;
                let cost = self.ideographic(language, least, limit);
                if cost <= limit {
                    limit = take(number, cost);
                }
            }
        }
    }

    /// The cost in a language with this alphabet, or one above `limit`.
    fn alphabetic(&mut self, number: usize, alphabet: &Alphabet, least: f32, limit: f32) -> f32 {
        let units = &self.units;
        let step = |at: usize| alphabet.step(at.checked_sub(1).map(|before| &units[before]), units.get(at));
        let is_fixed = |at: usize| {
            let is_ascii = |at: usize| units.get(at).is_none_or(Unit::is_ascii);
            is_ascii(at) && at.checked_sub(1).is_none_or(is_ascii)
        };
        let fixed = self.fixed[number]
            .get_or_insert_with(|| (0..=units.len()).filter(|&at| is_fixed(at)).map(step).sum());
        let mut cost = least + *fixed;
        for &at in &self.steps {
            if cost > limit {
                return cost;
            }
            cost += step(at);
        }
        cost
    }

    /// The cost in this language with ideographs, or one above `limit`.
    fn ideographic(&self, language: usize, least: f32, limit: f32) -> f32 {
        let is_latin = |at: usize| self.units.get(at).is_some_and(|unit| unit.kind == LATIN);
        let mut cost = least;
        for (at, unit) in self.units.iter().enumerate() {
            cost += match unit.kind {
                Kind::Ideographic(kind) => {
                    let touching = usize::from(at > 0 && is_latin(at - 1)) + usize::from(is_latin(at + 1));
                    MODEL.ideograph(language, unit.character, kind) + [0.0, 4.0, MIXED][touching]
                }
                _ if unit.is_ascii() => ASCII,
                Kind::None => 0.0,
                _ => FOREIGN,
            };
            if cost > limit {
                break;
            }
        }
        cost
    }
}

/// The length of `text` without an extension of at most five ASCII letters and digits.
fn stem_len(text: &[u8]) -> usize {
    match memchr::memrchr(b'.', text) {
        Some(dot)
            if (1..=5).contains(&(text.len() - dot - 1))
                && text[dot + 1..].iter().all(u8::is_ascii_alphanumeric) =>
        {
            dot
        }
        _ => text.len(),
    }
}

/// The cost of a character beyond ASCII that is no letter.
fn symbol(units: &[Unit], at: usize) -> f32 {
    let unit = &units[at];
    if unit.kind == Kind::Other {
        return FOREIGN;
    }
    if unit.is_ascii() || unit.kind != Kind::None {
        return 0.0;
    }
    let is_letter = |at: usize| units.get(at).is_some_and(|unit| unit.kind != Kind::None);
    let in_word = at > 0 && is_letter(at - 1) && is_letter(at + 1);
    match unit.character {
        '’' | '·' => 8.0,
        // In several encodings of East Asia, two bytes of which one is a letter.
        '“' | '”' | '‘' | '„' | '‚' | '«' | '»' | '…' | '№' if in_word => 16.0,
        '\u{3000}'..='\u{303F}' | '\u{FF01}'..='\u{FF65}' if in_word => 14.0,
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
        '\u{A0}' | '\u{AD}' => 11.0,
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
    let is_lower = |unit: &Unit| unit.case == Case::Lower;
    let is_upper = |unit: &Unit| unit.case == Case::Upper;
    let upper = word.iter().filter(|unit| is_upper(unit)).count();
    let turns = word.windows(2).filter(|pair| is_lower(&pair[0]) && is_upper(&pair[1])).count();
    match upper {
        0 => 0.0,
        1 if is_upper(&word[0]) => 0.7,
        2.. if !word.iter().any(is_lower) => 2.0,
        _ => 1.0 + 4.0 * turns as f32 + if upper > 1 { 2.0 } else { 0.0 },
    }
}
