//! `namegate fix undo`: every name as it was.

use std::io::Write;
use std::path::PathBuf;

use super::apply::shelf_directory;
use super::looking_on::LookingOn;
use crate::cli::{CliError, ExitStatus};
use crate::fix::journal::{Journal, Reading, shelf};
use crate::fix::status::Phase;
use crate::fix::undo::undo;
use crate::name::display::shown;
use crate::report::layout::counted;
use crate::time::timestamp_of_now;

const EXAMPLES: &str = "\
Examples:
  namegate fix undo --last
  namegate fix undo journal.jsonl

Names are given back byte for byte. What was removed or replaced meanwhile, and what would have to overwrite something, is
left as it is and reported. The journal says what was taken back; a run that was killed can be repeated, and so can one that
left something, when the reason is gone.
Exit status: 0 all is as it was, 1 something was left, 2 trouble, 130 ended by Ctrl-C.";

/// Take back what a journal of `fix apply` says was done.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The journal.
    #[arg(required_unless_present = "last")]
    journal: Option<PathBuf>,
    /// The newest journal of which anything is left to be taken back.
    #[arg(long, conflicts_with = "journal")]
    last: bool,
}

/// Runs the command.
///
/// # Errors
/// The journal cannot be read or written, or nothing can be changed there.
pub fn run(args: &Args, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let path = match &args.journal {
        Some(path) => path.clone(),
        None => last()?,
    };
    let about = |message: &dyn std::fmt::Display| CliError::new(format_args!("{}: {message}", shown(&path)));
    let (mut journal, reading) = Journal::resume(&path).map_err(|error| about(&error))?;
    if is_whole(&reading) {
        writeln!(out, "All that {} tells of was taken back already.", shown(&path))?;
        return Ok(ExitStatus::Clean);
    }
    let started = timestamp_of_now();
    let mut watcher = LookingOn::new(out, reading.lines());
    let undone = undo(&mut journal, &reading, started, &mut watcher);
    let ended_by = watcher.finish()?;
    let tally = undone.map_err(|error| about(&error))?;
    writeln!(out, "{} as before.", counted(tally.restored, "name or target is", "names and targets are"))?;
    if tally.left > 0 {
        writeln!(out, "{} not taken back.", counted(tally.left, "change was", "changes were"))?;
    }
    if let Some(status) = ended_by.filter(|_| tally.is_interrupted) {
        writeln!(out, "Ended before its end. To go on: namegate fix undo {}", shown(&path))?;
        return Ok(status);
    }
    Ok(if tally.left == 0 { ExitStatus::Clean } else { ExitStatus::Findings })
}

/// Whether nothing is left to be taken back.
fn is_whole(reading: &Reading) -> bool {
    let is_left = |told: &crate::fix::journal::Told| !told.undone.as_ref().is_some_and(Vec::is_empty);
    Phase::of(reading) == Phase::Undone && !reading.batches.iter().any(is_left)
}

fn last() -> Result<PathBuf, CliError> {
    let dir = shelf_directory()?;
    let journals = shelf::journals(&dir)
        .map_err(|error| CliError::new(format_args!("{}: cannot be read: {error}", shown(&dir))))?;
    for path in journals {
        match Reading::look(&path) {
            Ok(reading) if is_whole(&reading) || reading.batches.is_empty() => {}
            // One that cannot be read is told of, not passed over.
            _ => return Ok(path),
        }
    }
    Err(CliError::new(format_args!("no journal in {} has anything to be taken back", shown(&dir))))
}
