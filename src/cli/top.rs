//! `namegate top`: what an instance does at the moment.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use namegate_core::name::display::harmless;
use namegate_scan::report::layout::BOLD;
use namegate_telemetry::audit::RecentRefusal;
use namegate_telemetry::metrics::{MetricsSnapshot, OperationCounts, RuleCount};
use unicode_width::UnicodeWidthChar;

use super::guards::{GuardSummary, known_guards, read_guards};
use super::instances::{InstanceSelector, ask, user};
use super::{CliError, ExitStatus};
use crate::service::control::{ControlRequest, FoundSocket, InstanceCounters};

const EXAMPLES: &str = "\
The view ends with Ctrl-C, or when the instance ends. WHO and WHERE count the last 64 recorded refusals.

Examples:
  namegate top
  namegate top share --interval 5
  namegate top share --once >load.txt

Exit status: 0 the instance has ended, or --once is done; 2 there is no such instance, or it does not answer.";

/// Show live activity of a mount: operations per second, refusals, users and directories; as root also of guards
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TopArgs {
    #[command(flatten)]
    which: InstanceSelector,
    /// Print one view and exit, as when the output is not a terminal
    #[arg(long)]
    once: bool,
    /// Seconds between two views
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let is_good =
        |duration: &Duration| (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(duration);
    seconds.filter(is_good).ok_or("not a number of seconds from 0.1 to 3600")
}

/// What was counted, and when.
struct TopReading {
    at: Instant,
    counters: InstanceCounters,
    guards: Vec<GuardSummary>,
}

pub(super) fn run(args: &TopArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let found = args.which.find()?;
    let read = |found: &FoundSocket, guards: Vec<GuardSummary>| {
        let counters: InstanceCounters = ask(found, ControlRequest::Counters)?;
        Ok(TopReading { at: Instant::now(), counters, guards })
    };
    let is_once = args.once || !io::stdout().is_terminal();
    let mut before = read(&found, known_guards())?;
    loop {
        thread::sleep(args.interval);
        // Why guards cannot be read was logged with the first reading.
        let now = match read(&found, read_guards().unwrap_or_default()) {
            Ok(now) => now,
            Err(trouble) if is_once => return Err(trouble),
            // It was there, and has ended.
            Err(_) => return Ok(ExitStatus::Clean),
        };
        if is_once {
            frame(&before, &now, ViewSize { columns: usize::MAX, rows: usize::MAX }, out)?;
            return Ok(ExitStatus::Clean);
        }
        let (columns, rows) =
            terminal_size::terminal_size().map_or((80, 24), |(columns, rows)| (columns.0, rows.0));
        // One line is left for the cursor.
        let size = ViewSize { columns: columns.into(), rows: usize::from(rows).saturating_sub(1) };
        let mut view = Vec::new();
        frame(&before, &now, size, &mut view)?;
        // To the upper left; what is left of the view before goes line by line and below, so that nothing flickers.
        let view = String::from_utf8_lossy(&view).replace('\n', "\x1b[K\n");
        write!(out, "\x1b[H{view}\x1b[J")?;
        out.flush()?;
        before = now;
    }
}

/// One operation between two readings.
struct OperationRate<'c> {
    op: &'c str,
    per_second: f64,
    failed: f64,
    /// How long one took on the average, in microseconds.
    mean: f64,
    total: u64,
}

fn failures(requests: &OperationCounts) -> u64 {
    requests.outcomes.iter().filter(|(outcome, _)| *outcome != "ok").map(|(_, count)| count).sum()
}

fn rates<'c>(before: &InstanceCounters, now: &'c InstanceCounters, seconds: f64) -> Vec<OperationRate<'c>> {
    let none = OperationCounts { op: String::new(), outcomes: BTreeMap::new(), duration: Default::default() };
    let mut rates: Vec<_> = now
        .counters
        .requests
        .iter()
        .filter(|requests| requests.total() > 0)
        .map(|requests| {
            let earlier =
                before.counters.requests.iter().find(|earlier| earlier.op == requests.op).unwrap_or(&none);
            let count = requests.total().saturating_sub(earlier.total());
            let took = (requests.duration.sum_seconds - earlier.duration.sum_seconds).max(0.0);
            OperationRate {
                op: &requests.op,
                per_second: count as f64 / seconds,
                failed: failures(requests).saturating_sub(failures(earlier)) as f64 / seconds,
                mean: if count == 0 { 0.0 } else { took * 1e6 / count as f64 },
                total: requests.total(),
            }
        })
        .collect();
    rates.sort_by(|a, b| b.per_second.total_cmp(&a.per_second).then(b.total.cmp(&a.total)));
    rates
}

#[derive(Clone, Copy)]
struct ViewSize {
    columns: usize,
    rows: usize,
}

