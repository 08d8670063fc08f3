//! Open files and their content.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag};
use nix::sys::stat::{SFlag, fstat};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC};
use nix::unistd::{Whence, dup, lseek};

use super::credentials::ClearingSetId;
use super::inode::Node;
use super::{Fh, NodeId, Passthrough, Result, SetId};

/// An open file.
///
/// Where the kernel reads and writes the backing file by itself, most opened files are never touched here: the descriptor
/// is made when the first request needs it. The kernel holds the inode until then, so that it is found by its handle.
#[derive(Debug)]
pub(super) struct OpenFile {
    node: Arc<Node>,
    flags: OFlag,
    file: OnceLock<File>,
}

/// From where to where bytes are copied.
#[derive(Clone, Copy, Debug)]
pub struct CopyRange {
    /// What is read.
    pub from: Fh,
    /// From which byte on.
    pub from_offset: u64,
    /// What is written.
    pub to: Fh,
    /// From which byte on.
    pub to_offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// The flags with which the server opens a file that a client opened with `flags`.
///
/// O_DIRECT asks for aligned buffers that the server has no say in; what creates and truncates is done by then.
pub(super) fn opened_as(flags: OFlag) -> OFlag {
    flags & (OFlag::O_ACCMODE | OFlag::O_APPEND | OFlag::O_SYNC | OFlag::O_DSYNC | OFlag::O_NOATIME)
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn signed(offset: u64) -> Result<i64> {
    i64::try_from(offset).map_err(|_| Errno::EINVAL)
}

impl OpenFile {
    pub(super) fn opened(node: Arc<Node>, flags: OFlag, file: OwnedFd) -> Self {
        Self { node, flags, file: OnceLock::from(File::from(file)) }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.flags & OFlag::O_ACCMODE != OFlag::O_RDONLY
    }
}

/// Of linux/magic.h; nix has it for the GNU C library alone.
const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);

/// File systems of this machine's own, whose close(2) has nothing to say: none of them has a `flush` of its own.
pub(super) fn closes_silently(kind: FsType) -> bool {
    [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC].contains(&kind)
}

impl Passthrough {
    pub(super) fn file<'o>(&self, open: &'o OpenFile) -> Result<&'o File> {
        if let Some(file) = open.file.get() {
            return Ok(file);
        }
        let file = File::from(self.nodes.open(&open.node, opened_as(open.flags))?);
        // Two requests may come here at once; the descriptor that comes second is closed again.
        Ok(open.file.get_or_init(|| file))
    }

    /// Opens a regular file; `flags` are those of open(2). Where the kernel does not open the backing file for itself,
    /// [`Passthrough::open_now`] comes next.
    ///
    /// # Errors
    /// EINVAL for what is no regular file; no kernel asks for that.
    pub fn open(&self, node: NodeId, flags: i32) -> Result<Fh> {
        let node = self.nodes.node(node)?;
        if node.kind != SFlag::S_IFREG {
            return Err(Errno::EINVAL);
        }
        let flags = OFlag::from_bits_truncate(flags);
        Ok(self.files.add(OpenFile { node, flags, file: OnceLock::new() }))
    }

    /// Opens the backing file, unless it is open, so that what can be wrong with that shows now.
    ///
    /// # Errors
    /// As open(2) says.
    pub fn open_now(&self, fh: Fh) -> Result<()> {
        self.file(&*self.files.get(fh)?).map(drop)
    }

    /// Gives an `O_PATH` descriptor of a file to `take`, which lets somebody else read and write the file for everybody who
    /// opens it, with the rights that this thread has in the meantime: changes clear set-id bits, whoever makes them.
    ///
    /// Nothing for a file with set-id bits, on which they would have to stay where root makes the change: changes to it
    /// come one by one.
    ///
    /// # Errors
    /// Those of `take`; ESTALE when the file is gone.
    pub fn lend<T>(
        &self,
        node: NodeId,
        take: impl FnOnce(&OwnedFd) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let fd = self.fd(node)?;
        if fstat(&*fd)?.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
            return Ok(None);
        }
        let _clearing = ClearingSetId::new()?;
        take(&fd).map(Some)
    }

    /// Whether the file system of `node` may have something to say when the file is closed.
    pub fn has_flush(&self, node: NodeId) -> bool {
        !(self.closes_silently && self.nodes.is_own(node))
    }

    /// Reads into `buffer` from `offset` on, and returns how many bytes; fewer than there is room for at the end alone.
    ///
    /// # Errors
    /// As pread(2) says.
    pub fn read(&self, fh: Fh, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let open = self.files.get(fh)?;
        let file = self.file(&open)?;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64).map_err(errno) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::EINTR) => {}
                // What was read before is worth more than the error, which comes back with the next request.
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Writes `data` from `offset` on, and returns how much of it was written.
    ///
    /// # Errors
    /// As pwrite(2) says.
    pub fn write(&self, fh: Fh, offset: u64, data: &[u8], set_id: SetId) -> Result<usize> {
        let open = self.files.get(fh)?;
        let file = self.file(&open)?;
        set_id.changing(|| file.write_at(data, offset).map_err(errno))
    }

    /// Somebody closed a descriptor of the file: what its file system has to say about that.
    ///
    /// # Errors
    /// As close(2) says.
    pub fn flush(&self, fh: Fh) -> Result<()> {
        let open = self.files.get(fh)?;
        match open.file.get() {
            Some(file) => nix::unistd::close(dup(file)?),
            None => Ok(()),
        }
    }

    /// Closes the file for good.
    pub fn release(&self, fh: Fh) {
        self.files.remove(fh);
    }

    /// Brings the file to the disk, or with `data_only` its content.
    ///
    /// # Errors
    /// As fsync(2) says.
    pub fn fsync(&self, fh: Fh, data_only: bool) -> Result<()> {
        let open = self.files.get(fh)?;
        let file = self.file(&open)?;
        if data_only { file.sync_data() } else { file.sync_all() }.map_err(errno)
    }

    /// Allocates, punches, collapses or zeroes a range, as `mode` says.
    ///
    /// # Errors
    /// As fallocate(2) says.
    pub fn fallocate(&self, fh: Fh, mode: i32, offset: u64, len: u64, set_id: SetId) -> Result<()> {
        let mode = FallocateFlags::from_bits(mode).ok_or(Errno::EOPNOTSUPP)?;
        let (open, offset, len) = (self.files.get(fh)?, signed(offset)?, signed(len)?);
        let file = self.file(&open)?;
        set_id.changing(|| nix::fcntl::fallocate(file, mode, offset, len))
    }

    /// The next data (SEEK_DATA) or hole (SEEK_HOLE) from `offset` on. Other places the kernel finds by itself.
    ///
    /// # Errors
    /// ENXIO behind the end; EINVAL for another `whence`.
    pub fn lseek(&self, fh: Fh, offset: i64, whence: i32) -> Result<i64> {
        let whence = match whence {
            libc::SEEK_DATA => Whence::SeekData,
            libc::SEEK_HOLE => Whence::SeekHole,
            _ => return Err(Errno::EINVAL),
        };
        let open = self.files.get(fh)?;
        lseek(self.file(&open)?, offset, whence)
    }

    /// Copies within the backing tree, and returns how many bytes.
    ///
    /// # Errors
    /// As copy_file_range(2) says.
    pub fn copy_file_range(&self, range: &CopyRange, set_id: SetId) -> Result<usize> {
        // More than one reply can tell of; the caller comes back for the rest.
        const MOST: usize = 1 << 30;
        let (from, to) = (self.files.get(range.from)?, self.files.get(range.to)?);
        let (mut from_offset, mut to_offset) = (signed(range.from_offset)?, signed(range.to_offset)?);
        let len = usize::try_from(range.len).map_or(MOST, |len| len.min(MOST));
        let (from, to) = (self.file(&from)?, self.file(&to)?);
        set_id.changing(|| {
            nix::fcntl::copy_file_range(from, Some(&mut from_offset), to, Some(&mut to_offset), len)
        })
    }
}
