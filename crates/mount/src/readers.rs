//! Predicts whether a reader of a directory needs names alone or also the attributes of the entries.
//!
//! The kernel requests the first entries of a directory with their attributes (READDIRPLUS), and the next ones without them
//! unless an entry was looked up meanwhile (FUSE_READDIRPLUS_AUTO; fuse_use_readdirplus in fs/fuse/readdir.c). For a reader
//! that needs only names, attributes cost ten times as much as the name. A reader that needs attributes pays one request for
//! each entry that came without. A reply to READDIRPLUS can contain entries without attributes.
//!
//! So the server counts, for each thread that reads directories, the entries sent without attributes and how many of these it
//! then looked up. For each directory it records whether the last reader needed attributes, which helps with threads that
//! list one directory and end. A wrong prediction only costs time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use namegate_wire::abi::fopen;
use parking_lot::{Mutex, MutexGuard};

use crate::passthrough::{Listing, NodeId};

/// Maximum number of threads that are recorded.
const THREADS: usize = 64;
/// Maximum number of directories that are recorded.
const DIRECTORIES: usize = 1024;
/// Number of entries with attributes for an unknown reader: the next request of the kernel shows whether it has used them.
const PROBE: usize = 8;
/// Fewer entries than this show no habit.
const TOO_LITTLE: u32 = 8;
/// Counts are halved beyond this number, so that older ones weigh less.
const MEMORY: u32 = 1024;
/// Every such number of directories, a reader that needs attributes gets names alone, in case it no longer needs them.
const SAMPLE: u32 = 32;
/// Every such number of times, an unknown reader gets names alone although the last reader of the directory needed
/// attributes. Otherwise threads that read one directory and end could not show that they need only names.
const DOUBT: u32 = 8;

/// What a reader of directories needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Not known yet.
    Unknown,
    /// Names alone.
    Lists,
    /// The attributes of the entries too.
    Asks,
}

#[derive(Debug, Default)]
struct Reader {
    pid: u32,
    /// The last directories whose names were sent to it. If it opens one of them again, the names may come from the kernel's
    /// cache.
    recent: [u64; 4],
    next: usize,
    opened: u32,
    /// Whether the directory opened last was listed without attributes as a test.
    is_sample: bool,
    /// Number of its entries sent without attributes, and of those that the reader then looked up.
    sampled: (u32, u32),
    /// Number of entries sent to it without attributes.
    listed: u32,
    /// Number of entries of those directories that it then looked up.
    asked: u32,
    /// The directory opened last, if the kernel has its listing.
    cached: Option<NodeId>,
    /// Whether the kernel should also have the entries of that, and the number of requests that show that it has not.
    trusts: bool,
    missed: u32,
    /// Number of such directories to list anew, after one whose entries the kernel did not have.
    distrusted: u32,
}

impl Reader {
    fn habit(&self) -> Habit {
        match (self.listed, self.asked) {
            (listed, asked) if listed + asked < TOO_LITTLE => Habit::Unknown,
            (listed, asked) if asked >= listed / 4 => Habit::Asks,
            _ => Habit::Lists,
        }
    }

    /// Gives up a habit that the directory opened last contradicts: what came before it may have been many directories.
    fn learn_from_sample(&mut self) {
        let (listed, asked) = std::mem::take(&mut self.sampled);
        if self.is_sample && listed >= TOO_LITTLE && asked < listed / 4 {
            (self.listed, self.asked) = (listed, asked);
        }
    }

    fn count(&mut self, listed: u32, asked: u32) {
        if self.is_sample {
            self.sampled = (self.sampled.0.saturating_add(listed), self.sampled.1.saturating_add(asked));
        }
        self.listed += listed.min(MEMORY);
        self.asked += asked.min(MEMORY);
        if self.listed + self.asked > MEMORY {
            (self.listed, self.asked) = (self.listed / 2, self.asked / 2);
        }
    }
}

/// How a directory that was just opened will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListingUse {
    /// For names alone.
    Names,
    /// For the attributes of its entries too. The kernel does not request them with a cached listing, so it gets none to use unless it
    /// keeps them.
    Attributes,
}

impl ListingUse {
    /// The flags of the reply: whether the kernel caches the listing (FOPEN_CACHE_DIR), and whether it keeps an earlier one
    /// (FOPEN_KEEP_CACHE).
    ///
    /// If attributes may last (`may_last`), the listing that comes with them is cached for the next reader, who uses it if the kernel
    /// `has_entries`.
    fn flags(self, listing: Listing, may_last: bool, has_entries: bool) -> u32 {
        match (listing, self) {
            (Listing::Unsettled, _) => 0,
            (Listing::Same(_), Self::Names) => fopen::KEEP_CACHE | fopen::CACHE_DIR,
            (Listing::Same(_), _) if has_entries => fopen::KEEP_CACHE | fopen::CACHE_DIR,
            (Listing::New, Self::Names) => fopen::CACHE_DIR,
            (_, Self::Attributes) if may_last => fopen::CACHE_DIR,
            (Listing::Same(_), Self::Attributes) => fopen::KEEP_CACHE,
            (Listing::New, Self::Attributes) => 0,
        }
    }
}

