//! `namegate fix undo`: restores the names.

use std::io::Write;
use std::path::PathBuf;

use super::apply::list_journals;
use crate::cli::progress::TerminalProgress;
use crate::cli::{CliError, ExitStatus};
use crate::fix::journal::{Journal, JournalContents};
use crate::fix::status::JournalPhase;
use crate::fix::undo::undo;
use crate::name::display::shown;
use crate::report::layout::counted;
use crate::time::timestamp_of_now;

const EXAMPLES: &str = "\
Examples:
  namegate fix undo --last            # undo the last run
  namegate fix undo journal.jsonl     # undo the run of this journal

Names are restored byte for byte. Entries that were removed or replaced stay, and nothing is ever overwritten; each such \
entry is reported. Repeat the command after an interrupted run, or when the reason for a remaining entry is gone.

Exit status: 0 everything is restored, 1 some entries remain, 2 error, 129 ended by SIGHUP, 130 by Ctrl-C, 143 by SIGTERM.";

/// Undo the renames of `fix apply`, from its journal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct UndoArgs {
    /// Journal of the run to undo.
    #[arg(required_unless_present = "last")]
    journal: Option<PathBuf>,
    /// Use the newest journal with changes to undo.
    #[arg(long, conflicts_with = "journal")]
    last: bool,
}

/// Runs the command.
///
/// # Errors
/// The journal cannot be read or written, or a root is read-only.
pub fn run(args: &UndoArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let path = match &args.journal {
        Some(path) => path.clone(),
        None => find_last()?,
    };
    let about = |message: &dyn std::fmt::Display| CliError::new(format_args!("{}: {message}", shown(&path)));
    let (mut journal, contents) = Journal::resume(&path).map_err(|error| about(&error))?;
    if is_undone(&contents) {
        writeln!(out, "Nothing to do: the changes in {} are undone already.", shown(&path))?;
        return Ok(ExitStatus::Clean);
    }
    let started = timestamp_of_now();
    let progress = TerminalProgress::for_changes(out, contents.lines());
    let undone = progress.run(|| undo(&mut journal, &contents, started, &progress));
    let stopped = progress.finish()?;
    let tally = undone.map_err(|error| about(&error))?;
    writeln!(out, "{} restored.", counted(tally.restored, "name or link target", "names and link targets"))?;
    if tally.remaining > 0 {
        writeln!(out, "{} not undone.", counted(tally.remaining, "change", "changes"))?;
    }
    if let Some(status) = stopped.filter(|_| tally.is_interrupted) {
        writeln!(out, "Interrupted. To continue: namegate fix undo {}", shown(&path))?;
        return Ok(status);
    }
    Ok(if tally.remaining == 0 { ExitStatus::Clean } else { ExitStatus::Findings })
}

/// Reports whether nothing is left to undo.
fn is_undone(contents: &JournalContents) -> bool {
    let mut batches = contents.batches.iter();
    JournalPhase::from_contents(contents) == JournalPhase::Undone
        && batches.all(|state| state.undone.as_ref().is_some_and(Vec::is_empty))
}

fn find_last() -> Result<PathBuf, CliError> {
    let (dir, journals) = list_journals()?;
    for path in journals {
        match JournalContents::read(&path) {
            Ok(contents) if is_undone(&contents) || contents.batches.is_empty() => {}
            // An unreadable journal is reported, not ignored.
            _ => return Ok(path),
        }
    }
    Err(CliError::new(format_args!("no journal in '{}' has changes to undo", shown(&dir))))
}
