//! fanotify groups that report directories, names and file handles, and the file system ids in their events.
//!
//! nix has the calls; newer flags are passed as bits.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use nix::sys::statfs::{fsid_t, fstatfs};

/// Creates a group that reports the directory and name of each event and, from Linux 5.17 on, the handle of the entry.
/// It does not block. With `is_unlimited` its queue grows as long as there is memory. See fanotify_init(2).
///
/// # Errors
/// EPERM, EINVAL or ENOSYS if this process cannot have such a group on this kernel; EMFILE for too many groups.
pub fn group(is_unlimited: bool) -> Result<Fanotify, Errno> {
    let names = libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_DFID_NAME;
    let queue = if is_unlimited { libc::FAN_UNLIMITED_QUEUE } else { 0 };
    let init = |flags| Fanotify::init(InitFlags::from_bits_retain(flags | queue), EventFFlags::O_RDONLY);
    match init(names | libc::FAN_REPORT_FID | libc::FAN_REPORT_TARGET_FID) {
        Err(Errno::EINVAL) => init(names),
        result => result,
    }
}

/// Marks the file system of `dir`: `group` reports names that appear anywhere on it, and directories that are renamed there.
///
/// From Linux 5.17 on, a rename is reported with both names; older kernels report only the new name.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; ENODEV, EXDEV or EOPNOTSUPP for file systems that do not support such a mark.
pub fn mark_file_system(group: &Fanotify, dir: impl AsFd) -> Result<(), Errno> {
    let mask = |renames| MaskFlags::FAN_CREATE | MaskFlags::FAN_ONDIR | renames;
    let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
    match group.mark(flags, mask(MaskFlags::FAN_RENAME), &dir, None::<&str>) {
        Err(Errno::EINVAL) => group.mark(flags, mask(MaskFlags::FAN_MOVED_TO), &dir, None::<&str>),
        result => result,
    }
}

/// Marks the directory `dir`: `group` reports names that appear in it, directories that leave it, and its removal. Renames are
/// reported as by [`mark_file_system`].
///
/// # Errors
/// ENOSPC for too many marks; ENODEV, EXDEV or EOPNOTSUPP for file systems that do not support such a mark.
pub fn mark_directory(group: &Fanotify, dir: impl AsFd) -> Result<(), Errno> {
    let mask = |renames| MaskFlags::FAN_CREATE | MaskFlags::FAN_DELETE_SELF | MaskFlags::FAN_ONDIR | renames;
    let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_ONLYDIR;
    match group.mark(flags, mask(MaskFlags::FAN_RENAME), &dir, None::<&str>) {
        Err(Errno::EINVAL) => group.mark(flags, mask(MaskFlags::FAN_MOVE), &dir, None::<&str>),
        result => result,
    }
}

/// Creates a group that reports changes of files: directory and name, and the handle of the file itself (Linux 5.17). It does not block,
/// and its queue is as long as `fs.fanotify.max_queued_events` says.
///
/// # Errors
/// As for [`group`].
pub fn change_group() -> Result<Fanotify, Errno> {
    let parts = libc::FAN_REPORT_DFID_NAME | libc::FAN_REPORT_FID | libc::FAN_REPORT_TARGET_FID;
    init_of_files(parts)
}

/// Creates a group that reports which files are opened: the handle alone, of files that are no directories.
///
/// # Errors
/// As for [`group`].
pub fn open_group() -> Result<Fanotify, Errno> {
    init_of_files(libc::FAN_REPORT_FID)
}

fn init_of_files(parts: u32) -> Result<Fanotify, Errno> {
    let flags = libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_CLASS_NOTIF | parts;
    Fanotify::init(InitFlags::from_bits_retain(flags), EventFFlags::O_RDONLY)
}

/// Marks the file system of `dir`: `group` reports every change of a name, of attributes and of content, with the end of every writing. A
/// rename is one event, with both names (Linux 5.17).
///
/// # Errors
/// As for [`mark_file_system`].
pub fn mark_changes(group: &Fanotify, dir: impl AsFd) -> Result<(), Errno> {
    let names = MaskFlags::FAN_CREATE | MaskFlags::FAN_DELETE | MaskFlags::FAN_RENAME | MaskFlags::FAN_ONDIR;
    let files = MaskFlags::FAN_ATTRIB | MaskFlags::FAN_MODIFY | MaskFlags::FAN_CLOSE_WRITE;
    group.mark(MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM, names | files, &dir, None::<&str>)
}

/// Marks the file system of `dir`: `group` reports every file that is opened.
///
/// # Errors
/// As for [`mark_file_system`].
pub fn mark_opens(group: &Fanotify, dir: impl AsFd) -> Result<(), Errno> {
    let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
    group.mark(flags, MaskFlags::FAN_OPEN, &dir, None::<&str>)
}

/// Returns the id of the file system of `fd`, as it occurs in events. See fstatfs(2).
///
/// # Errors
/// As the manual page says.
pub fn fsid(fd: impl AsFd) -> Result<[u8; 8], Errno> {
    let fsid = fstatfs(fd)?.filesystem_id();
    // SAFETY: `fsid_t` is two ints, without padding; its fields are private in libc, and any 8 bytes are a valid array.
    Ok(unsafe { std::mem::transmute::<fsid_t, [u8; 8]>(fsid) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_one_file_system_have_its_id() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &std::path::Path| fsid(std::fs::File::open(path).unwrap()).unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        assert_eq!(open(dir.path()), open(&dir.path().join("below")));
        assert_ne!(open(dir.path()), open("/proc".as_ref()));
    }
}
