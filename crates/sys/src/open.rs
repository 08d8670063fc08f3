//! Opens by descriptor: one component below a directory, or again what a descriptor holds.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::Mode;

/// Opens `name` in `dir`, and never anything outside of `dir`: symbolic links, `..` and magic links are not followed.
/// See openat2(2).
///
/// # Errors
/// ELOOP for a symbolic link, unless it is opened with `O_PATH`; EXDEV for a path out of `dir`; otherwise as the page says.
pub fn beneath(dir: impl AsFd, name: &OsStr, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .mode(mode)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    nix::fcntl::openat2(dir, name, how)
}

/// Opens the directory at `path` below `dir`, as an `O_PATH` descriptor. No symbolic link is followed, and without `crosses`
/// no other mount is entered. See openat2(2).
///
/// # Errors
/// ELOOP for a symbolic link; ENOTDIR; EXDEV for a path out of `dir` or onto another mount; otherwise as the page says.
pub fn directory(dir: impl AsFd, path: &OsStr, crosses: bool) -> Result<OwnedFd, Errno> {
    let stays = if crosses { ResolveFlag::empty() } else { ResolveFlag::RESOLVE_NO_XDEV };
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | stays);
    loop {
        match nix::fcntl::openat2(dir.as_fd(), path, how) {
            // Something was renamed while the kernel checked that the path stays below `dir`: try again.
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
    }
}

/// A path to exactly the file that `fd` holds, for calls that accept no `O_PATH` descriptor. See proc_pid_fd(5).
///
/// If that file is a symbolic link, the path stands for the link itself. `fd` must stay open as long as the path is used.
/// It is borrowed, because an owned descriptor would be closed before the path is used.
pub fn path_of(fd: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Opens the file that `fd`, an `O_PATH` descriptor, holds.
///
/// # Errors
/// As open(2) says; ENOENT without /proc.
pub fn again(fd: &impl AsFd, flags: OFlag) -> Result<OwnedFd, Errno> {
    nix::fcntl::open(path_of(fd).as_str(), flags | OFlag::O_CLOEXEC, Mode::empty())
}

/// Duplicates the descriptor `number` of this process. See dup(2).
///
/// # Errors
/// EBADF if `number` is not open.
pub fn duplicate(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: fcntl accepts any number and touches no memory; it returns a new descriptor that nothing else uses.
    unsafe {
        let copy = Errno::result(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        fs::write(dir.path().join("out"), "").unwrap();
        symlink("../out", dir.path().join("in/link")).unwrap();
        symlink("/proc/self/fd", dir.path().join("in/magic")).unwrap();
        let inside = fs::File::open(dir.path().join("in")).unwrap();
        let open = |name: &str| beneath(&inside, OsStr::new(name), OFlag::O_RDONLY, Mode::empty()).map(drop);
        assert_eq!(open(".."), Err(Errno::EXDEV));
        assert_eq!(open("../out"), Err(Errno::EXDEV));
        assert_eq!(open("/etc"), Err(Errno::EXDEV));
        assert_eq!(open("link"), Err(Errno::ELOOP));
        assert_eq!(open("magic"), Err(Errno::ELOOP));
        assert_eq!(open("none"), Err(Errno::ENOENT));
    }

    #[test]
    fn a_path_of_directories_is_walked_without_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/file"), "").unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        let top = fs::File::open(dir.path()).unwrap();
        let open = |path: &str| directory(&top, OsStr::new(path), false).map(drop);
        assert_eq!(open("a/b"), Ok(()));
        assert_eq!(open("link/b"), Err(Errno::ELOOP));
        assert_eq!(open("link"), Err(Errno::ENOTDIR));
        assert_eq!(open("a/file"), Err(Errno::ENOTDIR));
        assert_eq!(open("a/../.."), Err(Errno::EXDEV));
        let root = fs::File::open("/").unwrap();
        assert_eq!(directory(&root, OsStr::new("proc"), false).map(drop), Err(Errno::EXDEV));
        assert_eq!(directory(&root, OsStr::new("proc"), true).map(drop), Ok(()));
    }

    #[test]
    fn a_held_file_can_be_opened_again_after_it_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "content").unwrap();
        let held =
            beneath(fs::File::open(dir.path()).unwrap(), OsStr::new("file"), OFlag::O_PATH, Mode::empty());
        let held = held.unwrap();
        fs::remove_file(dir.path().join("file")).unwrap();
        let file = fs::File::from(again(&held, OFlag::O_RDONLY).unwrap());
        assert_eq!(std::io::read_to_string(file).unwrap(), "content");
    }
}
