//! `namegate verify`: compares what arrived at a target with its source.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use namegate_core::name::display::{display, shown};
use namegate_core::policy::Confidence;
use namegate_core::policy::Policy;
use namegate_files::json::{self, JsonBytes, TypedObject};
use namegate_fix::journal::read_header;
use namegate_fix::verify::{CopyDifference, PlannedNames, VerifyCounts, VerifyRequest, verify};
use namegate_scan::probe::probe;
use namegate_scan::progress::NoProgress;
use namegate_scan::report::layout::{counted, grouped};
use namegate_scan::source::scope::Exclude;
use namegate_sys::process::processors;
use serde_json::json;

use super::fix::{confidences, read_plan};
use super::format::{FormatArgs, PlainFormat};
use super::policy_args::PolicyArgs;
use super::progress::{ProgressMode, TerminalProgress};
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate verify /srv/share /mnt/usb
  namegate verify /srv/share /mnt/usb --contents        # also compare every byte
  namegate verify /old /mnt/usb --plan plan.jsonl       # /old still has the old names
  namegate verify /srv/share /mnt/usb --config usb.toml # which names are one there
  namegate verify /srv/share /mnt/usb --exclude /lost+found/ --json

Names, kinds, sizes and link texts are compared, and with --contents the contents of files. Nothing is changed, and links are not followed. \
Which names are one for the target says the policy of --config (of `namegate probe -o`) or --profile, or without it the type of its file system \
and the flags of the directory: nothing is written there.

Exit status: 0 everything arrived, 1 there are differences, 2 something could not be read or compared, 129 ended by SIGHUP, 130 by \
Ctrl-C, 143 by SIGTERM.";

/// Compare what arrived at a target with its source, by name, kind, size and contents
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Directory that was copied
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Directory that should have the same
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Expect the new names of this plan, or of the plan of this journal: SOURCE still has the old ones
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// What was decided about the plan, in a file of the page of `fix plan -o review.html`
    #[arg(long, value_name = "FILE", requires = "plan")]
    decisions: Option<PathBuf>,
    /// Least certain names of the plan that were applied [default: likely, or those of the journal]
    #[arg(long, value_name = "CONFIDENCE", requires = "plan", value_parser = confidences())]
    at_least: Option<Confidence>,
    /// Compare the contents of files
    #[arg(long)]
    contents: bool,
    /// Compare the numbers of hard links of files
    #[arg(long)]
    hard_links: bool,
    /// Skip matching names and everything below them in both trees (gitignore(5) patterns; repeatable)
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Number of threads that read directories [default: two per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "STYLE")]
    progress: ProgressMode,
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Runs the command.
///
/// # Errors
/// A root, the plan or the policy cannot be read, or the output cannot be written.
pub fn run(args: &VerifyArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let policy = args.policy()?;
    let exclude = Exclude::new(args.exclude.iter().map(String::as_str));
    let request = VerifyRequest {
        source: args.source.clone(),
        target: args.target.clone(),
        planned: args.plan.as_deref().map(|plan| args.planned(plan)).transpose()?,
        exclude: exclude.map_err(|error| CliError::new(format_args!("--exclude: {error}")))?,
        compares_contents: args.contents,
        compares_links: args.hard_links,
        jobs: args.jobs.map_or_else(|| 2 * processors(), usize::from),
    };
    let progress = TerminalProgress::new(args.progress, None, None);
    let is_json = args.format.format == PlainFormat::Json;
    let mut write = |path: &[u8], difference: &CopyDifference| match is_json {
        true => json::write_line(out, &difference_json(path, difference)),
        false => writeln!(out, "{}", difference_text(path, difference)),
    };
    let compared = progress.run(|| verify(&request, &policy, &progress, &mut write));
    let counts = compared.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::new(error),
    })?;
    progress.release();
    if let Some(status) = progress.stopped() {
        // If standard error fails, the status remains.
        let _ = writeln!(anstream::stderr(), "namegate: the run was stopped before everything was compared");
        return Ok(status);
    }
    match is_json {
        true => json::write_line(out, &TypedObject::new("verification", counts_json(&counts)))?,
        false => writeln!(out, "{}", verdict(&counts))?,
    }
    Ok(match (counts.is_certain(), counts.different) {
        (false, _) => ExitStatus::Failed,
        (true, 0) => ExitStatus::Clean,
        (true, _) => ExitStatus::Findings,
    })
}

