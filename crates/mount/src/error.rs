//! Reasons why a mount fails, with one sentence each.

use std::fmt;
use std::io;
use std::path::PathBuf;

use namegate_core::name::display::{display, shown};
use nix::errno::Errno;

/// The reason why a tree cannot be mounted, or why the mount ended.
#[derive(Debug)]
pub enum Error {
    /// The source cannot be opened or served.
    Source(PathBuf, io::Error),
    /// The source is not a mount point, as it must be.
    NotMounted(PathBuf),
    /// The source has no entry of this name, as it must have.
    NoMarker(PathBuf, String),
    /// The mount point cannot be used.
    Mountpoint(PathBuf, io::Error),
    /// The mount point is inside the source: a walk of the mount would never end.
    Inside {
        source: PathBuf,
        /// The mount point below it.
        mountpoint: PathBuf,
    },
    /// namegate is already mounted at the mount point.
    Mounted {
        mountpoint: PathBuf,
        /// The source of the existing mount, as in the mount table.
        source: Vec<u8>,
    },
    /// Only root may use the mount options `suid` and `dev`.
    ForRoot,
    /// The mount option `noatime` cannot be applied.
    AccessTimes(PathBuf, io::Error),
    /// The kernel's FUSE device cannot be opened.
    Device(io::Error),
    /// The transport `uring` was asked for, and the kernel has none.
    Rings(io::Error),
    /// The process is root's and has no right to mount.
    Capability(PathBuf),
    /// The process has no right to mount, and fusermount3 is not installed.
    Helper(PathBuf),
    /// The source is on a file system whose mounts do not survive their server.
    Remote(PathBuf),
    /// File handles cannot be kept valid for the files of the source.
    Export(PathBuf, Errno),
    /// The mount call failed.
    Mount(PathBuf, io::Error),
    /// Serving ended with an error.
    Serving(io::Error),
    /// The server ended on request while these FUSE requests were stuck.
    Stuck(String),
}

/// The reason on one line; system errors without their number.
fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None => display(error.to_string().trim().as_bytes()).to_string(),
    }
}

/// What to do where the FUSE device cannot be opened.
fn device_advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => {
            "; load the kernel's module (modprobe fuse), or let the container have the device"
        }
        Some(Errno::EACCES) => {
            "; all users need it: chmod 0666 /dev/fuse, as the rules for udev of the package fuse3 do"
        }
        Some(Errno::EPERM) => {
            "; let the container have the device (--device /dev/fuse, or DeviceAllow= of its unit)"
        }
        _ => "",
    }
}

fn why_not_exported(errno: Errno) -> String {
    match errno {
        Errno::EOPNOTSUPP => {
            "its file system cannot open files by their inode numbers (tmpfs and overlayfs cannot), or has no trusted \
             attributes; ext4, XFS, Btrfs and F2FS can"
                .into()
        }
        Errno::EBADMSG => "its attribute trusted.namegate.export is no key; remove it".into(),
        errno => format!("its key, the attribute trusted.namegate.export: {}", errno.desc()),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source, error) => write!(f, "cannot serve {}: {}", shown(source), why(error)),
            Self::NotMounted(source) => write!(
                f,
                "cannot serve {}: it is no mount point, as `require-mount-point` demands; mount its file system first",
                shown(source)
            ),
            Self::NoMarker(source, marker) => write!(
                f,
                "cannot serve {}: it has no entry {}, as `require-marker` demands; mount its file system first, or create the entry in it",
                shown(source),
                display(marker.as_bytes())
            ),
            Self::Mountpoint(mountpoint, error) | Self::Mount(mountpoint, error) => {
                write!(f, "cannot mount on {}: {}", shown(mountpoint), why(error))
            }
            Self::Inside { source, mountpoint } => write!(
                f,
                "cannot mount {} on {}, which lies inside it: mount it beside the source, or over it",
                shown(source),
                shown(mountpoint)
            ),
            Self::Mounted { mountpoint, source } => write!(
                f,
                "cannot mount on {}: namegate is mounted there already, with the source {}; unmount it first",
                shown(mountpoint),
                display(source)
            ),
            Self::ForRoot => f.write_str("the mount options suid and dev are for root alone"),
            Self::AccessTimes(source, error) => write!(
                f,
                "the mount option noatime, which needs root and Linux 5.12, cannot be carried out for {}: {}",
                shown(source),
                why(error)
            ),
            Self::Rings(error) => write!(
                f,
                "cannot use the transport uring: {}; it needs Linux 6.14, io_uring, and that root enables it: \
                 echo Y >/sys/module/fuse/parameters/enable_uring",
                why(error)
            ),
            Self::Device(error) => write!(f, "cannot open /dev/fuse: {}{}", why(error), device_advice(error)),
            Self::Capability(mountpoint) => write!(
                f,
                "cannot mount on {}: root has no CAP_SYS_ADMIN here; give it to the container (--cap-add SYS_ADMIN) or to the unit \
                 (CapabilityBoundingSet=), or mount outside",
                shown(mountpoint)
            ),
            Self::Helper(mountpoint) => write!(
                f,
                "cannot mount on {}: this needs root, or fusermount3 (of the package fuse3) for other users",
                shown(mountpoint)
            ),
            Self::Remote(source) => write!(
                f,
                "cannot mount {} with --survive: it is on a network or user-space file system; mount it without",
                shown(source)
            ),
            Self::Export(source, errno) => {
                write!(f, "cannot mount {} with --export: {}", shown(source), why_not_exported(*errno))
            }
            Self::Serving(error) => write!(f, "the mount ended: {}", why(error)),
            Self::Stuck(requests) => write!(
                f,
                "ended, as asked, while requests were stuck ({requests}): a file system below the source does not answer"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(_, error)
            | Self::Mountpoint(_, error)
            | Self::AccessTimes(_, error)
            | Self::Device(error)
            | Self::Rings(error)
            | Self::Mount(_, error)
            | Self::Serving(error) => Some(error),
            _ => None,
        }
    }
}
