//! Journals of requests: what a successor must know to finish a request that was out when the server died.
//!
//! Each request has a journal: of the thread that has read it, or, when it goes to the pool, one of its own with a copy of the message.
//! The journal is [current](set_current) in the thread that serves the request; the functions of this module concern the current journal,
//! and do nothing without one.
//!
//! 1. A thread that changes something calls [`start`] before. That records when it began and what it saw. Called by a successor, it
//!    returns what its predecessor recorded: then the change may have been made.
//! 2. The reply is recorded before it is sent ([`RequestJournal::replying`]). A successor sends the same reply again; the kernel ignores it if it has
//!    got it already. Replies that are too long for that are those of requests that change nothing.
//! 3. When all is done, the request is marked as answered.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use namegate_wire::{InFlight, Negotiated, PriorRequest, Recovery, RequestJournal};
use nix::time::{ClockId, clock_gettime};

use super::faults;
use super::layout::{ANSWERED, JOURNAL_WORDS};
use super::slots::Slot;
use super::state::{MOST_READERS, MOST_SHORT, SHORT, SurvivalState, head, load_bytes, store_bytes};

/// The request that this journal is for. It is the first word, which says whether a slot is in use.
const UNIQUE: usize = 0;
const PHASE: usize = 2;
const CRASH_SCORE: usize = 3;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 5;
const OBSERVED: usize = 6;
const ENTERED: usize = 8;
const FORGOTTEN: usize = 9;
const READER: usize = 10;
const ERROR: usize = 11;
const REPLY_LEN: usize = 12;
const MESSAGE_LEN: usize = 13;
const OPCODE: usize = 14;
const REPLY: usize = 16;
/// Length of the longest reply that is recorded, in words.
const REPLY_WORDS: usize = 64;
const NODES: usize = REPLY + REPLY_WORDS;

/// Nothing was done yet, or nothing that could not be done twice.
const READ: u64 = 0;
/// A change may have been made.
const STARTED: u64 = 1;
/// The reply is recorded.
const DONE: u64 = 2;
/// A reply was sent that is not recorded.
const SENT: u64 = 3;

/// A request with this crash score is not tried again.
const MAX_CRASH_SCORE: u64 = 128;
/// What the end of a server adds to the score that has crashed. A request is tried twice again.
pub const CRASHED: u64 = 64;
/// What the end of a server adds to the score that was killed: probably by somebody, and for another reason.
pub const KILLED: u64 = 1;

#[derive(Debug)]
pub struct JournalEntry {
    state: &'static SurvivalState,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Reader(usize),
    Pool(Slot),
}

/// What a predecessor recorded before it made a change, or before it died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorAttempt {
    /// When it began: seconds and nanoseconds, by the clock that sets times of files.
    pub begun: (i64, i64),
    /// What it saw.
    pub observed: [u64; 2],
}

/// A request that a predecessor has left.
#[derive(Debug)]
pub struct LeftRequest {
    pub entry: JournalEntry,
    /// The thread that has read it; the reply goes to the descriptor of that.
    pub reader: usize,
    pub message: Vec<u8>,
}

thread_local! {
    static CURRENT: RefCell<Option<JournalEntry>> = const { RefCell::new(None) };
    static RECOVERS: Cell<bool> = const { Cell::new(false) };
}

fn with<T>(act: impl FnOnce(&JournalEntry) -> T) -> Option<T> {
    CURRENT.with_borrow(|current| current.as_ref().map(act))
}

/// Makes a journal the current one.
pub fn set_current(entry: JournalEntry) {
    CURRENT.set(Some(entry));
}

/// Whether this thread has requests of a predecessor to finish.
pub fn is_recovering() -> bool {
    RECOVERS.get()
}

