//! How well a text fits each of some forty languages.
//!
//! The fit of an alphabet is the cost of each letter after the one before it, that of ideographs and syllables how rare each is; both
//! are negative logarithms of probabilities, so costs of the same bytes in different encodings compare. `languages.bin` has the
//! numbers; `scripts/build-encoding-model` makes it from the names of countries, languages, currencies and times in the Unicode CLDR.

mod model;

use std::ops::Range;

use self::model::{Alphabet, Case, FOREIGN, Kind, LATIN, MODEL, PARTS};
pub(super) use self::model::{LANES, Language, MOST_LANGUAGES, TextCharacter};

/// An ASCII letter in a language with another script.
const ASCII: f32 = 3.3;
/// A word in which ASCII letters touch those of another alphabet.
const MIXED: f32 = 10.0;

/// So many characters are enough to know a language.
pub(super) const LONGEST: usize = 128;

/// The cost of `text` in the language that it fits best.
pub(crate) fn cost(text: &str) -> f32 {
    let prepared = Prepared::for_text(text);
    let (least, mut best) = (prepared.least(), f32::INFINITY);
    prepared.compare(least, |costs| best = best.min(costs.best()));
    // A text in a script that no language of the model has.
    if best.is_finite() { best } else { least }
}

/// Whether `c` is a letter beyond ASCII of an alphabet of the model, but of no language there.
pub(crate) fn is_unused_letter(c: char) -> bool {
    let c = TextCharacter::new(c);
    !c.is_ascii() && matches!(c.kind, Kind::Letter(_)) && c.letter(c.kind) == 0
}

/// The costs of a text in the languages of one script.
#[derive(Debug)]
pub(super) struct LanguageCosts {
    pub(super) first: Language,
    pub(super) languages: usize,
    /// What the text costs in all of them.
    pub(super) common: f32,
    /// What it costs in each beside that, in sixteenths.
    pub(super) own: [i16; MOST_LANGUAGES],
}

impl LanguageCosts {
    /// The least of [`LanguageCosts::own`].
    pub(super) fn least_own(&self) -> i16 {
        self.own[..self.languages].iter().copied().fold(i16::MAX, i16::min)
    }

    /// The cost in the language that the text fits best.
    pub(super) fn best(&self) -> f32 {
        self.common + in_whole(self.least_own())
    }
}

/// A cost of [`LanguageCosts::own`] in the unit of all others.
pub(super) fn in_whole(cost: i16) -> f32 {
    f32::from(cost) / PARTS
}

/// A text, prepared for the comparison.
///
/// The cost of a text is a sum over its steps, from each character to the next one. Where only the characters beyond ASCII
/// change, as they do from one encoding to another, all other steps cost the same.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    characters: Vec<TextCharacter>,
    /// The positions of the characters beyond ASCII.
    beyond: Vec<usize>,
    /// The numbers of the steps from and to these. Step 0 leads to the first character, the last one from the last.
    steps: Vec<usize>,
    /// What the other steps cost in the languages with Latin letters.
    fixed: [i16; MOST_LANGUAGES],
    /// The least of these, or of what the letters cost in a language with another script.
    least_fixed: f32,
    /// The number of ASCII letters to which the other steps lead.
    fixed_letters: usize,
    /// What words of ASCII letters cost for their case.
    fixed_case: f32,
    /// What is between ASCII characters that are no letters and has a character beyond ASCII.
    words: Vec<Range<usize>>,
}

impl Prepared {
    /// Prepares `text`, of which a short ASCII extension says nothing.
    pub(super) fn for_text(text: &str) -> Self {
        let mut prepared = Self::default();
        prepared.set_text(text);
        prepared
    }

    /// Replaces the text by all texts of `name` in which each byte is a character, and ASCII is itself. The characters beyond ASCII must be
    /// set by [`Prepared::set_beyond`].
    pub(super) fn set_bytes(&mut self, name: &[u8]) {
        self.set(name[..stem_len(name)].iter().map(|&byte| char::from(byte)));
    }

    /// Replaces the text, as by [`Prepared::for_text`].
    pub(super) fn set_text(&mut self, text: &str) {
        self.set(text[..stem_len(text.as_bytes())].chars());
    }

