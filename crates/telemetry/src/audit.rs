//! Audit records: one for each name that was refused, or that a permissive gate let through.
//!
//! A record goes to the log, at level `warn` with its parts as fields, and as a line of JSON to an [`AuditLog`] if there is one.
//! A separate thread writes, behind a queue of limited length, so that threads that serve requests never wait for a disk or a
//! terminal. Records of one user beyond a number, or a number of bytes, per second are not written but counted, and the count is
//! written. A refusal that is repeated makes one record at once, and one a minute with the number of repeats. No record is longer than
//! `MAX_BYTES`.
//!
//! An attacker can choose every byte of a name, a path, a command's name and a control group. They are escaped, so that they
//! cannot act on a terminal or be mistaken for another part of a record. The fields of the JSON are part of the interface:
//! `docs/JSON.md`.

mod audit_log;
mod bounded;
mod cgroup;
mod queue;
mod recent;
mod record;
mod repeats;
mod shorten;
mod writer;

use std::ffi::OsStr;
use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use ::log::kv::Value;
use ::log::{Level, Metadata};
use namegate_core::policy::Policy;
use parking_lot::Mutex;
use serde_json::Value as Json;

use self::bounded::BoundedRecord;
use self::queue::AuditQueue;
use self::writer::AuditWriter;
use super::metrics::Metrics;
pub use audit_log::{AuditLog, UncoveredNote};
pub(crate) use bounded::MAX_BYTES;
pub use recent::{
    LongPolicy, MAX_WHY, RecentRefusal, RecentRefusals, WHY_ATTRIBUTE, WhyAnswer, policy_attribute,
};
pub use record::{AuditOutcome, AuditRecord, Requester};

/// The journal's id for the message of a record (sd_journal_print(3), `MESSAGE_ID`), for finding all of them.
const MESSAGE_ID: &str = "5621c673fbcc43e99974ff2ff00a4d0a";

/// Default for the maximum number of records per user and second.
pub const RECORDS_PER_SECOND: NonZeroU32 = NonZeroU32::new(100).expect("100 is not 0");
/// Default for the maximum number of bytes of records per user and second.
pub const BYTES_PER_SECOND: NonZeroU32 = NonZeroU32::new(16 << 10).expect("it is not 0");
/// Smallest allowed value: one record of maximum length, in both places.
pub const MIN_BYTES_PER_SECOND: u32 = 2 * MAX_BYTES as u32;

/// Settings for audit records.
#[derive(Debug)]
pub struct AuditSettings {
    /// At most this many records per user and second; the rest are only counted.
    pub per_second: NonZeroU32,
    /// At most this many bytes of records per user and second, in the log and the audit log together; the rest are only counted.
    /// At least [`MIN_BYTES_PER_SECOND`], or the longest records could never be written.
    pub bytes_per_second: NonZeroU32,
    /// Whether records go to the log.
    pub is_logged: bool,
    /// The audit log, if there is one.
    pub audit_log: Option<AuditLog>,
    /// The metrics that count records. A mount counts its requests there too.
    pub metrics: Arc<Metrics>,
    /// The last records, for `namegate top`.
    pub recent: Arc<RecentRefusals>,
}

impl Default for AuditSettings {
    /// 100 records and 16 KiB per second, in the log only.
    fn default() -> Self {
        Self {
            per_second: RECORDS_PER_SECOND,
            bytes_per_second: BYTES_PER_SECOND,
            is_logged: true,
            audit_log: None,
            metrics: Arc::default(),
            recent: Arc::default(),
        }
    }
}

/// Queues records, and writes them in a separate thread.
#[derive(Debug)]
pub struct Audit {
    queue: Arc<AuditQueue>,
    recent: Arc<RecentRefusals>,
    ended: Mutex<Receiver<()>>,
}

impl Audit {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(settings: AuditSettings) -> io::Result<Self> {
        let AuditSettings { per_second, bytes_per_second, .. } = settings;
        let queue = Arc::new(AuditQueue::new(per_second, bytes_per_second, settings.metrics.clone()));
        let recent = settings.recent.clone();
        let (end, ended) = sync_channel(1);
        let tasks = queue.clone();
        thread::Builder::new().name("audit".into()).spawn(move || {
            AuditWriter::new(&tasks, settings).run();
            // Nobody may be waiting for it any more.
            let _ = end.send(());
        })?;
        Ok(Self { queue, recent, ended: Mutex::new(ended) })
    }

    /// Queues the record that `gather` creates. If the user `uid` has too many at the moment, the record is counted and
    /// `gather` is not called. Never waits for the writer.
    pub fn record(&self, uid: Option<u32>, gather: impl FnOnce() -> AuditRecord) {
        self.queue.offer(uid, gather);
    }

    /// Queues a record to which no limit applies, because its number is limited otherwise. Waits while the queue is full, unless the writer
    /// hangs.
    pub fn record_all(&self, record: AuditRecord) {
        self.queue.put(record);
    }

    /// Records that the kernel lost `records` records before anybody could read them.
    pub fn record_lost(&self, records: u64) {
        self.queue.add_lost(records);
    }

    /// The last refusals of the user `uid`, and `policy`, as a [`WhyAnswer`] in JSON for the attribute [`WHY_ATTRIBUTE`], and a part
    /// of the policy's text for [`policy_attribute`]. `None` for other names.
    pub fn why(&self, name: &OsStr, uid: u32, policy: &Policy) -> Option<Vec<u8>> {
        self.recent.answer(name, uid, policy)
    }

    /// Reopens the audit log by its path, because the file may have been moved away. Does not wait. If the file cannot be opened,
    /// the log says so and the old file stays in use.
    pub fn reopen(&self) {
        self.queue.reopen();
    }

    /// Accepts no more records, and waits up to two seconds until the queued ones are written. Dropping it does the same.
    pub fn close(&self) {
        /// A disk or a terminal that blocks must not keep the process from ending.
        const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
        self.queue.close();
        let ended = self.ended.lock();
        // An error means that the writer has already ended.
        let _ = ended.recv_timeout(CLOSE_TIMEOUT);
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

/// Logs one record at once, in the same form.
pub fn log_record(record: &AuditRecord) {
    if is_heard() {
        log_with_fields(&BoundedRecord::new(record));
    }
}

fn metadata() -> Metadata<'static> {
    ::log::Metadata::builder().level(Level::Warn).target(module_path!()).build()
}

/// Reports whether the log accepts records.
fn is_heard() -> bool {
    ::log::logger().enabled(&metadata())
}

/// Logs the message of a record, with the fields of its JSON line.
fn log_with_fields(BoundedRecord { line, message, .. }: &BoundedRecord<'_>) {
    let json = serde_json::to_value(line).unwrap_or_default();
    let mut fields = vec![("message_id", Value::from(MESSAGE_ID))];
    for (key, value) in json.as_object().into_iter().flatten() {
        match value {
            Json::String(text) => fields.push((key, Value::from(text.as_str()))),
            Json::Number(number) => {
                fields.extend(number.as_u64().map(|number| (key.as_str(), number.into())))
            }
            _ => {}
        }
    }
    let builder = &mut ::log::Record::builder();
    let builder = builder.metadata(metadata()).module_path_static(Some(module_path!())).key_values(&fields);
    ::log::logger().log(&builder.args(format_args!("{message}")).build());
}

#[cfg(test)]
mod tests;
