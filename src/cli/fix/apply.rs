//! `namegate fix apply`: what a plan says, done.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};

use jiff::Timestamp;
use nix::unistd::geteuid;

use super::looking_on::LookingOn;
use crate::cli::{CliError, ExitStatus};
use crate::fix::apply::{BATCH, Options, Tally, apply, planned_names, rehearse};
use crate::fix::journal::{Base64, Header, Journal, Reading, Root, VERSION, header, shelf};
use crate::fix::plan::Plan;
use crate::fix::roots::{Names, Roots};
use crate::fix::status::Phase;
use crate::fix::watcher::Nobody;
use crate::name::display::shown;
use crate::policy::Policy;
use crate::policy::config::Config;
use crate::report::layout::counted;
use crate::sys::trust::others_can_write;
use crate::time::timestamp_of_now;

const EXAMPLES: &str = "\
Examples:
  namegate fix plan /srv/share --profile windows -o plan.jsonl
  namegate fix apply plan.jsonl                    says what it would do, and changes nothing
  namegate fix apply plan.jsonl --yes
  namegate fix apply plan.jsonl --resume           goes on where it was killed or interrupted
  namegate fix undo --last

Before anything is renamed, what is going to be done is written into a journal and brought to the disk; `fix undo` takes it
back by that. An entry that is not what it was when the plan was made is left as it is, and nothing is ever overwritten.
Ctrl-C ends the run after the batch that has begun.
Exit status: 0 all done, 1 something was left undone, 2 trouble, 130 ended by Ctrl-C.";

/// Rename what a plan says. Without --yes it is only said what would be done.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The plan, as `namegate fix plan` writes it.
    plan: PathBuf,
    /// Do it.
    #[arg(short, long)]
    yes: bool,
    /// Say what would be done, and change nothing.
    #[arg(short = 'n', long, conflicts_with_all = ["yes", "resume"])]
    dry_run: bool,
    /// Where to keep the journal; it must not be there yet, unless with --resume. By default a new file in
    /// $XDG_STATE_HOME/namegate/journals, for root in /var/lib/namegate/journals.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Go on with a run that was killed or interrupted, by its journal.
    #[arg(long)]
    resume: bool,
    /// Give directories back the times that they had before something in them was renamed.
    #[arg(long)]
    keep_times: bool,
    /// Keep the old name of each file and directory in its attribute `user.namegate.original-name`.
    #[arg(long)]
    keep_original: bool,
    /// Go into what is mounted below the roots of the plan.
    #[arg(long)]
    cross_file_systems: bool,
    /// How many renames are written down at a time before they are done.
    #[arg(long, value_name = "N", default_value_t = BATCH, value_parser = batch)]
    batch: usize,
}

fn batch(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| (1..=1_000_000).contains(number))
        .ok_or_else(|| "not a number from 1 to 1000000".into())
}

/// Runs the command.
///
/// # Errors
/// The plan is wrong, the journal cannot be written, or nothing can be changed there.
pub fn run(args: Args, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let text = read_plan(&args.plan, args.yes || args.resume)
        .map_err(|error| about(&args.plan, format_args!("cannot be read: {error}")))?;
    let plan = Plan::parse(&text).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|m| format!("{}: {m}", shown(&args.plan))).collect();
        CliError::new(lines.join("\nnamegate: "))
    })?;
    let policy = policy(&plan).map_err(|error| about(&args.plan, error))?;
    if !args.yes && !args.resume {
        return say(&args, &plan, policy.as_ref(), out);
    }
    if plan.renames.is_empty() && plan.retargets.is_empty() {
        writeln!(out, "There is nothing to be renamed in the plan.")?;
        return Ok(ExitStatus::Clean);
    }
    let header = args.header(&plan, &text)?;
    let (mut journal, reading) =
        if args.resume { args.resumed(&header)? } else { (args.begun(header)?, None) };
    let header = match &reading {
        Some(reading) if Phase::of(reading) == Phase::Done => {
            writeln!(out, "The plan was done already; the journal is {}.", shown(journal.path()))?;
            return Ok(ExitStatus::Clean);
        }
        Some(reading) => reading.header.clone(),
        None => args.header(&plan, &text)?,
    };
    let options = Options {
        policy: policy.as_ref(),
        keep_times: header.keep_times,
        keep_original: header.keep_original,
        batch: args.batch,
    };
    let roots =
        Roots::open(&plan.header.roots, Names::new(), planned_names(&plan), header.cross_file_systems);
    let roots = match roots {
        Ok(roots) => roots,
        Err(error) => {
            if reading.is_none() {
                // Nothing was done by it.
                journal.discard();
            }
            return Err(CliError::new(error));
        }
    };
    let mut watcher = LookingOn::new(out, header.renames + header.retargets);
    let applied = apply(&plan, roots, &mut journal, reading.as_ref(), options, &mut watcher);
    let ended_by = watcher.finish()?;
    let place = shown(journal.path());
    let tally = applied.map_err(|error| {
        CliError::new(format!(
            "the journal {place} cannot be written: {error}\n\
             What is not in the journal was not done. `namegate fix apply {plan} --resume --journal {place}` goes on, \
             `namegate fix undo {place}` takes back what was done.",
            plan = shown(&args.plan)
        ))
    })?;
    told(&tally, out)?;
    if let Some(status) = ended_by.filter(|_| tally.is_interrupted) {
        writeln!(
            out,
            "Ended before the plan was done. To go on: namegate fix apply {} --resume --journal {place}",
            shown(&args.plan)
        )?;
        writeln!(out, "To take back what was done: namegate fix undo {place}")?;
        return Ok(status);
    }
    writeln!(out, "The journal is {place}. To take it all back: namegate fix undo {place}")?;
    Ok(status(&tally))
}

