//! Open directories and their entries.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, atomic};

use namegate_sys::directory;
use nix::fcntl::OFlag;
use nix::sys::stat::fstat;
use nix::unistd::{Whence, lseek};
use parking_lot::Mutex;

use super::budget::DescriptorShare;
use super::cached_version::{CachedVersion, is_settled};
use super::dir_offset::Offsets;
use super::journal::{OpenData, OpenRecord};
use super::listed_entries::{ListedEntries, Listing};
use super::node::TrackedNode;
use super::{Fh, NodeId, Passthrough, Result};

/// The buffer size of C libraries: some 1000 entries of ordinary length.
const BUFFER: usize = 32 * 1024;

#[derive(Debug)]
pub struct OpenDir {
    /// The record for a successor. Declared before the descriptor, which is closed after it.
    _record: Option<OpenRecord>,
    file: Arc<File>,
    /// The user to whom it is charged, if it stays open.
    _share: Option<DescriptorShare>,
    /// If it was settled when it was opened: the node and its version.
    settled: Option<(Arc<TrackedNode>, CachedVersion)>,
    stream: Mutex<EntryStream>,
    /// What the kernel was given so far.
    given: Mutex<ListedEntries>,
}

/// Entries that were read and not yet returned.
#[derive(Debug)]
struct EntryStream {
    /// Allocated when first needed: a client with a cached listing reads no entries.
    buffer: Vec<u8>,
    filled: Range<usize>,
    /// Directory offset of `filled.start`.
    position: u64,
    /// That for clients.
    shown: u64,
    /// Whether the entry there has the hash of the one before.
    is_second: bool,
    /// Known after the first entry was read.
    offsets: Option<Offsets>,
}

impl EntryStream {
    /// At a position for clients, with nothing read.
    fn at(shown: u64) -> Self {
        Self { buffer: Vec::new(), filled: 0..0, position: 0, shown, is_second: false, offsets: None }
    }

    /// Continues at an offset for clients.
    fn seek(&mut self, file: &File, shown: u64) -> Result<()> {
        let to = |position: u64| {
            // A value of d_off is opaque: the kernel's u64 and its off_t are the same bits.
            lseek(file, position as i64, Whence::SeekSet).map(drop)
        };
        self.filled = 0..0;
        if Offsets::is_ambiguous(shown) && self.offsets.is_none() {
            to(0)?;
            self.position = 0;
            self.buffer.resize(BUFFER, 0);
            let read = directory::read(file, &mut self.buffer)?;
            let first = directory::first(&self.buffer[..read]);
            self.offsets = first.map(|(entry, _)| Offsets::of(file, entry.next as u64));
        }
        self.shown = shown;
        let offsets = self.offsets.unwrap_or(Offsets::Plain);
        if let Some(before) = offsets.before(shown) {
            to(before)?;
            let read = directory::read(file, &mut self.buffer)?;
            let first = directory::first(&self.buffer[..read]);
            let second = first.and_then(|(_, len)| directory::first(&self.buffer[len..read]));
            let behind = [first, second].map(|found| found.map(|(entry, _)| entry.next as u64));
            let len = first.map_or(0, |(_, len)| len);
            if let Some(skipped) = Offsets::skipped(shown, behind) {
                self.is_second = skipped > 0;
                (self.filled, self.position) =
                    if self.is_second { (len..read, behind[0].unwrap_or(before)) } else { (0..read, before) };
                return Ok(());
            }
        }
        self.position = offsets.to_seek(shown);
        // Other entries have short offsets.
        self.is_second = shown > 0 && !Offsets::is_ambiguous(shown);
        to(self.position)
    }
}

/// An entry of a directory, with its stored name.
#[derive(Clone, Copy, Debug)]
pub struct DirEntry<'d> {
    /// Its name; `.` and `..` among them.
    pub name: &'d OsStr,
    pub ino: u64,
    /// Its type, one of the `DT_` constants.
    pub kind: u8,
    /// Offset of the next entry.
    pub next: u64,
}

impl OpenDir {
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }
}

/// Flags to open a directory for listing.
pub(super) const FLAGS: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NONBLOCK);

impl OpenDir {
    pub(super) fn new(dir: OwnedFd) -> Self {
        Self {
            _record: None,
            file: Arc::new(dir.into()),
            _share: None,
            settled: None,
            stream: Mutex::new(EntryStream::at(0)),
            given: Mutex::default(),
        }
    }

    /// The open directory that a predecessor has recorded. It may have read entries, so that the position is not known.
    pub(super) fn recovered(dir: OwnedFd, record: OpenRecord, share: Option<DescriptorShare>) -> Self {
        let stream = Mutex::new(EntryStream::at(u64::MAX));
        Self { _record: Some(record), _share: share, stream, ..Self::new(dir) }
    }

