//! Where the log goes, and in what form: text for people, lines of JSON, or entries of systemd's journal; on standard error,
//! and from the moment at which there is none to the system's log.
//!
//! Whoever logs may be serving a request, so that nothing here waits long for whoever reads it. No byte of a message can be
//! taken for another message or for a field of one.
//!
//! Sources: syslog(3); the journal listens there too (systemd-journald.service(8)); systemd.exec(5), `JOURNAL_STREAM`;
//! sd-daemon(3) on the numbers before messages.

mod journal;

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use log::kv::{self, Key, Value, VisitSource};
use log::{Level, Log, Metadata, Record};
use nix::sys::stat::fstat;
use nix::syslog::{Facility, LogFlags, Severity, openlog, syslog};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use self::journal::{JournalSocket, SendResult};
use crate::json;
use crate::time::timestamp;

/// How log messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
    /// Entries of systemd's journal, with priority and fields
    // Where the journal does not listen: lines with their priority for it to read.
    Journal,
}

/// The log of this process.
#[derive(Debug)]
struct Logger {
    /// Says what is written at all, and writes text.
    terminal: env_logger::Logger,
    format: LogFormat,
    journal: JournalSocket,
    is_detached: AtomicBool,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Logs what `terminal` lets pass, until there is no standard error (a server that detaches closes it). Without
/// a format it is that of the journal if standard error leads there, else text. Only the first call does anything.
pub fn install(terminal: env_logger::Logger, format: Option<LogFormat>) {
    let level = terminal.filter();
    let usual = || match leads_to_journal() {
        true => LogFormat::Journal,
        false => LogFormat::Text,
    };
    let format = format.unwrap_or_else(usual);
    let journal = JournalSocket::new(Path::new(journal::SOCKET));
    let logger =
        LOGGER.get_or_init(|| Logger { terminal, format, journal, is_detached: AtomicBool::new(false) });
    if log::set_logger(logger).is_ok() {
        log::set_max_level(level);
    }
}

/// Whether standard error is the stream that `JOURNAL_STREAM` speaks of.
fn leads_to_journal() -> bool {
    let stream = env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(io::stderr()).is_ok_and(|stat| is_stream(&stream, stat.st_dev, stat.st_ino))
}

/// Whether `stream` names this device and inode.
fn is_stream(stream: &str, dev: u64, ino: u64) -> bool {
    let numbers = stream.split_once(':').map(|(dev, ino)| (dev.parse(), ino.parse()));
    numbers == Some((Ok(dev), Ok(ino)))
}

/// Whether messages are written with their fields, and not as sentences alone.
pub(super) fn has_fields() -> bool {
    LOGGER.get().is_none_or(|logger| logger.format != LogFormat::Text)
}

/// Logs to the system's log from now on.
pub fn to_system() {
    let Some(logger) = LOGGER.get() else { return };
    if logger.format != LogFormat::Journal && !Path::new("/dev/log").exists() {
        log::warn!("no system log listens at /dev/log: until one does, what this mount has to say is lost");
    }
    // It fails for a name with a NUL alone.
    if openlog(Some(c"namegate"), LogFlags::LOG_PID, Facility::LOG_DAEMON).is_ok() {
        logger.is_detached.store(true, Ordering::Relaxed);
    }
}

/// The number of a level, the same in syslog(3) and in the journal.
fn severity(level: Level) -> Severity {
    match level {
        Level::Error => Severity::LOG_ERR,
        Level::Warn => Severity::LOG_WARNING,
        Level::Info => Severity::LOG_INFO,
        Level::Debug | Level::Trace => Severity::LOG_DEBUG,
    }
}

impl Logger {
    fn to_standard_error(&self, record: &Record<'_>) {
        let mut lines = Vec::new();
        match self.format {
            LogFormat::Text => return self.terminal.log(record),
            LogFormat::Json => json_line(record, SystemTime::now(), &mut lines),
            LogFormat::Journal => numbered_lines(record, &mut lines),
        }
        // There is nowhere to say that it cannot be said.
        let _ = io::stderr().lock().write_all(&lines);
    }

    fn to_syslog(&self, record: &Record<'_>) {
        let mut line = Vec::new();
        let message = match self.format {
            LogFormat::Json => {
                json_line(record, SystemTime::now(), &mut line);
                String::from_utf8_lossy(&line).trim_end().to_owned()
            }
            LogFormat::Text | LogFormat::Journal => record.args().to_string(),
        };
        let _ = syslog(severity(record.level()), &message);
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.terminal.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.terminal.matches(record) {
            return;
        }
        if self.format == LogFormat::Journal && self.journal.send(record) != SendResult::NobodyListens {
            return;
        }
        match self.is_detached.load(Ordering::Relaxed) {
            true => self.to_syslog(record),
            false => self.to_standard_error(record),
        }
    }

    fn flush(&self) {
        self.terminal.flush();
    }
}

/// A line for each line of the message, each with its number.
fn numbered_lines(record: &Record<'_>, out: &mut Vec<u8>) {
    for line in record.args().to_string().lines() {
        // A vector takes everything.
        let _ = writeln!(out, "<{}>{line}", severity(record.level()) as u8);
    }
}

/// A message as an object.
#[derive(Serialize)]
struct LogLine<'r> {
    time: String,
    level: &'static str,
    module: &'r str,
    message: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Json>,
}

/// The fields of a message by name.
struct Fields(Map<String, Json>);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        let number = value.to_u64().map(Json::from).or_else(|| value.to_i64().map(Json::from));
        self.0.insert(key.to_string(), number.unwrap_or_else(|| value.to_string().into()));
        Ok(())
    }
}

fn json_line(record: &Record<'_>, time: SystemTime, out: &mut Vec<u8>) {
    let mut fields = Fields(Map::new());
    // It fails only if the visitor does.
    let _ = record.key_values().visit(&mut fields);
    let line = LogLine {
        time: timestamp(time),
        level: match record.level() {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        },
        module: record.target(),
        message: record.args().to_string(),
        fields: fields.0,
    };
    let _ = json::write_line(out, &line);
}

#[cfg(test)]
mod tests;
