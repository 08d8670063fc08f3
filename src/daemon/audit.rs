//! Who was refused which name: one record for each, and for each that was let through against the policy.
//!
//! A record goes to the log, at the level `warn`, and as a line of JSON to a [`Trail`] if there is one. A thread of its own
//! writes, behind a queue of bounded length, so that whoever serves requests never waits for a disk or a terminal. More than
//! a number of records a second are not written but counted, and the count is written.
//!
//! Every byte of a name, of a path and of a command's name is an attacker's; none of them acts on a terminal or can be taken
//! for what stands around it. The fields of the JSON are part of the interface: `docs/JSON.md`.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use serde::Serialize;

use super::metrics::Metrics;
use crate::name::Span;
use crate::name::display::display;
use crate::policy::rule::RuleId;
use crate::report::json;

/// What became of a name that breaks the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was refused.
    Refused,
    /// It was let through by a permissive gate.
    LetThrough,
}

/// Who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// The thread, or 0 if it is not to be seen from here.
    pub pid: u32,
    /// What the thread is called (proc_pid_comm(5)); whoever runs it can call it anything.
    pub command: Option<Vec<u8>>,
}

impl Asker {
    /// With the command's name as it is now, if it can be told.
    pub fn new(uid: u32, gid: u32, pid: u32) -> Self {
        let mut command = fs::read(format!("/proc/{pid}/comm")).ok();
        if let Some(command) = &mut command {
            // The line feed is not a part of it, another one before it is.
            command.pop();
        }
        Self { uid, gid, pid, command }
    }
}

/// One name that was refused or let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub time: SystemTime,
    /// What became of it.
    pub outcome: Outcome,
    /// The system call, about.
    pub operation: &'static str,
    /// The new name.
    pub name: OsString,
    /// The target of a symbolic link, if it is the target that breaks the policy.
    pub target: Option<OsString>,
    /// The directory, below the source; empty for the source itself. `None` if it could not be told.
    pub parent: Option<PathBuf>,
    /// The rule; `None` for a name that reads like the escape of another.
    pub rule: Option<RuleId>,
    /// Where the name, or the target if there is one, breaks it.
    pub span: Span,
    /// Who asked for it.
    pub asker: Asker,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::LetThrough => "let through",
        }
    }
}

