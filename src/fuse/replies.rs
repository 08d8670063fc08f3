//! Replies, independent of the transport.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::stat::FileStat;

use super::backing::BackingId;
use crate::passthrough::{Fh, LockRange, NodeId};

/// The reply to a request. It is used once; if it is dropped, the client gets EIO.
pub(super) trait Responder: Send + 'static {
    /// Fails the request.
    fn error(self, errno: Errno);

    /// The number by which the kernel asks to interrupt the request, if the transport passes that on.
    fn interrupt_id(&self) -> Option<u64> {
        None
    }
}

/// A reply that consists of a `T`.
pub(super) trait Responds<T>: Responder {
    /// Sends the reply.
    fn respond(self, value: T);
}

/// A reply that consists of bytes.
pub(super) trait RespondsBytes: Responder {
    /// Sends the reply.
    fn respond_bytes(self, bytes: &[u8]);
}

/// The reply to READDIR.
pub(super) trait NameList: Responder {
    /// Adds an entry. Returns whether there was room.
    fn add(&mut self, entry: &ListedEntry<'_>) -> bool;
    /// Sends the entries.
    fn done(self);
}

/// The reply to READDIRPLUS.
pub(super) trait EntryList: Responder {
    /// Whether entries besides `.` and `..` can come without the inode to which they lead.
    const CAN_NAME_ONLY: bool;
    /// Adds an entry, which counts as a lookup if it comes with its inode. Returns whether there was room.
    fn add(&mut self, entry: &ListedEntry<'_>, found: Option<&FoundEntry>) -> bool;
    /// Sends the entries.
    fn done(self);
}

pub(super) struct ListedEntry<'a> {
    pub(super) ino: u64,
    /// Offset of the next entry.
    pub(super) next: u64,
    /// One of the `DT_` constants.
    pub(super) kind: u8,
    pub(super) name: &'a OsStr,
}

/// What a name leads to.
pub(super) struct FoundEntry {
    pub(super) node: NodeId,
    pub(super) generation: u32,
    pub(super) stat: FileStat,
    /// How long the kernel may cache the name.
    pub(super) name_timeout: Duration,
    /// How long the kernel may cache the attributes.
    pub(super) attr_timeout: Duration,
}

impl FoundEntry {
    /// For a transport that has one timeout for both.
    pub(super) fn timeout(&self) -> Duration {
        self.name_timeout.min(self.attr_timeout)
    }
}

pub(super) struct NodeAttributes {
    pub(super) stat: FileStat,
    /// How long the kernel may cache them.
    pub(super) timeout: Duration,
}

/// A file or directory that was opened.
pub(super) struct OpenedNode {
    pub(super) fh: Fh,
    /// Flags of `wire::abi::fopen`, without PASSTHROUGH.
    pub(super) flags: u32,
    /// The file that the kernel reads and writes by itself.
    pub(super) backing: Option<Arc<BackingId>>,
}

/// Number of bytes that were written or copied.
pub(super) struct WrittenBytes(pub(super) u32);

/// Size of an extended attribute, or of the list of all.
pub(super) struct AttributeSize(pub(super) u32);

pub(super) struct FileOffset(pub(super) i64);

/// A lock that excludes another one.
pub(super) struct FoundLock {
    pub(super) range: LockRange,
    /// The process that has it, if it is known.
    pub(super) pid: i32,
}

/// What an ioctl returns.
pub(super) struct IoctlOutput(pub(super) Vec<u8>);
