//! The roots of the watched trees. Each is an open directory, from which everything below is opened by descriptor.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namegate_scan::source::Fault;
use namegate_sys::handle::{self, MountId};
use namegate_sys::mounts::{self, MountEntry};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{Mode, fstat};

/// Device and inode number. They identify a directory as long as it is open or watched.
pub(super) type DirectoryId = (u64, u64);

/// Only directories are opened: anything else fails with ENOTDIR.
const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// The top of a tree.
#[derive(Debug)]
pub(super) struct WatchRoot {
    /// Its absolute path without symbolic links when the watch began.
    pub(super) path: PathBuf,
    pub(super) dir: OwnedFd,
    pub(super) id: DirectoryId,
    /// The type of its file system, as in `ext4`.
    pub(super) kind: String,
    /// The mount that it is in, if that is known.
    pub(super) mount: Option<MountId>,
    /// Whether that mount shows the whole file system.
    pub(super) is_on_whole: bool,
    /// The path of the command line; `None` for a file system mounted below one.
    pub(super) given: Option<PathBuf>,
    /// Whether nothing can be watched at that path now.
    pub(super) is_gone: bool,
}

/// The id of the directory that `fd` refers to.
pub(super) fn id(fd: impl AsFd) -> Result<DirectoryId, Errno> {
    fstat(fd).map(|stat| (stat.st_dev, stat.st_ino))
}

impl WatchRoot {
    pub(super) fn open(path: &Path, mounts: &[MountEntry]) -> Result<Self, Fault> {
        let fault = |error: io::Error| Fault { path: path.to_path_buf(), attempt: "watch", error };
        let canonical = path.canonicalize().map_err(fault)?;
        let dir = open(&canonical, DIRECTORY, Mode::empty()).map_err(|errno| fault(errno.into()))?;
        let id = id(&dir).map_err(|errno| fault(errno.into()))?;
        let mount = handle::from_fd(&dir).ok().map(|(_, mount)| mount);
        let on = mounts::holding(mounts, &canonical);
        let is_on_whole = on.is_some_and(MountEntry::is_whole);
        let kind = on.map(|on| on.kind.clone()).unwrap_or_default();
        Ok(Self { path: canonical, dir, id, kind, mount, is_on_whole, given: None, is_gone: false })
    }

    /// Opens the directory at the path `below`, of any length, from the root. Symbolic links are not followed, and no other file
    /// system is entered.
    ///
    /// # Errors
    /// EXDEV where another file system begins; otherwise as openat2(2) says.
    pub(super) fn open_dir(&self, below: &Path) -> Result<OwnedFd, Errno> {
        // Less than PATH_MAX.
        const AT_ONCE: usize = 4000;
        let mut rest = below.as_os_str().as_bytes();
        let mut held: Option<OwnedFd> = None;
        loop {
            let part = match rest.get(..AT_ONCE) {
                // Names are shorter than this, so there is a separator.
                Some(most) => &rest[..memchr::memrchr(b'/', most).ok_or(Errno::ENAMETOOLONG)?],
                None => rest,
            };
            let from = held.as_ref().map_or(self.dir.as_fd(), AsFd::as_fd);
            let next = step(from, if part.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(part) })?;
            rest = rest.get(part.len() + 1..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(next);
            }
            held = Some(next);
        }
    }

    /// Whether this file system is known to update the change time of a file that is renamed.
    ///
    /// Source: simple_rename_timestamp and its callers in the kernel.
    pub(super) fn stamps_renames(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "tmpfs" | "overlay" | "f2fs"
        )
    }

    /// Whether its times may come from the clock of another machine.
    pub(super) fn is_far(&self) -> bool {
        self.kind.starts_with("nfs")
            || self.kind.starts_with("fuse")
            || matches!(self.kind.as_str(), "cifs" | "smb3" | "9p" | "ceph" | "afs" | "virtiofs")
    }
}

fn step(from: BorrowedFd<'_>, path: &OsStr) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new().flags(DIRECTORY | OFlag::O_NOFOLLOW).resolve(
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_XDEV,
    );
    loop {
        match openat2(from, path, how) {
            // Something was renamed while the kernel checked that the path stays below the root.
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn directories_of_any_depth_are_opened_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = WatchRoot::open(dir.path(), &[]).unwrap();
        let (name, mut held, mut below) =
            ("n".repeat(200), root.open_dir(Path::new("")).unwrap(), PathBuf::new());
        for _ in 0..100 {
            nix::sys::stat::mkdirat(&held, name.as_str(), Mode::S_IRWXU).unwrap();
            below.push(&name);
            held = root.open_dir(&below).unwrap();
        }
        assert!(below.as_os_str().len() > 20_000);
        assert_eq!(id(root.open_dir(&below).unwrap()), id(&held));
        assert_eq!(id(root.open_dir(Path::new("")).unwrap()), Ok(root.id));
        fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("link")).unwrap();
        let errno = |path: &str| root.open_dir(Path::new(path)).map(drop).unwrap_err();
        assert_eq!(errno("file"), Errno::ENOTDIR);
        assert_eq!(errno("link"), Errno::ENOTDIR);
        assert_eq!(errno("link/tmp"), Errno::ELOOP);
        assert_eq!(errno(".."), Errno::EXDEV);
        assert_eq!(errno("none"), Errno::ENOENT);
    }
}
