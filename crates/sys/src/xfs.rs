//! What XFS says of an inode by its number: `XFS_IOC_BULKSTAT` (ioctl_xfs_bulkstat(2)).

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// `struct xfs_bulkstat_req` of xfs_fs.h, with room for one inode.
#[repr(C)]
#[derive(Default)]
struct Request {
    ino: u64,
    flags: u32,
    most: u32,
    found: u32,
    agno: u32,
    reserved: [u64; 5],
    inode: Inode,
}

/// `struct xfs_bulkstat`.
#[repr(C)]
#[derive(Default)]
struct Inode {
    ino: u64,
    sizes: [u64; 3],
    times: [i64; 4],
    generation: u32,
    rest: [u32; 31],
}

/// The number of XFS_IOC_BULKSTAT: `_IOR('X', 127, struct xfs_bulkstat_req)`, whose size is that without inodes.
const BULKSTAT: u32 = libc::_IOR::<[u64; 8]>(b'X' as u32, 127) as u32;

/// The generation of the inode with this number on the file system of `fd`.
///
/// # Errors
/// ESTALE if there is no such inode; EPERM without CAP_SYS_ADMIN; ENOTTY for other file systems.
pub fn generation(fd: impl AsFd, ino: u64) -> Result<u32, Errno> {
    let mut request = Request { ino, most: 1, ..Request::default() };
    // SAFETY: the kernel writes the head and at most `most` inodes, for which `request` has room.
    Errno::result(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), BULKSTAT as libc::Ioctl, &raw mut request) })?;
    // The kernel goes on to the next inode if there is none with this number.
    match request.found == 1 && request.inode.ino == ino {
        true => Ok(request.inode.generation),
        false => Err(Errno::ESTALE),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn the_request_has_the_layout_of_the_header_and_other_file_systems_do_not_know_it() {
        assert_eq!((size_of::<Request>(), offset_of!(Request, inode)), (256, 64));
        assert_eq!((size_of::<Inode>(), offset_of!(Inode, generation)), (192, 64));
        assert!(generation(File::open("/proc").unwrap(), 1).is_err());
    }
}
