//! [`SurvivalState`] as the journal of a mount, and what it has of one that a predecessor has left.

use std::collections::HashSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use namegate_mount::passthrough::{EntryAt, NodeChange, NodeData, OpenData, TreeJournal, XattrOf};
use namegate_mount::{HandedOn, LeftMount, MAX_TRANSFER, MountJournal, MountRecord};
use namegate_wire::{Device, InFlight, Negotiated, PriorRequest, Recovery, RequestJournal};

use super::changes;
use super::journal::{self, JournalEntry, LeftRequest};
use super::records::LONGEST_HANDLE;
use super::state::{MOST_READERS, SurvivalState};

impl RequestJournal for SurvivalState {
    fn is_recording(&self) -> bool {
        true
    }

    fn max_readers(&self) -> usize {
        MOST_READERS
    }

    fn buffer(&self, reader: usize) -> Option<&'static mut [u8]> {
        Self::buffer(self, reader)
    }

    fn connected(&self, negotiated: Negotiated, devices: &[RawFd]) {
        self.serve(negotiated, devices);
    }

    fn received(&'static self, reader: usize, message: &[u8]) {
        journal::set_current(JournalEntry::begin(self, reader, message));
    }

    fn replying(&self, unique: u64, error: i32, parts: &[&[u8]]) {
        journal::replying(unique, error, parts);
    }

    fn replied(&self, unique: u64) {
        journal::replied(unique);
    }

    fn finished(&self) {
        journal::finish();
    }

    fn forgotten(&self) -> u64 {
        journal::forgotten()
    }

    fn note_forgotten(&self, count: u64) {
        journal::note_forgotten(count);
    }

    fn recover(&self, work: &mut dyn FnMut()) {
        journal::recover(work);
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
        journal::set_current(*self);
        recovery
    }
}

impl HandedOn for JournalEntry {
    fn attach(self: Box<Self>) {
        journal::set_current(*self);
    }
}

impl TreeJournal for SurvivalState {
    fn server(&self) -> u64 {
        self.servers().saturating_sub(1)
    }

    fn longest_handle(&self) -> Option<usize> {
        Some(LONGEST_HANDLE)
    }

    fn set_root(&self, root: RawFd) {
        Self::set_root(self, root);
    }

    fn add_node(&'static self, data: &NodeData) -> Option<u32> {
        self.record_node(data)
    }

    fn change_node(&self, slot: u32, change: NodeChange) {
        self.record_node_change(slot, change);
    }

    fn remove_node(&'static self, slot: u32) {
        self.drop_node(slot);
    }

    fn add_open(&'static self, data: &OpenData) -> Option<u32> {
        self.record_open(&OpenData { unique: journal::unique(), ..*data })
    }

    fn set_open_fd(&self, slot: u32, fd: Option<RawFd>) {
        self.record_open_fd(slot, fd);
    }

    fn remove_open(&'static self, slot: u32) {
        self.drop_open(slot);
    }

    fn note_lookup(&self, node: u64) {
        journal::note_lookup(node);
    }

    fn note_forget(&self, node: u64) {
        journal::note_forget(node);
    }

    fn take_over_nodes(&'static self) -> Vec<(u32, NodeData)> {
        self.recorded_nodes()
    }

    fn take_over_opens(&'static self) -> Vec<(u32, OpenData)> {
        let unfinished = self.unfinished.get();
        let (dropped, kept): (Vec<_>, _) = self
            .recorded_opens()
            .into_iter()
            .partition(|(_, open)| unfinished.is_some_and(|unfinished| unfinished.contains(&open.unique)));
        dropped.into_iter().for_each(|(slot, _)| self.drop_open(slot));
        kept
    }

    fn take_descriptor(&self, number: RawFd) -> Option<OwnedFd> {
        self.inherited()?.take(number)
    }

    fn begin_or_recover_create(&self, entry: EntryAt<'_>, uid: u32) -> bool {
        changes::begin_or_recover_create(entry, uid)
    }

    fn begin_or_recover_link(&self, entry: EntryAt<'_>, file: BorrowedFd<'_>) -> bool {
        changes::begin_or_recover_link(entry, file)
    }

    fn begin_or_recover_remove(&self, entry: EntryAt<'_>) -> bool {
        changes::begin_or_recover_remove(entry)
    }

