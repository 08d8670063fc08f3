//! `namegate watch`: names that break the policy, reported the moment they appear.

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use nix::sys::signal::Signal;

use super::policy_args::PolicyArgs;
use super::{Status, Trouble};
use crate::name::display::shown;
use crate::output::append;
use crate::policy::{Policy, profile};
use crate::report::json;
use crate::service::notify::Manager;
use crate::service::signals::{Signals, has_terminal};
use crate::source::scope::Exclude;
use crate::telemetry::audit::{Trail, Uncovered, log_record};
use crate::watch::command::{Commands, Ran};
use crate::watch::{Counts, Engine, Finding, Settings, Watch, Watched};

const EXAMPLES: &str = "\
Examples:
  namegate watch /srv/share
  namegate watch /srv/share /home --profile windows,macos --format json
  namegate watch /srv/share --audit /var/log/namegate-watch.jsonl
  namegate watch /srv/share --for 1h --initial --quiet; echo $?
  namegate watch /srv/share --exec logger -t badname -- {}
  namegate watch inbox --once && echo none came      (until one does: then the status is 1)

--exec takes all words up to a `;` or the end of the line. The program is started directly, without a shell. A word that is \
{} becomes the path of the name; NAMEGATE_PATH, _PARENT, _NAME, _NAME_HEX, _NAME_SHOWN, _RULE, _START, _END, _OPERATION, _PID, _UID \
and _GID stand in its environment. A name can hold anything but / and NUL: in a shell script write \"$NAMEGATE_PATH\".

SIGINT (Ctrl-C) and SIGTERM end it with a summary, SIGUSR1 asks how far it has come, SIGHUP has the policy read and the \
files opened again.
Exit status: 0 nothing was reported, 1 something was, 2 something could not be watched, read or run.";

/// Report names that break the policy the moment they appear, behind a mount or beside it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The directories to watch, with all that is below them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// How the findings are written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Append the findings to FILE instead of writing them to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write no finding: the exit status, --audit and --exec tell.
    #[arg(short, long, conflicts_with_all = ["format", "output"])]
    quiet: bool,
    /// Append a line of JSON for each finding, as the audit trail of a mount.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Run a program for each finding.
    #[arg(long, value_name = "PROGRAM ARG... [;]", num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    exec: Vec<OsString>,
    /// How many of them run at a time.
    #[arg(long, value_name = "N", default_value = "4", requires = "exec")]
    exec_jobs: NonZeroUsize,
    /// Report names that are there already, too.
    #[arg(long)]
    initial: bool,
    /// End with the first finding.
    #[arg(long)]
    once: bool,
    /// End after this time: a number of seconds, or one with s, m or h behind it.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Report names that the policy only warns of, too.
    #[arg(long)]
    warnings: bool,
    /// Leave out what matches, and what lies below it; the syntax is that of gitignore(5), counted from each PATH.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Leave out other file systems that are mounted below a PATH.
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// What watches.
    #[arg(long, value_enum, default_value_t = EngineWord::Auto)]
    engine: EngineWord,
    /// Have the kernel keep any number of events, in its own memory. Without it, more than it keeps cost a reading of the
    /// trees. For root alone; not with inotify.
    #[arg(long)]
    unlimited_queue: bool,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people, a line each.
    Text,
    /// JSON Lines, as an audit trail.
    Json,
    /// Records of the log, at the level of warnings.
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineWord {
    /// The first of the others that the file system and our rights allow.
    Auto,
    /// The whole file system, by fanotify; for root.
    Fanotify,
    /// Each directory, by fanotify.
    FanotifyDirs,
    /// Each directory, by inotify.
    Inotify,
}

