//! `namegate fix apply`: applies a plan.

use std::env;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

use namegate_core::name::display::shown;
use namegate_core::policy::Confidence;
use namegate_files::json::Base64;
use namegate_files::time::timestamp_of_now;
use namegate_fix::apply::{ApplyOptions, ApplyTally, BATCH_SIZE, apply, rehearse};
use namegate_fix::git_index::{self, WorkTree};
use namegate_fix::group::Direction;
use namegate_fix::journal::{Journal, JournalContents, JournalDecisions, JournalHeader, VERSION};
use namegate_fix::roots::PlanRoots;
use namegate_fix::status::JournalPhase;
use namegate_fix::stored_plan::StoredPlan;
use namegate_scan::report::layout::counted;

use super::journals::JournalChoice;
use super::plan_input::{about, confidences, read_plan, read_policy};
use crate::cli::progress::TerminalProgress;
use crate::cli::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate fix plan /srv/share --profile windows -o plan.jsonl
  namegate fix apply plan.jsonl               # show what would be done
  namegate fix apply plan.jsonl --yes
  namegate fix apply plan.jsonl --yes --at-least guess
  namegate fix apply plan.jsonl --yes --git   # also in Git's index
  namegate fix apply plan.jsonl --decisions decisions.jsonl --yes
  namegate fix apply plan.jsonl --resume      # continue a killed or interrupted run
  namegate fix undo --last --yes

Each change is written to a journal on the disk before it is made; `fix undo` reverts the changes of a journal. An entry that \
has changed since the plan was made stays as it is, and nothing is ever overwritten. New names that are guesses are left out \
unless --at-least includes them.

Ctrl-C ends the run after the current batch; a second Ctrl-C ends it at once, and --resume continues it.

Exit status: 0 everything is done, 1 some entries remain, 2 error, 129 ended by SIGHUP, 130 by Ctrl-C, 143 by SIGTERM.";

/// Apply a plan; without --yes only show what would be done.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ApplyArgs {
    /// Plan from `namegate fix plan`, as JSON Lines or CSV.
    plan: PathBuf,
    /// Make the changes.
    #[arg(short, long)]
    yes: bool,
    /// Show what would be done, and change nothing.
    #[arg(short = 'n', long, conflicts_with_all = ["yes", "resume"])]
    dry_run: bool,
    /// Journal file; must be new, except with --resume [default: a new file in $XDG_STATE_HOME/namegate/journals, for root in
    /// /var/lib/namegate/journals].
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Make only the renames that a person decided, with the names that they chose: FILE is what the page of `fix plan -o review.html`
    /// saves. What is undecided stays as it is.
    #[arg(long, value_name = "FILE", conflicts_with = "at_least")]
    decisions: Option<PathBuf>,
    /// Leave out new names that are less certain; with --resume, the choice of the interrupted run.
    #[arg(long, value_name = "LEVEL", default_value = "likely", value_parser = confidences(), conflicts_with = "resume")]
    at_least: Confidence,
    /// Continue a killed or interrupted run from its journal.
    #[arg(long)]
    resume: bool,
    /// Restore the access and modification times of directories after renames in them.
    #[arg(long)]
    keep_times: bool,
    /// Keep the original name of each file and directory in its attribute `user.namegate.original-name`.
    #[arg(long)]
    keep_original: bool,
    /// Change the paths in Git's index too, as `git mv` does; nothing is committed.
    #[arg(long)]
    git: bool,
    /// Include file systems that are mounted below the roots of the plan.
    #[arg(long)]
    cross_file_systems: bool,
    /// Number of renames between two flushes of the journal.
    #[arg(long, value_name = "N", default_value_t = BATCH_SIZE, value_parser = parse_batch_size)]
    batch: usize,
}

fn parse_batch_size(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| (1..=1_000_000).contains(number))
        .ok_or_else(|| "not a number from 1 to 1000000".into())
}