    fn begin_or_recover_rename(&self, from: EntryAt<'_>, to: EntryAt<'_>, exchanges: bool) -> bool {
        changes::begin_or_recover_rename(from, to, exchanges)
    }

    fn begin_or_recover_set_xattr(&self, xattr: XattrOf<'_>, value: &[u8]) -> bool {
        changes::begin_or_recover_set_xattr(xattr, value)
    }

    fn begin_or_recover_remove_xattr(&self, xattr: XattrOf<'_>) -> bool {
        changes::begin_or_recover_remove_xattr(xattr)
    }

    fn begin_or_recover_append(&self, file: BorrowedFd<'_>, len: usize) -> Option<usize> {
        changes::begin_or_recover_append(file, len)
    }
}

impl MountJournal for SurvivalState {
    fn replies_last(&self) -> bool {
        journal::unique() != 0
    }

    fn is_recovering(&self) -> bool {
        journal::is_recovering()
    }

    fn hand_on(&'static self) -> io::Result<Option<Box<dyn HandedOn>>> {
        Ok(journal::hand_on()?.map(|entry| Box::new(entry) as Box<dyn HandedOn>))
    }

    fn mounted(&self, record: &MountRecord<'_>) -> io::Result<()> {
        self.set_place(record.mountpoint, record.device)?;
        self.set_root_number(record.root_number);
        self.set_export_key(record.export_key);
        Ok(())
    }

    fn taken_over(&self) {
        self.inherited().into_iter().for_each(|inherited| inherited.close_rest());
    }

    fn note_registered(&self, number: u32) {
        self.set_last_backing(number);
    }

    fn releasing(&self, number: u32) -> Option<usize> {
        self.closing(number)
    }

    fn released(&self, place: usize) {
        self.closed(place);
    }

    fn lost_backings(&self) -> Vec<u32> {
        /// More than the number of threads.
        const MAX_UNRECORDED: u32 = 1024;
        let last = self.last_backing();
        let unrecorded = last.saturating_sub(MAX_UNRECORDED)..last.saturating_add(MAX_UNRECORDED);
        self.take_over_closing().into_iter().chain(unrecorded).collect()
    }

    fn note_delayed_rename(&self, hash: u64) {
        Self::note_delayed_rename(self, hash);
    }

    fn delayed_renames(&self) -> Vec<u64> {
        Self::delayed_renames(self).collect()
    }
}

/// The state of a mount that does not exist yet.
///
/// # Errors
/// There is no memory for it.
pub fn new_state() -> io::Result<&'static SurvivalState> {
    SurvivalState::new(Device::buffer_len(MAX_TRANSFER))
}

/// The state of a mount that the previous program of this process has left.
///
/// # Errors
/// It has another layout.
pub fn open_state(fd: OwnedFd) -> io::Result<&'static SurvivalState> {
    SurvivalState::open(fd, Device::buffer_len(MAX_TRANSFER))
}

impl SurvivalState {
    /// The mount that a predecessor has left. To be called once, before any request is read.
    ///
    /// # Errors
    /// A descriptor is missing, or the requests in flight cannot be read.
    pub fn left_mount(&'static self) -> io::Result<LeftMount> {
        let missing = |what: &str| io::Error::other(format!("a descriptor of {what} is missing"));
        let take = |number| self.take_descriptor(number);
        let root = take(self.root()).ok_or_else(|| missing("the source"))?;
        let in_flight = self.in_flight()?;
        let unfinished = in_flight.iter().map(|left| &left.entry).filter(|entry| !entry.is_done());
        let unfinished = unfinished.map(JournalEntry::unique).collect::<HashSet<_>>();
        // A process has one predecessor.
        let _ = self.unfinished.set(unfinished);
        let connections: Option<Vec<_>> = self.devices().into_iter().map(take).collect();
        let (mountpoint, device) = self.place();
        Ok(LeftMount {
            journal: self,
            root,
            mountpoint,
            device,
            root_number: self.root_number(),
            export_key: self.export_key(),
            connections: connections.ok_or_else(|| missing("the connection"))?,
            negotiated: self.negotiated(),
            in_flight: in_flight.into_iter().map(InFlight::from).collect(),
        })
    }
}
