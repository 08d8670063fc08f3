//! Plain values of the backing tree as values of `fuser`, and back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use nix::sys::stat::FileStat;
use nix::sys::time::TimeSpec;

/// A time of a file. Times that `SystemTime` cannot hold, which no file system has, are shown as the epoch.
fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let whole = match seconds >= 0 {
        true => UNIX_EPOCH.checked_add(Duration::from_secs(seconds.unsigned_abs())),
        false => UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs())),
    };
    let part = Duration::from_nanos(nanoseconds.unsigned_abs());
    whole.and_then(|whole| whole.checked_add(part)).unwrap_or(UNIX_EPOCH)
}

fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFSOCK => FileType::Socket,
        // Linux knows no other type.
        _ => FileType::RegularFile,
    }
}

/// The type of a directory entry, by a `DT_` constant (readdir(3)).
pub(super) fn file_type_of_entry(kind: u8) -> FileType {
    // DTTOIF of dirent.h: the same numbers, shifted.
    file_type(u32::from(kind) << 12)
}

pub(super) fn attributes(stat: &FileStat) -> FileAttr {
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: stat.st_size.unsigned_abs(),
        blocks: stat.st_blocks.unsigned_abs(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        // Only macOS uses this field.
        crtime: UNIX_EPOCH,
        kind: file_type(stat.st_mode),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: device(stat.st_rdev),
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    }
}

/// Sufficient for an entry without attributes: the kernel reads nothing else of `.` and `..`.
pub(super) fn bare(ino: u64, kind: u8) -> FileAttr {
    let epoch = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: file_type_of_entry(kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// Converts a device number to the format of the kernel (`new_decode_dev`, linux/kdev_t.h).
pub(super) fn device(rdev: libc::dev_t) -> u32 {
    let (major, minor) = (libc::major(rdev), libc::minor(rdev));
    (minor & 0xFF) | (major << 8) | ((minor & !0xFF) << 12)
}

/// A time as the kernel sent it.
///
/// For times before the epoch, `fuser` 0.18 subtracts the nanoseconds, which must be added. Both numbers can still be
/// recovered.
pub(super) fn requested_time(time: TimeOrNow) -> TimeSpec {
    match time {
        TimeOrNow::Now => TimeSpec::UTIME_NOW,
        TimeOrNow::SpecificTime(time) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => {
                TimeSpec::new(0i64.saturating_add_unsigned(after.as_secs()), after.subsec_nanos().into())
            }
            Err(error) => {
                let before = error.duration();
                TimeSpec::new(0i64.saturating_sub_unsigned(before.as_secs()), before.subsec_nanos().into())
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_through_whole() {
        for (major, minor, encoded) in
            [(1, 3, 0x103), (8, 0x101, 0x0010_0801), (0xFFF, 0xF_FFFF, 0xFFFF_FFFF)]
        {
            assert_eq!(device(libc::makedev(major, minor)), encoded, "{major}:{minor}");
        }
    }

    #[test]
    fn times_before_the_epoch_keep_their_nanoseconds() {
        assert_eq!(time(-2, 800_000_000), UNIX_EPOCH - Duration::from_millis(1200));
        let as_fuser_makes_it = UNIX_EPOCH - Duration::new(2, 800_000_000);
        let spec = requested_time(TimeOrNow::SpecificTime(as_fuser_makes_it));
        assert_eq!((spec.tv_sec(), spec.tv_nsec()), (-2, 800_000_000));
        let lowest = UNIX_EPOCH - Duration::from_secs(1 << 63);
        assert_eq!(requested_time(TimeOrNow::SpecificTime(lowest)).tv_sec(), i64::MIN);
        assert_eq!(time(i64::MIN, 0), UNIX_EPOCH.checked_sub(Duration::from_secs(1 << 63)).unwrap());
    }
}
