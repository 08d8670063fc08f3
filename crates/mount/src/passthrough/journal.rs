//! What a backing tree records, so that another server can take over when this one ends. [`NoJournal`] records nothing.
//!
//! A change is made once, although the server may end before, within or after it: each `begin_or_recover_*` is called before a change. It
//! records what is there before, and returns whether a previous server has made the change for the same request. While a client waits for
//! a change, the kernel lets no other client of the mount change the same directory, or the end of the same file.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use namegate_wire::NoJournal;

/// The backing file of a node, as the kernel knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackingRecord {
    /// No client has opened it since it was looked up.
    #[default]
    None,
    /// The kernel cannot use it.
    Unusable,
    /// It is registered under this number.
    Registered(u32),
}

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeData {
    /// Its number; never 0.
    pub id: u64,
    /// Device of the file.
    pub dev: u64,
    /// Inode number of the file.
    pub ino: u64,
    /// Number of lookups that the kernel has not taken back.
    pub lookups: u64,
    /// The file type, `S_IFMT` of the mode.
    pub kind: u32,
    /// Distinguishes this file from earlier ones with the same number, if it is referenced by a descriptor.
    pub number: u32,
    /// Type and bytes of the kernel file handle by which it is referenced, if it is.
    pub handle: Option<(i32, Vec<u8>)>,
    /// Its mount, if that is not the mount of the source.
    pub mount: Option<u64>,
    /// The descriptor that is kept open for it.
    pub fd: Option<RawFd>,
    /// The user to whom the descriptor is charged.
    pub uid: Option<u32>,
    pub backing: BackingRecord,
    /// Whether the backing file must be released with the last open file.
    pub is_revoked: bool,
}

/// A change of what is known of a node.
#[derive(Clone, Copy, Debug)]
pub enum NodeChange {
    /// The number of lookups. A node without lookups does not count.
    Lookups(u64),
    /// The descriptor that is kept open: recorded after it was opened, and before it is closed.
    Fd(Option<RawFd>),
    /// The user to whom the descriptor is charged.
    Uid(Option<u32>),
    /// The backing file, and whether it must be released with the last open file: recorded before the kernel is told its number, and before
    /// it is released.
    Backing(BackingRecord, bool),
}

/// What is known of an open file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenData {
    /// Its handle; never 0.
    pub fh: u64,
    pub node: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Flags of open(2).
    pub flags: i32,
    /// The request that has opened it; the journal sets it.
    pub unique: u64,
    /// The descriptor that must stay open for it.
    pub fd: Option<RawFd>,
    /// User, group, thread and umask of the client that has opened it.
    pub opener: [u32; 4],
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct EntryAt<'a> {
    pub dir: BorrowedFd<'a>,
    pub name: &'a OsStr,
}

/// An extended attribute of a file.
#[derive(Clone, Copy, Debug)]
pub struct XattrOf<'a> {
    pub file: BorrowedFd<'a>,
    pub name: &'a OsStr,
}

/// Records nodes, open files and changes.
pub trait TreeJournal: Debug + Send + Sync {
    /// The number of this server, counted from 0 for the first one of a mount: numbers and handles that it assigns differ from those of
    /// others.
    fn server(&self) -> u64 {
        0
    }

    /// The longest handle of a file that can be recorded, in bytes; `None` if nothing is recorded.
    fn longest_handle(&self) -> Option<usize> {
        None
    }

    /// The descriptor of the source.
    fn set_root(&self, _root: RawFd) {}

    /// Records a node in a slot; `None` if there is no room.
    fn add_node(&'static self, _data: &NodeData) -> Option<u32> {
        None
    }

    fn change_node(&self, _slot: u32, _change: NodeChange) {}

    fn remove_node(&'static self, _slot: u32) {}

    /// Records an open file or directory in a slot; `None` if there is no room.
    fn add_open(&'static self, _data: &OpenData) -> Option<u32> {
        None
    }

    /// The descriptor that must stay open for it: recorded after it was opened, and before it is closed.
    fn set_open_fd(&self, _slot: u32, _fd: Option<RawFd>) {}

    fn remove_open(&'static self, _slot: u32) {}

    /// A lookup of `node` was counted for the reply to the current request.
    fn note_lookup(&self, _node: u64) {}

    /// A lookup of `node` that was counted for the reply is about to be taken back.
    fn note_forget(&self, _node: u64) {}

    /// The nodes that a previous server has recorded, with their slots. Called once, before anything is added.
    fn take_over_nodes(&'static self) -> Vec<(u32, NodeData)> {
        Vec::new()
    }

    /// The open files and directories that a previous server has recorded, with their slots, but for those of requests that will be served
    /// again. Called once, before anything is added.
    fn take_over_opens(&'static self) -> Vec<(u32, OpenData)> {
        Vec::new()
    }

    /// A descriptor that a previous server has left under this number.
    fn take_descriptor(&self, _number: RawFd) -> Option<OwnedFd> {
        None
    }

    /// An entry is about to be created for the user `uid`.
    fn begin_or_recover_create(&self, _entry: EntryAt<'_>, _uid: u32) -> bool {
        false
    }

    /// `file` is about to be linked.
    fn begin_or_recover_link(&self, _entry: EntryAt<'_>, _file: BorrowedFd<'_>) -> bool {
        false
    }

    /// An entry is about to be removed.
    fn begin_or_recover_remove(&self, _entry: EntryAt<'_>) -> bool {
        false
    }

    /// An entry is about to be renamed, or exchanged for another one.
    fn begin_or_recover_rename(&self, _from: EntryAt<'_>, _to: EntryAt<'_>, _exchanges: bool) -> bool {
        false
    }

    /// An attribute that must not exist before is about to be set.
    fn begin_or_recover_set_xattr(&self, _xattr: XattrOf<'_>, _value: &[u8]) -> bool {
        false
    }

    /// An attribute is about to be removed.
    fn begin_or_recover_remove_xattr(&self, _xattr: XattrOf<'_>) -> bool {
        false
    }

    /// `len` bytes are about to be appended. Returns the number of bytes that a previous server has appended.
    fn begin_or_recover_append(&self, _file: BorrowedFd<'_>, _len: usize) -> Option<usize> {
        None
    }
}

impl TreeJournal for NoJournal {}

/// The record of a node, until this is dropped.
#[derive(Debug)]
pub(super) struct NodeRecord {
    journal: &'static dyn TreeJournal,
    slot: u32,
}

impl NodeRecord {
    pub(super) fn new(journal: &'static dyn TreeJournal, slot: u32) -> Self {
        Self { journal, slot }
    }

    pub(super) fn change(&self, change: NodeChange) {
        self.journal.change_node(self.slot, change);
    }
}

impl Drop for NodeRecord {
    fn drop(&mut self) {
        self.journal.remove_node(self.slot);
    }
}

/// The record of an open file or directory, until this is dropped.
#[derive(Debug)]
pub(super) struct OpenRecord {
    journal: &'static dyn TreeJournal,
    slot: u32,
}

impl OpenRecord {
    pub(super) fn new(journal: &'static dyn TreeJournal, slot: u32) -> Self {
        Self { journal, slot }
    }

    pub(super) fn set_fd(&self, fd: Option<RawFd>) {
        self.journal.set_open_fd(self.slot, fd);
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        self.journal.remove_open(self.slot);
    }
}
