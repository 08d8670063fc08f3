//! The metrics of a mount: requests by operation and outcome with their durations, refusals, resources, and dropped audit
//! records.
//!
//! Every request is counted, so counting takes no lock, allocates nothing, and threads that count at the same time mostly
//! write to different memory. Reading adds up the parts: a [`MetricsSnapshot`] is not of a single instant, but its counters never
//! decrease. `docs/METRICS.md` describes each metric.

mod exposition;
mod guards;
mod http;
mod outlets;
mod snapshot;
mod text;

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use namegate_core::policy::rule::{RULES, RuleId};
use nix::errno::Errno;

pub(crate) use exposition::CONTENT_TYPE;
pub use guards::{GuardMetrics, GuardValues, HookValues};
pub use outlets::{MetricsOutlets, MetricsSource, OutletSettings, WRITE_INTERVAL};
pub use snapshot::{
    AuditCounts, Gauges, Histogram, MetricsSnapshot, OperationCounts, ReloadCounts, RuleCount, SourceProblems,
};

macro_rules! operations {
    ($($variant:ident $name:literal,)*) => {
        /// A request of the kernel, by its name in the FUSE protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Op {
            $(#[doc = $name] $variant,)*
        }

        impl Op {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The request with this number (`as u8`).
            pub fn by_number(number: u8) -> Option<Self> {
                Self::ALL.get(usize::from(number)).copied()
            }

            /// The name, in lower case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

operations! {
    Lookup "lookup",
    Forget "forget",
    Getattr "getattr",
    Setattr "setattr",
    Readlink "readlink",
    Mknod "mknod",
    Mkdir "mkdir",
    Unlink "unlink",
    Rmdir "rmdir",
    Symlink "symlink",
    Rename "rename",
    Link "link",
    Open "open",
    Create "create",
    Read "read",
    Write "write",
    Flush "flush",
    Release "release",
    Fsync "fsync",
    Opendir "opendir",
    Readdir "readdir",
    Readdirplus "readdirplus",
    Releasedir "releasedir",
    Fsyncdir "fsyncdir",
    Statfs "statfs",
    Setxattr "setxattr",
    Getxattr "getxattr",
    Listxattr "listxattr",
    Removexattr "removexattr",
    Fallocate "fallocate",
    Lseek "lseek",
    CopyFileRange "copy_file_range",
    Ioctl "ioctl",
    Statx "statx",
    Tmpfile "tmpfile",
    Getlk "getlk",
    Setlk "setlk",
}

/// The errors that are counted separately, the most frequent first.
const ERRNOS: &[Errno] = &[
    Errno::ENOENT,
    Errno::ENODATA,
    Errno::EEXIST,
    Errno::EILSEQ,
    Errno::EACCES,
    Errno::EPERM,
    Errno::EINVAL,
    Errno::ENAMETOOLONG,
    Errno::ENOTEMPTY,
    Errno::EOPNOTSUPP,
    Errno::ERANGE,
    Errno::ESTALE,
    Errno::ENOSPC,
    Errno::EDQUOT,
    Errno::EROFS,
    Errno::EIO,
    Errno::EXDEV,
    Errno::EBUSY,
    Errno::EFBIG,
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::ENOMEM,
    Errno::EBADF,
    Errno::ENOTTY,
    Errno::EINTR,
    Errno::ENXIO,
];

/// Success, each separately counted error, and all others.
const OUTCOMES: usize = ERRNOS.len() + 2;

/// Upper bounds of the buckets in nanoseconds, inclusive: from a reply from memory to a disk that hangs.
const BOUNDS: [u64; 14] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
];

/// Number of groups of threads; the threads of a group write to the same memory.
const SHARDS: usize = 8;

/// The counters of one operation for the threads of one shard.
#[derive(Debug)]
struct OperationCounters {
    outcomes: [AtomicU64; OUTCOMES],
    /// The last bucket has no upper bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

/// On separate cache lines: two processors that write to the same line wait for each other.
#[derive(Debug)]
#[repr(align(128))]
struct Shard([OperationCounters; Op::ALL.len()]);

fn zeros<const N: usize>() -> [AtomicU64; N] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

impl Default for Shard {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OperationCounters {
            outcomes: zeros(),
            buckets: zeros(),
            nanoseconds: AtomicU64::new(0),
        }))
    }
}

/// The shard of this thread.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    MINE.with(|mine| *mine)
}

