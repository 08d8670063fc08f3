//! All plausible readings of one name.

use std::ops::Range;
use std::sync::LazyLock;

use super::super::Kept;
use super::super::damage::{Cut, masked, utf8_evidence};
use super::super::encodings::TRIED;
use super::super::language::{
    LANES, LONGEST, Language, LanguageCosts, MOST_LANGUAGES, Prepared, TextCharacter, in_whole,
};
use super::tried::{
    ByTable, CUT, EXPLANATIONS, MASKED, Number, UNEXPLAINED, read_by_tables, tried_encodings,
};
use super::{NEGLIGIBLE, Pair, WEIGHT_OF_EVIDENCE};
use crate::name::utf8::{IllFormed, Malformation, ill_formed};

/// Where a text of a name comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextOrigin {
    /// The first explanation that gives it.
    pub(super) number: Number,
    /// Whether it has parts in UTF-8 and others in an encoding.
    pub(super) is_mixed: bool,
    /// Which of [`Readings::fits`] are its own.
    first_fit: u16,
    end_of_fits: u16,
}

impl TextOrigin {
    fn new(number: Number, is_mixed: bool) -> Self {
        Self { number, is_mixed, first_fit: 0, end_of_fits: 0 }
    }

    fn fits(&self) -> Range<usize> {
        self.first_fit.into()..self.end_of_fits.into()
    }
}

/// Numbers for the languages from one on.
pub(super) type Lanes = [f32; LANES];

/// How well a text fits some languages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    first: Language,
    /// Relative to the best language and text of the name.
    likelihoods: Lanes,
}

/// An explanation of a name and some languages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The pair of the first language.
    pub(super) first: Pair,
    /// The number of the [`Fit`].
    fit: u16,
    /// The number of the text.
    text: u16,
    /// The probability of each pair among all readings of the name.
    probabilities: Lanes,
    /// What the probabilities are computed from.
    weights: Lanes,
}

/// The plausible readings of a name.
#[derive(Clone, Debug)]
pub(super) struct Readings {
    pub(super) texts: Vec<TextOrigin>,
    /// The explanations, in order, and the number of the text that each gives.
    pub(super) explanations: Vec<(Number, u16)>,
    fits: Vec<Fit>,
    readings: Vec<Reading>,
    /// How much the name says about the other names, from 0 to 1.
    pub(super) evidence: f32,
    /// Whether the name alone shows that it is UTF-8 that was cut.
    pub(super) shows_utf8: bool,
    /// Whether no text of the name can be sure, because its bytes look like no text.
    pub(super) is_odd: bool,
}

impl Readings {
    /// Each explanation with the languages that its text fits, some at a time.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Pair, &Lanes)> {
        self.explanations.iter().flat_map(|&(number, text)| {
            let fits = &self.fits[self.texts[usize::from(text)].fits()];
            fits.iter().map(move |fit| (Pair::new(number, fit.first), &fit.likelihoods))
        })
    }

    /// Considers the readings by the explanations for which `is_considered` says so, and no others.
    pub(super) fn consider(&mut self, is_considered: impl Fn(Number) -> bool) {
        self.readings.clear();
        for &(number, text) in self.explanations.iter().filter(|(number, _)| is_considered(*number)) {
            let reading = |at: usize| {
                let first = Pair::new(number, self.fits[at].first);
                Reading { first, fit: at as u16, text, probabilities: [0.0; LANES], weights: [0.0; LANES] }
            };
            self.readings.extend(self.texts[usize::from(text)].fits().map(reading));
        }
    }

    /// Computes the probabilities of the readings, if pairs are as common as `share` says, which gets the first of some pairs and
    /// their probabilities before. `note` gets what the probabilities of these have changed by. Both get `known`. Returns the
    /// greatest change.
    pub(super) fn weigh<K: ?Sized>(
        &mut self,
        known: &mut K,
        share: impl Fn(&K, Pair, &Lanes) -> Lanes,
        note: impl Fn(&mut K, Pair, &Lanes),
    ) -> f32 {
        let mut sums = [0.0; LANES];
        for reading in &mut self.readings {
            reading.weights = share(known, reading.first, &reading.probabilities);
            let likelihoods = &self.fits[usize::from(reading.fit)].likelihoods;
            for lane in 0..LANES {
                reading.weights[lane] *= likelihoods[lane];
                sums[lane] += reading.weights[lane];
            }
        }
        let all: f32 = sums.iter().sum();
        let scale = if all > 0.0 { 1.0 / all } else { 0.0 };
        let mut greatest = [0.0_f32; LANES];
        for reading in &mut self.readings {
            let mut change = [0.0; LANES];
            for lane in 0..LANES {
                let probability = reading.weights[lane] * scale;
                change[lane] = probability - reading.probabilities[lane];
                reading.probabilities[lane] = probability;
                let size = change[lane].abs();
                greatest[lane] = if size > greatest[lane] { size } else { greatest[lane] };
            }
            note(known, reading.first, &change);
        }
        greatest.into_iter().fold(0.0, f32::max)
    }

    /// The probabilities and the indexes of the texts, the likeliest first.
    pub(super) fn ranked(&self) -> Vec<(f32, usize)> {
        let mut ranked: Vec<(f32, usize)> = (0..self.texts.len()).map(|at| (0.0, at)).collect();
        for reading in &self.readings {
            ranked[usize::from(reading.text)].0 += reading.probabilities.iter().sum::<f32>();
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked
    }

    /// The explanations that give the text at index `text`.
    pub(super) fn explanations_of(&self, text: usize) -> Vec<Number> {
        let same = self.explanations.iter().filter(|(_, of)| usize::from(*of) == text);
        same.map(|&(number, _)| number).collect()
    }
}

