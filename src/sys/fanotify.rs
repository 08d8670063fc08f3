//! fanotify groups that report directories, names and file handles, and the number of a file system that they report with.
//!
//! nix has the calls; their newer flags are given here as bits.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use nix::sys::statfs::{fsid_t, fstatfs};

/// A group that reports the directory and the name of what happens, and, from Linux 5.17 on, the handle of what stands there.
/// It does not block. With `is_unlimited` its queue grows as long as there is memory. See fanotify_init(2).
///
/// # Errors
/// EPERM, EINVAL or ENOSYS where the kernel has no such groups for this process; EMFILE for too many of them.
pub fn group(is_unlimited: bool) -> Result<Fanotify, Errno> {
    let names = libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_DFID_NAME;
    let queue = if is_unlimited { libc::FAN_UNLIMITED_QUEUE } else { 0 };
    let init = |flags| Fanotify::init(InitFlags::from_bits_retain(flags | queue), EventFFlags::O_RDONLY);
    match init(names | libc::FAN_REPORT_FID | libc::FAN_REPORT_TARGET_FID) {
        Err(Errno::EINVAL) => init(names),
        result => result,
    }
}

/// Has `group` report names that appear anywhere on the file system that `dir` is on, and directories that are renamed there.
///
/// Whoever calls it has to know that renames are told as such from Linux 5.17 on; before, it is told only where to.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; ENODEV, EXDEV or EOPNOTSUPP for file systems that cannot be watched so.
pub fn mark_file_system(group: &Fanotify, dir: impl AsFd) -> Result<(), Errno> {
    let mask = |renames| MaskFlags::FAN_CREATE | MaskFlags::FAN_ONDIR | renames;
    let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
    match group.mark(flags, mask(MaskFlags::FAN_RENAME), &dir, None::<&str>) {
        Err(Errno::EINVAL) => group.mark(flags, mask(MaskFlags::FAN_MOVED_TO), &dir, None::<&str>),
        result => result,
    }
}

/// Has `group` report names that appear in the directory `dir` itself, directories that leave it, and its removal. Renames
/// are told as above.
///
/// # Errors
/// ENOSPC for too many marks; ENODEV, EXDEV or EOPNOTSUPP for file systems that cannot be watched so.
pub fn mark_directory(group: &Fanotify, dir: impl AsFd) -> Result<(), Errno> {
    let mask = |renames| MaskFlags::FAN_CREATE | MaskFlags::FAN_DELETE_SELF | MaskFlags::FAN_ONDIR | renames;
    let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_ONLYDIR;
    match group.mark(flags, mask(MaskFlags::FAN_RENAME), &dir, None::<&str>) {
        Err(Errno::EINVAL) => group.mark(flags, mask(MaskFlags::FAN_MOVE), &dir, None::<&str>),
        result => result,
    }
}

/// The number of the file system that `fd` is on, as events have it. See fstatfs(2).
///
/// # Errors
/// As the manual page says.
pub fn fsid(fd: impl AsFd) -> Result<[u8; 8], Errno> {
    let fsid = fstatfs(fd)?.filesystem_id();
    // SAFETY: `fsid_t` is two ints, without padding; libc keeps them to itself, and any 8 bytes are an array of bytes.
    Ok(unsafe { std::mem::transmute::<fsid_t, [u8; 8]>(fsid) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_one_file_system_have_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &std::path::Path| fsid(std::fs::File::open(path).unwrap()).unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        assert_eq!(open(dir.path()), open(&dir.path().join("below")));
        assert_ne!(open(dir.path()), open("/proc".as_ref()));
    }
}
