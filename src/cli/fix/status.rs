//! `namegate fix status`: shows what is done, what remains and what is undone.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namegate_core::name::display::{display, shown};
use namegate_files::json::{self, Base64, TypedObject};
use namegate_fix::journal::{JournalContents, JournalError};
use namegate_fix::plan::path_in;
use namegate_fix::progress::Remaining;
use namegate_fix::status::{JournalPhase, JournalSummary};
use namegate_scan::report::layout::counted;
use serde::Serialize;

use super::journals::list_journals;
use crate::cli::format::{FormatArgs, PlainFormat};
use crate::cli::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate fix status                  # the last run
  namegate fix status journal.jsonl    # the run of this journal
  namegate fix status --all --json     # all runs, for programs

Exit status: 0 nothing remains, 1 some entries remain or a run was interrupted, 2 a journal cannot be read.";

/// Show what `fix apply` did, what remains and why, and what is undone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FixStatusArgs {
    /// Journal to show [default: the newest one].
    journal: Option<PathBuf>,
    /// Show all journals in the default directory.
    #[arg(long, conflicts_with = "journal")]
    all: bool,
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

/// Runs the command.
///
/// # Errors
/// The default directory cannot be read, or has no journal.
pub fn run(args: &FixStatusArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let paths = match &args.journal {
        Some(path) => vec![path.clone()],
        None => {
            let (dir, mut found) = list_journals()?;
            if !args.all {
                found.truncate(1);
            }
            if found.is_empty() {
                return Err(CliError::new(format_args!("no journal in '{}'", shown(&dir))));
            }
            found
        }
    };
    let mut worst = ExitStatus::Clean;
    for (number, path) in paths.iter().enumerate() {
        match read(path) {
            Ok((contents, summary)) => {
                let is_ended = matches!(summary.phase, JournalPhase::Done | JournalPhase::Undone);
                if !is_ended || !summary.remaining.is_empty() || !summary.not_undone.is_empty() {
                    worst = worst.max(ExitStatus::Findings);
                }
                match args.format.format {
                    PlainFormat::Json => write_object(path, &contents, &summary, out)?,
                    PlainFormat::Text => write_text(path, &contents, &summary, number > 0, out)?,
                }
            }
            Err(error) => {
                worst = ExitStatus::Failed;
                writeln!(anstream::stderr(), "namegate: {}: {error}", shown(path))?;
            }
        }
    }
    Ok(worst)
}

fn read(path: &Path) -> Result<(JournalContents, JournalSummary), JournalError> {
    let contents = JournalContents::read(path)?;
    let summary = JournalSummary::read(&contents, &File::open(path)?)?;
    Ok((contents, summary))
}

fn write_text(
    path: &Path,
    contents: &JournalContents,
    summary: &JournalSummary,
    is_further: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    if is_further {
        writeln!(out)?;
    }
    writeln!(out, "{}", shown(path))?;
    let plan = OsStr::from_bytes(&contents.header.plan);
    writeln!(
        out,
        "  plan      {}, started {}",
        shown(Path::new(plan)),
        display(contents.header.started.as_bytes())
    )?;
    if let Some(decisions) = &contents.header.decisions {
        writeln!(out, "  decisions {}", shown(Path::new(OsStr::from_bytes(&decisions.file))))?;
    }
    let phase = match summary.phase {
        JournalPhase::Running => "running",
        JournalPhase::Interrupted => "interrupted: `fix apply --resume` continues, `fix undo` reverts",
        JournalPhase::Done => "done",
        JournalPhase::UndoInterrupted => "undo interrupted: `fix undo` continues",
        JournalPhase::Undone => "undone",
    };
    writeln!(out, "  state     {phase}")?;
    if contents.is_torn {
        writeln!(out, "  torn      the last lines are incomplete; none of their changes was begun")?;
    }
    let total = contents.header.renames + contents.header.retargets;
    writeln!(out, "  done      {} of {total}", summary.done)?;
    if contents.undo.is_some() {
        writeln!(out, "  undone    {} of {}", summary.undone, summary.done)?;
    }
    for (remaining, what) in [(&summary.remaining, "not done"), (&summary.not_undone, "not undone")] {
        if !remaining.is_empty() {
            writeln!(
                out,
                "  {}:",
                counted(remaining.len() as u64, &format!("line {what}"), &format!("lines {what}"))
            )?;
        }
        for Remaining { directory, old, new, reason } in remaining {
            let path = path_in(directory, old);
            writeln!(out, "    {} -> {}: {}", display(&path), display(new), display(reason.as_bytes()))?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct StatusObject<'s> {
    journal_base64: Base64<&'s [u8]>,
    plan_base64: &'s Base64,
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions_base64: Option<&'s Base64>,
    started: &'s str,
    state: &'static str,
    torn: bool,
    renames: u64,
    retargets: u64,
    done: u64,
    undone: u64,
    left: &'s [Remaining],
    not_undone: &'s [Remaining],
}

fn write_object(
    path: &Path,
    contents: &JournalContents,
    summary: &JournalSummary,
    out: &mut dyn Write,
) -> io::Result<()> {
    let header = &contents.header;
    let object = StatusObject {
        journal_base64: Base64(path.as_os_str().as_bytes()),
        plan_base64: &header.plan,
        decisions_base64: header.decisions.as_ref().map(|decisions| &decisions.file),
        started: &header.started,
        state: summary.phase.as_str(),
        torn: contents.is_torn,
        renames: header.renames,
        retargets: header.retargets,
        done: summary.done,
        undone: summary.undone,
        left: &summary.remaining,
        not_undone: &summary.not_undone,
    };
    json::write_line(out, &TypedObject::new("fix-status", &object))
}
