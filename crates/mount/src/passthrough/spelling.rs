//! Entries that can be found under several equivalent names.
//!
//! A [`NameEquivalence`] defines which names are equivalent; this module only compares bytes. An entry is looked up under the
//! given name, then under the key of the name, and then among the entries of the directory that are not stored under their
//! own key: few where only normalization makes names equivalent, nearly all where case does not matter. They are kept in an
//! index, so that the lookup of a missing name need not read the directory each time. A name without equivalents, or one that is
//! stored as given, never needs the index.
//!
//! An index is valid while the times and the size of the directory are the same as *before* it was read. This is not
//! sufficient: time stamps have a resolution of milliseconds on most file systems and of 2 s on FAT, and a second change
//! within that time does not show. So an index is *settled* only if the directory had not changed for some time when reading
//! began. An index that is not settled expires after the time for which the kernel may cache a name, or after a multiple of
//! the time that reading took if that is longer. So reading a directory that changes all the time costs a bounded share of
//! the time, however large it is.
//!
//! A change through this mount is also made in the index, which then is no longer settled. A thread that changes an entry
//! holds the lock of the directory from the search for the name to the end of the change. So two equivalent names never
//! become two entries, whichever requests the transport sends concurrently; Linux locks the directory as well.

mod spelling_index;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use libc::nlink_t;
use namegate_core::gate::Admitted;
use namegate_sys::open::again;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{fstat, fstatat};
use parking_lot::{Mutex, MutexGuard};
use spelling_index::SpellingIndex;

use super::cached_version::is_settled;
use super::descriptor::Descriptor;
use super::dir::{FLAGS, OpenDir};
use super::inode::NodeTable;
use super::{LookupEntry, NodeId, Passthrough, Result};

/// Defines which names are equivalent.
pub trait NameEquivalence: fmt::Debug + Send + Sync {
    /// The key, which all names equivalent to `name` have in common.
    fn key<'n>(&self, name: &'n OsStr) -> Cow<'n, OsStr>;

    /// Whether another name may have the same key; `false` is certain.
    fn has_other_spellings(&self, name: &OsStr) -> bool;

    /// The admitted name of an entry that is stored as `stored`; `None` if it must not be accessed.
    fn admitted(&self, stored: &OsStr) -> Option<Admitted<'static>>;
}

/// An index that is not settled is valid for this many times as long as reading it took.
const HOLDS: u32 = 16;

/// Maximum number of directories with an index, and of bytes of all indexes: three million names of 20 bytes.
const MAX_INDEX: IndexLimits = IndexLimits { directories: 1024, bytes: 128 << 20 };

#[derive(Clone, Copy, Debug)]
struct IndexLimits {
    directories: usize,
    bytes: usize,
}

/// The indexes of directories.
#[derive(Debug)]
pub(super) struct Spellings {
    limits: IndexLimits,
    kept: Mutex<IndexCache>,
    /// Minimum time in milliseconds for which an index that is not settled is valid.
    hold: AtomicU64,
    /// Direct changes that were reported, each of the directories with one remainder.
    reported: [AtomicU64; 64],
}

#[derive(Debug, Default)]
struct IndexCache {
    directories: HashMap<NodeId, IndexSlot>,
    /// Memory of all indexes.
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct IndexSlot {
    index: Arc<Mutex<Option<Index>>>,
    bytes: usize,
    last_use: u64,
}

/// The attributes that show that a directory has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DirectoryStamp {
    place: (u64, u64),
    changed: (i64, i64),
    modified: (i64, i64),
    size: i64,
    links: nlink_t,
}

/// The entries of a directory that are not stored under their own key.
#[derive(Debug)]
struct Index {
    /// The equivalence of these keys: the index is of no use for another one.
    equivalence: Arc<dyn NameEquivalence>,
    names: SpellingIndex,
    stamp: DirectoryStamp,
    is_settled: bool,
    read_at: Instant,
    /// The time that reading took.
    cost: Duration,
    /// Direct changes that were reported before.
    reported: u64,
}

/// A directory whose lock is held.
struct LockedDirectory<'l> {
    spellings: &'l Spellings,
    nodes: &'l NodeTable,
    equivalence: &'l Arc<dyn NameEquivalence>,
    id: NodeId,
    fd: Arc<Descriptor>,
    index: MutexGuard<'l, Option<Index>>,
}

