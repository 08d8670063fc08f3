//! Open directories and their entries.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, atomic};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::OFlag;
use nix::sys::stat::fstat;
use nix::sys::time::TimeSpec;
use nix::unistd::{Whence, lseek};
use parking_lot::Mutex;

use super::budget::Share;
use super::inode::Node;
use super::{Fh, NodeId, Passthrough, Result};
use crate::sys::directory;

/// As much as C libraries ask for at once: some 1000 entries of ordinary length.
const BUFFER: usize = 32 * 1024;

/// A change after this time bears another time than one before, whatever the clock of the file system ticks in: the kernel's
/// own in milliseconds, FAT's in two seconds.
const SETTLED: Duration = Duration::from_secs(3);

/// Whether the next change of a directory whose last one was at `changed`, in seconds and nanoseconds, will show in its
/// times, as far as clocks tell.
pub(super) fn is_settled((seconds, nanoseconds): (i64, i64)) -> bool {
    let since_epoch = Duration::new(
        u64::try_from(seconds).unwrap_or_default(),
        u32::try_from(nanoseconds).unwrap_or_default(),
    );
    let then = UNIX_EPOCH.checked_add(since_epoch);
    then.and_then(|then| SystemTime::now().duration_since(then).ok()).is_some_and(|age| age > SETTLED)
}

/// An open directory.
#[derive(Debug)]
pub struct OpenDir {
    file: Arc<File>,
    /// For whom it is counted, if it stays open.
    _share: Option<Share>,
    /// If it had settled when it was opened: the node, when it had been changed last, and the view.
    settled: Option<(Arc<Node>, (TimeSpec, u64))>,
    stream: Mutex<Stream>,
}

/// What has been read and not yet handed out.
#[derive(Debug)]
struct Stream {
    /// Made when it is first needed: who has the entries from elsewhere asks for none.
    buffer: Vec<u8>,
    filled: Range<usize>,
    /// Where the directory goes on at `filled.start`.
    position: u64,
}

/// An entry as the directory has it.
#[derive(Clone, Copy, Debug)]
pub struct DirEntry<'d> {
    /// Its name; `.` and `..` among them.
    pub name: &'d OsStr,
    /// Its inode number.
    pub ino: u64,
    /// Its type, one of the `DT_` constants.
    pub kind: u8,
    /// Where the next one is asked for.
    pub next: u64,
}

impl OpenDir {
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }
}

/// How a directory is opened to be listed.
pub(super) const FLAGS: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NONBLOCK);

impl OpenDir {
    pub(super) fn new(dir: OwnedFd) -> Self {
        let stream = Stream { buffer: Vec::new(), filled: 0..0, position: 0 };
        Self { file: Arc::new(dir.into()), _share: None, settled: None, stream: Mutex::new(stream) }
    }