/// Names that were checked, by operation and rule; the index after the rules is for names that break none.
type RuleCounters = Box<[AtomicU64]>;

/// Why an audit record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// One user had too many records.
    Rate,
    /// One user had too many bytes of records.
    Bytes,
    /// The writer was too slow.
    Queue,
    /// The file could not be written.
    File,
}

/// Reads the gauges where they are kept; `None` if their owner is gone.
type GaugeReader = dyn Fn() -> Option<Gauges> + Send + Sync;

/// The metrics of one mount.
pub struct Metrics {
    begun: Instant,
    begun_at: SystemTime,
    /// The labels of all series, which distinguish mounts.
    labels: Vec<(String, String)>,
    shards: Box<[Shard]>,
    refused: RuleCounters,
    let_through: RuleCounters,
    encoded: RuleCounters,
    fallbacks: AtomicU64,
    recorded: AtomicU64,
    dropped: [AtomicU64; 4],
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
    is_permissive: AtomicBool,
    gauges: OnceLock<Box<GaugeReader>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("labels", &self.labels).finish_non_exhaustive()
    }
}

impl Default for Metrics {
    /// All counters are zero.
    fn default() -> Self {
        let by_rule = || (0..Op::ALL.len() * (RULES.len() + 1)).map(|_| AtomicU64::new(0)).collect();
        Self {
            begun: Instant::now(),
            begun_at: SystemTime::now(),
            labels: Vec::new(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            refused: by_rule(),
            let_through: by_rule(),
            encoded: by_rule(),
            fallbacks: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            dropped: zeros(),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
            is_permissive: AtomicBool::new(false),
            gauges: OnceLock::new(),
        }
    }
}

impl Metrics {
    /// Adds a label to every series. `name` is valid by the rules of Prometheus; `value` can be any text, so escape it for
    /// display first if necessary.
    #[must_use]
    pub fn with_label(mut self, name: &str, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    /// Starts to time a request, until the returned value is dropped.
    pub fn begin(&self, op: Op) -> Timing<'_> {
        self.resume(op, Instant::now())
    }

    /// Continues to time a request that began at `begun`, and that another thread has [handed on](Timing::hand_on).
    pub fn resume(&self, op: Op, begun: Instant) -> Timing<'_> {
        Timing { metrics: self, op, outcome: Cell::new(0), is_handed_on: Cell::new(false), begun }
    }

