//! What a run is asked to do, and what it did.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use namegate_core::policy::{Confidence, Policy};

use crate::journal::JournalHeader;
use crate::plan::Retarget;
use crate::roots::PlanRoots;
use crate::stored_plan::StoredPlan;

/// How a plan is applied.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions<'p> {
    /// The policy for new names; without it only their bytes are compared.
    pub policy: Option<&'p Policy>,
    /// Leave out renames that are less certain.
    pub at_least: Confidence,
    /// Keep the times of directories.
    pub keep_times: bool,
    /// Keep the original names in an attribute.
    pub keep_original: bool,
    /// The number of renames in a batch.
    pub batch_size: usize,
}

impl<'p> ApplyOptions<'p> {
    /// The options with which the run of a journal was begun.
    pub fn new(header: &JournalHeader, policy: Option<&'p Policy>, batch_size: usize) -> Self {
        let &JournalHeader { at_least, keep_times, keep_original, .. } = header;
        Self { policy, at_least, keep_times, keep_original, batch_size }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyTally {
    /// Entries that this run renamed, or would rename.
    pub renamed: u64,
    /// Links that this run retargeted, or would retarget.
    pub retargeted: u64,
    /// Lines of the plan that were done before.
    pub already: u64,
    /// Lines of the plan that remain.
    pub remaining: u64,
    /// Lines of the plan that are less certain than requested.
    pub left_out: u64,
    /// The run was stopped before the end of the plan.
    pub is_interrupted: bool,
    /// How many original names could not be kept, by reason.
    pub not_kept: BTreeMap<&'static str, u64>,
}

/// The links of a plan by directory and name.
pub(super) type LinksByName<'p> = HashMap<(&'p [u8], &'p [u8]), &'p Retarget>;

/// A plan that is applied.
pub(super) struct ApplyRun<'r> {
    pub(super) plan: &'r StoredPlan,
    pub(super) roots: Arc<PlanRoots>,
    pub(super) links: LinksByName<'r>,
    pub(super) options: ApplyOptions<'r>,
}

impl<'r> ApplyRun<'r> {
    pub(super) fn new(plan: &'r StoredPlan, roots: PlanRoots, options: ApplyOptions<'r>) -> Self {
        let links = plan.retargets.iter().map(|link| ((&*link.directory.path, &*link.name), link)).collect();
        Self { plan, roots: Arc::new(roots), links, options }
    }
}
