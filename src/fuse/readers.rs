//! Who reads directories for the names alone, and who goes on to ask for the attributes of what is listed.
//!
//! The kernel asks for the first entries of a directory with their attributes (READDIRPLUS), and goes on without unless an
//! entry of it was looked up meanwhile (FUSE_READDIRPLUS_AUTO; fuse_use_readdirplus in fs/fuse/readdir.c). To a reader who
//! wants names alone each set of attributes is ten times the cost of the name; one who wants them pays a request for each
//! that was not given. The protocol lets an entry come without attributes in the same reply, `fuser` does not: all that can
//! be chosen is how many entries the first reply has. `.` and `..` cost nothing, and suffice.
//!
//! So it is remembered of each thread that reads how much it was told and how much of that it then looked up, and of
//! directories whether their last reader wanted attributes: a thread that lists one directory and ends is known by that.
//! All of it is a guess about speed. Nothing depends on it being right.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fuser::FopenFlags;
use parking_lot::{Mutex, MutexGuard};

use crate::passthrough::{Listing, NodeId};

/// Threads that are remembered, at most.
const THREADS: usize = 64;
/// Directories that are remembered, at most.
const DIRECTORIES: usize = 1024;
/// Entries that a reader of whom nothing is known gets with attributes: whether it uses them shows in how the kernel goes on.
const PROBE: usize = 8;
/// So little says nothing about a habit.
const TOO_LITTLE: u32 = 8;
/// What is longer ago counts half.
const MEMORY: u32 = 1024;
/// One directory of so many is read without attributes by those who want them, in case they no longer do.
const SAMPLE: u32 = 32;
/// One of so many readers of whom nothing is known is not given the attributes that the last reader of a directory wanted: who
/// reads one directory and ends could not show otherwise that it takes names alone.
const DOUBT: u32 = 8;

/// What a reader of directories does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Too little has been seen.
    Unknown,
    /// It takes names alone.
    Lists,
    /// It asks for the attributes of what it lists.
    Asks,
}

#[derive(Debug, Default)]
struct Reader {
    pid: u32,
    /// The directories of which it was told names last. Whoever opens one and asks for names that it knows already does not
    /// read it.
    recent: [u64; 4],
    next: usize,
    opened: u32,
    /// Whether the directory that it opened last shows what it does without attributes.
    is_sample: bool,
    /// Entries that it was told without attributes.
    listed: u32,
    /// Entries of those directories that it then looked up.
    asked: u32,
}

impl Reader {
    fn habit(&self) -> Habit {
        match (self.listed, self.asked) {
            (listed, asked) if listed + asked < TOO_LITTLE => Habit::Unknown,
            (listed, asked) if asked >= listed / 4 => Habit::Asks,
            _ => Habit::Lists,
        }
    }

    fn count(&mut self, listed: u32, asked: u32) {
        self.listed += listed.min(MEMORY);
        self.asked += asked.min(MEMORY);
        if self.listed + self.asked > MEMORY {
            (self.listed, self.asked) = (self.listed / 2, self.asked / 2);
        }
    }
}

/// How an opened directory is going to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListingUse {
    /// For its names.
    Names,
    /// For the attributes of its entries too: a list of names in the kernel's cache would keep them from coming along.
    Attributes,
}

impl ListingUse {
    /// Whether the kernel keeps what it is told of a directory (FOPEN_CACHE_DIR), and what it was told before
    /// (FOPEN_KEEP_CACHE).
    pub(super) fn flags(self, listing: Listing) -> FopenFlags {
        let kept = match listing {
            Listing::Same => FopenFlags::FOPEN_KEEP_CACHE,
            Listing::New | Listing::Unsettled => FopenFlags::empty(),
        };
        match (listing, self) {
            (Listing::Unsettled, _) | (_, Self::Attributes) => kept,
            (Listing::Same | Listing::New, Self::Names) => kept | FopenFlags::FOPEN_CACHE_DIR,
        }
    }
}

/// What is remembered of those who read directories.
#[derive(Debug)]
pub(super) struct Readers {
    threads: Box<[Mutex<Reader>]>,
    /// Directories whose last reader wanted attributes, each at the place that its number gives.
    asked: Box<[AtomicU64]>,
    /// Directories that were opened by readers of whom nothing was known, and that were asked for attributes before.
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
    /// `pid` opens a directory.
    pub(super) fn opens(&self, pid: u32, directory: NodeId) -> ListingUse {
        let mut reader = self.reader(pid);
        if reader.pid != pid {
            *reader = Reader { pid, ..Reader::default() };
        }
        reader.opened = reader.opened.wrapping_add(1);
        let habit = reader.habit();
        reader.is_sample = match habit {
            Habit::Asks => reader.opened.is_multiple_of(SAMPLE),
            // Its first directory is read as the last reader wanted it. By the next ones it shows what it wants itself.
            Habit::Unknown => reader.opened > 1 || self.is_doubted(directory),
            Habit::Lists => false,
        };
        let is_sample = reader.is_sample;
        drop(reader);
        match habit {
            Habit::Asks if !is_sample => self.remember(directory, true),
            Habit::Lists => self.remember(directory, false),
            // Whoever looks its entries up brings it back.
            Habit::Unknown if is_sample => self.remember(directory, false),
            Habit::Asks | Habit::Unknown => {}
        }
        self.reading(habit, directory, is_sample)
    }

    /// Whether it is time to find out once more if the readers of a directory want attributes.
    fn is_doubted(&self, directory: NodeId) -> bool {
        let is_believed = self.place(directory).load(Ordering::Relaxed) == directory.0;
        is_believed && self.believed.fetch_add(1, Ordering::Relaxed) % DOUBT == DOUBT - 1
    }

    /// How many entries `pid` gets with attributes where the kernel asks for them, from `offset` on.
    pub(super) fn with_attributes(&self, pid: u32, directory: NodeId, offset: u64) -> usize {
        let mut reader = self.reader(pid);
        let is_known = reader.pid == pid;
        if offset > 0 {
            // The kernel has seen that entries are looked up.
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

    /// `pid` was told so many entries without attributes.
    pub(super) fn told(&self, pid: u32, directory: NodeId, entries: usize) {
        let mut reader = self.reader(pid);
        if reader.pid == pid && entries > 0 {
            if !reader.recent.contains(&directory.0) {
                let place = reader.next % reader.recent.len();
                reader.recent[place] = directory.0;
                reader.next = place + 1;
            }
            reader.count(u32::try_from(entries).unwrap_or(MEMORY), 0);
        }
    }

    /// `pid` looked an entry of `directory` up.
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

    const A: NodeId = NodeId(100);
    const B: NodeId = NodeId(200);

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

    /// What a process that reads these directories gets with attributes, all entries that it is not given told and not looked
    /// up.
    fn lists(readers: &Readers, pid: u32, directories: impl Iterator<Item = u64>) -> usize {
        let with_all = directories.filter(|&number| {
            let directory = NodeId(number);
            readers.opens(pid, directory);
            let given = readers.with_attributes(pid, directory, 0);
            if given < 100 {
                readers.told(pid, directory, 100 - given);
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
        // Now each one looks entries up.
        readers.opens(500, A);
        assert_eq!(readers.with_attributes(500, A, 0), PROBE);
        readers.told(500, A, 92);
        (0..92).for_each(|_| readers.looked_up(500, A));
        assert_eq!(readers.opens(501, A), ListingUse::Attributes);
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