    fn set(&mut self, text: impl Iterator<Item = char>) {
        let Self { characters, beyond, steps, words, .. } = self;
        characters.clear();
        characters.extend(text.take(LONGEST).map(TextCharacter::new));
        beyond.clear();
        steps.clear();
        words.clear();
        (self.fixed, self.fixed_letters, self.fixed_case) = ([0; MOST_LANGUAGES], 0, 0.0);
        let latin = &MODEL.alphabets[0];
        let mut before = (0, true);
        for (at, c) in characters.iter().enumerate() {
            let here = (c.letter(LATIN), c.is_ascii());
            if !here.1 {
                beyond.push(at);
            }
            if here.1 && before.1 {
                latin.add_step(before.0, here.0, &mut self.fixed);
                self.fixed_letters += usize::from(here.0 > 0);
            } else {
                steps.push(at);
            }
            before = here;
        }
        if before.1 {
            latin.add_step(before.0, 0, &mut self.fixed);
        } else {
            steps.push(characters.len());
        }
        let least = self.fixed[..latin.languages].iter().copied().fold(i16::MAX, i16::min);
        self.least_fixed = in_whole(least).min(ASCII * self.fixed_letters as f32);
        let mut start = 0;
        for word in characters.split(|c| c.is_ascii() && c.kind == Kind::None) {
            if word.iter().all(TextCharacter::is_ascii) {
                self.fixed_case += odd_case(word);
            } else {
                words.push(start..start + word.len());
            }
            start += word.len() + 1;
        }
    }

    /// Replaces the characters beyond ASCII. `character` is called with their positions.
    pub(super) fn set_beyond(&mut self, character: impl Fn(usize) -> TextCharacter) {
        self.beyond.iter().for_each(|&at| self.characters[at] = character(at));
    }

    /// The cost of what no language changes: symbols, and letters whose case is odd. It is the least cost that any language could
    /// give.
    pub(super) fn least(&self) -> f32 {
        self.symbols() + self.words()
    }

    /// The cost of symbols and of letters that stand alone.
    pub(super) fn symbols(&self) -> f32 {
        let is_letter = |at: usize| self.characters.get(at).is_some_and(|c| c.kind != Kind::None);
        let symbol = |&at: &usize| {
            let in_word = at > 0 && is_letter(at - 1) && is_letter(at + 1);
            u32::from(self.characters[at].symbol[usize::from(in_word)])
        };
        let symbols: u32 = self.beyond.iter().map(symbol).sum();
        symbols as f32 + self.lonely()
    }

    /// The cost of words whose case is odd.
    pub(super) fn words(&self) -> f32 {
        let words = self.words.iter().map(|word| odd_case(&self.characters[word.clone()]));
        self.fixed_case + words.sum::<f32>()
    }

    /// The least that the steps cost that only have ASCII, in any language.
    pub(super) fn least_letters(&self) -> f32 {
        self.least_fixed
    }

    /// The cost of a letter of another alphabet than the Latin one that stands alone, in a text without a word in that alphabet.
    fn lonely(&self) -> f32 {
        const LONELY: f32 = 6.0;
        const WORD: usize = 3;
        let is_other = |at: usize| matches!(self.characters[at].kind, Kind::Letter(script) if script > 0);
        if self.beyond.len() >= 2 * WORD || self.beyond.iter().filter(|&&at| is_other(at)).count() >= WORD {
            return 0.0;
        }
        let is_letter = |at: usize| self.characters.get(at).is_some_and(|c| c.kind != Kind::None);
        let stands_alone = |at: usize| !is_letter(at + 1) && !at.checked_sub(1).is_some_and(is_letter);
        let lonely = self.beyond.iter().filter(|&&at| is_other(at) && stands_alone(at));
        LONELY * lonely.count() as f32
    }

    /// Calls `take` with the costs of the text in the languages of each of its scripts. `least` is [`Prepared::least`].
    pub(super) fn compare(&self, least: f32, mut take: impl FnMut(LanguageCosts)) {
        let (mut alphabets, mut is_ideographic) = (0_u8, false);
        for &at in &self.beyond {
            match self.characters[at].kind {
                Kind::Letter(script) => alphabets |= 1 << script,
                Kind::Ideographic => is_ideographic = true,
                Kind::Other | Kind::None => {}
            }
        }
        if alphabets == 0 && !is_ideographic {
            alphabets = 1;
        }
        for (number, alphabet) in (0..).zip(&MODEL.alphabets) {
            if alphabets & (1 << number) != 0 {
                take(self.alphabetic(Kind::Letter(number), alphabet, least));
            }
        }
        if is_ideographic {
            take(self.ideographic(least));
        }
    }

