//! A queue of limited length between the threads that serve requests and the writer, with a share for each user.
//!
//! Records of one user beyond a number, or a number of bytes, per second are not queued but counted, and no user can fill
//! more than a part of the queue: a flood by one user costs no other user a record. The number of users that are tracked is
//! limited, too; further users share one entry.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::record::AuditRecord;
use crate::metrics::{DropReason, Metrics};

/// Enough to bridge a slow disk, and at most a few MiB.
const QUEUED: usize = 1024;
/// Maximum number of records of one user in the queue.
const SHARE: usize = QUEUED / 4;
/// Maximum number of users that are tracked at a time.
const USERS: usize = 1024;
/// Maximum number of users in a report of dropped records; the report must not become a flood itself.
const NAMED: usize = 16;
/// How long a record without limits waits for room.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(500);
/// Time between two reports of dropped records.
const INTERVAL: Duration = Duration::from_secs(1);

/// A limit per second: a token bucket, stored as the time at which it is full again.
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

    /// Reports whether `many` tokens are left.
    fn has(&self, many: u32, now: Instant) -> bool {
        self.full_at.max(now) + self.interval * many <= now + Duration::from_secs(1)
    }

    /// Takes `many` tokens even if there are not enough: later users of the bucket wait longer.
    fn spend(&mut self, many: u32, now: Instant) {
        self.full_at = self.full_at.max(now) + self.interval * many;
    }
}

/// Numbers of dropped records of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DropCounts {
    /// More than the limit per second.
    pub(super) rate: u64,
    /// More bytes than the limit per second.
    pub(super) bytes: u64,
    /// The writer was too slow.
    pub(super) queue: u64,
    /// The kernel had no room for them. Nobody knows whose they are.
    pub(super) buffer: u64,
}

impl DropCounts {
    fn total(self) -> u64 {
        self.rate + self.bytes + self.queue + self.buffer
    }

    fn add(&mut self, other: Self) {
        self.rate += other.rate;
        self.bytes += other.bytes;
        self.queue += other.queue;
        self.buffer += other.buffer;
    }
}

#[derive(Debug)]
struct UserQuota {
    records: Bucket,
    bytes: Bucket,
    /// Size in bytes of the last record that exceeded the limit.
    needed: u32,
    waiting: usize,
    drops: DropCounts,
}

impl UserQuota {
    /// Reports whether the quota equals a new one.
    fn is_idle(&self, now: Instant) -> bool {
        let is_full = self.records.full_at <= now && self.bytes.full_at <= now;
        self.waiting == 0 && self.drops == DropCounts::default() && is_full
    }
}

/// The owner of a quota: a user, or all users without a quota of their own.
pub(super) type QuotaKey = Option<u32>;

#[derive(Debug, Default)]
struct QueueState {
    /// Each with its owner; without one, no limit applies to it.
    records: VecDeque<(Option<QuotaKey>, AuditRecord)>,
    users: HashMap<QuotaKey, UserQuota>,
    /// Number of records that are queued or being created.
    waiting: usize,
    /// Numbers of dropped records without an owner.
    unowned: DropCounts,
    /// The writer has written nothing for so long that nobody waits for it.
    is_stuck: bool,
    /// Time of the first drop that was not reported yet.
    dropped_since: Option<Instant>,
    is_to_reopen: bool,
    is_closed: bool,
}

/// A task for the writer.
#[derive(Debug)]
pub(super) enum QueueItem {
    /// Write this record, if its owner's byte limit allows it; without an owner in any case.
    Write(Option<QuotaKey>, Box<AuditRecord>),
    /// Report the dropped records of each owner.
    ReportDrops(Vec<(QuotaKey, DropCounts)>),
    /// Repeats of refusals are to be written.
    RepeatsDue,
    /// Reopen the file.
    Reopen,
    /// End: no more tasks will come.
    End,
}

#[derive(Debug)]
pub(super) struct AuditQueue {
    per_second: NonZeroU32,
    bytes_per_second: NonZeroU32,
    metrics: Arc<Metrics>,
    state: Mutex<QueueState>,
    changed: Condvar,
    /// Notified when a record leaves the queue.
    left: Condvar,
}

