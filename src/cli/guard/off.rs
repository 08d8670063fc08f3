//! `namegate guard off`: turns guards off.

use std::io::Write;
use std::path::PathBuf;

use super::super::{CliError, ExitStatus};
use super::{find, list, open, path_of};
use crate::name::display::shown;

const EXAMPLES: &str = "\
Examples:
  namegate guard off /srv/share
  namegate guard off --all

With the last guard, its programs leave the kernel. A directory that was moved or unmounted is named as `namegate guard status` \
shows it.

Exit status: 0 the guard is off, 1 there was none, 2 it could not be turned off.";

/// Turn a guard off
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct OffArgs {
    /// Directory of the guard
    #[arg(value_name = "PATH", required_unless_present = "all", conflicts_with = "all")]
    path: Option<PathBuf>,
    /// Turn all guards off
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: &OffArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let Some(guards) = open()? else {
        writeln!(out, "no guard is on")?;
        return Ok(ExitStatus::Findings);
    };
    let on = list(&guards)?;
    let off: Vec<_> = match &args.path {
        Some(path) => find(&on, path).into_iter().collect(),
        None => on.iter().collect(),
    };
    if let (Some(path), []) = (&args.path, off.as_slice()) {
        let others: Vec<String> =
            on.iter().filter_map(path_of).map(|path| shown(&path).to_string()).collect();
        writeln!(out, "no guard is on for {}; there are guards for: {}", shown(path), others.join(", "))?;
        return Ok(ExitStatus::Findings);
    }
    for guard in off {
        guards.remove(guard.slot).map_err(CliError::new)?;
        let path = path_of(guard).unwrap_or_default();
        writeln!(out, "guard off: {}", shown(&path))?;
    }
    guards.unload_if_unused().map_err(CliError::new)?;
    Ok(ExitStatus::Clean)
}