    /// As [`OpenDir::each`], for whoever asks for some entries at a time: what was handed out before an error reaches them,
    /// and the error comes when they ask for more.
    fn read(&self, offset: u64, mut take: impl FnMut(&DirEntry<'_>) -> Room) -> Result<()> {
        let mut has_handed = false;
        let done = self.each(offset, |entry| {
            let room = take(entry);
            has_handed |= room == Room::Left;
            room
        });
        match done {
            Err(_) if has_handed => Ok(()),
            done => done,
        }
    }

    /// Hands the entries from `offset` on to `take`, until it says that it has no room for the one it got.
    ///
    /// # Errors
    /// As getdents64(2) says, wherever in the directory.
    pub(super) fn each(&self, offset: u64, mut take: impl FnMut(&DirEntry<'_>) -> Room) -> Result<()> {
        let mut stream = self.stream.lock();
        let Stream { buffer, filled, position } = &mut *stream;
        // At 0 the directory is read anew: rewinddir(3) promises to show what has changed.
        if offset != *position || offset == 0 {
            // A value of d_off is opaque: the kernel's u64 and its off_t are the same bits.
            lseek(&self.file, offset as i64, Whence::SeekSet)?;
            (*filled, *position) = (0..0, offset);
        }
        buffer.resize(BUFFER, 0);
        loop {
            let Some((entry, len)) = directory::first(&buffer[filled.clone()]) else {
                match directory::read(&self.file, buffer)? {
                    0 => return Ok(()),
                    read => *filled = 0..read,
                }
                continue;
            };
            let next = entry.next as u64;
            let handed = DirEntry { name: entry.name, ino: entry.ino, kind: entry.kind, next };
            match take(&handed) {
                Room::None => return Ok(()),
                Room::Left => (filled.start, *position) = (filled.start + len, next),
            }
        }
    }
}

impl Passthrough {
    /// Opens a directory for the user `uid`, and says whether it has changed since it was opened last.
    ///
    /// # Errors
    /// As open(2) says; ENFILE for a user who has too many descriptors of this process.
    pub fn opendir(&self, node: NodeId, uid: u32) -> Result<(Fh, Listing)> {
        let node = self.nodes.node(node)?;
        let share = Some(self.nodes.charge(uid)?);
        let dir = OpenDir::new(self.nodes.open(&node, FLAGS)?);
        // The time of change, not of modification: that one can be set back.
        let stat = fstat(&dir.file)?;
        let changed =
            (TimeSpec::new(stat.st_ctime, stat.st_ctime_nsec), self.views.load(atomic::Ordering::Acquire));
        let is_settled = is_settled((stat.st_ctime, stat.st_ctime_nsec));
        let listing = match (is_settled, node.listed() == Some(changed)) {
            (false, _) => Listing::Unsettled,
            (true, false) => Listing::New,
            (true, true) => Listing::Same,
        };
        let settled = is_settled.then_some((node, changed));
        Ok((self.dirs.add(OpenDir { _share: share, settled, ..dir }), listing))
    }

    /// Says that entries are seen under other names from now on: no listing is the [same](Listing::Same) as one before.
    pub fn change_view(&self) {
        self.views.fetch_add(1, atomic::Ordering::Release);
    }

    /// Hands all entries of a directory on to `take`, until it says that it has no room for another. Nobody else is told of
    /// this: what was said of the directory before holds as it did.
    ///
    /// # Errors
    /// As for opendir and readdir.
    pub fn list(&self, node: NodeId, take: impl FnMut(&DirEntry<'_>) -> Room) -> Result<()> {
        let node = self.nodes.node(node)?;
        OpenDir::new(self.nodes.open(&node, FLAGS)?).each(0, take)
    }

    /// Hands the entries from `offset` on to `take`, until it says that it has no room for the one it got.
    ///
    /// `offset` is 0 or the `next` of an entry.
    ///
    /// # Errors
    /// As getdents64(2) says, if nothing has been handed out before.
    pub fn readdir(&self, fh: Fh, offset: u64, take: impl FnMut(&DirEntry<'_>) -> Room) -> Result<()> {
        self.dirs.get(fh)?.read(offset, take)
    }

    /// Brings the directory to the disk, or with `data_only` its entries.
    ///
    /// # Errors
    /// As fsync(2) says.
    pub fn fsyncdir(&self, fh: Fh, data_only: bool) -> Result<()> {
        let dir = self.dirs.get(fh)?;
        if data_only { nix::unistd::fdatasync(&dir.file) } else { nix::unistd::fsync(&dir.file) }
    }

    /// Closes the directory.
    pub fn releasedir(&self, fh: Fh) {
        // Not when it was opened: before the kernel has heard of that, it has dropped nothing of what it kept.
        if let Some((node, changed)) = self.dirs.remove(fh).as_deref().and_then(|dir| dir.settled.as_ref()) {
            node.note_listing(*changed);
        }
    }
}

/// What is known of the entries of a directory when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The same as when it was opened last. What was read then, or later, holds.
    Same,
    /// Others, or it was not opened before. What is read from now on holds until this is said again.
    New,
    /// It has just been changed, and may change again without a trace: what is read now must not be kept.
    Unsettled,
}

/// Whether an entry found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It did, and the next may come.
    Left,
    /// It did not, and has to be handed out again.
    None,
}
