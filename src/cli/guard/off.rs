//! `namegate guard off`: turns guards off.

use std::io::Write;
use std::path::PathBuf;

use namegate_core::name::display::shown;
use namegate_guard::claim::of_path;
use namegate_guard::events::EventReader;
use namegate_guard::guards::SlotGuard;
use namegate_scan::report::layout::counted;

use super::super::{CliError, ExitStatus};
use super::{counted_names, list, open};

const EXAMPLES: &str = "\
Examples:
  namegate guard off /srv/share
  namegate guard off --all

All guards that were turned on with PATH end, also those of directories that were there before. A directory that was moved or \
unmounted is named as `namegate guard status` shows it. With the last guard, its programs leave the kernel, and events that nobody \
has read are gone.

Exit status: 0 the guard is off, 1 there was none, 2 it could not be turned off.";

/// Turn the guards of a directory off
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
        Some(path) => of_path(&on, path),
        None => on.iter().collect(),
    };
    if let (Some(path), []) = (&args.path, off.as_slice()) {
        let others: Vec<String> =
            on.iter().filter_map(SlotGuard::path).map(|path| shown(&path).to_string()).collect();
        writeln!(out, "no guard is on for {}; there are guards for: {}", shown(path), others.join(", "))?;
        return Ok(ExitStatus::Findings);
    }
    // The buffer of events goes with the last guard. Where a process reads them, it goes on to the end.
    let unread = (off.len() == on.len()).then(|| EventReader::new(&guards)).and_then(Result::ok);
    for guard in off {
        let counts = guards.remove(guard.slot).map_err(CliError::new)?;
        let path = guard.path().unwrap_or_default();
        writeln!(out, "guard off: {} ({})", shown(&path), counted_names(counts))?;
    }
    if let Some(mut reader) = unread {
        let count = std::iter::from_fn(|| reader.next_event()).count() as u64;
        if count > 0 {
            let events = counted(count, "event that nobody had read is", "events that nobody had read are");
            writeln!(out, "{events} gone with the last guard")?;
        }
    }
    guards.unload_if_unused().map_err(CliError::new)?;
    Ok(ExitStatus::Clean)
}
