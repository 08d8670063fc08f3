//! The metrics of guards, which the reader of their events exports.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use super::exposition::{ExpositionPage, GuardedCounts};
use super::{Metrics, MetricsSource, RuleCount};
use crate::audit::{AuditOutcome, AuditRecord};

/// What a guard has counted in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardValues {
    /// Its directory, escaped for display.
    pub guard: String,
    /// `tree` or `filesystem`.
    pub scope: &'static str,
    /// Whether it refuses names.
    pub is_enforcing: bool,
    /// Names that were refused.
    pub refused: u64,
    /// Names that were reported and allowed.
    pub audited: u64,
    /// Of both, those whose event found no room.
    pub lost_events: u64,
}

/// A security hook and its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookValues {
    pub hook: &'static str,
    /// Whether the program is there.
    pub is_attached: bool,
    /// How many times the kernel skipped the program.
    pub missed: u64,
}

/// Counts the events of guards, and holds what the guards have counted.
#[derive(Debug, Default)]
pub struct GuardMetrics {
    /// Counts the audit records.
    pub audit: Arc<Metrics>,
    state: Mutex<GuardState>,
}

#[derive(Debug, Default)]
struct GuardState {
    guards: Vec<GuardValues>,
    hooks: Vec<HookValues>,
    /// Names by guard; the second by operation and rule.
    refused: NameCounts,
    let_through: NameCounts,
}

type NameCounts = BTreeMap<String, Vec<RuleCount>>;

impl GuardMetrics {
    /// Counts an event of `guard`, a directory, escaped for display.
    pub fn count(&self, guard: &str, record: &AuditRecord) {
        let mut state = self.state.lock();
        let counts = match record.outcome {
            AuditOutcome::LetThrough => &mut state.let_through,
            _ => &mut state.refused,
        };
        let counts = match counts.get_mut(guard) {
            Some(counts) => counts,
            None => counts.entry(guard.to_owned()).or_default(),
        };
        let rule = record.rule.map(|rule| rule.name());
        let is_it = |count: &&mut RuleCount| count.op == record.operation && count.rule.as_deref() == rule;
        match counts.iter_mut().find(is_it) {
            Some(count) => count.count += 1,
            None => counts.push(RuleCount {
                op: record.operation.into(),
                rule: rule.map(str::to_owned),
                count: 1,
            }),
        }
    }

    /// Replaces what the guards have counted.
    pub fn set(&self, guards: Vec<GuardValues>, hooks: Vec<HookValues>) {
        let mut state = self.state.lock();
        (state.guards, state.hooks) = (guards, hooks);
    }
}

impl MetricsSource for GuardMetrics {
    fn render_until(&self, expires: Option<u64>) -> String {
        let (labels, process) = (BTreeMap::new(), self.audit.snapshot());
        let mut page = ExpositionPage::new(&labels);
        page.process(&process.namegate, process.start_seconds, expires);
        let state = self.state.lock();
        state.guards(&mut page);
        state.hooks(&mut page);
        page.refusals(by_guard(&state.refused), by_guard(&state.let_through));
        page.audit(process.audit);
        page.text
    }
}

fn by_guard(counts: &NameCounts) -> impl Iterator<Item = GuardedCounts<'_>> {
    counts.iter().map(|(guard, counts)| (Some(guard.as_str()), counts))
}

impl GuardState {
    fn guards(&self, page: &mut ExpositionPage<'_>) {
        // A guard whose file system was unmounted can be beside a new one of the same path.
        let mut guards = BTreeMap::<(&str, &str), GuardValues>::new();
        for guard in &self.guards {
            guards
                .entry((&guard.guard, guard.scope))
                .and_modify(|sum| {
                    sum.is_enforcing |= guard.is_enforcing;
                    sum.refused += guard.refused;
                    sum.audited += guard.audited;
                    sum.lost_events += guard.lost_events;
                })
                .or_insert_with(|| guard.clone());
        }
        for (name, kind, help, value) in [
            (
                "namegate_guard_enforcing",
                "gauge",
                "1 if the guard refuses names that break its policy, 0 if it reports them.",
                (|guard| guard.is_enforcing.into()) as fn(&GuardValues) -> u64,
            ),
            ("namegate_guard_refused_names_total", "counter", "Names that the kernel refused.", |guard| {
                guard.refused
            }),
            (
                "namegate_guard_audited_names_total",
                "counter",
                "Names that break the policy and that the kernel allowed.",
                |guard| guard.audited,
            ),
            (
                "namegate_guard_lost_events_total",
                "counter",
                "Refused and audited names whose event found no room in the buffer.",
                |guard| guard.lost_events,
            ),
        ] {
            let mut family = page.family(name, kind, help);
            for ((path, scope), guard) in &guards {
                family.sample(&[("guard", path), ("scope", scope)], value(guard));
            }
        }
    }

    fn hooks(&self, page: &mut ExpositionPage<'_>) {
        let help = "1 if the program of the security hook is there, 0 if it was removed.";
        let mut attached = page.gauge("namegate_guard_hook_attached", help);
        for hook in &self.hooks {
            attached.sample(&[("hook", hook.hook)], u8::from(hook.is_attached));
        }
        let help = "Calls of the security hook for which the kernel skipped the program.";
        let mut missed = page.counter("namegate_guard_missed_calls_total", help);
        for hook in &self.hooks {
            missed.sample(&[("hook", hook.hook)], hook.missed);
        }
    }
}
