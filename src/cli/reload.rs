//! `namegate reload`: an instance reads its files again.

use std::io::Write;

use namegate_core::name::display::harmless;

use super::instances::InstanceSelector;
use super::{CliError, ExitStatus};
use crate::service::control::{ControlRequest, ReloadOutcome};

const EXAMPLES: &str = "\
The mount stays, and no request fails: requests that arrive later are checked by the new policy. A file with errors changes \
nothing. The audit log is opened again, so that log rotation can move its file away first. SIGHUP does the same.

Examples:
  namegate reload share
  systemctl reload namegate@share

Exit status: 0 the new configuration is in effect; 1 it is, except for settings that need a new mount; 2 reload failed and the \
previous configuration is still in effect, or there is no such instance.";

/// Make a mount read its configuration files again
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReloadArgs {
    #[command(flatten)]
    which: InstanceSelector,
}

pub(super) fn run(args: &ReloadArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let reloaded: ReloadOutcome = args.which.ask(ControlRequest::Reload)?;
    tell(&reloaded, out)?;
    Ok(if reloaded.needs_mount.is_empty() { ExitStatus::Clean } else { ExitStatus::Findings })
}

/// Says what came of a change.
pub(super) fn tell(reloaded: &ReloadOutcome, out: &mut dyn Write) -> Result<(), CliError> {
    for line in &reloaded.changed {
        writeln!(out, "{}", harmless(line))?;
    }
    if reloaded.changed.is_empty() {
        writeln!(out, "nothing has changed")?;
    }
    for line in &reloaded.kept {
        writeln!(out, "kept: {}", harmless(line))?;
    }
    needs_next_mount(&reloaded.needs_mount, out)
}

/// Says which settings have changed that need a new mount.
pub(super) fn needs_next_mount(lines: &[String], out: &mut dyn Write) -> Result<(), CliError> {
    for line in lines {
        writeln!(out, "not before the next mount: {}", harmless(line))?;
    }
    Ok(())
}