/// A text that a name can be.
#[derive(Debug)]
struct Text {
    origin: TextOrigin,
    characters: Characters,
    /// What the explanation costs beside the text.
    extra: f32,
}

#[derive(Debug)]
enum Characters {
    /// Each byte is a character. The table has those of 80..FF.
    Bytewise(&'static [TextCharacter; 128]),
    Decoded(String),
}

impl Text {
    fn decoded(number: Number, text: String, extra: f32) -> Self {
        let origin = TextOrigin::new(number, false);
        Self { origin, characters: Characters::Decoded(text), extra }
    }
}

/// A name with this much [`utf8_evidence`] that was cut in a character like its others is nothing else.
const CERTAINLY_UTF8: usize = 8;
/// A cut name with this much [`utf8_evidence`] needs no other name as evidence.
const PROBABLY_UTF8: usize = 2;
/// What two encodings in one name cost.
const COST_OF_TWO: f32 = 6.0;
/// What an ill-formed sequence costs that nothing explains, and the bytes of a sequence that was made on purpose.
const COST_OF_STRAY: f32 = 16.0;
const COST_OF_MADE: f32 = 6.0;
/// What a cut costs, and one of a character like the others.
const COST_OF_CUT: f32 = 3.0;
const COST_OF_LIKE_CUT: f32 = 4.0;
/// What a cut costs behind the characters that are compared: the letter that other explanations have in its place costs nothing there.
const COST_OF_LATE_CUT: f32 = -6.0;
const COST_OF_MASKED: f32 = 4.0;
/// How much a name counts as evidence whose characters beyond ASCII stand alone.
const LITTLE_EVIDENCE: f32 = 0.5;

/// Finds the readings of names, one after another, in the same memory.
#[derive(Debug, Default)]
pub(super) struct NameComparison {
    texts: Vec<Text>,
    bytewise: Prepared,
    decoded: Prepared,
    /// The costs of the texts by their numbers.
    costs: Vec<(u16, LanguageCosts)>,
}

impl NameComparison {
    /// All plausible readings of `name`.
    pub(super) fn readings(&mut self, name: &[u8]) -> Readings {
        let cut = Cut::find(name);
        let evidence = cut.as_ref().map_or(0, |cut| utf8_evidence(cut.before) + utf8_evidence(cut.after));
        let texts = &mut self.texts;
        texts.clear();
        let mut numbers: Vec<(Number, u16)> = Vec::with_capacity(EXPLANATIONS);
        let cost = cut.as_ref().map(cost_of_cut);
        if evidence < CERTAINLY_UTF8 || cost != Some(COST_OF_LIKE_CUT) {
            add_legacy(name, texts, &mut numbers);
        }
        let mut add = |text: Text| {
            numbers.push((text.origin.number, texts.len() as u16));
            texts.push(text);
        };
        if let (Some(cut), Some(cost)) = (&cut, cost) {
            add(Text::decoded(CUT, cut.text(), cost));
        }
        if let Some(masked) = masked(name) {
            add(Text::decoded(MASKED, masked.text, COST_OF_MASKED * masked.count as f32));
        }
        let rest: String = name.utf8_chunks().map(|chunk| chunk.valid()).collect();
        let ill_formed: Vec<IllFormed> = ill_formed(name).collect();
        let cost = |found: &IllFormed| match is_made(found.kind) {
            true => COST_OF_MADE,
            false => COST_OF_STRAY * found.span.len() as f32,
        };
        add(Text::decoded(UNEXPLAINED, rest, ill_formed.iter().map(cost).sum()));
        let fits = self.compare(name);
        let texts: Vec<TextOrigin> = self.texts.iter().map(|text| text.origin).collect();
        numbers.retain(|&(_, text)| !texts[usize::from(text)].fits().is_empty());
        Readings {
            texts,
            explanations: numbers,
            fits,
            readings: Vec::new(),
            evidence: evidence_of(name),
            shows_utf8: evidence >= PROBABLY_UTF8,
            is_odd: ill_formed.iter().any(|found| is_odd(name, found)),
        }
    }

