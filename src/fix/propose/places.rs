//! The roots of a plan, opened, and what lies below them.
//!
//! Every directory is opened from its root, and no symbolic link on the way is followed: whoever may write in the tree
//! could have put one there meanwhile.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};

use crate::fix::plan::{Ctime, Directory, Handle, Identity, Kind, Root, components, path_in};
use crate::name::arena::Arena;
use crate::source::scope::Exclude;
use crate::source::{DirectoryBatch, SiblingNames};
use crate::sys::directory::{self, RawDirEntry};
use crate::sys::handle;
use crate::sys::open::again;

/// Longer paths are opened in pieces: the system takes 4,095 bytes at a time.
const MAX_PIECE: usize = 4000;

/// What was asked for.
#[derive(Debug)]
pub(super) struct Places {
    places: Vec<Place>,
    /// Paths that could not be looked at; reading them tells why.
    lost: Vec<PathBuf>,
}

/// A root.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) root: Root,
    /// The path without symbolic links, which only the last component of the root's own can be.
    pub(super) real: Vec<u8>,
    /// The directory, if it is one.
    opened: Option<OwnedFd>,
}

/// A directory.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    stat: FileStat,
}

/// What stands at a path.
pub(super) enum Seen {
    Directory,
    Symlink(Vec<u8>),
    Other,
}

impl Places {
    /// Looks at `paths`. One that lies below another of them is part of that one.
    pub(super) fn new(paths: &[PathBuf]) -> Self {
        let (mut places, mut lost) = (Vec::<Place>::new(), Vec::new());
        for path in paths {
            match Place::new(path) {
                Some(place) => places.push(place),
                None => lost.push(path.clone()),
            }
        }
        let is_part = |at: usize| {
            places.iter().enumerate().any(|(other_at, other)| {
                other_at != at && {
                    let is_earlier = other_at < at;
                    places[at].is_part_of(other, is_earlier)
                        || is_earlier && places[at].root.path == other.root.path
                }
            })
        };
        let kept: Vec<bool> = (0..places.len()).map(|at| !is_part(at)).collect();
        let mut kept = kept.into_iter();
        places.retain(|_| kept.next().unwrap_or(true));
        Self { places, lost }
    }

    /// The paths to be read.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let path = |place: &Place| PathBuf::from(OsStr::from_bytes(&place.root.path));
        self.places.iter().map(path).chain(self.lost.iter().cloned()).collect()
    }

    pub(super) fn roots(&self) -> Vec<Root> {
        self.places.iter().map(|place| place.root.clone()).collect()
    }

    pub(super) fn all(&self) -> &[Place] {
        &self.places
    }

    /// The root that `path` is or lies below.
    pub(super) fn root_of(&self, path: &[u8]) -> Option<&Root> {
        self.places.iter().map(|place| &place.root).find(|root| is_within(path, &root.path))
    }

    /// Reads again a directory below a root; `root_len` bytes of its path lead to it.
    ///
    /// # Errors
    /// It cannot be read, or is not where it was.
    pub(super) fn batch(
        &self,
        dir: &[u8],
        root_len: usize,
        exclude: &Exclude,
    ) -> Result<DirectoryBatch, Errno> {
        let opened = self.open(dir)?;
        let mut batch = DirectoryBatch::new(PathBuf::from(OsStr::from_bytes(dir)), root_len);
        let mut excluded = Arena::new();
        let below_root = dir.get(root_len..).unwrap_or_default();
        opened.each(&mut |entry| {
            let name = entry.name.as_bytes();
            let is_dir = || match entry.kind {
                libc::DT_UNKNOWN => {
                    opened.identity(name).is_ok_and(|found| found.is_some_and(|i| i.kind == Kind::Directory))
                }
                kind => kind == libc::DT_DIR,
            };
            let is_excluded = !exclude.is_empty() && {
                let path = if below_root.is_empty() { name.to_vec() } else { path_in(below_root, name) };
                exclude.matches(Path::new(OsStr::from_bytes(&path)), is_dir())
            };
            match is_excluded {
                // The system hands over no name with a NUL.
                true => drop(excluded.push(name)),
                false => batch.push(name),
            }
        })?;
        if !excluded.is_empty() {
            batch.siblings = SiblingNames::Excluded(excluded);
        }
        Ok(batch)
    }

    /// Opens the directory `dir`: one below a root, or that of a root's own name.
    ///
    /// # Errors
    /// As openat2(2) says; ELOOP where a symbolic link has come to stand on the way.
    pub(super) fn open(&self, dir: &[u8]) -> Result<Opened, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        for place in &self.places {
            let Some(root) = place.opened.as_ref().filter(|_| is_within(dir, &place.root.path)) else {
                continue;
            };
            let skipped = components(&place.root.path).count();
            let below: Vec<&[u8]> = components(dir).skip(skipped).collect();
            return Opened::new(beneath(root, &below, flags)?);
        }
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        Opened::new(openat2(AT_FDCWD, OsStr::from_bytes(dir), how)?)
    }
}

