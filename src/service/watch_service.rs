//! Runs a watch until it ends: processes its findings, handles signals, and reports to the service manager.

use std::io::{self, Write};
use std::mem;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use namegate_core::name::display::shown;
use namegate_core::policy::Policy;
use namegate_files::json;
use namegate_scan::report::layout::counted;
use namegate_telemetry::audit::{AuditLog, AuditRecord, UncoveredNote, log_record};
use namegate_watch::command::{CommandResults, Commands};
use namegate_watch::{Finding, Watch, WatchCounts, WatchEngine, Watched};
use nix::errno::Errno;
use nix::sys::signal::Signal;

use super::notify::ServiceManager;
use super::signals::{Signals, has_terminal};

/// How long events from before the end are still read.
const GRACE: Duration = Duration::from_secs(2);
/// The longest time between two messages to the service manager.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);
/// The longest sleep without a service manager.
const SLEEP: Duration = Duration::from_secs(60);

/// How findings are written to the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FindingFormat {
    /// One line of text per finding
    Text,
    /// JSON Lines, in the format of an audit log
    Json,
    /// Log records of level warning
    Log,
}

impl FindingFormat {
    /// Writes a record to `out`, or to the log.
    ///
    /// # Errors
    /// As writing to `out`.
    pub fn write(self, record: &AuditRecord, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Text => writeln!(out, "{} {record}", record.timestamp()),
            Self::Json => record.write_json(out),
            Self::Log => {
                log_record(record);
                Ok(())
            }
        }
    }
}

/// The outputs for findings. A reload opens them again.
pub struct FindingFiles<'o> {
    /// The output stream; `None` for no output, and in a reload for an unchanged output.
    pub out: Option<Box<dyn Write + Send + 'o>>,
    pub audit_log: Option<AuditLog>,
}

/// What happens to findings.
pub struct FindingSinks<'o> {
    pub format: FindingFormat,
    pub files: FindingFiles<'o>,
    /// The programs to run.
    pub commands: Option<Commands>,
    /// Opens the files again: they may have been moved away. An error leaves the old ones open.
    pub reopen: &'o dyn Fn() -> Result<FindingFiles<'o>, String>,
    /// Reads the policy again. An error keeps the old one.
    pub read_policy: &'o dyn Fn() -> Result<Policy, String>,
    /// Prints a message that is not a finding.
    pub print: fn(&str),
}

/// When a watch ends by itself.
#[derive(Clone, Copy, Debug)]
pub struct WatchEnd {
    /// With the first finding.
    pub is_once: bool,
    /// After this time.
    pub duration: Option<Duration>,
}

#[derive(Debug)]
pub struct WatchOutcome {
    pub counts: WatchCounts,
    pub commands: CommandResults,
    /// Whether there was a finding.
    pub has_finding: bool,
}

/// Why a watch has ended with an error.
#[derive(Debug)]
pub enum WatchError {
    /// The output cannot be written.
    Output(io::Error),
    /// poll(2) failed.
    Wait(Errno),
}

impl From<io::Error> for WatchError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// The signals and the service manager of a watch.
#[derive(Debug)]
pub struct WatchService {
    signals: Signals,
    manager: ServiceManager,
    had_terminal: bool,
}

struct WatchRun<'o> {
    watch: Watch,
    sinks: FindingSinks<'o>,
    is_once: bool,
    has_finding: bool,
    /// Why findings cannot be written any more.
    failed: Option<io::Error>,
    begin: Instant,
}

impl WatchService {
    /// Takes over the signals; to be called before there is a second thread.
    pub fn begin() -> Self {
        let signals = Signals::take();
        signals.end_stuck_writes();
        Self { signals, manager: ServiceManager::from_environment(), had_terminal: has_terminal() }
    }

    /// Runs `watch` until a signal or `end` ends it.
    ///
    /// # Errors
    /// The output cannot be written, or poll(2) failed.
    pub fn run(
        &self,
        watch: Watch,
        sinks: FindingSinks<'_>,
        end: WatchEnd,
    ) -> Result<WatchOutcome, WatchError> {
        let (manager, begin) = (&self.manager, Instant::now());
        let is_once = end.is_once;
        let mut run = WatchRun { watch, sinks, is_once, has_finding: false, failed: None, begin };
        let interval = manager.watchdog().map_or(STATUS_INTERVAL, |period| period.min(STATUS_INTERVAL) / 3);
        let (mut is_ready, mut ending, mut reported) = (false, None::<Instant>, begin);
        loop {
            if ending.is_some() {
                run.watch.skip_pauses();
            }
            let is_busy = run.turn()?;
            if !is_ready && !run.watch.is_reading() {
                is_ready = true;
                run.print_watched();
                manager.ready();
            }
            if manager.is_there() && reported.elapsed() >= interval {
                reported = Instant::now();
                manager.alive();
                manager.status(&run.progress());
            }
            let is_over = ending.is_some_and(|since| !is_busy || since.elapsed() > GRACE);
            if is_over || (is_once && run.has_finding) {
                break;
            }
            let left = end.duration.map(|duration| duration.saturating_sub(begin.elapsed()));
            match self.signals.next() {
                Some(Signal::SIGUSR1) => (run.sinks.print)(&run.progress()),
                // With a terminal that is gone, SIGHUP ends the watch.
                Some(Signal::SIGHUP) if !self.had_terminal || has_terminal() => {
                    manager.reloading();
                    run.reload();
                    manager.reloaded();
                }
                Some(_) if ending.is_some() => break,
                Some(_) => ending = Some(Instant::now()),
                None if ending.is_none() && is_ready && left.is_some_and(|left| left.is_zero()) => {
                    ending = Some(Instant::now());
                }
                None if is_busy => {}
                None => {
                    let most = if manager.is_there() { interval } else { SLEEP };
                    let most = left.map_or(most, |left| left.min(most));
                    run.watch.wait(self.signals.fd(), most).map_err(WatchError::Wait)?;
                }
            }
        }
        manager.stopping();
        Ok(run.finish()?)
    }
}

