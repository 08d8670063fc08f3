//! Inode flags, which chattr(1) sets and lsattr(1) shows: ioctl_iflags(2), and ioctl_xfs_fsgetxattr(2), which adds the
//! project and the extent size.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// `struct fsxattr` of linux/fs.h, as opaque bytes.
pub type Extended = [u8; 28];

/// `FS_CASEFOLD_FL` of linux/fs.h: names in this directory are looked up without regard to case.
pub const CASEFOLD: u32 = 0x4000_0000;

/// The number of FS_IOC_GETFLAGS.
pub const GET: u32 = libc::FS_IOC_GETFLAGS as u32;

/// The number of FS_IOC_SETFLAGS.
pub const SET: u32 = libc::FS_IOC_SETFLAGS as u32;

/// The number of FS_IOC_FSGETXATTR, which libc lacks: `_IOR('X', 31, struct fsxattr)`.
pub const GET_EXTENDED: u32 = libc::_IOR::<Extended>(b'X' as u32, 31) as u32;

/// The number of FS_IOC_FSSETXATTR, likewise: `_IOW('X', 32, struct fsxattr)`.
pub const SET_EXTENDED: u32 = libc::_IOW::<Extended>(b'X' as u32, 32) as u32;

/// Reads the flags of the inode of `fd`.
///
/// # Errors
/// ENOTTY or EOPNOTSUPP if the file system has none; EBADF for an `O_PATH` descriptor.
pub fn get(fd: impl AsFd) -> Result<u32, Errno> {
    // The request number says `long`, but the kernel writes an int (ioctl_iflags(2), "BUGS"): a long has room for both.
    let mut flags = [0u32; 2];
    // SAFETY: the kernel writes at most one long to `flags`, which is a long.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::FS_IOC_GETFLAGS, flags.as_mut_ptr()) };
    Errno::result(result).map(|_| flags[0])
}

/// Whether names in the directory `dir` are looked up without regard to case. On ext4, f2fs and tmpfs this is a flag of each directory.
///
/// # Errors
/// As [`get`].
pub fn is_casefolded(dir: impl AsFd) -> Result<bool, Errno> {
    Ok(get(dir)? & CASEFOLD != 0)
}

/// Reads the generation of the inode of `fd`: it differs from that of an earlier inode with the same number.
///
/// # Errors
/// ENOTTY or EOPNOTSUPP if the file system tells none; EBADF for an `O_PATH` descriptor.
pub fn generation(fd: impl AsFd) -> Result<u32, Errno> {
    /// The number of FS_IOC_GETVERSION, which libc lacks for some systems: `_IOR('v', 1, long)`.
    const GET_VERSION: libc::Ioctl = libc::_IOR::<libc::c_long>(b'v' as u32, 1);
    let mut version = [0u32; 2];
    // SAFETY: the kernel writes at most one long to `version`, which is a long.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), GET_VERSION, version.as_mut_ptr()) };
    Errno::result(result).map(|_| version[0])
}

/// Sets the flags of the inode of `fd`.
///
/// # Errors
/// EPERM if the caller does not own the file or lacks a capability that a flag needs; otherwise as [`get`].
pub fn set(fd: impl AsFd, flags: u32) -> Result<(), Errno> {
    let flags = [flags, 0];
    // SAFETY: the kernel reads at most one long from `flags`, which is a long.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::FS_IOC_SETFLAGS, flags.as_ptr()) };
    Errno::result(result).map(drop)
}

/// Reads the extended flags of the inode of `fd`.
///
/// # Errors
/// As [`get`].
pub fn get_extended(fd: impl AsFd) -> Result<Extended, Errno> {
    let mut attributes: Extended = [0; 28];
    // SAFETY: the kernel writes one `struct fsxattr` to `attributes`, which has its size.
    let result =
        unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), GET_EXTENDED as libc::Ioctl, attributes.as_mut_ptr()) };
    Errno::result(result).map(|_| attributes)
}

/// Sets the extended flags of the inode of `fd`.
///
/// # Errors
/// As [`set`].
pub fn set_extended(fd: impl AsFd, attributes: &Extended) -> Result<(), Errno> {
    // SAFETY: the kernel reads one `struct fsxattr` from `attributes`, which has its size.
    let result =
        unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), SET_EXTENDED as libc::Ioctl, attributes.as_ptr()) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FS_NODUMP_FL` of linux/fs.h: a flag without any effect on the test.
    const NODUMP: u32 = 0x40;

    #[test]
    fn an_ordinary_directory_is_not_casefolded() {
        let dir = tempfile::tempdir().unwrap();
        match is_casefolded(std::fs::File::open(dir.path()).unwrap()) {
            Ok(folded) => assert!(!folded),
            Err(error) => println!("SKIPPED: no inode flags in {}: {error}", dir.path().display()),
        }
    }

    #[test]
    fn flags_are_set_and_seen_both_ways() {
        let file = tempfile::tempfile_in(tempfile::tempdir().unwrap()).unwrap();
        let before = match get(&file) {
            Ok(flags) => flags,
            Err(error) => return println!("SKIPPED: no inode flags in the temporary directory: {error}"),
        };
        set(&file, before | NODUMP).unwrap();
        assert_eq!(get(&file), Ok(before | NODUMP));
        let extended = get_extended(&file).unwrap();
        assert_eq!(extended[0] & 0x80, 0x80, "FS_XFLAG_NODUMP");
        set(&file, before).unwrap();
        set_extended(&file, &extended).unwrap();
        assert_eq!(get(&file), Ok(before | NODUMP));
        let held = crate::open::again(&file, nix::fcntl::OFlag::O_PATH).unwrap();
        assert_eq!(get(&held), Err(Errno::EBADF));
    }
}
