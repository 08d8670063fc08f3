//! Opening by descriptor: one component below a directory, and again what is already held.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

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
