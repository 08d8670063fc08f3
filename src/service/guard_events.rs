//! Reads the events of guards until a signal ends it: writes them, and reports to the service manager.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use namegate_core::name::display::shown;
use namegate_guard::events::{EventReader, GuardEvent};
use namegate_guard::guards::{GuardError, Guards, SlotGuard};
use namegate_guard::report::metric_values;
use namegate_scan::report::layout::counted;
use namegate_telemetry::audit::Audit;
use namegate_telemetry::metrics::GuardMetrics;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::notify::ServiceManager;
use super::signals::Signals;
use super::watch_service::FindingFormat;

/// Where events of guards go.
pub struct GuardEventSinks<'o> {
    pub format: FindingFormat,
    /// The output, unless events go to the log.
    pub out: &'o mut dyn Write,
    /// Log and audit log.
    pub audit: Audit,
    pub metrics: Arc<GuardMetrics>,
    /// The numbers of guards that are known to have ended.
    pub ended: HashSet<u64>,
}

/// Why reading events has ended with an error.
#[derive(Debug)]
pub enum GuardEventsError {
    /// The guards cannot be read.
    Guard(GuardError),
    /// The output cannot be written.
    Output(io::Error),
    /// poll(2) failed.
    Wait(Errno),
}

impl From<GuardError> for GuardEventsError {
    fn from(error: GuardError) -> Self {
        Self::Guard(error)
    }
}

impl From<io::Error> for GuardEventsError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writes events until a signal comes. Without guards it waits for one. Returns the number of events.
///
/// # Errors
/// [`GuardEventsError`].
pub fn run(signals: &Signals, sinks: &mut GuardEventSinks<'_>) -> Result<u64, GuardEventsError> {
    /// How often guards are looked for, and lost events.
    const INTERVAL: Duration = Duration::from_secs(1);
    let manager = ServiceManager::from_environment();
    let (mut reader, mut count, mut refreshed) = (None::<EventReader>, 0, Instant::now());
    manager.ready();
    loop {
        if reader.is_none()
            && let Some(guards) = Guards::open()?
        {
            reader = Some(EventReader::new(&guards)?);
            sinks.show(&guards)?;
        }
        if let Some(open) = &mut reader {
            count += read(open, sinks)?;
            if !open.is_in_force() {
                // No more will come.
                loop {
                    match read(open, sinks)? {
                        0 => break,
                        more => count += more,
                    }
                }
                reader = None;
                sinks.metrics.set(Vec::new(), Vec::new());
            } else if refreshed.elapsed() >= INTERVAL {
                refreshed = Instant::now();
                refresh(open, sinks)?;
            }
        }
        sinks.out.flush()?;
        manager.alive();
        let fds = reader.iter().map(EventReader::fd).chain(signals.fd());
        let mut polled: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut polled, PollTimeout::try_from(INTERVAL).unwrap_or(PollTimeout::ZERO)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(GuardEventsError::Wait(errno)),
        }
        match signals.next() {
            Some(Signal::SIGHUP) => sinks.audit.reopen(),
            Some(Signal::SIGUSR1) => log::warn!("{}", counted(count, "event", "events")),
            Some(_) => break,
            None => {}
        }
    }
    manager.stopping();
    if let Some(open) = &mut reader {
        count += read(open, sinks)?;
    }
    sinks.out.flush()?;
    sinks.audit.close();
    Ok(count)
}

fn refresh(reader: &mut EventReader, sinks: &mut GuardEventSinks<'_>) -> Result<(), GuardError> {
    if let Some(guards) = Guards::open()? {
        reader.refresh(sinks.show(&guards)?);
    }
    Ok(())
}

fn read(reader: &mut EventReader, sinks: &mut GuardEventSinks<'_>) -> Result<u64, GuardEventsError> {
    /// Signals are looked for between as many events.
    const TURN: u64 = 1024;
    let mut count = 0;
    while count < TURN
        && let Some(event) = reader.next_event()
    {
        count += 1;
        if !reader.is_known(&event) {
            // Its guard is new, or has a new policy.
            refresh(reader, sinks)?;
        }
        sinks.write(reader, &event)?;
    }
    Ok(count)
}

impl GuardEventSinks<'_> {
    /// Reads the guards, has the metrics show what they have counted, and records what they lost.
    fn show(&mut self, guards: &Guards) -> Result<Vec<SlotGuard>, GuardError> {
        let list = guards.list()?;
        let (values, hooks) = metric_values(guards, &list);
        self.metrics.set(values, hooks);
        for guard in &list {
            let lost = guard.counts.lost.saturating_sub(guard.recorded);
            if lost > 0 {
                self.audit.record_lost(lost);
                // Whoever reads next does not record them again.
                guards.set_recorded(guard.slot, guard.counts.lost)?;
            }
            if guard.has_ended && self.ended.insert(guard.id) {
                let path = guard.path().unwrap_or_default();
                log::warn!("the file system of {} was unmounted: its guard has ended", shown(&path));
            }
        }
        Ok(list)
    }

    fn write(&mut self, reader: &EventReader, event: &GuardEvent) -> io::Result<()> {
        let (guard, record) = reader.explain(event);
        self.metrics.count(guard.as_deref().unwrap_or_default(), &record);
        let mut text = Vec::new();
        // The audit log writes to the log, too.
        if self.format != FindingFormat::Log {
            self.format.write(&record, &mut text)?;
        }
        // The audit log first: the output may be a pipe from which nobody takes anything.
        match reader.has_waited(event) {
            true => self.audit.record_all(record),
            false => self.audit.record(record.requester.uid, || record),
        }
        self.out.write_all(&text)
    }
}
