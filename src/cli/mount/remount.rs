//! `mount -o remount`: the flags of a mount are the kernel's, and change while it is served. What the server does is changed by
//! its configuration.
//!
//! mount(8) hands on all options that the mount is to have: those of the mount table, or of fstab(5), with what it was asked for
//! worked in. A flag that is missing there is off. A setting of namegate can come from fstab, and be in effect already.
//!
//! Sources: mount(2), mount(8), "FILESYSTEM-INDEPENDENT MOUNT OPTIONS", `remount`.

use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::statvfs::{FsFlags, statvfs};

use super::mount_options::Words;
use crate::cli::{CliError, ExitStatus};
use crate::fuse::Options;
use crate::name::display::shown;
use crate::sys::mounts::{covering, mounts};

/// How each flag is shown by statvfs(3), and what it is called where it is set.
const FLAGS: &[(FsFlags, MsFlags)] = &[
    (FsFlags::ST_RDONLY, MsFlags::MS_RDONLY),
    (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
    (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
    (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
];

/// Gives the mount on `mountpoint` the flags that `words` ask for, or, with `fake` set, says whether that is possible.
pub(super) fn remount(mountpoint: &Path, words: &Words, fake: bool) -> Result<ExitStatus, CliError> {
    let place = shown(mountpoint);
    let impossible = |why: &str| CliError::new(format!("cannot remount {place}: {why}"));
    let target = mountpoint.canonicalize().map_err(|error| impossible(&error.to_string()))?;
    let table = mounts().map_err(|error| impossible(&error.to_string()))?;
    if covering(&table, &target).is_none_or(|mount| mount.kind != "fuse.namegate") {
        return Err(impossible("namegate is not mounted there"));
    }
    let has = statvfs(&target).map_err(|errno| impossible(errno.desc()))?.flags();
    let current = FLAGS
        .iter()
        .filter(|(shown, _)| has.contains(*shown))
        .fold(MsFlags::empty(), |all, (_, flag)| all | *flag);
    // Whoever names both source and mount point has the options replaced: what is not named is as in a new mount.
    let before = if words.is_whole { MsFlags::empty() } else { Options::DEFAULT_FLAGS };
    let asked = words.flags(before);
    if (asked ^ current).contains(MsFlags::MS_NOATIME) {
        return Err(impossible(
            "atime and noatime take effect at the next mount: unmount it and mount it again",
        ));
    }
    let settings = words.set.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let how =
        "change the mount configuration and run `namegate reload`, or switch the mode by `namegate mode`";
    match (asked == current, words.set.is_empty()) {
        (true, false) => {
            return Err(impossible(&format!("a remount does not change {settings}: {how}")));
        }
        (false, false) => log::warn!("{place}: a remount does not change {settings}: {how}"),
        (_, true) => {}
    }
    if !fake {
        // Without a word about times of access they stay as they are (mount(2)).
        let flags = MsFlags::MS_REMOUNT | (asked - MsFlags::MS_NOATIME);
        mount(None::<&str>, &target, None::<&str>, flags, None::<&str>)
            .map_err(|errno| impossible(errno.desc()))?;
    }
    Ok(ExitStatus::Clean)
}
