//! Progress on standard error, and the signals that ask for it or stop the work.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::mem;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use namegate_core::name::display::{display, shown};
use namegate_files::output::{remove_unfinished, waiting, writing};
use namegate_fix::plan::path_in;
use namegate_fix::progress::{ChangeObserver, Remaining};
use namegate_scan::progress::Observer;
use namegate_scan::report::layout::{counted, grouped};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;

use super::ExitStatus;
use crate::service::signals::Signals;

/// Often enough to look alive and to handle a signal, rarely enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(100);

/// The time between two lines of plain progress.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// The time between two checkpoints.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);

/// How long the work may wait for something after a signal: a list that ends nowhere, a file system that hangs, a reader that does not read.
const SIGNAL_GRACE: Duration = Duration::from_millis(700);

/// The processor time between two looks, of all threads, from which on the process works rather than waits. To look takes less.
const WORKING: Duration = Duration::from_millis(5);

/// The limit of buffered output, in bytes.
const MAX_PENDING: usize = 1 << 16;

/// The limit of lines about entries that remain; the journal has all of them.
const MAX_REMAINING_LINES: u64 = 1000;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// One line that is redrawn, if standard error is a terminal
    #[default]
    Auto,
    /// One line every ten seconds, for logs
    Plain,
    /// No progress
    Never,
}

/// Shows progress on standard error, prints problems, and handles signals.
pub struct TerminalProgress<'o> {
    style: ProgressMode,
    bar: ProgressBar,
    /// What the bar knows behind a lock, which whoever writes above it holds.
    is_drawn: bool,
    signals: Signals,
    /// The expected number of names to check, or the number of changes to make.
    expected: Option<u64>,
    /// Set when it is time for a checkpoint.
    checkpoint: Option<Arc<AtomicBool>>,
    names: AtomicU64,
    findings: AtomicU64,
    finished: AtomicU64,
    /// How many threads check names that were read.
    checks: AtomicU64,
    problems: AtomicU64,
    /// The last directory.
    current: Mutex<PathBuf>,
    stop: AtomicBool,
    /// The output for entries that remain, with its first error. Only while changes are made.
    remaining: Option<Mutex<RemainingOutput<'o>>>,
    ended_by: OnceLock<Signal>,
    /// Everything is read.
    is_finishing: AtomicBool,
    begun: Instant,
}

struct RemainingOutput<'o> {
    out: &'o mut (dyn Write + Send),
    lines: u64,
    failure: Option<io::Error>,
}

