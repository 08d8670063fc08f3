//! The ioctl(2) requests of /dev/fuse, which nix and libc lack (linux/fuse.h, fuse-passthrough.rst).

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;

/// `FUSE_DEV_IOC_MAGIC`.
const MAGIC: u32 = 229;

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// Opens a second descriptor of the connection of `device`. A request is answered on the descriptor that it was read from.
///
/// # Errors
/// As open(2) of /dev/fuse says; EINVAL if `device` has no connection.
pub fn clone_connection(device: impl AsFd) -> io::Result<OwnedFd> {
    const CLONE: libc::Ioctl = libc::_IOR::<u32>(MAGIC, 0);
    let clone = OwnedFd::from(OpenOptions::new().read(true).write(true).open("/dev/fuse")?);
    let number = device.as_fd().as_raw_fd();
    // SAFETY: the kernel reads one number of 32 bits, which outlives the call.
    Errno::result(unsafe { libc::ioctl(clone.as_raw_fd(), CLONE, &raw const number) })?;
    Ok(clone)
}

/// Registers `file` with the connection of `device`, so that the kernel can read and write it by itself, and returns its number.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; ENOTTY before Linux 6.9; EOPNOTSUPP and ELOOP where the kernel cannot use the file.
pub fn open_backing(device: impl AsFd, file: impl AsFd) -> Result<u32, Errno> {
    const BACKING_OPEN: libc::Ioctl = libc::_IOW::<BackingMap>(MAGIC, 1);
    let map = BackingMap { fd: file.as_fd().as_raw_fd(), flags: 0, padding: 0 };
    // SAFETY: the kernel reads one `struct fuse_backing_map`, which outlives the call.
    let id = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BACKING_OPEN, &raw const map) };
    Errno::result(id).map(i32::cast_unsigned)
}

/// Ends the registration of the file with this number. Files that are open stay open.
///
/// # Errors
/// ENOENT for a number that is not registered.
pub fn close_backing(device: impl AsFd, id: u32) -> Result<(), Errno> {
    const BACKING_CLOSE: libc::Ioctl = libc::_IOW::<u32>(MAGIC, 2);
    // SAFETY: the kernel reads one number of 32 bits, which outlives the call.
    let closed = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BACKING_CLOSE, &raw const id) };
    Errno::result(closed).map(drop)
}

/// Answers OPEN by `fuser` with the registered file `id`, which stays registered.
#[cfg(feature = "fuser")]
pub fn answer_open(reply: fuser::ReplyOpen, fh: fuser::FileHandle, flags: fuser::FopenFlags, id: u32) {
    // SAFETY: `fuser` only asks that the number is closed once. It is taken back below, so `fuser` does not close it.
    let backing = unsafe { reply.wrap_backing(id) };
    reply.opened_passthrough(fh, flags, &backing);
    backing.into_raw();
}

/// Answers CREATE by `fuser` with the registered file `id`, which stays registered.
#[cfg(feature = "fuser")]
pub fn answer_create(
    reply: fuser::ReplyCreate,
    (ttl, attr, generation): (&std::time::Duration, &fuser::FileAttr, fuser::Generation),
    fh: fuser::FileHandle,
    flags: fuser::FopenFlags,
    id: u32,
) {
    // SAFETY: as in `answer_open`.
    let backing = unsafe { reply.wrap_backing(id) };
    reply.created_passthrough(ttl, attr, generation, fh, flags, &backing);
    backing.into_raw();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_header() {
        // Computed by the macros of linux/ioctl.h.
        assert_eq!(libc::_IOR::<u32>(MAGIC, 0) as u32, 0x8004_E500);
        assert_eq!(libc::_IOW::<BackingMap>(MAGIC, 1) as u32, 0x4010_E501);
        assert_eq!(libc::_IOW::<u32>(MAGIC, 2) as u32, 0x4004_E502);
    }

    #[test]
    fn a_device_without_a_mount_has_no_connection() {
        match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            Ok(device) => {
                assert!(clone_connection(&device).is_err() && open_backing(&device, &device).is_err())
            }
            Err(error) => println!("SKIPPED: /dev/fuse: {error}"),
        }
    }
}