/// The plan as it is written. One that is going to be done has to be root's own for root, or that of the user who runs it by
/// sudo(8), and nobody else may be able to change it: it says where in the whole tree of files what is renamed.
fn read_plan(path: &Path, is_done: bool) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    if is_done && geteuid().is_root() {
        let meta = file.metadata()?;
        let by_sudo = |variable: &str| env::var(variable).ok()?.parse::<u32>().ok();
        let is_own = meta.uid() == 0 || by_sudo("SUDO_UID") == Some(meta.uid());
        let is_own_group = meta.gid() == 0 || by_sudo("SUDO_GID") == Some(meta.gid());
        let shared = if is_own_group { meta.mode() & !0o020 } else { meta.mode() };
        // A pipe comes from whoever started this.
        if meta.is_file() && (!is_own || others_can_write(shared)) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "user {} or others can change it, mode {:o}, and root does nothing that others may have written; make a \
                     copy that is root's, look at it, and apply that",
                    meta.uid(),
                    meta.mode() & 0o7777
                ),
            ));
        }
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// The policy that the plan was made by.
fn policy(plan: &Plan) -> Result<Option<Policy>, String> {
    let Some(text) = &plan.header.policy else { return Ok(None) };
    let wrong = |error: String| format!("the policy in its first line: {error}");
    let config = Config::parse(text).map_err(|error| wrong(error.to_string()))?;
    config.policy().map(Some).map_err(|error| wrong(error.to_string()))
}

fn status(tally: &Tally) -> ExitStatus {
    if tally.left == 0 { ExitStatus::Clean } else { ExitStatus::Findings }
}

fn about(path: &Path, message: impl std::fmt::Display) -> CliError {
    CliError::new(format_args!("{}: {message}", shown(path)))
}

/// Says what would be done.
fn say(
    args: &Args,
    plan: &Plan,
    policy: Option<&Policy>,
    out: &mut (dyn Write + Send),
) -> Result<ExitStatus, CliError> {
    let roots = Roots::open(&plan.header.roots, Names::new(), planned_names(plan), args.cross_file_systems);
    let roots = roots.map_err(CliError::new)?;
    let Args { keep_times, keep_original, batch, .. } = *args;
    let options = Options { policy, keep_times, keep_original, batch };
    let mut watcher = LookingOn::new(out, (plan.renames.len() + plan.retargets.len()) as u64);
    let tally = rehearse(plan, roots, options, &mut watcher);
    watcher.finish()?;
    let retargeted = match tally.retargeted {
        0 => String::new(),
        count => format!(", and {} follow", counted(count, "link would", "links would")),
    };
    writeln!(out, "{} be renamed{retargeted}.", counted(tally.renamed, "entry would", "entries would"))?;
    rest(&tally, "would be left", out)?;
    if !args.dry_run {
        writeln!(out, "Nothing was changed. To do it: namegate fix apply {} --yes", shown(&args.plan))?;
    }
    Ok(status(&tally))
}

/// Says what was done.
fn told(tally: &Tally, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    let retargeted = match tally.retargeted {
        0 => String::new(),
        count => format!(", {} followed", counted(count, "link", "links")),
    };
    writeln!(out, "{} renamed{retargeted}.", counted(tally.renamed, "entry", "entries"))?;
    rest(tally, "left as they are", out)
}

