//! Memory that a process and its successor map: sealed, in a file without a name (memfd_create(2)).
//!
//! One part consists of words, which any thread of either process may read and write at any time. The second part consists of buffers,
//! each of which one thread uses. The last part is not mapped; it is read and written by calls.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::slice;
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use parking_lot::Mutex;

/// The sizes of shared memory. It takes memory only for pages that were used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSizes {
    /// Number of words.
    pub words: usize,
    /// Number of buffers.
    pub buffers: usize,
    /// Length of each buffer in bytes.
    pub buffer_len: usize,
    /// Length of the last part in bytes.
    pub unmapped: usize,
}

/// Shared memory, which stays mapped until the process ends.
#[derive(Debug)]
pub struct SharedMemory {
    words: &'static [AtomicU64],
    buffers: Mutex<Vec<Option<&'static mut [u8]>>>,
    sizes: SharedSizes,
    file: File,
}

/// Both parts and each buffer begin at a page.
const ALIGNMENT: usize = 1 << 16;

impl SharedMemory {
    /// Creates shared memory that contains zeros.
    ///
    /// # Errors
    /// As memfd_create(2), ftruncate(2) and mmap(2) say.
    pub fn new(sizes: SharedSizes) -> io::Result<Self> {
        let fd = memfd_create(c"namegate-state", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let whole = sizes.mapped() + sizes.unmapped;
        ftruncate(&fd, i64::try_from(whole).map_err(|_| Errno::EFBIG)?)?;
        // An access beyond the end of a file that was cut off would end the process.
        fcntl(
            &fd,
            FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL),
        )?;
        Self::of(fd.into(), sizes)
    }

    /// The memory that another process has created with these sizes.
    ///
    /// # Errors
    /// InvalidData for any other file; otherwise as mmap(2) says.
    pub fn open(fd: OwnedFd, sizes: SharedSizes) -> io::Result<Self> {
        let file = File::from(fd);
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate);
        let is_whole = file.metadata()?.len() == (sizes.mapped() + sizes.unmapped) as u64;
        if !is_whole || !seals.is_ok_and(|seals| seals.contains(SealFlag::F_SEAL_SHRINK)) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::of(file, sizes)
    }

    fn of(file: File, sizes: SharedSizes) -> io::Result<Self> {
        let (all, len) = (map(&file, sizes.mapped())?, sizes.words_len());
        // SAFETY: the mapping is as long as this, aligned to pages, is never unmapped, and all bits are valid numbers; all accesses to this part
        // of it are atomic, in every process.
        let words = unsafe { slice::from_raw_parts(all.cast::<AtomicU64>(), sizes.words) };
        let buffer = |number: usize| {
            // SAFETY: the offset is within the mapping.
            let begin = unsafe { all.add(len + number * sizes.buffer_space()) };
            // SAFETY: as above; no other part overlaps it. Another process uses it only after the end of this one: see `buffer`.
            Some(unsafe { slice::from_raw_parts_mut(begin, sizes.buffer_len) })
        };
        let buffers = Mutex::new((0..sizes.buffers).map(buffer).collect());
        Ok(Self { words, buffers, sizes, file })
    }

    pub fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// The buffer with this number, for one caller. A process takes buffers only after all predecessors have ended.
    pub fn buffer(&self, number: usize) -> Option<&'static mut [u8]> {
        self.buffers.lock().get_mut(number)?.take()
    }

    /// A copy of the first `len` bytes of the buffer with this number.
    ///
    /// # Errors
    /// As pread(2) says.
    pub fn read_buffer(&self, number: usize, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len.min(self.sizes.buffer_len)];
        let at = self.sizes.words_len() + number * self.sizes.buffer_space();
        self.file.read_exact_at(&mut bytes, at as u64)?;
        Ok(bytes)
    }

    /// Reads from the last part.
    ///
    /// # Errors
    /// As pread(2) says.
    pub fn read_unmapped(&self, at: usize, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, (self.sizes.mapped() + at) as u64)?;
        Ok(bytes)
    }

    /// Writes to the last part.
    ///
    /// # Errors
    /// As pwrite(2) says; ENOSPC without memory.
    pub fn write_unmapped(&self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, (self.sizes.mapped() + at) as u64)
    }

    /// Gives back the memory of a range of the last part. If the kernel refuses, it stays.
    pub fn free_unmapped(&self, at: usize, len: usize) {
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let _ = fallocate(&self.file, mode, (self.sizes.mapped() + at) as i64, len as i64);
    }
}

