//! Kernel file handles: a file named by bytes that cost no file descriptor and survive its renaming.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// `MAX_HANDLE_SZ` of linux/exportfs.h.
const MAX_BYTES: usize = 128;

/// What the kernel calls `struct file_handle`, with room for the longest.
#[repr(C)]
struct Buffer {
    bytes: u32,
    kind: i32,
    handle: [u8; MAX_BYTES],
}

/// A kernel file handle. Equal handles of one file system name the same file, never one that came to its number later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    kind: i32,
    bytes: Box<[u8]>,
}

/// A mount of this process's mount namespace, by the number that name_to_handle_at(2) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountId(i32);

impl Handle {
    /// A number made of the handle: the same for the same file always, and hardly ever for another one.
    pub fn fingerprint(&self) -> u32 {
        // FNV-1a: any mixing serves, the bytes are the kernel's own.
        self.bytes.iter().fold(0x811C_9DC5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }
}

/// The handle of the file that `fd` stands for, and its mount. `fd` may be an `O_PATH` descriptor.
/// See name_to_handle_at(2).
///
/// # Errors
/// EOPNOTSUPP where the file system has no handles; otherwise as the manual page says.
pub fn of(fd: impl AsFd) -> Result<(Handle, MountId), Errno> {
    let mut buffer = Buffer { bytes: MAX_BYTES as u32, kind: 0, handle: [0; MAX_BYTES] };
    let mut mount = 0i32;
    // SAFETY: the path is a string with its NUL; the kernel writes at most `bytes` octets behind the head of `buffer`,
    // which has room for as many, and one int to `mount`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_fd().as_raw_fd(),
            c"".as_ptr(),
            &raw mut buffer,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    Errno::result(result)?;
    let bytes = buffer.handle.get(..buffer.bytes as usize).ok_or(Errno::EOVERFLOW)?;
    Ok((Handle { kind: buffer.kind, bytes: bytes.into() }, MountId(mount)))
}

/// Opens the file that `handle` names on the mount that `mount` lies on. See open_by_handle_at(2).
///
/// # Errors
/// ESTALE when the file is gone; EPERM without CAP_DAC_READ_SEARCH; otherwise as the manual page says.
pub fn open(mount: impl AsFd, handle: &Handle, flags: OFlag) -> Result<OwnedFd, Errno> {
    let mut buffer = Buffer { bytes: handle.bytes.len() as u32, kind: handle.kind, handle: [0; MAX_BYTES] };
    buffer.handle.get_mut(..handle.bytes.len()).ok_or(Errno::EINVAL)?.copy_from_slice(&handle.bytes);
    // SAFETY: `buffer` is a `struct file_handle` with the `bytes` octets that it announces; the kernel only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_fd().as_raw_fd(),
            &raw const buffer,
            (flags | OFlag::O_CLOEXEC).bits(),
        )
    };
    let fd = Errno::result(fd)?;
    // SAFETY: the call has just made this descriptor, and nobody else knows it. It fits: descriptors are ints.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_handle_finds_its_file_after_a_rename_and_never_the_next_of_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "x").unwrap();
        let file = fs::File::open(&old).unwrap();
        let (handle, _) = match of(&file) {
            Ok(found) => found,
            Err(error) => return println!("SKIPPED: no file handles in {}: {error}", dir.path().display()),
        };
        fs::rename(&old, &new).unwrap();
        fs::write(&old, "y").unwrap();
        let (other, _) = of(fs::File::open(&old).unwrap()).unwrap();
        assert_ne!(handle, other);
        match open(fs::File::open(dir.path()).unwrap(), &handle, OFlag::O_RDONLY) {
            Ok(fd) => {
                let found = fs::File::from(fd).metadata().unwrap().ino();
                assert_eq!(found, fs::metadata(&new).unwrap().ino());
            }
            Err(Errno::EPERM) => println!("SKIPPED: open_by_handle_at needs CAP_DAC_READ_SEARCH"),
            Err(error) => panic!("{error}"),
        }
    }
}
