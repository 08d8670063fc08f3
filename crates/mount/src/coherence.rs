//! Caches of the kernel that do not expire, because the server hears of direct changes in the source and drops what they changed.
//!
//! fanotify reports changes on the whole file system of the source, whoever makes them and by whatever path. A thread
//! (`listener`) reads the events and has the kernel drop names and attributes. Replies then get [`LASTING`] as their timeout. What is
//! not reported keeps the timeouts of the settings: see `ConfiguredServer::name_timeout` and `Passthrough::attributes_may_last`.
//!
//! # Why no outdated reply stays
//! A reply R is computed by system calls between the times `a` and `b`, and the kernel takes it at `k`. A change at `c` is outdated in R
//! only if `a < c < k` (a change before `a` is in R). Its event is read at `e > c`; then [`Coherence::batches`] goes up, and only
//! then the listener looks up who knows the file, and has the kernel drop it.
//! 1. R is lasting only if `batches` has not moved between `a` and the moment after `b` when its timeout is decided. If `e` is before
//!    that moment, R gets the timeout of the settings. Both sides pass the lock of the node table, or that of the names
//!    that were given out, in between: if the listener does not find the node or the name of R there, R sees the higher number.
//! 2. Otherwise the listener finds it and has it dropped after `b`. A *name* that the kernel looks up, lists or creates is
//!    taken under the lock of its directory, for which `FUSE_NOTIFY_INVAL_ENTRY` waits: it comes after `k`. *Attributes* of an inode that
//!    the kernel has are taken only if they were asked for after the last `FUSE_NOTIFY_INVAL_INODE` (`attr_version`).
//! 3. What remains: attributes of an inode that the kernel does not have yet at `e`, those in replies to changes, which have no version, and
//!    a known name that is asked for again without the lock. R is on its way to a thread that the kernel has woken. The
//!    listener has everything dropped again after each time in `listener::AGAIN`. Only if that thread does not run for 5 s, R
//!    stays until the next change, at most for [`LASTING`].
//!
//! A client that renames through the mount may move a name in the kernel that was outdated already, and the drop of the old name, which
//! waits for the client, comes too late. So while names are being dropped, those are dropped, too, to which the server renames
//! (`Listening::drop_moved`): its events come in order, but for those that the kernel merges with earlier ones.
//!
//! Lost events (an overflow of the queue, and what has happened between two servers of a mount) count as changes of everything: of all
//! names in [`GivenNames`], and of all nodes.

mod given;
pub(super) mod invalidator;
pub(super) mod listener;
mod reply_timeouts;
mod time_budget;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use self::given::{GivenNames, TakenNames};
use super::journal::MountJournal;
use crate::passthrough::NodeId;

/// How long the kernel keeps what is dropped when it changes. It bounds the harm of what nobody has thought of.
pub(super) const LASTING: Duration = Duration::from_secs(3600);

/// Which kind of cache a mount has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    pub since: SystemTime,
    /// Why it expires; `None` for a coherent one.
    pub why_not: Option<String>,
}

/// What is known of the caches of the kernel.
#[derive(Debug)]
pub(super) struct Coherence {
    is_active: AtomicBool,
    /// Batches of events that were read, with changes by others in them.
    batches: AtomicU64,
    given: Mutex<GivenNames>,
    status: Mutex<CacheStatus>,
}

impl Coherence {
    /// `journal` notes what a successor of this process must know.
    pub(super) fn new(journal: &'static dyn MountJournal) -> Self {
        let status = CacheStatus { since: SystemTime::now(), why_not: Some("not begun".into()) };
        let (is_active, batches) = (AtomicBool::new(false), AtomicU64::new(0));
        let given = Mutex::new(GivenNames::new(journal.kept_names()));
        Self { is_active, batches, given, status: Mutex::new(status) }
    }

    /// Whether names are noted for a successor.
    pub(super) fn goes_on(&self) -> bool {
        self.given.lock().goes_on()
    }

    pub(super) fn status(&self) -> CacheStatus {
        self.status.lock().clone()
    }

    /// From now on replies may last, or with `why_not` none.
    pub(super) fn set_status(&self, why_not: Option<String>) {
        self.is_active.store(why_not.is_none(), Ordering::SeqCst);
        *self.status.lock() = CacheStatus { since: SystemTime::now(), why_not };
    }

    /// The number of batches before the first system call of a request; `None` if its reply cannot last.
    pub(super) fn begin(&self) -> Option<u64> {
        self.is_active.load(Ordering::Acquire).then(|| self.batches.load(Ordering::SeqCst))
    }

    /// Whether a reply that was [begun](Self::begin) with `batches` may last.
    fn holds_since(&self, batches: Option<u64>) -> bool {
        batches.is_some() && self.begin() == batches
    }

    /// Events were read.
    fn count_batch(&self) {
        self.batches.fetch_add(1, Ordering::SeqCst);
    }

    /// All names that the kernel may keep; they count as dropped when this is. From now on no reply lasts that was begun before.
    pub(super) fn take_names(&self) -> TakenNames {
        self.count_batch();
        self.given.lock().take()
    }

    /// The kernel has forgotten a node, and with it all names in it.
    pub(super) fn forget(&self, node: NodeId) {
        self.given.lock().forget(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_lasts_only_if_no_event_was_read_since_it_was_begun() {
        let coherence = Coherence::new(&namegate_wire::NoJournal);
        assert_eq!(coherence.begin(), None, "nobody listens");
        assert!(!coherence.holds_since(None));
        coherence.set_status(None);
        let begun = coherence.begin();
        assert!(begun.is_some() && coherence.holds_since(begun));
        coherence.count_batch();
        assert!(!coherence.holds_since(begun) && coherence.holds_since(coherence.begin()));
        let begun = coherence.begin();
        assert!(
            coherence.take_names().names.is_empty() && !coherence.holds_since(begun),
            "all events were lost"
        );
        let begun = coherence.begin();
        coherence.set_status(Some("enough".into()));
        assert!(!coherence.holds_since(begun) && coherence.status().why_not.is_some());
    }
}
