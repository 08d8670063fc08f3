//! Kernel file handles: they identify a file without a file descriptor, and stay valid when it is renamed.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::thread;

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::OFlag;

/// `MAX_HANDLE_SZ` of linux/exportfs.h.
const MAX_BYTES: usize = 128;

/// `struct file_handle` of the kernel, with room for the longest handle.
#[repr(C)]
struct Buffer {
    bytes: u32,
    kind: i32,
    handle: [u8; MAX_BYTES],
}

/// A kernel file handle. Within one file system, equal handles identify the same file, never a later one with the same inode
/// number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelHandle {
    kind: i32,
    bytes: HandleBytes,
}

/// Handles of local file systems are short. There are as many handles as files, and short ones need no allocation.
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

/// A mount in this process's mount namespace, by the id that name_to_handle_at(2) returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountId(i32);

impl KernelHandle {
    /// Its type and its bytes, as the kernel returned them.
    pub fn parts(&self) -> (i32, &[u8]) {
        (self.kind, self.bytes.as_slice())
    }

    /// Creates the handle with this type and these bytes; `None` for more bytes than a handle can have. Only [`open`] shows
    /// whether a file has this handle.
    pub fn from_parts(kind: i32, bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= MAX_BYTES).then(|| Self { kind, bytes: HandleBytes::new(bytes) })
    }

    /// A hash of the handle: always the same for the same file, and rarely equal for two files.
    pub fn fingerprint(&self) -> u32 {
        // FNV-1a: any hash function will do, because the kernel chooses the bytes.
        let bytes = self.bytes.as_slice().iter();
        bytes.fold(0x811C_9DC5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    /// Reports whether this is certainly a handle of the inode with this number. It is never certain for file systems whose
    /// handles are not known to contain the number.
    pub fn is_certainly_of(&self, ino: u64) -> bool {
        self.inode().is_some_and(|(number, _)| number == ino)
    }

    /// The number of the inode; `None` as for [`KernelHandle::generation`].
    pub fn number(&self) -> Option<u64> {
        self.inode().map(|(number, _)| number)
    }

    /// The generation of the inode, which distinguishes it from earlier ones with the same number; `None` for file systems whose
    /// handles are not known to contain it.
    pub fn generation(&self) -> Option<u32> {
        self.inode().map(|(_, generation)| generation)
    }

    /// The number and the generation of the inode.
    ///
    /// Sources: `fid_type` of linux/exportfs.h; generic_encode_ino32_fh (ext4), shmem_encode_fh (tmpfs), xfs_fs_encode_fh and
    /// btrfs_encode_fh of the kernel.
    fn inode(&self) -> Option<(u64, u32)> {
        let bytes = self.bytes.as_slice();
        let long = |at: usize| Some(u64::from(word(bytes, at)?) | u64::from(word(bytes, at + 4)?) << 32);
        match (self.kind, bytes.len()) {
            INO32 => Some((word(bytes, 0)?.into(), word(bytes, 4)?)),
            // tmpfs: generation, then both halves of the number.
            (0x01, 12) => Some((long(4)?, word(bytes, 0)?)),
            XFS => Some((long(0)?, word(bytes, 8)?)),
            BTRFS => Some((long(0)?, word(bytes, 16)?)),
            _ => None,
        }
    }

    /// The handle of the inode with this number, on the file system of the inode with this handle; on Btrfs, in the same
    /// subvolume. `None` for file systems whose handles cannot be made. Generation 0 stands for any, except on XFS.
    ///
    /// Sources: ext4_nfs_get_inode, f2fs_nfs_get_inode, btrfs_get_dentry and xfs_nfs_get_inode of the kernel.
    pub fn of_sibling(&self, ino: u64, generation: u32) -> Option<Self> {
        let mut bytes = self.bytes.as_slice().to_vec();
        let at = match (self.kind, bytes.len()) {
            INO32 => {
                bytes[..4].copy_from_slice(&u32::try_from(ino).ok()?.to_ne_bytes());
                4
            }
            XFS => {
                bytes[..8].copy_from_slice(&ino.to_ne_bytes());
                8
            }
            // In between is the number of the subvolume.
            BTRFS => {
                bytes[..8].copy_from_slice(&ino.to_ne_bytes());
                16
            }
            _ => return None,
        };
        bytes[at..at + 4].copy_from_slice(&generation.to_ne_bytes());
        let sibling = Self { kind: self.kind, bytes: HandleBytes::new(&bytes) };
        sibling.is_certainly_of(ino).then_some(sibling)
    }
}

/// Type and length of a handle of number and generation, 32 bits each: FILEID_INO32_GEN.
const INO32: (i32, usize) = (0x01, 8);
/// Of a handle of XFS with numbers of 64 bits: number, generation.
const XFS: (i32, usize) = (0x81, 12);
/// FILEID_BTRFS_WITHOUT_PARENT: number, number of the subvolume, generation.
const BTRFS: (i32, usize) = (0x4D, 20);

/// 32 bits in native byte order. Two of them are combined to 64 bits as on x86 and ARM; on other machines nothing is certain.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?.try_into().ok()?;
    cfg!(target_endian = "little").then(|| u32::from_le_bytes(word))
}

/// Returns the handle of the file of `fd`, which may be an `O_PATH` descriptor, and its mount.
/// See name_to_handle_at(2).
///
/// # Errors
/// EOPNOTSUPP if the file system has no handles; otherwise as the manual page says.
pub fn from_fd(fd: impl AsFd) -> Result<(KernelHandle, MountId), Errno> {
    name_to_handle(fd, c"", libc::AT_EMPTY_PATH)
}

