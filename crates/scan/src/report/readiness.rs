//! Readiness of names for one target: how many it refuses, merges or changes, how many paths are too long, and how many only
//! warn.

use std::collections::BTreeMap;
use std::fmt;

use namegate_core::policy::Violation;
use namegate_core::policy::profile::{Profile, ProfileSet};
use namegate_core::policy::rule::{RULES, RuleId, RuleKind};
use namegate_findings::record::ReportedName;
use serde::{Deserialize, Serialize};

/// What one target does with the names of a run. Each name with a violation counts in one column, that of its gravest
/// [`Fate`]; a name in no column arrives unchanged.
#[derive(Clone, Debug)]
pub struct Readiness {
    pub target: &'static Profile,
    as_set: ProfileSet,
    /// For each rule: whether the target stores or shows a name that breaks it as another one.
    stores_otherwise: Vec<bool>,
    pub counts: TargetCounts,
    /// Number of names per rule that they break.
    pub rules: BTreeMap<RuleId, u64>,
}

/// Names by their gravest [`Fate`], and those with an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetCounts {
    /// Names that the target refuses.
    pub refused: u64,
    /// Names that the target stores or shows as others.
    pub changed: u64,
    /// Names that become the same as another name of their directory.
    pub merged: u64,
    /// Names whose path is too long for the target, or for some of its programs.
    #[serde(rename = "path_too_long")]
    pub too_long: u64,
    /// Names that programs of the target skip on purpose, whatever else is wrong with them.
    pub left_behind: u64,
    /// Names with an error; each counts once.
    pub rejected: u64,
    /// Names that arrive unchanged, with a warning.
    pub warned: u64,
}

impl TargetCounts {
    fn add(&mut self, part: Self) {
        self.refused += part.refused;
        self.changed += part.changed;
        self.merged += part.merged;
        self.too_long += part.too_long;
        self.left_behind += part.left_behind;
        self.rejected += part.rejected;
        self.warned += part.warned;
    }

    /// Names that do not arrive unchanged and without a warning.
    fn all(self) -> u64 {
        self.refused + self.changed + self.merged + self.too_long + self.left_behind + self.warned
    }
}

/// What happens to a name on a target, the gravest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The name arrives unchanged, with a warning.
    Warned,
    /// The name arrives unchanged; some programs of the target cannot handle its path.
    LongPath,
    /// The target stores or shows another name.
    Changed,
    /// The name becomes the same as another name of its directory.
    Merged,
    /// The path is longer than the target allows.
    PathTooLong,
    /// The target refuses the name.
    Refused,
    /// Programs of the target skip the file, so nothing else happens to it.
    LeftBehind,
}

impl Fate {
    /// Reports whether the name arrives as it is, or is not meant to arrive.
    pub(crate) fn is_harmless(self) -> bool {
        self < Self::Changed || self == Self::LeftBehind
    }
}

/// Whether a tree can be moved to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadinessVerdict {
    /// Every name arrives unchanged.
    Ready,
    /// Every name arrives unchanged, but there are warnings.
    Doubtful,
    /// Every name arrives unchanged if it was read in the right encoding, which is only a guess.
    Uncertain,
    /// Every name that was checked arrives unchanged, but not all names were checked.
    Incomplete,
    /// At least one name does not arrive unchanged.
    NotReady,
}

impl ReadinessVerdict {
    /// `ready`, `doubtful`, `uncertain`, `incomplete` or `not-ready`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Doubtful => "doubtful",
            Self::Uncertain => "uncertain",
            Self::Incomplete => "incomplete",
            Self::NotReady => "not-ready",
        }
    }

    /// The verdict for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Doubtful => "ready, with warnings",
            Self::Uncertain => "uncertain",
            Self::Incomplete => "incomplete",
            Self::NotReady => "not ready",
        }
    }
}

impl fmt::Display for ReadinessVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

// A set of rules is a bit for each.
const _: () = assert!(RULES.len() <= u64::BITS as usize);

impl Readiness {
    /// Creates a count of zero.
    pub fn new(target: &'static Profile) -> Self {
        Self {
            target,
            as_set: ProfileSet::from_profile(target),
            stores_otherwise: RULES.iter().map(|rule| target.stores_otherwise(rule.id)).collect(),
            counts: TargetCounts::default(),
            rules: BTreeMap::new(),
        }
    }

    /// What the target does with a name that has this violation; `None` if the target does not object.
    pub fn fate(&self, violation: &Violation) -> Option<Fate> {
        if !violation.profiles.contains(self.as_set) {
            return None;
        }
        let refuses = self.refuses(violation);
        if violation.rule == RuleId::LeftBehind && violation.is_certain {
            return Some(Fate::LeftBehind);
        }
        Some(match violation.rule.rule().kind {
            // Names that only look alike stay two names, and of a file and a directory one is refused.
            RuleKind::Directory
                if !matches!(violation.rule, RuleId::CollisionConfusable | RuleId::CollisionKind) =>
            {
                Fate::Merged
            }
            RuleKind::Path if refuses => Fate::PathTooLong,
            RuleKind::Path => Fate::LongPath,
            _ if self.stores_otherwise[violation.rule as usize] => Fate::Changed,
            _ if refuses => Fate::Refused,
            _ => Fate::Warned,
        })
    }

    fn refuses(&self, violation: &Violation) -> bool {
        violation.refused_by.contains(self.as_set)
    }

    /// Counts a record, and returns the gravest fate of its name. What a baseline accepts happens on the target all the same.
    pub fn count(&mut self, record: &ReportedName) -> Option<Fate> {
        let (mut gravest, mut is_rejected, mut counted) = (None, false, 0_u64);
        for violation in record.violations() {
            let Some(fate) = self.fate(violation) else { continue };
            gravest = gravest.max(Some(fate));
            is_rejected |= self.refuses(violation);
            let bit = 1 << violation.rule as u32;
            if counted & bit == 0 {
                counted |= bit;
                *self.rules.entry(violation.rule).or_default() += 1;
            }
        }
        let fate = gravest?;
        let counts = &mut self.counts;
        counts.rejected += u64::from(is_rejected && fate != Fate::LeftBehind);
        *match fate {
            Fate::Warned => &mut counts.warned,
            Fate::LongPath | Fate::PathTooLong => &mut counts.too_long,
            Fate::Changed => &mut counts.changed,
            Fate::Merged => &mut counts.merged,
            Fate::Refused => &mut counts.refused,
            Fate::LeftBehind => &mut counts.left_behind,
        } += 1;
        Some(fate)
    }

    /// Adds the counts of another part of the run for the same target.
    pub fn add(&mut self, part: Self) {
        self.counts.add(part.counts);
        for (rule, count) in part.rules {
            *self.rules.entry(rule).or_default() += count;
        }
    }

    /// How many of `names` names arrive unchanged, without a warning.
    pub fn ready(&self, names: u64) -> u64 {
        names.saturating_sub(self.counts.all())
    }

    /// The verdict about the counted names; `is_complete`: they are all names.
    pub fn verdict(&self, is_complete: bool) -> ReadinessVerdict {
        let TargetCounts { rejected, changed, merged, too_long, warned, .. } = self.counts;
        if rejected + changed + merged > 0 {
            ReadinessVerdict::NotReady
        } else if !is_complete {
            ReadinessVerdict::Incomplete
        } else if too_long + warned > 0 {
            ReadinessVerdict::Doubtful
        } else {
            ReadinessVerdict::Ready
        }
    }
}
