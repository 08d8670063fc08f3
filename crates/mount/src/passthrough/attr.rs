//! Attributes of inodes, targets of symbolic links, and statistics of the file system.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use namegate_sys::open::path_of;
use namegate_sys::stat::Time;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, readlinkat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, UtimensatFlags, fchmodat, fstat, utimensat};
use nix::sys::statvfs::{Statvfs, fstatvfs};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, fchownat};

use super::node::TrackedNode;
use super::{Caller, Fh, NodeId, Passthrough, Result, SetId};

/// Attributes to change; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Permission bits, with set-id and sticky bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Time of last access; [`TimeSpec::UTIME_NOW`] for now.
    pub atime: Option<TimeSpec>,
    /// Time of last modification; [`TimeSpec::UTIME_NOW`] for now.
    pub mtime: Option<TimeSpec>,
}

impl Changes {
    /// Whether the time of modification becomes another one than now, and nothing else changes the content.
    pub fn restores_mtime(&self) -> bool {
        self.size.is_none() && self.mtime.is_some_and(|time| time != TimeSpec::UTIME_NOW)
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self { mode: None, uid: None, gid: None, size: None, atime: None, mtime: None })
    }
}

impl Passthrough {
    /// The attributes of `node`.
    ///
    /// # Errors
    /// ESTALE if the file is gone.
    pub fn getattr(&self, node: NodeId) -> Result<FileStat> {
        let node = self.nodes.node(node)?;
        self.stat(&node, &*self.nodes.fd(&node)?)
    }

    /// The attributes of `node`, and when it was created, if the file system records that.
    ///
    /// # Errors
    /// ESTALE if the file is gone.
    pub fn statx(&self, node: NodeId) -> Result<(FileStat, Option<Time>)> {
        let node = self.nodes.node(node)?;
        let fd = self.nodes.fd(&node)?;
        let created = namegate_sys::stat::at(&*fd, OsStr::new(""))?.btime;
        Ok((self.stat(&node, &*fd)?, created))
    }

    fn stat(&self, node: &TrackedNode, fd: impl AsFd) -> Result<FileStat> {
        let mut stat = fstat(fd)?;
        node.note_mode(stat.st_mode);
        if node.id != NodeId::ROOT {
            stat.st_ino = node.id.0;
        }
        Ok(stat)
    }

    /// Changes attributes of `node` and returns all of them. `fh` is the open file through which the length is set, if any.
    ///
    /// # Errors
    /// As chown(2), chmod(2), truncate(2) and utimensat(2) say.
    pub fn setattr(
        &self,
        caller: &Caller,
        node: NodeId,
        fh: Option<Fh>,
        changes: &Changes,
    ) -> Result<FileStat> {
        let node = self.nodes.node(node)?;
        let fd = self.nodes.fd(&node)?;
        let path = path_of(&*fd);
        let changes_owner = changes.uid.is_some() || changes.gid.is_some();
        // The server clears the bits that a change of owner clears. chown(2) without ids arrives as an empty change.
        if node.has_set_id() && (changes_owner || changes.is_empty()) {
            self.drop_set_id(&node, caller, changes_owner, &*fd)?;
        }
        // The owner first, because changing it may change the mode.
        if changes_owner {
            let (uid, gid) = (changes.uid.map(Uid::from_raw), changes.gid.map(Gid::from_raw));
            fchownat(&*fd, "", uid, gid, AtFlags::AT_EMPTY_PATH)?;
        }
        if let Some(mode) = changes.mode {
            let mode = Mode::from_bits_truncate(mode & 0o7777);
            fchmodat(AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink)?;
        }
        if let Some(size) = changes.size {
            self.set_size(caller, &node, fh, size)?;
        }
        if changes.atime.is_some() || changes.mtime.is_some() {
            let or_keep = |time: Option<TimeSpec>| time.unwrap_or(TimeSpec::UTIME_OMIT);
            let (atime, mtime) = (or_keep(changes.atime), or_keep(changes.mtime));
            utimensat(AT_FDCWD, path.as_str(), &atime, &mtime, UtimensatFlags::FollowSymlink)?;
        }
        self.stat(&node, &*fd)
    }

    fn set_size(&self, caller: &Caller, node: &Arc<TrackedNode>, fh: Option<Fh>, size: u64) -> Result<()> {
        let size = i64::try_from(size).map_err(|_| Errno::EFBIG)?;
        let open = fh.map(|fh| self.files.get(fh)).transpose()?.filter(|open| open.is_writable());
        let file = match &open {
            Some(open) => self.file(open)?,
            None if node.kind != SFlag::S_IFREG => return Err(Errno::EINVAL),
            // The kernel has checked the permission.
            None => Arc::new(File::from(self.nodes.open(node, OFlag::O_WRONLY)?)),
        };
        self.changing(node, caller, SetId::AsCaller, || nix::unistd::ftruncate(&file, size))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// EINVAL for other file types.
    pub fn readlink(&self, node: NodeId) -> Result<OsString> {
        let node = self.nodes.node(node)?;
        match node.kind {
            SFlag::S_IFLNK => readlinkat(&*self.nodes.fd(&node)?, ""),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Statistics of the file system of `node`.
    ///
    /// # Errors
    /// As statvfs(3) says.
    pub fn statfs(&self, node: NodeId) -> Result<Statvfs> {
        // For a node that is gone, report the file system of the source.
        match self.fd(node) {
            Ok(fd) => fstatvfs(&*fd),
            Err(_) => fstatvfs::<&OwnedFd>(self.nodes.root()),
        }
    }
}