fn rest(tally: &Tally, left: &str, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    if tally.already > 0 {
        writeln!(out, "{} of the plan done before.", counted(tally.already, "line", "lines"))?;
    }
    if tally.left > 0 {
        writeln!(out, "{} of the plan {left}.", counted(tally.left, "line", "lines"))?;
    }
    for (why, count) in &tally.unmarked {
        writeln!(out, "{} not kept in an attribute: {why}.", counted(*count, "old name", "old names"))?;
    }
    Ok(())
}

impl Args {
    fn header(&self, plan: &Plan, text: &[u8]) -> Result<Header, CliError> {
        let path = path::absolute(&self.plan).map_err(|error| about(&self.plan, error))?;
        let root =
            |root: &crate::fix::plan::Root| Root { path: Base64(root.path.clone()), inode: root.inode };
        Ok(Header {
            version: VERSION,
            tool: env!("CARGO_PKG_VERSION").into(),
            started: timestamp_of_now(),
            plan: Base64(path.as_os_str().as_bytes().to_vec()),
            plan_bytes: text.len() as u64,
            plan_check: format!("{:08x}", crc32fast::hash(text)),
            roots: plan.header.roots.iter().map(root).collect(),
            renames: plan.renames.len() as u64,
            retargets: plan.retargets.len() as u64,
            keep_times: self.keep_times,
            keep_original: self.keep_original,
            cross_file_systems: self.cross_file_systems,
        })
    }

    /// A new journal.
    fn begun(&self, header: Header) -> Result<Journal, CliError> {
        if self.journal.is_none()
            && let Some(path) = interrupted(&header)?
        {
            return Err(CliError::new(format!(
                "this plan was begun and not ended; the journal is {path}\n\
                 To go on: namegate fix apply {plan} --resume\nTo take back what was done: namegate fix undo {path}",
                path = shown(&path),
                plan = shown(&self.plan)
            )));
        }
        let path = match &self.journal {
            Some(path) => path.clone(),
            None => {
                let dir = shelf_directory()?;
                let made = shelf::new_file(&dir, Timestamp::now());
                made.map_err(|error| about(&dir, format_args!("cannot be made: {error}")))?
            }
        };
        Journal::create(&path, header, &mut Nobody)
            .map_err(|error| about(&path, format_args!("cannot be written: {error}; nothing was changed")))
    }

    /// The journal of a run that was killed or interrupted, and what it says.
    fn resumed(&self, header: &Header) -> Result<(Journal, Option<Reading>), CliError> {
        let path = match &self.journal {
            Some(path) => path.clone(),
            None => match interrupted(header)? {
                Some(path) => path,
                None => {
                    let dir = shelf_directory()?;
                    return Err(CliError::new(format!(
                        "no journal in {} tells of a run of this plan that was not ended; --journal names another",
                        shown(&dir)
                    )));
                }
            },
        };
        let (journal, reading) = Journal::resume(&path).map_err(|error| about(&path, error))?;
        let Header { plan_bytes, plan_check, .. } = &reading.header;
        if (plan_bytes, plan_check) != (&header.plan_bytes, &header.plan_check) {
            return Err(about(&path, "the journal of another plan, or of this one before it was edited"));
        }
        if reading.undo.is_some() {
            return Err(about(
                &path,
                "what it tells of was taken back, or begun to be: `fix undo` ends that, and after it the plan can be applied anew",
            ));
        }
        Ok((journal, Some(reading)))
    }
}

pub(super) fn shelf_directory() -> Result<PathBuf, CliError> {
    shelf::directory()
        .ok_or_else(|| CliError::new("there is no home directory for journals; name one with --journal"))
}

/// The newest journal of a run of the plan that was not ended.
fn interrupted(plan: &Header) -> Result<Option<PathBuf>, CliError> {
    let Some(dir) = shelf::directory() else { return Ok(None) };
    let journals =
        shelf::journals(&dir).map_err(|error| about(&dir, format_args!("cannot be read: {error}")))?;
    Ok(journals.into_iter().find(|path| {
        let is_of_plan = header(path).is_some_and(|header| {
            (header.plan_bytes, &header.plan_check) == (plan.plan_bytes, &plan.plan_check)
        });
        is_of_plan && Reading::look(path).is_ok_and(|reading| Phase::of(&reading) == Phase::Interrupted)
    }))
}
