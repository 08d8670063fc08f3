//! Compares what a name can be with the languages of the model.

use std::sync::LazyLock;

use super::super::Kept;
use super::super::damage::{Cut, masked, utf8_evidence};
use super::super::encodings::TRIED;
use super::super::language::{
    LANES, LONGEST, Language, LanguageCosts, MOST_LANGUAGES, Prepared, TextCharacter, in_whole,
};
use super::readings::{Fit, Readings, TextOrigin};
use super::tried::{
    ByTable, CUT, EXPLANATIONS, MASKED, Number, UNEXPLAINED, read_by_tables, tried_encodings,
};
use super::{NEGLIGIBLE, WEIGHT_OF_EVIDENCE};
use crate::name::utf8::{IllFormed, Malformation, ill_formed};

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
        let mut readings = Readings::new(texts, numbers, fits);
        readings.evidence = evidence_of(name);
        readings.shows_utf8 = evidence >= PROBABLY_UTF8;
        readings.is_odd = ill_formed.iter().any(|found| is_odd(name, found));
        readings
    }

    /// Compares the texts with the languages. Returns how well they fit those that they fit at all.
    fn compare(&mut self, name: &[u8]) -> Vec<Fit> {
        let Self { texts, bytewise, decoded, costs: found } = self;
        bytewise.set_bytes(name);
        found.clear();
        let mut best = f32::INFINITY;
        for (at, text) in (0..).zip(&*texts) {
            let is_negligible = |cost: f32, best: f32| cost * WEIGHT_OF_EVIDENCE > best + NEGLIGIBLE;
            if is_negligible(text.extra, best) {
                continue;
            }
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
            let symbols = prepared.symbols() + text.extra;
            // Most texts in the wrong encoding are known by these.
            if is_negligible(symbols + prepared.least_letters(), best) {
                continue;
            }
            let least = symbols + prepared.words();
            if is_negligible(least + prepared.least_letters(), best) {
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
                let read = match is_bytewise {
                    true => tried.encoding.read(name).map(|text| (text, Kept::Nothing)),
                    false => tried.encoding.read_parts(name),
                };
                let Some((text, kept)) = read else { continue };
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
