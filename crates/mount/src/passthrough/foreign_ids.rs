//! Node ids of files on other file systems below the source, which are also their inode numbers for clients.
//!
//! Programs of 32 bits cannot read a number with the highest bit: stat(2) is EOVERFLOW for them. An id must not be the inode number of a
//! file of the source, since both are on one device for clients. So they go down from the highest number of 32 bits where no file of the
//! source can have such a number.

use std::os::fd::AsFd;

use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC, fstatfs};
use nix::sys::statvfs::fstatvfs;

use super::Result;
use super::filesystems::XFS_SUPER_MAGIC;
use super::node::NodeId;

/// How many files get a small number.
const SMALL_NUMBERS: u64 = 1 << 24;
/// The lowest of these numbers is greater.
const LOWEST: u64 = u32::MAX as u64 - SMALL_NUMBERS;

/// Flag in the ids of all other files on other file systems. No file system in use has inode numbers this high.
const FOREIGN: u64 = 1 << 63;

/// The ids of files on other file systems.
#[derive(Debug)]
pub(super) struct ForeignIds {
    are_small: bool,
}

/// Whether no file of a file system of this kind has a number above [`LOWEST`]. `inodes` and `bytes` are its size.
fn are_free(kind: FsType, inodes: u64, bytes: u64) -> bool {
    match kind {
        // Numbers count the inodes.
        EXT4_SUPER_MAGIC => inodes <= LOWEST,
        // A number is the place of the inode in units of 256 bytes or more, where the number of blocks of an allocation group is rounded up
        // to a power of two.
        XFS_SUPER_MAGIC => bytes / 256 * 2 <= LOWEST,
        // They count upwards, one for each file that was ever made.
        BTRFS_SUPER_MAGIC | TMPFS_MAGIC => true,
        _ => false,
    }
}

impl ForeignIds {
    pub(super) fn of_source(root: impl AsFd) -> Result<Self> {
        let (kind, size) = (fstatfs(&root)?.filesystem_type(), fstatvfs(&root)?);
        let bytes = size.blocks().saturating_mul(size.fragment_size());
        Ok(Self { are_small: are_free(kind, size.files(), bytes) })
    }

    /// Whether an id is one of these. A file of the source whose number is, because its file system has grown, gets one too.
    pub(super) fn has(&self, id: NodeId) -> bool {
        id.0 & FOREIGN != 0
            || id.0 & NodeId::MARK == NodeId::MARK
            || self.are_small && (LOWEST + 1..=u32::MAX.into()).contains(&id.0)
    }

    /// The id of the file with the number `count`.
    pub(super) fn id(&self, count: u64) -> u64 {
        if self.are_small && count < SMALL_NUMBERS { u64::from(u32::MAX) - count } else { FOREIGN | count }
    }

    /// The number of the file with this id.
    pub(super) fn count(&self, id: NodeId) -> u64 {
        if id.0 & FOREIGN != 0 { id.0 ^ FOREIGN } else { u64::from(u32::MAX) - id.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_small_where_no_file_of_the_source_has_them() {
        let [small, large] = [true, false].map(|are_small| ForeignIds { are_small });
        assert_eq!((small.id(1), small.id(2)), (0xFFFF_FFFE, 0xFFFF_FFFD));
        assert_eq!((small.id(1 << 40), large.id(1)), (FOREIGN | 1 << 40, FOREIGN | 1));
        for (ids, count) in [
            (&small, 1),
            (&small, SMALL_NUMBERS - 1),
            (&small, SMALL_NUMBERS),
            (&large, 1),
            (&large, SMALL_NUMBERS),
        ] {
            let id = NodeId(ids.id(count));
            assert!(ids.has(id) && ids.count(id) == count, "{count}");
        }
        assert!(![5, LOWEST, 1 << 32].iter().any(|&number| small.has(NodeId(number))));
        assert!(!large.has(NodeId(u32::MAX.into())));
        assert!(are_free(EXT4_SUPER_MAGIC, 1 << 24, 1 << 50) && !are_free(EXT4_SUPER_MAGIC, 0xFFFF_FFFF, 0));
        assert!(are_free(XFS_SUPER_MAGIC, 0, 256 << 30) && !are_free(XFS_SUPER_MAGIC, 0, 1 << 40));
        assert!(!are_free(FsType(0x1234), 0, 0));
    }
}
