//! Opening by descriptor: one component below a directory, and again what is already held.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::Mode;

/// Opens `name` in `dir`, and never anything that is not below it: no symbolic link is followed, no `..` leads out, no
/// magic link leads elsewhere. See openat2(2).
///
/// # Errors
/// ELOOP for a symbolic link, unless it is opened with `O_PATH`; EXDEV for what leads out; otherwise as the page says.
pub fn beneath(dir: impl AsFd, name: &OsStr, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .mode(mode)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    nix::fcntl::openat2(dir, name, how)
}

/// Opens the directory at `path` below `dir`, as an `O_PATH` descriptor: no symbolic link is followed anywhere on the way, and
/// with `crosses` unset nothing that is mounted is entered. See openat2(2).
///
/// # Errors
/// ELOOP for a symbolic link; ENOTDIR; EXDEV for what leads out or lies on another mount; otherwise as the page says.
pub fn directory(dir: impl AsFd, path: &OsStr, crosses: bool) -> Result<OwnedFd, Errno> {
    let stays = if crosses { ResolveFlag::empty() } else { ResolveFlag::RESOLVE_NO_XDEV };
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | stays);
    loop {
        match nix::fcntl::openat2(dir.as_fd(), path, how) {
            // Something was renamed somewhere while the kernel made sure that nothing leads out.
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
    }
}

/// A path that leads to exactly what `fd` holds, for calls that take no `O_PATH` descriptor. See proc_pid_fd(5).
///
/// It does not lead on where that is a symbolic link: the link itself is meant. `fd` must stay open as long as the path is
/// used; it is borrowed, because an owned one would be closed before the path could be.
pub fn path_of(fd: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Opens what `fd`, an `O_PATH` descriptor, holds.
///
/// # Errors
/// As open(2) says; ENOENT without /proc.
pub fn again(fd: &impl AsFd, flags: OFlag) -> Result<OwnedFd, Errno> {
    nix::fcntl::open(path_of(fd).as_str(), flags | OFlag::O_CLOEXEC, Mode::empty())
}

/// A second descriptor of what this process has open under `number`. See dup(2).
///
/// # Errors
/// EBADF where nothing is open under it.
pub fn duplicate(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: fcntl takes any number, and touches no memory; what it returns is a descriptor that nobody else has.
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
    fn what_is_held_can_be_opened_again_also_after_it_was_removed() {
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