    /// The costs in the languages with this alphabet.
    fn alphabetic(&self, own: Kind, alphabet: &Alphabet, least: f32) -> LanguageCosts {
        let is_latin = own == LATIN;
        let mut sums = if is_latin { self.fixed } else { [0; MOST_LANGUAGES] };
        let mut common = least;
        if !is_latin {
            common += ASCII * self.fixed_letters as f32;
        }
        for &at in &self.steps {
            let before = at.checked_sub(1).map(|before| &self.characters[before]);
            let here = self.characters.get(at);
            let (kind_before, kind) =
                (before.map_or(Kind::None, |c| c.kind), here.map_or(Kind::None, |c| c.kind));
            let letter_before = before.map_or(0, |c| c.letter(own));
            let letter = here.map_or(0, |c| c.letter(own));
            let is_guest = !is_latin && kind == LATIN && here.is_some_and(TextCharacter::is_ascii);
            if is_guest || kind == Kind::None {
                alphabet.add_step(letter_before, 0, &mut sums);
                if is_guest {
                    common += ASCII + if kind_before == own { MIXED } else { 0.0 };
                }
            } else if letter > 0 {
                alphabet.add_step(letter_before, letter, &mut sums);
                common += if !is_latin && kind_before == LATIN { MIXED } else { 0.0 };
            } else {
                common += f32::from(FOREIGN) / PARTS + if kind_before == own { MIXED } else { 0.0 };
            }
        }
        LanguageCosts { first: alphabet.first, languages: alphabet.languages, common, own: sums }
    }

    /// The costs in the languages with ideographs.
    fn ideographic(&self, least: f32) -> LanguageCosts {
        let is_latin = |at: usize| self.characters.get(at).is_some_and(|c| c.kind == LATIN);
        let mut common = least + ASCII * (self.characters.len() - self.beyond.len()) as f32;
        let mut sums = [0; MOST_LANGUAGES];
        for &at in &self.beyond {
            let here = &self.characters[at];
            match here.kind {
                Kind::Ideographic => {
                    let of_languages = MODEL.ideograph(here.character);
                    (0..LANES).for_each(|lane| sums[lane] += i16::from(of_languages[lane]));
                    let touching = usize::from(at > 0 && is_latin(at - 1)) + usize::from(is_latin(at + 1));
                    common += [0.0, 4.0, MIXED][touching];
                }
                Kind::None => {}
                Kind::Letter(_) | Kind::Other => common += f32::from(FOREIGN) / PARTS,
            }
        }
        LanguageCosts { first: MODEL.first_with_ideographs, languages: LANES, common, own: sums }
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

/// The cost of words whose letters are not all lower-case.
fn odd_case(characters: &[TextCharacter]) -> f32 {
    let (mut cost, mut word) = (0.0, WordCase::default());
    for c in characters {
        if c.kind == Kind::None {
            cost += std::mem::take(&mut word).cost();
        } else {
            word.add(c.case);
        }
    }
    cost + word.cost()
}

/// The case of the letters of a word.
#[derive(Default)]
struct WordCase {
    letters: u32,
    upper: u32,
    lower: u32,
    /// How many capitals follow small letters.
    turns: u32,
    is_capitalized: bool,
    is_after_lower: bool,
}

impl WordCase {
    fn add(&mut self, case: Case) {
        let is_upper = case == Case::Upper;
        self.is_capitalized |= is_upper && self.letters == 0;
        self.letters += 1;
        self.upper += u32::from(is_upper);
        self.turns += u32::from(is_upper && self.is_after_lower);
        self.is_after_lower = case == Case::Lower;
        self.lower += u32::from(self.is_after_lower);
    }

    fn cost(&self) -> f32 {
        match self.upper {
            0 => 0.0,
            1 if self.is_capitalized => 0.7,
            2.. if self.lower == 0 => 2.0,
            upper => 1.0 + 4.0 * self.turns as f32 + if upper > 1 { 2.0 } else { 0.0 },
        }
    }
}