/// Runs the command.
///
/// # Errors
/// The plan is invalid, the journal cannot be written, or a root is read-only.
pub fn run(args: ApplyArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let plan = read_plan(&args.plan, args.decisions.as_deref(), args.yes || args.resume)?;
    if plan.header.archive.is_some() {
        let plan = shown(&args.plan);
        return Err(CliError::new(format!(
            "{plan}: this plan is for the members of an archive, which a copy gets: namegate fix archive ARCHIVE -o COPY --plan {plan}"
        )));
    }
    let policy = read_policy(&plan.header).map_err(|error| about(&args.plan, error))?;
    let header = args.header(&plan)?;
    if !args.yes && !args.resume {
        let options = ApplyOptions::new(&header, policy.as_ref(), args.batch);
        return show_changes(&args, &plan, open_roots(&plan, args.cross_file_systems)?, options, out);
    }
    if plan.renames(Confidence::Guess) == 0 && plan.retargets.is_empty() {
        match &plan.decided {
            Some(_) => writeln!(out, "Nothing to do: no rename of the plan is accepted.")?,
            None => writeln!(out, "Nothing to do: the plan has no renames.")?,
        }
        return Ok(ExitStatus::Clean);
    }
    let choice = JournalChoice { file: args.journal.as_deref(), plan: args.plan_arguments() };
    let (mut journal, earlier) = match args.resume {
        true => choice.resume(&header)?,
        false => (choice.create(&header)?, None),
    };
    let header = earlier.as_ref().map_or(&header, |earlier| &earlier.header);
    if earlier.as_ref().is_some_and(|earlier| JournalPhase::from_contents(earlier) == JournalPhase::Done) {
        writeln!(out, "Nothing to do: the plan is done; the journal is {}.", shown(journal.path()))?;
        return Ok(ExitStatus::Clean);
    }
    let options = ApplyOptions::new(header, policy.as_ref(), args.batch);
    let roots = match open_roots(&plan, header.cross_file_systems) {
        Ok(roots) => roots,
        Err(error) => {
            if earlier.is_none() {
                journal.discard();
            }
            return Err(error);
        }
    };
    let progress = TerminalProgress::for_changes(out, header.renames + header.retargets);
    let applied = progress.run(|| apply(&plan, roots, &mut journal, earlier.as_ref(), options, &progress));
    let stopped = progress.finish()?;
    let place = shown(journal.path());
    let tally = applied.map_err(|error| args.about_journal(&place, &error))?;
    write_result(&tally, out)?;
    args.write_left_out(&tally, options.at_least, &plan, out)?;
    if let Some(status) = stopped.filter(|_| tally.is_interrupted) {
        let plan = args.plan_arguments();
        writeln!(out, "Interrupted. To continue: namegate fix apply {plan} --resume --journal {place}")?;
        writeln!(out, "To undo the changes: namegate fix undo {place}")?;
        return Ok(status);
    }
    let is_git_done = !header.git || write_index_changes(&journal, Direction::Apply, out)?;
    if !header.git && plan.header.git_renames > 0 && tally.renamed > 0 {
        writeln!(
            out,
            "Git does not know the new names: `git add -A` in each work tree, or --git next time."
        )?;
    }
    writeln!(out, "The journal is {place}. To undo all changes: namegate fix undo {place}")?;
    Ok(if is_git_done { status(&tally) } else { ExitStatus::Findings })
}

/// Opens the roots of the plan.
fn open_roots(plan: &StoredPlan, crosses: bool) -> Result<PlanRoots, CliError> {
    let names = plan.new_names().map_err(CliError::new)?;
    PlanRoots::open(&plan.header.roots, names, crosses).map_err(CliError::new)
}

/// Changes the index of each Git work tree, and reports whether that succeeded.
pub(super) fn write_index_changes(
    journal: &Journal,
    direction: Direction,
    out: &mut dyn Write,
) -> Result<bool, CliError> {
    let contents = JournalContents::read(journal.path()).map_err(|error| about(journal.path(), error))?;
    let mut is_done = true;
    for WorkTree { top, changed } in
        git_index::update(&contents, journal.file(), direction).map_err(CliError::new)?
    {
        match changed {
            Ok(count) => {
                let (paths, top) = (counted(count as u64, "path", "paths"), shown(&top));
                writeln!(out, "{paths} changed in the index of {top}; `git commit` is left to you.")?;
            }
            Err(error) => {
                is_done = false;
                let (mut err, top) = (anstream::stderr(), shown(&top));
                writeln!(err, "namegate: {top}: cannot change Git's index: {error}; `git add -A` does it")?;
            }
        }
    }
    Ok(is_done)
}

fn status(tally: &ApplyTally) -> ExitStatus {
    if tally.remaining == 0 { ExitStatus::Clean } else { ExitStatus::Findings }
}

/// Shows what would be done.
fn show_changes(
    args: &ApplyArgs,
    plan: &StoredPlan,
    roots: PlanRoots,
    options: ApplyOptions<'_>,
    out: &mut (dyn Write + Send),
) -> Result<ExitStatus, CliError> {
    let at_least = options.at_least;
    let changes = plan.renames(at_least) + plan.retargets.len() as u64;
    let progress = TerminalProgress::for_changes(out, changes);
    let tally = progress.run(|| rehearse(plan, roots, options, &progress));
    progress.finish()?;
    let tally = tally.map_err(CliError::new)?;
    write!(out, "Would change: ")?;
    write_result(&tally, out)?;
    args.write_left_out(&tally, at_least, plan, out)?;
    if !args.dry_run {
        writeln!(
            out,
            "Nothing was changed. To make the changes: namegate fix apply {}{} --yes",
            args.plan_arguments(),
            args.given_options()
        )?;
    }
    Ok(status(&tally))
}

