//! The most recent records, for `namegate top` and `namegate why`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::UNIX_EPOCH;

use namegate_core::policy::Policy;
use namegate_core::policy::config::Config;
use namegate_core::policy::rule::RuleId;
use namegate_files::json::{JsonBytes, TypedObject};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::shorten::shortened;
use super::{AuditOutcome, AuditRecord};

/// The extended attribute by which a client asks a mount why it refused names. No file system stores attributes of that name.
pub const WHY_ATTRIBUTE: &str = "namegate.why";

/// The longest answer, in bytes: `XATTR_SIZE_MAX` of linux/limits.h.
pub const MAX_WHY: usize = 1 << 16;

/// The attribute that has the part `number` of a policy that is too long for the answer.
pub fn policy_attribute(number: usize) -> String {
    format!("{WHY_ATTRIBUTE}.{number}")
}

/// A name that was recently refused or let through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentRefusal {
    /// Time, in seconds since 1970.
    pub time: u64,
    /// Whether the name was let through.
    pub let_through: bool,
    pub op: String,
    /// Id of the rule; `None` for a name that looks like the escape of another name.
    pub rule: Option<String>,
    pub name: JsonBytes,
    /// The directory, relative to the source.
    pub parent: Option<JsonBytes>,
    /// User id of the client.
    pub uid: Option<u32>,
    /// Id of the client's thread; 0 if the server cannot see it.
    #[serde(default)]
    pub pid: u32,
    /// Command name of the client.
    pub command: Option<JsonBytes>,
    /// How often it happened; the other fields are those of the last time.
    #[serde(default = "once")]
    pub count: u64,
}

const fn once() -> u64 {
    1
}

impl RecentRefusal {
    /// Whether it is the same refusal, at any time.
    pub fn is_again(&self, other: &Self) -> bool {
        let Self { time: _, pid: _, count: _, let_through, op, rule, name, parent, uid, command } = self;
        name == &other.name
            && (let_through, op, rule) == (&other.let_through, &other.op, &other.rule)
            && (parent, uid, command) == (&other.parent, &other.uid, &other.command)
    }
}

/// The value of [`WHY_ATTRIBUTE`]: what a mount tells each user who can reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyAnswer {
    /// The policy as a configuration in TOML, if it can be written as one and leaves room for the refusals.
    pub policy: Option<String>,
    /// A policy that leaves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_policy: Option<LongPolicy>,
    /// The last refusals of the user, the oldest first.
    pub refusals: Vec<RecentRefusal>,
}

/// A policy whose text is in the attributes of [`policy_attribute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongPolicy {
    /// The number of attributes.
    pub parts: usize,
    /// The CRC-32 of the text: another policy may be in effect before all parts are read.
    pub crc32: u32,
}

/// The most recent records. When there are too many, the oldest one of the user with the most is removed: a flood by one user removes no
/// record of another.
#[derive(Debug, Default)]
pub struct RecentRefusals(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// The oldest first.
    records: VecDeque<RecentRefusal>,
    /// The number of records of each user.
    counts: HashMap<Option<u32>, usize>,
}

