//! The encodings of names in an archive that are not marked as UTF-8.

use std::borrow::Cow;
use std::fmt;

use namegate_core::policy::Confidence;

/// The members of an archive whose names are neither ASCII nor marked as UTF-8, by the encodings of these names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmarkedNames {
    /// The archive, as seen from the working directory.
    pub file: Vec<u8>,
    /// The readings, the most frequent first.
    pub readings: Vec<UnmarkedReading>,
    /// The names are checked as stored, because programs unpack them so: a tar. Those of a zip are decoded.
    pub are_stored: bool,
}

/// Members of an archive whose names were read in one encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmarkedReading {
    /// The encoding.
    pub encoding: Cow<'static, str>,
    /// How certain it is; certain if the user chose it.
    pub confidence: Confidence,
    /// The number of members.
    pub members: u64,
}

impl UnmarkedNames {
    /// The least certain reading.
    pub fn confidence(&self) -> Option<Confidence> {
        self.readings.iter().map(|reading| reading.confidence).max()
    }

    /// What the names are not.
    pub fn missing(&self) -> &'static str {
        if self.are_stored { "UTF-8" } else { "marked as UTF-8" }
    }

    /// The number of members.
    pub fn members(&self) -> u64 {
        self.readings.iter().map(|reading| reading.members).sum()
    }
}

/// `read as GBK (likely)`; with several readings `12 read as GBK (likely), 1 as cp437 (guess)`. Of names that are checked as stored
/// `in GBK (likely)`, and `12 in GBK (likely), 1 in windows-1252 (guess)`.
impl fmt::Display for UnmarkedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, UnmarkedReading { encoding, confidence, members }) in self.readings.iter().enumerate() {
            let (first, next) = if self.are_stored { ("in", "in") } else { ("read as", "as") };
            match (at, self.readings.len()) {
                (_, 1) => f.write_str(first)?,
                (0, _) => write!(f, "{members} {first}")?,
                _ => write!(f, ", {members} {next}")?,
            }
            let how = if *confidence == Confidence::Certain { "as asked" } else { confidence.as_str() };
            write!(f, " {encoding} ({how})")?;
        }
        Ok(())
    }
}
