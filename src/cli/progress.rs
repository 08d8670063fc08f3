//! How far a scan has come, on standard error, where that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::name::display::display;
use crate::report::layout::counted;
use crate::scan::Progress;

/// Often enough to look alive, rarely enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(100);

/// How many bytes are held back at most.
const MOST_PENDING: usize = 1 << 16;

/// A line at the bottom of the terminal, drawn again until it is dropped; nothing where standard error is no terminal.
pub struct Line {
    bar: ProgressBar,
}

impl Line {
    /// The line, not yet drawn.
    pub fn new() -> Self {
        let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
        bar.set_style(style.expect("the template is well-formed"));
        Self { bar }
    }

    /// Whether there is anything to be drawn.
    pub fn is_drawn(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// A writer to a terminal that the line may stand on: what is written comes above it, when it is flushed.
    pub fn above<W: Write>(&self, out: W) -> Above<W> {
        Above { out, bar: self.bar.clone(), pending: Vec::new() }
    }

    /// Runs `work` and shows `progress` meanwhile.
    pub fn shown<T>(&self, progress: &Progress, work: impl FnOnce() -> T) -> T {
        if !self.is_drawn() {
            return work();
        }
        std::thread::scope(|scope| {
            let (ended, end) = mpsc::channel::<()>();
            scope.spawn(move || {
                while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    self.bar.set_message(line(progress));
                    self.bar.tick();
                }
                self.bar.finish_and_clear();
            });
            let result = work();
            drop(ended);
            result
        })
    }
}

/// Writes above a [`Line`]. To take the line away and draw it again takes longer than most writing, so that is done
/// for many lines at once.
pub struct Above<W> {
    out: W,
    bar: ProgressBar,
    pending: Vec<u8>,
}

impl<W: Write> Write for Above<W> {
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

fn line(progress: &Progress) -> String {
    let dir = progress.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
    format!(
        "{}, {}  {}",
        counted(progress.names.load(Relaxed), "name", "names"),
        counted(progress.findings.load(Relaxed), "finding", "findings"),
        display(dir.as_os_str().as_bytes())
    )
}
