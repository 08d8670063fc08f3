//! A descriptor of /dev/fuse: messages are read from it and written to it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use namegate_sys::fuse::clone_connection;
use nix::errno::Errno;
use nix::sys::uio::writev;
use nix::unistd::read;
use zerocopy::IntoBytes;

use super::abi::OutHeader;
use super::journal::{NoJournal, RequestJournal};
use super::stop::Reader;

/// A descriptor of a connection with the kernel. What is read from it is answered on it.
#[derive(Debug)]
pub struct Device {
    fd: OwnedFd,
    journal: &'static dyn RequestJournal,
}

impl Device {
    /// Uses `fd`, /dev/fuse with a mount, and records nothing.
    pub fn new(fd: OwnedFd) -> Self {
        Self::recorded(fd, &NoJournal)
    }

    /// Uses `fd`, and records replies in `journal`.
    pub(super) fn recorded(fd: OwnedFd, journal: &'static dyn RequestJournal) -> Self {
        Self { fd, journal }
    }

    /// Another descriptor of the connection, with the same journal.
    pub(super) fn clone_connection(&self) -> io::Result<Self> {
        Ok(Self::recorded(clone_connection(&self.fd)?, self.journal))
    }

    pub(super) fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    pub(super) fn journal(&self) -> &'static dyn RequestJournal {
        self.journal
    }

    /// A buffer for messages, if reads and writes are at most `max_transfer` bytes long.
    pub fn buffer(max_transfer: u32) -> Vec<u8> {
        vec![0; Self::buffer_len(max_transfer)]
    }

    /// The length of such a buffer.
    pub fn buffer_len(max_transfer: u32) -> usize {
        /// Room for the headers of a request beside its data. The kernel asks for 8 KiB at least.
        const HEADERS: usize = 8192;
        max_transfer as usize + HEADERS
    }

    /// Waits for the next message; `None` when the mount is gone.
    ///
    /// # Errors
    /// As read(2) of /dev/fuse says; EINVAL if `buffer` is too small for the longest write.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        self.receive_unless(None, buffer)
    }

    /// As [`Device::receive`]; `None` also when the threads that read requests are to stop.
    pub(super) fn receive_unless<'b>(
        &self,
        reader: Option<&Reader>,
        buffer: &'b mut [u8],
    ) -> io::Result<Option<&'b [u8]>> {
        loop {
            if reader.is_some_and(Reader::is_to_stop) {
                return Ok(None);
            }
            let received = match reader {
                None => read(&self.fd, buffer),
                Some(reader) => reader.waiting(|| read(&self.fd, buffer)),
            };
            match received {
                // Only a test that plays the kernel closes its end.
                Ok(0) | Err(Errno::ENODEV) => return Ok(None),
                Ok(len) => return Ok(Some(&buffer[..len])),
                // ENOENT: the client was interrupted while the request was being read.
                Err(Errno::ENOENT | Errno::EINTR | Errno::EAGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Replies to the request `unique`, and records that.
    pub(super) fn reply(&self, error: i32, unique: u64, parts: &[&[u8]]) {
        self.journal.replying(unique, error, parts);
        let sent = self.send(error, unique, parts);
        self.journal.replied(unique);
        match sent {
            Ok(()) => {}
            // The client was interrupted before the reply came, or the mount is gone.
            Err(Errno::ENOENT | Errno::ENODEV | Errno::EPERM | Errno::ECONNABORTED) => {}
            Err(errno) => {
                log::debug!("the kernel does not accept a reply: {errno}");
                // Otherwise the client hangs.
                let _ = self.send(-libc::EIO, unique, &[]);
            }
        }
    }

    /// Sends the kernel a message: a reply to `unique`, or with 0 a notification of the kind `error`.
    pub(super) fn send(&self, error: i32, unique: u64, parts: &[&[u8]]) -> nix::Result<()> {
        let len = parts.iter().map(|part| part.len()).sum();
        let head = header(len, error, unique).ok_or(Errno::EMSGSIZE)?;
        let all = std::iter::once(head.as_bytes()).chain(parts.iter().copied());
        let slices: Vec<_> = all.map(io::IoSlice::new).collect();
        // The kernel takes a message as a whole or not at all.
        writev(&self.fd, &slices).map(drop)
    }
}

/// The header of a message to the kernel with a body of `len` bytes.
pub(super) fn header(len: usize, error: i32, unique: u64) -> Option<OutHeader> {
    let len = u32::try_from(size_of::<OutHeader>() + len).ok()?;
    Some(OutHeader { len, error, unique })
}
