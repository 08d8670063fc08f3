//! `namegate guard status`: the guards in force.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use anstyle::Style;
use serde::Serialize;

use super::super::format::{FormatArgs, PlainFormat};
use super::super::{CliError, ExitStatus};
use super::{list, open};
use crate::guard::guards::SlotGuard;
use crate::guard::note::GuardNote;
use crate::guard::target::GuardTarget;
use crate::json::{self, JsonBytes};
use crate::policy::Policy;
use crate::policy::automaton::Coverage;
use crate::report::layout::{BOLD, write_wrapped};

const EXAMPLES: &str = "\
Examples:
  namegate guard status
  namegate guard status --json | jq .guards[].counts

Exit status: 0 all guards are in force; 1 no guard is on, or the directory of one is not there, or a program is missing; 2 the \
guards could not be read.";

/// Show the guards in force: trees, policies, rules that the kernel cannot check, counters
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct GuardStatusArgs {
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

#[derive(Serialize)]
struct GuardsReport {
    r#type: &'static str,
    guards: Vec<GuardReport>,
    hooks: Vec<HookReport>,
}

#[derive(Serialize)]
struct GuardReport {
    path: JsonBytes,
    filesystem: String,
    scope: &'static str,
    mode: &'static str,
    errno: Option<String>,
    since: String,
    profiles: Vec<String>,
    unchecked_rules: Vec<&'static str>,
    is_reachable: bool,
    counts: CountsReport,
}

#[derive(Clone, Copy, Serialize)]
struct CountsReport {
    refused: u64,
    audited: u64,
    lost_events: u64,
}

#[derive(Serialize)]
struct HookReport {
    hook: &'static str,
    is_attached: bool,
    missed: u64,
}

pub(super) fn run(args: &GuardStatusArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let report = match open()? {
        None => GuardsReport { r#type: "guard-status", guards: Vec::new(), hooks: Vec::new() },
        Some(guards) => GuardsReport {
            r#type: "guard-status",
            guards: list(&guards)?.iter().map(GuardReport::new).collect(),
            hooks: guards
                .missed()
                .into_iter()
                .map(|(hook, missed)| HookReport {
                    hook,
                    is_attached: missed.is_some(),
                    missed: missed.unwrap_or(0),
                })
                .collect(),
        },
    };
    match args.format.0 {
        PlainFormat::Json => json::write_line(out, &report)?,
        PlainFormat::Text => text(&report, out)?,
    }
    let is_good = !report.guards.is_empty()
        && report.guards.iter().all(|guard| guard.is_reachable)
        && report.hooks.iter().all(|hook| hook.is_attached);
    Ok(if is_good { ExitStatus::Clean } else { ExitStatus::Findings })
}

impl GuardReport {
    fn new(guard: &SlotGuard) -> Self {
        let note = GuardNote::from_bytes(&guard.note).ok();
        let policy = note.as_ref().and_then(|note| note.policy().ok());
        let left_out = |policy: &Policy| {
            Coverage::new(policy).left_out.iter().map(|left| left.rule.name()).collect::<Vec<_>>()
        };
        let scope = guard.scope;
        let is_reachable = note.as_ref().is_some_and(|note| {
            GuardTarget::from_path(
                &PathBuf::from(OsString::from_vec(note.path.base64.0.clone())),
                scope.root.is_none(),
            )
            .is_ok_and(|target| (target.device, target.root) == (scope.device, scope.root))
        });
        Self {
            path: note.as_ref().map(|note| note.path.clone()).unwrap_or_default(),
            filesystem: note.as_ref().map(|note| note.filesystem.clone()).unwrap_or_default(),
            scope: if scope.root.is_some() { "tree" } else { "filesystem" },
            mode: if scope.refusal.is_some() { "enforcing" } else { "audit" },
            errno: scope.refusal.map(|errno| format!("{errno:?}")),
            since: note.as_ref().map(|note| note.since.clone()).unwrap_or_default(),
            profiles: note.as_ref().map(|note| note.profiles.clone()).unwrap_or_default(),
            unchecked_rules: policy.as_ref().map(left_out).unwrap_or_default(),
            is_reachable,
            counts: CountsReport {
                refused: guard.counts.refused,
                audited: guard.counts.audited,
                lost_events: guard.counts.lost,
            },
        }
    }
}

fn text(report: &GuardsReport, out: &mut dyn Write) -> io::Result<()> {
    const NAME: usize = 14;
    if report.guards.is_empty() {
        return writeln!(out, "no guard is on");
    }
    let field = |out: &mut dyn Write, name: &str, value: &str| {
        write!(out, "{BOLD}{name}{BOLD:#}{:1$}", "", NAME - name.len())?;
        write_wrapped(out, NAME, Style::new(), value)
    };
    for guard in &report.guards {
        let scope = if guard.scope == "tree" { "this directory and below" } else { "the whole file system" };
        field(out, "guard", &format!("{} ({}, {scope})", guard.path.shown, guard.filesystem))?;
        if !guard.is_reachable {
            field(out, "", "The path leads to another directory now, or to none. The guard is still on.")?;
        }
        match &guard.errno {
            Some(errno) => field(out, "mode", &format!("enforcing: bad names are refused with {errno}"))?,
            None => field(out, "mode", "audit: bad names are reported and allowed")?,
        }
        field(out, "since", &guard.since)?;
        field(out, "profiles", &guard.profiles.join(", "))?;
        if !guard.unchecked_rules.is_empty() {
            field(out, "unchecked", &guard.unchecked_rules.join(", "))?;
        }
        let CountsReport { refused, audited, lost_events } = guard.counts;
        field(out, "names", &format!("{refused} refused, {audited} audited; {lost_events} events lost"))?;
        writeln!(out)?;
    }
    for hook in &report.hooks {
        if !hook.is_attached {
            field(out, "MISSING", &format!("the program of {}: such names are not checked", hook.hook))?;
        }
        if hook.missed > 0 {
            field(
                out,
                "missed",
                &format!("{} calls of {}, which the kernel skipped", hook.missed, hook.hook),
            )?;
        }
    }
    Ok(())
}
