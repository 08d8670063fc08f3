//! `namegate fix archive`: a copy of an archive in which only names are other ones.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use namegate_core::name::display::shown;
use namegate_core::policy::config::Config;
use namegate_core::policy::{Confidence, Policy};
use namegate_files::output::Output;
use namegate_files::time::timestamp_of_now;
use namegate_fix::archive::check::check_plan;
use namegate_fix::archive::{CopyTally, MemberNames, MemberSource};
use namegate_fix::plan::{PlanArchive, PlanHeader};
use namegate_fix::propose::PlanSettings;
use namegate_fix::propose::members::propose_for_members;
use namegate_fix::stored_plan::StoredPlan;
use namegate_scan::report::layout::{counted, grouped};
use namegate_scan::source::archive::MemberEncoding;
use namegate_sys::process::processors;

use super::encoding_arg::EncodingArg;
use super::plan_input::{confidences, read_plan, read_policy};
use super::{CliError, ExitStatus};
use crate::cli::output::cannot_write;
use crate::cli::policy_args::PolicyArgs;
use crate::cli::progress::{ProgressMode, TerminalProgress};
use crate::cli::targets::TargetSelection;

const EXAMPLES: &str = "\
Examples:
  namegate fix archive old.zip -o new.zip
  namegate fix archive old.zip --dry-run            # show what would change
  namegate fix archive old.zip -o new.zip --encoding cp866
  namegate fix archive backup.tar.gz -o backup-fixed.tar.gz --target windows
  namegate fix plan --archive old.zip -o plan.jsonl # a plan to read and edit first
  namegate fix archive old.zip -o new.zip --plan plan.jsonl

The contents of members are copied byte for byte. Names of a zip become UTF-8 and are marked so; a tar keeps its format and compression. Links \
in a tar follow their renamed targets.

Exit status: 0 the copy is complete, 1 it is complete but some members keep names that were to change, 2 there is no copy, 129 ended by SIGHUP, \
130 by Ctrl-C, 143 by SIGTERM.";

/// Copy a zip or tar with repaired names; everything else stays as it is
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ArchiveArgs {
    /// Zip, or tar with any compression that `namegate scan --archive` reads; it is only read
    archive: PathBuf,
    /// The copy, which appears when it is complete
    #[arg(short, long, value_name = "FILE", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Plan from `namegate fix plan --archive` for this archive, as JSON Lines or CSV; without it, names are planned as that command does
    #[arg(long, value_name = "FILE", conflicts_with = "TargetSelection")]
    plan: Option<PathBuf>,
    /// Make only the renames of the plan that a person decided: FILE is what the page of `fix plan --archive -o review.html` saves
    #[arg(long, value_name = "FILE", requires = "plan", conflicts_with = "at_least")]
    decisions: Option<PathBuf>,
    /// Leave out new names that are less certain
    #[arg(long, value_name = "LEVEL", default_value = "likely", value_parser = confidences())]
    at_least: Confidence,
    /// Encoding of names that are not UTF-8 (`namegate rules --encodings` lists all); `auto` guesses it
    #[arg(long, value_name = "NAME", default_value = "auto")]
    encoding: EncodingArg,
    /// Show what would be done, and write no copy
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "STYLE")]
    progress: ProgressMode,
    /// Size to which a compressed tar may unpack, whatever its own size
    #[arg(long, value_name = "GIB", default_value_t = 1024)]
    archive_limit: u32,
    #[command(flatten)]
    target: TargetSelection,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Opens the archive at `path`.
pub(super) fn open_archive(path: &Path) -> Result<MemberSource, CliError> {
    const LIMIT: u64 = 1 << 40;
    open_limited(path, LIMIT)
}

fn open_limited(path: &Path, limit: u64) -> Result<MemberSource, CliError> {
    MemberSource::open(path, limit)
        .map_err(|error| CliError::new(format_args!("cannot read '{}': {error}", shown(path))))
}

/// What identifies the archive at `path` in a plan.
pub(super) fn identify(path: &Path, source: &MemberSource) -> Result<PlanArchive, CliError> {
    source.identity().map_err(|error| CliError::new(format_args!("cannot read '{}': {error}", shown(path))))
}

/// Runs the command.
///
/// # Errors
/// The archive or the plan cannot be used, or the copy cannot be written.
pub fn run(args: &ArchiveArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let source = open_limited(&args.archive, u64::from(args.archive_limit) << 30)?;
    let progress = TerminalProgress::new(args.progress, None, None);
    let copied = progress.run(|| args.copy(&source, &progress));
    let (plan, tally) = match (progress.stopped(), copied) {
        (Some(status), _) => return Ok(status),
        (None, copied) => copied?,
    };
    args.write_result(&plan, &tally, out)
}

impl ArchiveArgs {
    /// Plans the names and writes the copy.
    fn copy(
        &self,
        source: &MemberSource,
        progress: &TerminalProgress<'_>,
    ) -> Result<(StoredPlan, CopyTally), CliError> {
        let output = match &self.output {
            Some(path) if !self.dry_run => Some((path, self.create(path, source)?)),
            _ => None,
        };
        let plan = match &self.plan {
            Some(path) => self.read_plan(path, source, progress)?,
            None => self.make_plan(source, progress)?,
        };
        if progress.problems() > 0 {
            return Err(CliError::new(format_args!(
                "'{}' is not copied: a copy could hide what the messages above say",
                shown(&self.archive)
            )));
        }
        let mut names = MemberNames::new(&plan, self.at_least).map_err(CliError::new)?;
        let mut copy = |out: &mut dyn Write| {
            let encoding = self.encoding.0.map_or(MemberEncoding::Auto, MemberEncoding::Legacy);
            source.copy(&mut names, encoding, out, progress).map_err(|error| {
                CliError::new(format_args!("cannot copy '{}': {error}", shown(&self.archive)))
            })
        };
        let Some((path, output)) = output else { return Ok((plan, copy(&mut io::sink())?)) };
        let mut output = BufWriter::with_capacity(1 << 20, output);
        let tally = copy(&mut output)?;
        let finished = output.into_inner().map_err(io::IntoInnerError::into_error).and_then(Output::finish);
        finished.map_err(|error| cannot_write(path, &error))?;
        Ok((plan, tally))
    }

