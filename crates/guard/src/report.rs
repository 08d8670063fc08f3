//! What there is to say about the guards in force.

use std::path::PathBuf;

use namegate_core::policy::Policy;
use namegate_core::policy::automaton::Coverage;
use namegate_files::json::JsonBytes;
use namegate_telemetry::metrics::{GuardValues, HookValues};
use serde::Serialize;

use super::guards::{GuardCounts, GuardError, Guards, SlotGuard};
use super::note::GuardNote;
use super::target::GuardTarget;

/// All guards in force.
#[derive(Debug, Serialize)]
pub struct GuardsReport {
    pub guards: Vec<GuardReport>,
    /// The hooks, if there is a guard.
    pub hooks: Vec<HookValues>,
}

#[derive(Debug, Serialize)]
pub struct GuardReport {
    /// Its directory, as it was when the guard was turned on.
    pub path: JsonBytes,
    /// The type of the file system.
    pub filesystem: String,
    /// `tree` or `filesystem`.
    pub scope: &'static str,
    /// `enforcing` or `audit`.
    pub mode: &'static str,
    /// The errno for refused names.
    pub errno: Option<String>,
    /// When the policy was set, by RFC 3339.
    pub since: String,
    pub profiles: Vec<String>,
    /// The rules of the policy that the kernel does not check.
    pub unchecked_rules: Vec<&'static str>,
    /// Whether the path still leads to the directory.
    pub is_reachable: bool,
    /// Whether the guard has ended, because its file system was unmounted.
    pub has_ended: bool,
    /// What the guard has counted.
    pub counts: GuardCounts,
}

impl GuardsReport {
    /// Reads the guards, and follows their paths.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn read() -> Result<Self, GuardError> {
        let Some(guards) = Guards::open()? else {
            return Ok(Self { guards: Vec::new(), hooks: Vec::new() });
        };
        let (list, missed) = (guards.list()?, guards.missed());
        // A path can lead to a file system that does not answer: others must not wait for the lock so long.
        drop(guards);
        Ok(Self { guards: list.iter().map(GuardReport::new).collect(), hooks: hook_values(missed) })
    }

    /// Whether all guards are in force, where they were turned on.
    pub fn is_good(&self) -> bool {
        !self.guards.is_empty()
            && self.guards.iter().all(|guard| guard.is_reachable)
            && self.hooks.iter().all(|hook| hook.is_attached)
    }
}

impl GuardReport {
    fn new(guard: &SlotGuard) -> Self {
        let note = GuardNote::from_bytes(&guard.note).ok();
        let policy = note.as_ref().and_then(|note| note.policy().ok());
        let left_out =
            |policy: &Policy| Coverage::new(policy).left_out.iter().map(|left| left.rule.name()).collect();
        let scope = guard.scope;
        let is_at = |path: PathBuf| GuardTarget::is_at(&path, &scope);
        let is_reachable = !guard.has_ended && guard.path().is_some_and(is_at);
        let unchecked_rules = policy.as_ref().map(left_out).unwrap_or_default();
        let (path, filesystem, since, profiles) =
            note.map(|note| (note.path, note.filesystem, note.since, note.profiles)).unwrap_or_default();
        Self {
            path,
            filesystem,
            scope: scope.extent(),
            mode: scope.mode(),
            errno: scope.refusal.map(|errno| format!("{errno:?}")),
            since,
            profiles,
            unchecked_rules,
            is_reachable,
            has_ended: guard.has_ended,
            counts: guard.counts,
        }
    }
}

/// The guards and their hooks, as metrics.
pub fn metric_values(guards: &Guards, list: &[SlotGuard]) -> (Vec<GuardValues>, Vec<HookValues>) {
    let guard = |guard: &SlotGuard| GuardValues {
        guard: GuardNote::from_bytes(&guard.note).map(|note| note.path.shown).unwrap_or_default(),
        scope: guard.scope.extent(),
        is_enforcing: guard.scope.refusal.is_some() && !guard.has_ended,
        refused: guard.counts.refused,
        audited: guard.counts.audited,
        lost_events: guard.counts.lost,
    };
    (list.iter().map(guard).collect(), hook_values(guards.missed()))
}

fn hook_values(missed: Vec<(&'static str, Option<u64>)>) -> Vec<HookValues> {
    let values = missed.into_iter().map(|(hook, missed)| HookValues {
        hook,
        is_attached: missed.is_some(),
        missed: missed.unwrap_or(0),
    });
    values.collect()
}
