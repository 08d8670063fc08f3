//! Attributes of an inode, including its birth time: statx(2), which std and nix do not offer for a name in a directory.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use nix::NixPath;
use nix::errno::Errno;
use nix::sys::stat::FileStat;

/// A point in time: seconds since the epoch, possibly negative, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since the epoch.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// Attributes of one inode, from statx(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub ino: u64,
    /// The file system: major number in the upper, minor number in the lower half.
    pub device: u64,
    /// Its type, one of the `S_IF` constants.
    pub kind: u32,
    /// Its permissions, with the set-id bits and the sticky one.
    pub mode: u32,
    /// Number of its hard links.
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Time of the last access.
    pub atime: Time,
    /// Time of the last change of its content.
    pub mtime: Time,
    /// Time of the last change of its content or attributes.
    pub ctime: Time,
    /// Birth time, if the file system has one.
    pub btime: Option<Time>,
}

/// Reads the attributes of the entry `name` in `dir`, without following a symbolic link. With an empty name, those of the file
/// that `dir` holds, which may be an `O_PATH` descriptor. See statx(2).
///
/// # Errors
/// ENOENT if there is no such entry; otherwise as the manual page says.
pub fn at(dir: impl AsFd, name: &OsStr) -> Result<Stat, Errno> {
    const FLAGS: i32 = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT;
    let mut stat = MaybeUninit::<libc::statx>::uninit();
    name.with_nix_path(|name| {
        let (fd, mask) = (dir.as_fd().as_raw_fd(), libc::STATX_BASIC_STATS | libc::STATX_BTIME);
        // SAFETY: the name ends with NUL, and the kernel writes one `struct statx` to `stat`, which has room for it.
        Errno::result(unsafe { libc::statx(fd, name.as_ptr(), FLAGS, mask, stat.as_mut_ptr()) })
    })??;
    // SAFETY: the call succeeded, so the kernel has filled the whole structure.
    let stat = unsafe { stat.assume_init() };
    let time = |at: libc::statx_timestamp| Time { seconds: at.tv_sec, nanoseconds: at.tv_nsec };
    Ok(Stat {
        ino: stat.stx_ino,
        device: u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor),
        kind: u32::from(stat.stx_mode) & libc::S_IFMT,
        mode: u32::from(stat.stx_mode) & !libc::S_IFMT,
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
        atime: time(stat.stx_atime),
        mtime: time(stat.stx_mtime),
        ctime: time(stat.stx_ctime),
        btime: (stat.stx_mask & libc::STATX_BTIME != 0).then(|| time(stat.stx_btime)),
    })
}

/// Returns the mount of an open file, by the id that the mount table and name_to_handle_at(2) use; `None` on kernels before 5.8.
/// The file system is not asked. See statx(2).
pub fn mount_of(fd: impl AsFd) -> Option<u64> {
    let stat = unasked(fd, libc::STATX_MNT_ID).ok()?;
    (stat.stx_mask & libc::STATX_MNT_ID != 0).then_some(stat.stx_mnt_id)
}

/// Reports whether an open file is the root of a mount; `None` on kernels before 5.8. The file system is not asked. See statx(2).
pub fn is_mount_root(fd: impl AsFd) -> Option<bool> {
    const MOUNT_ROOT: u64 = libc::STATX_ATTR_MOUNT_ROOT as u64;
    let stat = unasked(fd, 0).ok()?;
    (stat.stx_attributes_mask & MOUNT_ROOT != 0).then_some(stat.stx_attributes & MOUNT_ROOT != 0)
}

