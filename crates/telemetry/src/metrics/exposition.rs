//! The text format of Prometheus.
//!
//! Source: the text-based exposition format, version 0.0.4, of Prometheus' documentation, and its rules for names: base units,
//! `_total` for counters.

use std::collections::BTreeMap;
use std::fmt::Write as _;

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

    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one sample; the labels of the page come first.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let own = self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
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

    /// Writes a family of one sample.
    pub(super) fn alone(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Writes which program this is, since when it runs, and until when the page is not outdated, if it is a file.
    pub(super) fn process(&mut self, version: &str, start_seconds: f64, expires: Option<u64>) {
        let name = "namegate_build_info";
        self.family(name, "gauge", "Version of namegate, as a label; the value is always 1.");
        self.sample(name, &[("version", version)], 1);
        self.alone(
            "namegate_start_time_seconds",
            "gauge",
            "Start time of the instance, in seconds since 1970.",
            start_seconds,
        );
        if let Some(expires) = expires {
            self.alone(
                "namegate_textfile_expires_seconds",
                "gauge",
                "Time, in seconds since 1970, by which this file should have been written again.",
                expires,
            );
        }
    }

    /// Writes the names that break the policy: refused ones, and those that were let through. Each count has labels of its own.
    pub(super) fn names<'c>(
        &mut self,
        refused: impl Iterator<Item = (Option<&'c str>, &'c RuleCount)>,
        let_through: impl Iterator<Item = (Option<&'c str>, &'c RuleCount)>,
    ) {
        let name = "namegate_refusals_total";
        self.family(name, "counter", "Refused names, by operation and violated rule.");
        refused.for_each(|(guard, count)| self.rule_count(name, guard, count));
        let name = "namegate_let_through_total";
        let help = "Names that break the policy and were let through, by operation and violated rule.";
        self.family(name, "counter", help);
        let_through.for_each(|(guard, count)| self.rule_count(name, guard, count));
    }

    /// Writes the names that break the policy and were stored as others.
    pub(super) fn repaired(&mut self, counts: &[RuleCount]) {
        let name = "namegate_repaired_total";
        let help = "Names that break the policy and were stored as others, by operation and violated rule.";
        self.family(name, "counter", help);
        counts.iter().for_each(|count| self.rule_count(name, None, count));
    }

    fn rule_count(&mut self, name: &str, guard: Option<&str>, RuleCount { op, rule, count }: &RuleCount) {
        let rule = rule.as_deref().unwrap_or("reads-as-escape");
        let labels =
            guard.map(|guard| ("guard", guard)).into_iter().chain([("op", op.as_str()), ("rule", rule)]);
        self.sample(name, &labels.collect::<Vec<_>>(), count);
    }

    /// Writes what happened to audit records.
    pub(super) fn audit(&mut self, audit: AuditCounts) {
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