/// Takes the journal away from this thread, for another one that goes on with the request. `message` is not copied if the request has
/// a journal of its own already.
///
/// # Errors
/// Too many requests are out, or there is no memory. The journal stays.
pub fn hand_on() -> io::Result<Option<JournalEntry>> {
    let Some(entry) = CURRENT.take() else { return Ok(None) };
    match entry.moved() {
        Ok(entry) => Ok(Some(entry)),
        Err((entry, error)) => {
            CURRENT.set(Some(entry));
            Err(error)
        }
    }
}

/// The number of the request; 0 without a journal.
pub fn unique() -> u64 {
    with(|entry| entry.get(UNIQUE)).unwrap_or_default()
}

/// Records that a change begins, and what `observe` returns. If a predecessor has begun it, returns what that recorded instead.
pub fn start(observe: impl FnOnce() -> [u64; 2]) -> Option<PriorAttempt> {
    // `observe` must not find the journal borrowed.
    if with(|entry| entry.get(PHASE))? == STARTED {
        return with(|entry| PriorAttempt {
            begun: (entry.get(SECONDS).cast_signed(), entry.get(NANOSECONDS).cast_signed()),
            observed: [entry.get(OBSERVED), entry.get(OBSERVED + 1)],
        });
    }
    // The clock from which file systems take their times.
    let now =
        clock_gettime(ClockId::CLOCK_REALTIME_COARSE).map_or((0, 0), |now| (now.tv_sec(), now.tv_nsec()));
    let observed = observe();
    with(|entry| {
        entry.set(SECONDS, now.0.cast_unsigned());
        entry.set(NANOSECONDS, now.1.cast_unsigned());
        entry.set(OBSERVED, observed[0]);
        entry.set(OBSERVED + 1, observed[1]);
        entry.set(PHASE, STARTED);
        entry.die_at("started");
    });
    None
}

/// Records that a lookup of `node` was counted for the reply.
pub fn note_lookup(node: u64) {
    with(|entry| {
        let count = entry.entered();
        if let Some(word) = entry.words().get(NODES + count) {
            word.store(node, Ordering::Relaxed);
            entry.set(ENTERED, count as u64 + 1);
        }
    });
}

/// Records that a lookup of `node` that was counted for the reply was taken back.
pub fn note_forget(node: u64) {
    with(|entry| {
        let last = entry.entered().checked_sub(1)?;
        // Before it is taken back: a count may be too high, never too low.
        (entry.get(NODES + last) == node).then(|| entry.set(ENTERED, last as u64))
    });
}

impl RequestJournal for SurvivalState {
    fn is_recording(&self) -> bool {
        true
    }

    fn max_readers(&self) -> usize {
        MOST_READERS
    }

    fn buffer(&self, reader: usize) -> Option<&'static mut [u8]> {
        self.memory.buffer(reader)
    }

    fn connected(&self, negotiated: Negotiated, devices: &[RawFd]) {
        self.set(head::MINOR, negotiated.minor.into());
        self.set(head::FLAGS, negotiated.flags);
        for (at, &device) in devices.iter().enumerate() {
            self.set(head::DEVICES + at, device as u64);
        }
        self.set(head::READERS, devices.len() as u64);
        self.set(head::IS_SERVING, 1);
    }

    fn received(&'static self, reader: usize, message: &[u8]) {
        set_current(JournalEntry::begin(self, reader, message));
    }

    fn replying(&self, unique: u64, error: i32, parts: &[&[u8]]) {
        with(|entry| {
            if entry.get(UNIQUE) != unique || entry.get(PHASE) >= DONE {
                return;
            }
            entry.die_at("changed");
            let len: usize = parts.iter().map(|part| part.len()).sum();
            if len > REPLY_WORDS * 8 {
                return entry.set(PHASE, SENT);
            }
            store_bytes(&entry.words()[REPLY..REPLY + REPLY_WORDS], parts);
            entry.set(ERROR, u64::from(error.cast_unsigned()));
            entry.set(REPLY_LEN, len as u64);
            entry.set(PHASE, DONE);
            entry.die_at("recorded");
        });
    }

    fn replied(&self, unique: u64) {
        with(|entry| {
            if entry.get(UNIQUE) == unique {
                entry.die_at("sent");
            }
        });
    }

    fn finished(&self) {
        if let Some(entry) = CURRENT.take() {
            entry.finish();
        }
    }

    fn forgotten(&self) -> u64 {
        with(|entry| entry.get(FORGOTTEN)).unwrap_or_default()
    }

    fn note_forgotten(&self, count: u64) {
        with(|entry| entry.set(FORGOTTEN, count));
    }

    fn recover(&self, work: &mut dyn FnMut()) {
        RECOVERS.set(true);
        work();
        RECOVERS.set(false);
    }
}

