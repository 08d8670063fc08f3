//! Destination and format of the log: text for people, lines of JSON, or entries of systemd's journal; on standard error,
//! and after standard error was closed in the system log.
//!
//! A thread that logs may be serving a request, so nothing here waits long for a reader. No part of a message can be mistaken
//! for another message or for a field.
//!
//! Sources: syslog(3), which systemd's journal also receives (systemd-journald.service(8)); systemd.exec(5), `JOURNAL_STREAM`;
//! sd-daemon(3) about the numbers before messages.

mod journal;

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use log::kv::{self, Key, Value, VisitSource};
use log::{Level, Log, Metadata, Record};
use namegate_files::json::{self, FORMAT_VERSION};
use namegate_files::time::timestamp;
use nix::sys::stat::fstat;
use nix::syslog::{Facility, LogFlags, openlog, syslog};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use self::journal::{JournalSocket, SendResult, severity};

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
    /// Filters messages, and writes text.
    terminal: env_logger::Logger,
    format: LogFormat,
    journal: JournalSocket,
    is_detached: AtomicBool,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Installs a logger that uses the filter of `terminal`. It writes to standard error until that is closed (by a server that
/// detaches). Without a format it uses that of the journal if standard error is connected to it, and otherwise text. Only the
/// first call has an effect.
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

/// Reports whether standard error is the stream in `JOURNAL_STREAM`.
fn leads_to_journal() -> bool {
    let stream = env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(io::stderr()).is_ok_and(|stat| is_stream(&stream, stat.st_dev, stat.st_ino))
}

/// Reports whether `stream` names this device and inode.
fn is_stream(stream: &str, dev: u64, ino: u64) -> bool {
    let numbers = stream.split_once(':').map(|(dev, ino)| (dev.parse(), ino.parse()));
    numbers == Some((Ok(dev), Ok(ino)))
}

/// Reports whether messages are written with their fields.
pub(super) fn has_fields() -> bool {
    LOGGER.get().is_none_or(|logger| logger.format != LogFormat::Text)
}

/// Switches to the system log.
pub fn to_system() {
    let Some(logger) = LOGGER.get() else { return };
    if logger.format != LogFormat::Journal && !Path::new("/dev/log").exists() {
        log::warn!("no system log listens at /dev/log: until one does, the messages of this mount are lost");
    }
    // It fails only for a name with a NUL.
    if openlog(Some(c"namegate"), LogFlags::LOG_PID, Facility::LOG_DAEMON).is_ok() {
        logger.is_detached.store(true, Ordering::Relaxed);
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
        // If this fails, there is nowhere to report it.
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

/// One line for each line of the message, each with its priority.
fn numbered_lines(record: &Record<'_>, out: &mut Vec<u8>) {
    for line in record.args().to_string().lines() {
        // Writing to a vector does not fail.
        let _ = writeln!(out, "<{}>{line}", severity(record.level()) as u8);
    }
}

/// A message as a JSON object.
#[derive(Serialize)]
struct LogLine<'r> {
    r#type: &'static str,
    version: u32,
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
        r#type: "log",
        version: FORMAT_VERSION,
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
