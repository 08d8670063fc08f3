//! io_uring over which /dev/fuse hands out requests (io_uring(7), linux/io_uring.h, fuse-io-uring.rst of the kernel).
//!
//! The kernel copies a request into the buffer of an *entry* that was registered for a processor, and says so by a completion. The
//! reply is written into the same buffer, and a commit gives the entry back to the kernel. A buffer belongs to the kernel from its
//! registration or commit to the completion; this module lends it out at other times only.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;

/// Numbers of linux/io_uring.h.
mod number {
    pub(super) const SETUP_CQSIZE: u32 = 1 << 3;
    pub(super) const SETUP_CLAMP: u32 = 1 << 4;
    pub(super) const SETUP_R_DISABLED: u32 = 1 << 6;
    pub(super) const SETUP_SUBMIT_ALL: u32 = 1 << 7;
    pub(super) const SETUP_SQE128: u32 = 1 << 10;
    pub(super) const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
    pub(super) const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
    pub(super) const SETUP_NO_SQARRAY: u32 = 1 << 16;
    pub(super) const ENTER_GETEVENTS: u32 = 1;
    pub(super) const REGISTER_RESTRICTIONS: u32 = 11;
    pub(super) const REGISTER_ENABLE_RINGS: u32 = 12;
    /// `IORING_RESTRICTION_SQE_OP`.
    pub(super) const ALLOW_OPERATION: u16 = 1;
    pub(super) const OFFSET_RINGS: i64 = 0;
    pub(super) const OFFSET_SUBMISSIONS: i64 = 0x1000_0000;
    pub(super) const OP_READ: u8 = 22;
    pub(super) const OP_COMMAND: u8 = 46;
    /// `FUSE_IO_URING_CMD_REGISTER` of linux/fuse.h.
    pub(super) const FUSE_REGISTER: u32 = 1;
    /// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
    pub(super) const FUSE_COMMIT_AND_FETCH: u32 = 2;
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread: [u32; 2],
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    sq_off: Offsets,
    cq_off: Offsets,
}

/// `struct io_sqring_offsets` and `struct io_cqring_offsets`: the fourth word on has another meaning in each.
#[repr(C)]
#[derive(Default)]
struct Offsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags_or_overflow: u32,
    dropped_or_cqes: u32,
    rest: [u32; 2],
    user_addr: u64,
}

/// `struct io_uring_sqe` with IORING_SETUP_SQE128.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Submission {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    command: u32,
    padding: u32,
    addr: u64,
    len: u32,
    op_flags: u32,
    user_data: u64,
    buf_index: u32,
    splice_fd_in: i32,
    /// For commands of /dev/fuse it begins with `struct fuse_uring_cmd_req`: flags, commit id, and the number of the queue.
    argument: [u64; 10],
}

/// `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawCompletion {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// `struct io_uring_restriction`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Restriction {
    kind: u16,
    operation: u8,
    resv: u8,
    resv2: [u32; 3],
}

/// Where the parts of `struct fuse_uring_req_header` are.
const OPERATION_AT: usize = 128;
const COMMIT_ID_AT: usize = 264;
const PAYLOAD_LEN_AT: usize = 272;
const HEADER_LEN: usize = 288;
/// The longest header of an operation.
const OPERATION_LEN: usize = 128;
/// `sizeof(struct fuse_in_header)`.
const REQUEST_HEADER_LEN: usize = 40;

/// Where the payload begins in the buffer of an entry. Before it is room for the two headers, so that a request can be read in one
/// piece.
const PAYLOAD_AT: usize = 512;
/// Where the kernel finds the addresses of header and payload when an entry is registered.
const ADDRESSES_AT: usize = HEADER_LEN;

const _: () = assert!(size_of::<Submission>() == 128 && size_of::<Params>() == 120);
const _: () =
    assert!(ADDRESSES_AT + 2 * size_of::<libc::iovec>() + REQUEST_HEADER_LEN + OPERATION_LEN <= PAYLOAD_AT);

/// The number of an entry in its ring.
pub type EntryNumber = u32;