/// Bytes for people, between quotation marks that nothing in them can close.
fn quoted(bytes: &[u8]) -> String {
    // The backslash itself is shown doubled.
    format!("\"{}\"", display(bytes).to_string().replace('"', "\\\""))
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.outcome.as_str(), self.operation, quoted(self.name.as_bytes()))?;
        if let Some(target) = &self.target {
            write!(f, " to {}", quoted(target.as_bytes()))?;
        }
        match self.parent.as_deref() {
            Some(top) if top.as_os_str().is_empty() => f.write_str(" in \".\"")?,
            Some(parent) => write!(f, " in {}", quoted(parent.as_os_str().as_bytes()))?,
            None => {}
        }
        match self.rule {
            Some(rule) => write!(f, ": {rule}")?,
            None => f.write_str(": the escape of another name")?,
        }
        let Asker { uid, gid, pid, command } = &self.asker;
        write!(f, " at bytes {}..{}; uid {uid}, gid {gid}, pid {pid}", self.span.start, self.span.end)?;
        if let Some(command) = command {
            f.write_char(' ')?;
            f.write_str(&quoted(command))?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Line<'r> {
    r#type: &'static str,
    time: String,
    outcome: &'static str,
    operation: &'static str,
    name: String,
    name_hex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_base64: Option<String>,
    rule: Option<&'static str>,
    start: usize,
    end: usize,
    uid: u32,
    gid: u32,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

#[derive(Serialize)]
struct DroppedLine {
    r#type: &'static str,
    time: String,
    count: u64,
}

impl DroppedLine {
    /// So many until now.
    fn new(count: u64) -> Self {
        Self { r#type: "dropped", time: moment(SystemTime::now()), count }
    }
}

fn moment(time: SystemTime) -> String {
    // No clock of a running system is outside of the years -9999 to 9999.
    Timestamp::try_from(time).unwrap_or_default().to_string()
}

impl<'r> From<&'r Record> for Line<'r> {
    fn from(record: &'r Record) -> Self {
        let parent = record.parent.as_deref().map(Path::as_os_str);
        Self {
            r#type: "refusal",
            time: moment(record.time),
            outcome: match record.outcome {
                Outcome::Refused => "refused",
                Outcome::LetThrough => "let-through",
            },
            operation: record.operation,
            name: display(record.name.as_bytes()).to_string(),
            name_hex: HEXLOWER.encode(record.name.as_bytes()),
            target_base64: record.target.as_deref().map(|target| BASE64.encode(target.as_bytes())),
            parent: parent.and_then(|parent| parent.to_str()),
            parent_base64: parent.map(|parent| BASE64.encode(parent.as_bytes())),
            rule: record.rule.map(RuleId::name),
            start: record.span.start,
            end: record.span.end,
            uid: record.asker.uid,
            gid: record.asker.gid,
            pid: record.asker.pid,
            command: record.asker.command.as_deref().map(|command| display(command).to_string()),
        }
    }
}

/// Where records are kept as JSON Lines.
pub struct Trail {
    out: Box<dyn Write + Send>,
    /// How many records could not be written since the last that could.
    missing: u64,
    /// Whether the last one was written in part.
    is_cut: bool,
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trail").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl Trail {
    /// At the end of the file at `path`, which is made, for its owner alone, if it is not there.
    ///
    /// # Errors
    /// As open(2) says.
    pub fn append(path: &Path) -> io::Result<Self> {
        // A FIFO without a reader would hold the server up; this way it is an error.
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file: File = options.open(path)?;
        Ok(Self::to(file))
    }

    /// Each record by one call of `write`.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self { out: Box::new(out), missing: 0, is_cut: false }
    }

    fn put(&mut self, line: &impl Serialize) {
        let was_failing = self.missing > 0;
        match self.write(line) {
            Ok(()) if was_failing => {
                let count = std::mem::take(&mut self.missing);
                log::warn!("the audit trail is written again; {count} records are missing in it");
                if self.write(&DroppedLine::new(count)).is_err() {
                    self.missing = count;
                }
            }
            Ok(()) => {}
            Err(error) => {
                self.missing += 1;
                if !was_failing {
                    log::error!("cannot write the audit trail: {error}");
                }
            }
        }
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(512);
        if self.is_cut {
            bytes.push(b'\n');
        }
        json::line(&mut bytes, line)?;
        let written = self.out.write(&bytes)?;
        self.out.flush()?;
        self.is_cut = written < bytes.len() && (self.is_cut || written > 0);
        match written == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

/// How an audit is done.
#[derive(Debug)]
pub struct Settings {
    /// Of more records than that in one second the others are counted only.
    pub per_second: NonZeroU32,
    /// Where they are kept besides the log.
    pub trail: Option<Trail>,
    /// What counts them. A mount counts its requests there too.
    pub metrics: Arc<Metrics>,
}

impl Default for Settings {
    /// A hundred a second, in the log alone.
    fn default() -> Self {
        Self { per_second: NonZeroU32::new(100).expect("100 is not 0"), trail: None, metrics: Arc::default() }
    }
}

/// Takes records and has them written.
#[derive(Debug)]
pub struct Audit {
    bucket: Mutex<Bucket>,
    dropped: Arc<AtomicU64>,
    queue: Option<SyncSender<Record>>,
    ended: Mutex<Receiver<()>>,
}

impl Audit {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn new(settings: Settings) -> io::Result<Self> {
        /// Enough for what a slow disk holds up, and a few MiB at most.
        const QUEUED: usize = 1024;
        let (queue, records) = sync_channel(QUEUED);
        let (end, ended) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let (per_second, counted) = (settings.per_second, dropped.clone());
        thread::Builder::new().name("audit".into()).spawn(move || {
            write_all(&records, &counted, settings);
            // Nobody may wait for it any more.
            let _ = end.send(());
        })?;
        let bucket = Mutex::new(Bucket::new(per_second, Instant::now()));
        Ok(Self { bucket, dropped, queue: Some(queue), ended: Mutex::new(ended) })
    }

    /// Takes the record that `gather` puts together, unless there are too many at the moment; it is not asked then.
    pub fn record(&self, gather: impl FnOnce() -> Record) {
        let takes = self.bucket.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        let taken = takes && self.queue.as_ref().is_some_and(|queue| queue.try_send(gather()).is_ok());
        if !taken {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        /// A disk or a terminal that takes nothing must not keep the process from ending.
        const PATIENCE: Duration = Duration::from_secs(2);
        self.queue = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(PATIENCE);
    }
}

/// Lets so many pass in a second: a token bucket, kept as the moment at which it is full again.
#[derive(Debug)]
struct Bucket {
    interval: Duration,
    full_at: Instant,
}

impl Bucket {
    fn new(per_second: NonZeroU32, now: Instant) -> Self {
        Self { interval: Duration::from_secs(1) / per_second.get(), full_at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.interval;
        let is_left = full_at <= now + Duration::from_secs(1);
        if is_left {
            self.full_at = full_at;
        }
        is_left
    }
}

fn write_all(records: &Receiver<Record>, dropped: &AtomicU64, settings: Settings) {
    /// An empty bucket has let something pass within the last second, so that nothing is dropped while the queue has been
    /// silent for longer than that.
    const SILENCE: Duration = Duration::from_secs(2);
    let (mut trail, mut told) = (settings.trail, Instant::now());
    let tell_dropped = |trail: &mut Option<Trail>| {
        let count = dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            log::warn!(
                "{count} more were refused or let through, and not recorded: more than {} a second",
                settings.per_second
            );
            trail.iter_mut().for_each(|trail| trail.put(&DroppedLine::new(count)));
        }
    };
    let mut next = records.recv().map_err(|_| RecvTimeoutError::Disconnected);
    loop {
        match &next {
            Ok(record) => {
                log::warn!("{record}");
                trail.iter_mut().for_each(|trail| trail.put(&Line::from(record)));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                tell_dropped(&mut trail);
                return;
            }
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            tell_dropped(&mut trail);
        }
        next = match next {
            Ok(_) => records.recv_timeout(SILENCE),
            Err(_) => records.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
    }
}

#[cfg(test)]
mod tests;