/// Whether an entry is stored under exactly this name.
fn exists_exactly(dir: impl AsFd, name: &OsStr) -> Result<bool> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        // A key may be too long to be stored although the name itself is not.
        Err(Errno::ENOENT | Errno::ENAMETOOLONG) => Ok(false),
        Err(error) => Err(error),
    }
}

impl DirectoryStamp {
    fn read(dir: impl AsFd) -> Result<Self> {
        let stat = fstat(dir)?;
        Ok(Self {
            place: (stat.st_dev, stat.st_ino),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            size: stat.st_size,
            links: stat.st_nlink,
        })
    }
}

impl Index {
    fn is_of(&self, equivalence: &Arc<dyn NameEquivalence>) -> bool {
        Arc::ptr_eq(&self.equivalence, equivalence)
    }

    fn holds(&self, now: DirectoryStamp, reported: u64, at_least: Duration) -> bool {
        let hold = at_least.max(self.cost * HOLDS);
        let is_fresh = self.is_settled || self.read_at.elapsed() < hold;
        is_fresh && self.stamp == now && self.reported == reported
    }

    /// The first entry with this key in byte order, so that of equivalent names always the same one is found.
    fn first(&self, key: &OsStr) -> Option<&OsStr> {
        self.names.first(&*self.equivalence, key)
    }
}

impl Default for Spellings {
    fn default() -> Self {
        Self {
            limits: MAX_INDEX,
            kept: Mutex::default(),
            hold: AtomicU64::new(0),
            reported: [const { AtomicU64::new(0) }; 64],
        }
    }
}

impl Spellings {
    fn hold(&self) -> Duration {
        Duration::from_millis(self.hold.load(Relaxed))
    }

    fn reported(&self, id: NodeId) -> &AtomicU64 {
        &self.reported[id.0 as usize % self.reported.len()]
    }

    /// The lock of a directory, with its index.
    fn slot(&self, id: NodeId) -> Arc<Mutex<Option<Index>>> {
        let mut kept = self.kept.lock();
        kept.uses += 1;
        let last_use = kept.uses;
        let slot = kept.directories.entry(id).or_insert_with(|| IndexSlot {
            index: Arc::default(),
            bytes: 0,
            last_use,
        });
        slot.last_use = last_use;
        let index = slot.index.clone();
        self.make_room(&mut kept);
        index
    }

    /// Updates the memory of the index of a directory.
    fn weigh(&self, id: NodeId, bytes: usize) {
        let mut kept = self.kept.lock();
        let IndexCache { directories, bytes: total, .. } = &mut *kept;
        if let Some(slot) = directories.get_mut(&id) {
            *total = *total - slot.bytes + bytes;
            slot.bytes = bytes;
            self.make_room(&mut kept);
        }
    }

    /// Drops the least recently used indexes. An index in use stays: a directory must not have two locks.
    fn make_room(&self, kept: &mut IndexCache) {
        while kept.directories.len() > self.limits.directories || kept.bytes > self.limits.bytes {
            let unused = kept.directories.iter().filter(|(_, slot)| Arc::strong_count(&slot.index) == 1);
            let Some((&oldest, _)) = unused.min_by_key(|(_, slot)| slot.last_use) else { return };
            kept.bytes -= kept.directories.remove(&oldest).map_or(0, |slot| slot.bytes);
        }
    }
}

