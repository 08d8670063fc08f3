//! renameat2(2), which nix wraps only for the GNU C library.

use std::os::fd::{AsFd, AsRawFd};

use nix::NixPath;
use nix::errno::Errno;

/// Renames `old` in `old_dir` to `new` in `new_dir`; `flags` are the `RENAME_` constants.
///
/// # Errors
/// EEXIST with `RENAME_NOREPLACE` if `new` exists; EINVAL for flags that the kernel or the file system does not support;
/// otherwise as the manual page says.
pub fn renameat2<O: ?Sized + NixPath, N: ?Sized + NixPath>(
    old_dir: impl AsFd,
    old: &O,
    new_dir: impl AsFd,
    new: &N,
    flags: u32,
) -> Result<(), Errno> {
    let (old_dir, new_dir) = (old_dir.as_fd().as_raw_fd(), new_dir.as_fd().as_raw_fd());
    let call = |old: *const libc::c_char, new: *const libc::c_char| {
        // SAFETY: both names end with a NUL and outlive the call, which only reads them.
        Errno::result(unsafe { libc::syscall(libc::SYS_renameat2, old_dir, old, new_dir, new, flags) })
    };
    old.with_nix_path(|old| new.with_nix_path(|new| call(old.as_ptr(), new.as_ptr())))???;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn nothing_is_replaced_and_two_names_are_exchanged_as_the_flags_say() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "a").unwrap();
        fs::write(dir.path().join("b"), "b").unwrap();
        let open = File::open(dir.path()).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name));
        assert_eq!(renameat2(&open, "a", &open, "b", libc::RENAME_NOREPLACE), Err(Errno::EEXIST));
        assert_eq!(renameat2(&open, "a", &open, "b", libc::RENAME_EXCHANGE), Ok(()));
        assert_eq!((read("a").unwrap().as_str(), read("b").unwrap().as_str()), ("b", "a"));
        assert_eq!(renameat2(&open, "a", &open, "c", 0), Ok(()));
        assert_eq!(renameat2(&open, "a", &open, "c", 0), Err(Errno::ENOENT));
        assert_eq!(renameat2(&open, "a", &open, "c", u32::MAX), Err(Errno::EINVAL));
    }
}