impl From<EngineWord> for Engine {
    fn from(word: EngineWord) -> Self {
        match word {
            EngineWord::Auto => Self::Auto,
            EngineWord::Fanotify => Self::Fanotify,
            EngineWord::FanotifyDirs => Self::FanotifyDirs,
            EngineWord::Inotify => Self::Inotify,
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
    format: Format,
    /// `None`: nowhere.
    out: Option<Box<dyn Write + Send + 'o>>,
    trail: Option<Trail>,
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
                Format::Text => writeln!(out, "{} {}", finding.record.timestamp(), finding.record),
                Format::Json => finding.record.write_json(out),
                Format::Log => {
                    log_record(&finding.record);
                    Ok(())
                }
            };
            self.failed = written.err();
        }
        if let Some(trail) = &mut self.trail {
            trail.keep(&finding.record);
        }
        if let Some(commands) = &mut self.commands {
            commands.run(finding);
        }
    }

    /// Says in the output that what appeared in some directories is missing there.
    fn note_uncovered(&mut self, directories: u64) {
        let note = Uncovered::now(directories);
        match (self.format, &mut self.out) {
            (Format::Json, Some(out)) if self.failed.is_none() => self.failed = json::line(out, &note).err(),
            (Format::Log, _) => log::warn!("{directories} directories or more were not read to the end"),
            _ => {}
        }
        if let Some(trail) = &mut self.trail {
            trail.note(&note);
        }
    }

    /// # Errors
    /// Standard output, or the file in its place, cannot be written.
    fn flush(&mut self) -> Result<(), Trouble> {
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
pub fn run(args: &Args, out: &mut (dyn Write + Send)) -> Result<Status, Trouble> {
    let policy = policy(args)?;
    // Before there are threads, which would take the signals.
    let signals = Signals::take(Signals::WATCH);
    let (manager, had_terminal) = (Manager::of_environment(), has_terminal());
    let exclude = Exclude::new(args.exclude.iter().map(String::as_str));
    let exclude = exclude.map_err(|error| Trouble::new(format_args!("--exclude: {error}")))?;
    let impossible = |error| Trouble::new(format_args!("--exec: {error}"));
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
        trail: trail(args)?,
        commands,
        is_once: args.once,
        has_one: false,
        failed: None,
    };
    let settings = Settings {
        policy,
        warnings: args.warnings,
        exclude,
        one_file_system: args.one_file_system,
        engine: args.engine.into(),
        initial: args.initial,
        is_unlimited: args.unlimited_queue,
    };
    let mut watch = Watch::new(&args.paths, settings).map_err(Trouble::new)?;
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
                waited.map_err(|errno| Trouble::new(format_args!("cannot wait: {errno}")))?;
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
    Ok(status(Counts { uncovered, ..counts }, ran, sinks.has_one))
}

fn status(counts: Counts, ran: Ran, has_one: bool) -> Status {
    if ran.left > 0 {
        tell(&format!("--exec was not run, or not to its end, for {} findings", ran.left));
    }
    match counts.faults + counts.unwatched + counts.uncovered + ran.failed + ran.left {
        0 if has_one => Status::Findings,
        0 => Status::Clean,
        _ => Status::Trouble,
    }
}

fn policy(args: &Args) -> Result<Policy, Trouble> {
    args.policy.policy(&[&profile::STRICT])
}

fn trail(args: &Args) -> Result<Option<Trail>, Trouble> {
    let open = |file: &PathBuf| Trail::append(file).map_err(|error| cannot_write(file, &error));
    args.audit.as_ref().map(open).transpose()
}

fn cannot_write(file: &Path, error: &io::Error) -> Trouble {
    Trouble::new(format_args!("{}: cannot be written: {error}", shown(file)))
}

/// The end of a file.
fn appended(file: &Path) -> Result<Box<dyn Write + Send>, Trouble> {
    let file = append(file, 0o666).map_err(|error| cannot_write(file, &error))?;
    Ok(Box::new(io::BufWriter::new(file)))
}

/// Reads the policy again, and opens the files again, which may have been moved away. What cannot be done changes nothing.
fn reload(args: &Args, watch: &mut Watch, sinks: &mut Sinks<'_>) {
    let reloaded = || -> Result<_, Trouble> {
        let out = args.output.as_deref().filter(|_| !args.quiet).map(appended).transpose()?;
        Ok((policy(args)?, out, trail(args)?))
    };
    match reloaded() {
        Ok((policy, out, trail)) => {
            watch.set_policy(policy);
            if out.is_some() {
                sinks.out = out.map(|out| out as Box<dyn Write + Send>);
            }
            sinks.trail = trail;
            log::info!("the policy was read again, and the files opened again");
        }
        Err(Trouble::Message(message)) => log::error!("nothing is changed: {message}"),
        Err(_) => {}
    }
}

/// Says what is watched, and how.
fn tell_ready(watched: &[Watched], directories: usize) {
    for Watched { path, kind, engine, instead } in watched {
        let how = match engine {
            Engine::Auto | Engine::Fanotify => "the whole file system".to_owned(),
            Engine::FanotifyDirs | Engine::Inotify => "directory by directory".to_owned(),
        };
        let because = instead.as_ref().map(|reasons| format!("; {reasons}")).unwrap_or_default();
        tell(&format!("watching {} ({kind}) by {}, {how}{because}", shown(path), engine.as_str()));
    }
    if directories > 0 {
        tell(&format!("{directories} directories are watched one by one"));
    }
}

/// How far it has come.
fn line(counts: Counts, elapsed: Duration) -> String {
    let Counts { events, findings, directories, lost, faults, unwatched, unplaced, uncovered } = counts;
    let mut line = format!("{findings} findings in {events} events in {} s", elapsed.as_secs());
    let more = [
        (lost, "times events were lost and the trees read again"),
        (faults, "things could not be watched or read"),
        (unwatched, "directories are not watched: there are too many"),
        (unplaced, "bad names in directories that were gone before it could be told where"),
        (uncovered, "directories or more were not read to the end: what appeared in them is not reported"),
    ];
    if directories > 0 {
        line += &format!("; {directories} directories read");
    }
    for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
        line += &format!("; {count} {what}");
    }
    line
}

/// Says something besides findings.
fn tell(what: &str) {
    // Where nobody listens any more, the findings and the status have to do.
    let _ = writeln!(anstream::stderr(), "namegate: {what}");
}
