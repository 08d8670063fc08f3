//! Trusted files and directories: those of root and of the user who runs the program, if nobody else can write them.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::geteuid;

use super::stat::{self, Stat};

/// Reports whether `uid` is root or the user who runs the program.
pub fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Reports whether the mode lets others than the owner write. The group bits limit those of an ACL.
pub fn others_can_write(mode: u32) -> bool {
    mode & 0o022 != 0
}

/// Reports whether nobody else can create, rename or remove anything in the directory.
pub fn is_guarded(dir: &Stat) -> bool {
    is_trusted(dir.uid) && !others_can_write(dir.mode)
}

/// Reports whether nobody else can rename or remove our files in the directory. In a sticky directory others can still create
/// files.
pub(crate) fn keeps_names(dir: &Stat) -> bool {
    is_guarded(dir) || (is_trusted(dir.uid) && dir.mode & libc::S_ISVTX != 0)
}

/// Reports whether a symbolic link in the directory is followed.
///
/// A link of root or of the user is followed where others cannot have moved it to this name. A user's own link is followed
/// anywhere, as the kernel does. A link of root is not followed where others can rename: they could move any link of root there.
pub fn is_followed(dir: &Stat, link: &Stat) -> bool {
    let us = geteuid().as_raw();
    is_trusted(link.uid) && (keeps_names(dir) || (us != 0 && link.uid == us))
}

/// Checks that others cannot replace `dir`, a directory above it, or one of our files in it.
///
/// # Errors
/// They can; or a directory above cannot be examined.
pub fn check_guarded(dir: impl AsFd) -> io::Result<()> {
    let mut stat = stat::at(&dir, OsStr::new(""))?;
    let mut above: Option<OwnedFd> = None;
    loop {
        if !keeps_names(&stat) {
            let which = if above.is_some() { "a directory above" } else { "its directory" };
            let why = format!(
                "others can replace it: {which} belongs to user {} and has the mode {:o}",
                stat.uid, stat.mode
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let here = above.as_ref().map_or_else(|| dir.as_fd(), AsFd::as_fd);
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let next = openat(here, "..", flags, Mode::empty())?;
        let next_stat = stat::at(&next, OsStr::new(""))?;
        if (next_stat.ino, next_stat.device) == (stat.ino, stat.device) {
            return Ok(());
        }
        (stat, above) = (next_stat, Some(next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::Time;

    fn entry(uid: u32, mode: u32) -> Stat {
        let time = Time::default();
        let (atime, mtime, ctime) = (time, time, time);
        Stat {
            ino: 1,
            device: 1,
            kind: 0,
            mode,
            links: 1,
            uid,
            gid: 0,
            size: 0,
            atime,
            mtime,
            ctime,
            btime: None,
        }
    }

    #[test]
    fn links_of_others_are_never_followed_and_ours_only_where_others_cannot_move_them() {
        let us = geteuid().as_raw();
        let other = us + 1000;
        for (owner, mode, link, expected) in [
            (us, 0o755, us, true),
            (us, 0o755, 0, true),
            (0, 0o1777, us, true),
            (0, 0o1777, 0, true),
            (0, 0o1777, other, false),
            (us, 0o755, other, false),
            (other, 0o755, other, false),
            (other, 0o1777, other, false),
            (0, 0o775, us, us != 0),
            (other, 0o755, us, us != 0),
            (other, 0o755, 0, false),
        ] {
            let followed = is_followed(&entry(owner, mode), &entry(link, 0o777));
            assert_eq!(followed, expected, "directory of {owner}, {mode:o}, link of {link}");
        }
    }
}
