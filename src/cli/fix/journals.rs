//! The journals of runs: where they are, a new one, and one to continue.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use namegate_core::name::display::shown;
use namegate_fix::journal::{Journal, JournalContents, JournalHeader, journal_dir, read_header};
use namegate_fix::status::JournalPhase;
use namegate_scan::progress::NoProgress;

use super::plan_input::about;
use crate::cli::CliError;

/// Which journal a run of `fix apply` uses.
pub(super) struct JournalChoice<'a> {
    /// The file that the user names.
    pub(super) file: Option<&'a Path>,
    /// The plan and its decisions, as arguments of `fix apply`.
    pub(super) plan: String,
}

impl JournalChoice<'_> {
    pub(super) fn create(&self, header: &JournalHeader) -> Result<Journal, CliError> {
        if self.file.is_none()
            && let Some(path) = find_journal(header, JournalPhase::Interrupted)?
        {
            return Err(CliError::new(format!(
                "a run of this plan was interrupted; the journal is {path}\n\
                 To continue: namegate fix apply {plan} --resume\nTo undo the changes: namegate fix undo {path}",
                path = shown(&path),
                plan = self.plan
            )));
        }
        let path = match self.file {
            Some(path) => path.to_owned(),
            None => {
                let dir = find_journal_dir()?;
                journal_dir::new_path(&dir, Timestamp::now()).map_err(|error| {
                    CliError::new(format_args!("cannot create the directory '{}': {error}", shown(&dir)))
                })?
            }
        };
        let journal = Journal::create(&path, header.clone(), &NoProgress).map_err(|error| {
            let known = read_header(&path).filter(|known| known.is_of_same_plan(header));
            let (plan, place) = (&self.plan, shown(&path));
            let hint = match known {
                Some(_) => format!(
                    "\nIt is the journal of an earlier run of this plan. To continue: namegate fix apply {plan} --resume \
                     --journal {place}\nTo undo the changes: namegate fix undo {place}"
                ),
                None => String::new(),
            };
            CliError::new(format!("cannot create the journal '{place}': {error}; nothing was changed{hint}"))
        })?;
        if self.file.is_some()
            && let Some(dir) = journal_dir::find()
        {
            journal_dir::add(&dir, &path, Timestamp::now());
        }
        Ok(journal)
    }

    /// Opens the journal of a killed or interrupted run, or else of a run that came to its end.
    pub(super) fn resume(
        &self,
        header: &JournalHeader,
    ) -> Result<(Journal, Option<JournalContents>), CliError> {
        let path = match self.file {
            Some(path) => path.to_owned(),
            None => match find_journal(header, JournalPhase::Interrupted)?
                .map_or_else(|| find_journal(header, JournalPhase::Done), |path| Ok(Some(path)))?
            {
                Some(path) => path,
                None => {
                    let dir = find_journal_dir()?;
                    return Err(CliError::new(format!(
                        "no journal in '{}' is of a run of this plan that can be resumed; use --journal for another one",
                        shown(&dir)
                    )));
                }
            },
        };
        let (journal, earlier) = Journal::resume(&path).map_err(|error| about(&path, error))?;
        let why = match () {
            () if !earlier.header.is_of_same_plan(header) => {
                "this is the journal of another plan, or of this plan before it was edited"
            }
            () if !earlier.header.has_same_decisions(header) => {
                "this run had other decisions, or none: give it the --decisions that it began with"
            }
            () if earlier.undo.is_some() => {
                "its changes were undone, at least in part; finish that with `fix undo`, then apply the plan with --yes"
            }
            () => return Ok((journal, Some(earlier))),
        };
        Err(about(&path, why))
    }
}

fn find_journal_dir() -> Result<PathBuf, CliError> {
    journal_dir::find().ok_or_else(|| {
        CliError::new("no directory for journals: HOME is not set; choose a file with --journal")
    })
}

/// The default directory of journals, and the journals in it, the newest first.
pub(super) fn list_journals() -> Result<(PathBuf, Vec<PathBuf>), CliError> {
    let dir = find_journal_dir()?;
    match journal_dir::list(&dir) {
        Ok(journals) => Ok((dir, journals)),
        Err(error) => Err(CliError::new(format_args!("cannot read '{}': {error}", shown(&dir)))),
    }
}

/// The newest journal of a run of the plan in `phase`.
fn find_journal(plan: &JournalHeader, phase: JournalPhase) -> Result<Option<PathBuf>, CliError> {
    Ok(list_journals()?.1.into_iter().find(|path| {
        let is_of_plan = read_header(path).is_some_and(|header| header.is_of_same_plan(plan));
        let is_in_phase = |contents| JournalPhase::from_contents(&contents) == phase;
        is_of_plan && JournalContents::read(path).is_ok_and(is_in_phase)
    }))
}