/// Writes what was done, or would be.
fn write_result(tally: &ApplyTally, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    let retargeted = match tally.retargeted {
        0 => String::new(),
        count => format!(", {} retargeted", counted(count, "link", "links")),
    };
    writeln!(out, "{} renamed{retargeted}.", counted(tally.renamed, "entry", "entries"))?;
    if tally.already > 0 {
        writeln!(out, "{} of the plan done before.", counted(tally.already, "line", "lines"))?;
    }
    if tally.remaining > 0 {
        writeln!(out, "{} of the plan not done.", counted(tally.remaining, "line", "lines"))?;
    }
    for (why, count) in &tally.not_kept {
        writeln!(
            out,
            "{} not kept in an attribute: {why}.",
            counted(*count, "original name", "original names")
        )?;
    }
    Ok(())
}

impl ApplyArgs {
    /// The plan and its decisions, as arguments of this command.
    fn plan_arguments(&self) -> String {
        let decisions = self.decisions.as_deref().map(|file| format!(" --decisions {}", shown(file)));
        format!("{}{}", shown(&self.plan), decisions.unwrap_or_default())
    }

    /// The options that decide what is changed and how, as they were given.
    fn given_options(&self) -> String {
        let mut options = String::new();
        if self.at_least != Confidence::Likely {
            options += &format!(" --at-least {}", self.at_least.as_str());
        }
        if let Some(journal) = &self.journal {
            options += &format!(" --journal {}", shown(journal));
        }
        let flags = [
            (self.keep_times, " --keep-times"),
            (self.keep_original, " --keep-original"),
            (self.git, " --git"),
            (self.cross_file_systems, " --cross-file-systems"),
        ];
        options.extend(flags.into_iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| flag));
        if self.batch != BATCH_SIZE {
            options += &format!(" --batch {}", self.batch);
        }
        options
    }

    fn about_journal(&self, journal: &str, error: &io::Error) -> CliError {
        CliError::new(format!(
            "cannot write the journal '{journal}': {error}\n\
             Changes that are not in the journal were not made.\n\
             To continue: namegate fix apply {plan} --resume --journal {journal}\n\
             To undo the changes: namegate fix undo {journal}",
            plan = self.plan_arguments()
        ))
    }

    /// Writes what was decided, or how many lines are less certain than `at_least`, and how to see them.
    fn write_left_out(
        &self,
        tally: &ApplyTally,
        at_least: Confidence,
        plan: &StoredPlan,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CliError> {
        if let Some(decided) = &plan.decided {
            return Ok(writeln!(out, "Decided: {decided}.")?);
        }
        if tally.left_out == 0 {
            return Ok(());
        }
        let lesser: Vec<&str> =
            Confidence::ALL[at_least as usize + 1..].iter().map(|level| level.as_str()).collect();
        let see = match plan.is_table {
            true => format!("see the column `confidence` for {}", lesser.join(" and ")),
            false => {
                let lesser = lesser.join("|");
                format!("to see them: grep -E '\"confidence\":\"({lesser})\"' {}", shown(&self.plan))
            }
        };
        writeln!(
            out,
            "{} of the plan left out, less certain than `{}`; {see}; to include them: --at-least guess",
            counted(tally.left_out, "line", "lines"),
            at_least.as_str(),
        )?;
        Ok(())
    }

    fn header(&self, plan: &StoredPlan) -> Result<JournalHeader, CliError> {
        let absolute = |path: &Path| match path::absolute(path) {
            Ok(path) => Ok(Base64(path.as_os_str().as_bytes().to_vec())),
            Err(error) => Err(about(path, error)),
        };
        let decisions = self.decisions.as_deref().zip(plan.decided.as_ref());
        Ok(JournalHeader {
            version: VERSION,
            namegate: env!("CARGO_PKG_VERSION").into(),
            started: timestamp_of_now(),
            plan: absolute(&self.plan)?,
            plan_bytes: plan.bytes,
            plan_check: format!("{:08x}", plan.check),
            roots: plan.header.roots.clone(),
            at_least: self.at_least,
            renames: plan.renames(self.at_least),
            retargets: plan.retargets.len() as u64,
            keep_times: self.keep_times,
            keep_original: self.keep_original,
            cross_file_systems: self.cross_file_systems,
            git: self.git,
            decisions: decisions
                .map(|(file, decided)| {
                    absolute(file)
                        .map(|file| JournalDecisions { file, check: format!("{:08x}", decided.check) })
                })
                .transpose()?,
        })
    }
}
