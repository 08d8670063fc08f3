//! Records of nodes, and of open files and directories.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use super::SurvivalState;
use super::slots::Slot;

/// Length of a node's record in words.
pub(super) const NODE_WORDS: usize = 16;
/// Length of an open file's record in words.
pub(super) const OPEN_WORDS: usize = 8;

/// The words of both in which a descriptor is recorded.
pub(super) const NODE_FD: usize = node::FD;
pub(super) const OPEN_FD: usize = 4;

/// Longest handle that a record has room for, in bytes.
pub const LONGEST_HANDLE: usize = 48;

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

/// The record of a node, until this is dropped.
#[derive(Debug)]
pub struct NodeRecord(Slot);

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
    /// The request that has opened it.
    pub unique: u64,
    /// The descriptor that must stay open for it.
    pub fd: Option<RawFd>,
    /// User, group, thread and umask of the client that has opened it.
    pub opener: [u32; 4],
}

/// The record of an open file or directory, until this is dropped.
#[derive(Debug)]
pub struct OpenRecord(Slot);

/// Words of a node's record.
mod node {
    pub(super) const ID: usize = 0;
    pub(super) const DEV: usize = 1;
    pub(super) const INO: usize = 2;
    pub(super) const LOOKUPS: usize = 3;
    pub(super) const KIND: usize = 4;
    pub(super) const FD: usize = 5;
    pub(super) const UID: usize = 6;
    pub(super) const MOUNT: usize = 7;
    pub(super) const BACKING: usize = 8;
    /// Type and length, then the bytes.
    pub(super) const HANDLE: usize = 9;
    pub(super) const HANDLE_BYTES: usize = 10;
}

const REVOKED: u64 = 1 << 63;
const HAS_HANDLE: u64 = 1 << 63;

/// `None` is 0, so that a number is stored with 1 added.
fn option(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.wrapping_add(1))
}

fn from_option(word: u64) -> Option<u64> {
    word.checked_sub(1)
}

fn fd_word(fd: Option<RawFd>) -> u64 {
    option(fd.and_then(|fd| u64::try_from(fd).ok()))
}

/// The descriptor that is recorded in a word.
pub(super) fn descriptor(word: u64) -> Option<RawFd> {
    from_option(word).and_then(|fd| fd.try_into().ok())
}

