//! The last records, for whoever asks a running instance whom it refuses.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use super::bounded::shortened;
use super::{Outcome, Record};
use crate::daemon::control::{Bytes, Refused};
use crate::policy::rule::RuleId;

/// The last records; the oldest goes when there are too many.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<Refused>>);

impl Recent {
    /// A screen of them, and half a MiB at most: a name has 255 bytes, a path 4096.
    const MOST: usize = 64;
    /// So much of a path is shown.
    const SHOWN: usize = 512;

    /// One more.
    pub(super) fn add(&self, record: &Record) {
        let refused = Refused {
            time: record.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            let_through: record.outcome == Outcome::LetThrough,
            op: record.operation.into(),
            rule: record.rule.map(RuleId::name).map(str::to_owned),
            name: Bytes::new(record.name.as_bytes()),
            parent: record.parent.as_deref().map(|parent| {
                let bytes = parent.as_os_str().as_bytes();
                Bytes { shown: shortened(bytes, Self::SHOWN).0, ..Bytes::new(bytes) }
            }),
            uid: record.asker.uid,
            command: record.asker.command.as_deref().map(Bytes::new),
        };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == Self::MOST {
            last.pop_front();
        }
        last.push_back(refused);
    }

    /// All of them, the oldest first.
    pub fn last(&self) -> Vec<Refused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
