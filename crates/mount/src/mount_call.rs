//! Mounts the kernel's FUSE device: with the right to mount, or by fusermount3.
//!
//! Sources: fuse(4), mount(2), fusermount3(1); `_FUSE_COMMFD` of libfuse's mount.c.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use namegate_sys::socket::receive_fd;
use nix::mount::mount;
use nix::unistd::{getgid, getuid};

use super::options::Options;

/// Mounts with the right to mount.
pub(super) fn by_mount(place: &Path, source: &Path, options: &Options) -> io::Result<OwnedFd> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},{}",
        device.as_raw_fd(),
        fs::metadata(place)?.mode(),
        getuid(),
        getgid(),
        options.data()
    );
    let fsname = options.fsname(source);
    mount(Some(fsname.as_str()), place, Some("fuse"), options.flags, Some(data.as_str()))?;
    Ok(device.into())
}

/// Mounts with fusermount3, which has the right and passes the descriptor over its standard input.
pub(super) fn by_helper(place: &Path, source: &Path, options: &Options) -> io::Result<OwnedFd> {
    let (here, there) = UnixStream::pair()?;
    let helper = Command::new("fusermount3")
        .arg("-o")
        .arg(options.list(source))
        .arg("--")
        .arg(place)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(there))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let received = receive_fd(&here)?;
    let output = helper.wait_with_output()?;
    match received {
        Some(fd) if output.status.success() => Ok(fd),
        _ => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