/// What the kernel reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A request is in the buffer of this entry.
    Request(EntryNumber),
    /// The kernel no longer uses this entry: its registration or its commit failed, or the mount is gone.
    Ended(EntryNumber, Errno),
    /// The event descriptor was written to.
    Woken,
}

/// `user_data` of the read of the event descriptor.
const WAKING: u64 = u64::MAX;

#[derive(Debug)]
struct EntryBuffer {
    /// Mapped until the process ends: the kernel may write to it as long as the ring exists.
    begin: *mut u8,
    queue: u16,
    is_lent: bool,
}

/// A ring, for the thread that creates it.
#[derive(Debug)]
pub struct FuseRing {
    ring: OwnedFd,
    submissions: SubmissionQueue,
    completions: CompletionQueue,
    entries: Vec<EntryBuffer>,
    payload_len: usize,
    event: OwnedFd,
    /// Where the kernel puts what it reads from the event descriptor. Mapped until the process ends.
    event_value: *mut u8,
}

/// Mapped memory, which stays mapped until the process ends.
#[derive(Debug)]
struct SubmissionQueue {
    head: &'static AtomicU32,
    tail: &'static AtomicU32,
    mask: u32,
    slots: *mut Submission,
}

#[derive(Debug)]
struct CompletionQueue {
    head: &'static AtomicU32,
    tail: &'static AtomicU32,
    mask: u32,
    slots: *const RawCompletion,
}

