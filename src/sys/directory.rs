//! Reading directories: `getdents64`, with the offset of every entry, which std and nix do not return.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

/// Offset of the name in a `linux_dirent64`: after d_ino, d_off, d_reclen and d_type.
const NAME: usize = 19;

/// One entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDirEntry<'b> {
    /// Its inode number.
    pub ino: u64,
    /// The offset of the next entry, valid only for `lseek`.
    pub next: i64,
    /// Its type, one of the `DT_` constants; `DT_UNKNOWN` if the file system does not report it.
    pub kind: u8,
    /// Its name, the exact bytes.
    pub name: &'b OsStr,
}

/// Reads entries of `dir` from its current position into `buffer`, and returns how many bytes they fill; 0 at the end.
/// See getdents64(2).
///
/// # Errors
/// As the manual page says; EINVAL when `buffer` is too small for one entry.
pub fn read(dir: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let fd = dir.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`, which is borrowed exclusively during the call.
    let filled = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()) };
    usize::try_from(filled).map_err(|_| Errno::last())
}

/// Parses the first entry in `filled`, a part of the bytes that [`read`] returned which begins at an entry. Returns it with
/// its length.
///
/// ```
/// # use namegate::sys::directory;
/// let root = std::fs::File::open("/")?;
/// let mut buffer = [0; 4096];
/// let filled = directory::read(&root, &mut buffer)?;
/// let (entry, len) = directory::first(&buffer[..filled]).expect("the root is not empty");
/// assert!(!entry.name.is_empty() && len <= filled);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn first(filled: &[u8]) -> Option<(RawDirEntry<'_>, usize)> {
    let len = usize::from(u16::from_ne_bytes(filled.get(16..18)?.try_into().ok()?));
    let record = filled.get(..len)?;
    let name = record.get(NAME..)?;
    let entry = RawDirEntry {
        ino: u64::from_ne_bytes(record[..8].try_into().ok()?),
        next: i64::from_ne_bytes(record[8..16].try_into().ok()?),
        kind: record[18],
        name: OsStr::from_bytes(&name[..memchr::memchr(0, name)?]),
    };
    Some((entry, len))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_directory_is_read_to_its_end_whatever_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let mut made = BTreeSet::from([b".".to_vec(), b"..".to_vec()]);
        for i in 0..300 {
            let name = [format!("{i}-").as_bytes(), &[0xFF, 0x0A][..i % 3]].concat();
            std::fs::write(dir.path().join(OsStr::from_bytes(&name)), "").unwrap();
            made.insert(name);
        }
        let file = std::fs::File::open(dir.path()).unwrap();
        let (mut buffer, mut found) = ([0; 512], BTreeSet::new());
        loop {
            let filled = read(&file, &mut buffer).unwrap();
            let mut rest = &buffer[..filled];
            while let Some((entry, len)) = first(rest) {
                assert!(found.insert(entry.name.as_bytes().to_vec()), "{:?} twice", entry.name);
                rest = &rest[len..];
            }
            if filled == 0 {
                break;
            }
        }
        assert_eq!(found, made);
        assert_eq!(read(&file, &mut []), Ok(0), "no space is needed at the end");
    }

    #[test]
    fn a_truncated_entry_is_not_an_entry() {
        let file = std::fs::File::open("/").unwrap();
        let mut buffer = [0; 4096];
        let filled = read(&file, &mut buffer).unwrap();
        let (_, len) = first(&buffer[..filled]).unwrap();
        for cut in 0..len {
            assert_eq!(first(&buffer[..cut]), None, "{cut} of {len} bytes");
        }
    }
}
