//! The mount point: finds earlier mounts of namegate there, and removes dead ones.

use std::io;
use std::path::Path;
use std::process::Command;

use namegate_sys::mounts::{MountEntry, covering, mounts};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, umount2};
use nix::sys::stat::Mode;
use nix::sys::statfs::{fstatfs, statfs};
use nix::unistd::geteuid;

use super::options::Options;

/// Removes the mount that a killed server has left on `mountpoint`.
///
/// # Errors
/// There is such a mount, and it cannot be removed.
pub fn detach_dead(mountpoint: &Path) -> io::Result<()> {
    // Attributes may still be cached; statfs(2) always asks the server.
    match statfs(mountpoint) {
        // ECONNABORTED while the server is still ending.
        Err(Errno::ENOTCONN | Errno::ECONNABORTED) => {
            log::warn!("the mount that was here has lost its server and is replaced");
            detach(mountpoint)
        }
        _ => Ok(()),
    }
}

/// Detaches a mount; with fusermount3(1) if the user is not root.
///
/// # Errors
/// As umount2(2) says, or as fusermount3 reports.
pub fn detach(mountpoint: &Path) -> io::Result<()> {
    match umount2(mountpoint, MntFlags::MNT_DETACH) {
        Err(Errno::EPERM) => {}
        done => return Ok(done?),
    }
    let helper = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(mountpoint).output();
    let output = helper.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Errno::EPERM.into(),
        _ => error,
    })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Namegate's mount on `mountpoint`, a path without links; `None` if there is none or it cannot be reached.
pub(super) fn mount_at(mountpoint: &Path) -> Option<MountEntry> {
    let table = mounts().ok()?;
    covering(&table, mountpoint).filter(|mount| mount.kind == "fuse.namegate").cloned()
}

/// Whether this user has mounted `source` on `mountpoint` already, with these options, and its server lives. `mount -a` asks for
/// every line of fstab(5) again: it takes the directory of the file system that the table shows for another source.
pub fn is_mounted(source: &Path, mountpoint: &Path, options: &Options) -> bool {
    let (Ok(source), Ok(place)) = (source.canonicalize(), mountpoint.canonicalize()) else { return false };
    let is_it = |mount: MountEntry| {
        mount.fuse_owner() == Some(geteuid().as_raw()) && mount.source == options.fsname(&source).as_bytes()
    };
    mount_at(&place).is_some_and(is_it) && statfs(&place).is_ok()
}

/// Whether the mount that is seen at `mountpoint` has lost its server. Mounts nothing by autofs or x-systemd.automount: an open(2)
/// with O_PATH does not.
pub(super) fn is_dead(mountpoint: &Path) -> bool {
    let held = open(mountpoint, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
    matches!(held.and_then(fstatfs), Err(Errno::ENOTCONN | Errno::ECONNABORTED))
}