impl LockedDirectory<'_> {
    /// Drops the index if the directory was changed by others, or if the index is for another equivalence.
    fn begin_change(&mut self) -> Result<()> {
        if let Some(index) = &*self.index
            && (!index.is_of(self.equivalence) || index.stamp != DirectoryStamp::read(&*self.fd)?)
        {
            *self.index = None;
        }
        Ok(())
    }

    /// Makes a change of the entry `stored` in the index, whether it succeeded or not.
    fn end_change(&mut self, stored: &OsStr) {
        let Some(index) = &mut *self.index else { return };
        let key = self.equivalence.key(stored);
        let seen = match key == stored {
            true => Ok(false),
            false => exists_exactly(&*self.fd, stored),
        };
        match (seen, DirectoryStamp::read(&*self.fd)) {
            (Ok(is_there), Ok(stamp)) => {
                let is_complete = match is_there {
                    true => index.names.insert(&key, stored),
                    false => {
                        index.names.remove(&key, stored);
                        true
                    }
                };
                (index.stamp, index.is_settled) = (stamp, false);
                let bytes = index.names.bytes();
                if !is_complete || bytes > self.spellings.limits.bytes {
                    *self.index = None;
                }
                self.spellings.weigh(self.id, if self.index.is_some() { bytes } else { 0 });
            }
            _ => *self.index = None,
        }
    }

    /// The stored name of the entry that `name` refers to; `None` for `name` itself, whether it exists or not.
    fn stored(&mut self, name: &Admitted<'_>) -> Result<Option<Admitted<'static>>> {
        let (given, key) = (name.as_os_str(), name.key());
        if !self.equivalence.has_other_spellings(given) || exists_exactly(&*self.fd, given)? {
            return Ok(None);
        }
        let stored = match key != given && exists_exactly(&*self.fd, key)? {
            true => Some(key.to_owned()),
            false => self.indexed(key)?,
        };
        Ok(stored.and_then(|stored| self.equivalence.admitted(&stored)))
    }

    /// The entry with this key among those that are not stored under their own key.
    fn indexed(&mut self, key: &OsStr) -> Result<Option<OsString>> {
        let reported = self.spellings.reported(self.id).load(Acquire);
        let (now, hold) = (DirectoryStamp::read(&*self.fd)?, self.spellings.hold());
        let holds = |index: &&Index| index.is_of(self.equivalence) && index.holds(now, reported, hold);
        if let Some(index) = self.index.as_ref().filter(holds) {
            match index.first(key) {
                None => return Ok(None),
                Some(stored) if exists_exactly(&*self.fd, stored)? => return Ok(Some(stored.to_owned())),
                // It was removed within the same clock tick as another change.
                Some(_) => {}
            }
        }
        let read_at = Instant::now();
        let is_settled = is_settled(now.changed);
        let Some((names, is_complete)) = self.read(key)? else { return Ok(None) };
        let equivalence = self.equivalence.clone();
        let cost = read_at.elapsed();
        let index = Index { equivalence, names, stamp: now, is_settled, read_at, cost, reported };
        let found = index.first(key).map(OsStr::to_owned);
        let kept = Some(index).filter(|_| is_complete);
        self.spellings.weigh(self.id, kept.as_ref().map_or(0, |index| index.names.bytes()));
        *self.index = kept;
        Ok(found)
    }

    /// The entries that are not stored under their key, and whether these are all: beyond the limit it has only those whose key is
    /// `wanted`. `None` if this process must not read the directory.
    fn read(&self, wanted: &OsStr) -> Result<Option<(SpellingIndex, bool)>> {
        let dir = match self.nodes.with_room(|| again(&*self.fd, FLAGS)) {
            Err(Errno::EACCES) => return Ok(None),
            dir => OpenDir::new(dir?),
        };
        let (mut names, mut is_complete) = (SpellingIndex::default(), true);
        dir.each(0, |entry| {
            if let Cow::Owned(key) = self.equivalence.key(entry.name)
                && key != entry.name
                && (is_complete || key == wanted)
            {
                let has_room = names.insert(&key, entry.name);
                is_complete &= has_room && names.bytes() <= self.spellings.limits.bytes;
            }
            ControlFlow::Continue(())
        })?;
        Ok(Some((names, is_complete)))
    }
}

