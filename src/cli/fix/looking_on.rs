//! What people see while names are changed, and the signals by which they end that.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::signal::Signal;

use crate::cli::{CliError, ExitStatus};
use crate::fix::plan::path_in;
use crate::fix::watcher::{Left, Watcher};
use crate::name::display::display;
use crate::report::layout::{counted, grouped};
use crate::service::signals::Signals;

/// So many lines about single entries are printed; the journal holds all of them.
const MOST_LINES: u64 = 1000;

/// Draws a bar on standard error, prints what was left, and heeds signals.
pub struct LookingOn<'o> {
    out: &'o mut (dyn Write + Send),
    bar: ProgressBar,
    signals: Signals,
    ended_by: Option<Signal>,
    /// The first error of writing to `out`.
    failed: Option<std::io::Error>,
    lines: u64,
}

impl<'o> LookingOn<'o> {
    /// For work on so many renames; to be called before there is a second thread.
    pub fn new(out: &'o mut (dyn Write + Send), total: u64) -> Self {
        let is_drawn = std::io::stderr().is_terminal();
        let bar = if is_drawn { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let template = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len}  {per_sec}  {eta}");
        bar.set_style(template.expect("the template is well-formed"));
        Self { out, bar, signals: Signals::take(Signals::RUN), ended_by: None, failed: None, lines: 0 }
    }

    /// Ends the drawing. `None` if no signal has ended the run, otherwise what it ends with.
    ///
    /// # Errors
    /// What was to be printed could not be.
    pub fn finish(mut self) -> Result<Option<ExitStatus>, CliError> {
        self.bar.finish_and_clear();
        if self.lines > MOST_LINES {
            let more = format!("and {} more", grouped(self.lines - MOST_LINES));
            self.print(&more);
        }
        self.failed.map_or(Ok(()), |error| Err(error.into())).map(|()| {
            self.ended_by.map(|signal| match signal {
                Signal::SIGTERM => ExitStatus::Terminated,
                _ => ExitStatus::Interrupted,
            })
        })
    }

    fn print(&mut self, line: &str) {
        let Self { out, bar, failed, .. } = self;
        let printed = bar.suspend(|| writeln!(out, "{line}"));
        if let (Err(error), None) = (printed, &failed) {
            *failed = Some(error);
        }
    }
}

impl Watcher for LookingOn<'_> {
    fn done(&mut self) {
        self.bar.inc(1);
    }

    fn left(&mut self, left: &Left<'_>) {
        self.bar.inc(1);
        self.lines += 1;
        if self.lines <= MOST_LINES {
            let place = path_in(left.directory, left.old);
            self.print(&format!("left: {} -> {}: {}", display(&place), display(left.new), left.reason));
        }
    }

    fn noted(&mut self, note: &str) {
        self.bar.suspend(|| log::warn!("{note}"));
    }

    fn wants_end(&mut self) -> bool {
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::SIGUSR1 => {
                    let done = counted(self.bar.position(), "line", "lines");
                    // Where this cannot be written, nothing else can be said either.
                    self.bar.suspend(|| drop(writeln!(anstream::stderr(), "namegate: {done} of the plan")));
                }
                signal => self.ended_by = Some(signal),
            }
        }
        self.ended_by.is_some()
    }
}
