//! The metrics of a mount as text for Prometheus.

use super::exposition::ExpositionPage;
use super::snapshot::{Gauges, MetricsSnapshot, OperationCounts};

/// The gauges: name, help and value.
const GAUGES: [(&str, &str, fn(Gauges) -> u64); 8] = [
    ("namegate_inodes", "Inodes in the kernel's cache.", |gauges| gauges.inodes),
    ("namegate_open_files", "Files that clients have open.", |gauges| gauges.open_files),
    ("namegate_open_directories", "Directories that clients have open.", |gauges| gauges.open_directories),
    (
        "namegate_backing_ids",
        "Open files that the kernel reads and writes directly (FUSE passthrough).",
        |gauges| gauges.backing_ids,
    ),
    (
        "namegate_passthrough_available",
        "1 if FUSE passthrough is available and not turned off, 0 if not.",
        |gauges| gauges.has_passthrough.into(),
    ),
    (
        "namegate_pool_threads",
        "Threads for requests that may take long; grows with stuck requests, up to 512.",
        |gauges| gauges.pool_threads,
    ),
    (
        "namegate_queued_requests",
        "Requests waiting for a pool thread or for the turn of their user.",
        |gauges| gauges.queued_requests,
    ),
    ("namegate_stuck_requests", "Requests in progress for more than one second.", |gauges| {
        gauges.stuck_requests
    }),
];

impl MetricsSnapshot {
    /// Renders the metrics as text for Prometheus, of the type `CONTENT_TYPE`, for a file with the time at which it
    /// is outdated.
    pub fn render_until(&self, expires: Option<u64>) -> String {
        let mut page = ExpositionPage::new(&self.labels);
        page.process(&self.namegate, self.start_seconds, expires);
        let help = "1 if names that break the policy are let through, 0 if they are refused.";
        page.gauge("namegate_permissive", help).value(u8::from(self.is_permissive));
        let help = "Reloads of the configuration, by outcome; a failed reload changes nothing.";
        let mut reloads = page.counter("namegate_reloads_total", help);
        reloads.sample(&[("outcome", "ok")], self.reloads.succeeded);
        reloads.sample(&[("outcome", "failed")], self.reloads.failed);
        self.render_requests(&mut page);
        let unguarded = |counts| std::iter::once((None, counts));
        page.refusals(unguarded(&self.refused), unguarded(&self.let_through));
        let help = "Names that break the policy and were stored encoded, by operation and violated rule.";
        page.counter("namegate_encoded_total", help).rule_counts(unguarded(&self.encoded));
        self.render_gauges(&mut page);
        page.audit(self.audit);
        page.text
    }

    fn render_requests(&self, page: &mut ExpositionPage<'_>) {
        let help = "FUSE requests, by operation and outcome.";
        let mut requests = page.counter("namegate_fuse_requests_total", help);
        for OperationCounts { op, outcomes, .. } in &self.requests {
            // Prometheus sees an increase from zero to one only if the zero was exported.
            if !outcomes.contains_key("ok") {
                requests.sample(&[("op", op), ("outcome", "ok")], 0);
            }
            for (outcome, count) in outcomes {
                requests.sample(&[("op", op), ("outcome", outcome)], count);
            }
        }
        let help = "Time to serve a FUSE request in this process, including its reply.";
        let mut durations = page.histogram("namegate_fuse_request_duration_seconds", help);
        for OperationCounts { op, duration, .. } in &self.requests {
            if duration.count() == 0 {
                continue;
            }
            let mut cumulative = 0;
            for (bound, count) in &duration.buckets {
                cumulative += count;
                let bound = bound.map_or("+Inf".into(), |bound| bound.to_string());
                durations.part("_bucket", &[("op", op), ("le", &bound)], cumulative);
            }
            durations.part("_sum", &[("op", op)], duration.sum_seconds);
            durations.part("_count", &[("op", op)], cumulative);
        }
    }

    fn render_gauges(&self, page: &mut ExpositionPage<'_>) {
        for (name, help, read) in GAUGES {
            let mut gauge = page.gauge(name, help);
            self.gauges.into_iter().for_each(|gauges| gauge.sample(&[], read(gauges)));
        }
        let help = "1 if the source is deleted, detached (unmounted), covered by another mount, read-only since it was mounted, or full.";
        let mut problems = page.gauge("namegate_source_problem", help);
        for (problem, is_there) in self.gauges.iter().flat_map(|gauges| gauges.source.all()) {
            problems.sample(&[("problem", problem)], u8::from(is_there));
        }
        let help = "Files opened without FUSE passthrough: their content goes through this process.";
        page.counter("namegate_passthrough_fallbacks_total", help).value(self.fallbacks);
    }
}
