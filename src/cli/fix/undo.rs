//! `namegate fix undo`: restores the names.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use namegate_core::name::display::{display, shown};
use namegate_files::time::timestamp_of_now;
use namegate_fix::execute::describe_remaining;
use namegate_fix::group::Direction;
use namegate_fix::journal::{Journal, JournalContents};
use namegate_fix::plan::path_in;
use namegate_fix::progress::Remaining;
use namegate_fix::status::JournalPhase;
use namegate_fix::undo::undo;
use namegate_scan::report::layout::counted;

use super::apply::write_index_changes;
use super::journals::list_journals;
use crate::cli::progress::TerminalProgress;
use crate::cli::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate fix undo --last --dry-run  # show what would be restored
  namegate fix undo --last --yes      # undo the last run without a question
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
    /// Undo the last run without a question.
    #[arg(short, long)]
    yes: bool,
    /// Show what would be restored, and change nothing.
    #[arg(short = 'n', long, conflicts_with = "yes")]
    dry_run: bool,
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
    if args.dry_run {
        return show_changes(&contents, journal.file(), &path, out);
    }
    if args.journal.is_none() && !args.yes {
        write_run(&contents, &path, &mut anstream::stderr())?;
        if !is_confirmed()? {
            writeln!(out, "Nothing was changed. To undo without a question: namegate fix undo --last --yes")?;
            return Ok(ExitStatus::Findings);
        }
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
    let is_git_done = !contents.header.git || write_index_changes(&journal, Direction::Undo, out)?;
    Ok(if tally.remaining == 0 && is_git_done { ExitStatus::Clean } else { ExitStatus::Findings })
}

/// Writes which run is undone.
fn write_run(contents: &JournalContents, path: &Path, out: &mut dyn Write) -> io::Result<()> {
    let header = &contents.header;
    let roots: Vec<String> = header.roots.iter().map(|root| display(&root.path).to_string()).collect();
    writeln!(out, "tree     {}", roots.join(", "))?;
    writeln!(out, "journal  {}", shown(path))?;
    writeln!(out, "started  {}", display(header.started.as_bytes()))?;
    writeln!(out, "changes  {}", counted(contents.lines(), "name or link target", "names and link targets"))
}

/// Asks on standard error. The end of standard input means no.
fn is_confirmed() -> io::Result<bool> {
    let mut err = anstream::stderr();
    write!(err, "Restore the old names? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes what would be restored.
fn show_changes(
    contents: &JournalContents,
    file: &File,
    path: &Path,
    out: &mut (dyn Write + Send),
) -> Result<ExitStatus, CliError> {
    write_run(contents, path, out)?;
    for at in (0..contents.batches.len()).rev() {
        let batch = contents.read_batch(file, at).map_err(CliError::new)?;
        let state = &contents.batches[at];
        for (number, entry) in batch.entries.iter().enumerate().rev() {
            let is_undone = state.undone.is_some() && !state.has_failed_undo(number);
            if state.has_failed(number) || is_undone {
                continue;
            }
            let directory = &batch.directories[entry.directory()];
            for Remaining { directory, old, new, .. } in
                describe_remaining(directory, entry, "", Direction::Undo)
            {
                writeln!(out, "  {} -> {}", display(&path_in(&directory, &old)), display(&new))?;
            }
        }
    }
    writeln!(out, "Nothing was changed.")?;
    Ok(ExitStatus::Clean)
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