impl From<LeftRequest> for InFlight {
    fn from(LeftRequest { entry, reader, message }: LeftRequest) -> Self {
        Self { unique: entry.unique(), reader, message, attempt: Box::new(entry) }
    }
}

impl PriorRequest for JournalEntry {
    fn resume(self: Box<Self>) -> Recovery {
        let recovery = self.recovery();
        set_current(*self);
        recovery
    }
}

impl JournalEntry {
    /// The journal of a request that the reading thread with this number has just read.
    pub fn begin(state: &'static SurvivalState, reader: usize, message: &[u8]) -> Self {
        let entry = Self { state, place: Place::Reader(reader) };
        entry.set(OPCODE, message_word(message, 4).into());
        entry.reset(message_unique(message));
        entry.die_at("read");
        entry
    }

    fn die_at(&self, moment: &str) {
        faults::die_at(moment, self.get(OPCODE));
    }

    fn reset(&self, unique: u64) {
        self.set(UNIQUE, 0);
        for word in [PHASE, CRASH_SCORE, ENTERED, FORGOTTEN] {
            self.set(word, 0);
        }
        self.set(UNIQUE, unique);
    }

    fn words(&self) -> &'static [AtomicU64] {
        match &self.place {
            Place::Reader(reader) => self.state.reader_words(*reader),
            Place::Pool(slot) => slot.words(),
        }
    }

    fn get(&self, word: usize) -> u64 {
        self.words()[word].load(Ordering::Acquire)
    }

    fn set(&self, word: usize, value: u64) {
        self.words()[word].store(value, Ordering::Release);
    }

    /// Number of nodes whose lookups were counted for the reply.
    fn entered(&self) -> usize {
        usize::try_from(self.get(ENTERED))
            .map_or(JOURNAL_WORDS - NODES, |count| count.min(JOURNAL_WORDS - NODES))
    }

    fn finish(self) {
        match self.place {
            Place::Reader(_) => {
                self.set(ANSWERED, self.get(UNIQUE));
                self.die_at("finished");
            }
            Place::Pool(slot) => {
                let ((at, room), opcode) = (self.state.room(&slot), slot.get(OPCODE));
                if room > SHORT {
                    self.state.memory.free_unmapped(at, room);
                }
                drop(slot);
                faults::die_at("finished", opcode);
            }
        }
    }

    /// The journal of the request in the pool, if it is not there yet.
    fn moved(self) -> Result<Self, (Self, io::Error)> {
        let Place::Reader(reader) = self.place else { return Ok(self) };
        match self.copied(reader) {
            Ok(slot) => {
                self.finish();
                Ok(slot)
            }
            Err(error) => Err((self, error)),
        }
    }

    fn copied(&self, reader: usize) -> io::Result<Self> {
        let state = self.state;
        let len = message_len(&state.memory.read_buffer(reader, size_of::<u32>())?);
        let message = state.memory.read_buffer(reader, len)?;
        let table = if len <= SHORT { &state.short } else { &state.long };
        let slot = table.claim().ok_or_else(|| io::Error::other("too many requests are waiting"))?;
        let (at, _) = state.room(&slot);
        state.memory.write_unmapped(at, &message)?;
        // All but the first word, which says that it counts.
        for word in PHASE..NODES + self.entered() {
            slot.set(word, self.get(word));
        }
        slot.set(READER, reader as u64);
        slot.set(MESSAGE_LEN, message.len() as u64);
        slot.set(UNIQUE, self.get(UNIQUE));
        self.die_at("copied");
        Ok(Self { state, place: Place::Pool(slot) })
    }

    /// How to finish the request. To be called once by each successor.
    pub fn recovery(&self) -> Recovery {
        let crash_score = self.get(CRASH_SCORE).saturating_add(self.state.crash_score());
        self.set(CRASH_SCORE, crash_score);
        match self.get(PHASE) {
            DONE => {
                let len = (self.get(REPLY_LEN) as usize).min(REPLY_WORDS * 8);
                let bytes = load_bytes(&self.words()[REPLY..REPLY + REPLY_WORDS], len);
                Recovery::Reply((self.get(ERROR) as u32).cast_signed(), bytes)
            }
            _ if crash_score >= MAX_CRASH_SCORE => Recovery::Fail,
            phase => {
                let count = (self.get(ENTERED) as usize).min(JOURNAL_WORDS - NODES);
                let nodes =
                    self.words()[NODES..NODES + count].iter().map(|word| word.load(Ordering::Relaxed));
                // The kernel may have got a reply with these nodes.
                let nodes = if phase == SENT { Vec::new() } else { nodes.collect() };
                self.set(ENTERED, 0);
                if phase == SENT {
                    self.set(PHASE, READ);
                }
                Recovery::Serve(nodes)
            }
        }
    }

    /// The number of the request.
    pub fn unique(&self) -> u64 {
        self.get(UNIQUE)
    }

    /// Whether the reply of the predecessor was recorded: the handles in it are valid.
    pub fn is_done(&self) -> bool {
        self.get(PHASE) >= DONE
    }
}

