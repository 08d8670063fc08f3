//! The explanations that a guess compares: encodings, and ways in which UTF-8 is damaged.

use std::sync::LazyLock;

use super::super::encodings::TRIED;
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
    /// The characters of the bytes 80..FF, if each byte is a character, and [`NO_CHARACTER`] for bytes that cannot be read.
    pub(super) characters: Option<Box<[char; 128]>>,
}

/// In a table of the characters beyond ASCII.
pub(super) const NO_CHARACTER: char = '\0';

impl TriedEncoding {
    fn new(label: &str, weight: f32) -> Self {
        let encoding: Encoding = label.parse().expect("a label");
        let character = |at: usize| {
            let text = encoding.read(&[0x80 + at as u8]);
            text.and_then(|text| text.chars().next()).unwrap_or(NO_CHARACTER)
        };
        let characters = encoding.is_bytewise().then(|| Box::new(std::array::from_fn(character)));
        Self { encoding, weight, characters }
    }
}

pub(super) fn tried_encodings() -> &'static [TriedEncoding] {
    static TRIED_ENCODINGS: LazyLock<Vec<TriedEncoding>> =
        LazyLock::new(|| TRIED.iter().map(|(label, weight)| TriedEncoding::new(label, *weight)).collect());
    &TRIED_ENCODINGS
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
