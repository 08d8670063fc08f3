//! Versions of what the kernel caches: the entries of a directory, or the content of a file that the server reads and writes.
//!
//! The kernel may keep its cache when an inode is opened again, if the inode has the version of the time when the cache was filled.
//! The times of an inode identify its version, if they are old enough: the next change sets another change time then. Only the
//! change time is certain, because the time of modification can be set back; but some file systems have no change time.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::stat::FileStat;
use nix::sys::time::TimeSpec;

/// Two changes this far apart have different times on every file system: the clock of the kernel has a resolution of milliseconds,
/// that of FAT two seconds.
const SETTLED: Duration = Duration::from_secs(3);

/// Whether the time, in seconds and nanoseconds, is longer ago than `age`.
pub(super) fn is_older((seconds, nanoseconds): (i64, i64), age: Duration) -> bool {
    let since_epoch = Duration::new(
        u64::try_from(seconds).unwrap_or_default(),
        u32::try_from(nanoseconds).unwrap_or_default(),
    );
    let then = UNIX_EPOCH.checked_add(since_epoch);
    then.and_then(|then| SystemTime::now().duration_since(then).ok()).is_some_and(|since| since > age)
}

/// Whether the next change of a directory will change its times; the last change was at this time, in seconds and nanoseconds.
pub(super) fn is_settled(changed: (i64, i64)) -> bool {
    is_older(changed, SETTLED)
}

/// How long after a change of a file through a memory map further changes may leave its times as they are; `None` if there is no bound.
///
/// The first store to a page sets the times, and the next one that does is the first after the page was written to disk (msync(2)).
/// Without a sync that is when the page has been dirty for `dirty_expire_centisecs`, which is checked every
/// `dirty_writeback_centisecs` (admin-guide/sysctl/vm.rst).
pub(super) fn time_of_maps() -> Option<Duration> {
    /// For the writing itself.
    const WRITING: Duration = Duration::from_secs(5);
    let number = |name: &str| fs::read_to_string(format!("/proc/sys/vm/{name}")).ok()?.trim().parse().ok();
    let (expire, interval): (u32, u32) =
        (number("dirty_expire_centisecs")?, number("dirty_writeback_centisecs")?);
    let centisecond = Duration::from_millis(10);
    (interval > 0).then(|| SETTLED + WRITING + centisecond * expire + centisecond * interval)
}

/// The version of a directory or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedVersion {
    changed: TimeSpec,
    modified: TimeSpec,
    size: i64,
    /// The view of a directory, 0 for a file: its entries can be shown under other names without a change.
    view: u64,
}

impl CachedVersion {
    /// The version of a directory that is shown by `view`.
    pub(super) fn of_directory(stat: &FileStat, view: u64) -> Self {
        Self {
            changed: TimeSpec::new(stat.st_ctime, stat.st_ctime_nsec),
            modified: TimeSpec::new(stat.st_mtime, stat.st_mtime_nsec),
            size: stat.st_size,
            view,
        }
    }

    /// The version of a file, if it has not changed for longer than `age`.
    pub(super) fn of_file(stat: &FileStat, age: Duration) -> Option<Self> {
        is_older((stat.st_ctime, stat.st_ctime_nsec), age).then(|| Self::of_directory(stat, 0))
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::stat;

    use super::*;

    #[test]
    fn a_file_has_a_version_when_it_has_not_changed_for_some_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut stat = stat(file.path()).unwrap();
        let age = Duration::from_secs(40);
        assert_eq!(CachedVersion::of_file(&stat, age), None);
        // A time of modification in the past proves nothing.
        stat.st_mtime -= 100;
        assert_eq!(CachedVersion::of_file(&stat, age), None);
        stat.st_ctime -= 100;
        let version = CachedVersion::of_file(&stat, age).unwrap();
        assert_eq!(CachedVersion::of_file(&stat, age), Some(version));
        let changes: [fn(&mut FileStat); 3] =
            [|stat| stat.st_size += 1, |stat| stat.st_mtime_nsec ^= 1, |stat| stat.st_ctime_nsec ^= 1];
        for change in changes {
            let mut other = stat;
            change(&mut other);
            assert_ne!(CachedVersion::of_file(&other, age), Some(version));
        }
        // Before the epoch, and in the future.
        stat.st_ctime = -5;
        assert!(CachedVersion::of_file(&stat, age).is_some());
        stat.st_ctime = i64::MAX;
        assert_eq!(CachedVersion::of_file(&stat, age), None);
    }

    #[test]
    fn memory_maps_need_more_time_than_clocks() {
        assert!(time_of_maps().is_none_or(|age| age > SETTLED));
    }
}
