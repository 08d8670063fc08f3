//! The state of a mount that survives its server: in memory that the holder keeps (`holder`).
//!
//! It has a head, records of nodes and of open files, names that the kernel keeps (`kept_names`), and for each request that is out a journal with the message. A server that takes
//! over rebuilds its tables from the records and finishes the requests (`journal`). All numbers are words that are stored in the
//! order of the program: a record counts from the moment its first word is stored. One thread changes a record at a time.
//!
//! What is lost with a server only ever leaves lookup counts too high, never too low: the kernel never uses a node that is not known
//! here.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use namegate_mount::MAX_TRANSFER;
use namegate_sys::inherited::Inherited;
use namegate_sys::shared::{SharedMemory, SharedSizes};
use namegate_wire::{Device, Negotiated};

use super::layout::{
    ANSWERED, JOURNAL_WORDS, KEPT_WORDS, NODE_FD, NODE_WORDS, OPEN_FD, OPEN_WORDS, descriptor,
};
use super::slots::SlotTable;

/// Maximum number of threads that read requests.
pub const MOST_READERS: usize = 128;

/// The version of the layout of this state. Another version of the program can take over a mount if it has the same one: change it with
/// every change of what is stored, and of what a stored value means, unless both versions can do without.
pub const LAYOUT: u64 = 5;

/// Length of the head in words.
const HEAD_WORDS: usize = 4608;
const MOST_NODES: usize = 1 << 24;
const MOST_OPENS: usize = 1 << 20;
/// Requests in the pool: with a short message, and with a long one.
pub(super) const MOST_SHORT: usize = 1 << 16;
const MOST_LONG: usize = 1 << 10;
/// Length of a short message in bytes.
pub(super) const SHORT: usize = 8192;

/// Words of the head.
pub(super) mod head {
    pub(crate) const IS_SERVING: usize = 0;
    pub(crate) const SERVERS: usize = 1;
    pub(crate) const MINOR: usize = 2;
    pub(crate) const FLAGS: usize = 3;
    pub(crate) const READERS: usize = 4;
    pub(crate) const ROOT: usize = 5;
    pub(crate) const MODE: usize = 6;
    pub(crate) const RELOADS: usize = 7;
    pub(crate) const CRASH_SCORE: usize = 8;
    pub(crate) const LAST_BACKING: usize = 9;
    /// The layout, and a number by which the state is recognized.
    pub(crate) const LAYOUT: usize = 10;
    pub(crate) const OOM_SCORE: usize = 11;
    pub(crate) const ROOT_NUMBER: usize = 12;
    /// Whether there is a key, and two words.
    pub(crate) const EXPORT_KEY: usize = 13;
    pub(crate) const USED: usize = 16;
    /// The lengths of two halves, and which one is current.
    pub(crate) const KEPT_NAMES: usize = 24;
    pub(crate) const CLOSING: usize = 32;
    pub(crate) const DEVICES: usize = 128;
    /// A count, and the hashes that were counted last.
    pub(crate) const UNCACHED: usize = 256;
    /// A length in bytes and as many bytes.
    pub(crate) const MOUNT_DEVICE: usize = 512;
    pub(crate) const MOUNTPOINT: usize = 1024;
    pub(crate) const GIVEN: usize = 2048;
    pub(crate) const SETTINGS: usize = 3200;
    pub(crate) const SOURCE: usize = 4096;
    pub(crate) const END: usize = super::HEAD_WORDS;
}

/// The mount that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct MountRequest<'r> {
    /// Whether it is to survive its server.
    pub survives: bool,
    pub source: &'r Path,
    pub mountpoint: &'r Path,
}

#[derive(Debug)]
pub struct SurvivalState {
    pub(super) memory: SharedMemory,
    pub(super) nodes: SlotTable,
    pub(super) opens: SlotTable,
    /// Requests in the pool.
    pub(super) short: SlotTable,
    pub(super) long: SlotTable,
    pub(super) buffer_len: usize,
    inherited: OnceLock<Inherited>,
    /// Requests in flight that a predecessor has not answered.
    pub(super) unfinished: OnceLock<HashSet<u64>>,
}

/// Lengths in words: the head, and the tables.
const PARTS: [usize; 7] = [
    HEAD_WORDS,
    MOST_NODES * NODE_WORDS,
    MOST_OPENS * OPEN_WORDS,
    MOST_READERS * JOURNAL_WORDS,
    MOST_SHORT * JOURNAL_WORDS,
    MOST_LONG * JOURNAL_WORDS,
    2 * KEPT_WORDS,
];

const MAGIC: u64 = u64::from_be_bytes(*b"namegat\0");

fn sizes(buffer_len: usize) -> SharedSizes {
    let unmapped = MOST_SHORT * SHORT + MOST_LONG * buffer_len;
    SharedSizes { words: PARTS.iter().sum(), buffers: MOST_READERS, buffer_len, unmapped }
}

