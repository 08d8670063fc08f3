//! The name that an entry had, kept with it in an extended attribute.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::entry::Identity;
use crate::sys::open::beneath;
use crate::sys::stat;
use crate::sys::xattr;

/// The attribute. Its value is the name, byte for byte.
pub const ATTRIBUTE: &str = "user.namegate.original-name";

fn open(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    beneath(dir, OsStr::from_bytes(name), OFlag::O_PATH, Mode::empty())
}

/// Whether the entry `name` has the attribute.
///
/// # Errors
/// It cannot have it: EPERM for what is neither a file nor a directory, EOPNOTSUPP where the file system has none.
pub fn is_marked(dir: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
    match xattr::get(&open(dir, name)?, OsStr::new(ATTRIBUTE), &mut []) {
        Ok(_) => Ok(true),
        Err(Errno::ENODATA) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens the entry `name` if it is `what`. The descriptor holds that inode, whatever has the name a moment later.
///
/// # Errors
/// ESTALE for another entry; otherwise as openat2(2) and statx(2) say.
fn open_if(dir: impl AsFd, name: &[u8], what: &Identity) -> Result<OwnedFd, Errno> {
    let fd = open(dir, name)?;
    if what.is_of(&stat::at(&fd, OsStr::new(""))?) { Ok(fd) } else { Err(Errno::ESTALE) }
}

/// Keeps `original` with the entry `name` if that is `what`; a name that is kept there already stays.
///
/// # Errors
/// ESTALE for another entry; otherwise as setxattr(2) says.
pub fn mark(dir: impl AsFd, name: &[u8], what: &Identity, original: &[u8]) -> Result<(), Errno> {
    match xattr::set(&open_if(dir, name, what)?, OsStr::new(ATTRIBUTE), original, libc::XATTR_CREATE) {
        Err(Errno::EEXIST) => Ok(()),
        result => result,
    }
}

/// Takes the attribute away from the entry `name` if that is `what`, and if the attribute says `original`.
///
/// # Errors
/// ESTALE for another entry; otherwise as getxattr(2) and removexattr(2) say.
pub fn unmark(dir: impl AsFd, name: &[u8], what: &Identity, original: &[u8]) -> Result<(), Errno> {
    let (fd, attribute) = (open_if(dir, name, what)?, OsStr::new(ATTRIBUTE));
    let mut value = vec![0; original.len() + 1];
    match xattr::get(&fd, attribute, &mut value) {
        Ok(len) if value[..len] == *original => xattr::remove(&fd, attribute),
        Ok(_) | Err(Errno::ENODATA | Errno::ERANGE | Errno::EOPNOTSUPP) => Ok(()),
        Err(error) => Err(error),
    }
}
