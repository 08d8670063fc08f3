//! All plausible readings of one name.

use std::ops::Range;

use super::super::Kept;
use super::super::damage::{Cut, masked, utf8_evidence};
use super::super::language::{Language, Prepared};
use super::tried::{CUT, MASKED, NO_CHARACTER, Number, UNEXPLAINED, tried_encodings};
use super::{NEGLIGIBLE, Pair, WEIGHT_OF_EVIDENCE};
use crate::name::utf8::{IllFormed, Malformation, ill_formed};

/// A reading of a name.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) pair: Pair,
    /// The number of its text.
    pub(super) text: u16,
    /// How well the text fits the language, relative to the best.
    pub(super) likelihood: f32,
    /// The probability of the reading among all of the name.
    pub(super) probability: f32,
}

/// Where a text of a name comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextOrigin {
    /// The first explanation that gives it.
    pub(super) number: Number,
    /// Whether it has parts in UTF-8 and others in an encoding.
    pub(super) is_mixed: bool,
}

/// The plausible readings of a name.
#[derive(Clone, Debug)]
pub(super) struct Readings {
    pub(super) texts: Vec<TextOrigin>,
    pub(super) candidates: Vec<Candidate>,
    /// How much the name says about the other names, from 0 to 1.
    pub(super) evidence: f32,
    /// Whether the name alone shows that it is UTF-8 that was cut.
    pub(super) shows_utf8: bool,
    /// Whether no text of the name can be sure, because its bytes look like no text.
    pub(super) is_odd: bool,
}

impl Readings {
    /// The probabilities and the indexes of the texts, the likeliest first.
    pub(super) fn ranked(&self) -> Vec<(f32, usize)> {
        let mut ranked: Vec<(f32, usize)> = (0..self.texts.len()).map(|at| (0.0, at)).collect();
        self.candidates
            .iter()
            .for_each(|candidate| ranked[usize::from(candidate.text)].0 += candidate.probability);
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked
    }

    /// The explanations that give the text at index `text`.
    pub(super) fn explanations_of(&self, text: usize) -> Vec<Number> {
        let same = self.candidates.iter().filter(|candidate| usize::from(candidate.text) == text);
        let mut same: Vec<Number> = same.map(|candidate| candidate.pair.explanation()).collect();
        same.dedup();
        same
    }

    /// Computes the probabilities of the readings, if pairs are as common as `share` says, which also gets the probability before.
    /// `note` gets the probability of each pair before and after. Returns the greatest change. `weights` is overwritten.
    pub(super) fn weigh(
        &mut self,
        weights: &mut Vec<f32>,
        share: impl Fn(Pair, f32) -> f32,
        mut note: impl FnMut(Pair, f32, f32),
    ) -> f32 {
        weights.clear();
        let weight =
            |candidate: &Candidate| share(candidate.pair, candidate.probability) * candidate.likelihood;
        weights.extend(self.candidates.iter().map(weight));
        let all: f32 = weights.iter().sum();
        let mut change = 0.0_f32;
        for (candidate, weight) in self.candidates.iter_mut().zip(weights) {
            let before = std::mem::replace(&mut candidate.probability, *weight / all);
            change = change.max((candidate.probability - before).abs());
            note(candidate.pair, before, candidate.probability);
        }
        change
    }
}

/// A text that a name can be.
struct Text<'t> {
    origin: TextOrigin,
    characters: Characters<'t>,
    /// What the explanation costs beside the text.
    extra: f32,
}

enum Characters<'t> {
    /// Each byte is a character. The table has those of 80..FF.
    Bytewise(&'t [char; 128]),
    Decoded(String, Prepared),
}