impl<'o> TerminalProgress<'o> {
    /// Takes over the signals; draws nothing yet. Sets `checkpoint` whenever it is time for one.
    pub fn new(style: ProgressMode, expected: Option<u64>, checkpoint: Option<Arc<AtomicBool>>) -> Self {
        let is_drawn = style == ProgressMode::Auto && io::stderr().is_terminal();
        let bar = if is_drawn { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let template = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(template.expect("the template is well-formed"));
        Self {
            style,
            bar,
            is_drawn,
            signals: Signals::take(),
            expected,
            checkpoint,
            names: AtomicU64::default(),
            findings: AtomicU64::default(),
            finished: AtomicU64::default(),
            checks: AtomicU64::default(),
            problems: AtomicU64::default(),
            current: Mutex::default(),
            stop: AtomicBool::default(),
            remaining: None,
            ended_by: OnceLock::new(),
            is_finishing: AtomicBool::default(),
            begun: Instant::now(),
        }
    }

    /// The progress of `total` changes; prints entries that remain to `out`.
    pub fn for_changes(out: &'o mut (dyn Write + Send), total: u64) -> Self {
        let remaining = Some(Mutex::new(RemainingOutput { out, lines: 0, failure: None }));
        Self { remaining, ..Self::new(ProgressMode::Auto, Some(total), None) }
    }

    /// Reports whether a line is redrawn.
    pub fn is_drawn(&self) -> bool {
        self.is_drawn
    }

    /// Runs a write while the line of progress is away.
    fn beside_bar<T>(&self, write: impl FnOnce() -> T) -> T {
        waiting(|| if self.is_drawn { self.bar.suspend(write) } else { write() })
    }

    /// The exit status, if a signal stopped the work.
    pub fn stopped(&self) -> Option<ExitStatus> {
        self.ended_by.get().map(|signal| match signal {
            Signal::SIGTERM => ExitStatus::Terminated,
            Signal::SIGHUP => ExitStatus::HungUp,
            _ => ExitStatus::Interrupted,
        })
    }

    /// The signal that stopped the work.
    pub fn ended_by(&self) -> Option<Signal> {
        self.ended_by.get().copied()
    }

    /// The number of problems so far.
    pub fn problems(&self) -> u64 {
        self.problems.load(Relaxed)
    }

    /// Gives the signals their usual effect: the user is asked a question and must be able to leave.
    pub fn release(&self) {
        self.signals.give_back();
    }

    /// A writer to a terminal with a progress line: its output appears above the line, when it is flushed.
    pub fn above<W: Write>(&self, out: W) -> AboveProgress<W> {
        AboveProgress { out, bar: self.is_drawn.then(|| self.bar.clone()), pending: Vec::new() }
    }

    /// Runs `work`, shows its progress, and handles signals.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (ended, end) = mpsc::channel::<()>();
            let show = move || {
                let (mut shown, mut kept) = (Instant::now(), None::<Instant>);
                let mut moved = ((0, 0), Instant::now());
                let mut used = processor_time();
                while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    self.handle_signals();
                    let (written, is_writing) = writing();
                    // What is left then takes its time, unless it waits for a reader.
                    let is_free =
                        self.ended_by().is_none() || (self.is_finishing.load(Relaxed) && !is_writing);
                    let done = (self.finished.load(Relaxed), written);
                    let before = mem::replace(&mut used, processor_time());
                    // A large directory may take seconds. It waits if its names have to be read again, and do not come.
                    let works = self.checks.load(Relaxed) > 0 && used.saturating_sub(before) >= WORKING;
                    if is_free || (works && !is_writing) || done != moved.0 {
                        moved = (done, Instant::now());
                    } else if moved.1.elapsed() >= SIGNAL_GRACE {
                        self.leave();
                    }
                    if self.is_drawn() {
                        self.bar.set_message(self.line());
                        self.bar.tick();
                    } else if self.style == ProgressMode::Plain && shown.elapsed() >= PLAIN_INTERVAL {
                        shown = Instant::now();
                        self.print_line();
                    }
                    // The first checkpoint is immediate: an error should appear before hours of work.
                    if let Some(checkpoint) = &self.checkpoint
                        && kept.is_none_or(|kept| kept.elapsed() >= CHECKPOINT_INTERVAL)
                    {
                        kept = Some(Instant::now());
                        checkpoint.store(true, Relaxed);
                    }
                }
                if self.is_drawn {
                    self.bar.finish_and_clear();
                }
            };
            if std::thread::Builder::new().spawn_scoped(scope, show).is_err() {
                self.signals.give_back();
            }
            let result = work();
            drop(ended);
            result
        })
    }

    /// Ends the output of entries that remain.
    ///
    /// # Errors
    /// The first error of writing to it.
    pub fn finish(self) -> io::Result<Option<ExitStatus>> {
        let stopped = self.stopped();
        let Some(remaining) = self.remaining else { return Ok(stopped) };
        let RemainingOutput { out, lines, failure } = remaining.into_inner();
        if let Some(failure) = failure {
            return Err(failure);
        }
        if lines > MAX_REMAINING_LINES {
            writeln!(out, "and {} more", grouped(lines - MAX_REMAINING_LINES))?;
        }
        Ok(stopped)
    }

    fn handle_signals(&self) {
        while let Some(signal) = self.signals.next() {
            if signal == Signal::SIGUSR1 {
                self.print_line();
                continue;
            }
            if self.ended_by.set(signal).is_err() {
                // A second signal ends the process at once.
                self.exit(signal, None);
            }
            self.stop.store(true, Relaxed);
        }
    }

    /// Ends the process, which waits for something that does not come.
    fn leave(&self) {
        let Some(signal) = self.ended_by() else { return };
        let what = match (&self.remaining, writing()) {
            (Some(_), _) => "it waited; `namegate fix status` shows what is done",
            (None, (_, true)) => "it waited for the reader of an output, which is not complete",
            (None, (_, false)) => "it waited for something to read, and there is no report",
        };
        self.exit(signal, Some(format!("namegate: {signal}: the run has ended while {what}")));
    }

    /// Ends the process at once. Outputs that are not finished are removed and `message` is written, if that takes no time.
    fn exit(&self, signal: Signal, message: Option<String>) -> ! {
        let (ended, end) = mpsc::channel::<()>();
        let bar = self.is_drawn.then(|| self.bar.clone());
        let last = move || {
            remove_unfinished();
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            if let Some(message) = message {
                let _ = writeln!(io::stderr(), "{message}");
            }
            drop(ended);
        };
        if std::thread::Builder::new().spawn(last).is_ok() {
            let _ = end.recv_timeout(INTERVAL);
        }
        process::exit(128 + signal as i32);
    }

    /// Prints a line, if that does not wait for who reads standard error: signals are handled here.
    fn print_line(&self) {
        let stderr = io::stderr();
        let mut out = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut out, PollTimeout::ZERO) == Ok(0) {
            return;
        }
        let line = self.line();
        // If standard error fails, there is no other place for it.
        self.beside_bar(|| drop(writeln!(anstream::stderr(), "namegate: {line}")));
    }

    fn line(&self) -> String {
        let elapsed = self.begun.elapsed();
        let done = if self.remaining.is_some() { &self.finished } else { &self.names }.load(Relaxed);
        let a_second = done as f64 / elapsed.as_secs_f64().max(0.001);
        let time_left = |expected: u64| {
            clock(Duration::from_secs_f64(expected.saturating_sub(done) as f64 / a_second.max(1.0)))
        };
        if let (Some(_), Some(total)) = (&self.remaining, self.expected) {
            return format!(
                "{}  {} of {} ({} a second), {} left",
                clock(elapsed),
                grouped(done),
                counted(total, "change", "changes"),
                grouped(a_second as u64),
                time_left(total)
            );
        }
        let share = self
            .expected
            .filter(|&expected| expected > done)
            .map(|expected| format!(", about {} %, {} left", done * 100 / expected, time_left(expected)));
        format!(
            "{}  {} ({} a second), {}{}  {}",
            clock(elapsed),
            counted(done, "name", "names"),
            grouped(a_second as u64),
            counted(self.findings.load(Relaxed), "name with findings", "names with findings"),
            share.unwrap_or_default(),
            shown(&self.current.lock())
        )
    }
}