impl Remembered {
    fn add(&mut self, mut record: RecentRefusal) {
        // A client that tries again and again is one record.
        if let Some(at) = self.records.iter().rposition(|earlier| earlier.is_again(&record)) {
            record.count += self.records.remove(at).map_or(0, |earlier| earlier.count);
            self.records.push_back(record);
            return;
        }
        if self.records.len() == RecentRefusals::MAX_RECORDS {
            let most = self.counts.iter().max_by_key(|&(user, count)| (*count, *user == record.uid));
            let of_user = most.map(|(user, _)| *user).unwrap_or_default();
            if let Some(at) = self.records.iter().position(|record| record.uid == of_user) {
                self.records.remove(at);
            }
            if let Entry::Occupied(mut count) = self.counts.entry(of_user) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        *self.counts.entry(record.uid).or_default() += 1;
        self.records.push_back(record);
    }
}

impl RecentRefusals {
    /// One screen of records, and at most half a MiB: a name has 255 bytes, a path 4096.
    const MAX_RECORDS: usize = 64;
    /// Maximum number of bytes of a path that are kept for display.
    const SHOWN: usize = 512;

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
            pid: record.requester.pid,
            count: 1,
            command: record.requester.command.as_deref().map(JsonBytes::new),
        };
        self.0.lock().add(refused);
    }

    /// The value of the attribute `name` for the user `uid`: the policy, and as many of the user's own records, for root of all, as there is room for, or
    /// a part of the policy. `None` if it is none of these attributes.
    pub(super) fn answer(&self, name: &OsStr, uid: u32, policy: &Policy) -> Option<Vec<u8>> {
        let text = || Config::from_policy(policy).ok().map(|config| config.to_toml());
        let rest = name.as_bytes().strip_prefix(WHY_ATTRIBUTE.as_bytes())?;
        if rest.is_empty() {
            return Some(self.answer_with(uid, text()));
        }
        let number: usize = str::from_utf8(rest).ok()?.strip_prefix('.')?.parse().ok()?;
        text()?.as_bytes().chunks(MAX_WHY).nth(number).map(<[u8]>::to_vec)
    }

    fn answer_with(&self, uid: u32, policy: Option<String>) -> Vec<u8> {
        // Escapes in JSON take at most six bytes for one.
        let (policy, long_policy) = match policy {
            Some(text) if 6 * text.len() > MAX_WHY / 2 => {
                let crc32 = crc32fast::hash(text.as_bytes());
                (None, Some(LongPolicy { parts: text.len().div_ceil(MAX_WHY), crc32 }))
            }
            policy => (policy, None),
        };
        let mut room = MAX_WHY - policy.as_ref().map_or(0, |text| 6 * text.len()) - 128;
        // Root reads the audit log, which has them all.
        let own = self.last().into_iter().rev().filter(|record| uid == 0 || record.uid == Some(uid));
        let mut refusals: Vec<RecentRefusal> = own
            .take_while(|record| {
                let len = serde_json::to_vec(record).map_or(usize::MAX, |line| line.len() + 1);
                let fits = len <= room;
                room = room.saturating_sub(len);
                fits
            })
            .collect();
        refusals.reverse();
        let answer = TypedObject::new("why", WhyAnswer { policy, long_policy, refusals });
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    /// All records, the oldest first.
    pub fn last(&self) -> Vec<RecentRefusal> {
        self.0.lock().records.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(uid: u32, time: u64) -> RecentRefusal {
        RecentRefusal {
            time,
            let_through: false,
            op: "create".into(),
            rule: None,
            name: JsonBytes::new(time.to_string().as_bytes()),
            parent: None,
            uid: Some(uid),
            pid: 0,
            command: None,
            count: 1,
        }
    }

    #[test]
    fn a_client_that_tries_again_is_one_record_with_a_count() {
        let mut remembered = Remembered::default();
        let retry = |time: u64| RecentRefusal { time, pid: 7 + time as u32, ..refusal(1, 0) };
        (0..60).for_each(|time| remembered.add(retry(time)));
        remembered.add(refusal(2, 1));
        remembered.add(retry(60));
        let found: Vec<_> = remembered.records.iter().map(|r| (r.uid, r.time, r.pid, r.count)).collect();
        assert_eq!(found, [(Some(2), 1, 0, 1), (Some(1), 60, 67, 61)]);
        assert_eq!(remembered.counts, HashMap::from([(Some(1), 1), (Some(2), 1)]));
    }

    #[test]
    fn a_flood_by_one_user_removes_no_refusal_of_another() {
        let mut remembered = Remembered::default();
        for time in 0..3 {
            remembered.add(refusal(1, time));
        }
        (0..10_000).for_each(|time| remembered.add(refusal(2, time)));
        remembered.add(refusal(3, 0));
        (0..10_000).for_each(|time| remembered.add(refusal(2, 10_000 + time)));
        let times = |user: u32| -> Vec<u64> {
            let own = remembered.records.iter().filter(|record| record.uid == Some(user));
            own.map(|record| record.time).collect()
        };
        assert_eq!((times(1), times(3)), (vec![0, 1, 2], vec![0]));
        assert_eq!(times(2), (19_940..20_000).collect::<Vec<_>>(), "and its own last ones");
        assert_eq!(remembered.records.len(), RecentRefusals::MAX_RECORDS);
        assert_eq!(remembered.counts.values().sum::<usize>(), RecentRefusals::MAX_RECORDS);
        // Two floods share what there is.
        (0..10_000).for_each(|time| remembered.add(refusal(4 + (time % 2) as u32, time)));
        let count = |user: u32| remembered.counts.get(&Some(user)).copied().unwrap_or_default();
        assert!(
            (1..=5).all(|user| count(user) > 0) && count(4).abs_diff(count(5)) <= 1,
            "{:?}",
            remembered.counts
        );
    }
}
