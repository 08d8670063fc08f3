//! Replies to requests.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use nix::errno::Errno;
use zerocopy::{Immutable, IntoBytes};

use super::abi::{Dirent, EntryOut};
use super::device::Device;
use super::ring_reply::RingEntry;

/// What sends a reply of another transport, which has types of its own for that.
pub trait ReplySink: Debug + Send {
    /// Sends an error, negative as in a header of a reply, or 0 with the parts of the message that /dev/fuse would get.
    fn send(self: Box<Self>, error: i32, parts: &[&[u8]]);

    /// Adds an entry to a list, which [`ReplySink::send`] sends. Returns whether there was room.
    fn add(&mut self, found: Option<&EntryOut>, entry: &Dirent, name: &OsStr) -> bool;

    /// Whether a list of entries with their inodes can have others than `.` and `..` without.
    fn can_list_names(&self) -> bool;
}

/// Where a reply goes.
#[derive(Debug)]
enum Destination {
    Device(Arc<Device>),
    Ring(RingEntry),
    Sink(Box<dyn ReplySink>),
}

/// The reply to one request. If it is dropped, the client gets EIO: no client waits for ever.
#[derive(Debug)]
pub struct Reply {
    destination: Option<Destination>,
    unique: u64,
}

impl Reply {
    /// The reply to the request `unique`, which was read from `device`.
    pub fn to_device(device: Arc<Device>, unique: u64) -> Self {
        Self { destination: Some(Destination::Device(device)), unique }
    }

    /// The reply to the request `unique`, which is in `entry` of a ring.
    pub(super) fn to_ring(entry: RingEntry, unique: u64) -> Self {
        Self { destination: Some(Destination::Ring(entry)), unique }
    }

    /// The reply to the request `unique`, which came by another transport.
    pub fn to_sink(sink: Box<dyn ReplySink>, unique: u64) -> Self {
        Self { destination: Some(Destination::Sink(sink)), unique }
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
        match self.destination.take() {
            None => {}
            Some(Destination::Ring(entry)) => entry.reply(error, self.unique, parts),
            Some(Destination::Sink(sink)) => sink.send(error, parts),
            Some(Destination::Device(device)) => device.reply(error, self.unique, parts),
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

    /// Whether [`Entries::add_found`] takes other names than `.` and `..` alone.
    pub fn can_list_names(&self) -> bool {
        match &self.reply.destination {
            Some(Destination::Sink(sink)) => sink.can_list_names(),
            _ => true,
        }
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
        let Ok(namelen) = u32::try_from(name.len()) else { return false };
        let entry = Dirent { namelen, ..entry };
        if let Some(Destination::Sink(sink)) = &mut self.reply.destination {
            return sink.add(found, &entry, name);
        }
        let found = found.map_or(&[][..], EntryOut::as_bytes);
        let len = (found.len() + size_of::<Dirent>() + name.len()).next_multiple_of(8);
        if self.room - self.entries.len() < len {
            return false;
        }
        let end = self.entries.len() + len;
        self.entries.extend_from_slice(found);
        self.entries.extend_from_slice(entry.as_bytes());
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A device whose other end is the test.
    fn device() -> (Arc<Device>, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        (Arc::new(Device::new(here.into())), there)
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
        Reply::to_device(device.clone(), 2).bytes(b"abc");
        Reply::to_device(device.clone(), 4).error(Errno::ENOENT);
        drop(Reply::to_device(device.clone(), 6));
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
        let mut entries = Entries::new(Reply::to_device(device.clone(), 2), 64);
        assert!(entries.add(entry, OsStr::new("a")));
        assert!(entries.add(entry, OsStr::new("12345678")));
        assert!(!entries.add(entry, OsStr::new("")), "64 bytes are full");
        entries.done();
        let (len, _, _, body) = sent(&mut kernel);
        assert_eq!((len, body.len()), (80, 64));
        assert_eq!((body[16], &body[24..32], &body[56..]), (1, &b"a\0\0\0\0\0\0\0"[..], &b"12345678"[..]));
        let mut entries = Entries::new(Reply::to_device(device, 4), 159);
        assert!(!entries.add_found(&EntryOut::default(), entry, OsStr::new("a")), "160 bytes are needed");
        entries.done();
        assert_eq!(sent(&mut kernel).3, b"");
    }
}
