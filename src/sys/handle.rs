//! Kernel file handles: a file named by bytes that cost no file descriptor and survive its renaming.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::NixPath;
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
pub struct KernelHandle {
    kind: i32,
    bytes: HandleBytes,
}

/// Those of local file systems are short; there are as many handles as files, and most need no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum HandleBytes {
    Short(u8, [u8; 20]),
    Long(Box<[u8]>),
}

impl HandleBytes {
    fn new(bytes: &[u8]) -> Self {
        let mut short = [0; 20];
        match short.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Self::Short(bytes.len() as u8, short)
            }
            None => Self::Long(bytes.into()),
        }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Short(len, bytes) => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

/// A mount of this process's mount namespace, by the number that name_to_handle_at(2) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountId(i32);

impl KernelHandle {
    /// Its type and its bytes, as the kernel told them.
    pub fn parts(&self) -> (i32, &[u8]) {
        (self.kind, self.bytes.as_slice())
    }

    /// The handle of this type and these bytes; `None` for more bytes than a handle has. Whether it names anything is said
    /// by [`open`].
    pub fn from_parts(kind: i32, bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= MAX_BYTES).then(|| Self { kind, bytes: HandleBytes::new(bytes) })
    }

    /// A number made of the handle: the same for the same file always, and hardly ever for another one.
    pub fn fingerprint(&self) -> u32 {
        // FNV-1a: any mixing serves, the bytes are the kernel's own.
        let bytes = self.bytes.as_slice().iter();
        bytes.fold(0x811C_9DC5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    /// Whether this is certainly a handle of the inode with that number. File systems whose handles are not known to hold
    /// the number are never certain.
    ///
    /// Sources: `fid_type` of linux/exportfs.h; generic_encode_ino32_fh (ext4), shmem_encode_fh (tmpfs), xfs_fs_encode_fh and
    /// btrfs_encode_fh of the kernel.
    pub fn is_certainly_of(&self, ino: u64) -> bool {
        let bytes = self.bytes.as_slice();
        let number = match (self.kind, bytes.len()) {
            // FILEID_INO32_GEN: number, generation.
            (0x01, 8) => word(bytes, 0),
            // tmpfs: generation, then both halves of the number.
            (0x01, 12) => word(bytes, 4).zip(word(bytes, 8)).map(|(low, high)| low | high << 32),
            // XFS with large numbers, FILEID_BTRFS_WITHOUT_PARENT: the number comes first.
            (0x81, 12) | (0x4D, 20) => word(bytes, 0).zip(word(bytes, 4)).map(|(low, high)| low | high << 32),
            _ => None,
        };
        number == Some(ino)
    }
}

/// 32 bits of this machine's byte order. Numbers of 64 bits are put together of two as x86 and ARM have them; elsewhere
/// nothing is certain.
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 4)?.try_into().ok()?;
    cfg!(target_endian = "little").then(|| u64::from(u32::from_le_bytes(word)))
}

/// The handle of the file that `fd` stands for, and its mount. `fd` may be an `O_PATH` descriptor.
/// See name_to_handle_at(2).
///
/// # Errors
/// EOPNOTSUPP where the file system has no handles; otherwise as the manual page says.
pub fn from_fd(fd: impl AsFd) -> Result<(KernelHandle, MountId), Errno> {
    name_to_handle(fd, c"", libc::AT_EMPTY_PATH)
}

/// The handle of the file that stands under `name` in `dir`, a symbolic link itself, and its mount.
///
/// # Errors
/// As for [`from_fd`]; ENOENT when there is none.
pub fn at(dir: impl AsFd, name: &OsStr) -> Result<(KernelHandle, MountId), Errno> {
    name.with_nix_path(|name| name_to_handle(dir, name, 0))?
}

