//! The most recent records, for `namegate top` and `namegate why`.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::bounded::shortened;
use super::{AuditOutcome, AuditRecord};
use crate::json::JsonBytes;
use crate::policy::Policy;
use crate::policy::config::Config;
use crate::policy::rule::RuleId;

/// The extended attribute by which a client asks a mount why it refused names. No file system stores attributes of that name.
pub const WHY_ATTRIBUTE: &str = "namegate.why";

/// The longest answer, in bytes: `XATTR_SIZE_MAX` of linux/limits.h.
pub const MAX_WHY: usize = 1 << 16;

/// A name that was recently refused, repaired or let through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentRefusal {
    /// Time, in seconds since 1970.
    pub time: u64,
    /// Whether the name was let through.
    pub let_through: bool,
    /// The name that was stored instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
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

/// The value of [`WHY_ATTRIBUTE`]: what a mount tells each user who can reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyAnswer {
    /// The policy as a configuration in TOML, if it can be written as one.
    pub policy: Option<String>,
    /// The last refusals of the user, the oldest first.
    pub refusals: Vec<RecentRefusal>,
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
            stored: match &record.outcome {
                AuditOutcome::Repaired(stored) => stored.to_str().map(str::to_owned),
                _ => None,
            },
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

    /// The answer for the user `uid`: the policy, and as many of the user's own records as there is room for.
    pub(super) fn answer(&self, uid: u32, policy: &Policy) -> Vec<u8> {
        let policy = Config::from_policy(policy).ok().map(|config| config.to_toml());
        // Escapes in JSON take at most six bytes for one.
        let mut room = MAX_WHY.saturating_sub(policy.as_ref().map_or(0, |text| 6 * text.len()) + 64);
        let own = self.last().into_iter().rev().filter(|record| record.uid == Some(uid));
        let mut refusals: Vec<RecentRefusal> = own
            .take_while(|record| {
                let len = serde_json::to_vec(record).map_or(usize::MAX, |line| line.len() + 1);
                let fits = len <= room;
                room = room.saturating_sub(len);
                fits
            })
            .collect();
        refusals.reverse();
        let answer = serde_json::to_vec(&WhyAnswer { policy, refusals }).unwrap_or_default();
        if answer.len() <= MAX_WHY { answer } else { b"{\"policy\":null,\"refusals\":[]}".to_vec() }
    }

    /// All records, the oldest first.
    pub fn last(&self) -> Vec<RecentRefusal> {
        self.0.lock().iter().cloned().collect()
    }
}