impl SurvivalState {
    /// The state of a mount that does not exist yet. It lives as long as the process.
    ///
    /// # Errors
    /// As memfd_create(2) and mmap(2) say.
    pub fn new() -> io::Result<&'static Self> {
        Self::with_buffers(Device::buffer_len(MAX_TRANSFER))
    }

    /// The same with buffers of `buffer_len` bytes for requests: for tests and fuzzing.
    ///
    /// # Errors
    /// As memfd_create(2) and mmap(2) say.
    pub fn with_buffers(buffer_len: usize) -> io::Result<&'static Self> {
        let state = Self::of(SharedMemory::new(sizes(buffer_len))?, buffer_len);
        state.set(head::LAYOUT, MAGIC | LAYOUT);
        Ok(state)
    }

    /// The state that the previous program of this process has left.
    ///
    /// # Errors
    /// It has another layout.
    pub(super) fn open(fd: OwnedFd) -> io::Result<&'static Self> {
        let buffer_len = Device::buffer_len(MAX_TRANSFER);
        let state = Self::of(SharedMemory::open(fd, sizes(buffer_len))?, buffer_len);
        if state.get(head::LAYOUT) != MAGIC | LAYOUT || !state.is_serving() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(state)
    }

    fn of(memory: SharedMemory, buffer_len: usize) -> &'static Self {
        let mut rest = memory.words();
        let mut part = |number: usize| {
            let (part, after) = rest.split_at(PARTS[number]);
            rest = after;
            part
        };
        let [head, nodes, opens, _readers, short, long, _names] = std::array::from_fn(&mut part);
        let table = |words, size, number: usize| SlotTable::new(words, size, &head[head::USED + number]);
        Box::leak(Box::new(Self {
            nodes: table(nodes, NODE_WORDS, 0),
            opens: table(opens, OPEN_WORDS, 1),
            short: table(short, JOURNAL_WORDS, 2),
            long: table(long, JOURNAL_WORDS, 3),
            memory,
            buffer_len,
            inherited: OnceLock::new(),
            unfinished: OnceLock::new(),
        }))
    }

    pub(super) fn head(&self, word: usize) -> &'static AtomicU64 {
        &self.memory.words()[word]
    }

    pub(super) fn get(&self, word: usize) -> u64 {
        self.head(word).load(Ordering::Acquire)
    }

    pub(super) fn set(&self, word: usize, value: u64) {
        self.head(word).store(value, Ordering::Release);
    }

    /// The journal of the reading thread with this number.
    pub(super) fn reader_words(&self, reader: usize) -> &'static [AtomicU64] {
        let begin = HEAD_WORDS + MOST_NODES * NODE_WORDS + MOST_OPENS * OPEN_WORDS + reader * JOURNAL_WORDS;
        &self.memory.words()[begin..begin + JOURNAL_WORDS]
    }

    pub(super) fn kept_names_begin(&self) -> usize {
        self.table(PARTS.len() - 1)
    }

    /// Counts a server that begins to serve; the first one has the number 1. Handles and numbers that it assigns begin with it, so
    /// that they differ from those of its predecessors.
    pub(super) fn begin_server(&self) -> u64 {
        self.head(head::SERVERS).fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether the mount is live: a successor can take it over.
    pub(super) fn is_serving(&self) -> bool {
        self.get(head::IS_SERVING) != 0
    }

    /// What was agreed on with the kernel.
    pub fn negotiated(&self) -> Negotiated {
        Negotiated { minor: self.get(head::MINOR) as u32, flags: self.get(head::FLAGS) }
    }

    /// The numbers of the descriptors from which requests are read.
    pub fn devices(&self) -> Vec<RawFd> {
        let readers = usize::try_from(self.get(head::READERS)).map_or(0, |readers| readers.min(MOST_READERS));
        (0..readers).map(|at| self.get(head::DEVICES + at) as RawFd).collect()
    }

    /// The place of the mount, and its device number in the mount table.
    pub fn place(&self) -> (PathBuf, Option<String>) {
        let device = self.text(head::MOUNT_DEVICE..head::MOUNTPOINT).into_string().ok();
        (self.text(head::MOUNTPOINT..head::GIVEN).into(), device.filter(|device| !device.is_empty()))
    }

    /// The source, a path without links.
    pub(super) fn source(&self) -> PathBuf {
        self.text(head::SOURCE..head::END).into()
    }

    /// Records the mount that was asked for, and its settings in a form that the caller defines. A later server cannot report changes of
    /// settings that are too long to be recorded.
    ///
    /// # Errors
    /// The paths are longer than paths can be.
    pub fn set_request(&self, request: &MountRequest<'_>, settings: &OsStr) -> io::Result<()> {
        self.set_text(head::GIVEN..head::SETTINGS, &places(request))?;
        if let Err(error) = self.set_text(head::SETTINGS..head::SOURCE, settings) {
            log::warn!("a later server of this mount will not report settings that need a new one: {error}");
        }
        Ok(())
    }

    /// Whether this mount was asked for by the same source and mount point.
    pub(super) fn is_of(&self, request: &MountRequest<'_>) -> bool {
        self.text(head::GIVEN..head::SETTINGS) == places(request)
    }

    /// The settings of the mount; empty if none were recorded.
    pub fn settings(&self) -> OsString {
        self.text(head::SETTINGS..head::SOURCE)
    }

    pub(super) fn set_text(&self, room: std::ops::Range<usize>, text: &OsStr) -> io::Result<()> {
        let bytes = text.as_bytes();
        if bytes.len() > (room.len() - 1) * 8 {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        store_bytes(&self.memory.words()[room.start + 1..room.end], &[bytes]);
        self.set(room.start, bytes.len() as u64);
        Ok(())
    }

    fn text(&self, room: std::ops::Range<usize>) -> OsString {
        let len = usize::try_from(self.get(room.start)).unwrap_or(usize::MAX);
        OsString::from_vec(load_bytes(&self.memory.words()[room.start + 1..room.end], len))
    }

    /// The number of the descriptor of the source.
    pub(super) fn root(&self) -> RawFd {
        self.get(head::ROOT) as RawFd
    }

    /// Records the mode that was set by hand, by a number that the caller defines.
    pub fn set_mode(&self, mode: Option<u8>) {
        self.set(head::MODE, mode.map_or(0, |mode| u64::from(mode) + 1));
    }

    /// The mode that was set by hand.
    pub fn mode(&self) -> Option<u8> {
        self.get(head::MODE).checked_sub(1).and_then(|mode| mode.try_into().ok())
    }

    /// Records that the configuration was read again.
    pub fn note_reload(&self) {
        self.head(head::RELOADS).fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the configuration was read again.
    pub fn was_reloaded(&self) -> bool {
        self.get(head::RELOADS) != 0
    }

    /// Records what the end of the last server adds to the crash score of the requests in flight.
    pub(super) fn set_crash_score(&self, crash_score: u64) {
        self.set(head::CRASH_SCORE, crash_score);
    }

    pub(super) fn crash_score(&self) -> u64 {
        self.get(head::CRASH_SCORE)
    }

    /// A number that changes with each request that is finished.
    pub fn progress(&self) -> u64 {
        let answered = |reader| self.reader_words(reader)[ANSWERED].load(Ordering::Acquire);
        (0..MOST_READERS).fold(0, |sum, reader| sum.wrapping_mul(31).wrapping_add(answered(reader)))
    }

    /// Offers the descriptors of a predecessor to this process.
    pub(super) fn inherit(&self, inherited: Inherited) {
        // A process has one predecessor.
        let _ = self.inherited.set(inherited);
    }

    /// The descriptors of a predecessor; `None` in the first server.
    pub(super) fn inherited(&self) -> Option<&Inherited> {
        self.inherited.get()
    }

    /// Records how likely the kernel was to end this process when memory runs out, before the holder had changed that.
    pub(super) fn set_oom_score(&self, score: i32) {
        self.set(head::OOM_SCORE, u64::from(score.cast_unsigned()));
    }

    /// How likely the kernel was to end this process.
    pub(super) fn oom_score(&self) -> i32 {
        (self.get(head::OOM_SCORE) as u32).cast_signed()
    }

    /// The number of the descriptor of this state.
    pub(super) fn number(&self) -> RawFd {
        self.memory.number()
    }

    /// The numbers of all descriptors that a successor needs.
    pub fn needed_descriptors(&'static self) -> impl Iterator<Item = RawFd> {
        let recorded = self.nodes.column(NODE_FD).chain(self.opens.column(OPEN_FD));
        let recorded = recorded.filter_map(descriptor);
        self.lasting_descriptors().chain(recorded)
    }

    /// The numbers of the descriptors without which no mount goes on.
    pub(super) fn lasting_descriptors(&self) -> impl Iterator<Item = RawFd> {
        [self.root()].into_iter().chain(self.devices())
    }

    /// Forgets descriptors of nodes and open files that were lost with all processes that had them.
    pub(super) fn forget_descriptors(&'static self, is_lost: impl Fn(RawFd) -> bool) {
        let is_lost = |word: u64| descriptor(word).is_some_and(&is_lost);
        self.nodes.clear(NODE_FD, is_lost);
        self.opens.clear(OPEN_FD, is_lost);
    }

    /// The first word of the head (0) or of a table, for tests and fuzzing.
    pub fn table(&self, number: usize) -> usize {
        PARTS.iter().take(number).sum()
    }

    /// Overwrites a word, whatever it means: for tests and fuzzing.
    pub fn overwrite(&self, word: usize, value: u64) {
        if let Some(word) = self.memory.words().get(word) {
            word.store(value, Ordering::Release);
        }
    }
}

/// Source and mount point, which contain no NUL.
fn places(request: &MountRequest<'_>) -> OsString {
    [request.source, request.mountpoint].map(Path::as_os_str).join(OsStr::new("\0"))
}

/// Stores as much of `parts` as there is room for.
pub(super) fn store_bytes(words: &[AtomicU64], parts: &[&[u8]]) {
    let mut bytes = parts.iter().copied().flatten();
    for word in words {
        let mut value = [0; 8];
        let mut is_empty = true;
        for (place, &byte) in value.iter_mut().zip(&mut bytes) {
            (*place, is_empty) = (byte, false);
        }
        if is_empty {
            break;
        }
        word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
    }
}

pub(super) fn load_bytes(words: &[AtomicU64], len: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).take(len).collect()
}
