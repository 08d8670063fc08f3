//! A file that appears under its name when it is complete: readers see either the old content or the new.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use namegate_sys::rename::renameat2;
use namegate_sys::stat::{self, Stat};
use namegate_sys::{open, xattr};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use parking_lot::Mutex;

use super::place::{Destination, NamedEntry, refused};
use super::waiting::waiting;

/// The temporary files of this process, each with its directory.
static UNFINISHED: Mutex<Vec<(OwnedFd, OsString)>> = Mutex::new(Vec::new());

/// Removes the temporary files of all outputs that are not finished. For a process that ends at once: nothing else is dropped then.
pub fn remove_unfinished() {
    for (dir, name) in UNFINISHED.lock().drain(..) {
        let _ = unlinkat(&dir, &*name, UnlinkatFlags::NoRemoveDir);
    }
}

/// The attribute that holds the access ACL of an inode: acl(5).
const ACL: &str = "system.posix_acl_access";

/// An output that is being written.
#[derive(Debug)]
pub enum Output {
    /// A new file next to the one that it will replace.
    New(Box<Replacement>),
    /// A pipe, a device or a descriptor, which cannot be replaced.
    InPlace(File),
}

impl Output {
    /// Begins the output at `path`, with the mode of the file that it replaces, or 0666 minus the umask.
    ///
    /// # Errors
    /// The path leads through a link of another user, to a pipe of another user, or into a directory that cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, None)
    }

    /// Begins the output at `path`; the file gets this mode, regardless of the umask and of the file that it replaces.
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
        // Only root can create devices. A pipe of another user could read secrets, or block us for ever.
        if stat.kind != libc::S_IFCHR && !named.is_of_us(stat) {
            return Err(refused(format!("it is not a file, and belongs to another user ({})", stat.uid)));
        }
        Ok(Self::InPlace(open::again(held, OFlag::O_WRONLY | OFlag::O_NOCTTY)?.into()))
    }

    /// A key that is equal for two outputs that would overwrite each other.
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

    /// Puts the new file in place.
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
        waiting(|| match self {
            Self::New(new) => new.file.write(bytes),
            Self::InPlace(file) => file.write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes `bytes` to the file at `path`.
///
/// # Errors
/// As for [`Output::create`], or the bytes cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(bytes)?;
    output.finish()
}

/// Removes the file that [`write()`] would replace. A missing file is no error.
///
/// # Errors
/// The path leads through a link of another user; otherwise as unlink(2) says.
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

/// A new file under a temporary name, in the directory of the file that it will replace. Dropping it without a commit removes it.
#[derive(Debug)]
pub struct Replacement {
    named: Box<NamedEntry>,
    temporary: OsString,
    file: File,
    /// The mode that it gets in any case; otherwise that of the replaced file.
    mode: Option<u32>,
    is_done: bool,
}

impl Replacement {
    /// Creates the file.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn begin(named: Box<NamedEntry>, mode: Option<u32>) -> io::Result<Self> {
        // Nobody else may read it before it has its final owner and mode.
        let created = if mode.is_some() || replaced(&named).is_some() { 0o600 } else { 0o666 };
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        loop {
            let temporary: OsString =
                format!(".namegate-{:012x}", RandomState::new().hash_one(0) & 0xFFFF_FFFF_FFFF).into();
            match openat(&named.dir, &*temporary, flags, Mode::from_bits_truncate(created)) {
                Ok(fd) => {
                    // Without another descriptor, only an output that is dropped is removed.
                    if let Ok(dir) = named.dir.try_clone() {
                        UNFINISHED.lock().push((dir, temporary.clone()));
                    }
                    return Ok(Self { named, temporary, file: fd.into(), mode, is_done: false });
                }
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reports whether there was a file under the name when this one was begun.
    pub fn replaces_file(&self) -> bool {
        self.named.entry.is_some()
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Renames the file into place, with mode, owner and ACL of the file that it replaces.
    ///
    /// The existing entry is neither followed nor written to, whatever it is. The new mode never has set-id bits.
    ///
    /// # Errors
    /// As rename(2) says; or another process replaced the file at the same moment.
    pub fn commit(mut self) -> io::Result<()> {
        match (self.mode, replaced(&self.named)) {
            (Some(mode), _) => self.file.set_permissions(Permissions::from_mode(mode))?,
            (None, Some((held, _))) => take_after(&self.file, held)?,
            (None, None) => {}
        }
        let (dir, name) = (&self.named.dir, &*self.named.name);
        renameat2(dir, &*self.temporary, dir, name, 0)?;
        self.is_done = true;
        // In a directory where others can rename, the temporary name may have been another file's at that moment.
        let (here, file) = (stat::at(dir, name)?, stat::at(&self.file, OsStr::new(""))?);
        match (here.ino, here.device) == (file.ino, file.device) {
            true => Ok(()),
            false => Err(io::Error::other("another process put something else there at the same moment")),
        }
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        UNFINISHED.lock().retain(|(_, name)| *name != self.temporary);
        if !self.is_done {
            let _ = unlinkat(&self.named.dir, &*self.temporary, UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// The file that is replaced, if its owner and mode are to be kept. A file that another user may have put there must not
/// decide who can read and write the new one.
fn replaced(named: &NamedEntry) -> Option<&(OwnedFd, Stat)> {
    named.entry.as_ref().filter(|(_, stat)| stat.kind == libc::S_IFREG && named.is_of_us(stat))
}

/// Gives `file` the owner, group, mode and ACL of `like`, as far as this user may, and never more access than `like` gives.
fn take_after(file: &File, like: &OwnedFd) -> io::Result<()> {
    let stat = stat::at(like, OsStr::new(""))?;
    let own = file.metadata()?;
    let mut mode = stat.mode & 0o777;
    if (own.uid(), own.gid()) != (stat.uid, stat.gid)
        && fchown(file, Some(stat.uid), Some(stat.gid)).is_err()
        && fchown(file, None, Some(stat.gid)).is_err()
    {
        // Another group gets the permissions of others.
        mode &= 0o707 | (mode & 0o7) << 3;
    }
    let name = OsStr::new(ACL);
    let mut acl = vec![0; 1 << 16];
    match xattr::get(like, name, &mut acl) {
        Ok(len) => match xattr::set(file, name, &acl[..len], 0) {
            Ok(()) => return Ok(()),
            // Without the ACL the group bits are the mask of the ACL, not the permissions of the group.
            Err(_) => mode &= 0o707 | (mode & 0o7) << 3,
        },
        // The directory may have given it a default ACL.
        Err(_) => drop(xattr::remove(file, name)),
    }
    file.set_permissions(Permissions::from_mode(mode))
}
