//! What a mount with `--export` needs for lasting file handles: the key of the source, and a table of handles where inode numbers do not
//! suffice.

use std::fs::DirBuilder;
use std::hash::Hasher;
#[expect(deprecated, reason = "its successor has no fixed algorithm")]
use std::hash::SipHasher;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::error::Error;
use crate::passthrough::{ExportedHandles, HandleKey, HandleSeal, HandleTable, is_full};
use crate::state_home;
use crate::sys::trust::check_guarded;

/// Finds or makes what is needed for the source `root`, which is at `source`, and its mount on `mountpoint`.
///
/// # Errors
/// The source has no lasting handles, or the table cannot be used.
pub(super) fn export(
    root: impl AsFd,
    source: &Path,
    mountpoint: &Path,
) -> Result<(HandleKey, ExportedHandles), Error> {
    let impossible = |errno| Error::Export(source.into(), errno);
    let key = HandleKey::of_source(root.as_fd()).map_err(impossible)?;
    let seal = HandleSeal::new(root, key).map_err(impossible)?;
    let table = match seal.needs_table() {
        false => None,
        true => {
            let directory = directory()?;
            let open = |dir| HandleTable::renew(dir, &file_name(mountpoint), seal.clone());
            match open_directory(&directory).and_then(open) {
                Ok(table) => Some(table),
                Err(error) if is_full(&error) => {
                    log::error!(
                        "no file handles are recorded until the next mount; they become invalid when the kernel forgets the files: {error}"
                    );
                    None
                }
                Err(error) => return Err(Error::HandleTable(directory, error)),
            }
        }
    };
    Ok((key, ExportedHandles { seal, table }))
}

/// What a predecessor has used for the source `root`.
///
/// # Errors
/// The source has no handles any more.
pub(super) fn resume(root: impl AsFd, key: HandleKey, mountpoint: &Path) -> Result<ExportedHandles, Error> {
    let seal = HandleSeal::new(root, key).map_err(|errno| Error::Serving(errno.into()))?;
    let reopen = || {
        let directory = directory().map_err(io::Error::other)?;
        HandleTable::reopen(open_directory(&directory)?, &file_name(mountpoint), seal.clone())
    };
    let table = seal.needs_table().then(reopen).transpose().unwrap_or_else(|error| {
        log::error!(
            "file handles become invalid when the kernel forgets the files: cannot open their table: {error}"
        );
        None
    });
    Ok(ExportedHandles { seal, table })
}

/// The directory of the tables.
fn directory() -> Result<PathBuf, Error> {
    let home = state_home::find().ok_or_else(|| Error::Serving(Errno::ENOENT.into()))?;
    Ok(home.join("exports"))
}

/// Opens the directory of the tables, which is created if there is none, for its owner only. Whoever could write a table could let clients
/// open any file of the source's file system.
fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = nix::fcntl::open(path, flags, Mode::empty())?;
    check_guarded(&dir)?;
    Ok(dir)
}

/// The name of the table for mounts on `mountpoint`, which can be longer than a name.
#[expect(deprecated, reason = "see above")]
fn file_name(mountpoint: &Path) -> String {
    let mut hasher = SipHasher::new();
    hasher.write(mountpoint.as_os_str().as_bytes());
    format!("{:016x}.handles", hasher.finish())
}
