//! The open roots of a plan, and the entries below them.
//!
//! Every directory is opened from its root, without following symbolic links: a user who may write to the tree could have
//! placed one meanwhile.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use namegate_core::name::display::display;
use namegate_scan::source::SourceEvent;
use namegate_scan::source::scope::Exclude;
use namegate_scan::source::tree::read_directory;
use namegate_sys::directory::RawDirEntry;
use namegate_sys::handle;
use namegate_sys::open::{again, beneath};
use namegate_sys::stat;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::{Mode, fstat};

use crate::entry::{EntryFailure, birth};
use crate::listing::for_each_entry;
use crate::moving::count_missing;
use crate::plan::{FileHandle, FileKind, PlanDirectory, PlanRoot, SeenEntry, components, is_within, path_in};
use crate::roots::open_below;

#[derive(Debug)]
pub(super) struct RootSet {
    roots: Vec<ReadRoot>,
    /// Paths that could not be opened; the scanner of trees reports why.
    lost: Vec<PathBuf>,
    /// The root is an archive, whose members are not on disk.
    pub(super) is_archive: bool,
}

#[derive(Debug)]
pub(super) struct ReadRoot {
    pub(super) path: Vec<u8>,
    /// The inode number of the directory, or of the entry that is not a directory.
    inode: u64,
    /// The path without symbolic links. Only the last component of the path can be one.
    pub(super) real: Vec<u8>,
    /// The directory, if it is one.
    opened: Option<OwnedFd>,
}

pub(super) struct OpenedDirectory {
    pub(super) fd: OwnedFd,
    inode: u64,
    device: u64,
}

/// The entry at a path.
pub(super) enum TargetEntry {
    Directory,
    Symlink(Vec<u8>),
    Other,
}

impl RootSet {
    /// Opens `paths`. A path below another one is part of that one.
    pub(super) fn open(paths: &[PathBuf]) -> Self {
        let (mut roots, mut lost) = (Vec::<ReadRoot>::new(), Vec::new());
        for path in paths {
            match ReadRoot::open(path) {
                Some(root) => roots.push(root),
                None => lost.push(path.clone()),
            }
        }
        let is_part = |at: usize| {
            roots.iter().enumerate().any(|(other_at, other)| {
                other_at != at && {
                    let is_earlier = other_at < at;
                    roots[at].is_part_of(other, is_earlier) || is_earlier && roots[at].path == other.path
                }
            })
        };
        let kept: Vec<bool> = (0..roots.len()).map(|at| !is_part(at)).collect();
        let mut kept = kept.into_iter();
        roots.retain(|_| kept.next().unwrap_or(true));
        Self { roots, lost, is_archive: false }
    }

    /// The root for the members of `archive`.
    #[cfg(feature = "archive")]
    pub(super) fn of_archive(archive: &Path) -> Self {
        Self { is_archive: true, ..Self::open(&[archive.to_path_buf()]) }
    }

    /// The paths to read.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let path = |root: &ReadRoot| PathBuf::from(OsStr::from_bytes(&root.path));
        self.roots.iter().map(path).chain(self.lost.iter().cloned()).collect()
    }

    pub(super) fn roots(&self) -> Vec<PlanRoot> {
        let root = |root: &ReadRoot| PlanRoot { path: root.path.clone(), inode: root.inode };
        self.roots.iter().map(root).collect()
    }

    pub(super) fn all(&self) -> &[ReadRoot] {
        &self.roots
    }

    /// The root at or above `path`.
    pub(super) fn root_of(&self, path: &[u8]) -> Option<&ReadRoot> {
        self.roots.iter().find(|root| is_within(path, &root.path))
    }

    /// Reads a directory below a root again; the path of the root has `root_len` bytes.
    ///
    /// # Errors
    /// The directory cannot be opened, or was moved.
    pub(super) fn read_again(
        &self,
        dir: &[u8],
        root_len: usize,
        exclude: &Exclude,
        visit: &dyn Fn(SourceEvent<'_>),
    ) -> Result<(), Errno> {
        let opened = self.open_directory(dir)?.open_for_reading()?;
        read_directory(opened.as_fd(), dir, root_len, exclude, visit);
        Ok(())
    }

    /// Opens the directory `dir`: a directory below a root, or the parent of a root.
    ///
    /// # Errors
    /// As openat2(2); ELOOP if a component is a symbolic link now.
    pub(super) fn open_directory(&self, dir: &[u8]) -> Result<OpenedDirectory, Errno> {
        for root in &self.roots {
            let Some(opened) = root.opened.as_ref().filter(|_| is_within(dir, &root.path)) else { continue };
            return OpenedDirectory::from_fd(open_below(opened, &below(dir, &root.path), true)?);
        }
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        OpenedDirectory::from_fd(openat2(AT_FDCWD, OsStr::from_bytes(dir), how)?)
    }
}