impl FuseRing {
    /// Creates a ring of which this thread alone submits and waits, for requests and replies with up to `payload_len` bytes beside
    /// their headers. It can do nothing but talk to a device and read.
    ///
    /// # Errors
    /// ENOSYS and EINVAL on a kernel that is too old; EPERM where io_uring is forbidden (`kernel.io_uring_disabled`, seccomp);
    /// otherwise as io_uring_setup(2) says.
    pub fn new(payload_len: usize, completions: u32) -> io::Result<Self> {
        const SUBMISSIONS: u32 = 64;
        let mut params = Params {
            flags: number::SETUP_CQSIZE
                | number::SETUP_CLAMP
                | number::SETUP_R_DISABLED
                | number::SETUP_SUBMIT_ALL
                | number::SETUP_SQE128
                | number::SETUP_SINGLE_ISSUER
                | number::SETUP_DEFER_TASKRUN
                | number::SETUP_NO_SQARRAY,
            cq_entries: completions,
            ..Params::default()
        };
        // SAFETY: the kernel reads and writes one `struct io_uring_params`.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, SUBMISSIONS, &raw mut params) };
        // SAFETY: the descriptor is new.
        let ring = unsafe { OwnedFd::from_raw_fd(Errno::result(fd)? as RawFd) };
        let (sq, cq) = (&params.sq_off, &params.cq_off);
        let completions_at = cq.dropped_or_cqes as usize;
        let rings_len = completions_at + params.cq_entries as usize * size_of::<RawCompletion>();
        let rings = map(rings_len, Some((&ring, number::OFFSET_RINGS)))?;
        let slots_len = params.sq_entries as usize * size_of::<Submission>();
        let slots = map(slots_len, Some((&ring, number::OFFSET_SUBMISSIONS)))?;
        // SAFETY: the kernel keeps a number of 32 bits at each of these offsets of the mapping, which is never unmapped, and both sides
        // access it atomically.
        let word = |offset: u32| unsafe { &*rings.add(offset as usize).cast::<AtomicU32>() };
        let submissions = SubmissionQueue {
            head: word(sq.head),
            tail: word(sq.tail),
            mask: word(sq.ring_mask).load(Ordering::Relaxed),
            slots: slots.cast(),
        };
        let completions = CompletionQueue {
            head: word(cq.head),
            tail: word(cq.tail),
            mask: word(cq.ring_mask).load(Ordering::Relaxed),
            // SAFETY: the offset is within the mapping.
            slots: unsafe { rings.add(completions_at) }.cast(),
        };
        // SAFETY: the call touches no memory.
        let event = Errno::result(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        // SAFETY: the descriptor is new.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let event_value = map(size_of::<u64>(), None)?;
        let entries = Vec::new();
        let mut new = Self { ring, submissions, completions, entries, payload_len, event, event_value };
        new.enable()?;
        new.await_event()?;
        Ok(new)
    }

    /// Restricts the ring to two operations, so that it is no way around a filter of system calls, and enables it.
    fn enable(&self) -> nix::Result<()> {
        let allowed = [number::OP_COMMAND, number::OP_READ].map(|operation| Restriction {
            kind: number::ALLOW_OPERATION,
            operation,
            resv: 0,
            resv2: [0; 3],
        });
        let register = |what: u32, argument: *const Restriction, count: usize| {
            let ring = self.ring.as_raw_fd();
            // SAFETY: the kernel reads `count` restrictions, which outlive the call.
            Errno::result(unsafe { libc::syscall(libc::SYS_io_uring_register, ring, what, argument, count) })
        };
        register(number::REGISTER_RESTRICTIONS, allowed.as_ptr(), allowed.len())?;
        register(number::REGISTER_ENABLE_RINGS, std::ptr::null(), 0).map(drop)
    }

    /// A descriptor; a number of 64 bits that any thread writes to it wakes the thread that waits here (eventfd(2)).
    ///
    /// # Errors
    /// As dup(2) says.
    pub fn event(&self) -> io::Result<OwnedFd> {
        self.event.try_clone()
    }

    /// Asks for the next [`Completion::Woken`].
    ///
    /// # Errors
    /// As [`FuseRing::submit`].
    pub fn await_event(&mut self) -> nix::Result<()> {
        self.push(Submission {
            opcode: number::OP_READ,
            fd: self.event.as_raw_fd(),
            addr: self.event_value as u64,
            len: size_of::<u64>() as u32,
            user_data: WAKING,
            ..Submission::default()
        })
    }

    /// Registers one more entry with `device`, for requests of the processor `queue`. The kernel has it after [`FuseRing::submit`].
    ///
    /// # Errors
    /// ENOMEM; otherwise as [`FuseRing::submit`]. What the kernel refuses comes as [`Completion::Ended`].
    pub fn register(&mut self, device: RawFd, queue: u16) -> nix::Result<EntryNumber> {
        let begin = map(self.buffer_len(), None).map_err(|_| Errno::ENOMEM)?;
        let number = EntryNumber::try_from(self.entries.len()).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: both offsets are within the mapping, and the addresses are aligned as it is.
        let addresses = unsafe {
            let addresses = begin.add(ADDRESSES_AT).cast::<[libc::iovec; 2]>();
            *addresses = [
                libc::iovec { iov_base: begin.cast(), iov_len: HEADER_LEN },
                libc::iovec { iov_base: begin.add(PAYLOAD_AT).cast(), iov_len: self.payload_len },
            ];
            addresses
        };
        self.entries.push(EntryBuffer { begin, queue, is_lent: false });
        let mut argument = [0; 10];
        argument[2] = queue.into();
        self.push(Submission {
            opcode: number::OP_COMMAND,
            fd: device,
            command: number::FUSE_REGISTER,
            addr: addresses as u64,
            len: 2,
            user_data: number.into(),
            argument,
            ..Submission::default()
        })?;
        Ok(number)
    }

    /// The processor for whose requests an entry was registered.
    pub fn queue(&self, entry: EntryNumber) -> Option<u16> {
        self.entries.get(entry as usize).map(|entry| entry.queue)
    }

    fn buffer_len(&self) -> usize {
        PAYLOAD_AT + self.payload_len
    }

    /// The buffer of an entry that the kernel has completed.
    fn buffer(&mut self, entry: EntryNumber) -> Option<&mut [u8]> {
        let len = self.buffer_len();
        let entry = self.entries.get(entry as usize).filter(|entry| entry.is_lent)?;
        // SAFETY: the mapping is as long as this, and is never unmapped. The kernel does not access it before the commit, which ends the
        // loan; and the borrow of `self` ends before.
        Some(unsafe { slice::from_raw_parts_mut(entry.begin, len) })
    }

    /// The request in the buffer of an entry, as read(2) of the device would return it; `None` if there is none, or if its lengths
    /// contradict each other.
    pub fn request(&mut self, entry: EntryNumber) -> Option<&[u8]> {
        let payload_len = self.payload_len;
        let buffer = self.buffer(entry)?;
        let word = |at: usize| Some(u32::from_ne_bytes(buffer[at..at + 4].try_into().ok()?) as usize);
        let (len, payload) = (word(0)?, word(PAYLOAD_LEN_AT)?);
        let operation = len.checked_sub(REQUEST_HEADER_LEN)?.checked_sub(payload)?;
        if operation > OPERATION_LEN || payload > payload_len {
            return None;
        }
        let begin = PAYLOAD_AT - operation - REQUEST_HEADER_LEN;
        buffer.copy_within(..REQUEST_HEADER_LEN, begin);
        buffer.copy_within(OPERATION_AT..OPERATION_AT + operation, begin + REQUEST_HEADER_LEN);
        Some(&buffer[begin..PAYLOAD_AT + payload])
    }

    /// The number of the request in the buffer of an entry.
    pub fn unique(&mut self, entry: EntryNumber) -> Option<u64> {
        let bytes = self.buffer(entry)?.get(COMMIT_ID_AT..COMMIT_ID_AT + 8)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }

    /// Replies to the request of an entry with `header`, a `struct fuse_out_header`, and `payload`. The kernel has the reply and the
    /// entry after [`FuseRing::submit`].
    ///
    /// # Errors
    /// EINVAL for an entry without a request, EMSGSIZE if the reply is too long; otherwise as [`FuseRing::submit`]. What the kernel
    /// refuses comes as [`Completion::Ended`].
    pub fn commit(
        &mut self,
        device: RawFd,
        entry: EntryNumber,
        header: &[u8],
        payload: &[u8],
    ) -> nix::Result<()> {
        let (payload_len, unique) = (self.payload_len, self.unique(entry).ok_or(Errno::EINVAL)?);
        let buffer = self.buffer(entry).ok_or(Errno::EINVAL)?;
        if payload.len() > payload_len || header.len() > OPERATION_AT {
            return Err(Errno::EMSGSIZE);
        }
        buffer[..header.len()].copy_from_slice(header);
        buffer[PAYLOAD_LEN_AT..PAYLOAD_LEN_AT + 4].copy_from_slice(&(payload.len() as u32).to_ne_bytes());
        buffer[PAYLOAD_AT..PAYLOAD_AT + payload.len()].copy_from_slice(payload);
        let owner = &mut self.entries[entry as usize];
        owner.is_lent = false;
        let mut argument = [0; 10];
        (argument[1], argument[2]) = (unique, owner.queue.into());
        self.push(Submission {
            opcode: number::OP_COMMAND,
            fd: device,
            command: number::FUSE_COMMIT_AND_FETCH,
            user_data: entry.into(),
            argument,
            ..Submission::default()
        })
    }

    fn push(&mut self, submission: Submission) -> nix::Result<()> {
        let SubmissionQueue { head, tail, mask, slots } = &self.submissions;
        let at = tail.load(Ordering::Relaxed);
        if at.wrapping_sub(head.load(Ordering::Acquire)) > *mask {
            self.submit()?;
        }
        // SAFETY: there are `mask` + 1 slots, and the kernel reads none behind the tail.
        unsafe { *slots.add((at & mask) as usize) = submission };
        tail.store(at.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Hands all registrations and commits to the kernel.
    ///
    /// # Errors
    /// As io_uring_enter(2) says.
    pub fn submit(&self) -> nix::Result<()> {
        self.enter(0, 0)
    }

    /// Hands all registrations and commits to the kernel, and waits until there is a completion.
    ///
    /// # Errors
    /// As io_uring_enter(2) says.
    pub fn wait(&self) -> nix::Result<()> {
        self.enter(1, number::ENTER_GETEVENTS)
    }

    /// Hands all registrations and commits to the kernel, and has it report what is complete.
    ///
    /// # Errors
    /// As io_uring_enter(2) says.
    pub fn poll(&self) -> nix::Result<()> {
        self.enter(0, number::ENTER_GETEVENTS)
    }

    fn enter(&self, wanted: u32, flags: u32) -> nix::Result<()> {
        let SubmissionQueue { head, tail, .. } = &self.submissions;
        loop {
            let waiting = tail.load(Ordering::Relaxed).wrapping_sub(head.load(Ordering::Acquire));
            let (ring, no_mask) = (self.ring.as_raw_fd(), std::ptr::null::<libc::sigset_t>());
            // SAFETY: the kernel reads submissions, whose buffers stay mapped, and writes into buffers that are not lent.
            let entered =
                unsafe { libc::syscall(libc::SYS_io_uring_enter, ring, waiting, wanted, flags, no_mask, 0) };
            match Errno::result(entered) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                // The kernel is short of memory for the moment.
                Err(Errno::EAGAIN | Errno::EBUSY) => std::thread::yield_now(),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The next completion; `None` if there is none.
    pub fn completion(&mut self) -> Option<Completion> {
        let CompletionQueue { head, tail, mask, slots } = &self.completions;
        let at = head.load(Ordering::Relaxed);
        if at == tail.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: there are `mask` + 1 slots, and the kernel writes none before the tail until the head has passed it.
        let RawCompletion { user_data, result, .. } = unsafe { *slots.add((at & mask) as usize) };
        head.store(at.wrapping_add(1), Ordering::Release);
        if user_data == WAKING {
            return Some(Completion::Woken);
        }
        let number = user_data as EntryNumber;
        Some(match result {
            0.. => {
                if let Some(entry) = self.entries.get_mut(number as usize) {
                    entry.is_lent = true;
                }
                Completion::Request(number)
            }
            _ => Completion::Ended(number, Errno::from_raw(-result)),
        })
    }
}

/// Maps memory until the process ends: of its own, or that of a ring from an offset on.
fn map(len: usize, ring: Option<(&OwnedFd, i64)>) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, fd, offset) = match ring {
        Some((ring, offset)) => (libc::MAP_SHARED | libc::MAP_POPULATE, ring.as_raw_fd(), offset),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
    };
    // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Most requests use one page of a buffer.
    for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_DONTDUMP] {
        // SAFETY: the range was just mapped. A failure only costs memory, or makes core dumps larger.
        unsafe { libc::madvise(address, len, advice) };
    }
    Ok(address.cast())
}

#[cfg(test)]
mod tests {
    use nix::unistd::write;

    use super::*;

    #[test]
    fn a_ring_wakes_and_reports_what_the_kernel_refuses() {
        let mut ring = match FuseRing::new(8192, 128) {
            Ok(ring) => ring,
            Err(error) => return println!("SKIPPED: io_uring: {error}"),
        };
        assert_eq!(ring.completion(), None);
        let event = ring.event().unwrap();
        for _ in 0..3 {
            write(&event, &1u64.to_ne_bytes()).unwrap();
            ring.wait().unwrap();
            assert_eq!((ring.completion(), ring.completion()), (Some(Completion::Woken), None));
            ring.await_event().unwrap();
        }
        // More entries than submissions have room, and a file that takes no commands.
        let device = std::fs::File::open("/proc/self/stat").unwrap();
        for number in 0..100 {
            assert_eq!(ring.register(device.as_raw_fd(), 7), Ok(number));
        }
        ring.poll().unwrap();
        let ended = std::iter::from_fn(|| ring.completion()).collect::<Vec<_>>();
        assert_eq!(ended.len(), 100);
        assert!(
            ended.iter().all(|ended| matches!(ended, Completion::Ended(_, Errno::EOPNOTSUPP))),
            "{ended:?}"
        );
        // No buffer is lent.
        assert!(ring.request(3).is_none() && ring.request(1000).is_none());
        assert_eq!(ring.commit(device.as_raw_fd(), 3, &[0; 16], &[]), Err(Errno::EINVAL));
    }
}
