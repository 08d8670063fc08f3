//! What is compared, and what is said of it.

use std::io;
use std::path::PathBuf;

use namegate_scan::source::scope::Exclude;

use super::planned_names::PlannedNames;

/// What is compared, and how.
#[derive(Debug)]
pub struct VerifyRequest {
    pub source: PathBuf,
    pub target: PathBuf,
    /// The names that the entries of the source have at the target, where they are others.
    pub planned: Option<PlannedNames>,
    pub exclude: Exclude,
    pub compares_contents: bool,
    pub compares_links: bool,
    pub jobs: usize,
}

/// How an entry differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyDifference {
    /// It is not at the target.
    Missing,
    /// It is at the target alone.
    Extra,
    /// Another entry of the source arrived under this path, and the target has one name for both.
    Merged(Vec<u8>),
    /// It arrived under this name, which is another one for the target.
    Respelled(Vec<u8>),
    /// It arrived under this name, which is the same one for the target.
    SameName(Vec<u8>),
    /// A property has these values at the source and at the target: `kind`, `size`, `links` or `link text`.
    Property(&'static str, String, String),
    Contents,
}

impl CopyDifference {
    /// Reports whether nothing is lost: the target finds the entry under either name.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::SameName(_))
    }

    /// A word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Merged(_) => "merged",
            Self::Respelled(_) => "respelled",
            Self::SameName(_) => "same-name",
            Self::Property(..) => "changed",
            Self::Contents => "contents",
        }
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyCounts {
    /// Entries of the source.
    pub entries: u64,
    /// Entries that arrived, changed or not.
    pub arrived: u64,
    /// Entries that differ, extra ones included.
    pub different: u64,
    /// Entries that have another spelling of the same name.
    pub same_names: u64,
    /// Entries about which nothing can be said, because a directory or a file could not be read.
    pub unknown: u64,
    /// What could not be read.
    pub problems: u64,
}

impl VerifyCounts {
    /// Reports whether everything was read.
    pub fn is_certain(&self) -> bool {
        self.unknown == 0 && self.problems == 0
    }
}

/// Takes a difference: the path below the source, or for an extra entry below the target.
pub type DifferenceSink<'s> = dyn FnMut(&[u8], &CopyDifference) -> io::Result<()> + 's;
