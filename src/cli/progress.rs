//! How far a scan has come, on standard error; and the signals that ask for that, or for its end.

use std::io::{self, IsTerminal, Write};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::signal::Signal;

use crate::name::display::shown;
use crate::report::layout::counted;
use crate::scan::Progress;
use crate::service::signals::Signals;

/// Often enough to look alive and to heed a signal, rarely enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(100);

/// Between two lines of plain progress.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Between two times that it is kept how far the scan has come.
const KEPT_INTERVAL: Duration = Duration::from_secs(30);

/// How many bytes are held back at most.
const MOST_PENDING: usize = 1 << 16;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// A line that is drawn again and again, where standard error is a terminal.
    #[default]
    Auto,
    /// A line every ten seconds, for logs.
    Plain,
    /// Not at all.
    Never,
}

/// Looks after a scan while it runs.
pub struct TerminalProgress {
    style: ProgressMode,
    bar: ProgressBar,
    signals: Signals,
    /// About how many names there are, where that can be told.
    expected: Option<u64>,
    /// Set when it is time to keep how far the scan has come.
    wanted: Option<Arc<AtomicBool>>,
    ended_by: OnceLock<Signal>,
    begun: Instant,
}

impl TerminalProgress {
    /// Takes up signals, and draws nothing yet.
    pub fn new(style: ProgressMode, expected: Option<u64>, wanted: Option<Arc<AtomicBool>>) -> Self {
        let is_drawn = style == ProgressMode::Auto && io::stderr().is_terminal();
        let bar = if is_drawn { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let template = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(template.expect("the template is well-formed"));
        let (signals, begun) = (Signals::take(Signals::RUN), Instant::now());
        Self { style, bar, signals, expected, wanted, ended_by: OnceLock::new(), begun }
    }

    /// Whether there is a line that is drawn again and again.
    pub fn is_drawn(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// The signal that ended the run, if one did.
    pub fn ended_by(&self) -> Option<Signal> {
        self.ended_by.get().copied()
    }

    /// Lets signals act as they always do: somebody is asked something, and must be able to leave.
    pub fn release(&self) {
        self.signals.give_back();
    }

    /// A writer to a terminal that the line may stand on: what is written comes above it, when it is flushed.
    pub fn above<W: Write>(&self, out: W) -> AboveProgress<W> {
        AboveProgress { out, bar: self.bar.clone(), pending: Vec::new() }
    }

    /// Runs `work`, shows `progress` meanwhile, and heeds signals.
    pub fn over<T>(&self, progress: &Progress, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (ended, end) = mpsc::channel::<()>();
            let watched = move || {
                let (mut told, mut kept) = (Instant::now(), None::<Instant>);
                while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    while let Some(signal) = self.signals.next() {
                        self.heed(signal, progress);
                    }
                    if self.is_drawn() {
                        self.bar.set_message(self.line(progress));
                        self.bar.tick();
                    } else if self.style == ProgressMode::Plain && told.elapsed() >= PLAIN_INTERVAL {
                        told = Instant::now();
                        self.tell(progress);
                    }
                    // At once for the first time: who cannot keep it should say so before the hours of work.
                    if let Some(wanted) = &self.wanted
                        && kept.is_none_or(|kept| kept.elapsed() >= KEPT_INTERVAL)
                    {
                        kept = Some(Instant::now());
                        wanted.store(true, Relaxed);
                    }
                }
                self.bar.finish_and_clear();
            };
            if std::thread::Builder::new().spawn_scoped(scope, watched).is_err() {
                self.signals.give_back();
            }
            let result = work();
            drop(ended);
            result
        })
    }

    fn heed(&self, signal: Signal, progress: &Progress) {
        if signal == Signal::SIGUSR1 {
            return self.tell(progress);
        }
        if self.ended_by.set(signal).is_err() {
            // Whoever asks twice does not want to wait.
            process::exit(128 + signal as i32);
        }
        progress.stop.store(true, Relaxed);
    }

    fn tell(&self, progress: &Progress) {
        let line = self.line(progress);
        // Where this cannot be written, nothing else can be said either.
        self.bar.suspend(|| drop(writeln!(anstream::stderr(), "namegate: {line}")));
    }

    fn line(&self, progress: &Progress) -> String {
        let dir = progress.current.lock().clone();
        let (names, elapsed) = (progress.names.load(Relaxed), self.begun.elapsed());
        let a_second = names as f64 / elapsed.as_secs_f64().max(0.001);
        let share = self.expected.filter(|&expected| expected > names).map(|expected| {
            let left = Duration::from_secs_f64((expected - names) as f64 / a_second.max(1.0));
            format!(", about {} %, {} left", names * 100 / expected, clock(left))
        });
        format!(
            "{}  {} ({}), {}{}  {}",
            clock(elapsed),
            counted(names, "name", "names"),
            counted(a_second as u64, "a second", "a second"),
            counted(progress.findings.load(Relaxed), "finding", "findings"),
            share.unwrap_or_default(),
            shown(&dir)
        )
    }
}

/// `1:02:03`, `2:03`.
fn clock(time: Duration) -> String {
    let (hours, minutes, seconds) = (time.as_secs() / 3600, time.as_secs() / 60 % 60, time.as_secs() % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Writes above the line of a [`TerminalProgress`]. To take the line away and draw it again takes longer than most writing, so that is
/// done for many lines at once.
pub struct AboveProgress<W> {
    out: W,
    bar: ProgressBar,
    pending: Vec<u8>,
}

impl<W: Write> Write for AboveProgress<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= MOST_PENDING
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
        if pending.is_empty() {
            return out.flush();
        }
        bar.suspend(|| out.write_all(pending).and_then(|()| out.flush()))?;
        pending.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_on_a_clock() {
        for (seconds, text) in [(0, "0:00"), (65, "1:05"), (3600, "1:00:00"), (36_061, "10:01:01")] {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }
}
