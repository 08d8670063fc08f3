//! A mount: the kernel's device, attached to a place, and taken away from it once and no more.
//!
//! `fuser` can mount by itself, and takes the mount away by its path when the session ends; version 0.18 does so even where
//! somebody else has unmounted it before, and then takes away what was mounted there since. Here a mount goes by its path
//! only as long as the mount table shows it at that place.
//!
//! Sources: fuse(4), mount(2), fusermount3(1); `_FUSE_COMMFD` of libfuse's mount.c; proc_pid_mountinfo(5).

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::mount::{MntFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statfs::statfs;
use nix::unistd::{geteuid, getgid, getuid};

use super::mountpoint::detach;
use super::options::Options;
use super::reroot::HiddenMount;
use crate::sys::mounts::{covering, mounts};
use crate::sys::socket::receive_fd;

/// A mount at its place. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct Attachment {
    place: PathBuf,
    /// The kernel's side of it.
    connection: OwnedFd,
    /// The device number that the mount table shows.
    device: Option<String>,
}

impl Attachment {
    /// Mounts on `place`, a canonical path; what is told besides is the descriptor through which requests come.
    ///
    /// # Errors
    /// As open(2) of /dev/fuse and mount(2) say, or what fusermount3 says; NotFound where there is neither the right to mount
    /// nor fusermount3.
    pub(super) fn new(place: &Path, source: &Path, options: &Options) -> io::Result<(Self, OwnedFd)> {
        let requests = match by_mount(place, source, options) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => by_helper(place, source, options)?,
            mounted => mounted?,
        };
        Ok((Self::for_mounted(place, requests.try_clone()?), requests))
    }

    /// What has just been attached to `place`.
    fn for_mounted(place: &Path, connection: OwnedFd) -> Self {
        Self { place: place.into(), connection, device: device_at(place) }
    }

    /// A descriptor on which the kernel can be sent what it has not asked for.
    ///
    /// # Errors
    /// As dup(2) says.
    pub(super) fn device(&self) -> io::Result<OwnedFd> {
        self.connection.try_clone()
    }

    /// Takes it away, if it is there. While it is in use it is detached only.
    pub(super) fn take_away(&self) {
        if !self.is_there() {
            return;
        }
        let detached = match umount2(&self.place, MntFlags::empty()) {
            Ok(()) => return,
            // fusermount3 will do it.
            Err(Errno::EPERM) => detach(&self.place),
            Err(error) => {
                log::warn!("{error}: the mount is detached, and what is open is served until it is closed");
                detach(&self.place)
            }
        };
        if let Err(error) = detached {
            log::error!("cannot detach the mount: {error}");
        }
    }

    /// Whether what is mounted at the place is this.
    fn is_there(&self) -> bool {
        match self.is_connected() {
            // As long as it is connected nothing else has its number.
            true => self.device.is_some() && device_at(&self.place) == self.device,
            // Somebody has unmounted it; or it was aborted, and what is there answers nobody.
            false => matches!(statfs(&self.place), Err(Errno::ENOTCONN | Errno::ECONNABORTED)),
        }
    }

    /// Whether the kernel still has requests for it.
    fn is_connected(&self) -> bool {
        let mut polled = [PollFd::new(self.connection.as_fd(), PollFlags::empty())];
        let has_failed = poll(&mut polled, PollTimeout::ZERO).is_err();
        has_failed || !polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
    }
}

/// A mount that answers INIT next.
#[derive(Debug)]
pub(super) enum Attaching {
    /// It is at its place.
    Done(Attachment),
    /// It comes to its place when its source has been looked up.
    HiddenMount(HiddenMount),
}

impl Attaching {
    /// Mounts for `place`, a canonical path, what `root` holds; besides, the descriptor through which requests come.
    ///
    /// # Errors
    /// As [`Attachment::new`].
    pub(super) fn begin(
        place: &Path,
        source: &Path,
        root: &OwnedFd,
        options: &Options,
    ) -> io::Result<(Self, OwnedFd)> {
        let unseen = match geteuid().is_root() {
            true => HiddenMount::mount(place, source, root, options)?,
            false => None,
        };
        Ok(match unseen {
            Some((unseen, requests)) => (Self::HiddenMount(unseen), requests),
            None => {
                let (attachment, requests) = Attachment::new(place, source, options)?;
                (Self::Done(attachment), requests)
            }
        })
    }

    /// Brings it to its place, if it is not there. INIT has been answered.
    ///
    /// # Errors
    /// As [`HiddenMount::attach`].
    pub(super) fn finish(self) -> io::Result<Attachment> {
        match self {
            Self::Done(attachment) => Ok(attachment),
            Self::HiddenMount(unseen) => {
                let (place, connection) = unseen.attach()?;
                Ok(Attachment::for_mounted(&place, connection))
            }
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.take_away();
    }
}

/// The device number of what is seen at `place`; `None` if nothing is mounted there.
fn device_at(place: &Path) -> Option<String> {
    covering(&mounts().ok()?, place).map(|mount| mount.device.clone())
}

/// By the right to mount.
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

/// By fusermount3, which has the right and gives the descriptor over its standard input.
fn by_helper(place: &Path, source: &Path, options: &Options) -> io::Result<OwnedFd> {
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
