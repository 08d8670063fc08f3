//! The source of a mount: what it must be when it is mounted, and what has become of it since.
//!
//! The mount table says what has become of it, so that nothing here waits for a file system that does not answer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use namegate_sys::mounts::{MountEntry, covering, mounts};
use namegate_sys::stat::{at_hand, is_mount_root, mount_of};
use namegate_telemetry::metrics::SourceProblems;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open};
use nix::sys::stat::{Mode, fstatat};
use nix::sys::statvfs::{Statvfs, fstatvfs};

use super::error::Error;

/// What the source must be.
#[derive(Clone, Debug, Default)]
pub struct SourceRequirements {
    pub mount_point: bool,
    /// A directory with an entry of this name.
    pub marker: Option<String>,
}

/// Opens the source, a path without links, if it is what it must be.
///
/// # Errors
/// [`Error::Source`], [`Error::NotMounted`] or [`Error::NoMarker`].
pub(super) fn open_source(source: &Path, required: &SourceRequirements) -> Result<OwnedFd, Error> {
    let source_error = |errno: Errno| Error::Source(source.into(), errno.into());
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open(source, flags, Mode::empty()).map_err(source_error)?;
    let by_table = || mounts().is_ok_and(|table| covering(&table, source).is_some());
    if required.mount_point && !is_mount_root(&root).unwrap_or_else(by_table) {
        return Err(Error::NotMounted(source.into()));
    }
    if let Some(marker) = required.marker.as_deref() {
        match fstatat(&root, marker, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) => return Err(Error::NoMarker(source.into(), marker.into())),
            found => found.map_err(source_error)?,
        };
    }
    Ok(root)
}

/// The source while it is served.
#[derive(Debug)]
pub(super) struct SourceWatch {
    root: OwnedFd,
    /// Where it was, and on which mount; `None` where the mount is one that only the server has (`noatime`).
    place: Option<(PathBuf, u64)>,
    mountpoint: PathBuf,
    was_read_only: bool,
    /// Only asked when somebody asks the mount: it can take long.
    is_remote: bool,
    is_full: AtomicBool,
}

impl SourceWatch {
    /// Watches the source with this descriptor, which was found at `place` on the mount of `found`, for a mount on `mountpoint`.
    pub(super) fn new(
        root: OwnedFd,
        (place, found): (&Path, impl AsFd),
        mountpoint: &Path,
        is_remote: bool,
    ) -> Self {
        let place = mount_of(found).map(|mount| (place.to_path_buf(), mount));
        let new = Self {
            root,
            place,
            mountpoint: mountpoint.into(),
            was_read_only: false,
            is_remote,
            is_full: AtomicBool::new(false),
        };
        Self { was_read_only: new.problems().read_only, ..new }
    }

    /// Where the source is mounted.
    pub(super) fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Watches the source of a mount that a predecessor has mounted on `mountpoint`.
    ///
    /// # Errors
    /// As dup(2) says.
    pub(super) fn resume(root: impl AsFd, mountpoint: &Path, is_remote: bool) -> io::Result<Self> {
        let root = root.as_fd().try_clone_to_owned()?;
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&root));
        let place = std::fs::read_link(link)?;
        let found = root.try_clone()?;
        let mut watch = Self::new(root, (&place, found), mountpoint, is_remote);
        // What is wrong now may have been right when it was mounted, and a private mount is in no table.
        if watch.problems().detached {
            watch.place = None;
        }
        Ok(watch)
    }

    /// Notes what somebody was told about the space of the source.
    pub(super) fn note_space(&self, space: &Statvfs) {
        let has_inodes = space.files() == 0 || space.files_available() > 0;
        self.is_full.store(space.blocks_available() == 0 || !has_inodes, Ordering::Relaxed);
    }

    /// What is wrong with the source.
    pub(super) fn problems(&self) -> SourceProblems {
        if !self.is_remote
            && let Ok(space) = fstatvfs(&self.root)
        {
            self.note_space(&space);
        }
        let table = mounts().unwrap_or_default();
        let deleted = at_hand(&self.root).is_ok_and(|stat| stat.st_nlink == 0);
        let full = self.is_full.load(Ordering::Relaxed);
        let Some((place, mount)) = self.place.as_ref().filter(|_| !table.is_empty()) else {
            return SourceProblems { deleted, full, ..SourceProblems::default() };
        };
        let Some(at) = table.iter().position(|entry| entry.id == *mount) else {
            return SourceProblems { deleted, full, detached: true, ..SourceProblems::default() };
        };
        let is_ours = |entry: &MountEntry| entry.kind == "fuse.namegate" && entry.point == self.mountpoint;
        let covered = table[at + 1..].iter().any(|entry| place.starts_with(&entry.point) && !is_ours(entry));
        let read_only = table[at].is_read_only() && !self.was_read_only;
        SourceProblems { deleted, detached: false, covered, read_only, full }
    }
}
