//! What a plan says of one name, before its entry is looked up.

use namegate_core::policy::Confidence;
use namegate_core::policy::rule::RuleId;

use crate::plan::Alternative;

/// What a plan says of one name.
#[derive(Debug)]
pub(super) enum NameProposal {
    /// It gets a new name.
    Rename(Proposal),
    /// It breaks a rule and gets no new name.
    Skip(Unplanned),
}

/// A new name for a name.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) old: Vec<u8>,
    pub(super) new: String,
    pub(super) reasons: Vec<RuleId>,
    pub(super) confidence: Confidence,
    pub(super) reading: String,
    pub(super) evidence: Option<String>,
    pub(super) alternatives: Vec<Alternative>,
}

/// A name that breaks a rule, and why it gets no new name.
#[derive(Debug)]
pub(super) struct Unplanned {
    pub(super) name: Vec<u8>,
    pub(super) reasons: Vec<RuleId>,
    pub(super) why: String,
}

/// Reports whether the rule is about names that the target merges, and not only about similar names.
pub(super) fn is_merge_rule(rule: RuleId) -> bool {
    matches!(rule, RuleId::CollisionNormalization | RuleId::CollisionCase)
}
