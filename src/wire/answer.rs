//! Replies to requests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use nix::errno::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::abi::{Dirent, EntryOut, OutHeader};
use super::device::Device;
use super::ring::RingEntry;
use crate::state::journal;

/// The way back of a reply: the one on which its request came.
#[derive(Clone, Debug)]
pub enum ReplyPath {
    /// A descriptor of /dev/fuse.
    Device(Arc<Device>),
    Ring(RingEntry),
}

/// The reply to one request. If it is dropped, the client gets EIO: no client waits for ever.
#[derive(Debug)]
pub struct Reply {
    path: Option<ReplyPath>,
    unique: u64,
}

impl Reply {
    /// The reply to the request `unique`, which came on `path`.
    pub fn new(path: ReplyPath, unique: u64) -> Self {
        Self { path: Some(path), unique }
    }

    /// The number of the request.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Fails the request.
    pub fn error(mut self, errno: Errno) {
        self.send(-(errno as i32), &[]);
    }

    /// Replies with nothing but success.
    pub fn done(self) {
        self.bytes(&[]);
    }

    /// Replies with one message.
    pub fn message(self, message: &(impl IntoBytes + Immutable)) {
        self.bytes(message.as_bytes());
    }

    /// Replies with these bytes.
    pub fn bytes(self, bytes: &[u8]) {
        self.parts(&[bytes]);
    }

    /// Replies with these bytes, one after the other.
    pub fn parts(mut self, parts: &[&[u8]]) {
        self.send(0, parts);
    }

    fn send(&mut self, error: i32, parts: &[&[u8]]) {
        let device = match self.path.take() {
            None => return,
            Some(ReplyPath::Ring(entry)) => return entry.answer(error, self.unique, parts),
            Some(ReplyPath::Device(device)) => device,
        };
        journal::answering(self.unique, error, parts);
        let sent = device.send(error, self.unique, parts);
        journal::sent(self.unique);
        match sent {
            Ok(()) => {}
            // The client was interrupted before the reply came, or the mount is gone.
            Err(Errno::ENOENT | Errno::ENODEV | Errno::EPERM | Errno::ECONNABORTED) => {}
            Err(errno) => {
                log::debug!("the kernel does not accept a reply: {errno}");
                // Otherwise the client hangs.
                let _ = device.send(-libc::EIO, self.unique, &[]);
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(-libc::EIO, &[]);
    }
}

/// The entries of a directory, as many as have room in a reply.
#[derive(Debug)]
pub struct Entries {
    reply: Reply,
    entries: Vec<u8>,
    room: usize,
}

impl Entries {
    /// A reply of at most `room` bytes.
    pub fn new(reply: Reply, room: u32) -> Self {
        // A buffer for a usual directory; what is asked for is mostly more.
        const USUAL: usize = 4096;
        let room = room as usize;
        Self { reply, entries: Vec::with_capacity(room.min(USUAL)), room }
    }

    /// Adds an entry with its name alone. Returns whether there was room.
    pub fn add(&mut self, entry: Dirent, name: &OsStr) -> bool {
        self.push(None, entry, name)
    }

    /// Adds an entry with the inode to which it leads, as READDIRPLUS asks for it; a node id of 0 stands for the name alone. Returns
    /// whether there was room.
    pub fn add_found(&mut self, found: &EntryOut, entry: Dirent, name: &OsStr) -> bool {
        self.push(Some(found), entry, name)
    }

    fn push(&mut self, found: Option<&EntryOut>, entry: Dirent, name: &OsStr) -> bool {
        let found = found.map_or(&[][..], EntryOut::as_bytes);
        let len = (found.len() + size_of::<Dirent>() + name.len()).next_multiple_of(8);
        let Ok(namelen) = u32::try_from(name.len()) else { return false };
        if self.room - self.entries.len() < len {
            return false;
        }
        let end = self.entries.len() + len;
        self.entries.extend_from_slice(found);
        self.entries.extend_from_slice(Dirent { namelen, ..entry }.as_bytes());
        self.entries.extend_from_slice(name.as_bytes());
        self.entries.resize(end, 0);
        true
    }

    /// Sends the entries; none stand for the end of the directory.
    pub fn done(self) {
        self.reply.bytes(&self.entries);
    }

    /// Fails the request.
    pub fn error(self, errno: Errno) {
        self.reply.error(errno);
    }
}

/// The header of a message to the kernel with a body of `len` bytes.
pub(super) fn header(len: usize, error: i32, unique: u64) -> Option<OutHeader> {
    let len = u32::try_from(size_of::<OutHeader>() + len).ok()?;
    Some(OutHeader { len, error, unique })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A device whose other end is the test.
    fn device() -> (ReplyPath, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        (ReplyPath::Device(Arc::new(Device::new(here.into()))), there)
    }

    fn sent(kernel: &mut UnixStream) -> (u32, i32, u64, Vec<u8>) {
        let mut head = [0; 16];
        kernel.read_exact(&mut head).unwrap();
        let len = u32::from_ne_bytes(head[..4].try_into().unwrap());
        let mut body = vec![0; len as usize - 16];
        kernel.read_exact(&mut body).unwrap();
        let error = i32::from_ne_bytes(head[4..8].try_into().unwrap());
        (len, error, u64::from_ne_bytes(head[8..].try_into().unwrap()), body)
    }

    #[test]
    fn every_request_is_answered_once_also_if_nobody_answers() {
        let (device, mut kernel) = device();
        Reply::new(device.clone(), 2).bytes(b"abc");
        Reply::new(device.clone(), 4).error(Errno::ENOENT);
        drop(Reply::new(device.clone(), 6));
        assert_eq!(sent(&mut kernel), (19, 0, 2, b"abc".to_vec()));
        assert_eq!(sent(&mut kernel), (16, -libc::ENOENT, 4, Vec::new()));
        assert_eq!(sent(&mut kernel), (16, -libc::EIO, 6, Vec::new()));
        drop(device);
        assert_eq!(kernel.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn entries_are_aligned_and_end_where_the_room_ends() {
        let (device, mut kernel) = device();
        let entry = Dirent { ino: 5, off: 6, namelen: 0, kind: 4 };
        let mut entries = Entries::new(Reply::new(device.clone(), 2), 64);
        assert!(entries.add(entry, OsStr::new("a")));
        assert!(entries.add(entry, OsStr::new("12345678")));
        assert!(!entries.add(entry, OsStr::new("")), "64 bytes are full");
        entries.done();
        let (len, _, _, body) = sent(&mut kernel);
        assert_eq!((len, body.len()), (80, 64));
        assert_eq!((body[16], &body[24..32], &body[56..]), (1, &b"a\0\0\0\0\0\0\0"[..], &b"12345678"[..]));
        let mut entries = Entries::new(Reply::new(device, 4), 159);
        assert!(!entries.add_found(&EntryOut::default(), entry, OsStr::new("a")), "160 bytes are needed");
        entries.done();
        assert_eq!(sent(&mut kernel).3, b"");
    }
}
