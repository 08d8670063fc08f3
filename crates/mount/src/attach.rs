//! A mount: attaches the kernel's FUSE device to a mount point, and unmounts it at most once.
//!
//! `fuser` can mount too, and unmounts by path when the session ends. Version 0.18 does so even if another process has
//! unmounted it before, and then removes a later mount at that path. Here a mount is removed by path only as long as the
//! mount table shows it there.
//!
//! Sources: fuse(4), umount(2), proc_pid_mountinfo(5).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use namegate_sys::mounts::{covering, mounts};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;

use super::mount_call::{by_helper, by_mount};
use super::mountpoint::{detach, is_dead};
use super::node_number::SOURCE;
use super::options::Options;
use super::reroot::HiddenMount;
use super::session::MountSession;
use crate::passthrough::NodeId;

/// A mount that is attached to its mount point. It is unmounted when this is dropped.
#[derive(Debug)]
pub(super) struct Attachment {
    place: PathBuf,
    /// A descriptor of the FUSE connection.
    connection: OwnedFd,
    /// The device number that the mount table shows.
    device: Option<String>,
}

impl Attachment {
    /// Mounts on `place`, a canonical path. Also returns the descriptor from which requests are read.
    ///
    /// # Errors
    /// As open(2) of /dev/fuse and mount(2) say, or as fusermount3 reports; NotFound without the right to mount if
    /// fusermount3 is not installed.
    pub(super) fn new(place: &Path, source: &Path, options: &Options) -> io::Result<(Self, OwnedFd)> {
        let requests = match by_mount(place, source, options) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => by_helper(place, source, options)?,
            mounted => mounted?,
        };
        Ok((Self::for_mounted(place, requests.try_clone()?), requests))
    }

    /// The mount that was just attached to `place`.
    fn for_mounted(place: &Path, connection: OwnedFd) -> Self {
        Self { place: place.into(), connection, device: device_at(place) }
    }

    /// The mount that a predecessor has attached to `place`.
    pub(super) fn resume(place: &Path, device: Option<String>, connection: OwnedFd) -> Self {
        Self { place: place.into(), connection, device }
    }

    /// The device number that the mount table shows.
    pub(super) fn device_number(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// A descriptor for notifications to the kernel.
    ///
    /// # Errors
    /// As dup(2) says.
    pub(super) fn device(&self) -> io::Result<OwnedFd> {
        self.connection.try_clone()
    }

    /// Unmounts, if the mount is still there. A mount that is in use is only detached.
    pub(super) fn unmount(&self) {
        if !self.is_there() {
            return;
        }
        let detached = match umount2(&self.place, MntFlags::empty()) {
            Ok(()) => return,
            // Without the right to unmount, use fusermount3.
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

    /// Whether the mount at the mount point is this one. The table decides, which is read without a lookup of the mount point: where
    /// autofs or x-systemd.automount has just unmounted it, a lookup would have it mounted again.
    fn is_there(&self) -> bool {
        if self.device.is_none() || device_at(&self.place) != self.device {
            return false;
        }
        // As long as the connection exists, no other mount has its device number. Otherwise it was aborted, and does not answer, or a
        // later mount has got the number.
        self.is_connected() || is_dead(&self.place)
    }

    /// Whether the kernel still has requests for it.
    fn is_connected(&self) -> bool {
        let mut polled = [PollFd::new(self.connection.as_fd(), PollFlags::empty())];
        let has_failed = poll(&mut polled, PollTimeout::ZERO).is_err();
        has_failed || !polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
    }
}

/// A mount whose next request is INIT.
#[derive(Debug)]
pub(super) enum Attaching {
    /// It is attached to its mount point.
    Done(Attachment),
    /// It is attached to its mount point after its source has been looked up.
    HiddenMount(HiddenMount),
}

impl Attaching {
    /// Mounts the tree of `root` for `place`, a canonical path. Also returns the descriptor from which requests are read.
    ///
    /// # Errors
    /// As [`Attachment::new`].
    pub(super) fn begin(
        place: &Path,
        source: &Path,
        root: &OwnedFd,
        options: &Options,
    ) -> io::Result<(Self, OwnedFd)> {
        let hidden = match geteuid().is_root() {
            true => HiddenMount::mount(place, source, root, options)?,
            false => None,
        };
        Ok(match hidden {
            Some((hidden, requests)) => (Self::HiddenMount(hidden), requests),
            None => {
                let (attachment, requests) = Attachment::new(place, source, options)?;
                (Self::Done(attachment), requests)
            }
        })
    }

    /// The number by which the kernel will know the source.
    pub(super) fn root_number(&self) -> u64 {
        match self {
            Self::Done(_) => NodeId::ROOT.0,
            Self::HiddenMount(_) => SOURCE,
        }
    }

    /// Attaches the mount to its mount point, if it is not there yet. `session` will serve it.
    ///
    /// # Errors
    /// As [`HiddenMount::attach`].
    pub(super) fn finish(self, session: &MountSession) -> io::Result<Attachment> {
        match self {
            Self::Done(attachment) => Ok(attachment),
            Self::HiddenMount(hidden) => {
                let (place, connection) = hidden.attach(session)?;
                Ok(Attachment::for_mounted(&place, connection))
            }
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// The device number of the file system that is visible at `place`; `None` if nothing is mounted there.
fn device_at(place: &Path) -> Option<String> {
    covering(&mounts().ok()?, place).map(|mount| mount.device.clone())
}
