//! Opens the directories of a plan by their paths below its roots: never through a symbolic link, never outside, and on another
//! file system only on request.
//!
//! The paths are those from when the plan was made. Directories are renamed after their entries, so the paths are valid until then.
//! When they are no longer valid, in a second attempt or in an undo, the new names of the directories on the way are substituted.
//! The directory that is found must be the inode of the plan.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_core::name::display::display;
use namegate_sys::open;
use namegate_sys::stat::{self, Stat};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag};
use nix::sys::stat::Mode;
use nix::sys::statvfs::{FsFlags, fstatvfs};
use parking_lot::Mutex;

use super::entry::EntryFailure;
use super::new_names::NewNames;
use super::plan::{PlanRoot, components};

/// Longer paths are opened in pieces: the kernel accepts 4095 bytes.
const MAX_PIECE: usize = 4000;

/// The depth limit of the search under other names.
const MAX_SEARCHED: usize = 256;

/// At most this many names are tried in a search.
const MAX_TRIES: usize = 4096;

#[derive(Debug)]
pub struct OpenPlanDir {
    fd: OwnedFd,
    /// Its metadata from when it was opened.
    pub stat: Stat,
}

impl OpenPlanDir {
    fn from_fd(fd: OwnedFd) -> Result<Arc<Self>, Errno> {
        let stat = stat::at(&fd, OsStr::new(""))?;
        Ok(Arc::new(Self { fd, stat }))
    }

    /// Flushes the whole file system to the disk.
    ///
    /// # Errors
    /// As syncfs(2). If the directory cannot be read, all file systems are flushed.
    pub fn sync(&self) -> Result<(), Errno> {
        match open::beneath(&self.fd, OsStr::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()) {
            Ok(dir) => nix::unistd::syncfs(dir),
            Err(_) => {
                nix::unistd::sync();
                Ok(())
            }
        }
    }
}

impl AsFd for OpenPlanDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A root on a read-only file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnlyRoot(Vec<u8>);

impl fmt::Display for ReadOnlyRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot rename anything in '{}': the file system is mounted read-only", display(&self.0))
    }
}

impl std::error::Error for ReadOnlyRoot {}

/// The roots of a plan, open.
#[derive(Debug)]
pub struct PlanRoots {
    roots: Vec<OpenRoot>,
    /// The new names of directories, which have them already or may have them since another run. One thread renames while another
    /// opens the directories of the next batch.
    names: Mutex<NewNames>,
    crosses: bool,
}

#[derive(Debug)]
struct OpenRoot {
    path: Vec<u8>,
    dir: Result<Arc<OpenPlanDir>, EntryFailure>,
}

