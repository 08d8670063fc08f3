//! [`SurvivalState`] as the journal of a mount, and what it has of one that a predecessor has left.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::Ordering;

use namegate_mount::passthrough::TreeJournal;
use namegate_mount::{HandedOn, KeptNames, LeftMount, MountJournal, MountRecord};
use namegate_wire::InFlight;

use super::journal::{self, JournalEntry};
use super::state::{SurvivalState, head};

/// Number of backing files that can be released at the same time without a trace if the server dies.
const MOST_CLOSING: usize = 64;

impl HandedOn for JournalEntry {
    fn attach(self: Box<Self>) {
        journal::set_current(*self);
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
        self.set_text(head::MOUNTPOINT..head::GIVEN, record.mountpoint.as_os_str())?;
        self.set_text(head::SOURCE..head::END, record.source.as_os_str())?;
        let device = OsStr::new(record.device.unwrap_or_default());
        self.set_text(head::MOUNT_DEVICE..head::MOUNTPOINT, device)?;
        self.set(head::ROOT_NUMBER, record.root_number);
        if let Some([low, high]) = record.export_key {
            self.set(head::EXPORT_KEY + 1, low);
            self.set(head::EXPORT_KEY + 2, high);
            self.set(head::EXPORT_KEY, 1);
        }
        Ok(())
    }

    fn taken_over(&self) {
        self.inherited().into_iter().for_each(|inherited| inherited.close_rest());
    }

    fn note_registered(&self, number: u32) {
        self.head(head::LAST_BACKING).fetch_max(number.into(), Ordering::AcqRel);
    }

    fn releasing(&self, number: u32) -> Option<usize> {
        (0..MOST_CLOSING).find(|at| {
            let word = self.head(head::CLOSING + at);
            word.compare_exchange(0, u64::from(number) + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    fn released(&self, place: usize) {
        self.set(head::CLOSING + place, 0);
    }

    fn lost_backings(&self) -> Vec<u32> {
        /// More than the number of threads.
        const MAX_UNRECORDED: u32 = 1024;
        let last = self.get(head::LAST_BACKING) as u32;
        let unrecorded = last.saturating_sub(MAX_UNRECORDED)..last.saturating_add(MAX_UNRECORDED);
        self.take_over_closing().into_iter().chain(unrecorded).collect()
    }

    fn kept_names(&self) -> Option<&dyn KeptNames> {
        Some(self)
    }

    /// Takes the place of the oldest one.
    fn note_uncached_name(&self, hash: u64) {
        let room = (head::MOUNT_DEVICE - head::UNCACHED - 1) as u64;
        let count = self.head(head::UNCACHED).fetch_add(1, Ordering::AcqRel);
        self.set(head::UNCACHED + 1 + (count % room) as usize, hash);
    }

    fn uncached_names(&self) -> Vec<u64> {
        let words = head::UNCACHED + 1..head::MOUNT_DEVICE;
        words.map(|word| self.get(word)).filter(|&hash| hash != 0).collect()
    }
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
            source: self.source(),
            mountpoint,
            device,
            root_number: self.get(head::ROOT_NUMBER),
            export_key: (self.get(head::EXPORT_KEY) != 0)
                .then(|| [1, 2].map(|word| self.get(head::EXPORT_KEY + word))),
            connections: connections.ok_or_else(|| missing("the connection"))?,
            negotiated: self.negotiated(),
            in_flight: in_flight.into_iter().map(InFlight::from).collect(),
        })
    }

    /// The backing files that a predecessor was about to release.
    pub(super) fn take_over_closing(&self) -> Vec<u32> {
        let words = (0..MOST_CLOSING).map(|at| self.head(head::CLOSING + at).swap(0, Ordering::AcqRel));
        words.filter_map(|word| word.checked_sub(1)).map(|number| number as u32).collect()
    }
}