impl AuditQueue {
    pub(super) fn new(per_second: NonZeroU32, bytes_per_second: NonZeroU32, metrics: Arc<Metrics>) -> Self {
        Self {
            per_second,
            bytes_per_second,
            metrics,
            state: Mutex::default(),
            changed: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// Queues the record that `gather` creates, unless `uid` has too many at the moment; then `gather` is not called.
    pub(super) fn offer(&self, uid: QuotaKey, gather: impl FnOnce() -> AuditRecord) {
        let Some(who) = self.reserve(uid, Instant::now()) else { return };
        // Not under the lock: `gather` reads files.
        let record = gather();
        self.state.lock().records.push_back((Some(who), record));
        self.changed.notify_one();
    }

    /// Queues a record to which no limit applies; waits while the queue is full, unless the writer hangs.
    pub(super) fn put(&self, record: AuditRecord) {
        let mut state = self.state.lock();
        while state.waiting >= QUEUED && !state.is_stuck {
            state.is_stuck = self.left.wait_for(&mut state, QUEUE_TIMEOUT).timed_out();
        }
        if state.waiting >= QUEUED {
            state.unowned.queue += 1;
            self.metrics.dropped(DropReason::Queue, 1);
            self.note_drop(&mut state, Instant::now());
            return;
        }
        state.waiting += 1;
        state.records.push_back((None, record));
        self.changed.notify_one();
    }

    /// Has the writer report that the kernel lost `records` records.
    pub(super) fn add_lost(&self, records: u64) {
        let mut state = self.state.lock();
        state.unowned.buffer += records;
        self.note_drop(&mut state, Instant::now());
    }

    fn reserve(&self, uid: QuotaKey, now: Instant) -> Option<QuotaKey> {
        let mut state = self.state.lock();
        let (who, is_full) = (self.quota_key(&mut state, uid, now), state.waiting >= QUEUED);
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

    /// Reports whether the byte limit of `who` has room for a record like the last one that exceeded it, so that formatting
    /// is worth while; if not, the record is counted as dropped.
    pub(super) fn may_fit(&self, who: QuotaKey) -> bool {
        self.take_if(who, |bytes, needed, now| bytes.has(*needed, now))
    }

    /// Takes `bytes` from the byte limit of `who`; if it is exceeded, the record is counted as dropped.
    pub(super) fn reserve_bytes(&self, who: QuotaKey, bytes: usize) -> bool {
        let many = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.take_if(who, |bytes, needed, now| {
            let fits = bytes.take(many, now);
            *needed = if fits { 0 } else { many };
            fits
        })
    }

    fn take_if(&self, who: QuotaKey, take: impl FnOnce(&mut Bucket, &mut u32, Instant) -> bool) -> bool {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let who = self.quota_key(&mut state, who, now);
        let Some(user) = state.users.get_mut(&who) else { return true };
        let fits = take(&mut user.bytes, &mut user.needed, now);
        if !fits {
            user.drops.bytes += 1;
            self.metrics.dropped(DropReason::Bytes, 1);
            self.note_drop(&mut state, now);
        }
        fits
    }

    /// Takes `bytes` from the byte limit of `who` even if it is exceeded.
    pub(super) fn spend(&self, who: QuotaKey, bytes: usize) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        if let Some(user) = state.users.get_mut(&who) {
            user.bytes.spend(u32::try_from(bytes).unwrap_or(u32::MAX), now);
        }
    }

    /// Whose quota a user has; creates it if necessary.
    fn quota_key(&self, state: &mut QueueState, uid: QuotaKey, now: Instant) -> QuotaKey {
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

    /// Waits for the next task, not longer than until repeats are to be written.
    pub(super) fn next(&self, repeats_due: Option<Instant>) -> QueueItem {
        let mut state = self.state.lock();
        loop {
            if std::mem::take(&mut state.is_to_reopen) {
                return QueueItem::Reopen;
            }
            let report_in = state.dropped_since.map(|since| INTERVAL.saturating_sub(since.elapsed()));
            if report_in == Some(Duration::ZERO) {
                return QueueItem::ReportDrops(state.take_drops());
            }
            if let Some((who, record)) = state.records.pop_front() {
                state.waiting -= 1;
                state.is_stuck = false;
                self.left.notify_one();
                if let Some(user) = who.and_then(|who| state.users.get_mut(&who)) {
                    user.waiting -= 1;
                }
                return QueueItem::Write(who, Box::new(record));
            }
            if state.is_closed && state.waiting == 0 {
                return match state.dropped_since {
                    Some(_) => QueueItem::ReportDrops(state.take_drops()),
                    None => QueueItem::End,
                };
            }
            let due_in = repeats_due.map(|due| due.saturating_duration_since(Instant::now()));
            if due_in == Some(Duration::ZERO) {
                return QueueItem::RepeatsDue;
            }
            match report_in.into_iter().chain(due_in).min() {
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
    /// The drops since the last report: of the users with the most drops separately, and of the others together.
    fn take_drops(&mut self) -> Vec<(QuotaKey, DropCounts)> {
        self.dropped_since = None;
        let dropped = self.users.iter_mut().filter(|(_, user)| user.drops.total() > 0);
        let mut all: Vec<(QuotaKey, DropCounts)> =
            dropped.map(|(who, user)| (*who, std::mem::take(&mut user.drops))).collect();
        all.sort_by_key(|(who, drops)| (std::cmp::Reverse(drops.total()), *who));
        let mut others = std::mem::take(&mut self.unowned);
        let named = all.iter().enumerate().filter_map(|(i, (who, drops))| {
            if i < NAMED && who.is_some() {
                return Some((*who, *drops));
            }
            others.add(*drops);
            None
        });
        let mut reported: Vec<(QuotaKey, DropCounts)> = named.collect();
        if others.total() > 0 {
            reported.push((None, others));
        }
        reported
    }
}

#[cfg(test)]
mod tests;