impl<'t> Text<'t> {
    fn decoded(number: Number, text: String, extra: f32) -> Self {
        let prepared = Prepared::for_text(&text);
        let origin = TextOrigin { number, is_mixed: false };
        Self { origin, characters: Characters::Decoded(text, prepared), extra }
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
const COST_OF_MASKED: f32 = 4.0;
/// How much a name counts as evidence whose characters beyond ASCII stand alone.
const LITTLE_EVIDENCE: f32 = 0.5;

/// All plausible readings of `name`.
pub(super) fn readings(name: &[u8]) -> Readings {
    let cut = Cut::find(name);
    let evidence = cut.as_ref().map_or(0, |cut| utf8_evidence(cut.before) + utf8_evidence(cut.after));
    let mut texts: Vec<Text<'_>> = Vec::new();
    let mut numbers: Vec<(Number, usize)> = Vec::new();
    let cost = cut.as_ref().map(cost_of_cut);
    if evidence < CERTAINLY_UTF8 || cost != Some(COST_OF_LIKE_CUT) {
        add_legacy(name, &mut texts, &mut numbers);
    }
    let mut add = |text: Text<'static>| {
        numbers.push((text.origin.number, texts.len()));
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
    let (candidates, texts) = compare(name, texts, &numbers);
    Readings {
        texts,
        candidates,
        evidence: evidence_of(name),
        shows_utf8: evidence >= PROBABLY_UTF8,
        is_odd: ill_formed.iter().any(|found| is_odd(name, found)),
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
fn add_legacy<'t>(name: &[u8], texts: &mut Vec<Text<'t>>, numbers: &mut Vec<(Number, usize)>) {
    // Well-formed sequences of several bytes may stay what they are.
    let is_bytewise = name.utf8_chunks().all(|chunk| chunk.valid().is_ascii());
    let mut beyond: Vec<usize> =
        name.iter().filter_map(|byte| byte.checked_sub(0x80)).map(usize::from).collect();
    beyond.sort_unstable();
    beyond.dedup();
    for (number, tried) in (0..).zip(tried_encodings()) {
        let (text, known) = match &tried.characters {
            Some(table) if is_bytewise => {
                if beyond.iter().any(|&at| table[at] == NO_CHARACTER) {
                    continue;
                }
                let is_same = |text: &Text<'_>| match &text.characters {
                    Characters::Bytewise(other) => beyond.iter().all(|&at| other[at] == table[at]),
                    Characters::Decoded(other, _) => {
                        name.iter().map(|&byte| character(table, byte)).eq(other.chars())
                    }
                };
                (Ok(&**table), texts.iter().position(is_same))
            }
            _ => {
                let Some((text, kept)) = tried.encoding.read_parts(name) else { continue };
                let is_same = |other: &Text<'_>| match &other.characters {
                    Characters::Bytewise(table) => {
                        name.iter().map(|&byte| character(table, byte)).eq(text.chars())
                    }
                    Characters::Decoded(other, _) => *other == text,
                };
                let known = texts.iter().position(is_same);
                (Err((text, kept)), known)
            }
        };
        numbers.push((number, known.unwrap_or(texts.len())));
        if known.is_none() {
            texts.push(match text {
                Ok(table) => {
                    let origin = TextOrigin { number, is_mixed: false };
                    Text { origin, characters: Characters::Bytewise(table), extra: 0.0 }
                }
                Err((text, Kept::Nothing)) => Text::decoded(number, text, 0.0),
                Err((text, _)) => {
                    let origin = TextOrigin { number, is_mixed: true };
                    Text { origin, ..Text::decoded(number, text, COST_OF_TWO) }
                }
            });
        }
    }
}

fn character(table: &[char; 128], byte: u8) -> char {
    match byte.checked_sub(0x80) {
        None => char::from(byte),
        Some(at) => table[usize::from(at)],
    }
}

/// Compares the texts with the languages. Returns the candidates, and the origin of each text.
fn compare(
    name: &[u8],
    mut texts: Vec<Text<'_>>,
    numbers: &[(Number, usize)],
) -> (Vec<Candidate>, Vec<TextOrigin>) {
    let mut bytewise = Prepared::for_bytes(name);
    let mut with = |text: &mut Text<'_>, compare: &mut dyn FnMut(&mut Prepared)| match &mut text.characters {
        Characters::Bytewise(table) => {
            bytewise.set_beyond(|at| character(table, name[at]));
            compare(&mut bytewise);
        }
        Characters::Decoded(_, prepared) => compare(prepared),
    };
    let mut order = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter_mut().enumerate() {
        let extra = text.extra;
        with(text, &mut |prepared| order.push((prepared.least(), extra, at)));
    }
    // The order makes the first costs low, so that most of the others need not be computed.
    order.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
    let mut best = f32::INFINITY;
    let mut costs: Vec<(Language, f32)> = Vec::new();
    // The costs of each text.
    let mut of_text: Vec<Range<usize>> = vec![0..0; texts.len()];
    for (least, extra, at) in order {
        if (least + extra) * WEIGHT_OF_EVIDENCE > best + NEGLIGIBLE {
            break;
        }
        let limit = |best: f32| (best + NEGLIGIBLE) / WEIGHT_OF_EVIDENCE - extra;
        let first = costs.len();
        with(&mut texts[at], &mut |prepared| {
            prepared.costs(least, limit(best), |language, cost| {
                let cost = (cost + extra) * WEIGHT_OF_EVIDENCE;
                best = best.min(cost);
                costs.push((language, cost));
                limit(best)
            });
        });
        of_text[at] = first..costs.len();
    }
    let mut found = Vec::new();
    for &(number, text) in numbers {
        let plausible = costs[of_text[text].clone()].iter().filter(|(_, cost)| *cost <= best + NEGLIGIBLE);
        found.extend(plausible.map(|&(language, cost)| Candidate {
            pair: Pair::new(number, language),
            text: text as u16,
            likelihood: (best - cost).exp(),
            probability: 0.0,
        }));
    }
    (found, texts.iter().map(|text| text.origin).collect())
}