    /// As [`OpenDir::each`], for clients that read some entries at a time: they get the entries before an error, and the error with
    /// the next request.
    fn read(&self, offset: u64, mut take: impl FnMut(&DirEntry<'_>) -> ControlFlow<()>) -> Result<()> {
        let mut has_handed = false;
        let done = self.each(offset, |entry| {
            let room = take(entry);
            has_handed |= room.is_continue();
            room
        });
        match done {
            Err(_) if has_handed => Ok(()),
            done => done,
        }
    }

    /// Passes the entries from `offset` on to `take` until it breaks, which means that it has not used the last entry.
    ///
    /// # Errors
    /// As getdents64(2) says, anywhere in the directory.
    pub(super) fn each(
        &self,
        offset: u64,
        mut take: impl FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut stream = self.stream.lock();
        // At 0 the directory is read again: rewinddir(3) shows changes.
        if offset != stream.shown || offset == 0 {
            stream.seek(&self.file, offset)?;
        }
        let EntryStream { buffer, filled, position, shown, is_second, offsets } = &mut *stream;
        buffer.resize(BUFFER, 0);
        let mut has_ended = false;
        loop {
            let Some((entry, len)) = directory::first(&buffer[filled.clone()]) else {
                match directory::read(&self.file, buffer)? {
                    0 => return Ok(()),
                    read => *filled = 0..read,
                }
                continue;
            };
            let after = entry.next as u64;
            let offsets = *offsets.get_or_insert_with(|| Offsets::of(&self.file, after));
            let has_second = offsets.is_second(*position, after);
            let second = filled.start + len..filled.end;
            let next = match has_second && !*is_second {
                // What is behind the second entry decides.
                true if second.is_empty() && !has_ended => {
                    buffer.copy_within(filled.clone(), 0);
                    let read = directory::read(&self.file, &mut buffer[len..])?;
                    (*filled, has_ended) = (0..len + read, read == 0);
                    continue;
                }
                true => directory::first(&buffer[second])
                    .map_or(after, |(entry, _)| Offsets::of_second(after, entry.next as u64)),
                false if has_second => after,
                false => offsets.of_first(after),
            };
            let handed = DirEntry { name: entry.name, ino: entry.ino, kind: entry.kind, next };
            match take(&handed) {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(()) => {
                    (filled.start, *position, *shown) = (filled.start + len, after, next);
                    *is_second = has_second;
                }
            }
        }
    }
}

impl Passthrough {
    /// Opens a directory for the user `uid`. Also returns whether it has changed since it was last opened.
    ///
    /// # Errors
    /// As open(2) says; ENFILE for a user who has too many descriptors of this process.
    pub fn opendir(&self, node: NodeId, uid: u32) -> Result<(Fh, Listing)> {
        let node = self.nodes.node(node)?;
        let share = Some(self.nodes.charge(uid)?);
        let dir = OpenDir::new(self.nodes.open(&node, FLAGS)?);
        let stat = fstat(&dir.file)?;
        let version = CachedVersion::of_directory(&stat, self.views.load(atomic::Ordering::Acquire));
        let is_settled = is_settled((stat.st_ctime, stat.st_ctime_nsec));
        let listing = match node.cached_listing() {
            _ if !is_settled => Listing::Unsettled,
            Some((cached, given)) if cached == version => Listing::Same(given),
            _ => Listing::New,
        };
        let fh = self.dirs.reserve();
        let fd = Some(dir.file.as_raw_fd());
        let opener = [uid, 0, 0, 0];
        let data =
            OpenData { fh: fh.0, node: node.id.0, is_directory: true, fd, opener, ..OpenData::default() };
        let settled = is_settled.then_some((node, version));
        let _record = self.record_open(data)?;
        self.dirs.insert(fh, OpenDir { _record, _share: share, settled, ..dir });
        Ok((fh, listing))
    }

    /// Records that entries are shown under other names from now on: no listing is the [same](Listing::Same) as an earlier one.
    pub fn change_view(&self) {
        self.views.fetch_add(1, atomic::Ordering::Release);
    }

    /// Passes all entries of a directory to `take` until it breaks. This does not affect what the kernel caches of the directory.
    ///
    /// # Errors
    /// As for opendir and readdir.
    pub fn list(&self, node: NodeId, take: impl FnMut(&DirEntry<'_>) -> ControlFlow<()>) -> Result<()> {
        let node = self.nodes.node(node)?;
        OpenDir::new(self.nodes.open(&node, FLAGS)?).each(0, take)
    }

    /// Passes the entries from `offset` on to `take` until it breaks, which means that it has not used the last entry.
    ///
    /// `offset` is 0 or the `next` of an entry.
    ///
    /// # Errors
    /// As getdents64(2) says, if no entry was passed before.
    pub fn readdir(
        &self,
        fh: Fh,
        offset: u64,
        take: impl FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.dirs.get(fh)?.read(offset, take)
    }

    /// Records that the kernel was given `listed` entries of an open directory, of which it keeps `lasting` with their attributes.
    pub fn note_listed(&self, fh: Fh, listed: u32, lasting: u32) {
        if let Ok(dir) = self.dirs.get(fh) {
            let mut given = dir.given.lock();
            given.all += listed;
            given.lasting += lasting;
        }
    }

    /// The kernel has asked for entries of a directory that it was given to keep.
    pub fn note_entries_lost(&self, node: NodeId) {
        if let Ok(node) = self.nodes.node(node)
            && let Some((version, given)) = node.cached_listing()
        {
            node.note_cached_listing(version, ListedEntries { lasting: 0, ..given });
        }
    }

    /// Syncs the directory to disk, or with `data_only` only its entries.
    ///
    /// # Errors
    /// As fsync(2) says.
    pub fn fsyncdir(&self, fh: Fh, data_only: bool) -> Result<()> {
        let dir = self.dirs.get(fh)?;
        if data_only { nix::unistd::fdatasync(&dir.file) } else { nix::unistd::fsync(&dir.file) }
    }

    /// Closes the directory.
    pub fn releasedir(&self, fh: Fh) {
        let Some(dir) = self.dirs.remove(fh) else { return };
        // Not when it was opened: the kernel drops its cached listing only after the reply to that.
        let Some((node, version)) = &dir.settled else { return };
        // A client that has not read, or what the kernel has cached, changes nothing.
        let given = match (*dir.given.lock(), node.cached_listing()) {
            (ListedEntries { all: 0, .. }, Some((cached, given))) if cached == *version => given,
            (given, _) => given,
        };
        node.note_cached_listing(*version, given);
    }
}
