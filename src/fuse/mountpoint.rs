//! The mount point: finds earlier mounts of namegate there, and removes dead ones.

use std::io;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::statfs::statfs;

use crate::sys::mounts::{covering, mounts};

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
pub(super) fn detach(mountpoint: &Path) -> io::Result<()> {
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

/// The source of namegate's mount on `mountpoint`, a path without links, as the mount table shows it; `None` if there is no
/// such mount or it cannot be reached.
pub(super) fn source_of(mountpoint: &Path) -> Option<Vec<u8>> {
    let table = mounts().ok()?;
    let mount = covering(&table, mountpoint).filter(|mount| mount.kind == "fuse.namegate")?;
    Some(mount.source.clone())
}