    /// Compares the texts with the languages. Returns how well they fit those that they fit at all.
    fn compare(&mut self, name: &[u8]) -> Vec<Fit> {
        let Self { texts, bytewise, decoded, costs: found } = self;
        bytewise.set_bytes(name);
        found.clear();
        let mut best = f32::INFINITY;
        for (at, text) in (0..).zip(&*texts) {
            let prepared = match &text.characters {
                Characters::Bytewise(table) => {
                    bytewise.set_beyond(|at| table[usize::from(name[at] - 0x80)]);
                    &*bytewise
                }
                Characters::Decoded(text) => {
                    decoded.set_text(text);
                    &*decoded
                }
            };
            let least = prepared.least() + text.extra;
            if least * WEIGHT_OF_EVIDENCE > best + NEGLIGIBLE {
                continue;
            }
            prepared.compare(least, |costs| {
                let cost = costs.best() * WEIGHT_OF_EVIDENCE;
                if cost <= best + NEGLIGIBLE {
                    best = best.min(cost);
                    found.push((at, costs));
                }
            });
        }
        let mut fits = Vec::with_capacity(found.len() * MOST_LANGUAGES / LANES);
        for (text, costs) in found {
            let origin = &mut texts[usize::from(*text)].origin;
            if origin.fits().is_empty() {
                origin.first_fit = fits.len() as u16;
            }
            add_fits(costs, best, &mut fits);
            origin.end_of_fits = fits.len() as u16;
        }
        fits
    }
}

/// Whether bytes form a complete sequence that RFC 3629 forbids: programs make them on purpose, and text rarely has them by chance.
fn is_made(kind: Malformation) -> bool {
    is_beyond_unicode(kind)
        || matches!(
            kind,
            Malformation::Overlong
                | Malformation::NulSmuggling
                | Malformation::SeparatorSmuggling
                | Malformation::Surrogate
                | Malformation::SurrogatePair
        )
}

/// Whether a sequence is less likely to be text by chance than to be made: one that no version of UTF-8 after 2003 allows, or an overlong
/// form among ASCII, where it may hide what a shell or a path reads.
fn is_odd(name: &[u8], found: &IllFormed) -> bool {
    let is_beyond = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii());
    let before = found.span.start.checked_sub(1).and_then(|at| name.get(at));
    is_beyond_unicode(found.kind)
        || is_made(found.kind) && !is_beyond(before) && !is_beyond(name.get(found.span.end))
}

fn is_beyond_unicode(kind: Malformation) -> bool {
    matches!(kind, Malformation::AboveMax | Malformation::FiveOrSixOctets)
}

/// How much `name` says about the other names: a sign between spaces and digits is one in many encodings.
fn evidence_of(name: &[u8]) -> f32 {
    let is_letter =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
    let touches =
        |at: usize| is_letter(at.checked_sub(1).and_then(|at| name.get(at))) || is_letter(name.get(at + 1));
    let stands_alone = |(at, byte): (usize, &u8)| byte.is_ascii() || !touches(at);
    if name.iter().enumerate().all(stands_alone) { LITTLE_EVIDENCE } else { 1.0 }
}

/// What a cut costs beside its text: less if the text has characters such as the one that was cut.
fn cost_of_cut(cut: &Cut<'_>) -> f32 {
    let beyond = || cut.before.chars().chain(cut.after.chars()).filter(|c| !c.is_ascii());
    let Some(lead) = cut.lead() else { return COST_OF_CUT + 6.0 };
    if cut.before.chars().nth(LONGEST - 1).is_some() {
        return COST_OF_LATE_CUT;
    }
    let first_byte = |c: char| c.encode_utf8(&mut [0; 4]).as_bytes()[0];
    let is_like = |c: char| group(first_byte(c)) == group(lead);
    if beyond().any(is_like) {
        return COST_OF_LIKE_CUT;
    }
    // Punctuation, symbols and emoji go with every script.
    let is_common = matches!(lead, 0xC2 | 0xE2 | 0xEF | 0xF0);
    COST_OF_CUT
        + match (beyond().next(), lead) {
            (Some(_), _) if is_common => 5.0,
            (Some(_), _) => 9.0,
            (None, 0xC3) => 5.0,
            (None, 0xC4 | 0xC5 | 0xE2 | 0xF0) => 6.0,
            (None, 0xD0 | 0xD1) => 7.0,
            (None, 0xE3..=0xED) => 8.0,
            (None, _) => 9.0,
        }
}