/// The recorded readers and directories.
#[derive(Debug)]
pub(super) struct Readers {
    threads: Box<[Mutex<Reader>]>,
    /// Directories whose last reader needed attributes, each at the index that its number gives.
    asked: Box<[AtomicU64]>,
    /// How many times an unknown reader opened such a directory.
    believed: AtomicU32,
}

impl Default for Readers {
    fn default() -> Self {
        Self {
            threads: (0..THREADS).map(|_| Mutex::default()).collect(),
            asked: (0..DIRECTORIES).map(|_| AtomicU64::default()).collect(),
            believed: AtomicU32::default(),
        }
    }
}

impl Readers {
    /// Records that `pid` opens a directory.
    fn opens(&self, pid: u32, directory: NodeId) -> ListingUse {
        let mut reader = self.reader(pid);
        if reader.pid != pid {
            *reader = Reader { pid, ..Reader::default() };
        }
        reader.opened = reader.opened.wrapping_add(1);
        reader.learn_from_sample();
        (reader.cached, reader.missed) = (None, 0);
        let habit = reader.habit();
        reader.is_sample = match habit {
            Habit::Asks => reader.opened.is_multiple_of(SAMPLE),
            // Its first directory is read as the last reader needed it. The next ones show what this reader needs.
            Habit::Unknown => reader.opened > 1 || self.is_doubted(directory),
            Habit::Lists => false,
        };
        let is_sample = reader.is_sample;
        drop(reader);
        match habit {
            Habit::Asks if !is_sample => self.remember(directory, true),
            Habit::Lists => self.remember(directory, false),
            // A lookup of an entry records it again.
            Habit::Unknown if is_sample => self.remember(directory, false),
            Habit::Asks | Habit::Unknown => {}
        }
        self.reading(habit, directory, is_sample)
    }

    /// As [`Self::opens`]; returns the flags of the reply. The kernel has `listing`, and may keep attributes until they change if `may_last`.
    pub(super) fn open_flags(&self, pid: u32, directory: NodeId, listing: Listing, may_last: bool) -> u32 {
        let reading = self.opens(pid, directory);
        let known = match listing {
            Listing::Same(known) if may_last => known,
            _ => return reading.flags(listing, may_last, false),
        };
        let mut reader = self.reader(pid);
        let trusts = known.last() && reader.distrusted == 0;
        reader.distrusted = reader.distrusted.saturating_sub(known.last().into());
        let flags = reading.flags(listing, may_last, trusts);
        if flags & fopen::KEEP_CACHE != 0 {
            (reader.cached, reader.trusts) = (Some(directory), trusts);
        }
        drop(reader);
        if flags & fopen::KEEP_CACHE != 0 && !trusts {
            self.told(pid, directory, known.all);
        }
        flags
    }

    /// Records that `pid` has looked up an entry, or with `is_attributes` asked for the attributes of one, perhaps after a listing that the
    /// kernel had. Returns its directory if the kernel should have had the entries, and has few.
    pub(super) fn missed(&self, pid: u32, is_attributes: bool) -> Option<NodeId> {
        let mut reader = self.reader(pid);
        let directory = reader.cached.filter(|_| reader.pid == pid)?;
        if is_attributes {
            reader.count(0, 1);
            if reader.habit() == Habit::Asks {
                self.remember(directory, true);
            }
        }
        if !reader.trusts {
            return None;
        }
        reader.missed += 1;
        if reader.missed < TOO_LITTLE {
            return None;
        }
        (reader.trusts, reader.distrusted) = (false, SAMPLE);
        Some(directory)
    }

    /// Whether to test again if the readers of a directory need attributes.
    fn is_doubted(&self, directory: NodeId) -> bool {
        let is_believed = self.place(directory).load(Ordering::Relaxed) == directory.0;
        is_believed && self.believed.fetch_add(1, Ordering::Relaxed) % DOUBT == DOUBT - 1
    }

