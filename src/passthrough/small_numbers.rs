//! Inode numbers that fit into 32 bits for files on other file systems below the source.
//!
//! Their node ids have the highest bit set, which programs of 32 bits cannot read: stat(2) is EOVERFLOW for them. The inode number that
//! clients see need not be the node id. It must not be that of a file of the source, since both are on one device for clients. So these
//! numbers go down from the highest of 32 bits where no file of the source can have such a number.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC, fstatfs};
use nix::sys::statvfs::fstatvfs;

use super::Result;
use super::file::XFS_SUPER_MAGIC;
use super::node::{FOREIGN, NodeId};

/// How many files get a small number.
const MOST: u64 = 1 << 24;
/// The lowest of these numbers is greater.
const LOWEST: u64 = u32::MAX as u64 - MOST;

/// Which files of other file systems get small numbers.
#[derive(Debug)]
pub(super) struct SmallNumbers {
    are_free: bool,
    are_apart: AtomicBool,
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

impl SmallNumbers {
    /// For a source.
    pub(super) fn of_source(root: impl AsFd) -> Result<Self> {
        let (kind, size) = (fstatfs(&root)?.filesystem_type(), fstatvfs(&root)?);
        let bytes = size.blocks().saturating_mul(size.fragment_size());
        Ok(Self { are_free: are_free(kind, size.files(), bytes), are_apart: AtomicBool::new(false) })
    }

    /// From now on inode numbers may differ from node ids.
    pub(super) fn set_apart(&self) {
        self.are_apart.store(true, Ordering::Relaxed);
    }

    /// The inode number of a node for clients.
    pub(super) fn shown(&self, id: NodeId) -> u64 {
        match id.0 ^ FOREIGN {
            count @ 0..MOST if self.are_free && self.are_apart.load(Ordering::Relaxed) => {
                u64::from(u32::MAX) - count
            }
            _ => id.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_small_where_no_file_of_the_source_has_them() {
        let numbers = |are_free| SmallNumbers { are_free, are_apart: AtomicBool::new(true) };
        let shown = |number| numbers(true).shown(NodeId(number));
        assert_eq!((shown(FOREIGN | 1), shown(FOREIGN | 2)), (0xFFFF_FFFE, 0xFFFF_FFFD));
        assert_eq!((shown(5), shown(FOREIGN | 1 << 40)), (5, FOREIGN | 1 << 40));
        assert_eq!(numbers(false).shown(NodeId(FOREIGN | 1)), FOREIGN | 1);
        assert!(are_free(EXT4_SUPER_MAGIC, 1 << 24, 1 << 50) && !are_free(EXT4_SUPER_MAGIC, 0xFFFF_FFFF, 0));
        assert!(are_free(XFS_SUPER_MAGIC, 0, 256 << 30) && !are_free(XFS_SUPER_MAGIC, 0, 1 << 40));
        assert!(!are_free(FsType(0x1234), 0, 0));
    }
}