    /// Begins the copy, which only those can read who can read the archive.
    fn create(&self, path: &Path, source: &MemberSource) -> Result<Output, CliError> {
        if path == Path::new("-") {
            return Err(CliError::new("--output: a copy is a file; standard output is for what was done"));
        }
        let meta = source.file().metadata().map_err(CliError::new)?;
        if fs::metadata(path).is_ok_and(|old| (old.dev(), old.ino()) == (meta.dev(), meta.ino())) {
            return Err(CliError::new(format_args!(
                "'{}' is the archive itself, which is only read; give the copy another name",
                shown(path)
            )));
        }
        Output::with_mode(path, meta.mode() & 0o666).map_err(|error| cannot_write(path, &error))
    }

    fn make_plan(
        &self,
        source: &MemberSource,
        progress: &TerminalProgress<'_>,
    ) -> Result<StoredPlan, CliError> {
        let asked = self.target.ask()?;
        let policy = self.target.policy(&self.policy, asked.as_ref(), false, |_| {})?;
        let (encoding, prefix) = (self.encoding.0, self.target.prefix());
        let settings = PlanSettings { encoding, prefix, ..PlanSettings::default() };
        let draft = propose_for_members(source, &policy, &settings, 2 * processors(), progress);
        let mut draft = draft.map_err(CliError::new)?;
        draft.finish_renames(&policy, &settings).map_err(CliError::new)?;
        let header = PlanHeader {
            namegate: env!("CARGO_PKG_VERSION").to_owned(),
            created: timestamp_of_now(),
            roots: draft.roots.clone(),
            policy: Config::from_policy(&policy).ok().map(|config| config.to_toml()),
            ..PlanHeader::default()
        };
        StoredPlan::from_draft(&header, &draft).map_err(CliError::new)
    }

    /// Reads the plan of `--plan`, and checks it against the archive.
    fn read_plan(
        &self,
        path: &Path,
        source: &MemberSource,
        progress: &TerminalProgress<'_>,
    ) -> Result<StoredPlan, CliError> {
        let plan = read_plan(path, self.decisions.as_deref(), true)?;
        let about = |what: String| CliError::new(format_args!("{}: {what}", shown(path)));
        match &plan.header.archive {
            None => return Err(about("this plan is for trees: namegate fix apply executes it".to_owned())),
            Some(archive) if *archive != identify(&self.archive, source)? => {
                let archive = shown(&self.archive);
                return Err(about(format!(
                    "this plan was made for another archive than '{archive}', or that was changed since"
                )));
            }
            Some(_) => {}
        }
        let policy: Option<Policy> = read_policy(&plan.header).map_err(about)?;
        let names = MemberNames::new(&plan, self.at_least).map_err(CliError::new)?;
        let planned = plan.renames(self.at_least);
        let objections =
            check_plan(source, &names, planned, policy.as_ref(), progress).map_err(CliError::new)?;
        match objections.count {
            0 => Ok(plan),
            count => Err(about(format!(
                "{} cannot be made:\n{}",
                counted(count, "rename", "renames"),
                objections.shown.join("\n")
            ))),
        }
    }

    fn write_result(
        &self,
        plan: &StoredPlan,
        tally: &CopyTally,
        out: &mut (dyn Write + Send),
    ) -> Result<ExitStatus, CliError> {
        if self.dry_run {
            write!(out, "Would change: ")?;
        }
        let members = counted(tally.members, "member", "members");
        let mut done = format!("{} of {members} renamed", grouped(tally.renamed));
        if tally.marked > 0 {
            done += &format!(", {} marked as UTF-8", counted(tally.marked, "other name", "other names"));
        }
        if tally.retargeted > 0 {
            done += &format!(", {} retargeted", counted(tally.retargeted, "link", "links"));
        }
        writeln!(out, "{done}.")?;
        for (why, count) in &tally.kept {
            writeln!(out, "{} not changed: {why}.", counted(*count, "member", "members"))?;
        }
        if tally.zip_links > 0 && tally.renamed > 0 {
            let links = counted(tally.zip_links, "symbolic link", "symbolic links");
            writeln!(out, "{links} in the zip not changed: their targets are contents.")?;
        }
        if let Some(decided) = &plan.decided {
            writeln!(out, "Decided: {decided}.")?;
        }
        let left_out = plan.renames(Confidence::Guess) - plan.renames(self.at_least);
        let see = format!("to see them: namegate fix plan --archive {} --format text", shown(&self.archive));
        if left_out > 0 {
            let (renames, level) = (counted(left_out, "rename", "renames"), self.at_least.as_str());
            writeln!(
                out,
                "{renames} left out, less certain than `{level}`; {see}; to include them: --at-least guess"
            )?;
        }
        if plan.skipped > 0 {
            let names = counted(plan.skipped, "name has an error", "names have errors");
            writeln!(out, "{names} and no new name; {see}")?;
        }
        if let Some(path) = self.output.as_ref().filter(|_| !self.dry_run) {
            writeln!(out, "The copy is {}.", shown(path))?;
        }
        Ok(if tally.kept.is_empty() { ExitStatus::Clean } else { ExitStatus::Findings })
    }
}
