//! The directories of a plan, opened by their paths below its roots: never through a symbolic link, never outside, and not
//! on another file system unless that is asked for.
//!
//! A path is that of the time when the plan was made. Directories are renamed after what is in them, so it holds until then;
//! where it does not hold any more, because something was left and is tried again or is taken back, the names that the
//! directories on the way have got are put in. Whatever is found that way has to be the inode of the plan.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag};
use nix::sys::stat::Mode;
use nix::sys::statvfs::{FsFlags, fstatvfs};

use super::entry::Reason;
use super::plan::{Root, components, path_in};
use crate::name::display::display;
use crate::sys::open;
use crate::sys::stat::{self, Stat};

/// Longer paths are opened in pieces: the kernel takes 4095 bytes.
const MAX_PIECE: usize = 4000;

/// Deeper directories are not searched for under other names.
const MAX_SEARCHED: usize = 256;

/// So many names are tried in a search.
const MAX_TRIES: usize = 4096;

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// What it was when it was opened.
    pub stat: Stat,
}

impl Dir {
    fn of(fd: OwnedFd) -> Result<Rc<Self>, Errno> {
        let stat = stat::at(&fd, OsStr::new(""))?;
        Ok(Rc::new(Self { fd, stat }))
    }

    /// Brings the whole file system to the disk.
    ///
    /// # Errors
    /// As syncfs(2) says. One that may not be read is no error: then everything is brought to the disk.
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

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A root in which nothing can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnly(Vec<u8>);

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is on a file system that is mounted read-only: nothing can be renamed there",
            display(&self.0)
        )
    }
}

impl std::error::Error for ReadOnly {}

/// The new last names of directories, by the paths that they had when the plan was made.
pub type Names = HashMap<Vec<u8>, Vec<u8>>;

/// The trees of a plan.
#[derive(Debug)]
pub struct Roots {
    tops: Vec<Top>,
    /// What directories are called now.
    renamed: Names,
    /// What they may be called, if somebody has renamed them already.
    planned: Names,
    crosses: bool,
}

#[derive(Debug)]
struct Top {
    path: Vec<u8>,
    dir: Result<Rc<Dir>, Reason>,
}

