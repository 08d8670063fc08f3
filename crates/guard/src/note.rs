//! What a guard knows of itself, kept with its table in the kernel: there is no file that could differ from what is in force.

use namegate_core::policy::Policy;
use namegate_core::policy::automaton::Coverage;
use namegate_core::policy::config::{Config, ConfigErrors};
use namegate_core::policy::profile::ProfileRule;
use namegate_files::json::JsonBytes;
use serde::{Deserialize, Serialize};

/// Path and policy of a guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardNote {
    /// The directory, absolute and without links.
    pub path: JsonBytes,
    /// Whether it is the top of the tree, and not a part of a file system that is guarded as a whole.
    pub is_top: bool,
    /// The type of its file system.
    pub filesystem: String,
    /// When the policy was set, by RFC 3339.
    pub since: String,
    /// The names of its profiles.
    pub profiles: Vec<String>,
    /// The policy, as `namegate policy show --format toml` writes it.
    pub policy: String,
}

impl GuardNote {
    /// Encodes the note.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts can be encoded")
    }

    /// Decodes a note.
    ///
    /// # Errors
    /// The bytes are no note.
    pub fn from_bytes(bytes: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(bytes)
    }

    /// The policy.
    ///
    /// # Errors
    /// This version does not know a rule of it.
    pub fn policy(&self) -> Result<Policy, ConfigErrors> {
        Config::parse(&self.policy)?.policy()
    }
}

/// The policy of the rules that a guard checks: for each name that the kernel refuses, it says why.
pub fn covered_policy(policy: &Policy) -> Policy {
    let covered = Coverage::new(policy).covered;
    let rules = covered.iter().map(|rule| ProfileRule::error(rule.test.clone(), "a rule of a guard"));
    let builder = rules.fold(Policy::builder(), |builder, rule| builder.rule(rule));
    builder.build().expect("rules without normalization do not depend on each other")
}
