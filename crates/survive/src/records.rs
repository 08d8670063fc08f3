//! Records of nodes, and of open files and directories.

use std::os::fd::RawFd;

use namegate_mount::passthrough::{BackingRecord, NodeChange, NodeData, OpenData};

use super::layout::{NODE_FD, OPEN_FD, descriptor, from_option, option};
use super::slots::Slot;
use super::state::load_bytes;

/// Longest handle that a record has room for, in bytes.
pub(super) const LONGEST_HANDLE: usize = 48;

/// Words of a node's record.
mod node {
    pub(super) const ID: usize = 0;
    pub(super) const DEV: usize = 1;
    pub(super) const INO: usize = 2;
    pub(super) const LOOKUPS: usize = 3;
    pub(super) const KIND: usize = 4;
    pub(super) const FD: usize = super::NODE_FD;
    pub(super) const UID: usize = 6;
    pub(super) const MOUNT: usize = 7;
    pub(super) const BACKING: usize = 8;
    /// Type and length, then the bytes.
    pub(super) const HANDLE: usize = 9;
    pub(super) const HANDLE_BYTES: usize = 10;
}

const REVOKED: u64 = 1 << 63;
const HAS_HANDLE: u64 = 1 << 63;

pub(super) fn fd_word(fd: Option<RawFd>) -> u64 {
    option(fd.and_then(|fd| u64::try_from(fd).ok()))
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

/// What is recorded of a node.
pub(super) fn node_data(slot: &Slot) -> NodeData {
    let get = |word| slot.get(word);
    let (kind, number) = halves(get(node::KIND));
    let handle = get(node::HANDLE);
    let bytes = || load_bytes(&slot.words()[node::HANDLE_BYTES..], (handle >> 32 & 0xFF) as usize);
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

/// What is recorded of an open file or directory.
pub(super) fn open_data(slot: &Slot) -> OpenData {
    let get = |word| slot.get(word);
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

/// Records a node in a slot; `None` if its handle is too long.
pub(super) fn write_node(slot: &Slot, data: &NodeData) -> Option<()> {
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
    slot.set(node::DEV, data.dev);
    slot.set(node::INO, data.ino);
    slot.set(node::LOOKUPS, data.lookups);
    slot.set(node::KIND, two(data.kind, data.number));
    slot.set(node::FD, fd_word(data.fd));
    slot.set(node::UID, option(data.uid.map(u64::from)));
    slot.set(node::MOUNT, option(data.mount));
    slot.set(node::BACKING, backing_word(data.backing, data.is_revoked));
    slot.set(node::HANDLE, handle);
    slot.set(node::ID, data.id);
    Some(())
}

/// The word that a change of a node changes, and its new value.
pub(super) fn node_change(change: NodeChange) -> (usize, u64) {
    match change {
        NodeChange::Lookups(lookups) => (node::LOOKUPS, lookups),
        NodeChange::Fd(fd) => (node::FD, fd_word(fd)),
        NodeChange::Uid(uid) => (node::UID, option(uid.map(u64::from))),
        NodeChange::Backing(backing, is_revoked) => (node::BACKING, backing_word(backing, is_revoked)),
    }
}

/// Records an open file or directory in a slot.
pub(super) fn write_open(slot: &Slot, data: &OpenData) {
    let [uid, gid, pid, umask] = data.opener;
    slot.set(1, data.node);
    slot.set(2, two(data.flags.cast_unsigned(), data.is_directory.into()));
    slot.set(3, data.unique);
    slot.set(OPEN_FD, fd_word(data.fd));
    slot.set(5, two(uid, gid));
    slot.set(6, two(pid, umask));
    slot.set(0, data.fh);
}