/// Writes one view.
fn frame(before: &TopReading, now: &TopReading, size: ViewSize, out: &mut dyn Write) -> io::Result<()> {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let rates = rates(&before.counters, &now.counters, seconds);
    let mut lines = summary_lines(before, now, &rates, seconds);
    lines.extend(guard_lines(&before.guards, &now.guards, seconds));
    lines.push(String::new());
    lines.push(format!(
        "{HEAD}{:<16}{:>10}{:>10}{:>12}{:>14}",
        "OPERATION", "PER S", "FAILED/S", "MEAN US", "TOTAL"
    ));
    let refusals = refusals(&now.counters.refusals);
    // What was refused matters more than the last of the operations.
    let room = size.rows.saturating_sub(lines.len() + refusals.len().min(size.rows / 2));
    for rate in rates.iter().take(room) {
        lines.push(format!(
            "{:<16}{:>10.1}{:>10.1}{:>12.1}{:>14}",
            harmless(rate.op),
            rate.per_second,
            rate.failed,
            rate.mean,
            rate.total
        ));
    }
    lines.extend(refusals);
    for line in lines.iter().take(size.rows) {
        let text = cut(line.trim_start_matches(HEAD), size.columns);
        match line.starts_with(HEAD) {
            true => writeln!(out, "{BOLD}{text}{BOLD:#}")?,
            false => writeln!(out, "{text}")?,
        }
    }
    Ok(())
}

