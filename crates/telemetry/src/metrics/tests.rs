use std::collections::BTreeSet;
use std::thread;

use super::*;

/// The samples of `text`, by name and labels.
fn samples(text: &str) -> Vec<(&str, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series, value.parse().unwrap())
        })
        .collect()
}

fn value(text: &str, series: &str) -> Option<f64> {
    samples(text).into_iter().find(|(name, _)| *name == series).map(|(_, value)| value)
}

#[test]
fn requests_are_counted_by_operation_and_outcome_whatever_thread_serves_them() {
    let metrics = Metrics::default();
    thread::scope(|scope| {
        for _ in 0..2 * SHARDS {
            scope.spawn(|| {
                (0..100).for_each(|_| drop(metrics.begin(Op::Mkdir)));
                metrics.begin(Op::Lookup).failed(Errno::ENOENT);
                metrics.begin(Op::Lookup).failed(Errno::EDOM);
            });
        }
    });
    let snapshot = metrics.snapshot();
    let of = |op: Op| &snapshot.requests[op as usize];
    let many = 2 * SHARDS as u64;
    assert_eq!(of(Op::Mkdir).outcomes, [("ok".into(), 100 * many)].into());
    assert_eq!(of(Op::Lookup).outcomes, [("ENOENT".into(), many), ("other".into(), many)].into());
    assert_eq!((of(Op::Lookup).op.as_str(), of(Op::Lookup).total()), ("lookup", 2 * many));
    assert_eq!((of(Op::Mkdir).duration.count(), of(Op::Rmdir).total()), (100 * many, 0));
    assert!(of(Op::Mkdir).duration.sum_seconds > 0.0);
}

#[test]
fn a_duration_counts_in_the_first_bucket_whose_bound_it_does_not_exceed() {
    let metrics = Metrics::default();
    for nanoseconds in [0, 10_000, 10_001, 1_000_000_000, 1_000_000_001, u64::MAX] {
        metrics.count(Op::Read, 0, Duration::from_nanos(nanoseconds));
    }
    let buckets: Vec<u64> =
        metrics.snapshot().requests[Op::Read as usize].duration.buckets.iter().map(|(_, n)| *n).collect();
    assert_eq!((buckets[0], buckets[1], buckets[13], buckets[14]), (2, 1, 1, 2));
    let text = metrics.render();
    let bucket = |le| {
        value(&text, &format!("namegate_fuse_request_duration_seconds_bucket{{op=\"read\",le=\"{le}\"}}"))
    };
    assert_eq!((bucket("0.00001"), bucket("0.00002")), (Some(2.0), Some(3.0)));
    assert_eq!((bucket("1"), bucket("+Inf")), (Some(4.0), Some(6.0)));
    assert_eq!(value(&text, "namegate_fuse_request_duration_seconds_count{op=\"read\"}"), Some(6.0));
}

#[test]
fn every_operation_rule_and_errno_has_its_own_name() {
    let names: BTreeSet<&str> = Op::ALL.iter().map(|op| op.name()).collect();
    assert_eq!(names.len(), Op::ALL.len());
    assert!(Op::ALL.iter().enumerate().all(|(i, &op)| op as usize == i));
    assert!(RULES.iter().enumerate().all(|(i, rule)| rule.id as usize == i));
    let outcomes: BTreeSet<String> = (0..OUTCOMES).map(outcome_name).collect();
    assert_eq!(outcomes.len(), OUTCOMES);
    assert_eq!(outcome_name(outcome(Errno::EILSEQ)), "EILSEQ");
}

#[test]
fn refusals_are_counted_by_rule_and_operation_and_labels_are_escaped() {
    let metrics = Metrics::default().with_label("mountpoint", "/m\"\n\\ä} 1");
    metrics.refused(Op::Mkdir, Some(RuleId::Truncated));
    metrics.refused(Op::Mkdir, Some(RuleId::Truncated));
    metrics.refused(Op::Rename, None);
    metrics.let_through(Op::Create, Some(RuleId::Overlong));
    let text = metrics.render();
    let own = r#"mountpoint="/m\"\n\\ä} 1""#;
    for (series, count) in [
        (format!("namegate_refusals_total{{{own},op=\"mkdir\",rule=\"truncated\"}}"), 2.0),
        (format!("namegate_refusals_total{{{own},op=\"rename\",rule=\"reads-as-escape\"}}"), 1.0),
        (format!("namegate_let_through_total{{{own},op=\"create\",rule=\"overlong\"}}"), 1.0),
        (format!("namegate_fuse_requests_total{{{own},op=\"mkdir\",outcome=\"ok\"}}"), 0.0),
    ] {
        assert_eq!(value(&text, &series), Some(count), "{series}\n{text}");
    }
}

#[test]
fn a_snapshot_is_the_same_after_serialization() {
    let metrics = Metrics::default().with_label("mountpoint", "/mnt");
    drop(metrics.begin(Op::Open));
    metrics.refused(Op::Link, None);
    metrics.dropped(DropReason::File, 3);
    metrics.reloaded(false);
    metrics.set_permissive(true);
    let gauges = Gauges { inodes: 7, has_passthrough: true, ..Gauges::default() };
    metrics.read_gauges_by(move || Some(gauges));
    let snapshot = metrics.snapshot();
    let read: MetricsSnapshot = serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap();
    assert_eq!(read, snapshot);
    let text = read.render_until(None);
    for (series, expected) in [
        ("namegate_audit_dropped_total{mountpoint=\"/mnt\",reason=\"file\"}", 3.0),
        ("namegate_reloads_total{mountpoint=\"/mnt\",outcome=\"failed\"}", 1.0),
        ("namegate_permissive{mountpoint=\"/mnt\"}", 1.0),
        ("namegate_inodes{mountpoint=\"/mnt\"}", 7.0),
        ("namegate_passthrough_available{mountpoint=\"/mnt\"}", 1.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}");
    }
}