impl Passthrough {
    /// Sets the minimum time for which an index is valid while the times of its directory do not change.
    pub fn hold_spellings(&self, time: Duration) {
        self.spellings.hold.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Somebody else has changed the entries of `directory`, or with `None` of any: one with a change through this mount beside it may
    /// not show in the times of the directory.
    pub fn note_changed(&self, directory: Option<NodeId>) {
        let noted = directory.map(|directory| self.spellings.reported(directory));
        for counted in &self.spellings.reported {
            if noted.is_none_or(|noted| std::ptr::eq(counted, noted)) {
                counted.fetch_add(1, Release);
            }
        }
    }

    /// Looks up `name` in `parent`, or an equivalent name, and counts the lookup. Also returns the stored name, if it is not `name`.
    ///
    /// # Errors
    /// As [`Passthrough::lookup`].
    pub fn lookup_equivalent(
        &self,
        equivalence: &Arc<dyn NameEquivalence>,
        parent: NodeId,
        name: &Admitted<'_>,
    ) -> Result<(LookupEntry, Option<Admitted<'static>>)> {
        let absent = match self.lookup(parent, name) {
            Err(absent @ (Errno::ENOENT | Errno::ENAMETOOLONG))
                if equivalence.has_other_spellings(name.as_os_str()) =>
            {
                absent
            }
            result => return Ok((result?, None)),
        };
        let slot = self.spellings.slot(parent);
        let (fd, index) = (self.fd(parent)?, slot.lock());
        let (spellings, nodes) = (&self.spellings, &self.nodes);
        let mut directory = LockedDirectory { spellings, nodes, equivalence, id: parent, fd, index };
        let stored = directory.stored(name)?.ok_or(absent)?;
        Ok((self.lookup(parent, &stored)?, Some(stored)))
    }

    /// Creates or removes an entry of `parent` by `change`. `change` gets the stored name of the entry that `name` refers to
    /// by `equivalence`, or `name` if there is none.
    ///
    /// # Errors
    /// Those of `change`, and those of reading a directory.
    pub fn change_equivalent<T>(
        &self,
        equivalence: Option<&Arc<dyn NameEquivalence>>,
        parent: NodeId,
        name: &Admitted<'_>,
        change: impl FnOnce(&Admitted<'_>) -> Result<T>,
    ) -> Result<T> {
        let Some(equivalence) = equivalence else { return change(name) };
        let spellings = &self.spellings;
        let slot = spellings.slot(parent);
        let (fd, index) = (self.fd(parent)?, slot.lock());
        let nodes = &self.nodes;
        let mut directory = LockedDirectory { spellings, nodes, equivalence, id: parent, fd, index };
        directory.begin_change()?;
        let stored = directory.stored(name)?;
        let stored = stored.as_ref().unwrap_or(name);
        let result = change(stored);
        directory.end_change(stored.as_os_str());
        result
    }

    /// Changes two entries, of one directory or of two, as [`Passthrough::change_equivalent`] does. If both names mean one entry and the
    /// change `gives_spelling`, it gets the second one as it is.
    ///
    /// # Errors
    /// As [`Passthrough::change_equivalent`].
    pub fn change_two_equivalent<T>(
        &self,
        equivalence: Option<&Arc<dyn NameEquivalence>>,
        (parent, name): (NodeId, &Admitted<'_>),
        (other_parent, other_name): (NodeId, &Admitted<'_>),
        gives_spelling: bool,
        change: impl FnOnce(&Admitted<'_>, &Admitted<'_>) -> Result<T>,
    ) -> Result<T> {
        let Some(equivalence) = equivalence else { return change(name, other_name) };
        let spellings = &self.spellings;
        let (slot, other_slot) = (spellings.slot(parent), spellings.slot(other_parent));
        let nodes = &self.nodes;
        let directory = |id, index| {
            let fd = self.fd(id)?;
            Ok::<_, Errno>(LockedDirectory { spellings, nodes, equivalence, id, fd, index })
        };
        // Always lock in the same order: two renames in opposite directions must not wait for each other.
        let (mut first, mut second) = match parent.0.cmp(&other_parent.0) {
            Ordering::Equal => (directory(parent, slot.lock())?, None),
            Ordering::Less => {
                let index = slot.lock();
                (directory(parent, index)?, Some(directory(other_parent, other_slot.lock())?))
            }
            Ordering::Greater => {
                let other = other_slot.lock();
                (directory(parent, slot.lock())?, Some(directory(other_parent, other)?))
            }
        };
        first.begin_change()?;
        if let Some(second) = &mut second {
            second.begin_change()?;
        }
        let stored = first.stored(name)?;
        let other = second.as_mut().unwrap_or(&mut first).stored(other_name)?;
        let (stored, other) = (stored.as_ref().unwrap_or(name), other.as_ref().unwrap_or(other_name));
        let is_one = parent == other_parent && stored.as_os_str() == other.as_os_str();
        let other = if is_one && gives_spelling { other_name } else { other };
        let result = change(stored, other);
        first.end_change(stored.as_os_str());
        second.as_mut().unwrap_or(&mut first).end_change(other.as_os_str());
        result
    }
}

#[cfg(test)]
mod tests;
