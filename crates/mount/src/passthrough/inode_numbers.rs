//! Files of the source by their inode numbers.

use std::os::fd::OwnedFd;

use namegate_sys::handle::KernelHandle;
use namegate_sys::mounts::mounts;
use namegate_sys::open::path_of;
use namegate_sys::stat::mount_of;
use namegate_sys::xfs;
use nix::errno::Errno;
use nix::fcntl::readlink;
use nix::sys::stat::FileStat;
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, fstatfs};

use super::Result;
use super::filesystems::XFS_SUPER_MAGIC;

/// How files of the source are found by their inode numbers.
#[derive(Debug)]
pub(super) struct InodeNumbers {
    /// The handle of the source, which has the format of all handles there.
    pattern: KernelHandle,
    is_xfs: bool,
    /// Whether all files that can be found are below the source.
    pub(super) is_whole: bool,
}

impl InodeNumbers {
    /// For the source `root` with these attributes and this handle; `None` if the format of its handles is not known.
    pub(super) fn new(root: &OwnedFd, stat: &FileStat, pattern: KernelHandle) -> Option<Self> {
        pattern.of_sibling(stat.st_ino, 0)?;
        let kind = fstatfs(root).ok()?.filesystem_type();
        let is_whole = match kind {
            // The number of the root of each subvolume (BTRFS_FIRST_FREE_OBJECTID).
            BTRFS_SUPER_MAGIC => stat.st_ino == 256,
            _ => is_whole(root),
        };
        Some(Self { pattern, is_xfs: kind == XFS_SUPER_MAGIC, is_whole })
    }

    /// A handle of the inode with this number.
    pub(super) fn handle(&self, mount: &OwnedFd, ino: u64) -> Result<KernelHandle> {
        // Elsewhere the generation 0 stands for any.
        let generation = if self.is_xfs { xfs::generation(mount, ino)? } else { 0 };
        self.pattern.of_sibling(ino, generation).ok_or(Errno::ESTALE)
    }
}

/// Whether `root` is the root of a file system, according to the mount table.
fn is_whole(root: &OwnedFd) -> bool {
    let (Some(id), Ok(place), Ok(mounts)) = (mount_of(root), readlink(path_of(root).as_str()), mounts())
    else {
        return false;
    };
    mounts.iter().any(|mount| mount.id == id && mount.is_whole() && mount.point == place)
}
