//! Between those who are not to wait and the one who writes: a queue of bounded length, with a share for each user.
//!
//! More than a number of records a second of one user are not taken but counted, likewise more than a number of bytes, and no
//! user can fill more than a part of the queue: a flood of one silences nobody else. Of how many users that is kept is bounded too; those who come when nobody can
//! be forgotten share one place.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::record::AuditRecord;
use crate::telemetry::metrics::{DropReason, Metrics};

/// Enough for what a slow disk holds up, and a few MiB at most.
const QUEUED: usize = 1024;
/// What one user may have of it.
const SHARE: usize = QUEUED / 4;
/// Users that are told apart at a time.
const USERS: usize = 1024;
/// Users that are named when it is told what was dropped; that must not become a flood of its own.
const NAMED: usize = 16;
/// How often it is told.
const INTERVAL: Duration = Duration::from_secs(1);

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

    fn take(&mut self, many: u32, now: Instant) -> bool {
        let is_left = self.has(many, now);
        if is_left {
            self.spend(many, now);
        }
        is_left
    }

    /// Whether there are so many.
    fn has(&self, many: u32, now: Instant) -> bool {
        self.full_at.max(now) + self.interval * many <= now + Duration::from_secs(1)
    }

    /// Takes so many that are gone already: others have to wait for longer.
    fn spend(&mut self, many: u32, now: Instant) {
        self.full_at = self.full_at.max(now) + self.interval * many;
    }
}

/// Records of one user that were not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DropCounts {
    /// Too many in a second.
    pub(super) rate: u64,
    /// Too many bytes in a second.
    pub(super) bytes: u64,
    /// The writer was behind.
    pub(super) queue: u64,
}

impl DropCounts {
    fn total(self) -> u64 {
        self.rate + self.bytes + self.queue
    }

    fn add(&mut self, other: Self) {
        self.rate += other.rate;
        self.bytes += other.bytes;
        self.queue += other.queue;
    }
}

#[derive(Debug)]
struct UserQuota {
    records: Bucket,
    bytes: Bucket,
    /// Bytes that the last record needed for which there was no room.
    needed: u32,
    waiting: usize,
    drops: DropCounts,
}

impl UserQuota {
    /// Whether a new one would be the same.
    fn is_idle(&self, now: Instant) -> bool {
        let is_full = self.records.full_at <= now && self.bytes.full_at <= now;
        self.waiting == 0 && self.drops == DropCounts::default() && is_full
    }
}

/// Who has a place: a user, or all who have none.
pub(super) type QuotaKey = Option<u32>;

#[derive(Debug, Default)]
struct QueueState {
    records: VecDeque<(QuotaKey, AuditRecord)>,
    users: HashMap<QuotaKey, UserQuota>,
    /// Records that have a place, and those that are still being put together.
    waiting: usize,
    /// Since when there is something to tell of.
    dropped_since: Option<Instant>,
    is_to_reopen: bool,
    is_closed: bool,
}

/// What the writer is to do.
#[derive(Debug)]
pub(super) enum QueueItem {
    /// Write this, if there is room among the bytes of whose it is.
    Write(QuotaKey, Box<AuditRecord>),
    /// Tell what was dropped, and of whom.
    Tell(Vec<(QuotaKey, DropCounts)>),
    /// Open the file anew.
    Reopen,
    /// Nothing more will come.
    End,
}

#[derive(Debug)]
pub(super) struct AuditQueue {
    per_second: NonZeroU32,
    bytes_per_second: NonZeroU32,
    metrics: Arc<Metrics>,
    state: Mutex<QueueState>,
    changed: Condvar,
}