/// What the instance is, and what all of its operations and its server have counted.
fn summary_lines(
    before: &TopReading,
    now: &TopReading,
    rates: &[OperationRate<'_>],
    seconds: f64,
) -> Vec<String> {
    let counters = &now.counters;
    let sum = |of: fn(&OperationRate<'_>) -> f64| rates.iter().map(of).sum::<f64>();
    let snapshot = &counters.counters;
    let mut lines = vec![format!(
        "{} on {}: {}, {:.0} requests/s, {:.0} failed/s",
        harmless(&counters.name),
        harmless(&counters.mountpoint.shown),
        if snapshot.is_permissive { "permissive" } else { "enforcing" },
        sum(|rate| rate.per_second),
        sum(|rate| rate.failed)
    )];
    let new = |of: fn(&MetricsSnapshot) -> &[RuleCount]| {
        let (now, before) = (RuleCount::total(of(snapshot)), RuleCount::total(of(&before.counters.counters)));
        (now, now.saturating_sub(before) as f64 / seconds)
    };
    let (refused, let_through) = (new(|s| &s.refused), new(|s| &s.let_through));
    lines.push(format!(
        "names: {} refused ({:.1}/s), {} let through ({:.1}/s)",
        refused.0, refused.1, let_through.0, let_through.1
    ));
    if let Some(gauges) = snapshot.gauges {
        lines.push(format!(
            "server: inodes {}, open files {}, open directories {}, files read by the kernel itself {}",
            gauges.inodes, gauges.open_files, gauges.open_directories, gauges.backing_ids
        ));
    }
    lines
}

/// The guards that have refused or audited the most in these seconds.
fn guard_lines(before: &[GuardSummary], now: &[GuardSummary], seconds: f64) -> Vec<String> {
    const MAX_LINES: usize = 4;
    let mut rates: Vec<_> = now
        .iter()
        .map(|guard| {
            let earlier = before.iter().find(|earlier| earlier.path == guard.path).unwrap_or(guard);
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            (guard, rate(guard.refused, earlier.refused), rate(guard.audited, earlier.audited))
        })
        .collect();
    rates.sort_by(|(_, a, b), (_, c, d)| (c + d).total_cmp(&(a + b)));
    let line = |(guard, refused, audited): &(&GuardSummary, f64, f64)| {
        let GuardSummary { path, mode, refused: all_refused, audited: all_audited, .. } = guard;
        format!(
            "guard on {}: {mode}, {all_refused} refused ({refused:.1}/s), {all_audited} audited ({audited:.1}/s)",
            harmless(&path.shown)
        )
    };
    rates.iter().take(MAX_LINES).map(line).collect()
}

/// Who was refused, where, and what.
fn refusals(refusals: &[RecentRefusal]) -> Vec<String> {
    const MAX_LINES: usize = 5;
    let mut lines = Vec::new();
    if refusals.is_empty() {
        return lines;
    }
    let most = |head: &str, of: &dyn Fn(&RecentRefusal) -> String, lines: &mut Vec<String>| {
        let mut counted = BTreeMap::<String, usize>::new();
        for refused in refusals {
            *counted.entry(of(refused)).or_default() += 1;
        }
        let mut counted: Vec<_> = counted.into_iter().collect();
        counted.sort_by_key(|(_, count)| Reverse(*count));
        lines.push(String::new());
        lines.push(format!("{HEAD}{head}"));
        lines.extend(counted.iter().take(MAX_LINES).map(|(what, count)| format!("{count:>8}  {what}")));
    };
    most(&format!("WHO, OF THE LAST {}", refusals.len()), &who, &mut lines);
    most("WHERE", &place, &mut lines);
    lines.push(String::new());
    lines.push(format!("{HEAD}LAST"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for refused in refusals.iter().rev().take(MAX_LINES) {
        let rule = refused.rule.as_deref().map_or("the escape of another name".into(), harmless);
        let ago = now.saturating_sub(refused.time);
        let what = if refused.let_through { "let through" } else { "refused" };
        let (op, name) = (harmless(&refused.op), harmless(&refused.name.shown));
        lines.push(format!("{ago:>6} s  {what}: {op} \"{name}\" in {}: {rule}", place(refused)));
    }
    lines
}

fn who(refused: &RecentRefusal) -> String {
    let user = match refused.uid {
        None => "nobody known".into(),
        Some(uid) => user(uid),
    };
    match &refused.command {
        Some(command) => format!("{user}, {}", harmless(&command.shown)),
        None => user,
    }
}

fn place(refused: &RecentRefusal) -> String {
    match refused.parent.as_ref().map(|parent| harmless(&parent.shown)).as_deref() {
        Some("") => ".".into(),
        Some(parent) => parent.to_owned(),
        None => "?".into(),
    }
}

/// Stands before a line that is a heading. What others have sent holds no such character.
const HEAD: char = '\u{1}';

/// As much of a line as fits.
fn cut(line: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = line.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    end.map_or(line, |(end, _)| &line[..end])
}

#[cfg(test)]
mod tests {
    use namegate_files::json::JsonBytes;

    use super::*;

    #[test]
    fn the_busiest_guards_are_shown_with_their_rates() {
        let guard = |path: &str, refused, audited| GuardSummary {
            path: JsonBytes::new(path),
            mode: "enforcing",
            refused,
            audited,
            lost_events: 0,
            filesystem: None,
        };
        let before = [guard("/a", 10, 0), guard("/b", 0, 0)];
        // One that was turned on since has no rate yet; one that was replaced can have counted less.
        let now = [guard("/a", 10, 2), guard("/b", 6, 4), guard("/new", 7, 0)];
        assert_eq!(
            guard_lines(&before, &now, 2.0),
            [
                "guard on /b: enforcing, 6 refused (3.0/s), 4 audited (2.0/s)",
                "guard on /a: enforcing, 10 refused (0.0/s), 2 audited (1.0/s)",
                "guard on /new: enforcing, 7 refused (0.0/s), 0 audited (0.0/s)",
            ]
        );
        assert_eq!(
            guard_lines(&now, &before, 2.0)[0],
            "guard on /a: enforcing, 10 refused (0.0/s), 0 audited (0.0/s)"
        );
        assert_eq!(guard_lines(&[], &vec![guard("/x", 0, 0); 32], 1.0).len(), 4);
    }

    #[test]
    fn a_view_fits_its_terminal_and_shows_no_control_character_of_a_server() {
        let hostile = "a\x1b[2J\u{9b}\u{202e}\n".repeat(40);
        let bytes = || JsonBytes { shown: hostile.clone(), base64: namegate_files::json::Base64::default() };
        let refused = RecentRefusal {
            time: 0,
            let_through: false,
            op: hostile.clone(),
            rule: Some(hostile.clone()),
            name: bytes(),
            parent: Some(bytes()),
            uid: Some(u32::MAX),
            pid: 0,
            count: 1,
            command: Some(bytes()),
        };
        let mut counters = InstanceCounters {
            name: hostile.clone(),
            mountpoint: bytes(),
            counters: Default::default(),
            refusals: vec![refused; 64],
        };
        counters.counters.requests = (0..40)
            .map(|i| OperationCounts {
                op: format!("{hostile}{i}"),
                outcomes: BTreeMap::from([("ok".into(), u64::MAX / 64)]),
                duration: Default::default(),
            })
            .collect();
        let guard = GuardSummary {
            path: bytes(),
            mode: "enforcing",
            refused: u64::MAX,
            audited: u64::MAX,
            lost_events: 0,
            filesystem: None,
        };
        let reading = |counters: &InstanceCounters| TopReading {
            at: Instant::now(),
            counters: counters.clone(),
            guards: vec![guard.clone(); 9],
        };
        for (columns, rows) in [(80, 23), (20, 5), (1, 1), (usize::MAX, usize::MAX)] {
            let mut out = Vec::new();
            frame(&reading(&counters), &reading(&counters), ViewSize { columns, rows }, &mut out).unwrap();
            let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
            assert!(text.lines().count() <= rows);
            for line in text.lines() {
                assert!(!line.contains(['\x1b', '\u{9b}', '\u{202e}', HEAD]), "{line:?}");
                assert!(
                    line.chars().filter_map(UnicodeWidthChar::width).sum::<usize>() <= columns,
                    "{line:?}"
                );
            }
        }
    }
}
