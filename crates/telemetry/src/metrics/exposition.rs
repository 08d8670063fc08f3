//! The text format of Prometheus.
//!
//! Source: the text-based exposition format, version 0.0.4, of Prometheus' documentation, and its rules for names: base units,
//! `_total` for counters.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use super::snapshot::{AuditCounts, RuleCount};

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of one scrape.
pub(super) struct ExpositionPage<'s> {
    /// The text so far.
    pub(super) text: String,
    labels: &'s BTreeMap<String, String>,
}

impl<'s> ExpositionPage<'s> {
    /// Starts a page on which every sample has these labels.
    pub(super) fn new(labels: &'s BTreeMap<String, String>) -> Self {
        Self { text: String::with_capacity(1 << 15), labels }
    }

    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> MetricFamily<'_, 's> {
        self.family(name, "counter", help)
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> MetricFamily<'_, 's> {
        self.family(name, "gauge", help)
    }

    pub(super) fn histogram(&mut self, name: &'static str, help: &str) -> MetricFamily<'_, 's> {
        self.family(name, "histogram", help)
    }

    pub(super) fn family(&mut self, name: &'static str, kind: &str, help: &str) -> MetricFamily<'_, 's> {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        MetricFamily { page: self, name }
    }

    /// Writes which program this is, since when it runs, and until when the page is not outdated, if it is a file.
    pub(super) fn process(&mut self, version: &str, start_seconds: f64, expires: Option<u64>) {
        let help = "Version of namegate, as a label; the value is always 1.";
        self.gauge("namegate_build_info", help).sample(&[("version", version)], 1);
        let help = "Start time of the instance, in seconds since 1970.";
        self.gauge("namegate_start_time_seconds", help).value(start_seconds);
        if let Some(expires) = expires {
            let help = "Time, in seconds since 1970, by which this file should have been written again.";
            self.gauge("namegate_textfile_expires_seconds", help).value(expires);
        }
    }

    /// Writes the names that break the policy: refused ones, and those that were let through.
    pub(super) fn refusals<'c>(
        &mut self,
        refused: impl Iterator<Item = GuardedCounts<'c>>,
        let_through: impl Iterator<Item = GuardedCounts<'c>>,
    ) {
        let help = "Refused names, by operation and violated rule.";
        self.counter("namegate_refusals_total", help).rule_counts(refused);
        let help = "Names that break the policy and were let through, by operation and violated rule.";
        self.counter("namegate_let_through_total", help).rule_counts(let_through);
    }

    /// Writes what happened to audit records.
    pub(super) fn audit(&mut self, audit: AuditCounts) {
        self.counter("namegate_audit_records_total", "Audit records written.").value(audit.recorded);
        let help = "Audit records not written, by reason: record limit of a user (rate), byte limit of a user (bytes), full \
                    queue (queue), failed write (file).";
        let mut dropped = self.counter("namegate_audit_dropped_total", help);
        for (reason, count) in [
            ("rate", audit.dropped_rate),
            ("bytes", audit.dropped_bytes),
            ("queue", audit.dropped_queue),
            ("file", audit.dropped_file),
        ] {
            dropped.sample(&[("reason", reason)], count);
        }
    }
}

/// Counts of names, and the guard that they are of, if it is one.
pub(super) type GuardedCounts<'c> = (Option<&'c str>, &'c Vec<RuleCount>);

/// A metric whose samples are being written.
pub(super) struct MetricFamily<'p, 's> {
    page: &'p mut ExpositionPage<'s>,
    name: &'static str,
}

impl MetricFamily<'_, '_> {
    /// Writes the only sample.
    pub(super) fn value(mut self, value: impl Display) {
        self.sample(&[], value);
    }

    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// Writes a sample of a part of the metric, as histograms have them; the labels of the page come first.
    pub(super) fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let ExpositionPage { text, labels: own } = &mut *self.page;
        let own = own.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let _ = write!(text, "{}{suffix}", self.name);
        let mut before = '{';
        for (label, value) in own.chain(labels.iter().copied()) {
            let _ = write!(text, "{before}{label}=\"");
            escape(text, value);
            text.push('"');
            before = ',';
        }
        if before == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }

    pub(super) fn rule_counts<'c>(&mut self, counts: impl Iterator<Item = GuardedCounts<'c>>) {
        for (guard, counts) in counts {
            for RuleCount { op, rule, count } in counts {
                let rule = rule.as_deref().unwrap_or("reads-as-escape");
                let guard = guard.map(|guard| ("guard", guard)).into_iter();
                let labels: Vec<_> = guard.chain([("op", op.as_str()), ("rule", rule)]).collect();
                self.sample(&labels, count);
            }
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
