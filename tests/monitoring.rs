//! Metrics as others read them: Prometheus' own tools check the text, and dashboard, alerts and documentation must match it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use namegate_core::name::Span;
use namegate_core::policy::rule::RULES;
use namegate_telemetry::audit::{AuditOutcome, AuditRecord, Requester};
use namegate_telemetry::metrics::{
    DropReason, Gauges, GuardMetrics, GuardValues, HookValues, Metrics, MetricsSource, Op,
};
use nix::errno::Errno;

/// All metrics with a value, and a label that must be escaped.
fn everything() -> String {
    let metrics = Metrics::default().with_label("mountpoint", "/mnt/\"a\\b\"\nc ä");
    for &op in Op::ALL {
        drop(metrics.begin(op));
        metrics.begin(op).failed(Errno::EILSEQ);
        metrics.refused(op, None);
        RULES.iter().for_each(|rule| metrics.refused(op, Some(rule.id)));
        metrics.let_through(op, Some(RULES[0].id));
        metrics.encoded(op, Some(RULES[0].id));
    }
    metrics.fell_back();
    metrics.recorded(1);
    [DropReason::Rate, DropReason::Bytes, DropReason::Queue, DropReason::File]
        .iter()
        .for_each(|&why| metrics.dropped(why, 2));
    metrics.reloaded(true);
    metrics.read_gauges_by(|| Some(Gauges { inodes: 1, open_files: 2, ..Gauges::default() }));
    metrics.render_until(Some(1_700_000_000))
}

/// The same of guards: of two that have one path, and of one.
fn everything_of_guards() -> String {
    let metrics = GuardMetrics::default();
    let guard = |guard: &str, scope, refused| GuardValues {
        guard: guard.into(),
        scope,
        is_enforcing: refused > 0,
        refused,
        audited: 3,
        lost_events: 1,
    };
    let guards = vec![guard("/srv", "tree", 5), guard("/srv", "tree", 0), guard("/\"b\"\n", "filesystem", 7)];
    metrics.set(guards, vec![HookValues { hook: "inode_create", is_attached: true, missed: 2 }]);
    for (outcome, rule) in [
        (AuditOutcome::Refused, &RULES[0]),
        (AuditOutcome::Refused, &RULES[0]),
        (AuditOutcome::LetThrough, &RULES[1]),
    ] {
        let record = AuditRecord {
            count: 1,
            time: SystemTime::now(),
            outcome,
            operation: "mkdir",
            name: "x".into(),
            target: None,
            parent: None,
            rule: Some(rule.id),
            span: Span::new(0, 1),
            requester: Requester::new(0, 0, 1),
        };
        metrics.count("/srv", &record);
    }
    metrics.render_until(Some(1_700_000_000))
}

/// Names of metrics in the text, with their types.
fn families(text: &str) -> BTreeSet<(&str, &str)> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap()
}

/// Words that look like the name of a metric.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with("namegate_") && *word != "namegate_").collect()
}

/// The output of the program; `None`, after a message, if it is not installed.
fn run(command: &mut Command, input: &str) -> Option<Output> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("SKIPPED: {} is not installed", command.get_program().display());
            return None;
        }
        child => child.unwrap(),
    };
    // A program that reads no input closes it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Some(child.wait_with_output().unwrap())
}

#[track_caller]
fn succeeds(output: Option<Output>) {
    if let Some(output) = output {
        let messages = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{messages}");
    }
}