/// The number of the scripts whose characters begin with this byte, as far as they are used together.
fn group(lead: u8) -> u8 {
    match lead {
        // Latin.
        0xC3..=0xC9 => 0xC3,
        // Greek.
        0xCD..=0xCF => 0xCE,
        // Cyrillic.
        0xD0..=0xD4 => 0xD0,
        // Arabic.
        0xD8..=0xDB => 0xD8,
        // Kana and ideographs.
        0xE3..=0xE9 => 0xE4,
        // Hangul.
        0xEA..=0xED => 0xEB,
        _ => lead,
    }
}

/// Adds the texts of `name` in the encodings, and the number of the text for each encoding that gives one.
fn add_legacy(name: &[u8], texts: &mut Vec<Text>, numbers: &mut Vec<(Number, u16)>) {
    // Well-formed sequences of several bytes may stay what they are.
    let is_bytewise = name.utf8_chunks().all(|chunk| chunk.valid().is_ascii());
    let by_table = if is_bytewise {
        let mut beyond: Vec<usize> =
            name.iter().filter_map(|byte| byte.checked_sub(0x80)).map(usize::from).collect();
        beyond.sort_unstable();
        beyond.dedup();
        read_by_tables(&beyond)
    } else {
        [ByTable::Unknown; TRIED.len()]
    };
    let text_of = |numbers: &[(Number, u16)], number| {
        let known = numbers.iter().find(|(other, _)| *other == number);
        known.map(|&(_, text)| text)
    };
    for ((number, tried), by_table) in (0..).zip(tried_encodings()).zip(by_table) {
        let next = texts.len() as u16;
        let (text, known) = match by_table {
            ByTable::Nothing => continue,
            ByTable::Same(first) => {
                let Some(table) = &tried.characters else { continue };
                let origin = TextOrigin::new(number, false);
                let text = Text { origin, characters: Characters::Bytewise(table), extra: 0.0 };
                (text, text_of(numbers, first))
            }
            ByTable::Unknown => {
                let Some((text, kept)) = tried.encoding.read_parts(name) else { continue };
                let is_same = |other: &Text| match &other.characters {
                    Characters::Bytewise(_) => false,
                    Characters::Decoded(other) => *other == text,
                };
                match (0..).zip(&*texts).find(|(_, other)| is_same(other)) {
                    Some((known, _)) => {
                        numbers.push((number, known));
                        continue;
                    }
                    None if kept == Kept::Nothing => (Text::decoded(number, text, 0.0), None),
                    None => {
                        let origin = TextOrigin::new(number, true);
                        (Text { origin, ..Text::decoded(number, text, COST_OF_TWO) }, None)
                    }
                }
            }
        };
        numbers.push((number, known.unwrap_or(next)));
        if known.is_none() {
            texts.push(text);
        }
    }
}

/// Adds how well a text fits those languages that are plausible if the best one of all costs `best`.
fn add_fits(costs: &LanguageCosts, best: f32, fits: &mut Vec<Fit>) {
    /// The likelihood of each part of a cost.
    static LIKELIHOODS: LazyLock<Vec<f32>> = LazyLock::new(|| {
        let likelihood = |cost| (-in_whole(cost) * WEIGHT_OF_EVIDENCE).exp();
        let all = (0..).map(|cost| (in_whole(cost) * WEIGHT_OF_EVIDENCE, likelihood(cost)));
        all.take_while(|(cost, _)| *cost <= NEGLIGIBLE).map(|(_, likelihood)| likelihood).collect()
    });
    let least = costs.least_own();
    let of_least = (best - costs.best() * WEIGHT_OF_EVIDENCE).exp();
    if of_least < (-NEGLIGIBLE).exp() {
        return;
    }
    let groups = costs.own.as_chunks::<LANES>().0;
    for (first, group) in (0..costs.languages).step_by(LANES).zip(groups) {
        let likelihood = |lane: usize| match LIKELIHOODS.get((group[lane] - least) as usize) {
            Some(likelihood) if first + lane < costs.languages => of_least * likelihood,
            _ => 0.0,
        };
        let likelihoods = std::array::from_fn(likelihood);
        if likelihoods != [0.0; LANES] {
            fits.push(Fit { first: costs.first + first as Language, likelihoods });
        }
    }
}
