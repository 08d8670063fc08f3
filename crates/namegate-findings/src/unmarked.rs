//! How the names of an archive were read that are not marked as UTF-8.

use std::borrow::Cow;
use std::fmt;

use namegate_core::policy::Confidence;

/// The members of an archive whose names are neither ASCII nor marked as UTF-8, by how these names were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmarkedNames {
    /// The archive, as seen from the working directory.
    pub file: Vec<u8>,
    /// The readings, the most frequent first.
    pub readings: Vec<UnmarkedReading>,
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

    /// The number of members.
    pub fn members(&self) -> u64 {
        self.readings.iter().map(|reading| reading.members).sum()
    }
}

/// `read as GBK (likely)`; with several readings `12 read as GBK (likely), 1 as cp437 (guess)`.
impl fmt::Display for UnmarkedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, UnmarkedReading { encoding, confidence, members }) in self.readings.iter().enumerate() {
            match (at, self.readings.len()) {
                (_, 1) => f.write_str("read")?,
                (0, _) => write!(f, "{members} read")?,
                _ => write!(f, ", {members}")?,
            }
            let how = if *confidence == Confidence::Certain { "as asked" } else { confidence.as_str() };
            write!(f, " as {encoding} ({how})")?;
        }
        Ok(())
    }
}