impl AuditQueue {
    pub(super) fn new(per_second: NonZeroU32, bytes_per_second: NonZeroU32, metrics: Arc<Metrics>) -> Self {
        Self { per_second, bytes_per_second, metrics, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes the record that `gather` puts together, unless there are too many of `uid` at the moment; it is not asked then.
    pub(super) fn offer(&self, uid: QuotaKey, gather: impl FnOnce() -> AuditRecord) {
        let Some(who) = self.reserve(uid, Instant::now()) else { return };
        // Not under the lock: it reads files.
        let record = gather();
        self.state.lock().records.push_back((who, record));
        self.changed.notify_one();
    }

    fn reserve(&self, uid: QuotaKey, now: Instant) -> Option<QuotaKey> {
        let mut state = self.state.lock();
        let (who, is_full) = (self.place(&mut state, uid, now), state.waiting >= QUEUED);
        let user = state.users.get_mut(&who)?;
        let dropped = match user.records.take(1, now) {
            false => {
                user.drops.rate += 1;
                DropReason::Rate
            }
            true if is_full || user.waiting >= SHARE => {
                user.drops.queue += 1;
                DropReason::Queue
            }
            true => {
                user.waiting += 1;
                state.waiting += 1;
                return Some(who);
            }
        };
        self.metrics.dropped(dropped, 1);
        self.note_drop(&mut state, now);
        None
    }

    fn note_drop(&self, state: &mut QueueState, now: Instant) {
        if state.dropped_since.is_none() {
            state.dropped_since = Some(now);
            self.changed.notify_one();
        }
    }

    /// Whether there is room for a record of `who` like the last one that there was no room for, so that it is worth being put
    /// into words; if not, it is counted as dropped.
    pub(super) fn may_take(&self, who: QuotaKey) -> bool {
        self.take_if(who, |bytes, needed, now| bytes.has(*needed, now))
    }

    /// Whether so many bytes of `who` may be written now; if not, one more record is counted as dropped.
    pub(super) fn takes(&self, who: QuotaKey, bytes: usize) -> bool {
        let many = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.take_if(who, |bytes, needed, now| {
            let takes = bytes.take(many, now);
            *needed = if takes { 0 } else { many };
            takes
        })
    }

    fn take_if(&self, who: QuotaKey, take: impl FnOnce(&mut Bucket, &mut u32, Instant) -> bool) -> bool {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let who = self.place(&mut state, who, now);
        let Some(user) = state.users.get_mut(&who) else { return true };
        let takes = take(&mut user.bytes, &mut user.needed, now);
        if !takes {
            user.drops.bytes += 1;
            self.metrics.dropped(DropReason::Bytes, 1);
            self.note_drop(&mut state, now);
        }
        takes
    }

    /// So many bytes of `who` are written in any case.
    pub(super) fn spend(&self, who: QuotaKey, bytes: usize) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        if let Some(user) = state.users.get_mut(&who) {
            user.bytes.spend(u32::try_from(bytes).unwrap_or(u32::MAX), now);
        }
    }

    /// The place of a user, which is there from now on.
    fn place(&self, state: &mut QueueState, uid: QuotaKey, now: Instant) -> QuotaKey {
        if !state.users.contains_key(&uid) && state.users.len() >= USERS {
            state.users.retain(|_, user| !user.is_idle(now));
        }
        let who = if state.users.len() < USERS || state.users.contains_key(&uid) { uid } else { None };
        let new = || UserQuota {
            records: Bucket::new(self.per_second, now),
            bytes: Bucket::new(self.bytes_per_second, now),
            needed: 0,
            waiting: 0,
            drops: DropCounts::default(),
        };
        state.users.entry(who).or_insert_with(new);
        who
    }

    /// What is to be done next; waits for it.
    pub(super) fn next(&self) -> QueueItem {
        let mut state = self.state.lock();
        loop {
            if std::mem::take(&mut state.is_to_reopen) {
                return QueueItem::Reopen;
            }
            let told_in = state.dropped_since.map(|since| INTERVAL.saturating_sub(since.elapsed()));
            if told_in == Some(Duration::ZERO) {
                return QueueItem::Tell(state.take_drops());
            }
            if let Some((who, record)) = state.records.pop_front() {
                state.waiting -= 1;
                if let Some(user) = state.users.get_mut(&who) {
                    user.waiting -= 1;
                }
                return QueueItem::Write(who, Box::new(record));
            }
            if state.is_closed && state.waiting == 0 {
                return match state.dropped_since {
                    Some(_) => QueueItem::Tell(state.take_drops()),
                    None => QueueItem::End,
                };
            }
            match told_in {
                Some(time) => drop(self.changed.wait_for(&mut state, time)),
                None => self.changed.wait(&mut state),
            }
        }
    }

    pub(super) fn reopen(&self) {
        self.state.lock().is_to_reopen = true;
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }
}

impl QueueState {
    /// What was dropped since the last time: of those who had most dropped by themselves, and of the others together.
    fn take_drops(&mut self) -> Vec<(QuotaKey, DropCounts)> {
        self.dropped_since = None;
        let dropped = self.users.iter_mut().filter(|(_, user)| user.drops.total() > 0);
        let mut all: Vec<(QuotaKey, DropCounts)> =
            dropped.map(|(who, user)| (*who, std::mem::take(&mut user.drops))).collect();
        all.sort_by_key(|(who, drops)| (std::cmp::Reverse(drops.total()), *who));
        let mut others = DropCounts::default();
        let named = all.iter().enumerate().filter_map(|(i, (who, drops))| {
            if i < NAMED && who.is_some() {
                return Some((*who, *drops));
            }
            others.add(*drops);
            None
        });
        let mut told: Vec<(QuotaKey, DropCounts)> = named.collect();
        if others.total() > 0 {
            told.push((None, others));
        }
        told
    }
}

#[cfg(test)]
mod tests;
