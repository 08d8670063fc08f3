//! Where the log goes: to standard error, and from the moment at which there is none to the system's log.
//!
//! Sources: syslog(3); the journal listens there too (systemd-journald.service(8)).

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use log::{Level, Log, Metadata, Record};
use nix::syslog::{Facility, LogFlags, Severity, openlog, syslog};

/// The log of this process.
#[derive(Debug)]
struct Logger {
    terminal: env_logger::Logger,
    is_detached: AtomicBool,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Logs by `terminal`, until there is none ([`Ready::detach`](super::detach::Ready::detach)). Only the first call does anything.
pub fn install(terminal: env_logger::Logger) {
    let level = terminal.filter();
    let logger = LOGGER.get_or_init(|| Logger { terminal, is_detached: AtomicBool::new(false) });
    if log::set_logger(logger).is_ok() {
        log::set_max_level(level);
    }
}

/// Logs to the system's log from now on.
pub(super) fn to_system() {
    let Some(logger) = LOGGER.get() else { return };
    if !Path::new("/dev/log").exists() {
        log::warn!("no system log listens at /dev/log: until one does, what this mount has to say is lost");
    }
    // It fails for a name with a NUL alone.
    if openlog(Some(c"namegate"), LogFlags::LOG_PID, Facility::LOG_DAEMON).is_ok() {
        logger.is_detached.store(true, Ordering::Relaxed);
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.terminal.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.is_detached.load(Ordering::Relaxed) {
            self.terminal.log(record);
        } else if self.terminal.matches(record) {
            let severity = match record.level() {
                Level::Error => Severity::LOG_ERR,
                Level::Warn => Severity::LOG_WARNING,
                Level::Info => Severity::LOG_INFO,
                Level::Debug | Level::Trace => Severity::LOG_DEBUG,
            };
            // There is nowhere to say that it cannot be said.
            let _ = syslog(severity, &record.args().to_string());
        }
    }

    fn flush(&self) {
        self.terminal.flush();
    }
}
