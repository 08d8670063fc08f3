//! The metrics at one moment, as plain values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The metrics at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricsSnapshot {
    /// The version of the program.
    pub namegate: String,
    pub labels: BTreeMap<String, String>,
    /// Start time, in seconds since 1970.
    pub start_seconds: f64,
    /// Uptime in seconds, independent of changes to the clock.
    pub uptime_seconds: f64,
    /// Whether names that break the policy are let through.
    pub is_permissive: bool,
    /// The requests of each operation, in the order of [`Op::ALL`](super::Op::ALL).
    pub requests: Vec<OperationCounts>,
    /// Refused names.
    pub refused: Vec<RuleCount>,
    /// Names that break the policy and were let through.
    pub let_through: Vec<RuleCount>,
    /// Names that break the policy and were stored encoded.
    #[serde(default)]
    pub encoded: Vec<RuleCount>,
    /// Current use of resources, if known.
    pub gauges: Option<Gauges>,
    /// Number of files opened whose content goes through the process.
    pub fallbacks: u64,
    /// Audit records.
    pub audit: AuditCounts,
    /// Reloads of the configuration.
    pub reloads: ReloadCounts,
}

/// Requests of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCounts {
    pub op: String,
    /// Number of requests per outcome: `ok`, an errno, or `other`; only outcomes that occurred.
    pub outcomes: BTreeMap<String, u64>,
    /// Their durations, including the reply.
    pub duration: Histogram,
}

impl OperationCounts {
    /// Number of requests.
    pub fn total(&self) -> u64 {
        self.outcomes.values().sum()
    }
}

/// A distribution of durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Upper bound in seconds and number of durations above the previous bound; the last bucket has no bound.
    pub buckets: Vec<(Option<f64>, u64)>,
    pub sum_seconds: f64,
}

impl Histogram {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

/// Number of names that broke one rule in one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    pub op: String,
    /// Id of the rule; `None` for names that look like the escape of another name.
    pub rule: Option<String>,
    /// Number of names.
    pub count: u64,
}

impl RuleCount {
    /// The number of names in all `counts`.
    pub fn total(counts: &[Self]) -> u64 {
        counts.iter().map(|counted| counted.count).sum()
    }
}

/// Current use of resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauges {
    /// Inodes in the kernel's cache.
    pub inodes: u64,
    /// Files that clients have open.
    pub open_files: u64,
    /// Directories that clients have open.
    pub open_directories: u64,
    /// Open files that the kernel reads and writes directly (FUSE passthrough).
    pub backing_ids: u64,
    /// Whether FUSE passthrough is available.
    pub has_passthrough: bool,
    /// Threads for requests that may take long.
    #[serde(default)]
    pub pool_threads: u64,
    /// Requests that wait for such a thread.
    #[serde(default)]
    pub queued_requests: u64,
    /// Requests in progress for more than one second.
    #[serde(default)]
    pub stuck_requests: u64,
    /// What is wrong with the source.
    #[serde(default)]
    pub source: SourceProblems,
}

/// What can be wrong with the source of a mount: what clients see is not what they expect there, or cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceProblems {
    /// The directory was removed.
    pub deleted: bool,
    /// Its file system was unmounted (`umount -l`), and is served all the same.
    pub detached: bool,
    /// Another file system was mounted over it, or over a directory above it.
    pub covered: bool,
    /// It has become read-only, by a remount or after an error.
    pub read_only: bool,
    /// It has no space or no inodes left for users other than root.
    pub full: bool,
}

impl SourceProblems {
    /// Each problem with its name, and whether it is there.
    pub fn all(self) -> [(&'static str, bool); 5] {
        let Self { deleted, detached, covered, read_only, full } = self;
        [
            ("deleted", deleted),
            ("detached", detached),
            ("covered", covered),
            ("read-only", read_only),
            ("full", full),
        ]
    }

    /// The names of the problems that are there, with commas; empty if there is none.
    pub fn names(self) -> String {
        let there = self.all().into_iter().filter(|(_, is_there)| *is_there);
        there.map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    }
}

/// Numbers of audit records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditCounts {
    /// Written.
    pub recorded: u64,
    /// Not written: one user had too many records.
    pub dropped_rate: u64,
    /// Not written: one user had too many bytes of records.
    #[serde(default)]
    pub dropped_bytes: u64,
    /// Not written: the writer was too slow.
    pub dropped_queue: u64,
    /// Not written: the file could not be written.
    pub dropped_file: u64,
}

/// Numbers of reloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadCounts {
    pub succeeded: u64,
    pub failed: u64,
}
