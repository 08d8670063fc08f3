//! Open directories and their entries.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use nix::fcntl::OFlag;
use nix::unistd::{Whence, lseek};

use super::{Fh, NodeId, Passthrough, Result};
use crate::sys::directory;
use crate::sys::open::again;

/// Room for some 500 entries of ordinary length.
const BUFFER: usize = 16 * 1024;

/// An open directory.
#[derive(Debug)]
pub struct OpenDir {
    file: File,
    stream: Mutex<Stream>,
}

/// What has been read and not yet handed out.
#[derive(Debug)]
struct Stream {
    buffer: Box<[u8]>,
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
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Passthrough {
    /// Opens a directory.
    ///
    /// # Errors
    /// As open(2) says.
    pub fn opendir(&self, node: NodeId) -> Result<Fh> {
        let dir = again(&*self.fd(node)?, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK)?;
        let stream = Stream { buffer: vec![0; BUFFER].into(), filled: 0..0, position: 0 };
        Ok(self.dirs.add(OpenDir { file: dir.into(), stream: Mutex::new(stream) }))
    }

    /// Hands the entries from `offset` on to `take`, until it says that it has no room for the one it got.
    ///
    /// `offset` is 0 or the `next` of an entry.
    ///
    /// # Errors
    /// As getdents64(2) says, if nothing has been handed out before.
    pub fn readdir(&self, fh: Fh, offset: u64, mut take: impl FnMut(&DirEntry<'_>) -> Room) -> Result<()> {
        let dir = self.dirs.get(fh)?;
        let mut stream = dir.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let Stream { buffer, filled, position } = &mut *stream;
        // At 0 the directory is read anew: rewinddir(3) promises to show what has changed.
        if offset != *position || offset == 0 {
            // A value of d_off is opaque: the kernel's u64 and its off_t are the same bits.
            lseek(&dir.file, offset as i64, Whence::SeekSet)?;
            (*filled, *position) = (0..0, offset);
        }
        let mut is_first = true;
        loop {
            let Some((entry, len)) = directory::first(&buffer[filled.clone()]) else {
                *filled = 0..match directory::read(&dir.file, buffer) {
                    Err(error) if is_first => return Err(error),
                    Ok(0) | Err(_) => return Ok(()),
                    Ok(read) => read,
                };
                continue;
            };
            let next = entry.next as u64;
            let handed = DirEntry { name: entry.name, ino: entry.ino, kind: entry.kind, next };
            match take(&handed) {
                Room::None => return Ok(()),
                Room::Left => (filled.start, *position, is_first) = (filled.start + len, next, false),
            }
        }
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
        self.dirs.remove(fh);
    }
}

/// Whether an entry found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It did, and the next may come.
    Left,
    /// It did not, and has to be handed out again.
    None,
}