fn two(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn backing_word(backing: BackingRecord, is_revoked: bool) -> u64 {
    let word = match backing {
        BackingRecord::None => 0,
        BackingRecord::Unusable => 1,
        BackingRecord::Registered(number) => u64::from(number) + 2,
    };
    word | if is_revoked { REVOKED } else { 0 }
}

impl NodeRecord {
    /// Sets the number of lookups. A record without lookups does not count.
    pub fn set_lookups(&self, lookups: u64) {
        self.0.set(node::LOOKUPS, lookups);
    }

    /// Records the descriptor that is kept open: after it was opened, and before it is closed.
    pub fn set_fd(&self, fd: Option<RawFd>) {
        self.0.set(node::FD, fd_word(fd));
    }

    /// Records the user to whom the descriptor is charged.
    pub fn set_uid(&self, uid: Option<u32>) {
        self.0.set(node::UID, option(uid.map(u64::from)));
    }

    /// Records the backing file: before the kernel is told its number, and before it is released.
    pub fn set_backing(&self, backing: BackingRecord, is_revoked: bool) {
        self.0.set(node::BACKING, backing_word(backing, is_revoked));
    }

    fn data(&self) -> NodeData {
        let get = |word| self.0.get(word);
        let (kind, number) = halves(get(node::KIND));
        let handle = get(node::HANDLE);
        let bytes = || {
            let words = self.0.words()[node::HANDLE_BYTES..].iter();
            let all = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
            all.take((handle >> 32 & 0xFF) as usize).collect()
        };
        let backing = get(node::BACKING);
        NodeData {
            id: get(node::ID),
            dev: get(node::DEV),
            ino: get(node::INO),
            lookups: get(node::LOOKUPS),
            kind,
            number,
            handle: (handle & HAS_HANDLE != 0).then(|| ((handle as u32).cast_signed(), bytes())),
            mount: from_option(get(node::MOUNT)),
            fd: descriptor(get(node::FD)),
            uid: from_option(get(node::UID)).and_then(|uid| uid.try_into().ok()),
            backing: match backing & !REVOKED {
                0 => BackingRecord::None,
                1 => BackingRecord::Unusable,
                number => BackingRecord::Registered((number - 2) as u32),
            },
            is_revoked: backing & REVOKED != 0,
        }
    }
}

impl OpenRecord {
    /// Records the descriptor that must stay open: after it was opened, and before it is closed.
    pub fn set_fd(&self, fd: Option<RawFd>) {
        self.0.set(OPEN_FD, fd_word(fd));
    }

    fn data(&self) -> OpenData {
        let get = |word| self.0.get(word);
        let (flags, is_directory) = halves(get(2));
        let ((uid, gid), (pid, umask)) = (halves(get(5)), halves(get(6)));
        OpenData {
            fh: get(0),
            node: get(1),
            flags: flags.cast_signed(),
            is_directory: is_directory != 0,
            unique: get(3),
            fd: descriptor(get(OPEN_FD)),
            opener: [uid, gid, pid, umask],
        }
    }
}

fn with_data<R, D>(records: impl Iterator<Item = R>, data: impl Fn(&R) -> D) -> Vec<(R, D)> {
    records
        .map(|record| {
            let data = data(&record);
            (record, data)
        })
        .collect()
}

impl SurvivalState {
    /// Records a node; `None` if there is no room.
    pub fn add_node(&'static self, data: &NodeData) -> Option<NodeRecord> {
        let slot = self.nodes.claim()?;
        slot.set(node::DEV, data.dev);
        slot.set(node::INO, data.ino);
        slot.set(node::LOOKUPS, data.lookups);
        slot.set(node::KIND, two(data.kind, data.number));
        slot.set(node::FD, fd_word(data.fd));
        slot.set(node::UID, option(data.uid.map(u64::from)));
        slot.set(node::MOUNT, option(data.mount));
        slot.set(node::BACKING, backing_word(data.backing, data.is_revoked));
        let handle = match &data.handle {
            None => 0,
            Some((_, bytes)) if bytes.len() > LONGEST_HANDLE => return None,
            Some((kind, bytes)) => {
                for (at, chunk) in bytes.chunks(8).enumerate() {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    slot.set(node::HANDLE_BYTES + at, u64::from_ne_bytes(word));
                }
                two(kind.cast_unsigned(), bytes.len() as u32) | HAS_HANDLE
            }
        };
        slot.set(node::HANDLE, handle);
        slot.set(node::ID, data.id);
        Some(NodeRecord(slot))
    }

    /// The nodes that a predecessor has recorded. To be called once, before anything is added.
    pub fn take_over_nodes(&'static self) -> Vec<(NodeRecord, NodeData)> {
        with_data(self.nodes.take_over().into_iter().map(NodeRecord), NodeRecord::data)
    }

    /// Records an open file or directory; `None` if there is no room.
    pub fn add_open(&'static self, data: &OpenData) -> Option<OpenRecord> {
        let slot = self.opens.claim()?;
        let [uid, gid, pid, umask] = data.opener;
        slot.set(1, data.node);
        slot.set(2, two(data.flags.cast_unsigned(), data.is_directory.into()));
        slot.set(3, data.unique);
        slot.set(OPEN_FD, fd_word(data.fd));
        slot.set(5, two(uid, gid));
        slot.set(6, two(pid, umask));
        slot.set(0, data.fh);
        Some(OpenRecord(slot))
    }

    /// The open files and directories that a predecessor has recorded. To be called once, before anything is added.
    pub fn take_over_opens(&'static self) -> Vec<(OpenRecord, OpenData)> {
        with_data(self.opens.take_over().into_iter().map(OpenRecord), OpenRecord::data)
    }
}