    /// Number of entries that `pid` gets with attributes when the kernel requests them from `offset` on.
    pub(super) fn with_attributes(&self, pid: u32, directory: NodeId, offset: u64) -> usize {
        let mut reader = self.reader(pid);
        let is_known = reader.pid == pid;
        if offset > 0 {
            // The kernel has noticed lookups of entries.
            if is_known {
                reader.count(0, TOO_LITTLE);
            }
            drop(reader);
            self.remember(directory, true);
            return usize::MAX;
        }
        let (habit, opened, is_sample) = match is_known {
            true => (reader.habit(), reader.opened, reader.is_sample),
            false => (Habit::Unknown, 0, false),
        };
        drop(reader);
        match self.reading(habit, directory, is_sample) {
            ListingUse::Attributes => usize::MAX,
            ListingUse::Names if habit == Habit::Unknown && opened <= 1 => PROBE,
            ListingUse::Names => 0,
        }
    }

    /// Records that `entries` entries without attributes were sent to `pid`.
    pub(super) fn told(&self, pid: u32, directory: NodeId, entries: u32) {
        let mut reader = self.reader(pid);
        if reader.pid == pid && entries > 0 {
            if !reader.recent.contains(&directory.0) {
                let place = reader.next % reader.recent.len();
                reader.recent[place] = directory.0;
                reader.next = place + 1;
            }
            reader.count(entries, 0);
        }
    }

    /// Records that `pid` looked up an entry of `directory`.
    pub(super) fn looked_up(&self, pid: u32, directory: NodeId) {
        let mut reader = self.reader(pid);
        if reader.pid == pid && reader.recent.contains(&directory.0) {
            reader.count(0, 1);
            let asks = reader.habit() == Habit::Asks;
            drop(reader);
            if asks {
                self.remember(directory, true);
            }
        }
    }

    fn reading(&self, habit: Habit, directory: NodeId, is_sample: bool) -> ListingUse {
        let was_asked = || self.place(directory).load(Ordering::Relaxed) == directory.0;
        match habit {
            Habit::Asks if !is_sample => ListingUse::Attributes,
            Habit::Unknown if !is_sample && was_asked() => ListingUse::Attributes,
            Habit::Asks | Habit::Unknown | Habit::Lists => ListingUse::Names,
        }
    }

    fn remember(&self, directory: NodeId, wants_attributes: bool) {
        let place = self.place(directory);
        match wants_attributes {
            true => place.store(directory.0, Ordering::Relaxed),
            false if place.load(Ordering::Relaxed) == directory.0 => place.store(0, Ordering::Relaxed),
            false => {}
        }
    }

    fn place(&self, directory: NodeId) -> &AtomicU64 {
        &self.asked[(directory.0 % DIRECTORIES as u64) as usize]
    }

    fn reader(&self, pid: u32) -> MutexGuard<'_, Reader> {
        self.threads[pid as usize % THREADS].lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passthrough::ListedEntries;

    const A: NodeId = NodeId(100);
    const B: NodeId = NodeId(200);

    const CACHED: u32 = fopen::KEEP_CACHE | fopen::CACHE_DIR;

    fn same(all: u32, lasting: u32) -> Listing {
        Listing::Same(ListedEntries { all, lasting })
    }

    #[test]
    fn a_listing_with_attributes_is_used_again_while_the_kernel_has_them() {
        let readers = Readers::default();
        readers.remember(A, true);
        assert_eq!(readers.open_flags(7, A, Listing::New, false), 0);
        assert_eq!(readers.open_flags(8, A, Listing::New, true), fopen::CACHE_DIR);
        readers.remember(A, true);
        assert_eq!(readers.open_flags(9, A, same(100, 90), true), fopen::CACHE_DIR, "many expire");
        assert_eq!(readers.open_flags(10, A, same(100, 98), true), CACHED);
        for _ in 1..TOO_LITTLE {
            assert_eq!(readers.missed(10, true), None);
        }
        assert_eq!(readers.missed(11, true), None, "another reader");
        assert_eq!(readers.missed(10, true), Some(A));
        assert_eq!(readers.missed(10, true), None, "it is said once");
        // The others are probably gone, too.
        let next = (0..100).map(|i| readers.open_flags(10, NodeId(i), same(100, 100), true));
        let anew = next.take_while(|&flags| flags == fopen::CACHE_DIR).count();
        assert!((8..=SAMPLE as usize).contains(&anew), "{anew}");
    }

    #[test]
    fn who_asks_for_attributes_behind_a_cached_listing_gets_them_with_the_next_ones() {
        let readers = Readers::default();
        assert_eq!(readers.open_flags(7, A, same(20, 0), true), CACHED);
        (0..20).for_each(|_| assert_eq!(readers.missed(7, true), None));
        assert_eq!(readers.open_flags(7, B, same(20, 0), true), fopen::CACHE_DIR);
        assert_eq!(readers.with_attributes(7, B, 0), usize::MAX);
        // Of many entries it needs few.
        for _ in 0..2 {
            assert_eq!(readers.open_flags(8, NodeId(300), same(1000, 0), true), CACHED);
            (0..20).for_each(|_| assert_eq!(readers.missed(8, true), None));
        }
    }

