//! Attributes: of inodes, of symbolic links their content, of the file system its size.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, readlinkat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, UtimensatFlags, fchmodat, fstat, utimensat};
use nix::sys::statvfs::{Statvfs, fstatvfs};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, fchownat, truncate};

use super::{Fh, NodeId, Passthrough, Result, SetId};
use crate::sys::open::path_of;

/// What is to change; `None` stays as it is.
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
    /// Time of last modification, likewise.
    pub mtime: Option<TimeSpec>,
}

impl Passthrough {
    /// The attributes of `node`.
    ///
    /// # Errors
    /// ESTALE when it is gone.
    pub fn getattr(&self, node: NodeId) -> Result<FileStat> {
        self.stat(node, &*self.fd(node)?)
    }

    fn stat(&self, node: NodeId, fd: impl AsFd) -> Result<FileStat> {
        let mut stat = fstat(fd)?;
        if node != NodeId::ROOT {
            stat.st_ino = node.0;
        }
        Ok(stat)
    }

    /// Changes attributes of `node`, and returns them all as they are then. `fh` is the open file through which the
    /// length is set, if there is one; `set_id` is for a new length alone.
    ///
    /// # Errors
    /// As chown(2), chmod(2), truncate(2) and utimensat(2) say.
    pub fn setattr(
        &self,
        node: NodeId,
        fh: Option<Fh>,
        changes: &Changes,
        set_id: SetId,
    ) -> Result<FileStat> {
        let fd = self.fd(node)?;
        let path = path_of(&*fd);
        // The owner first: a change of owner takes set-id bits away, and the kernel has already decided about those.
        if changes.uid.is_some() || changes.gid.is_some() {
            let (uid, gid) = (changes.uid.map(Uid::from_raw), changes.gid.map(Gid::from_raw));
            fchownat(&*fd, "", uid, gid, AtFlags::AT_EMPTY_PATH)?;
        }
        if let Some(mode) = changes.mode {
            let mode = Mode::from_bits_truncate(mode & 0o7777);
            fchmodat(AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink)?;
        }
        if let Some(size) = changes.size {
            set_id.changing(|| self.set_size(fh, &path, size))?;
        }
        if changes.atime.is_some() || changes.mtime.is_some() {
            let or_keep = |time: Option<TimeSpec>| time.unwrap_or(TimeSpec::UTIME_OMIT);
            let (atime, mtime) = (or_keep(changes.atime), or_keep(changes.mtime));
            utimensat(AT_FDCWD, path.as_str(), &atime, &mtime, UtimensatFlags::FollowSymlink)?;
        }
        self.stat(node, &*fd)
    }

    fn set_size(&self, fh: Option<Fh>, path: &str, size: u64) -> Result<()> {
        let size = i64::try_from(size).map_err(|_| Errno::EFBIG)?;
        match fh.map(|fh| self.files.get(fh)).transpose()? {
            Some(open) if open.is_writable() => nix::unistd::ftruncate(self.file(&open)?, size),
            _ => truncate(path, size),
        }
    }

    /// The content of a symbolic link.
    ///
    /// # Errors
    /// EINVAL when `node` is none.
    pub fn readlink(&self, node: NodeId) -> Result<OsString> {
        let node = self.nodes.node(node)?;
        match node.kind {
            SFlag::S_IFLNK => readlinkat(&*self.nodes.fd(&node)?, ""),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Size and room of the file system on which `node` lies.
    ///
    /// # Errors
    /// As statvfs(3) says.
    pub fn statfs(&self, node: NodeId) -> Result<Statvfs> {
        // A node that is gone still lies on some file system, and df asks for any: the source's own.
        match self.fd(node) {
            Ok(fd) => fstatvfs(&*fd),
            Err(_) => fstatvfs::<&OwnedFd>(self.nodes.root()),
        }
    }
}
