//! The content of open files: reading, writing, allocating, copying.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use namegate_sys::nowait;
use nix::errno::Errno;
use nix::fcntl::FallocateFlags;
use nix::unistd::{Whence, lseek};

use super::file::errno;
use super::{Caller, Fh, Passthrough, Result, SetId};

/// Arguments of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyRange {
    /// File to read.
    pub from: Fh,
    /// Offset of the first byte to read.
    pub from_offset: u64,
    /// File to write.
    pub to: Fh,
    /// Offset of the first byte to write.
    pub to_offset: u64,
    /// Number of bytes.
    pub len: u64,
}

fn signed(offset: u64) -> Result<i64> {
    i64::try_from(offset).map_err(|_| Errno::EINVAL)
}

impl Passthrough {
    /// Reads from `offset` into `buffer` and returns the number of bytes; the buffer is filled except at the end of the file.
    ///
    /// # Errors
    /// As pread(2) says.
    pub fn read(&self, fh: Fh, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let open = self.files.get(fh)?;
        let file = self.file(&open)?;
        open.note_cached();
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64).map_err(errno) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::EINTR) => {}
                // Return what was read; the next request gets the error.
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Reads as [`Passthrough::read`] does, unless it would wait for a disk and the file system can tell.
    ///
    /// # Errors
    /// As pread(2) says; EAGAIN when some of the range is not cached.
    pub fn read_at_hand(&self, fh: Fh, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let open = self.files.get(fh)?;
        let file = self.file(&open)?;
        open.note_cached();
        let (mut filled, offset) = (0, signed(offset)?);
        while filled < buffer.len() {
            match nowait::read_at(&*file, &mut buffer[filled..], offset.saturating_add(filled as i64)) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::EINTR) => {}
                Err(error) if filled > 0 && error != Errno::EAGAIN => break,
                Err(Errno::EOPNOTSUPP) => return self.read(fh, offset.unsigned_abs(), buffer),
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Writes `data` at `offset` and returns the number of bytes written. `writer` is `None` for changes through a memory map; they
    /// are charged to the user who opened the file.
    ///
    /// # Errors
    /// As pwrite(2) says.
    pub fn write(
        &self,
        writer: Option<&Caller>,
        fh: Fh,
        offset: u64,
        data: &[u8],
        set_id: SetId,
    ) -> Result<usize> {
        let open = self.files.get(fh)?;
        let file = self.file(&open)?;
        if open.appends()
            && let Some(written) = self.nodes.journal.begin_or_recover_append(file.as_fd(), data.len())
        {
            return Ok(written);
        }
        let writer = writer.unwrap_or(open.opener());
        self.changing(open.node(), writer, set_id, || file.write_at(data, offset).map_err(errno))
    }

    /// Allocates, punches, collapses or zeroes a range, as `mode` says.
    ///
    /// # Errors
    /// As fallocate(2) says.
    pub fn fallocate(&self, caller: &Caller, fh: Fh, mode: i32, offset: u64, len: u64) -> Result<()> {
        let mode = FallocateFlags::from_bits(mode).ok_or(Errno::EOPNOTSUPP)?;
        let (open, offset, len) = (self.files.get(fh)?, signed(offset)?, signed(len)?);
        let file = self.file(&open)?;
        let allocate = || nix::fcntl::fallocate(&file, mode, offset, len);
        self.changing(open.node(), caller, SetId::AsCaller, allocate)
    }

    /// The next data (SEEK_DATA) or hole (SEEK_HOLE) at or after `offset`. The kernel handles other values of `whence`.
    ///
    /// # Errors
    /// ENXIO beyond the end; EINVAL for another `whence`.
    pub fn lseek(&self, fh: Fh, offset: i64, whence: i32) -> Result<i64> {
        let whence = match whence {
            libc::SEEK_DATA => Whence::SeekData,
            libc::SEEK_HOLE => Whence::SeekHole,
            _ => return Err(Errno::EINVAL),
        };
        let open = self.files.get(fh)?;
        lseek(self.file_to_read(&open)?, offset, whence)
    }

    /// Copies within the backing tree and returns the number of bytes copied.
    ///
    /// # Errors
    /// As copy_file_range(2) says.
    pub fn copy_file_range(&self, caller: &Caller, range: &CopyRange) -> Result<usize> {
        // The caller repeats the call for the rest. This bounds the wait of others for the file, the disk or the thread, and lets a
        // signal end a long copy.
        const MAX_COPY: usize = 16 << 20;
        let (from, to) = (self.files.get(range.from)?, self.files.get(range.to)?);
        let (mut from_offset, mut to_offset) = (signed(range.from_offset)?, signed(range.to_offset)?);
        let len = usize::try_from(range.len).map_or(MAX_COPY, |len| len.min(MAX_COPY));
        let (source, target) = (self.file(&from)?, self.file(&to)?);
        self.changing(to.node(), caller, SetId::AsCaller, || {
            nix::fcntl::copy_file_range(&source, Some(&mut from_offset), &target, Some(&mut to_offset), len)
        })
    }
}