#[test]
fn a_client_library_of_prometheus_reads_every_series() {
    let script = "
import sys
# Debian keeps it here, which another python3 does not know.
sys.path.append('/usr/lib/python3/dist-packages')
try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    sys.exit(77)
text = sys.stdin.buffer.read().decode()
for family in text_string_to_metric_families(text):
    assert family.documentation, family
    for sample in family.samples:
        assert sample.labels['mountpoint'] == '/mnt/\"a\\\\b\"\\nc ä', sample
        print(family.type, sample.name)
";
    let text = everything();
    let mut command = Command::new("python3");
    command.args(["-c", script]).env("PYTHONIOENCODING", "utf-8");
    let Some(output) = run(&mut command, &text) else { return };
    if output.status.code() == Some(77) {
        return println!("SKIPPED: python3 has no prometheus_client");
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = String::from_utf8(output.stdout).unwrap();
    assert_eq!(read.lines().count(), text.lines().filter(|line| !line.starts_with('#')).count());
    for (name, kind) in families(&text) {
        assert!(
            read.lines().any(|line| line.starts_with(kind) && line.contains(name)),
            "{name} is no {kind} to it"
        );
    }
}

#[test]
fn promtool_finds_nothing_wrong_with_names_types_and_units() {
    succeeds(run(Command::new("promtool").args(["check", "metrics"]), &everything()));
    succeeds(run(Command::new("promtool").args(["check", "metrics"]), &everything_of_guards()));
}

#[test]
fn what_guards_and_their_events_count_is_exported_and_no_series_is_there_twice() {
    let text = everything_of_guards();
    for line in [
        r#"namegate_guard_enforcing{guard="/srv",scope="tree"} 1"#,
        r#"namegate_guard_refused_names_total{guard="/srv",scope="tree"} 5"#,
        r#"namegate_guard_audited_names_total{guard="/srv",scope="tree"} 6"#,
        r#"namegate_guard_lost_events_total{guard="/\"b\"\n",scope="filesystem"} 1"#,
        r#"namegate_guard_hook_attached{hook="inode_create"} 1"#,
        r#"namegate_guard_missed_calls_total{hook="inode_create"} 2"#,
        &format!(r#"namegate_refusals_total{{guard="/srv",op="mkdir",rule="{}"}} 2"#, RULES[0].name),
        &format!(r#"namegate_let_through_total{{guard="/srv",op="mkdir",rule="{}"}} 1"#, RULES[1].name),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let series =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap().0);
    assert_eq!(series.clone().collect::<BTreeSet<_>>().len(), series.count(), "{text}");
}

#[test]
fn the_alert_rules_fire_when_they_should_and_only_then() {
    let rules = file("docs/prometheus-alerts.yml");
    succeeds(run(Command::new("promtool").args(["check", "rules"]).arg(rules), ""));
    succeeds(run(
        Command::new("promtool").args(["test", "rules"]).arg(file("tests/monitoring/alerts.yml")),
        "",
    ));
}

#[test]
fn dashboard_and_alerts_use_metrics_that_exist() {
    let (mount, guards) = (everything(), everything_of_guards());
    let families: BTreeSet<_> = families(&mount).union(&families(&guards)).copied().collect();
    let there_is = |name: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        families.iter().any(|(family, kind)| *family == name && *kind != "histogram")
            || of_histogram.is_some_and(|name| families.contains(&(name, "histogram")))
    };
    for path in ["docs/grafana-dashboard.json", "docs/prometheus-alerts.yml"] {
        let document = read(path);
        let asked = metrics_in(&document);
        assert!(asked.len() > 5, "{path}: {asked:?}");
        for name in asked {
            assert!(there_is(name), "{path} asks for {name}");
        }
    }
}

#[test]
fn the_documentation_has_every_metric_with_its_type_and_labels() {
    let (mount, guards, document) = (everything(), everything_of_guards(), read("docs/METRICS.md"));
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.starts_with("| `namegate_"))
        .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    let described: BTreeSet<(&str, &str)> = rows.iter().map(|row| (row[1], row[2])).collect();
    assert_eq!(described, families(&mount).union(&families(&guards)).copied().collect());
    for row in &rows {
        // Every series of a mount has one label more.
        let (text, common) = if row[1].starts_with("namegate_guard_") { (&guards, 0) } else { (&mount, 1) };
        let labels: BTreeSet<&str> = row[4]
            .split(", ")
            .map(|label| label.trim_matches('`'))
            .filter(|label| !label.is_empty())
            .collect();
        let series = text.lines().find(|line| line.starts_with(&format!("{}{{", row[1])));
        let series = series.or(text.lines().find(|line| line.starts_with(&format!("{}_bucket{{", row[1]))));
        let series = series.unwrap_or_else(|| panic!("no series of {}", row[1]));
        let own: BTreeSet<&str> = series
            .split("=\"")
            .filter_map(|part| part.rsplit(['{', ',']).next())
            .filter(|label| labels.contains(label))
            .collect();
        assert_eq!((own, series.matches("=\"").count()), (labels.clone(), labels.len() + common), "{series}");
    }
}

#[test]
fn every_expression_of_the_dashboard_is_valid() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("docs/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let rules: Vec<String> = targets
        .enumerate()
        .map(|(i, target)| {
            let expr = target["expr"].as_str().unwrap();
            let expr = expr.replace("$__rate_interval", "5m").replace("$__range", "1h");
            let expr = expr.replace("$instance", ".*").replace("$mountpoint", ".*");
            assert!(!expr.contains('$'), "{expr}");
            format!("  - record: r{i}\n    expr: {}\n", serde_json::to_string(&expr).unwrap())
        })
        .collect();
    assert!(rules.len() > 10);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules.yml");
    fs::write(&path, format!("groups:\n- name: dashboard\n  rules:\n{}", rules.concat())).unwrap();
    succeeds(run(Command::new("promtool").args(["check", "rules"]).arg(path), ""));
}