    fn count(&self, op: Op, outcome: usize, took: Duration) {
        let counts = &self.shards[shard()].0[op as usize];
        // Wraps after 584 years.
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|&bound| bound < nanoseconds);
        counts.outcomes[outcome].fetch_add(1, Ordering::Relaxed);
        counts.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        counts.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Counts a refused name; without a rule if it looks like the escape of another name.
    pub fn refused(&self, op: Op, rule: Option<RuleId>) {
        self.refused[index_of(op, rule)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a name that breaks this rule and was let through.
    pub fn let_through(&self, op: Op, rule: Option<RuleId>) {
        self.let_through[index_of(op, rule)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a name that breaks this rule and was stored encoded.
    pub fn encoded(&self, op: Op, rule: Option<RuleId>) {
        self.encoded[index_of(op, rule)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a file whose content goes through this process.
    pub fn fell_back(&self) {
        self.fallbacks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an audit record that was written.
    pub fn recorded(&self, records: u64) {
        self.recorded.fetch_add(records, Ordering::Relaxed);
    }

    /// Counts audit records that were not written.
    pub fn dropped(&self, why: DropReason, records: u64) {
        self.dropped[why as usize].fetch_add(records, Ordering::Relaxed);
    }

    /// Counts a reload; if it failed, the previous configuration stays in effect.
    pub fn reloaded(&self, succeeded: bool) {
        let counter = if succeeded { &self.reloads } else { &self.failed_reloads };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets whether names that break the policy are let through.
    pub fn set_permissive(&self, is_permissive: bool) {
        self.is_permissive.store(is_permissive, Ordering::Relaxed);
    }

    /// Sets the function that reads the gauges. Only the first call has an effect.
    pub fn read_gauges_by(&self, read: impl Fn() -> Option<Gauges> + Send + Sync + 'static) {
        let _ = self.gauges.set(Box::new(read));
    }

    /// All metrics as they are now.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let since_epoch = self.begun_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        MetricsSnapshot {
            namegate: env!("CARGO_PKG_VERSION").into(),
            labels: self.labels.iter().cloned().collect(),
            start_seconds: since_epoch.as_secs_f64(),
            uptime_seconds: self.begun.elapsed().as_secs_f64(),
            is_permissive: self.is_permissive.load(Ordering::Relaxed),
            requests: Op::ALL.iter().map(|&op| self.requests(op)).collect(),
            refused: rule_counts(&self.refused),
            let_through: rule_counts(&self.let_through),
            encoded: rule_counts(&self.encoded),
            gauges: self.gauges.get().and_then(|read| read()),
            fallbacks: of(&self.fallbacks),
            audit: AuditCounts {
                recorded: of(&self.recorded),
                dropped_rate: of(&self.dropped[DropReason::Rate as usize]),
                dropped_bytes: of(&self.dropped[DropReason::Bytes as usize]),
                dropped_queue: of(&self.dropped[DropReason::Queue as usize]),
                dropped_file: of(&self.dropped[DropReason::File as usize]),
            },
            reloads: ReloadCounts { succeeded: of(&self.reloads), failed: of(&self.failed_reloads) },
        }
    }

    fn requests(&self, op: Op) -> OperationCounts {
        let sum = |of: &dyn Fn(&OperationCounters) -> u64| -> u64 {
            self.shards.iter().map(|shard| of(&shard.0[op as usize])).sum()
        };
        let outcomes = (0..OUTCOMES).filter_map(|i| {
            let count = sum(&|counts| counts.outcomes[i].load(Ordering::Relaxed));
            (count > 0).then(|| (outcome_name(i), count))
        });
        let bounds = BOUNDS.iter().map(|&bound| Some(Duration::from_nanos(bound).as_secs_f64()));
        let buckets = bounds.chain([None]).enumerate().map(|(i, bound)| {
            let count = sum(&|counts| counts.buckets[i].load(Ordering::Relaxed));
            (bound, count)
        });
        OperationCounts {
            op: op.name().into(),
            outcomes: outcomes.collect(),
            duration: Histogram {
                buckets: buckets.collect(),
                sum_seconds: Duration::from_nanos(sum(&|counts| counts.nanoseconds.load(Ordering::Relaxed)))
                    .as_secs_f64(),
            },
        }
    }
}

impl MetricsSource for Metrics {
    fn render_until(&self, expires: Option<u64>) -> String {
        self.snapshot().render_until(expires)
    }
}

fn outcome(errno: Errno) -> usize {
    let known = ERRNOS.iter().position(|&known| known == errno);
    1 + known.unwrap_or(ERRNOS.len())
}

fn outcome_name(outcome: usize) -> String {
    match outcome.checked_sub(1) {
        None => "ok".into(),
        Some(error) => ERRNOS.get(error).map_or("other".into(), |errno| format!("{errno:?}")),
    }
}

fn index_of(op: Op, rule: Option<RuleId>) -> usize {
    op as usize * (RULES.len() + 1) + rule.map_or(RULES.len(), |rule| rule as usize)
}

fn rule_counts(counters: &[AtomicU64]) -> Vec<RuleCount> {
    let by_op = Op::ALL.iter().zip(counters.chunks_exact(RULES.len() + 1));
    let all = by_op.flat_map(|(op, counters)| {
        counters.iter().enumerate().map(|(rule, counter)| {
            let rule = RULES.get(rule).map(|rule| rule.name.to_owned());
            RuleCount { op: op.name().into(), rule, count: counter.load(Ordering::Relaxed) }
        })
    });
    all.filter(|names| names.count > 0).collect()
}

/// A request in progress. Dropping it counts the request, as a success unless [`Timing::failed`] was called.
#[derive(Debug)]
#[must_use]
pub struct Timing<'m> {
    metrics: &'m Metrics,
    op: Op,
    outcome: Cell<usize>,
    is_handed_on: Cell<bool>,
    begun: Instant,
}

impl Timing<'_> {
    /// The kind of request.
    pub fn op(&self) -> Op {
        self.op
    }

    /// The time at which the request began.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Leaves counting to the thread that completes the request; returns when the request began.
    pub fn hand_on(&self) -> Instant {
        self.is_handed_on.set(true);
        self.begun
    }

    /// Sets the outcome to this error.
    pub fn failed(&self, errno: Errno) {
        self.outcome.set(outcome(errno));
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        if !self.is_handed_on.get() {
            self.metrics.count(self.op, self.outcome.get(), self.begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests;
