//! The place of a mount: what may be there, and what has to go.

use std::io;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::statfs::statfs;

use crate::sys::mounts::{covering, mounts};

/// Takes away what a server that was killed has left on `mountpoint`.
///
/// # Errors
/// There is such a thing, and it cannot be taken away.
pub(super) fn detach_dead(mountpoint: &Path) -> io::Result<()> {
    // Attributes may still be cached; statfs(2) always asks the server.
    match statfs(mountpoint) {
        // The second while the server is still going.
        Err(Errno::ENOTCONN | Errno::ECONNABORTED) => {
            log::warn!("the mount that was here has lost its server and is replaced");
            detach(mountpoint)
        }
        _ => Ok(()),
    }
}

/// Detaches a mount; whoever is not root does it by fusermount3(1).
///
/// # Errors
/// As umount2(2) says, or what fusermount3 says.
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

/// The source of the mount of namegate on `mountpoint`, a path without links, if there is one and it can be reached, in the
/// words of the mount table.
pub(super) fn source_of(mountpoint: &Path) -> Option<Vec<u8>> {
    let table = mounts().ok()?;
    let mount = covering(&table, mountpoint).filter(|mount| mount.kind == "fuse.namegate")?;
    Some(mount.source.clone())
}