    #[test]
    fn who_is_not_known_gets_a_few_attributes_and_the_rest_when_they_are_used() {
        let readers = Readers::default();
        assert_eq!(readers.opens(7, A), ListingUse::Names);
        assert_eq!(readers.with_attributes(7, A, 0), PROBE);
        assert_eq!(readers.with_attributes(7, A, 9), usize::MAX, "the kernel asks on");
        assert_eq!(readers.with_attributes(7, A, 99), usize::MAX);
        assert_eq!(readers.opens(7, B), ListingUse::Attributes);
        assert_eq!(readers.with_attributes(7, B, 0), usize::MAX);
    }

    #[test]
    fn who_lists_alone_gets_no_more_attributes_until_it_looks_entries_up() {
        let readers = Readers::default();
        readers.opens(7, A);
        readers.looked_up(7, A);
        readers.told(7, A, 100);
        assert_eq!(readers.opens(7, B), ListingUse::Names);
        assert_eq!(readers.with_attributes(7, B, 0), 0);
        readers.told(7, B, 100);
        for _ in 0..100 {
            readers.looked_up(7, NodeId(300));
        }
        assert_eq!(readers.opens(7, A), ListingUse::Names, "entries of other directories were looked up");
        for _ in 0..100 {
            readers.looked_up(7, B);
        }
        assert_eq!(readers.opens(7, A), ListingUse::Attributes);
    }

    #[test]
    fn a_directory_tells_the_next_reader_what_the_last_one_wanted() {
        let readers = Readers::default();
        readers.opens(7, A);
        readers.with_attributes(7, A, 9);
        assert_eq!(readers.opens(8, A), ListingUse::Attributes);
        assert_eq!(readers.opens(9, B), ListingUse::Names);
        readers.told(9, B, 100);
        readers.opens(9, A);
        assert_eq!(readers.opens(10, A), ListingUse::Names);
    }

    /// The number of these directories of which a process gets all attributes, if it looks up none of the entries that came
    /// without.
    fn lists(readers: &Readers, pid: u32, directories: impl Iterator<Item = u64>) -> usize {
        let with_all = directories.filter(|&number| {
            let directory = NodeId(number);
            readers.opens(pid, directory);
            let given = readers.with_attributes(pid, directory, 0);
            if given < 100 {
                readers.told(pid, directory, 100 - given as u32);
            }
            given == usize::MAX
        });
        with_all.count()
    }

    #[test]
    fn who_lists_names_after_somebody_wanted_attributes_of_all_of_it_is_found_out_by_the_second_directory() {
        let readers = Readers::default();
        (0..200).for_each(|number| readers.remember(NodeId(1000 + number), true));
        for pid in 10..13 {
            let given = lists(&readers, pid, 1000..1200);
            assert!(given <= 1, "{given} directories with attributes for {pid}");
        }
    }

    #[test]
    fn a_directory_that_is_listed_for_its_names_by_one_process_after_another_is_unlearned_and_learned_again()
    {
        let readers = Readers::default();
        readers.remember(A, true);
        let given: usize = (0..100).map(|pid| lists(&readers, 10 + pid, std::iter::once(A.0))).sum();
        assert!(given < DOUBT as usize, "{given}");
        // From here on, each reader looks up entries.
        readers.opens(500, A);
        assert_eq!(readers.with_attributes(500, A, 0), PROBE);
        readers.told(500, A, 92);
        (0..92).for_each(|_| readers.looked_up(500, A));
        assert_eq!(readers.opens(501, A), ListingUse::Attributes);
    }

    #[test]
    fn who_needs_attributes_no_more_is_found_out_by_one_directory_without_them() {
        let readers = Readers::default();
        for i in 0..100 {
            let directory = NodeId(5000 + i);
            readers.opens(7, directory);
            if readers.with_attributes(7, directory, 0) < 100 {
                readers.told(7, directory, 100);
                (0..100).for_each(|_| readers.looked_up(7, directory));
            }
        }
        let given = lists(&readers, 7, 1000..1200);
        assert!(given <= SAMPLE as usize, "{given} directories with attributes");
    }

    #[test]
    fn who_has_changed_its_habit_is_found_out() {
        let readers = Readers::default();
        readers.opens(7, A);
        readers.with_attributes(7, A, 9);
        let mut without = 0;
        for i in 0..1000 {
            let directory = NodeId(1000 + i);
            readers.opens(7, directory);
            if readers.with_attributes(7, directory, 0) == 0 {
                without += 1;
                readers.told(7, directory, 100);
            }
        }
        assert!(without > 900, "{without}");
    }
}