impl ReadRoot {
    fn open(path: &Path) -> Option<Self> {
        let path = match (path.file_name(), path.parent()) {
            (Some(name), Some(above)) => {
                let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
                fs::canonicalize(above).ok()?.join(name)
            }
            _ => fs::canonicalize(path).ok()?,
        };
        let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let meta = fs::metadata(&path).or_else(|_| fs::symlink_metadata(&path)).ok()?;
        let opened = match meta.is_dir() {
            true => {
                nix::fcntl::open(&path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
                    .ok()
            }
            false => None,
        };
        // A path that leads to no directory stands for the entry itself.
        let inode = match meta.is_dir() {
            true => meta.ino(),
            false => fs::symlink_metadata(&path).ok()?.ino(),
        };
        let (path, real) = (path.into_os_string().into_vec(), real.into_os_string().into_vec());
        Some(Self { path, inode, real, opened })
    }

    /// Reports whether `other` includes this root. Of two paths to one directory, the one that is not a link stays, or else the
    /// earlier one.
    fn is_part_of(&self, other: &Self, other_is_earlier: bool) -> bool {
        let is_link = |root: &Self| root.path != root.real;
        let is_below = |path: &[u8]| is_within(path, &other.real) && path != other.real;
        if !other.is_directory() {
            return false;
        }
        if !self.is_directory() {
            return is_below(&self.path);
        }
        let is_same = self.real == other.real;
        is_below(&self.real)
            || is_same
                && is_link(self) >= is_link(other)
                && (is_link(self) != is_link(other) || other_is_earlier)
    }

    pub(super) fn is_directory(&self) -> bool {
        self.opened.is_some()
    }

    /// The entry at `path`, a real path within this root; `None` if it cannot be read.
    pub(super) fn look_up(&self, path: &[u8]) -> Option<TargetEntry> {
        let root = self.opened.as_ref()?;
        let below = below(path, &self.real);
        let (above, name) = match memchr::memrchr(b'/', &below) {
            Some(at) => (&below[..at], &below[at + 1..]),
            None => (&b""[..], if below.is_empty() { &b"."[..] } else { &below }),
        };
        let dir = open_below(root, above, true).ok()?;
        let fd = beneath(&dir, OsStr::from_bytes(name), OFlag::O_PATH, Mode::empty()).ok()?;
        let stat = fstat(&fd).ok()?;
        match FileKind::from_mode(stat.st_mode)? {
            FileKind::Directory => Some(TargetEntry::Directory),
            FileKind::Symlink => Some(TargetEntry::Symlink(readlinkat(&fd, "").ok()?.into_vec())),
            _ => Some(TargetEntry::Other),
        }
    }

    /// The path in a plan for the real path `real` within this root.
    pub(super) fn as_planned(&self, real: &[u8]) -> Vec<u8> {
        rebase(real, &self.real, &self.path)
    }

    /// The real path for the path `planned` of a plan within this root.
    pub(super) fn as_real(&self, planned: &[u8]) -> Vec<u8> {
        rebase(planned, &self.path, &self.real)
    }
}

/// The components of `path` after those of `above`.
pub(super) fn below(path: &[u8], above: &[u8]) -> Vec<u8> {
    components(path).skip(components(above).count()).collect::<Vec<_>>().join(&b'/')
}

/// `path`, which is `from` or below it, below `to` instead.
fn rebase(path: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match &*below(path, from) {
        b"" => to.to_vec(),
        rest => path_in(to, rest),
    }
}

impl OpenedDirectory {
    fn from_fd(fd: OwnedFd) -> Result<Self, Errno> {
        let found = stat::at(&fd, OsStr::new(""))?;
        Ok(Self { fd, inode: found.ino, device: found.device })
    }

    /// The directory for a plan, with its path.
    pub(super) fn describe(&self, path: &[u8]) -> PlanDirectory {
        let found = handle::from_fd(self.fd.as_fd()).ok();
        let handle = found.map(|(handle, _)| {
            let (kind, bytes) = handle.parts();
            FileHandle { kind, bytes: bytes.to_vec() }
        });
        PlanDirectory { path: path.to_vec(), inode: self.inode, handle }
    }

    /// Looks up the entry `name`; `None` if a file system is mounted on it.
    pub(super) fn look_up(&self, name: &[u8]) -> Result<Option<SeenEntry>, Errno> {
        let found = stat::at(&self.fd, OsStr::from_bytes(name))?;
        if found.device != self.device {
            return Ok(None);
        }
        let kind = FileKind::from_mode(found.kind).ok_or(Errno::EINVAL)?;
        Ok(Some(SeenEntry { inode: found.ino, ctime: found.ctime.into(), kind, birth: birth(&found) }))
    }

    /// Why the entry `old`, which is `entry`, cannot move to the path `new` below the directory; `None` if it can.
    pub(super) fn obstacle(&self, old: &[u8], entry: &SeenEntry, new: &str) -> Option<String> {
        if entry.kind != FileKind::File {
            return Some(
                "backslashes separate names in it, and only files move into other directories".to_owned(),
            );
        }
        let new = new.as_bytes();
        let owner = stat::at(&self.fd, OsStr::from_bytes(old)).map_or(0, |stat| stat.uid);
        match count_missing(self.fd.as_fd(), new, owner) {
            Ok(_) => None,
            Err(EntryFailure::Taken) => Some(format!("{} exists", display(new))),
            Err(failure) => Some(failure.to_string()),
        }
    }

    fn open_for_reading(&self) -> Result<OwnedFd, Errno> {
        again(&self.fd, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK)
    }

    /// Calls `take` with all entries except `.` and `..`.
    pub(super) fn for_each_entry(&self, take: &mut dyn FnMut(RawDirEntry<'_>)) -> Result<(), Errno> {
        for_each_entry(self.open_for_reading()?, take)
    }
}