/// The handle by which events tell of what `fd` holds. File systems whose files cannot be opened by a handle, such as overlays,
/// have those too, from Linux 6.5 on.
///
/// # Errors
/// As for [`from_fd`].
pub fn of_events(fd: impl AsFd) -> Result<KernelHandle, Errno> {
    /// `AT_HANDLE_FID` of linux/fcntl.h.
    const AT_HANDLE_FID: i32 = 0x200;
    let found = match name_to_handle(&fd, c"", libc::AT_EMPTY_PATH | AT_HANDLE_FID) {
        Err(Errno::EINVAL) => from_fd(fd),
        result => result,
    };
    found.map(|(handle, _)| handle)
}

fn name_to_handle(fd: impl AsFd, name: &CStr, flags: i32) -> Result<(KernelHandle, MountId), Errno> {
    let mut buffer = Buffer { bytes: MAX_BYTES as u32, kind: 0, handle: [0; MAX_BYTES] };
    let mut mount = 0i32;
    // SAFETY: the name is a string with its NUL; the kernel writes at most `bytes` octets behind the head of `buffer`,
    // which has room for as many, and one int to `mount`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_fd().as_raw_fd(),
            name.as_ptr(),
            &raw mut buffer,
            &raw mut mount,
            flags,
        )
    };
    Errno::result(result)?;
    let bytes = buffer.handle.get(..buffer.bytes as usize).ok_or(Errno::EOVERFLOW)?;
    Ok((KernelHandle { kind: buffer.kind, bytes: HandleBytes::new(bytes) }, MountId(mount)))
}

/// Opens the file that `handle` names on the mount that `mount` lies on. See open_by_handle_at(2).
///
/// # Errors
/// ESTALE when the file is gone; EPERM without CAP_DAC_READ_SEARCH; otherwise as the manual page says.
pub fn open(mount: impl AsFd, handle: &KernelHandle, flags: OFlag) -> Result<OwnedFd, Errno> {
    let bytes = handle.bytes.as_slice();
    let mut buffer = Buffer { bytes: bytes.len() as u32, kind: handle.kind, handle: [0; MAX_BYTES] };
    buffer.handle.get_mut(..bytes.len()).ok_or(Errno::EINVAL)?.copy_from_slice(bytes);
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
        let (handle, _) = match from_fd(&file) {
            Ok(found) => found,
            Err(error) => return println!("SKIPPED: no file handles in {}: {error}", dir.path().display()),
        };
        let (kind, bytes) = handle.parts();
        assert_eq!(KernelHandle::from_parts(kind, bytes).as_ref(), Some(&handle));
        assert_eq!(of_events(&file).as_ref(), Ok(&handle));
        assert_eq!(KernelHandle::from_parts(kind, &[0; MAX_BYTES + 1]), None);
        fs::rename(&old, &new).unwrap();
        fs::write(&old, "y").unwrap();
        let (other, _) = from_fd(fs::File::open(&old).unwrap()).unwrap();
        assert_ne!(handle, other);
        let parent = fs::File::open(dir.path()).unwrap();
        assert_eq!(at(&parent, OsStr::new("new")).unwrap().0, handle, "by name it is the same");
        assert_eq!(at(&parent, OsStr::new("none")).unwrap_err(), Errno::ENOENT);
        assert!(!handle.is_certainly_of(fs::metadata(&old).unwrap().ino()), "that of another file");
        if !handle.is_certainly_of(fs::metadata(&new).unwrap().ino()) {
            println!("SKIPPED: nothing is known of the handles of {}", dir.path().display());
        }
        match open(fs::File::open(dir.path()).unwrap(), &handle, OFlag::O_RDONLY) {
            Ok(fd) => {
                let found = fs::File::from(fd).metadata().unwrap().ino();
                assert_eq!(found, fs::metadata(&new).unwrap().ino());
            }
            Err(Errno::EPERM) => println!("SKIPPED: open_by_handle_at needs CAP_DAC_READ_SEARCH"),
            Err(error) => panic!("{error}"),
        }
    }
    #[test]
    fn a_handle_too_long_for_the_short_form_is_kept_whole() {
        for len in [0, 8, 20, 21, 128] {
            let bytes: Vec<u8> = (0..len).collect();
            assert_eq!(HandleBytes::new(&bytes).as_slice(), bytes);
        }
    }
}
