//! Metrics as text for Prometheus.
//!
//! Source: the text-based exposition format, version 0.0.4, of Prometheus' documentation, and its rules for names: base units,
//! `_total` for counters.

use std::fmt::Write as _;

use super::snapshot::{MetricsSnapshot, OperationCounts, RuleCount};

/// The media type of [`MetricsSnapshot::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of one scrape.
struct ExpositionPage<'s> {
    text: String,
    snapshot: &'s MetricsSnapshot,
}

impl MetricsSnapshot {
    /// Renders the metrics as text for Prometheus, of the type [`CONTENT_TYPE`].
    pub fn render(&self) -> String {
        let mut page = ExpositionPage { text: String::with_capacity(1 << 15), snapshot: self };
        page.instance();
        page.requests();
        page.names();
        page.held();
        page.audit();
        page.text
    }
}

impl ExpositionPage<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one sample; the labels of the mount come first.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let own = self.snapshot.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.text.push_str(name);
        let mut before = '{';
        for (label, value) in own.chain(labels.iter().copied()) {
            let _ = write!(self.text, "{before}{label}=\"");
            escape(&mut self.text, value);
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn alone(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn instance(&mut self) {
        let snapshot = self.snapshot;
        let name = "namegate_build_info";
        self.family(name, "gauge", "Version of namegate, as a label; the value is always 1.");
        self.sample(name, &[("version", &snapshot.version)], 1);
        self.alone(
            "namegate_start_time_seconds",
            "gauge",
            "Start time of the instance, in seconds since 1970.",
            snapshot.start_seconds,
        );
        self.alone(
            "namegate_permissive",
            "gauge",
            "1 if names that break the policy are let through, 0 if they are refused.",
            u8::from(snapshot.is_permissive),
        );
        let name = "namegate_reloads_total";
        self.family(
            name,
            "counter",
            "Reloads of the configuration, by outcome; a failed reload changes nothing.",
        );
        self.sample(name, &[("outcome", "ok")], snapshot.reloads.succeeded);
        self.sample(name, &[("outcome", "failed")], snapshot.reloads.failed);
    }

    fn requests(&mut self) {
        let snapshot = self.snapshot;
        let name = "namegate_fuse_requests_total";
        self.family(name, "counter", "FUSE requests, by operation and outcome.");
        for OperationCounts { op, outcomes, .. } in &snapshot.requests {
            // Prometheus sees an increase from zero to one only if the zero was exported.
            if !outcomes.contains_key("ok") {
                self.sample(name, &[("op", op), ("outcome", "ok")], 0);
            }
            for (outcome, count) in outcomes {
                self.sample(name, &[("op", op), ("outcome", outcome)], count);
            }
        }
        let name = "namegate_fuse_request_duration_seconds";
        self.family(name, "histogram", "Time to serve a FUSE request in this process, including its reply.");
        for OperationCounts { op, duration, .. } in &snapshot.requests {
            if duration.count() == 0 {
                continue;
            }
            let mut cumulative = 0;
            for (bound, count) in &duration.buckets {
                cumulative += count;
                let bound = bound.map_or("+Inf".into(), |bound| bound.to_string());
                self.sample(&format!("{name}_bucket"), &[("op", op), ("le", &bound)], cumulative);
            }
            self.sample(&format!("{name}_sum"), &[("op", op)], duration.sum_seconds);
            self.sample(&format!("{name}_count"), &[("op", op)], cumulative);
        }
    }

    fn names(&mut self) {
        let snapshot = self.snapshot;
        for (name, help, names) in [
            ("namegate_refusals_total", "Refused names, by operation and violated rule.", &snapshot.refused),
            (
                "namegate_let_through_total",
                "Names that break the policy and were let through, by operation and violated rule.",
                &snapshot.let_through,
            ),
        ] {
            self.family(name, "counter", help);
            for RuleCount { op, rule, count } in names {
                let rule = rule.as_deref().unwrap_or("reads-as-escape");
                self.sample(name, &[("op", op), ("rule", rule)], count);
            }
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
            self.family(name, "gauge", help);
            if let Some(value) = value {
                self.sample(name, &[], value);
            }
        }
        self.alone(
            "namegate_passthrough_fallbacks_total",
            "counter",
            "Files opened without FUSE passthrough: their content goes through this process.",
            self.snapshot.fallbacks,
        );
    }

    fn audit(&mut self) {
        let audit = self.snapshot.audit;
        self.alone("namegate_audit_records_total", "counter", "Audit records written.", audit.recorded);
        let name = "namegate_audit_dropped_total";
        self.family(
            name,
            "counter",
            "Audit records not written, by reason: record limit of a user (rate), byte limit of a user (bytes), full queue \
             (queue), failed write (file).",
        );
        for (reason, count) in [
            ("rate", audit.dropped_rate),
            ("bytes", audit.dropped_bytes),
            ("queue", audit.dropped_queue),
            ("file", audit.dropped_file),
        ] {
            self.sample(name, &[("reason", reason)], count);
        }
    }
}

/// Writes the value of a label, escaped for quotation marks.
fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str(r"\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str(r"\n"),
            c => text.push(c),
        }
    }
}
