//! A file that appears under its name when it is whole: readers see the old content or the new.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::place::{Destination, NamedEntry, refused};
use crate::sys::rename::renameat2;
use crate::sys::stat::{self, Stat};
use crate::sys::{open, xattr};

/// The attribute that holds the access ACL of an inode: acl(5).
const ACL: &str = "system.posix_acl_access";

/// What is being written.
#[derive(Debug)]
pub enum Output {
    /// A new file beside the name that it will get.
    New(Box<Replacement>),
    /// A pipe, a device or a descriptor, which nothing can replace.
    InPlace(File),
}

impl Output {
    /// Begins what is to be at `path`, with the mode of what is there, or 0666 less the umask.
    ///
    /// # Errors
    /// The path leads through a link of somebody else, to a pipe of somebody else, or into a directory that cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, None)
    }

    /// The same; a new file has this mode, whatever the umask and whatever is replaced.
    ///
    /// # Errors
    /// As for [`Output::create`].
    pub fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        Self::begin(path, Some(mode))
    }

    fn begin(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        let named = match Destination::resolve(path)? {
            Destination::Open(file) => return Ok(Self::InPlace(file)),
            Destination::Named(named) => named,
        };
        let Some((held, stat)) = named.entry.as_ref().filter(|(_, stat)| stat.kind != libc::S_IFREG) else {
            return Replacement::begin(named, mode).map(Box::new).map(Self::New);
        };
        // Devices are made by root alone. A pipe of somebody else takes what it is not to know, or holds us up forever.
        if stat.kind != libc::S_IFCHR && !named.is_of_us(stat) {
            return Err(refused(format!("it is not a file, and belongs to another user ({})", stat.uid)));
        }
        Ok(Self::InPlace(open::again(held, OFlag::O_WRONLY | OFlag::O_NOCTTY)?.into()))
    }

    /// What is the same for two outputs that would get into each other's way.
    ///
    /// # Errors
    /// As fstat(2) says.
    pub fn key(&self) -> io::Result<(u64, u64, OsString)> {
        Ok(match self {
            Self::New(new) => {
                let dir = stat::at(&new.named.dir, OsStr::new(""))?;
                (dir.device, dir.ino, new.named.name.clone())
            }
            Self::InPlace(file) => {
                let file = stat::at(file, OsStr::new(""))?;
                (file.device, file.ino, OsString::new())
            }
        })
    }

    /// Puts a new file in its place.
    ///
    /// # Errors
    /// As rename(2) says.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::New(new) => new.commit(),
            Self::InPlace(mut file) => file.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::New(new) => new.file.write(bytes),
            Self::InPlace(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Puts `bytes` at `path`.
///
/// # Errors
/// As for [`Output::create`], or they cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(bytes)?;
    output.finish()
}

/// Removes the file that [`write()`] would replace. Where there is none, nothing is to be done.
///
/// # Errors
/// The path leads through a link of somebody else; otherwise as unlink(2) says.
pub fn remove(path: &Path) -> io::Result<()> {
    match Destination::resolve(path)? {
        Destination::Named(named)
            if named.entry.as_ref().is_some_and(|(_, stat)| stat.kind == libc::S_IFREG) =>
        {
            named.remove()
        }
        _ => Ok(()),
    }
}

/// A new file under a temporary name, in the directory of the one that it will replace. It goes away unless it is committed.
#[derive(Debug)]
pub struct Replacement {
    named: Box<NamedEntry>,
    temporary: OsString,
    file: File,
    /// The mode that it gets in any case.
    mode: Option<u32>,
    is_done: bool,
}

impl Replacement {
    /// Begins the file.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn begin(named: Box<NamedEntry>, mode: Option<u32>) -> io::Result<Self> {
        // Who may read it is known when it has the owner that it is to have.
        let created = if mode.is_some() || replaced(&named).is_some() { 0o600 } else { 0o666 };
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        loop {
            let temporary: OsString =
                format!(".namegate-{:012x}", RandomState::new().hash_one(0) & 0xFFFF_FFFF_FFFF).into();
            match openat(&named.dir, &*temporary, flags, Mode::from_bits_truncate(created)) {
                Ok(fd) => {
                    return Ok(Self { named, temporary, file: fd.into(), mode, is_done: false });
                }
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts it in its place, with mode, owner and ACL of what it replaces.
    ///
    /// What has the name then is not followed and not written to, whatever it is. The mode never has set-id bits.
    ///
    /// # Errors
    /// As rename(2) says; or another process has put something else there at the same moment.
    pub fn commit(mut self) -> io::Result<()> {
        match (self.mode, replaced(&self.named)) {
            (Some(mode), _) => self.file.set_permissions(Permissions::from_mode(mode))?,
            (None, Some((held, _))) => take_after(&self.file, held)?,
            (None, None) => {}
        }
        let (dir, name) = (&self.named.dir, &*self.named.name);
        renameat2(dir, &*self.temporary, dir, name, 0)?;
        self.is_done = true;
        // In a directory where others rename, the temporary name may have been another file's at that moment.
        let (here, file) = (stat::at(dir, name)?, stat::at(&self.file, OsStr::new(""))?);
        match (here.ino, here.device) == (file.ino, file.device) {
            true => Ok(()),
            false => Err(io::Error::other("another process put something else there at the same moment")),
        }
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = unlinkat(&self.named.dir, &*self.temporary, UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// The file that is replaced, if its owner and its mode count. What somebody else has put there in advance does not choose who
/// reads and writes what comes there.
fn replaced(named: &NamedEntry) -> Option<&(OwnedFd, Stat)> {
    named.entry.as_ref().filter(|(_, stat)| stat.kind == libc::S_IFREG && named.is_of_us(stat))
}

/// Gives `file` owner, group, mode and ACL of the file `like`, as far as this user may; and to nobody more than that one gives.
fn take_after(file: &File, like: &OwnedFd) -> io::Result<()> {
    let stat = stat::at(like, OsStr::new(""))?;
    let own = file.metadata()?;
    let mut mode = stat.mode & 0o777;
    if (own.uid(), own.gid()) != (stat.uid, stat.gid)
        && fchown(file, Some(stat.uid), Some(stat.gid)).is_err()
        && fchown(file, None, Some(stat.gid)).is_err()
    {
        // Another group gets what everybody gets.
        mode &= 0o707 | (mode & 0o7) << 3;
    }
    let name = OsStr::new(ACL);
    let mut acl = vec![0; 1 << 16];
    match xattr::get(like, name, &mut acl) {
        Ok(len) => match xattr::set(file, name, &acl[..len], 0) {
            Ok(()) => return Ok(()),
            // The bits of the group are those of the ACL, not those of the group.
            Err(_) => mode &= 0o707 | (mode & 0o7) << 3,
        },
        // It may have got one from the directory.
        Err(_) => drop(xattr::remove(file, name)),
    }
    file.set_permissions(Permissions::from_mode(mode))
}
