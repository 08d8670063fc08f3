//! `namegate watch`: names that break the policy, reported the moment they appear.

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use nix::sys::signal::Signal;

use super::policy_args::PolicyArgs;
use super::{CliError, ExitStatus};
use crate::json;
use crate::name::display::shown;
use crate::output::append;
use crate::policy::{Policy, profile};
use crate::report::layout::counted;
use crate::service::notify::ServiceManager;
use crate::service::signals::{Signals, has_terminal};
use crate::source::scope::Exclude;
use crate::telemetry::audit::{AuditLog, UncoveredNote, log_record};
use crate::watch::command::{CommandResults, Commands};
use crate::watch::{Finding, Watch, WatchCounts, WatchEngine, WatchSettings, Watched};

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
reopens the output files.

Exit status: 0 nothing was reported; 1 something was reported; 2 something could not be watched, read or run.";

/// Report names that break the policy the moment they appear
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchArgs {
    /// Directories to watch, with everything below them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = WatchFormat::Text)]
    format: WatchFormat,
    /// Append findings to FILE instead of writing them to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print no findings; the exit status, --audit and --exec still report them
    #[arg(short, long, conflicts_with_all = ["format", "output"])]
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
    /// Skip matching names and everything below them (gitignore syntax, relative to each PATH; repeatable)
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Skip other file systems mounted below a PATH
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Kernel interface to watch with
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    engine: EngineChoice,
    /// Let the kernel queue any number of events in its memory (root only, not with inotify)
    ///
    /// Without it, a full queue loses events, and the trees are read again.
    #[arg(long)]
    unlimited_queue: bool,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WatchFormat {
    /// One line of text per finding
    Text,
    /// JSON Lines, in the format of an audit log
    Json,
    /// Log records of level warning
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineChoice {
    /// First of the others that the file system and your privileges allow
    Auto,
    /// fanotify, one mark for the whole file system (root only)
    Fanotify,
    /// fanotify, one mark per directory
    FanotifyDirs,
    /// inotify, one watch per directory
    Inotify,
}

impl From<EngineChoice> for WatchEngine {
    fn from(word: EngineChoice) -> Self {
        match word {
            EngineChoice::Auto => Self::Auto,
            EngineChoice::Fanotify => Self::Fanotify,
            EngineChoice::FanotifyDirs => Self::FanotifyDirs,
            EngineChoice::Inotify => Self::Inotify,
        }
    }
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

/// Where findings go.
struct Sinks<'o> {
    format: WatchFormat,
    /// `None`: nowhere.
    out: Option<Box<dyn Write + Send + 'o>>,
    audit_log: Option<AuditLog>,
    commands: Option<Commands>,
    is_once: bool,
    has_one: bool,
    /// Why findings cannot be written any more.
    failed: Option<io::Error>,
}

impl Sinks<'_> {
    fn take(&mut self, finding: Finding) {
        if self.is_once && std::mem::replace(&mut self.has_one, true) {
            return;
        }
        self.has_one = true;
        if let Some(out) = &mut self.out
            && self.failed.is_none()
        {
            let written = match self.format {
                WatchFormat::Text => writeln!(out, "{} {}", finding.record.timestamp(), finding.record),
                WatchFormat::Json => finding.record.write_json(out),
                WatchFormat::Log => {
                    log_record(&finding.record);
                    Ok(())
                }
            };
            self.failed = written.err();
        }
        if let Some(audit_log) = &mut self.audit_log {
            audit_log.keep(&finding.record);
        }
        if let Some(commands) = &mut self.commands {
            commands.run(finding);
        }
    }

    /// Says in the output that what appeared in some directories is missing there.
    fn note_uncovered(&mut self, directories: u64) {
        let note = UncoveredNote::now(directories);
        match (self.format, &mut self.out) {
            (WatchFormat::Json, Some(out)) if self.failed.is_none() => {
                self.failed = json::write_line(out, &note).err()
            }
            (WatchFormat::Log, _) => log::warn!("{directories} directories or more were not read to the end"),
            _ => {}
        }
        if let Some(audit_log) = &mut self.audit_log {
            audit_log.note(&note);
        }
    }

    /// # Errors
    /// Standard output, or the file in its place, cannot be written.
    fn flush(&mut self) -> Result<(), CliError> {
        let flushed = self.out.as_mut().map_or(Ok(()), |out| out.flush());
        match self.failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(flushed?),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The policy cannot be read, a path cannot be watched, or the output cannot be written.
pub fn run(args: &WatchArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let policy = policy(args)?;
    // Before there are threads, which would take the signals.
    let signals = Signals::take(Signals::WATCH);
    let (manager, had_terminal) = (ServiceManager::from_environment(), has_terminal());
    let exclude = Exclude::new(args.exclude.iter().map(String::as_str));
    let exclude = exclude.map_err(|error| CliError::new(format_args!("--exclude: {error}")))?;
    let impossible = |error| CliError::new(format_args!("--exec: {error}"));
    let commands = (!args.exec.is_empty())
        .then(|| Commands::new(args.exec.clone(), args.exec_jobs).map_err(impossible))
        .transpose()?;
    let mut sinks = Sinks {
        format: args.format,
        out: match &args.output {
            _ if args.quiet => None,
            Some(file) => Some(appended(file)?),
            None => Some(Box::new(out)),
        },
        audit_log: audit_log(args)?,
        commands,
        is_once: args.once,
        has_one: false,
        failed: None,
    };
    let settings = WatchSettings {
        policy,
        warnings: args.warnings,
        exclude,
        one_file_system: args.one_file_system,
        engine: args.engine.into(),
        initial: args.initial,
        is_unlimited: args.unlimited_queue,
    };
    let mut watch = Watch::new(&args.paths, settings).map_err(CliError::new)?;
    /// So long what had happened before the end is still read.
    const GRACE: Duration = Duration::from_secs(2);
    let begin = Instant::now();
    /// How it is is told to a service manager that often, or as often as that wants to hear that it lives.
    const TOLD_EVERY: Duration = Duration::from_secs(10);
    let (mut is_ready, mut ending, mut told) = (false, None::<Instant>, begin);
    loop {
        if ending.is_some() {
            watch.hurry();
        }
        let is_busy = watch.turn(&mut |finding| sinks.take(finding));
        sinks.flush()?;
        if !is_ready && !watch.is_reading() {
            is_ready = true;
            tell_ready(watch.watched(), watch.directories());
            manager.ready();
        }
        if manager.is_there()
            && told.elapsed() >= TOLD_EVERY.min(manager.watchdog().unwrap_or(TOLD_EVERY) / 3)
        {
            told = Instant::now();
            manager.alive();
            manager.status(&line(watch.counts(), begin.elapsed()));
        }
        if sinks.is_once && sinks.has_one {
            break;
        }
        if let Some(since) = ending
            && (!is_busy || since.elapsed() > GRACE)
        {
            break;
        }
        let left = args.duration.map(|duration| duration.saturating_sub(begin.elapsed()));
        match signals.next() {
            Some(Signal::SIGUSR1) => tell(&line(watch.counts(), begin.elapsed())),
            // Otherwise it says that the terminal is gone.
            Some(Signal::SIGHUP) if !had_terminal || has_terminal() => {
                manager.reloading();
                reload(args, &mut watch, &mut sinks);
                manager.reloaded();
            }
            Some(_) if ending.is_some() => break,
            Some(_) => ending = Some(Instant::now()),
            None if ending.is_none() && is_ready && left.is_some_and(|left| left.is_zero()) => {
                ending = Some(Instant::now());
            }
            None if is_busy => {}
            None => {
                let often = manager.watchdog().map_or(TOLD_EVERY, |watchdog| watchdog.min(TOLD_EVERY) / 3);
                let most = if manager.is_there() { often } else { Duration::from_secs(60) };
                let most = left.map_or(most, |left| left.min(most));
                let waited = watch.wait(signals.fd(), most);
                waited.map_err(|errno| CliError::new(format_args!("cannot wait: {errno}")))?;
            }
        }
    }
    manager.stopping();
    let counts = watch.counts();
    drop(watch);
    // Ending with the first finding is no reading to the end, and is not meant to be one.
    if counts.uncovered > 0 && !sinks.is_once {
        sinks.note_uncovered(counts.uncovered);
    }
    /// Longer than that nobody waits who has asked for the end.
    const PATIENCE: Duration = Duration::from_secs(5);
    let ran = sinks.commands.take().map(|commands| commands.finish(PATIENCE)).unwrap_or_default();
    sinks.flush()?;
    tell(&line(counts, begin.elapsed()));
    let uncovered = if sinks.is_once { 0 } else { counts.uncovered };
    Ok(status(WatchCounts { uncovered, ..counts }, ran, sinks.has_one))
}

fn status(counts: WatchCounts, ran: CommandResults, has_one: bool) -> ExitStatus {
    if ran.left > 0 {
        let findings = counted(ran.left, "finding", "findings");
        tell(&format!("--exec was not run, or did not finish, for {findings}"));
    }
    match counts.faults + counts.unwatched + counts.uncovered + ran.failed + ran.left {
        0 if has_one => ExitStatus::Findings,
        0 => ExitStatus::Clean,
        _ => ExitStatus::Failed,
    }
}

fn policy(args: &WatchArgs) -> Result<Policy, CliError> {
    args.policy.policy(&[&profile::STRICT])
}

fn audit_log(args: &WatchArgs) -> Result<Option<AuditLog>, CliError> {
    let open = |file: &PathBuf| AuditLog::append(file).map_err(|error| cannot_write(file, &error));
    args.audit.as_ref().map(open).transpose()
}

fn cannot_write(file: &Path, error: &io::Error) -> CliError {
    CliError::new(format_args!("{}: cannot be written: {error}", shown(file)))
}

/// The end of a file.
fn appended(file: &Path) -> Result<Box<dyn Write + Send>, CliError> {
    let file = append(file, 0o666).map_err(|error| cannot_write(file, &error))?;
    Ok(Box::new(io::BufWriter::new(file)))
}

/// Reads the policy again, and opens the files again, which may have been moved away. What cannot be done changes nothing.
fn reload(args: &WatchArgs, watch: &mut Watch, sinks: &mut Sinks<'_>) {
    let reloaded = || -> Result<_, CliError> {
        let out = args.output.as_deref().filter(|_| !args.quiet).map(appended).transpose()?;
        Ok((policy(args)?, out, audit_log(args)?))
    };
    match reloaded() {
        Ok((policy, out, audit_log)) => {
            watch.set_policy(policy);
            if out.is_some() {
                sinks.out = out.map(|out| out as Box<dyn Write + Send>);
            }
            sinks.audit_log = audit_log;
            log::info!("the policy was read again, and the files opened again");
        }
        Err(CliError::Message(message)) => log::error!("nothing is changed: {message}"),
        Err(_) => {}
    }
}

/// Says what is watched, and how.
fn tell_ready(watched: &[Watched], directories: usize) {
    for Watched { path, kind, engine, instead } in watched {
        let how = match engine {
            WatchEngine::Auto | WatchEngine::Fanotify => "the whole file system".to_owned(),
            WatchEngine::FanotifyDirs | WatchEngine::Inotify => "directory by directory".to_owned(),
        };
        let because = instead.as_ref().map(|reasons| format!("; {reasons}")).unwrap_or_default();
        tell(&format!("watching {} ({kind}) by {}, {how}{because}", shown(path), engine.as_str()));
    }
    if directories > 0 {
        let directories = counted(directories as u64, "directory is", "directories are");
        tell(&format!("{directories} watched one by one"));
    }
}

/// How far it has come.
fn line(counts: WatchCounts, elapsed: Duration) -> String {
    let WatchCounts { events, findings, directories, lost, faults, unwatched, unplaced, uncovered } = counts;
    let (found, read) = (counted(findings, "finding", "findings"), counted(events, "event", "events"));
    let mut line = format!("{found} in {read} in {} s", elapsed.as_secs());
    let more = [
        (directories, "directory read", "directories read"),
        (
            lost,
            "time events were lost and the trees read again",
            "times events were lost and the trees read again",
        ),
        (faults, "path could not be watched or read", "paths could not be watched or read"),
        (
            unwatched,
            "directory is not watched: there are too many",
            "directories are not watched: there are too many",
        ),
        (
            unplaced,
            "bad name in a directory that vanished before it was located",
            "bad names in directories that vanished before they were located",
        ),
        (
            uncovered,
            "directory or more was not read to the end: new names in it are not reported",
            "directories or more were not read to the end: new names in them are not reported",
        ),
    ];
    for (count, one, many) in more.into_iter().filter(|(count, ..)| *count > 0) {
        line += &format!("; {}", counted(count, one, many));
    }
    line
}

/// Says something besides findings.
fn tell(what: &str) {
    // Where nobody listens any more, the findings and the status have to do.
    let _ = writeln!(anstream::stderr(), "namegate: {what}");
}
