//! `namegate watch`: names that break the policy, reported the moment they appear.

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use namegate_core::policy::{Policy, profile};
use namegate_files::output::append;
use namegate_scan::report::layout::counted;
use namegate_scan::source::scope::Exclude;
use namegate_telemetry::audit::AuditLog;
use namegate_watch::command::Commands;
use namegate_watch::{Watch, WatchEngine, WatchSettings};

use super::follow::check_program;
use super::format::FormatArgs;
use super::guards::known_guards;
use super::output::cannot_write;
use super::policy_args::PolicyArgs;
use super::words::word_parser;
use super::{CliError, ExitStatus};
use crate::service::watch_service::{
    FindingFiles, FindingFormat, FindingSinks, WatchEnd, WatchError, WatchOutcome, WatchService,
};

const EXAMPLES: &str = "\
Examples:
  namegate watch /srv/share
  namegate watch /srv/share /home --profile windows,macos --format json
  namegate watch /srv/share --audit /var/log/namegate-watch.jsonl
  namegate watch /srv/share --for 1h --initial --quiet; echo $?
  namegate watch /srv/share --exec logger -t badname -- {}
  namegate watch inbox --once || echo 'a bad name appeared'

--exec takes all words up to a `;` or the end of the line, and starts the program directly, without a shell. The word {} \
becomes the path of the name. The environment has NAMEGATE_PATH, NAMEGATE_PARENT, NAMEGATE_NAME, NAMEGATE_NAME_HEX, \
NAMEGATE_NAME_SHOWN, NAMEGATE_RULE, NAMEGATE_START, NAMEGATE_END, NAMEGATE_OPERATION, NAMEGATE_PID, NAMEGATE_UID and \
NAMEGATE_GID. A name can hold any byte but / and NUL: quote \"$NAMEGATE_PATH\" in shell scripts.

SIGINT (Ctrl-C) and SIGTERM end the watch with a summary. SIGUSR1 prints the progress. SIGHUP reads the policy again and \
reopens the output files, each whether the other fails or not. A PATH that leads to another directory later is watched again.

Exit status: 0 nothing was reported; 1 something was reported; 2 something could not be watched, read or run.";

/// Report names that break the policy the moment they appear
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchArgs {
    /// Directories to watch, with everything below them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    format: FormatArgs<FindingFormat>,
    /// Append findings to FILE instead of writing them to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print no findings; the exit status, --audit and --exec still report them
    #[arg(short, long, conflicts_with_all = ["format", "json", "output"])]
    quiet: bool,
    /// Append one line of JSON per finding to FILE, in the format of a mount's audit log
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Run a program for each finding
    #[arg(long, value_name = "PROGRAM ARG... [;]", num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    exec: Vec<OsString>,
    /// Run at most N programs of --exec at a time
    #[arg(long, value_name = "N", default_value = "4", requires = "exec")]
    exec_jobs: NonZeroUsize,
    /// Report existing names first
    #[arg(long)]
    initial: bool,
    /// Exit after the first finding
    #[arg(long)]
    once: bool,
    /// Exit after this time: seconds, or a number with s, m or h (90, 0.5s, 10m, 2h)
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Also report names that the policy only warns about
    #[arg(long)]
    warnings: bool,
    /// Skip matching names and everything below them (gitignore(5) patterns, relative to each PATH; repeatable)
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Skip other file systems mounted below a PATH
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Kernel interface to watch with
    #[arg(long, value_parser = word_parser(WatchEngine::WORDS), default_value = "auto")]
    engine: WatchEngine,
    /// Let the kernel queue any number of events in its memory (root only, not with inotify)
    ///
    /// Without it, a full queue loses events, and the trees are read again.
    #[arg(long)]
    unlimited_queue: bool,
    #[command(flatten)]
    policy: PolicyArgs,
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    let (number, factor) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        Some(b'h') => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * factor);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or("not a duration, such as 90, 0.5s, 10m or 2h")
}

