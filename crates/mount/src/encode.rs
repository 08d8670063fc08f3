//! Values of the backing tree in the format of the kernel.

use std::time::Duration;

use namegate_sys::stat::Time;
use namegate_wire::abi::{Attr, AttrOut, StatfsOut, StatxOut, StatxTime};
use nix::sys::stat::FileStat;
use nix::sys::statvfs::Statvfs;

pub(super) fn attr(stat: &FileStat) -> Attr {
    Attr {
        ino: stat.st_ino,
        size: stat.st_size.unsigned_abs(),
        blocks: stat.st_blocks.unsigned_abs(),
        // The kernel converts the seconds back to a signed number.
        atime: stat.st_atime.cast_unsigned(),
        mtime: stat.st_mtime.cast_unsigned(),
        ctime: stat.st_ctime.cast_unsigned(),
        atimensec: stat.st_atime_nsec as u32,
        mtimensec: stat.st_mtime_nsec as u32,
        ctimensec: stat.st_ctime_nsec as u32,
        mode: stat.st_mode,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: device(stat.st_rdev),
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    }
}

/// Attributes that the kernel may cache for `timeout`.
pub(super) fn attr_out(stat: &FileStat, timeout: Duration) -> AttrOut {
    let (attr_valid, attr_valid_nsec) = (timeout.as_secs(), timeout.subsec_nanos());
    AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: attr(stat) }
}

/// Attributes with the time of birth, if the file system records that. The kernel may cache them for `timeout`.
pub(super) fn statx_out(stat: &FileStat, created: Option<Time>, timeout: Duration) -> StatxOut {
    let time = |tv_sec: i64, nanoseconds: i64| StatxTime { tv_sec, tv_nsec: nanoseconds as u32, reserved: 0 };
    let btime =
        created.map(|time| StatxTime { tv_sec: time.seconds, tv_nsec: time.nanoseconds, reserved: 0 });
    let birth = if btime.is_some() { libc::STATX_BTIME } else { 0 };
    StatxOut {
        attr_valid: timeout.as_secs(),
        attr_valid_nsec: timeout.subsec_nanos(),
        mask: libc::STATX_BASIC_STATS | birth,
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        mode: stat.st_mode as u16,
        ino: stat.st_ino,
        size: stat.st_size.unsigned_abs(),
        blocks: stat.st_blocks.unsigned_abs(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        btime: btime.unwrap_or_default(),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        rdev_major: libc::major(stat.st_rdev),
        rdev_minor: libc::minor(stat.st_rdev),
        ..StatxOut::default()
    }
}

pub(super) fn statfs_out(stat: &Statvfs) -> StatfsOut {
    StatfsOut {
        blocks: stat.blocks(),
        bfree: stat.blocks_free(),
        bavail: stat.blocks_available(),
        files: stat.files(),
        ffree: stat.files_free(),
        bsize: stat.block_size() as u32,
        namelen: stat.name_max() as u32,
        frsize: stat.fragment_size() as u32,
        ..StatfsOut::default()
    }
}

/// The type in a mode, as a `DT_` constant: IFTODT of dirent.h.
pub(super) fn dirent_kind(mode: u32) -> u32 {
    (mode & libc::S_IFMT) >> 12
}

/// Converts a device number to the format of the kernel (`new_decode_dev`, linux/kdev_t.h).
fn device(rdev: libc::dev_t) -> u32 {
    let (major, minor) = (libc::major(rdev), libc::minor(rdev));
    (minor & 0xFF) | (major << 8) | ((minor & !0xFF) << 12)
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
}
