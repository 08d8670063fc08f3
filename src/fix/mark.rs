//! The name that an entry had, kept with it in an extended attribute.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::sys::open::beneath;
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

/// Keeps `original` with the entry `name`; a name that is kept there already stays.
///
/// # Errors
/// As setxattr(2) says.
pub fn mark(dir: impl AsFd, name: &[u8], original: &[u8]) -> Result<(), Errno> {
    match xattr::set(&open(dir, name)?, OsStr::new(ATTRIBUTE), original, libc::XATTR_CREATE) {
        Err(Errno::EEXIST) => Ok(()),
        result => result,
    }
}

/// Takes the attribute away from the entry `name`, if it says `original`.
///
/// # Errors
/// As getxattr(2) and removexattr(2) say.
pub fn unmark(dir: impl AsFd, name: &[u8], original: &[u8]) -> Result<(), Errno> {
    let (fd, attribute) = (open(dir, name)?, OsStr::new(ATTRIBUTE));
    let mut value = vec![0; original.len() + 1];
    match xattr::get(&fd, attribute, &mut value) {
        Ok(len) if value[..len] == *original => xattr::remove(&fd, attribute),
        Ok(_) | Err(Errno::ENODATA | Errno::ERANGE | Errno::EOPNOTSUPP) => Ok(()),
        Err(error) => Err(error),
    }
}