impl WatchRun<'_> {
    /// Processes pending events. Returns whether there may be more to do at once.
    fn turn(&mut self) -> io::Result<bool> {
        let Self { watch, sinks, is_once, has_finding, failed, .. } = self;
        let is_busy = watch.run_once(&mut |finding| {
            if mem::replace(has_finding, true) && *is_once {
                return;
            }
            if let Some(error) = sinks.take(finding, failed.is_none()) {
                *failed = Some(error);
            }
        });
        self.flush()?;
        Ok(is_busy)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.sinks.files.out.as_mut().map_or(Ok(()), |out| out.flush());
        self.failed.take().map_or(flushed, Err)
    }

    /// Opens the files again and reads the policy again, each whether the other fails or not: a broken policy must not keep the
    /// log in a file that was moved away.
    fn reload(&mut self) {
        match (self.sinks.reopen)() {
            Ok(FindingFiles { out, audit_log }) => {
                if out.is_some() {
                    self.sinks.files.out = out;
                }
                self.sinks.files.audit_log = audit_log;
                log::info!("the output files were opened again");
            }
            Err(message) => log::error!("still writing to the previous output files: {message}"),
        }
        match (self.sinks.read_policy)() {
            Ok(policy) => {
                self.watch.set_policy(policy);
                log::info!("the policy was read again");
            }
            Err(message) => log::error!("reload failed; still checking by the previous policy: {message}"),
        }
    }

    fn finish(mut self) -> io::Result<WatchOutcome> {
        /// How long programs may run after the end.
        const EXIT_GRACE: Duration = Duration::from_secs(5);
        let mut counts = self.watch.counts();
        // A watch that ends with the first finding does not read everything, and is not meant to.
        if self.is_once {
            counts.uncovered = 0;
        }
        if counts.uncovered > 0 {
            self.note_uncovered(counts.uncovered);
        }
        let commands =
            self.sinks.commands.take().map(|commands| commands.finish(EXIT_GRACE)).unwrap_or_default();
        self.flush()?;
        (self.sinks.print)(&self.progress());
        Ok(WatchOutcome { counts, commands, has_finding: self.has_finding })
    }

    /// Writes that findings of some directories are missing.
    fn note_uncovered(&mut self, directories: u64) {
        let note = UncoveredNote::now(directories);
        let FindingFiles { out, audit_log } = &mut self.sinks.files;
        match (self.sinks.format, out) {
            (FindingFormat::Json, Some(out)) if self.failed.is_none() => {
                self.failed = json::write_line(out, &note).err();
            }
            (FindingFormat::Log, _) => {
                let directories = counted(directories, "directory", "directories");
                log::warn!("not read to the end: at least {directories}");
            }
            _ => {}
        }
        if let Some(audit_log) = audit_log {
            audit_log.note(&note);
        }
    }

    /// Prints what is watched, and how.
    fn print_watched(&self) {
        let print = self.sinks.print;
        for Watched { path, kind, engine, instead } in self.watch.watched() {
            let how = match engine {
                WatchEngine::Auto | WatchEngine::Fanotify => "the whole file system",
                WatchEngine::FanotifyDirs | WatchEngine::Inotify => "directory by directory",
            };
            let because = instead.as_ref().map(|reasons| format!("; {reasons}")).unwrap_or_default();
            print(&format!("watching {} ({kind}) by {}, {how}{because}", shown(path), engine.as_str()));
        }
        let directories = self.watch.directories();
        if directories > 0 {
            let directories = counted(directories as u64, "directory is", "directories are");
            print(&format!("{directories} watched one by one"));
        }
    }

    /// The progress in one line.
    fn progress(&self) -> String {
        let WatchCounts { events, findings, directories, lost, faults, unwatched, unplaced, uncovered } =
            self.watch.counts();
        let (found, read) = (counted(findings, "finding", "findings"), counted(events, "event", "events"));
        let mut line = format!("{found} in {read} in {} s", self.begin.elapsed().as_secs());
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
}

impl FindingSinks<'_> {
    /// Hands the finding to the output, if that `is_writable`, the audit log and the programs. Returns why the output cannot be
    /// written.
    fn take(&mut self, finding: Finding, is_writable: bool) -> Option<io::Error> {
        let record = &finding.record;
        let written = match &mut self.files.out {
            Some(out) if is_writable || self.format == FindingFormat::Log => self.format.write(record, out),
            _ => Ok(()),
        };
        if let Some(audit_log) = &mut self.files.audit_log {
            audit_log.keep(record);
        }
        if let Some(commands) = &mut self.commands {
            commands.run(finding);
        }
        written.err()
    }
}