/// Reads the attributes of an open file that the kernel has cached, without asking a server on the network or in user space
/// (AT_STATX_DONT_SYNC), so the call does not wait for one. They may be outdated.
///
/// # Errors
/// As statx(2) says.
pub fn at_hand(fd: impl AsFd) -> Result<FileStat, Errno> {
    let known = unasked(fd, libc::STATX_BASIC_STATS)?;
    // SAFETY: `struct stat` consists of integers, for which zero is a valid value.
    let mut stat = unsafe { MaybeUninit::<FileStat>::zeroed().assume_init() };
    stat.st_dev = libc::makedev(known.stx_dev_major, known.stx_dev_minor);
    stat.st_rdev = libc::makedev(known.stx_rdev_major, known.stx_rdev_minor);
    stat.st_ino = known.stx_ino;
    stat.st_mode = known.stx_mode.into();
    stat.st_nlink = known.stx_nlink.into();
    (stat.st_uid, stat.st_gid) = (known.stx_uid, known.stx_gid);
    (stat.st_size, stat.st_blocks) = (known.stx_size as i64, known.stx_blocks as i64);
    // 32 bits on ARM, 64 on x86: no file system has blocks of 2 GiB.
    stat.st_blksize = known.stx_blksize as libc::blksize_t;
    (stat.st_atime, stat.st_atime_nsec) = (known.stx_atime.tv_sec, known.stx_atime.tv_nsec.into());
    (stat.st_mtime, stat.st_mtime_nsec) = (known.stx_mtime.tv_sec, known.stx_mtime.tv_nsec.into());
    (stat.st_ctime, stat.st_ctime_nsec) = (known.stx_ctime.tv_sec, known.stx_ctime.tv_nsec.into());
    Ok(stat)
}

fn unasked(fd: impl AsFd, mask: u32) -> Result<libc::statx, Errno> {
    const FLAGS: i32 = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let mut stat = MaybeUninit::<libc::statx>::uninit();
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the name is empty and ends with NUL, and the kernel writes one `struct statx` to `stat`, which has room for it.
    Errno::result(unsafe { libc::statx(fd, c"".as_ptr(), FLAGS, mask, stat.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so the kernel has filled the whole structure.
    Ok(unsafe { stat.assume_init() })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn cached_attributes_are_those_of_stat() {
        let dir = tempfile::tempdir().unwrap();
        let file = fs::File::create(dir.path().join("file")).unwrap();
        let (asked, at_hand) = (nix::sys::stat::fstat(&file).unwrap(), at_hand(&file).unwrap());
        let of = |stat: &FileStat| {
            (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_nlink, stat.st_uid, stat.st_gid, stat.st_size)
        };
        let times = |stat: &FileStat| (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
        assert_eq!((of(&at_hand), times(&at_hand)), (of(&asked), times(&asked)));
        let proc = fs::File::open("/proc").unwrap();
        assert!(mount_of(&file).is_none_or(|mount| Some(mount) != mount_of(&proc)));
    }

    #[test]
    fn attributes_by_name_and_by_descriptor_are_those_of_std() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        fs::hard_link(dir.path().join("file"), dir.path().join("second")).unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        let parent = fs::File::open(dir.path()).unwrap();
        for name in ["file", "link", ""] {
            let meta = fs::symlink_metadata(dir.path().join(name)).unwrap();
            let stat = at(&parent, OsStr::new(name)).unwrap();
            assert_eq!((stat.ino, u64::from(stat.links)), (meta.ino(), meta.nlink()), "{name}");
            assert_eq!((stat.kind | stat.mode, stat.uid, stat.gid), (meta.mode(), meta.uid(), meta.gid()));
            assert_eq!(
                (stat.mtime.seconds, i64::from(stat.mtime.nanoseconds)),
                (meta.mtime(), meta.mtime_nsec())
            );
            assert_eq!(
                (stat.ctime.seconds, i64::from(stat.ctime.nanoseconds)),
                (meta.ctime(), meta.ctime_nsec())
            );
            match (stat.btime, meta.created()) {
                (Some(born), Ok(created)) => {
                    let since = created.duration_since(std::time::UNIX_EPOCH).unwrap();
                    assert_eq!(
                        (born.seconds as u64, born.nanoseconds),
                        (since.as_secs(), since.subsec_nanos())
                    );
                }
                (None, Err(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(at(&parent, OsStr::new("none")), Err(Errno::ENOENT));
        assert_ne!(
            at(fs::File::open("/proc").unwrap(), OsStr::new("")).unwrap().device,
            at(&parent, OsStr::new("")).unwrap().device
        );
    }
}
