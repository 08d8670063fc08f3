//! The code points that each version of Unicode assigns.
//!
//! File systems fold and normalize by a fixed Unicode version: HFS+ by 3.2, APFS by 9.0, casefolding ext4 by 12.1. A
//! name with a newer code point is refused there, or stays unfolded. This module does not know the versions of targets.
//! Source: UAX #44, property Age, by the tables of `regex-syntax` (which are cumulative: `\p{Age=9.0}` contains
//! everything assigned in 9.0 *or earlier*, UTS #18 section 1.2.8).

use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;
use regex_syntax::hir::{Class, HirKind};

use super::scalar;

/// The versions of Unicode in the age tables, oldest first: major, minor.
const KNOWN: [(u8, u8); 27] = [
    (1, 1),
    (2, 0),
    (2, 1),
    (3, 0),
    (3, 1),
    (3, 2),
    (4, 0),
    (4, 1),
    (5, 0),
    (5, 1),
    (5, 2),
    (6, 0),
    (6, 1),
    (6, 2),
    (6, 3),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 0),
    (12, 0),
    (12, 1),
    (13, 0),
    (14, 0),
    (15, 0),
    (15, 1),
    (16, 0),
];

/// The code points assigned in one Unicode version.
#[derive(Clone, Debug)]
pub struct AssignedSet {
    /// Inclusive, ascending, disjoint.
    ranges: Box<[(char, char)]>,
    /// One bit for each [`PAGE`] code points: whether all of them are in a range, so that most text needs no search.
    whole_pages: Box<[u64]>,
}

/// Small enough for most scripts to fill one.
const PAGE: u32 = 64;

impl AssignedSet {
    /// Whether `c` was assigned, in time at most logarithmic in the number of ranges (some hundred).
    ///
    /// Private-use code points and noncharacters count as assigned in every version: their use never changes, and
    /// [`scalar::Class`] has classes for them.
    pub fn contains(&self, c: char) -> bool {
        let page = u32::from(c) / PAGE;
        self.whole_pages[page as usize / 64] & 1 << (page % 64) != 0
            || self.ranges.binary_search_by(|&(first, last)| order(first, last, c)).is_ok()
            || is_set_aside(c)
    }
}

fn whole_pages(ranges: &[(char, char)]) -> Box<[u64]> {
    let mut pages = vec![0; (char::MAX as usize + 1) / PAGE as usize / 64];
    for &(first, last) in ranges {
        for page in u32::from(first).div_ceil(PAGE)..(u32::from(last) + 1) / PAGE {
            pages[page as usize / 64] |= 1 << (page % 64);
        }
    }
    pages.into()
}

/// Compares the range `first..=last` with `c`.
fn order(first: char, last: char, c: char) -> std::cmp::Ordering {
    if last < c {
        std::cmp::Ordering::Less
    } else if first > c {
        std::cmp::Ordering::Greater
    } else {
        std::cmp::Ordering::Equal
    }
}

fn is_set_aside(c: char) -> bool {
    scalar::class(c) == Some(scalar::Class::Noncharacter)
        || CodePointMapData::<GeneralCategory>::new().get(c) == GeneralCategory::PrivateUse
}

/// The code points that `version` (major, minor) and earlier ones assign; `None` for a version that the tables do not have.
/// They have all versions from 1.1 to 16.0.
///
/// Builds a table of some kilobytes in a fraction of a millisecond, so keep the result.
///
/// ```
/// use namegate_core::name::age::assigned_by;
/// let apfs = assigned_by((9, 0)).unwrap();
/// assert!(apfs.contains('🥑')); // U+1F951, new in 9.0
/// assert!(!apfs.contains('🦒')); // U+1F992, new in 10.0
/// assert!(assigned_by((9, 1)).is_none());
/// ```
pub fn assigned_by(version: (u8, u8)) -> Option<AssignedSet> {
    if !KNOWN.contains(&version) {
        return None;
    }
    let class = regex_syntax::parse(&format!(r"\p{{Age={}.{}}}", version.0, version.1)).ok()?;
    match class.into_kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let ranges: Box<[_]> = class.iter().map(|range| (range.start(), range.end())).collect();
            Some(AssignedSet { whole_pages: whole_pages(&ranges), ranges })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