/// Runs the command.
///
/// # Errors
/// The policy cannot be read, a path cannot be watched, or the output cannot be written.
pub fn run(args: &WatchArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let policy = policy(args)?;
    // Before there are threads, which would take the signals.
    let service = WatchService::begin();
    let exclude = Exclude::new(args.exclude.iter().map(String::as_str));
    let exclude = exclude.map_err(|error| CliError::new(format_args!("--exclude: {error}")))?;
    let impossible = |error| CliError::new(format_args!("--exec: {error}"));
    check_program(&args.exec)?;
    let commands = (!args.exec.is_empty())
        .then(|| Commands::new(args.exec.clone(), args.exec_jobs).map_err(impossible))
        .transpose()?;
    let mut files = open_files(args)?;
    if !args.quiet && args.output.is_none() {
        files.out = Some(Box::new(out));
    }
    let settings = WatchSettings {
        policy,
        warnings: args.warnings,
        exclude,
        one_file_system: args.one_file_system,
        engine: args.engine,
        initial: args.initial,
        is_unlimited: args.unlimited_queue,
    };
    let watch = Watch::new(&args.paths, settings).map_err(CliError::new)?;
    guards_of(&args.paths).iter().for_each(|note| print(note));
    let reopen = || open_files(args).map_err(|error| error.to_string());
    let read_policy = || self::policy(args).map_err(|error| error.to_string());
    let format = args.format.format;
    let sinks = FindingSinks { format, files, commands, reopen: &reopen, read_policy: &read_policy, print };
    match service.run(watch, sinks, WatchEnd { is_once: args.once, duration: args.duration }) {
        Ok(outcome) => Ok(status(&outcome)),
        Err(WatchError::Output(error)) => Err(error.into()),
        Err(WatchError::Wait(errno)) => Err(CliError::new(format_args!("cannot wait for events: {errno}"))),
    }
}

fn status(outcome: &WatchOutcome) -> ExitStatus {
    let WatchOutcome { counts, commands, has_finding } = outcome;
    if commands.left > 0 {
        let findings = counted(commands.left, "finding", "findings");
        print(&format!("--exec was not run, or did not finish, for {findings}"));
    }
    match counts.faults + counts.unwatched + counts.uncovered + commands.failed + commands.left {
        0 if *has_finding => ExitStatus::Findings,
        0 => ExitStatus::Clean,
        _ => ExitStatus::Failed,
    }
}

fn policy(args: &WatchArgs) -> Result<Policy, CliError> {
    args.policy.policy(&[&profile::STRICT])
}

/// A note for each enforcing guard in the watched trees: the names that it refuses do not appear.
fn guards_of(paths: &[PathBuf]) -> Vec<String> {
    let paths: Vec<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let guards = known_guards().into_iter().filter(|guard| guard.mode == "enforcing");
    guards
        .filter_map(|guard| paths.iter().find_map(|path| guard.place_below(path)))
        .map(|place| {
            format!("a guard refuses names in {place}: they never appear here, and `namegate guard events` reports them")
        })
        .collect()
}

/// Opens the files of the command line, to append to them.
fn open_files<'o>(args: &WatchArgs) -> Result<FindingFiles<'o>, CliError> {
    let appended = |file: &PathBuf| -> Result<Box<dyn Write + Send>, CliError> {
        let file = append(file, 0o666).map_err(|error| cannot_write(file, &error))?;
        Ok(Box::new(io::BufWriter::new(file)))
    };
    let open_log = |file: &PathBuf| AuditLog::append(file).map_err(|error| cannot_write(file, &error));
    Ok(FindingFiles {
        out: args.output.as_ref().map(appended).transpose()?,
        audit_log: args.audit.as_ref().map(open_log).transpose()?,
    })
}

/// Prints a message that is not a finding.
fn print(what: &str) {
    // Where nobody listens any more, the findings and the status have to do.
    let _ = writeln!(anstream::stderr(), "namegate: {what}");
}
