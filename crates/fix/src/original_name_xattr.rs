//! The original name of an entry, in an extended attribute of the entry.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use namegate_sys::open::beneath;
use namegate_sys::stat;
use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::group::GroupMember;

/// The attribute. Its value is the name, byte for byte.
pub const ATTRIBUTE: &str = "user.namegate.original-name";

fn open(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    beneath(dir, OsStr::from_bytes(name), OFlag::O_PATH, Mode::empty())
}

/// Reports whether the entry `name` has the attribute.
///
/// # Errors
/// EPERM for an entry that is neither a file nor a directory, EOPNOTSUPP for a file system without attributes.
pub(crate) fn is_set(dir: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
    match xattr::get(&open(dir, name)?, OsStr::new(ATTRIBUTE), &mut []) {
        Ok(_) => Ok(true),
        Err(Errno::ENODATA) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens the entry with the old name of `member`, if it is that entry. The descriptor holds the inode, whatever happens to the
/// name.
///
/// # Errors
/// ESTALE for another entry; otherwise as openat2(2) and statx(2).
fn open_member(dir: impl AsFd, member: &GroupMember) -> Result<OwnedFd, Errno> {
    let fd = open(dir, &member.old)?;
    let stat = stat::at(&fd, OsStr::new(""))?;
    if member.identity().matches(&stat) { Ok(fd) } else { Err(Errno::ESTALE) }
}

/// Sets the attribute of `member` to its old name. An attribute that exists already stays.
///
/// # Errors
/// ESTALE for another entry; otherwise as setxattr(2).
pub fn set(dir: impl AsFd, member: &GroupMember) -> Result<(), Errno> {
    match xattr::set(&open_member(dir, member)?, OsStr::new(ATTRIBUTE), &member.old, libc::XATTR_CREATE) {
        Err(Errno::EEXIST) => Ok(()),
        result => result,
    }
}

/// Removes the attribute from `member`, which has its old name again, if the value is that name.
///
/// # Errors
/// ESTALE for another entry; otherwise as getxattr(2) and removexattr(2).
pub fn remove(dir: impl AsFd, member: &GroupMember) -> Result<(), Errno> {
    let (fd, attribute) = (open_member(dir, member)?, OsStr::new(ATTRIBUTE));
    let mut value = vec![0; member.old.len() + 1];
    match xattr::get(&fd, attribute, &mut value) {
        Ok(len) if value[..len] == **member.old => xattr::remove(&fd, attribute),
        Ok(_) | Err(Errno::ENODATA | Errno::ERANGE | Errno::EOPNOTSUPP) => Ok(()),
        Err(error) => Err(error),
    }
}
