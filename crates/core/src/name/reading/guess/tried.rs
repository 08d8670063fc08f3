//! The explanations that a guess compares: encodings, and ways in which UTF-8 is damaged.

use std::sync::LazyLock;

use super::super::encodings::TRIED;
use super::super::language::TextCharacter;
use super::super::{Contents, Encoding};

/// The number of an explanation: that of an encoding in [`TRIED`], or one of those below.
pub(super) type Number = u16;

/// UTF-8 that was cut.
pub(super) const CUT: Number = TRIED.len() as Number;
/// UTF-8 with replaced bytes.
pub(super) const MASKED: Number = CUT + 1;
/// Nothing explains the name.
pub(super) const UNEXPLAINED: Number = CUT + 2;
/// How many explanations there are.
pub(super) const EXPLANATIONS: usize = TRIED.len() + 3;

/// How common cut names are compared to those in the encodings.
const WEIGHT_OF_CUT: f32 = 0.3;
const WEIGHT_OF_MASKED: f32 = 0.1;
const WEIGHT_OF_UNEXPLAINED: f32 = 0.1;

/// An encoding that a guess tries.
pub(super) struct TriedEncoding {
    pub(super) encoding: Encoding,
    /// How common names in it are compared to the others.
    weight: f32,
    /// The characters of the bytes 80..FF, if each byte is a character.
    pub(super) characters: Option<Box<[TextCharacter; 128]>>,
}

impl TriedEncoding {
    fn new(label: &str, weight: f32) -> Self {
        let encoding: Encoding = label.parse().expect("a label");
        let character = |at| TextCharacter::new(character_of(encoding, at).unwrap_or_default());
        let characters = encoding.is_single_byte().then(|| Box::new(std::array::from_fn(character)));
        Self { encoding, weight, characters }
    }
}

fn character_of(encoding: Encoding, at: usize) -> Option<char> {
    encoding.read(&[0x80 + at as u8])?.chars().next()
}

pub(super) fn tried_encodings() -> &'static [TriedEncoding] {
    static TRIED_ENCODINGS: LazyLock<Vec<TriedEncoding>> =
        LazyLock::new(|| TRIED.iter().map(|(label, weight)| TriedEncoding::new(label, *weight)).collect());
    &TRIED_ENCODINGS
}

/// A number for each encoding in [`TRIED`].
pub(super) type ForEach<T> = [T; TRIED.len()];

/// Which encodings give the bytes of a name the same characters.
///
/// By byte from 80 on: the number of its character among those that it has in any encoding.
struct CharacterNumbers(Box<[ForEach<u8>; 128]>);

/// In [`CharacterNumbers`]: the byte has no character.
const NO_CHARACTER: u8 = 0;
/// In [`CharacterNumbers`]: the character is composed with the one before it.
const JOINED: u8 = u8::MAX;

impl CharacterNumbers {
    fn new() -> Self {
        let of_byte = |at: usize| {
            let mut known: Vec<char> = Vec::new();
            let mut number = |tried: &TriedEncoding| match character_of(tried.encoding, at) {
                None => NO_CHARACTER,
                Some('\u{300}'..='\u{36F}') => JOINED,
                Some(c) => {
                    let position = known.iter().position(|&other| other == c).unwrap_or_else(|| {
                        known.push(c);
                        known.len() - 1
                    });
                    1 + position as u8
                }
            };
            std::array::from_fn(|tried| number(&tried_encodings()[tried]))
        };
        Self(Box::new(std::array::from_fn(of_byte)))
    }
}

/// How an encoding reads a name whose bytes beyond ASCII are no UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByTable {
    /// Not at all.
    Nothing,
    /// Not by a table alone.
    Unknown,
    /// As the encoding with this number, which is the first of those that give the same text.
    Same(Number),
}

static NUMBERS: LazyLock<CharacterNumbers> = LazyLock::new(CharacterNumbers::new);

/// Whether two explanations give a byte beyond ASCII different characters; `true` if it is a part of one in either.
pub(super) fn reads_differ(byte: u8, first: Number, second: Number) -> bool {
    let is_bytewise = |number: Number| {
        tried_encodings().get(usize::from(number)).is_some_and(|tried| tried.characters.is_some())
    };
    let numbers = &NUMBERS.0[usize::from(byte) - 0x80];
    !is_bytewise(first) || !is_bytewise(second) || numbers[usize::from(first)] != numbers[usize::from(second)]
}

/// How the encodings read a name in which these bytes, less 80, occur.
pub(super) fn read_by_tables(bytes: &[usize]) -> ForEach<ByTable> {
    let numbers = &NUMBERS.0;
    let (mut hashes, mut has_all, mut is_joined): (ForEach<u32>, _, _) =
        ([0; TRIED.len()], [true; TRIED.len()], [false; TRIED.len()]);
    for &byte in bytes {
        for (at, &number) in numbers[byte].iter().enumerate() {
            hashes[at] = hashes[at].rotate_left(6) ^ u32::from(number);
            has_all[at] &= number != NO_CHARACTER;
            is_joined[at] |= number == JOINED;
        }
    }
    let mut found = [ByTable::Unknown; TRIED.len()];
    let mut first: Vec<usize> = Vec::with_capacity(TRIED.len());
    for (at, tried) in tried_encodings().iter().enumerate() {
        if tried.characters.is_none() || is_joined[at] {
            continue;
        }
        if !has_all[at] {
            found[at] = ByTable::Nothing;
            continue;
        }
        let is_same = |&&other: &&usize| {
            hashes[other] == hashes[at] && bytes.iter().all(|&byte| numbers[byte][other] == numbers[byte][at])
        };
        found[at] = ByTable::Same(match first.iter().find(is_same) {
            Some(&other) => other as Number,
            None => {
                first.push(at);
                at as Number
            }
        });
    }
    found
}

/// What a name is by the explanation with this number.
pub(super) fn contents(number: Number) -> Contents {
    match number {
        CUT => Contents::CutUtf8,
        MASKED => Contents::MaskedUtf8,
        UNEXPLAINED => Contents::Unexplained,
        encoding => Contents::Legacy(tried_encodings()[usize::from(encoding)].encoding),
    }
}

/// How common names with this explanation are compared to others, before any name is read.
pub(super) fn weight_of(number: Number) -> f32 {
    match number {
        CUT => WEIGHT_OF_CUT,
        MASKED => WEIGHT_OF_MASKED,
        UNEXPLAINED => WEIGHT_OF_UNEXPLAINED,
        encoding => tried_encodings()[usize::from(encoding)].weight,
    }
}
