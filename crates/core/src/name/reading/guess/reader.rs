//! Reads many names of one guess.

use std::collections::HashMap;

use super::super::{Contents, Damage, Kept, Wrapping};
use super::comparison::NameComparison;
use super::rivals::Rivals;
use super::{Choice, EncodingGuess, NameReading};
use crate::name::escape::escape;

/// Reads the names of a guess. Names that differ in numbers only are compared with the encodings and languages once.
#[derive(Debug)]
pub struct GuessReader<'g> {
    guess: &'g EncodingGuess,
    /// The choices, by [`without_numbers`].
    choices: HashMap<Vec<u8>, Option<Choice>>,
    comparison: Box<NameComparison>,
    rivals: Rivals,
}

/// The number of choices that a [`GuessReader`] remembers.
const MOST_CHOICES: usize = 1024;

impl<'g> GuessReader<'g> {
    pub(super) fn new(guess: &'g EncodingGuess) -> Self {
        Self { guess, choices: HashMap::new(), comparison: Box::default(), rivals: Rivals::default() }
    }

    /// As [`EncodingGuess::read`].
    pub fn read(&mut self, name: &[u8]) -> Option<NameReading> {
        let Self { guess, choices, comparison, rivals } = self;
        let (wrapping, bytes) = Wrapping::find(name);
        let key = without_numbers(&bytes);
        if choices.len() >= MOST_CHOICES && !choices.contains_key(&key) {
            choices.clear();
        }
        let choice = choices.entry(key).or_insert_with_key(|key| match guess.sampled(key) {
            Some(sampled) => guess.choose(key, &sampled.readings, rivals),
            None => {
                let mut readings = comparison.readings(key);
                readings.consider(|first, _| Some(first.lanes() as u16));
                readings.weigh(&mut (), |(), lanes, _| guess.shares()[lanes], |(), _, _| ());
                guess.choose(key, &readings, rivals)
            }
        });
        let Choice { contents, is_likely, others } = choice.as_ref()?;
        let mut is_likely = *is_likely;
        let (contents, text) = match contents {
            Contents::Legacy(encoding) => {
                let (text, kept) = encoding.read_parts(&bytes)?;
                // Where a part ends is not sure if some of it is UTF-8 by chance.
                is_likely &= kept != Kept::SomeParts;
                let whole = kept == Kept::Nothing;
                (if whole { Contents::Legacy(*encoding) } else { Contents::MixedUtf8(*encoding) }, text)
            }
            // The name itself is escaped, not what it stands for.
            Contents::Unexplained => (Contents::Unexplained, escape(name).into_owned()),
            contents => (*contents, Damage::new(*contents).read(&bytes)?),
        };
        let explained = |contents: Contents| match contents {
            Contents::Unexplained => Damage::UNEXPLAINED,
            contents => Damage { wrapping, contents },
        };
        let others = others.iter().copied().map(explained).collect();
        Some(NameReading { explanation: explained(contents), text, is_likely, others })
    }
}

/// `name` with each number as one digit. No language and no encoding distinguishes numbers, except GB18030 digits between two bytes
/// beyond ASCII and those after the second of these: they stay.
pub(super) fn without_numbers(name: &[u8]) -> Vec<u8> {
    let is_beyond = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii());
    let (mut form, mut at, mut stays) = (Vec::with_capacity(name.len()), 0, false);
    while let Some(&byte) = name.get(at) {
        let digits = name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = &name[at..at + digits];
        let is_between = is_beyond(form.last()) && is_beyond(name.get(at + digits));
        match digits {
            0 => form.push(byte),
            _ if stays || digits == 1 && is_between => form.extend_from_slice(number),
            // It must not look like one that stays.
            _ if is_between => form.extend_from_slice(b"00"),
            _ => form.push(b'0'),
        }
        at += digits.max(1);
        stays = digits == 0
            && is_beyond(Some(&byte))
            && matches!(form[..], [.., a, b, _] if b.is_ascii_digit() && !a.is_ascii());
    }
    form
}

/// The words of `name` that have bytes beyond ASCII: what it says about the encoding of other names. Names that differ in the rest are one
/// piece of evidence.
pub(super) fn telling_words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || !byte.is_ascii();
    name.split(move |byte| !is_letter(byte)).filter(|word| !word.is_ascii())
}
