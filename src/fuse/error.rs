//! Why there is no mount, in one sentence each.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

use crate::name::display::{display, shown};

/// Why a tree could not be mounted, or the mount ended.
#[derive(Debug)]
pub enum Error {
    /// The source cannot be opened or served.
    Source(PathBuf, io::Error),
    /// The mount point cannot be used.
    Mountpoint(PathBuf, io::Error),
    /// The mount point lies inside the source: whoever walked the mount would come through it again and again.
    Inside {
        /// Below this…
        source: PathBuf,
        /// …lies this.
        mountpoint: PathBuf,
    },
    /// There is a mount of namegate already.
    Mounted {
        /// Here…
        mountpoint: PathBuf,
        /// …of this, in the words of the mount table.
        source: Vec<u8>,
    },
    /// The mount options `suid` and `dev` are for root.
    ForRoot,
    /// Times of access cannot be kept as they are, which the mount option `noatime` asks for.
    AccessTimes(PathBuf, io::Error),
    /// The kernel's FUSE device cannot be opened.
    Device(io::Error),
    /// Neither is there the right to mount, nor fusermount3 that would have it.
    Helper(PathBuf),
    /// The system did not mount it.
    Mount(PathBuf, io::Error),
    /// Serving ended with an error.
    Serving(io::Error),
    /// It was asked to end, and ended although these requests were stuck.
    Stuck(String),
}

/// The reason alone, on one line; errors of the system without their number.
fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None => display(error.to_string().trim().as_bytes()).to_string(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source, error) => write!(f, "cannot serve {}: {}", shown(source), why(error)),
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
            Self::Device(error) => {
                write!(f, "cannot open /dev/fuse: {}", why(error))?;
                match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => f.write_str(
                        "; load the kernel's module (modprobe fuse), or let the container have the device",
                    ),
                    _ => Ok(()),
                }
            }
            Self::Helper(mountpoint) => write!(
                f,
                "cannot mount on {}: this needs root, or fusermount3 (of the package fuse3) for other users",
                shown(mountpoint)
            ),
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
            | Self::Mount(_, error)
            | Self::Serving(error) => Some(error),
            Self::Inside { .. } | Self::Mounted { .. } | Self::ForRoot | Self::Helper(_) | Self::Stuck(_) => {
                None
            }
        }
    }
}
