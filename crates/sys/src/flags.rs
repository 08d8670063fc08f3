//! Flags of inodes, as lsattr(1) shows them.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// `FS_CASEFOLD_FL` of linux/fs.h: names in this directory are looked up without regard to case.
const CASEFOLD: libc::c_int = 0x4000_0000;

/// Reports whether names in the directory `dir` are looked up without regard to case. On ext4, f2fs and tmpfs this is a flag of
/// each directory. See ioctl_iflags(2).
///
/// # Errors
/// ENOTTY or EOPNOTSUPP if the file system has no such flags.
pub fn is_casefolded(dir: impl AsFd) -> Result<bool, Errno> {
    // The call writes an int, whatever type its number implies (ioctl_iflags(2)); a long has room for either.
    let mut flags: libc::c_long = 0;
    // SAFETY: `flags` is borrowed exclusively during the call, and is large enough for what the kernel writes.
    let result = unsafe { libc::ioctl(dir.as_fd().as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) };
    Errno::result(result)?;
    Ok(flags as libc::c_int & CASEFOLD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_directory_is_not_casefolded() {
        let dir = tempfile::tempdir().unwrap();
        match is_casefolded(std::fs::File::open(dir.path()).unwrap()) {
            Ok(folded) => assert!(!folded),
            Err(error) => println!("SKIPPED: no inode flags in {}: {error}", dir.path().display()),
        }
    }
}
