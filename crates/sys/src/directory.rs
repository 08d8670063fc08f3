//! Reading directories: `getdents64`, with the offset of every entry, which std and nix do not return.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

/// Offset of the name in a `linux_dirent64`: after d_ino, d_off, d_reclen and d_type.
const NAME: usize = 19;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDirEntry<'b> {
    pub ino: u64,
    /// The offset of the next entry, valid only for `lseek`.
    pub next: i64,
    /// Its type, one of the `DT_` constants; `DT_UNKNOWN` if the file system does not report it.
    pub kind: u8,
    /// Its name, the exact bytes.
    pub name: &'b OsStr,
    /// Its name with the NUL at its end.
    pub c_name: &'b CStr,
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
/// # use namegate_sys::directory;
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
    let c_name = name_in(record)?;
    let entry = RawDirEntry {
        ino: u64::from_ne_bytes(record[..8].try_into().ok()?),
        next: i64::from_ne_bytes(record[8..16].try_into().ok()?),
        kind: record[18],
        name: OsStr::from_bytes(c_name.to_bytes()),
        c_name,
    };
    Some((entry, len))
}

/// The name in `record`, up to its first NUL. Records are short and read by the million, so the words are searched here: the call of
/// a function that searches takes longer than the search.
fn name_in(record: &[u8]) -> Option<&CStr> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // The word in which the name begins.
    const FIRST: usize = NAME / 8;
    let (words, rest) = record.as_chunks::<8>();
    let mut end = None;
    for (at, &word) in words.iter().enumerate().skip(FIRST) {
        let before_name = if at == FIRST { (1 << (NAME % 8 * 8)) - 1 } else { 0 };
        let word = u64::from_le_bytes(word) | before_name;
        // The lowest bit that is set is in the first byte that is zero.
        let zeros = word.wrapping_sub(EACH) & !word & (EACH << 7);
        if zeros != 0 {
            end = Some(at * 8 + zeros.trailing_zeros() as usize / 8);
            break;
        }
    }
    let in_rest = || {
        let from = (record.len() - rest.len()).max(NAME);
        memchr::memchr(0, record.get(from..)?).map(|at| from + at)
    };
    let name = record.get(NAME..=end.or_else(in_rest)?)?;
    // SAFETY: it ends in the first NUL at or after its beginning.
    Some(unsafe { CStr::from_bytes_with_nul_unchecked(name) })
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
    fn a_name_ends_at_its_first_nul_wherever_that_is() {
        for len in NAME..64 {
            for at in NAME..len {
                for padding in [0, 1, 0x7F, 0x80, 0xFF] {
                    let mut record = vec![padding; len];
                    record[..NAME].fill(0);
                    record[NAME..at].fill(b'a');
                    record[at] = 0;
                    let name = name_in(&record).map(CStr::to_bytes);
                    assert_eq!(name, Some(&record[NAME..at]), "{at} of {len}");
                }
            }
            assert_eq!(name_in(&[vec![0; NAME], vec![1; len - NAME]].concat()), None);
        }
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
