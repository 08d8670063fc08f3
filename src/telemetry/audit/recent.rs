//! The last records, for whoever asks a running instance whom it refuses.

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
    /// When, in seconds since 1970.
    pub time: u64,
    /// Whether it was let through.
    pub let_through: bool,
    /// By which operation.
    pub op: String,
    /// The rule's id; none for a name that reads like the escape of another.
    pub rule: Option<String>,
    /// The name.
    pub name: JsonBytes,
    /// The directory, below the source.
    pub parent: Option<JsonBytes>,
    /// Who asked for it.
    pub uid: Option<u32>,
    /// With which program.
    pub command: Option<JsonBytes>,
}

/// The last records; the oldest goes when there are too many.
#[derive(Debug, Default)]
pub struct RecentRefusals(Mutex<VecDeque<RecentRefusal>>);

impl RecentRefusals {
    /// A screen of them, and half a MiB at most: a name has 255 bytes, a path 4096.
    const MOST: usize = 64;
    /// So much of a path is shown.
    const SHOWN: usize = 512;

    /// One more.
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

    /// All of them, the oldest first.
    pub fn last(&self) -> Vec<RecentRefusal> {
        self.0.lock().iter().cloned().collect()
    }
}
