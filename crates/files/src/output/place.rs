//! Resolves the path of an output.
//!
//! A symbolic link on the way, or at the end, is followed if [`is_followed`] allows it; otherwise the walk ends with an error
//! that names the link. Links in procfs lead to open files of a process, and are left to the kernel. `/dev/stdout`, `/dev/stderr`
//! and `/dev/fd/N` are the descriptors themselves: opening such a path would start a file from its beginning again, and would
//! fail for a socket.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use namegate_sys::open;
use namegate_sys::stat::{self, Stat};
use namegate_sys::trust::{is_followed, is_guarded, is_trusted};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// As many links as the kernel follows in one path (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// procfs, as `PROC_SUPER_MAGIC` of linux/magic.h.
const PROCFS: FsType = FsType(0x9FA0);

const HOLD: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The place to which a path leads.
#[derive(Debug)]
pub enum Destination {
    /// A descriptor that is already open.
    Open(File),
    /// A name in a directory.
    Named(Box<NamedEntry>),
}

/// A name in a directory, and the entry that had it when the path was resolved.
#[derive(Debug)]
pub struct NamedEntry {
    pub dir: OwnedFd,
    pub dir_stat: Stat,
    pub name: OsString,
    /// The entry with this name, held open.
    pub entry: Option<(OwnedFd, Stat)>,
}

impl Destination {
    /// Resolves `path`.
    ///
    /// # Errors
    /// A link of another user on the way; a directory that is missing or may not be searched; EISDIR for a path that can
    /// only be that of a directory.
    pub fn resolve(path: &Path) -> io::Result<Self> {
        if let Some(number) = descriptor(path) {
            return Ok(Self::Open(open::duplicate(number)?.into()));
        }
        let bytes = path.as_os_str().as_bytes();
        let mut dir = top(bytes)?;
        let mut names = Vec::new();
        push(&mut names, bytes);
        if bytes.ends_with(b"/") {
            return Err(Errno::EISDIR.into());
        }
        let mut links = 0;
        while let Some(name) = names.pop() {
            let is_last = names.is_empty();
            if !is_last || name == ".." {
                // With this flag an automount is triggered.
                match openat(&dir, &*name, HOLD | OFlag::O_DIRECTORY, Mode::empty()) {
                    Ok(next) => {
                        dir = next;
                        continue;
                    }
                    Err(Errno::ENOTDIR | Errno::ELOOP) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let held = match openat(&dir, &*name, HOLD, Mode::empty()) {
                Ok(held) => held,
                Err(Errno::ENOENT) if is_last => {
                    return NamedEntry::new(dir, name, None).map(Self::Named);
                }
                Err(error) => return Err(error.into()),
            };
            let stat = stat::at(&held, OsStr::new(""))?;
            if stat.kind != libc::S_IFLNK {
                return match is_last {
                    true => NamedEntry::new(dir, name, Some((held, stat))).map(Self::Named),
                    false => Err(Errno::ENOTDIR.into()),
                };
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::ELOOP.into());
            }
            if fstatfs(&held)?.filesystem_type() == PROCFS {
                let flags = if is_last {
                    OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_NOCTTY
                } else {
                    OFlag::O_PATH | OFlag::O_DIRECTORY
                };
                let next = openat(&dir, &*name, flags | OFlag::O_CLOEXEC, Mode::empty())?;
                match is_last {
                    true => return Ok(Self::Open(next.into())),
                    false => dir = next,
                }
                continue;
            }
            if !is_followed(&stat::at(&dir, OsStr::new(""))?, &stat) {
                return Err(not_followed(&name, stat.uid));
            }
            let target = readlinkat(&held, "")?.into_vec();
            if target.starts_with(b"/") {
                dir = top(&target)?;
            }
            push(&mut names, &target);
        }
        Err(Errno::EISDIR.into())
    }
}

impl NamedEntry {
    fn new(dir: OwnedFd, name: OsString, entry: Option<(OwnedFd, Stat)>) -> io::Result<Box<Self>> {
        let dir_stat = stat::at(&dir, OsStr::new(""))?;
        Ok(Box::new(Self { dir, dir_stat, name, entry }))
    }

    /// The name with `end` appended, in the same directory. An entry with this name may be a link, and is not followed.
    ///
    /// # Errors
    /// The entry cannot be examined.
    pub fn beside(&self, end: &str) -> io::Result<Box<Self>> {
        let mut name = self.name.clone();
        name.push(end);
        let entry = match openat(&self.dir, &*name, HOLD, Mode::empty()) {
            Ok(held) => {
                let stat = stat::at(&held, OsStr::new(""))?;
                Some((held, stat))
            }
            Err(Errno::ENOENT) => None,
            Err(error) => return Err(error.into()),
        };
        Self::new(self.dir.try_clone()?, name, entry)
    }

    /// Opens the entry if it is a file of this user or of root, so that nobody else has chosen its content; `None` if there is no
    /// entry.
    ///
    /// # Errors
    /// The entry belongs to another user or is not a regular file, or open(2) fails.
    pub fn open_own(&self, flags: OFlag) -> io::Result<Option<File>> {
        let Some((held, stat)) = &self.entry else { return Ok(None) };
        if stat.kind != libc::S_IFREG {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        if !is_trusted(stat.uid) {
            return Err(refused(format!("it belongs to another user ({})", stat.uid)));
        }
        Ok(Some(open::again(held, flags)?.into()))
    }

    /// Creates a new file with this name and replaces the existing entry.
    ///
    /// # Errors
    /// As unlink(2) and open(2) say.
    pub fn create_new(&self) -> io::Result<File> {
        self.remove()?;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(&self.dir, &*self.name, flags, Mode::from_bits_truncate(0o666))?.into())
    }

    /// Removes the entry. A missing entry is no error.
    ///
    /// # Errors
    /// As unlink(2) says.
    pub fn remove(&self) -> io::Result<()> {
        match unlinkat(&self.dir, &*self.name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reports whether this user or root put the entry there.
    pub(super) fn is_of_us(&self, entry: &Stat) -> bool {
        is_guarded(&self.dir_stat) || is_trusted(entry.uid)
    }
}

/// The number of the descriptor for which the path stands.
fn descriptor(path: &Path) -> Option<i32> {
    let bytes = path.as_os_str().as_bytes();
    match bytes {
        b"/dev/stdout" => return Some(1),
        b"/dev/stderr" => return Some(2),
        _ => {}
    }
    let number = bytes.strip_prefix(b"/dev/fd/").or_else(|| bytes.strip_prefix(b"/proc/self/fd/"))?;
    std::str::from_utf8(number).ok()?.parse().ok().filter(|&number| number >= 0)
}

/// The directory in which a path begins.
fn top(path: &[u8]) -> Result<OwnedFd, Errno> {
    let top = if path.starts_with(b"/") { "/" } else { "." };
    openat(AT_FDCWD, top, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

/// Pushes the components of `path` onto the stack of components to walk.
fn push(names: &mut Vec<OsString>, path: &[u8]) {
    let components = path.split(|&byte| byte == b'/').filter(|&name| !matches!(name, b"" | b"."));
    names.extend(components.rev().map(|name| OsStr::from_bytes(name).to_os_string()));
}

pub(super) fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn not_followed(name: &OsStr, owner: u32) -> io::Error {
    refused(format!(
        "the symbolic link {} of user {owner} is not followed, because another user may have put it there; name the file \
         that it leads to",
        name.display()
    ))
}