impl ChangeObserver for TerminalProgress<'_> {
    fn finished(&self) {
        self.finished.fetch_add(1, Relaxed);
    }

    fn remains(&self, remaining: &Remaining) {
        self.finished();
        let Some(output) = &self.remaining else { return };
        let mut output = output.lock();
        output.lines += 1;
        if output.lines <= MAX_REMAINING_LINES && output.failure.is_none() {
            let path = path_in(&remaining.directory, &remaining.old);
            let (path, new) = (display(&path), display(&remaining.new));
            let written =
                self.beside_bar(|| writeln!(output.out, "left: {path} -> {new}: {}", remaining.reason));
            output.failure = written.err();
        }
    }
}

impl Observer for TerminalProgress<'_> {
    fn checked(&self, dir: &Path, names: u64, findings: u64) {
        self.names.fetch_add(names, Relaxed);
        self.findings.fetch_add(findings, Relaxed);
        let mut current = self.current.lock();
        current.as_mut_os_string().clear();
        current.push(dir);
    }

    fn problem(&self, problem: &dyn fmt::Display) {
        self.problems.fetch_add(1, Relaxed);
        // If standard error fails, the exit status remains.
        self.beside_bar(|| drop(writeln!(anstream::stderr(), "namegate: {problem}")));
    }

    fn check_begins(&self) {
        self.checks.fetch_add(1, Relaxed);
    }

    fn check_ends(&self) {
        self.checks.fetch_sub(1, Relaxed);
    }

    fn finishing(&self) {
        self.is_finishing.store(true, Relaxed);
    }

    fn is_stopped(&self) -> bool {
        // Between two batches of changes a signal takes effect at once.
        if self.remaining.is_some() {
            self.handle_signals();
        }
        self.stop.load(Relaxed)
    }
}

/// What all threads have taken of the processors until now.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// `1:02:03`, `2:03`.
fn clock(time: Duration) -> String {
    let (hours, minutes, seconds) = (time.as_secs() / 3600, time.as_secs() / 60 % 60, time.as_secs() % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Writes above the line of a [`TerminalProgress`]. Redrawing that line takes longer than most writes, so many lines are written at
/// once.
pub struct AboveProgress<W> {
    out: W,
    bar: Option<ProgressBar>,
    pending: Vec<u8>,
}

impl<W: Write> Write for AboveProgress<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= MAX_PENDING
            && let Some(end) = memchr::memrchr(b'\n', &self.pending)
        {
            let rest = self.pending.split_off(end + 1);
            self.flush()?;
            self.pending = rest;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { out, bar, pending } = self;
        let pending = mem::take(pending);
        let mut write = || out.write_all(&pending).and_then(|()| out.flush());
        waiting(|| match bar {
            Some(bar) if !pending.is_empty() => bar.suspend(write),
            _ => write(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_as_on_a_clock() {
        for (seconds, text) in [(0, "0:00"), (65, "1:05"), (3600, "1:00:00"), (36_061, "10:01:01")] {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }
}