/// Returns the handle of the entry `name` in `dir`, and its mount. A symbolic link is not followed.
///
/// # Errors
/// As for [`from_fd`]; ENOENT if there is no such entry.
pub fn at(dir: impl AsFd, name: &OsStr) -> Result<(KernelHandle, MountId), Errno> {
    name.with_nix_path(|name| name_to_handle(dir, name, 0))?
}

/// Returns the handle that fanotify events have for the file of `fd`. From Linux 6.5 on, file systems whose files cannot be
/// opened by handle, such as overlays, have these handles too.
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
    // SAFETY: the name is a string with its NUL; the kernel writes at most `bytes` bytes after the header of `buffer`,
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

/// How often a handle is tried again. For a file that is just being removed ext4 fails with ENOMEM (in 100 of 3,145 calls, beside two processes that
/// created and removed files), and a moment later with ESTALE.
const TRIES: usize = 50;

/// Opens the file with the handle `handle` on the mount of `mount`. See open_by_handle_at(2).
///
/// # Errors
/// ESTALE if the file is gone; EPERM without CAP_DAC_READ_SEARCH; otherwise as the manual page says.
pub fn open(mount: impl AsFd, handle: &KernelHandle, flags: OFlag) -> Result<OwnedFd, Errno> {
    let bytes = handle.bytes.as_slice();
    let mut buffer = Buffer { bytes: bytes.len() as u32, kind: handle.kind, handle: [0; MAX_BYTES] };
    buffer.handle.get_mut(..bytes.len()).ok_or(Errno::EINVAL)?.copy_from_slice(bytes);
    // SAFETY: `buffer` is a `struct file_handle` with as many bytes as its header says; the kernel only reads it.
    let open = || unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_fd().as_raw_fd(),
            &raw const buffer,
            (flags | OFlag::O_CLOEXEC).bits(),
        )
    };
    let mut fd = Errno::result(open());
    for _ in 0..TRIES {
        if !matches!(fd, Err(Errno::ENOMEM)) {
            break;
        }
        thread::yield_now();
        fd = Errno::result(open());
    }
    let fd = fd?;
    // SAFETY: the call has just created this descriptor, and nothing else uses it. It fits: descriptors are ints.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicBool, Ordering};

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
        assert_eq!(at(&parent, OsStr::new("new")).unwrap().0, handle, "the handle by name is the same");
        assert_eq!(at(&parent, OsStr::new("none")).unwrap_err(), Errno::ENOENT);
        assert!(
            !handle.is_certainly_of(fs::metadata(&old).unwrap().ino()),
            "the inode number of another file"
        );
        if !handle.is_certainly_of(fs::metadata(&new).unwrap().ino()) {
            println!("SKIPPED: the format of the handles of {} is not known", dir.path().display());
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
    fn a_file_that_is_just_being_removed_is_there_or_stale() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::File::open(dir.path()).unwrap();
        if let Err(error) = from_fd(&root) {
            return println!("SKIPPED: no file handles in {}: {error}", dir.path().display());
        }
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for path in (0..20).cycle().map(|number| dir.path().join(number.to_string())) {
                        let _ = (fs::write(&path, ""), fs::remove_file(&path));
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            let names = (0..20).cycle().map(|number| number.to_string());
            let handles = names.filter_map(|name| Some(at(&root, OsStr::new(&name)).ok()?.0)).take(30_000);
            let opened = handles.flat_map(|handle| [(); 5].map(|()| open(&root, &handle, OFlag::O_PATH)));
            let failed =
                opened.filter_map(Result::err).find(|errno| !matches!(errno, Errno::ESTALE | Errno::EPERM));
            stop.store(true, Ordering::Relaxed);
            assert_eq!(failed, None);
        });
    }

    #[test]
    fn the_handle_of_another_inode_has_its_number_and_generation_and_what_the_file_system_adds() {
        for (kind, len, largest) in [(1, 8, u64::from(u32::MAX)), (0x81, 12, u64::MAX), (0x4D, 20, u64::MAX)]
        {
            let root = KernelHandle::from_parts(kind, &vec![7; len]).unwrap();
            for (ino, generation) in [(2, 0), (largest, u32::MAX)] {
                let handle = root.of_sibling(ino, generation).unwrap();
                assert!(handle.is_certainly_of(ino) && !handle.is_certainly_of(ino - 1));
                assert_eq!(handle.generation(), Some(generation));
                let (same_kind, bytes) = handle.parts();
                assert_eq!((same_kind, bytes.len()), (kind, len));
                assert!(kind != 0x4D || bytes[8..16] == [7; 8], "the subvolume is the same");
            }
        }
        let root = |kind, len: usize| KernelHandle::from_parts(kind, &vec![7; len]).unwrap();
        assert_eq!(root(1, 8).of_sibling(1 << 32, 0), None, "no number of this file system");
        assert_eq!(root(1, 12).of_sibling(2, 0), None, "tmpfs knows no generation that stands for any");
        assert_eq!(root(0xFB, 20).of_sibling(2, 0), None, "an unknown format");
    }

    #[test]
    fn a_handle_too_long_for_the_short_form_is_kept_whole() {
        for len in [0, 8, 20, 21, 128] {
            let bytes: Vec<u8> = (0..len).collect();
            assert_eq!(HandleBytes::new(&bytes).as_slice(), bytes);
        }
    }
}