impl VerifyArgs {
    /// The policy of the options, or else what can be read of the target.
    fn policy(&self) -> Result<Policy, CliError> {
        if self.policy.is_given() {
            return self.policy.policy(&[]);
        }
        let asked = probe(&self.target, false, &NoProgress);
        let asked = asked.map_err(|error| CliError::new(format_args!("{}: {error}", shown(&self.target))))?;
        log::info!("names are compared as the profile `{}` does", asked.fit.profile.name);
        asked.fit.config.policy().map_err(CliError::new)
    }

    fn planned(&self, path: &Path) -> Result<PlannedNames, CliError> {
        let name = shown(path);
        let cannot = |error: &dyn std::fmt::Display| CliError::new(format_args!("--plan: {name}: {error}"));
        let header = read_header(path);
        let of_journal =
            header.as_ref().map(|header| PathBuf::from(OsString::from_vec(header.plan.0.clone())));
        let decided = header.as_ref().and_then(|header| header.decisions.as_ref());
        let decided = decided.map(|file| PathBuf::from(OsString::from_vec(file.file.0.clone())));
        let decisions = self.decisions.as_deref().or(decided.as_deref());
        let plan = read_plan(of_journal.as_deref().unwrap_or(path), decisions, false)?;
        if header.as_ref().is_some_and(|header| header.plan_check != format!("{:08x}", plan.check)) {
            return Err(cannot(&"the plan was changed after this run"));
        }
        // What a person decided is done, however sure it was.
        let usual = if decisions.is_some() { Confidence::Guess } else { Confidence::Likely };
        let of_run = header.as_ref().map(|header| header.at_least).filter(|_| decisions.is_none());
        let default = of_run.unwrap_or(usual);
        let least = self.at_least.unwrap_or(default);
        PlannedNames::new(&plan, &self.source, least).map_err(|error| cannot(&error))
    }
}

fn difference_text(path: &[u8], difference: &CopyDifference) -> String {
    let path = display(path);
    match difference {
        CopyDifference::Missing => format!("missing: {path}"),
        CopyDifference::Extra => format!("extra: {path}"),
        CopyDifference::Merged(other) => format!("merged: {path} became one with {}", display(other)),
        CopyDifference::Respelled(name) => format!("respelled: {path} arrived as {}", display(name)),
        CopyDifference::SameName(name) => {
            format!("same name: {path} arrived as {}, which is the same name there", display(name))
        }
        CopyDifference::Property(what, source, target) => {
            format!("{what}: {path}: {source}, at the target {target}")
        }
        CopyDifference::Contents => format!("contents: {path} differs"),
    }
}

fn difference_json(path: &[u8], difference: &CopyDifference) -> serde_json::Value {
    let mut line = json!({
        "type": "difference", "difference": difference.word(), "path": JsonBytes::new(path),
        "is_harmless": difference.is_harmless(),
    });
    match difference {
        CopyDifference::Merged(other) => line["with"] = json!(JsonBytes::new(other)),
        CopyDifference::Respelled(name) | CopyDifference::SameName(name) => {
            line["arrived"] = json!(JsonBytes::new(name))
        }
        CopyDifference::Property(what, source, target) => {
            (line["property"], line["source"], line["target"]) = (json!(what), json!(source), json!(target));
        }
        CopyDifference::Missing | CopyDifference::Extra | CopyDifference::Contents => {}
    }
    line
}

fn counts_json(counts: &VerifyCounts) -> serde_json::Value {
    json!({
        "entries": counts.entries, "arrived": counts.arrived, "different": counts.different,
        "same_names": counts.same_names, "unknown": counts.unknown, "problems": counts.problems,
        "verdict": match (counts.is_certain(), counts.different) {
            (false, _) => "unknown",
            (true, 0) => "arrived",
            (true, _) => "different",
        },
    })
}

fn verdict(counts: &VerifyCounts) -> String {
    let entries = counted(counts.entries, "entry", "entries");
    let arrived = grouped(counts.arrived);
    let mut text = match (counts.is_certain(), counts.different) {
        (true, 0) => format!("{entries}: all arrived"),
        (_, different) => {
            let different = counted(different, "difference", "differences");
            format!("{entries}, {arrived} of them arrived, {different}")
        }
    };
    if counts.same_names > 0 {
        text += &format!(", {} under another spelling of the same name", grouped(counts.same_names));
    }
    if !counts.is_certain() {
        let problems = counted(counts.problems, "problem", "problems");
        text += &format!("; {} cannot be told, because of {problems}", grouped(counts.unknown));
    }
    text
}
