//! The metrics of a mount as text for Prometheus.

use super::exposition::ExpositionPage;
use super::snapshot::{MetricsSnapshot, OperationCounts};

/// The text of one scrape of a mount.
struct MountPage<'s> {
    page: ExpositionPage<'s>,
    snapshot: &'s MetricsSnapshot,
}

impl MetricsSnapshot {
    /// Renders the metrics as text for Prometheus, of the type `CONTENT_TYPE`, for a file with the time at which it
    /// is outdated.
    pub fn render_until(&self, expires: Option<u64>) -> String {
        let mut mount = MountPage { page: ExpositionPage::new(&self.labels), snapshot: self };
        mount.instance(expires);
        mount.requests();
        let refused = self.refused.iter().map(|count| (None, count));
        mount.page.names(refused, self.let_through.iter().map(|count| (None, count)));
        mount.page.repaired(&self.repaired);
        mount.held();
        mount.page.audit(self.audit);
        mount.page.text
    }
}

impl MountPage<'_> {
    fn instance(&mut self, expires: Option<u64>) {
        let snapshot = self.snapshot;
        self.page.process(&snapshot.version, snapshot.start_seconds, expires);
        self.page.alone(
            "namegate_permissive",
            "gauge",
            "1 if names that break the policy are let through, 0 if they are refused.",
            u8::from(snapshot.is_permissive),
        );
        let name = "namegate_reloads_total";
        self.page.family(
            name,
            "counter",
            "Reloads of the configuration, by outcome; a failed reload changes nothing.",
        );
        self.page.sample(name, &[("outcome", "ok")], snapshot.reloads.succeeded);
        self.page.sample(name, &[("outcome", "failed")], snapshot.reloads.failed);
    }

    fn requests(&mut self) {
        let snapshot = self.snapshot;
        let name = "namegate_fuse_requests_total";
        self.page.family(name, "counter", "FUSE requests, by operation and outcome.");
        for OperationCounts { op, outcomes, .. } in &snapshot.requests {
            // Prometheus sees an increase from zero to one only if the zero was exported.
            if !outcomes.contains_key("ok") {
                self.page.sample(name, &[("op", op), ("outcome", "ok")], 0);
            }
            for (outcome, count) in outcomes {
                self.page.sample(name, &[("op", op), ("outcome", outcome)], count);
            }
        }
        let name = "namegate_fuse_request_duration_seconds";
        self.page.family(
            name,
            "histogram",
            "Time to serve a FUSE request in this process, including its reply.",
        );
        for OperationCounts { op, duration, .. } in &snapshot.requests {
            if duration.count() == 0 {
                continue;
            }
            let mut cumulative = 0;
            for (bound, count) in &duration.buckets {
                cumulative += count;
                let bound = bound.map_or("+Inf".into(), |bound| bound.to_string());
                self.page.sample(&format!("{name}_bucket"), &[("op", op), ("le", &bound)], cumulative);
            }
            self.page.sample(&format!("{name}_sum"), &[("op", op)], duration.sum_seconds);
            self.page.sample(&format!("{name}_count"), &[("op", op)], cumulative);
        }
    }

    fn held(&mut self) {
        let gauges = self.snapshot.gauges;
        for (name, help, value) in [
            ("namegate_inodes", "Inodes in the kernel's cache.", gauges.map(|gauges| gauges.inodes)),
            ("namegate_open_files", "Files that clients have open.", gauges.map(|gauges| gauges.open_files)),
            (
                "namegate_open_directories",
                "Directories that clients have open.",
                gauges.map(|gauges| gauges.open_directories),
            ),
            (
                "namegate_backing_ids",
                "Open files that the kernel reads and writes directly (FUSE passthrough).",
                gauges.map(|gauges| gauges.backing_ids),
            ),
            (
                "namegate_passthrough_available",
                "1 if FUSE passthrough is available and not turned off, 0 if not.",
                gauges.map(|gauges| gauges.has_passthrough.into()),
            ),
            (
                "namegate_pool_threads",
                "Threads for requests that may take long; grows with stuck requests, up to 512.",
                gauges.map(|gauges| gauges.pool_threads),
            ),
            (
                "namegate_queued_requests",
                "Requests waiting for a pool thread or for the turn of their user.",
                gauges.map(|gauges| gauges.queued_requests),
            ),
            (
                "namegate_stuck_requests",
                "Requests in progress for more than one second.",
                gauges.map(|gauges| gauges.stuck_requests),
            ),
        ] {
            self.page.family(name, "gauge", help);
            if let Some(value) = value {
                self.page.sample(name, &[], value);
            }
        }
        let name = "namegate_source_problem";
        self.page.family(
            name,
            "gauge",
            "1 if the source is deleted, detached (unmounted), covered by another mount, read-only since it was mounted, or full.",
        );
        for (problem, is_there) in gauges.iter().flat_map(|gauges| gauges.source.all()) {
            self.page.sample(name, &[("problem", problem)], u8::from(is_there));
        }
        self.page.alone(
            "namegate_passthrough_fallbacks_total",
            "counter",
            "Files opened without FUSE passthrough: their content goes through this process.",
            self.snapshot.fallbacks,
        );
    }
}