impl Roots {
    /// Opens the tops. `renamed`: directories that have new names already; `planned`: those that may have. `crosses`: what is
    /// mounted below the tops belongs to them.
    ///
    /// # Errors
    /// One is on a file system that cannot be written. One that is not there is no error: whatever is below it is left.
    pub fn open(roots: &[Root], renamed: Names, planned: Names, crosses: bool) -> Result<Self, ReadOnly> {
        let mut opened = Self { tops: Vec::with_capacity(roots.len()), renamed, planned, crosses };
        for root in roots {
            let dir = opened.top(&root.path, root.inode);
            if let Ok(dir) = &dir
                && fstatvfs(&**dir).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_RDONLY))
            {
                return Err(ReadOnly(root.path.clone()));
            }
            opened.tops.push(Top { path: root.path.clone(), dir });
        }
        // The innermost first: of roots within each other that one is asked.
        opened.tops.sort_by_key(|top| std::cmp::Reverse(components(&top.path).count()));
        Ok(opened)
    }

    /// The tops that are there.
    pub fn tops(&self) -> impl Iterator<Item = &Rc<Dir>> {
        self.tops.iter().filter_map(|top| top.dir.as_ref().ok())
    }

    /// Opens the directory `path` by its whole path, which the user has named and which may lead through links.
    fn top(&self, path: &[u8], ino: u64) -> Result<Rc<Dir>, Reason> {
        let mut failed = Reason::OtherDirectory;
        for path in [path.to_vec(), with(path, 0, &self.renamed), with(path, 0, &self.planned)] {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let fd = nix::fcntl::openat(AT_FDCWD, OsStr::from_bytes(&path), flags, Mode::empty());
            match fd.and_then(Dir::of) {
                Ok(dir) if dir.stat.ino == ino => return Ok(dir),
                Ok(_) => {}
                Err(error) => failed = Reason::Directory(error),
            }
        }
        Err(failed)
    }

    /// Takes note that the directory `old` in the directory `dir`, both as the plan has them, is called `new` now.
    pub fn note(&mut self, dir: &[u8], old: &[u8], new: &[u8]) {
        self.renamed.insert(path_in(dir, old), new.to_vec());
    }

    /// Takes note that it has its old name again.
    pub fn forget(&mut self, dir: &[u8], old: &[u8]) {
        if !self.renamed.is_empty() {
            self.renamed.remove(&path_in(dir, old));
        }
    }

    /// Opens the directory that the plan has at `path`, and looks whether it is the inode `ino`.
    ///
    /// # Errors
    /// It cannot be opened, or it is another one.
    pub fn directory(&self, path: &[u8], ino: u64) -> Result<Rc<Dir>, Reason> {
        let below = |top: &&Top| path.strip_prefix(&*top.path).is_some_and(|rest| is_end(&top.path, rest));
        let Some(top) = self.tops.iter().find(below) else {
            // What holds a root is opened for the root's own name.
            let holds = |top: &Top| {
                let mut parts: Vec<&[u8]> = components(&top.path).collect();
                parts.pop().is_some() && parts.into_iter().eq(components(path))
            };
            return if self.tops.iter().any(holds) {
                self.top(path, ino)
            } else {
                Err(Reason::OtherDirectory)
            };
        };
        let dir = top.dir.as_ref().map_err(Clone::clone)?;
        let begin = path.len() - components_after(path, top.path.len()).len();
        if begin == path.len() {
            return if dir.stat.ino == ino { Ok(dir.clone()) } else { Err(Reason::OtherDirectory) };
        }
        let now = with(path, begin, &self.renamed);
        match self.walk(dir, &now[begin..]).and_then(Dir::of) {
            Ok(dir) if dir.stat.ino == ino => Ok(dir),
            failed if self.renamed.is_empty() && self.planned.is_empty() => {
                Err(failed.map_or_else(Reason::Directory, |_| Reason::OtherDirectory))
            }
            failed => self
                .search(dir, path, begin, ino)
                .ok_or_else(|| failed.map_or_else(Reason::Directory, |_| Reason::OtherDirectory)),
        }
    }

    fn walk(&self, top: &Dir, path: &[u8]) -> Result<OwnedFd, Errno> {
        let (mut rest, mut at) = (path, None::<OwnedFd>);
        loop {
            let piece = match rest.len() {
                0..=MAX_PIECE => rest,
                _ => &rest[..memchr::memrchr(b'/', &rest[..MAX_PIECE]).ok_or(Errno::ENAMETOOLONG)?],
            };
            let from = at.as_ref().map_or_else(|| top.as_fd(), AsFd::as_fd);
            let fd = open::directory(from, OsStr::from_bytes(piece), self.crosses)?;
            rest = &rest[piece.len()..];
            if rest.is_empty() {
                return Ok(fd);
            }
            rest = &rest[1..];
            at = Some(fd);
        }
    }

    /// Looks for the directory component by component, each under every name that it is known to have or may have: names may
    /// have been traded, so that the first directory found is not always on the way.
    fn search(&self, top: &Rc<Dir>, path: &[u8], begin: usize, ino: u64) -> Option<Rc<Dir>> {
        let ends: Vec<usize> =
            memchr::memchr_iter(b'/', &path[begin..]).map(|at| begin + at).chain([path.len()]).collect();
        if ends.len() > MAX_SEARCHED {
            return None;
        }
        // The directories on the way, each with the number of the next name to be tried in it.
        let (mut way, mut tries) = (vec![(top.clone(), 0)], 0);
        while let Some((dir, next)) = way.last_mut() {
            let (dir, number) = (dir.clone(), *next);
            *next += 1;
            let depth = way.len() - 1;
            let (start, end) = (if depth == 0 { begin } else { ends[depth - 1] + 1 }, ends[depth]);
            let name = match number {
                0 => Some(&path[start..end]),
                1 => self.renamed.get(&path[..end]).map(Vec::as_slice),
                2 => self.planned.get(&path[..end]).map(Vec::as_slice),
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
                name.and_then(|name| open::directory(&*dir, OsStr::from_bytes(name), self.crosses).ok());
            match found.and_then(|fd| Dir::of(fd).ok()) {
                Some(found) if depth + 1 < ends.len() => way.push((found, 0)),
                Some(found) if found.stat.ino == ino => return Some(found),
                _ => {}
            }
        }
        None
    }
}

/// Whether `rest`, what follows `top` in a path, begins at a component.
fn is_end(top: &[u8], rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"/") || top.ends_with(b"/")
}

/// What follows in `path` after `len` bytes, without the separator.
fn components_after(path: &[u8], len: usize) -> &[u8] {
    let rest = &path[len..];
    rest.strip_prefix(b"/").unwrap_or(rest)
}

/// `path` with new names for the directories in it, from the byte `begin` on.
fn with(path: &[u8], begin: usize, names: &Names) -> Vec<u8> {
    if names.is_empty() {
        return path.to_vec();
    }
    let mut made = path[..begin].to_vec();
    let mut end = begin;
    for (number, name) in path[begin..].split(|&byte| byte == b'/').enumerate() {
        if number > 0 {
            made.push(b'/');
            end += 1;
        }
        end += name.len();
        made.extend_from_slice(names.get(&path[..end]).map_or(name, Vec::as_slice));
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_names_are_put_into_a_path() {
        let names = [("/r/a", "A"), ("/r/a/b", "B"), ("/r", "R")];
        let names = names.map(|(path, name)| (path.as_bytes().to_vec(), name.as_bytes().to_vec())).into();
        for (path, begin, expected) in [
            ("/r/a/b/c", 3, "/r/A/B/c"),
            ("/r/a/b/c", 0, "/R/A/B/c"),
            ("/r/b/a", 3, "/r/b/a"),
            ("/", 0, "/"),
            ("/r", 0, "/R"),
        ] {
            assert_eq!(with(path.as_bytes(), begin, &names), expected.as_bytes(), "{path}");
        }
    }
}
