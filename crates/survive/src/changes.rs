//! Changes of the tree that a predecessor may have made: whether it has, by what was there before the change and what is there now.

use std::os::fd::BorrowedFd;

use namegate_mount::passthrough::{EntryAt, XattrOf};
use namegate_sys::{stat, xattr};
use nix::fcntl::AtFlags;
use nix::sys::stat::{fstat, fstatat};

use super::journal;

/// The inode number of an entry; 0 if there is none.
fn ino_of(entry: EntryAt<'_>) -> u64 {
    fstatat(entry.dir, entry.name, AtFlags::AT_SYMLINK_NOFOLLOW).map_or(0, |stat| stat.st_ino)
}

fn size_of(file: BorrowedFd<'_>) -> u64 {
    fstat(file).map_or(0, |stat| stat.st_size.unsigned_abs())
}

fn exists(xattr: XattrOf<'_>) -> bool {
    xattr::get(&xattr.file, xattr.name, &mut []).is_ok()
}

/// Whether a predecessor has created `entry` for the user `uid`.
pub(super) fn begin_or_recover_create(entry: EntryAt<'_>, uid: u32) -> bool {
    let Some(earlier) = journal::start(|| [0; 2]) else { return false };
    stat::at(entry.dir, entry.name).is_ok_and(|stat| {
        // Where the time of birth is not known, that of the last change is no earlier.
        let born = stat.btime.unwrap_or(stat.ctime);
        // Some file systems count in hundredths of a second, or in units of two seconds.
        let unit = match born.nanoseconds {
            0 => 2_000_000_000,
            nanoseconds if nanoseconds % 10_000_000 == 0 => 10_000_000,
            _ => 0,
        };
        let time =
            |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        let (born, begun) =
            (time(born.seconds, born.nanoseconds.into()), time(earlier.begun.0, earlier.begun.1));
        stat.uid == uid && born + unit >= begun
    })
}

/// Whether a predecessor has linked `file` to `entry`.
pub(super) fn begin_or_recover_link(entry: EntryAt<'_>, file: BorrowedFd<'_>) -> bool {
    let earlier = journal::start(|| [ino_of(entry), 0]);
    earlier.is_some_and(|earlier| {
        earlier.observed[0] == 0 && fstat(file).is_ok_and(|stat| stat.st_ino == ino_of(entry))
    })
}

/// Whether a predecessor has removed `entry`.
pub(super) fn begin_or_recover_remove(entry: EntryAt<'_>) -> bool {
    let earlier = journal::start(|| [ino_of(entry), 0]);
    earlier.is_some_and(|earlier| earlier.observed[0] != 0 && ino_of(entry) != earlier.observed[0])
}

/// Whether a predecessor has renamed an entry, or exchanged it for another one.
pub(super) fn begin_or_recover_rename(from: EntryAt<'_>, to: EntryAt<'_>, exchanges: bool) -> bool {
    let look = || [ino_of(from), ino_of(to)];
    let Some(earlier) = journal::start(look).filter(|earlier| earlier.observed[0] != 0) else { return false };
    let ([source, target], [before, replaced]) = (look(), earlier.observed);
    match exchanges {
        true => target == before && source == replaced,
        false => target == before && source != before,
    }
}

/// Whether a predecessor has set an attribute that did not exist before.
pub(super) fn begin_or_recover_set_xattr(xattr: XattrOf<'_>, value: &[u8]) -> bool {
    let earlier = journal::start(|| [exists(xattr).into(), 0]);
    let mut found = vec![0; value.len() + 1];
    earlier.is_some_and(|earlier| {
        earlier.observed[0] == 0
            && xattr::get(&xattr.file, xattr.name, &mut found).is_ok_and(|len| found[..len] == *value)
    })
}

/// Whether a predecessor has removed an attribute.
pub(super) fn begin_or_recover_remove_xattr(xattr: XattrOf<'_>) -> bool {
    let earlier = journal::start(|| [exists(xattr).into(), 0]);
    earlier.is_some_and(|earlier| earlier.observed[0] != 0 && !exists(xattr))
}

/// The number of bytes that a predecessor has appended, of `len`.
pub(super) fn begin_or_recover_append(file: BorrowedFd<'_>, len: usize) -> Option<usize> {
    let earlier = journal::start(|| [size_of(file), 0])?;
    let grown = usize::try_from(size_of(file).checked_sub(earlier.observed[0])?).ok()?;
    (1..=len).contains(&grown).then_some(grown)
}
