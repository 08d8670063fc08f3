//! `namegate fix status`: what was done, what is left, what was taken back.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use data_encoding::{BASE64, HEXLOWER};
use serde::Serialize;

use super::apply::shelf_directory;
use crate::cli::{CliError, ExitStatus};
use crate::fix::journal::{Left, Reading, shelf};
use crate::fix::plan::path_in;
use crate::fix::status::{self, Phase};
use crate::name::display::{display, shown};
use crate::report::layout::counted;

const EXAMPLES: &str = "\
Examples:
  namegate fix status
  namegate fix status journal.jsonl
  namegate fix status --all --json

Exit status: 0 nothing is left, 1 something is, or a run was not ended, 2 a journal cannot be read.";

/// Tell what journals of `fix apply` say: what was done, what is left and why, what was taken back.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The journal; by default the newest one.
    journal: Option<PathBuf>,
    /// All journals in the usual place.
    #[arg(long, conflicts_with = "journal")]
    all: bool,
    /// A JSON object for each journal, one a line.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The place of journals cannot be read, or there is none in it.
pub fn run(args: &Args, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let paths = match &args.journal {
        Some(path) => vec![path.clone()],
        None => {
            let dir = shelf_directory()?;
            let mut found = shelf::journals(&dir)
                .map_err(|error| CliError::new(format_args!("{}: cannot be read: {error}", shown(&dir))))?;
            if !args.all {
                found.truncate(1);
            }
            if found.is_empty() {
                return Err(CliError::new(format_args!("there is no journal in {}", shown(&dir))));
            }
            found
        }
    };
    let mut worst = ExitStatus::Clean;
    for (number, path) in paths.iter().enumerate() {
        let read = Reading::look(path).map_err(|error| error.to_string()).and_then(|reading| {
            let file = File::open(path).map_err(|error| error.to_string())?;
            status::Status::of(&reading, &file)
                .map_err(|error| error.to_string())
                .map(|status| (reading, status))
        });
        match read {
            Ok((reading, status)) => {
                let is_whole = matches!(status.phase, Phase::Done | Phase::Undone);
                if !is_whole || !status.left.is_empty() || !status.not_undone.is_empty() {
                    worst = worst.max(ExitStatus::Findings);
                }
                match args.json {
                    true => writeln!(out, "{}", object(path, &reading, &status))?,
                    false => text(path, &reading, &status, number > 0, out)?,
                }
            }
            Err(error) => {
                worst = ExitStatus::Failed;
                // The others are told of all the same.
                writeln!(anstream::stderr(), "namegate: {}: {error}", shown(path))?;
            }
        }
    }
    Ok(worst)
}

fn text(
    path: &Path,
    reading: &Reading,
    status: &status::Status,
    is_further: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    if is_further {
        writeln!(out)?;
    }
    writeln!(out, "{}", shown(path))?;
    let plan = OsStr::from_bytes(&reading.header.plan.0);
    writeln!(
        out,
        "  plan      {}, begun {}",
        shown(Path::new(plan)),
        display(reading.header.started.as_bytes())
    )?;
    let phase = match status.phase {
        Phase::Running => "a process is at work",
        Phase::Interrupted => "not ended: `fix apply --resume` goes on, `fix undo` takes it back",
        Phase::Done => "done",
        Phase::UndoInterrupted => "taking back was not ended: `fix undo` goes on",
        Phase::Undone => "taken back",
    };
    writeln!(out, "  state     {phase}")?;
    if reading.is_torn {
        writeln!(out, "  torn      the last lines were cut off; nothing of what they say was begun")?;
    }
    let total = reading.header.renames + reading.header.retargets;
    writeln!(out, "  done      {} of {total}", status.done)?;
    if reading.undo.is_some() {
        writeln!(out, "  undone    {} of {}", status.undone, status.done)?;
    }
    for (left, what) in [(&status.left, "not done"), (&status.not_undone, "not taken back")] {
        if !left.is_empty() {
            writeln!(
                out,
                "  {}:",
                counted(left.len() as u64, &format!("line {what}"), &format!("lines {what}"))
            )?;
        }
        for Left { directory, old, new, reason } in left {
            let place = path_in(&directory.0, &old.0);
            writeln!(out, "    {} -> {}: {}", display(&place), display(&new.0), display(reason.as_bytes()))?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Object<'s> {
    journal_base64: String,
    plan_base64: String,
    started: &'s str,
    state: &'static str,
    torn: bool,
    renames: u64,
    retargets: u64,
    done: u64,
    undone: u64,
    left: Vec<Line<'s>>,
    not_undone: Vec<Line<'s>>,
}

#[derive(Serialize)]
struct Line<'s> {
    directory_base64: String,
    old_hex: String,
    new_hex: String,
    reason: &'s str,
}

fn object(path: &Path, reading: &Reading, status: &status::Status) -> String {
    let header = &reading.header;
    let object = Object {
        journal_base64: BASE64.encode(path.as_os_str().as_bytes()),
        plan_base64: BASE64.encode(&header.plan.0),
        started: &header.started,
        state: status.phase.as_str(),
        torn: reading.is_torn,
        renames: header.renames,
        retargets: header.retargets,
        done: status.done,
        undone: status.undone,
        left: status.left.iter().map(line).collect(),
        not_undone: status.not_undone.iter().map(line).collect(),
    };
    serde_json::to_string(&object).expect("strings and numbers are JSON")
}

fn line(left: &Left) -> Line<'_> {
    Line {
        directory_base64: BASE64.encode(&left.directory.0),
        old_hex: HEXLOWER.encode(&left.old.0),
        new_hex: HEXLOWER.encode(&left.new.0),
        reason: &left.reason,
    }
}
