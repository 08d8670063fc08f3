//! Extended attributes by an `O_PATH` descriptor.
//!
//! `fgetxattr` and its siblings accept no `O_PATH` descriptor, and `getxattrat` is newer than most kernels, so the calls use
//! [`path_of`]. For a symbolic link these are its own attributes, not those of its target.

use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use super::open::path_of;

fn c_string(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}

fn counted(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

/// Reads the attribute `name` into `value` and returns its length; with an empty `value`, only the length.
/// See getxattr(2).
///
/// # Errors
/// ENODATA if there is none; ERANGE if `value` is too small; otherwise as the manual page says.
pub fn get(fd: &impl AsFd, name: &OsStr, value: &mut [u8]) -> Result<usize, Errno> {
    let (path, name) = (c_string(path_of(fd).as_bytes())?, c_string(name.as_bytes())?);
    // SAFETY: both strings end with NUL; the kernel writes at most `value.len()` bytes to `value`.
    counted(unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) })
}

/// Reads the names of all attributes into `names`, each followed by a NUL, and returns their total length; with an empty
/// `names`, only the length. See listxattr(2).
///
/// # Errors
/// ERANGE if `names` is too small; otherwise as the manual page says.
pub fn list(fd: &impl AsFd, names: &mut [u8]) -> Result<usize, Errno> {
    let path = c_string(path_of(fd).as_bytes())?;
    // SAFETY: the path ends with NUL; the kernel writes at most `names.len()` bytes to `names`.
    counted(unsafe { libc::listxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) })
}

/// Sets the attribute `name`; `flags` are those of setxattr(2).
///
/// # Errors
/// As the manual page says.
pub fn set(fd: &impl AsFd, name: &OsStr, value: &[u8], flags: i32) -> Result<(), Errno> {
    let (path, name) = (c_string(path_of(fd).as_bytes())?, c_string(name.as_bytes())?);
    // SAFETY: both strings end with NUL; the kernel reads `value.len()` bytes of `value`.
    let result =
        unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags) };
    Errno::result(result).map(drop)
}

/// Removes the attribute `name`. See removexattr(2).
///
/// # Errors
/// ENODATA if there is none; otherwise as the manual page says.
pub fn remove(fd: &impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let (path, name) = (c_string(path_of(fd).as_bytes())?, c_string(name.as_bytes())?);
    // SAFETY: both strings end with NUL, and the kernel only reads them.
    Errno::result(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use nix::fcntl::OFlag;

    use super::super::open::beneath;
    use super::*;

    #[test]
    fn an_attribute_is_set_read_listed_and_removed_by_an_o_path_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "").unwrap();
        let parent = std::fs::File::open(dir.path()).unwrap();
        let fd = beneath(parent, OsStr::new("f"), OFlag::O_PATH, nix::sys::stat::Mode::empty()).unwrap();
        let name = OsStr::new("user.note");
        match set(&fd, name, b"value", 0) {
            Ok(()) => {}
            Err(Errno::EOPNOTSUPP) => {
                return println!("SKIPPED: no user attributes in the temporary directory");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(set(&fd, name, b"", libc::XATTR_CREATE), Err(Errno::EEXIST));
        let mut buffer = [0; 64];
        assert_eq!(get(&fd, name, &mut []), Ok(5));
        assert_eq!(get(&fd, name, &mut buffer[..2]), Err(Errno::ERANGE));
        let len = get(&fd, name, &mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"value");
        let len = list(&fd, &mut buffer).unwrap();
        assert!(buffer[..len].split(|&b| b == 0).any(|n| n == b"user.note"));
        remove(&fd, name).unwrap();
        assert_eq!(get(&fd, name, &mut buffer), Err(Errno::ENODATA));
        assert_eq!(remove(&fd, OsStr::from_bytes(b"a\0b")), Err(Errno::EINVAL));
    }
}
