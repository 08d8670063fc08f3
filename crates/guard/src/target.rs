//! What a guard is to guard: a directory, by the numbers that the program in the kernel compares.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use namegate_core::name::display::{display, shown};
use namegate_sys::mounts::{MountEntry, below, mounts};
use namegate_sys::{iflags, process};

use super::table::{GuardRoot, GuardScope};

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
#[derive(Debug)]
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
    /// The mounts below it that the guard does not reach: of other file systems, or of directories outside of the tree.
    pub beyond: Vec<PathBuf>,
    /// The file system cannot be unmounted while this is open, and another one get its device number.
    _dir: File,
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
        let is_root = mount.is_whole() && mount.point == real;
        let root = if is_root || is_whole {
            None
        } else if STABLE_INODES.contains(&mount.kind.as_str()) {
            let inode = dir.metadata().map_err(failed)?.ino();
            Some(GuardRoot { inode, generation: iflags::generation(&dir).ok() })
        } else {
            return Err(TargetError::NoSubtree(path.into(), mount.kind.clone()));
        };
        let beyond = beyond(&mounts, mount, &real, root.is_some());
        let (kind, is_top) = (mount.kind.clone(), is_root || root.is_some());
        Ok(Self { path: real, device, kind, root, is_top, beyond, _dir: dir })
    }

    /// Reports whether `path` leads to the directory or the file system of `scope`.
    pub fn is_at(path: &Path, scope: &GuardScope) -> bool {
        let target = Self::from_path(path, scope.root.is_none());
        target.is_ok_and(|target| target.is_of(scope))
    }

    /// Reports whether this is the directory or the file system of `scope`.
    pub fn is_of(&self, scope: &GuardScope) -> bool {
        (self.device, self.root) == (scope.device, scope.root)
    }
}

/// The mounts below `path`, a directory of `mount`, that a guard of `path` does not reach. What only the kernel fills does not count.
fn beyond(mounts: &[MountEntry], mount: &MountEntry, path: &Path, is_tree: bool) -> Vec<PathBuf> {
    let within = path.strip_prefix(&mount.point).unwrap_or(Path::new(""));
    let top = if is_tree { mount.root.join(within) } else { PathBuf::from("/") };
    let is_beyond = |other: &&MountEntry| {
        (other.device != mount.device || !other.root.starts_with(&top)) && !other.is_kernels()
    };
    let mut points: Vec<PathBuf> =
        below(mounts, path).into_iter().filter(is_beyond).map(|other| other.point.clone()).collect();
    points.sort();
    points
}

/// The device number of a mounted file system in the kernel.
pub fn device(mount: &MountEntry) -> Option<u32> {
    let (major, minor) = mount.device.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

#[cfg(test)]
mod tests {
    use namegate_sys::mounts::parse;

    use super::*;

    #[test]
    fn mounts_of_other_trees_below_a_guarded_directory_are_beyond_the_guard() {
        let mounts = parse(
            b"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            21 20 0:5 / /srv/share/proc rw - proc proc rw\n\
            22 20 8:2 / /srv/share/disk rw - xfs /dev/sdb1 rw\n\
            23 20 8:1 /home/a /srv/share/bind rw - ext4 /dev/sda1 rw\n\
            24 20 8:1 /srv/share/in /srv/share/again rw - ext4 /dev/sda1 rw\n\
            25 20 8:1 /srv/share2 /srv/share/deep/2 rw - ext4 /dev/sda1 rw\n\
            26 20 8:2 / /srv/beside rw - xfs /dev/sdb1 rw\n\
            27 20 8:1 /srv /mnt rw - ext4 /dev/sda1 rw\n\
            28 27 8:1 /home/a /mnt/share/bind rw - ext4 /dev/sda1 rw\n",
        );
        let share = Path::new("/srv/share");
        let places =
            |found: Vec<PathBuf>| found.iter().map(|p| p.to_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            places(beyond(&mounts, &mounts[0], share, true)),
            ["/srv/share/bind", "/srv/share/deep/2", "/srv/share/disk"]
        );
        assert_eq!(places(beyond(&mounts, &mounts[0], share, false)), ["/srv/share/disk"]);
        assert_eq!(places(beyond(&mounts, &mounts[7], Path::new("/mnt/share"), true)), ["/mnt/share/bind"]);
    }
}