impl Place {
    fn new(path: &Path) -> Option<Self> {
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
        // What is no directory is meant itself, and not what it leads to.
        let inode = match meta.is_dir() {
            true => meta.ino(),
            false => fs::symlink_metadata(&path).ok()?.ino(),
        };
        let root = Root { path: path.into_os_string().into_vec(), inode };
        Some(Self { root, real: real.into_os_string().into_vec(), opened })
    }

    /// Whether whoever reads `other` has read this; of two that are the same directory one is enough, rather the one that is
    /// no link, or else the earlier.
    fn is_part_of(&self, other: &Self, other_is_earlier: bool) -> bool {
        let is_link = |place: &Self| place.root.path != place.real;
        let is_below = |path: &[u8]| is_within(path, &other.real) && path != other.real;
        if !other.is_directory() {
            return false;
        }
        if !self.is_directory() {
            return is_below(&self.root.path);
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

    /// What stands at `path`, a real path within this root; `None` if that cannot be told.
    pub(super) fn look(&self, path: &[u8]) -> Option<Seen> {
        let root = self.opened.as_ref()?;
        let below: Vec<&[u8]> = components(path).skip(components(&self.real).count()).collect();
        let fd = beneath(root, &below, OFlag::O_PATH | OFlag::O_NOFOLLOW).ok()?;
        let stat = fstat(&fd).ok()?;
        match Kind::of_mode(stat.st_mode)? {
            Kind::Directory => Some(Seen::Directory),
            Kind::Symlink => Some(Seen::Symlink(readlinkat(&fd, "").ok()?.into_vec())),
            _ => Some(Seen::Other),
        }
    }

    /// The path that a plan has for `real`, a real path within this root.
    pub(super) fn as_planned(&self, real: &[u8]) -> Vec<u8> {
        let below = components(real).skip(components(&self.real).count());
        below.fold(self.root.path.clone(), |path, name| path_in(&path, name))
    }
}

/// Whether `path` is `above` or lies below it.
pub(super) fn is_within(path: &[u8], above: &[u8]) -> bool {
    let mut path = components(path);
    components(above).all(|piece| path.next() == Some(piece))
}

/// Opens what the names `below` lead to from `dir`, without following any link on the way.
fn beneath(dir: &OwnedFd, below: &[&[u8]], flags: OFlag) -> Result<OwnedFd, Errno> {
    let how = |flags: OFlag| {
        OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS,
        )
    };
    let mut from: Option<OwnedFd> = None;
    let mut piece = b".".to_vec();
    for name in below {
        if piece.len() + 1 + name.len() > MAX_PIECE {
            let way = how(OFlag::O_PATH | OFlag::O_DIRECTORY);
            from = Some(openat2(from.as_ref().unwrap_or(dir), OsStr::from_bytes(&piece), way)?);
            piece = b".".to_vec();
        }
        piece.push(b'/');
        piece.extend_from_slice(name);
    }
    // The last component may be a link, which is opened itself; `RESOLVE_NO_SYMLINKS` lets that pass with these two flags.
    openat2(from.as_ref().unwrap_or(dir), OsStr::from_bytes(&piece), how(flags))
}

impl Opened {
    fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let stat = fstat(&fd)?;
        Ok(Self { fd, stat })
    }

    /// The directory as a plan tells of it; `path` is where it was found.
    pub(super) fn directory(&self, path: &[u8]) -> Directory {
        let found = handle::from_fd(self.fd.as_fd()).ok();
        let handle = found.map(|(handle, _)| {
            let (kind, bytes) = handle.parts();
            Handle { kind, bytes: bytes.to_vec() }
        });
        Directory { path: path.to_vec(), inode: self.stat.st_ino, handle }
    }

    /// Which entry stands under `name`; `None` if that is what is mounted on it.
    ///
    /// # Errors
    /// As fstatat(2) says.
    pub(super) fn identity(&self, name: &[u8]) -> Result<Option<Identity>, Errno> {
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW | AtFlags::AT_NO_AUTOMOUNT;
        let stat = fstatat(&self.fd, OsStr::from_bytes(name), flags)?;
        if stat.st_dev != self.stat.st_dev {
            return Ok(None);
        }
        let ctime = Ctime {
            seconds: stat.st_ctime,
            nanoseconds: u32::try_from(stat.st_ctime_nsec).map_err(|_| Errno::EOVERFLOW)?,
        };
        let kind = Kind::of_mode(stat.st_mode).ok_or(Errno::EINVAL)?;
        Ok(Some(Identity { inode: stat.st_ino, ctime, kind }))
    }

    /// Hands over all entries but `.` and `..`.
    ///
    /// # Errors
    /// As getdents64(2) says.
    pub(super) fn each(&self, take: &mut dyn FnMut(RawDirEntry<'_>)) -> Result<(), Errno> {
        /// Room for what one call reads.
        const BUFFER: usize = 64 * 1024;
        let readable = again(&self.fd, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK)?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let filled = match directory::read(&readable, &mut buffer) {
                Ok(0) => return Ok(()),
                Ok(filled) => filled,
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error),
            };
            let mut rest = &buffer[..filled];
            while let Some((entry, len)) = directory::first(rest) {
                if !matches!(entry.name.as_bytes(), b"." | b"..") {
                    take(entry);
                }
                rest = &rest[len..];
            }
        }
    }
}
