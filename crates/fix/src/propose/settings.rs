//! What a plan is asked for besides the policy.

use namegate_core::name::reading::Encoding;

use super::conversion::NameConversion;
use crate::plan::path_in;

/// Settings that are no part of the policy.
#[derive(Clone, Debug, Default)]
pub struct PlanSettings {
    /// The encoding of names that are not UTF-8; guessed for each directory if `None`.
    pub encoding: Option<Encoding>,
    /// What is done with all names.
    pub conversion: NameConversion,
    /// The prefix of all paths on the target, without a separator at its end. It counts for path lengths.
    pub prefix: Vec<u8>,
}

impl PlanSettings {
    /// The path on the target of an entry with this path below its root.
    pub(super) fn target_path(&self, below_root: &[u8]) -> Vec<u8> {
        let below_root = below_root.strip_prefix(b"/").unwrap_or(below_root);
        if self.prefix.is_empty() { below_root.to_vec() } else { path_in(&self.prefix, below_root) }
    }
}