/// The number that begins at this byte of a message: `fuse_in_header` (linux/fuse.h) begins with the length, the opcode and the number of
/// the request.
fn message_word(message: &[u8], at: usize) -> u32 {
    message.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_ne_bytes(*word))
}

fn message_len(message: &[u8]) -> usize {
    message_word(message, 0) as usize
}

fn message_unique(message: &[u8]) -> u64 {
    message.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |unique| u64::from_ne_bytes(*unique))
}

impl SurvivalState {
    /// Where the message of a request in the pool is, and the length of the room there.
    fn room(&'static self, slot: &Slot) -> (usize, usize) {
        match slot.is_in(&self.short) {
            true => (slot.index() * SHORT, SHORT),
            false => (MOST_SHORT * SHORT + slot.index() * self.buffer_len, self.buffer_len),
        }
    }

    /// The requests that a predecessor has left. To be called once, before any request is read.
    ///
    /// # Errors
    /// The messages cannot be read.
    pub fn in_flight(&'static self) -> io::Result<Vec<LeftRequest>> {
        let mut all: Vec<LeftRequest> = Vec::new();
        for slot in [&self.short, &self.long].into_iter().flat_map(|table| table.take_over()) {
            let (at, room) = self.room(&slot);
            let message = self.memory.read_unmapped(at, (slot.get(MESSAGE_LEN) as usize).min(room))?;
            let reader = slot.get(READER) as usize;
            all.push(LeftRequest {
                entry: JournalEntry { state: self, place: Place::Pool(slot) },
                reader,
                message,
            });
        }
        for reader in 0..self.devices().len() {
            const HEADER: usize = 40;
            let header = self.memory.read_buffer(reader, HEADER)?;
            let (len, unique) = (message_len(&header), message_unique(&header));
            let entry = JournalEntry { state: self, place: Place::Reader(reader) };
            if unique == 0 || unique == entry.get(ANSWERED) {
                continue;
            }
            if all.iter().any(|other| other.entry.unique() == unique) {
                // It died between the two steps of handing it on.
                entry.set(ANSWERED, unique);
                continue;
            }
            if entry.get(UNIQUE) != unique {
                entry.reset(unique);
            }
            all.push(LeftRequest { entry, reader, message: self.memory.read_buffer(reader, len)? });
        }
        Ok(all)
    }
}