impl SharedSizes {
    fn words_len(&self) -> usize {
        (self.words * size_of::<AtomicU64>()).next_multiple_of(ALIGNMENT)
    }

    fn buffer_space(&self) -> usize {
        self.buffer_len.next_multiple_of(ALIGNMENT)
    }

    fn mapped(&self) -> usize {
        self.words_len() + self.buffers * self.buffer_space()
    }
}

fn map(fd: impl AsFd, len: usize) -> io::Result<*mut u8> {
    let len = NonZeroUsize::new(len).ok_or(Errno::EINVAL)?.get();
    let fd = fd.as_fd().as_raw_fd();
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
    // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range was just mapped. A failure only makes core dumps larger.
    unsafe { libc::madvise(address, len, libc::MADV_DONTDUMP) };
    Ok(address.cast())
}

/// Keeps the pages of `buffer` in memory. They are present afterwards, even if the kernel refuses to lock them.
///
/// # Errors
/// ENOMEM or EPERM beyond RLIMIT_MEMLOCK: then they may be moved to swap.
pub fn keep_in_memory(buffer: &mut [u8]) -> nix::Result<()> {
    const PAGE: usize = 4096;
    for at in (0..buffer.len()).step_by(PAGE) {
        // The compiler must not leave out a write of the same value.
        std::hint::black_box(&mut buffer[at..])[0] = std::hint::black_box(buffer[at]);
    }
    // SAFETY: locking changes no memory.
    Errno::result(unsafe { libc::mlock(buffer.as_ptr().cast(), buffer.len()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn parts_do_not_overlap_and_a_buffer_has_one_user() {
        let sizes = SharedSizes { words: 9000, buffers: 2, buffer_len: 70_000, unmapped: 8192 };
        let memory = SharedMemory::new(sizes).unwrap();
        let (one, two) = (memory.buffer(0).unwrap(), memory.buffer(1).unwrap());
        assert!(memory.buffer(0).is_none() && memory.buffer(2).is_none());
        memory.words().iter().for_each(|word| word.store(u64::MAX, Relaxed));
        memory.write_unmapped(0, &[7; 8192]).unwrap();
        let _ = (keep_in_memory(one), keep_in_memory(two));
        assert!(one.iter().chain(two.iter()).all(|&byte| byte == 0));
        one.fill(1);
        two.fill(2);
        assert!(memory.words().iter().all(|word| word.load(Relaxed) == u64::MAX));
        assert_eq!(
            (memory.read_buffer(0, 3).unwrap(), memory.read_buffer(1, 3).unwrap()),
            (vec![1; 3], vec![2; 3])
        );
        assert_eq!(memory.read_unmapped(4095, 2).unwrap(), [7, 7]);
        memory.free_unmapped(4096, 4096);
        assert_eq!(memory.read_unmapped(4095, 2).unwrap(), [7, 0]);
        assert!(memory.read_unmapped(8191, 2).is_err());
        assert_eq!(ftruncate(&memory.file, 0), Err(Errno::EPERM));
        // Another program finds the same; it has buffers of its own.
        let again = || OwnedFd::from(memory.file.try_clone().unwrap());
        let other = SharedMemory::open(again(), sizes).unwrap();
        assert_eq!((other.words()[9].load(Relaxed), other.read_buffer(1, 1).unwrap()), (u64::MAX, vec![2]));
        assert!(SharedMemory::open(again(), SharedSizes { words: 1, ..sizes }).is_err());
        assert!(SharedMemory::open(File::open("/proc/self/exe").unwrap().into(), sizes).is_err());
    }
}
