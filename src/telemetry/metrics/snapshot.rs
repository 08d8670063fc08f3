//! What was counted until one moment, as plain values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What was counted until one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricsSnapshot {
    /// The version of the program.
    pub version: String,
    /// What tells the instance from others.
    pub labels: BTreeMap<String, String>,
    /// When the instance began, in seconds since 1970.
    pub start_seconds: f64,
    /// How long ago that is, in seconds, whatever was done to the clock.
    pub uptime_seconds: f64,
    /// Whether names that break the policy are let through.
    pub is_permissive: bool,
    /// For every operation, in the order of [`Op::ALL`](super::Op::ALL).
    pub requests: Vec<OperationCounts>,
    /// Names that were refused.
    pub refused: Vec<RuleCount>,
    /// Names that break the policy and were let through.
    pub let_through: Vec<RuleCount>,
    /// What is held at the moment, if that is known.
    pub gauges: Option<Gauges>,
    /// Files opened whose content goes through the process.
    pub fallbacks: u64,
    /// Records of the audit.
    pub audit: AuditCounts,
    /// How often the configuration was read again.
    pub reloads: ReloadCounts,
}

/// Requests of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCounts {
    /// The operation.
    pub op: String,
    /// How many ended so: `ok`, an errno, or `other`; only what there was.
    pub outcomes: BTreeMap<String, u64>,
    /// How long they took, the reply included.
    pub duration: Histogram,
}

impl OperationCounts {
    /// How many there were.
    pub fn total(&self) -> u64 {
        self.outcomes.values().sum()
    }
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// How many took up to so many seconds, and longer than the bucket before; the last has no bound.
    pub buckets: Vec<(Option<f64>, u64)>,
    /// All together.
    pub sum_seconds: f64,
}

impl Histogram {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

/// Names that broke one rule in one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    /// The operation.
    pub op: String,
    /// The rule's id; `None` for names that read like the escape of another.
    pub rule: Option<String>,
    /// How many.
    pub count: u64,
}

/// What is held at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauges {
    /// Inodes that the kernel knows of.
    pub inodes: u64,
    /// Open files.
    pub open_files: u64,
    /// Open directories.
    pub open_directories: u64,
    /// Files that are registered with the kernel, which reads and writes them by itself.
    pub backing_ids: u64,
    /// Whether the kernel offers that.
    pub has_passthrough: bool,
    /// Threads for requests that may take long.
    #[serde(default)]
    pub pool_threads: u64,
    /// Requests that wait for one of them.
    #[serde(default)]
    pub queued_requests: u64,
    /// Requests that have been in work for more than a second.
    #[serde(default)]
    pub stuck_requests: u64,
}

/// Records of the audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditCounts {
    /// Written.
    pub recorded: u64,
    /// Not written, because one user had too many.
    pub dropped_rate: u64,
    /// Not written, because one user had too many bytes of them.
    #[serde(default)]
    pub dropped_bytes: u64,
    /// Not written, because the writer was too far behind.
    pub dropped_queue: u64,
    /// Not in the file, because it did not take them.
    pub dropped_file: u64,
}

/// How often the configuration was read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadCounts {
    /// And holds.
    pub succeeded: u64,
    /// And was no good.
    pub failed: u64,
}