impl PlanRoots {
    /// Opens the roots. With `crosses`, mounts below the roots are included.
    ///
    /// # Errors
    /// A root is on a read-only file system. A missing root is no error: everything below it stays.
    pub fn open(roots: &[PlanRoot], names: NewNames, crosses: bool) -> Result<Self, ReadOnlyRoot> {
        let names = Mutex::new(names);
        let mut opened = Self { roots: Vec::with_capacity(roots.len()), names, crosses };
        for root in roots {
            let dir = opened.open_root(&root.path, root.inode);
            if let Ok(dir) = &dir
                && fstatvfs(&**dir).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_RDONLY))
            {
                return Err(ReadOnlyRoot(root.path.clone()));
            }
            opened.roots.push(OpenRoot { path: root.path.clone(), dir });
        }
        // The innermost first: it serves the paths of roots inside each other.
        opened.roots.sort_by_key(|root| std::cmp::Reverse(components(&root.path).count()));
        Ok(opened)
    }

    /// Flushes the file systems of all roots to the disk.
    pub fn sync(&self) -> Result<(), Errno> {
        self.roots.iter().filter_map(|root| root.dir.as_ref().ok()).try_for_each(|dir| dir.sync())
    }

    /// Opens a root by its whole path, which the user chose and which may lead through links.
    fn open_root(&self, path: &[u8], ino: u64) -> Result<Arc<OpenPlanDir>, EntryFailure> {
        let mut failed = EntryFailure::OtherDirectory;
        let (current, planned) =
            (|path: &[u8]| self.names.lock().current(path), |path: &[u8]| self.names.lock().planned(path));
        for path in [path.to_vec(), substitute(path, 0, &current), substitute(path, 0, &planned)] {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let fd = nix::fcntl::openat(AT_FDCWD, OsStr::from_bytes(&path), flags, Mode::empty());
            match fd.and_then(OpenPlanDir::from_fd) {
                Ok(dir) if dir.stat.ino == ino => return Ok(dir),
                Ok(_) => {}
                Err(error) => failed = EntryFailure::Directory(error),
            }
        }
        Err(failed)
    }

    /// Records that the directory of the rename `id` has its new name now.
    pub(crate) fn record_rename(&self, id: u64) {
        self.names.lock().record(id);
    }

    /// Records that the directory of the rename `id` has its old name again.
    pub(crate) fn forget_rename(&self, id: u64) {
        self.names.lock().forget(id);
    }

    /// Opens the directory with the path `path` in the plan, which must be the inode `ino`.
    ///
    /// # Errors
    /// The directory cannot be opened, or is another one.
    pub(crate) fn open_directory(&self, path: &[u8], ino: u64) -> Result<Arc<OpenPlanDir>, EntryFailure> {
        let is_below =
            |root: &&OpenRoot| path.strip_prefix(&*root.path).is_some_and(|rest| is_end(&root.path, rest));
        let Some(root) = self.roots.iter().find(is_below) else {
            // The parent of a root is opened for the name of the root.
            let is_parent = |root: &OpenRoot| {
                let mut parts: Vec<&[u8]> = components(&root.path).collect();
                parts.pop().is_some() && parts.into_iter().eq(components(path))
            };
            return match self.roots.iter().any(is_parent) {
                true => self.open_root(path, ino),
                false => Err(EntryFailure::OtherDirectory),
            };
        };
        let dir = root.dir.as_ref().map_err(Clone::clone)?;
        let begin = path.len() - below_prefix(path, root.path.len()).len();
        if begin == path.len() {
            return if dir.stat.ino == ino { Ok(dir.clone()) } else { Err(EntryFailure::OtherDirectory) };
        }
        let names = self.names.lock();
        let now = match names.has_current() {
            true => Cow::Owned(substitute(path, begin, &|path| names.current(path))),
            false => Cow::Borrowed(path),
        };
        let has_one_path = names.is_empty();
        drop(names);
        match open_below(&**dir, &now[begin..], self.crosses).and_then(OpenPlanDir::from_fd) {
            Ok(dir) if dir.stat.ino == ino => Ok(dir),
            failed if has_one_path => {
                Err(failed.map_or_else(EntryFailure::Directory, |_| EntryFailure::OtherDirectory))
            }
            failed => self
                .search(dir, path, begin, ino)
                .ok_or_else(|| failed.map_or_else(EntryFailure::Directory, |_| EntryFailure::OtherDirectory)),
        }
    }

    /// Searches the directory component by component, each under every name that it has or may have: directories may have traded
    /// names, so the first match is not always the right one.
    fn search(
        &self,
        root: &Arc<OpenPlanDir>,
        path: &[u8],
        begin: usize,
        ino: u64,
    ) -> Option<Arc<OpenPlanDir>> {
        let ends: Vec<usize> =
            memchr::memchr_iter(b'/', &path[begin..]).map(|at| begin + at).chain([path.len()]).collect();
        if ends.len() > MAX_SEARCHED {
            return None;
        }
        // The directories on the path, each with the number of the next name to try in it.
        let (mut way, mut tries) = (vec![(root.clone(), 0)], 0);
        while let Some((dir, next)) = way.last_mut() {
            let (dir, number) = (dir.clone(), *next);
            *next += 1;
            let depth = way.len() - 1;
            let (start, end) = (if depth == 0 { begin } else { ends[depth - 1] + 1 }, ends[depth]);
            let name = match number {
                0 => Some(path[start..end].to_vec()),
                1 => self.names.lock().planned(&path[..end]),
                _ => {
                    way.pop();
                    continue;
                }
            };
            tries += 1;
            if tries > MAX_TRIES {
                return None;
            }
            let found =
                name.and_then(|name| open::directory(&*dir, OsStr::from_bytes(&name), self.crosses).ok());
            match found.and_then(|fd| OpenPlanDir::from_fd(fd).ok()) {
                Some(found) if depth + 1 < ends.len() => way.push((found, 0)),
                Some(found) if found.stat.ino == ino => return Some(found),
                _ => {}
            }
        }
        None
    }
}

/// Opens the directory at `path` below `root`, without following links; with `crosses` also on another file system.
pub(crate) fn open_below(root: &impl AsFd, path: &[u8], crosses: bool) -> Result<OwnedFd, Errno> {
    let (mut rest, mut at) = (if path.is_empty() { b"." } else { path }, None::<OwnedFd>);
    loop {
        let piece = match rest.len() {
            0..=MAX_PIECE => rest,
            _ => &rest[..memchr::memrchr(b'/', &rest[..MAX_PIECE]).ok_or(Errno::ENAMETOOLONG)?],
        };
        let from = at.as_ref().map_or_else(|| root.as_fd(), AsFd::as_fd);
        let fd = open::directory(from, OsStr::from_bytes(piece), crosses)?;
        rest = &rest[piece.len()..];
        if rest.is_empty() {
            return Ok(fd);
        }
        rest = &rest[1..];
        at = Some(fd);
    }
}

/// Reports whether `rest`, which follows `root` in a path, begins at a component.
fn is_end(root: &[u8], rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"/") || root.ends_with(b"/")
}

/// The rest of `path` after `len` bytes, without the separator.
fn below_prefix(path: &[u8], len: usize) -> &[u8] {
    let rest = &path[len..];
    rest.strip_prefix(b"/").unwrap_or(rest)
}

/// `path` with the new names of its directories, from the byte `begin` on.
fn substitute(path: &[u8], begin: usize, new_name: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut made = path[..begin].to_vec();
    let mut end = begin;
    for (number, name) in path[begin..].split(|&byte| byte == b'/').enumerate() {
        if number > 0 {
            made.push(b'/');
            end += 1;
        }
        end += name.len();
        match new_name(&path[..end]) {
            Some(new) => made.extend_from_slice(&new),
            None => made.extend_from_slice(name),
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_names_are_substituted_in_a_path() {
        let names = [("/r/a", "A"), ("/r/a/b", "B"), ("/r", "R")];
        let new_name = |path: &[u8]| {
            let found = names.iter().find(|(old, _)| old.as_bytes() == path);
            found.map(|(_, new)| new.as_bytes().to_vec())
        };
        for (path, begin, expected) in [
            ("/r/a/b/c", 3, "/r/A/B/c"),
            ("/r/a/b/c", 0, "/R/A/B/c"),
            ("/r/b/a", 3, "/r/b/a"),
            ("/", 0, "/"),
            ("/r", 0, "/R"),
        ] {
            assert_eq!(substitute(path.as_bytes(), begin, &new_name), expected.as_bytes(), "{path}");
        }
    }
}
