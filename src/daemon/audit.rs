//! Who was refused which name: one record for each, and for each that was let through against the policy.
//!
//! A record goes to the log, at the level `warn` with its parts as fields, and as a line of JSON to a [`Trail`] if there is one.
//! A thread of its own writes, behind a queue of bounded length, so that whoever serves requests never waits for a disk or a
//! terminal. More than a number of records a second of one user are not written but counted, and the count is written.
//!
//! Every byte of a name, of a path, of a command's name and of a control group is an attacker's; none of them acts on a
//! terminal or can be taken for what stands around it. The fields of the JSON are part of the interface: `docs/JSON.md`.

mod cgroup;
mod queue;
mod recent;
mod record;
mod trail;

use std::io;
use std::num::NonZeroU32;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use log::Level;
use log::kv::Value;
use serde_json::Value as Json;

use self::queue::{Drops, Queue, Task};
use self::record::Line;
use self::trail::DroppedLine;
use super::metrics::{Dropped, Metrics};

pub use recent::Recent;
pub use record::{Asker, Outcome, Record};
pub use trail::Trail;

/// What the journal calls the message of a record (sd_journal_print(3), `MESSAGE_ID`), so that all of them can be asked for.
const MESSAGE_ID: &str = "5621c673fbcc43e99974ff2ff00a4d0a";

/// How an audit is done.
#[derive(Debug)]
pub struct Settings {
    /// Of more records of one user than that in one second the others are counted only.
    pub per_second: NonZeroU32,
    /// Whether they go to the log.
    pub is_logged: bool,
    /// Where they are kept besides.
    pub trail: Option<Trail>,
    /// What counts them. A mount counts its requests there too.
    pub metrics: Arc<Metrics>,
    /// Where the last ones can be asked for.
    pub recent: Arc<Recent>,
}

impl Default for Settings {
    /// A hundred a second, in the log alone.
    fn default() -> Self {
        Self {
            per_second: NonZeroU32::new(100).expect("100 is not 0"),
            is_logged: true,
            trail: None,
            metrics: Arc::default(),
            recent: Arc::default(),
        }
    }
}

/// Takes records and has them written.
#[derive(Debug)]
pub struct Audit {
    queue: Arc<Queue>,
    ended: Mutex<Receiver<()>>,
}

impl Audit {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn new(settings: Settings) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(settings.per_second, settings.metrics.clone()));
        let (end, ended) = sync_channel(1);
        let tasks = queue.clone();
        thread::Builder::new().name("audit".into()).spawn(move || {
            write_all(&tasks, settings);
            // Nobody may wait for it any more.
            let _ = end.send(());
        })?;
        Ok(Self { queue, ended: Mutex::new(ended) })
    }

    /// Takes the record that `gather` puts together, unless there are too many of the user `uid` at the moment; it is not
    /// asked then. Never waits for what is written.
    pub fn record(&self, uid: Option<u32>, gather: impl FnOnce() -> Record) {
        self.queue.offer(uid, gather);
    }

    /// Goes on in the file that is now at the path of the trail, because the old one may have been moved away. Does not wait
    /// for that; if the file cannot be opened, the log says so and the old one is gone on with.
    pub fn reopen(&self) {
        self.queue.reopen();
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        /// A disk or a terminal that takes nothing must not keep the process from ending.
        const PATIENCE: Duration = Duration::from_secs(2);
        self.queue.close();
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(PATIENCE);
    }
}

fn write_all(tasks: &Queue, settings: Settings) {
    let Settings { per_second, is_logged, mut trail, metrics, recent } = settings;
    loop {
        match tasks.next() {
            Task::Write(record) => {
                let line = Line::from(&*record);
                recent.add(&record);
                if is_logged {
                    log_with_fields(&record, &line);
                }
                match trail.as_mut().is_none_or(|trail| trail.put(&line, 1)) {
                    true => metrics.recorded(),
                    false => metrics.dropped(Dropped::File, 1),
                }
            }
            Task::Tell(dropped) => {
                for (uid, Drops { rate, queue }) in dropped {
                    let why_rate = format!("more than {per_second} a second");
                    for (count, reason, why) in
                        [(rate, "rate", why_rate.as_str()), (queue, "queue", "the writer is behind")]
                    {
                        if count > 0 {
                            tell(count, reason, why, uid, trail.as_mut());
                        }
                    }
                }
            }
            Task::Reopen => trail.iter_mut().for_each(Trail::reopen),
            Task::End => {
                trail.iter().for_each(Trail::finish);
                return;
            }
        }
    }
}

fn tell(count: u64, reason: &'static str, why: &str, uid: Option<u32>, trail: Option<&mut Trail>) {
    let whose = uid.map_or("others".into(), |uid| format!("uid {uid}"));
    log::warn!(
        dropped = count, reason = reason, whose = whose.as_str();
        "{count} more were refused or let through, and not recorded, of {whose}: {why}"
    );
    if let Some(trail) = trail {
        // What does not get there counts as missing there.
        trail.put(&DroppedLine::new(count, reason, uid), count);
    }
}

/// Logs one record as an audit does, at once.
pub fn log_record(record: &Record) {
    log_with_fields(record, &Line::from(record));
}

/// The sentence about it, with what it says as fields: those of the line of JSON.
fn log_with_fields(record: &Record, line: &Line<'_>) {
    let metadata = log::Metadata::builder().level(Level::Warn).target(module_path!()).build();
    if !log::logger().enabled(&metadata) {
        return;
    }
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
    let builder = &mut log::Record::builder();
    let builder = builder.metadata(metadata).module_path_static(Some(module_path!())).key_values(&fields);
    log::logger().log(&builder.args(format_args!("{record}")).build());
}

#[cfg(test)]
mod tests;
