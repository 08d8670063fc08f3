//! `namegate status`: uptime, policy, last reload and counters of an instance.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::iter;
use std::time::Duration;

use indicatif::HumanDuration;
use namegate_core::name::display::harmless;
use namegate_files::json::{self, TypedObject};
use namegate_telemetry::metrics::{MetricsSnapshot, RuleCount};
use serde::Serialize;

use super::format::{FormatArgs, PlainFormat, write_field};
use super::guards::{GuardSummary, known_guards};
use super::instances::{InstanceSelector, ask};
use super::{CliError, ExitStatus};
use crate::service::control::{CacheKind, ControlRequest, InstanceStatus, LastReload};

const EXAMPLES: &str = "\
Examples:
  namegate status
  namegate status share
  namegate status /mnt/share --json | jq .mode

Exit status: 0 the instance is serving; 1 it is serving, but the last reload failed and the previous configuration is still in \
effect; 2 there is no such instance, or it does not answer.";

/// Show the status of a mount: uptime, policy, last reload, counters; as root also the guards in force
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    which: InstanceSelector,
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

pub(super) fn run(args: &StatusArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let found = args.which.find()?;
    let mut status: InstanceStatus = ask(&found, ControlRequest::Status)?;
    // The kernel says whose server it is, and the directory what it is called; what the server says of itself can be a lie.
    (status.name, status.uid) = (found.name().to_string(), found.uid());
    let report = StatusReport { status, guards: known_guards() };
    match args.format.format {
        PlainFormat::Json => json::write_line(out, &TypedObject::new("status", &report))?,
        PlainFormat::Text => text(&report, out)?,
    }
    let has_failed = report.status.last_reload.is_some_and(|reload| reload.outcome.is_err());
    Ok(if has_failed { ExitStatus::Findings } else { ExitStatus::Clean })
}

/// What is printed.
#[derive(Serialize)]
struct StatusReport {
    #[serde(flatten)]
    status: InstanceStatus,
    /// The guards of the machine; for root, if there are some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guards: Vec<GuardSummary>,
}

fn text(StatusReport { status, guards }: &StatusReport, out: &mut dyn Write) -> io::Result<()> {
    let mut field = |name: &str, value: &str| write_field(out, 14, name, &harmless(value));
    let counters = &status.counters;
    let time = Duration::try_from_secs_f64(counters.uptime_seconds).unwrap_or_default();
    field("instance", &status.name)?;
    field("serves", &format!("{} on {}", status.source.shown, status.mountpoint.shown))?;
    let problems = counters.gauges.map(|gauges| gauges.source.names()).unwrap_or_default();
    if !problems.is_empty() {
        field("source", &format!("not as it was mounted: {problems}"))?;
    }
    field("since", &format!("{}, for {}", status.since, HumanDuration(time)))?;
    let by_hand = if status.mode_is_set { ", set by hand" } else { "" };
    field("mode", &format!("{}{by_hand}", status.mode))?;
    field("policy", &status.policy.to_string())?;
    field("transport", &transport(status))?;
    if let Some(CacheKind { kind, since, why_not }) = &status.cache {
        let why = why_not.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        field("cache", &format!("{kind}, since {since}{why}"))?;
    }
    field("existing", &status.existing)?;
    field("errno", &status.errno)?;
    field("file", status.config.as_ref().map_or("none", |file| file.shown.as_str()))?;
    let heads = iter::once("last reload").chain(iter::repeat(""));
    last_reload(status).iter().zip(heads).try_for_each(|(line, head)| field(head, line))?;
    field("requests", &requests(counters))?;
    field("names", &names(counters))?;
    if let Some(gauges) = counters.gauges {
        let held = format!(
            "{} inodes, {} open files, {} open directories",
            gauges.inodes, gauges.open_files, gauges.open_directories
        );
        field("holds", &held)?;
    }
    field("process", &format!("{}, of uid {}, version {}", status.pid, status.uid, status.namegate))?;
    guards.iter().enumerate().try_for_each(|(number, guard)| {
        let GuardSummary { path, mode, refused, audited, .. } = guard;
        let heading = if number == 0 { "guards" } else { "" };
        field(heading, &format!("{}: {mode}, {refused} names refused, {audited} audited", path.shown))
    })
}

/// What carries requests, and what becomes of them when the server dies.
fn transport(status: &InstanceStatus) -> String {
    let fate = match (&status.holder, status.transport.as_str()) {
        (Some(_), _) => "; the mount survives its server",
        (None, "uring") => " (io_uring); requests fail with ECANCELED if the server dies",
        (None, _) => "",
    };
    format!("{}{fate}", status.transport)
}

/// When the configuration was read again, or why that failed, and what waits for the next mount: one line each.
fn last_reload(status: &InstanceStatus) -> Vec<String> {
    let (first, needs_mount) = match &status.last_reload {
        None => {
            let needs_mount = status.holder.as_ref().map_or(&[][..], |holder| &holder.needs_mount);
            ("none since it was mounted", needs_mount)
        }
        Some(LastReload { time, outcome: Ok(reloaded) }) => (time.as_str(), reloaded.needs_mount.as_slice()),
        Some(LastReload { time, outcome: Err(why) }) => {
            let failed = format!("{time}: failed; still running the previous configuration:");
            return iter::once(failed).chain(why.lines().map(str::to_owned)).collect();
        }
    };
    let waiting = needs_mount.iter().map(|line| format!("not before the next mount: {line}"));
    iter::once(first.to_owned()).chain(waiting).collect()
}

fn names(counters: &MetricsSnapshot) -> String {
    let [refused, let_through, encoded] =
        [&counters.refused, &counters.let_through, &counters.encoded].map(|counts| RuleCount::total(counts));
    let encoded = if encoded == 0 { String::new() } else { format!(", {encoded} encoded") };
    format!("{refused} refused, {let_through} let through{encoded}")
}

/// How many there were, and of which operations most.
fn requests(counters: &MetricsSnapshot) -> String {
    const MAX_OPERATIONS: usize = 4;
    let mut by_op: Vec<_> =
        counters.requests.iter().map(|requests| (requests.total(), &requests.op)).collect();
    let total: u64 = by_op.iter().map(|(count, _)| count).sum();
    by_op.sort_by_key(|(count, _)| Reverse(*count));
    let most = by_op.iter().filter(|(count, _)| *count > 0).take(MAX_OPERATIONS);
    let most: Vec<_> = most.map(|(count, op)| format!("{op} {count}")).collect();
    match most.as_slice() {
        [] => "none".into(),
        most => format!("{total}: {}", most.join(", ")),
    }
}
