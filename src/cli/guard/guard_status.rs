//! `namegate guard status`: the guards in force.

use std::io::{self, Write};

use namegate_files::json::{self, TypedObject};
use namegate_guard::program::END_HOOK;
use namegate_guard::report::GuardsReport;

use super::super::format::{FormatArgs, PlainFormat, write_field};
use super::super::{CliError, ExitStatus};
use super::{counted_names, require_root};

const EXAMPLES: &str = "\
Examples:
  namegate guard status
  namegate guard status --json | jq .guards[].counts

Exit status: 0 all guards are in force; 1 no guard is on, or the directory or the file system of one is not there, or a program is \
missing; 2 the guards could not be read.";

/// Show the guards in force: trees, policies, rules that the kernel cannot check, counters
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct GuardStatusArgs {
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

pub(super) fn run(args: &GuardStatusArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    require_root()?;
    let report = GuardsReport::read().map_err(CliError::new)?;
    match args.format.format {
        PlainFormat::Json => json::write_line(out, &TypedObject::new("guard-status", &report))?,
        PlainFormat::Text => text(&report, out)?,
    }
    Ok(if report.is_good() { ExitStatus::Clean } else { ExitStatus::Findings })
}

fn text(report: &GuardsReport, out: &mut dyn Write) -> io::Result<()> {
    const NAME: usize = 14;
    if report.guards.is_empty() {
        return writeln!(out, "no guard is on");
    }
    let field = |out: &mut dyn Write, name: &str, value: &str| write_field(out, NAME, name, value);
    for guard in &report.guards {
        let scope = if guard.scope == "tree" { "this directory and below" } else { "the whole file system" };
        field(out, "guard", &format!("{} ({}, {scope})", guard.path.shown, guard.filesystem))?;
        if guard.has_ended {
            field(out, "", "Its file system was unmounted: the guard has ended. Turn it off, or on again.")?;
        } else if !guard.is_reachable {
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
        field(out, "names", &counted_names(guard.counts))?;
        writeln!(out)?;
    }
    for hook in &report.hooks {
        if !hook.is_attached {
            let what = match hook.hook {
                END_HOOK => "a guard stays on when its file system is unmounted",
                _ => "such names are not checked",
            };
            field(out, "MISSING", &format!("the program of {}: {what}", hook.hook))?;
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
