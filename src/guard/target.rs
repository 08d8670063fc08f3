//! What a guard is to guard: a directory, by the numbers that the program in the kernel compares.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::table::GuardRoot;
use crate::name::display::{display, shown};
use crate::sys::mounts::{MountEntry, mounts};
use crate::sys::{iflags, process};

/// File systems whose directories keep their inode number, and give it to no other directory at the same time. Others number
/// directories anew in each subvolume (btrfs), or whenever the kernel reads them (vfat).
const STABLE_INODES: [&str; 6] = ["ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs"];

/// Why a directory cannot be guarded.
#[derive(Debug)]
pub enum TargetError {
    /// It cannot be opened, or the mount table not be read.
    Io(PathBuf, io::Error),
    /// No file system of the mount table holds it.
    NoMount(PathBuf),
    /// Its file system, of this type, has no inode numbers by which a part of it can be told from the rest.
    NoSubtree(PathBuf, String),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "cannot guard {}: {error}", shown(path)),
            Self::NoMount(path) => {
                write!(f, "cannot guard {}: /proc/self/mountinfo does not list its file system", shown(path))
            }
            Self::NoSubtree(path, kind) => write!(
                f,
                "cannot guard {} alone: it is a part of a file system of type {}, whose inode numbers do not identify a \
                 directory. --whole-filesystem guards the whole file system",
                shown(path),
                display(kind.as_bytes())
            ),
        }
    }
}

impl std::error::Error for TargetError {}

/// A directory to guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardTarget {
    /// Its path, absolute and without links.
    pub path: PathBuf,
    /// The device number of the file system in the kernel.
    pub device: u32,
    /// The type of the file system.
    pub kind: String,
    /// The top of the tree; `None` for the whole file system.
    pub root: Option<GuardRoot>,
    /// Whether `path` is the top of the tree, and not a part of a file system that is guarded as a whole.
    pub is_top: bool,
}

impl GuardTarget {
    /// Finds the directory at `path`. If it is the root of its file system, or `is_whole`, the target is the whole file system.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn from_path(path: &Path, is_whole: bool) -> Result<Self, TargetError> {
        let failed = |error| TargetError::Io(path.into(), error);
        let real = fs::canonicalize(path).map_err(failed)?;
        let dir =
            OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(&real);
        let dir = dir.map_err(failed)?;
        let id = process::fd_info(&dir, "mnt_id").map_err(failed)?;
        let mounts = mounts().map_err(failed)?;
        let mount = mounts.iter().find(|mount| Some(mount.id) == id);
        let mount = mount.ok_or_else(|| TargetError::NoMount(path.into()))?;
        let device = device(mount).ok_or_else(|| TargetError::NoMount(path.into()))?;
        let is_root = mount.is_whole && mount.point == real;
        let root = if is_root || is_whole {
            None
        } else if STABLE_INODES.contains(&mount.kind.as_str()) {
            let inode = dir.metadata().map_err(failed)?.ino();
            Some(GuardRoot { inode, generation: iflags::generation(&dir).ok() })
        } else {
            return Err(TargetError::NoSubtree(path.into(), mount.kind.clone()));
        };
        Ok(Self { path: real, device, kind: mount.kind.clone(), root, is_top: is_root || root.is_some() })
    }
}

/// The device number of a mounted file system in the kernel.
pub fn device(mount: &MountEntry) -> Option<u32> {
    let (major, minor) = mount.device.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}
