//! The most recent records, for `namegate top`.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::bounded::shortened;
use super::{AuditOutcome, AuditRecord};
use crate::json::JsonBytes;
use crate::policy::rule::RuleId;

/// A name that was recently refused or let through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentRefusal {
    /// Time, in seconds since 1970.
    pub time: u64,
    /// Whether the name was let through.
    pub let_through: bool,
    /// The operation.
    pub op: String,
    /// Id of the rule; `None` for a name that looks like the escape of another name.
    pub rule: Option<String>,
    /// The name.
    pub name: JsonBytes,
    /// The directory, relative to the source.
    pub parent: Option<JsonBytes>,
    /// User id of the client.
    pub uid: Option<u32>,
    /// Command name of the client.
    pub command: Option<JsonBytes>,
}

/// The most recent records; when there are too many, the oldest is removed.
#[derive(Debug, Default)]
pub struct RecentRefusals(Mutex<VecDeque<RecentRefusal>>);

impl RecentRefusals {
    /// One screen of records, and at most half a MiB: a name has 255 bytes, a path 4096.
    const MOST: usize = 64;
    /// Maximum number of bytes of a path that are kept for display.
    const SHOWN: usize = 512;

    /// Adds a record.
    pub(super) fn add(&self, record: &AuditRecord) {
        let refused = RecentRefusal {
            time: record.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            let_through: record.outcome == AuditOutcome::LetThrough,
            op: record.operation.into(),
            rule: record.rule.map(RuleId::name).map(str::to_owned),
            name: JsonBytes::new(record.name.as_bytes()),
            parent: record.parent.as_deref().map(|parent| {
                let bytes = parent.as_os_str().as_bytes();
                JsonBytes { shown: shortened(bytes, Self::SHOWN).0, ..JsonBytes::new(bytes) }
            }),
            uid: record.requester.uid,
            command: record.requester.command.as_deref().map(JsonBytes::new),
        };
        let mut last = self.0.lock();
        if last.len() == Self::MOST {
            last.pop_front();
        }
        last.push_back(refused);
    }

    /// All records, the oldest first.
    pub fn last(&self) -> Vec<RecentRefusal> {
        self.0.lock().iter().cloned().collect()
    }
}
