//! Lists the names of a directory.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use namegate_sys::directory::{self, RawDirEntry};
use namegate_sys::open::beneath;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

/// Calls `take` with each name in `dir`.
pub(crate) fn for_each_name(dir: impl AsFd, take: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
    let readable = beneath(dir, OsStr::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
    for_each_entry(readable, &mut |entry| take(entry.name.as_bytes()))
}

/// Calls `take` with all entries of `dir` except `.` and `..`, from its position on.
pub(crate) fn for_each_entry(dir: OwnedFd, take: &mut dyn FnMut(RawDirEntry<'_>)) -> Result<(), Errno> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let filled = match directory::read(&dir, &mut buffer) {
            Ok(0) => return Ok(()),
            Err(Errno::EINTR) => continue,
            filled => filled?,
        };
        let mut rest = &buffer[..filled];
        while let Some((entry, len)) = directory::first(rest) {
            if !matches!(entry.name.as_bytes(), b"." | b"..") {
                take(entry);
            }
            rest = &rest[len..];
        }
    }
}

/// Those of `names` that the directory lists byte for byte.
pub fn listed<'n>(dir: impl AsFd, names: &[&'n [u8]]) -> Result<Vec<&'n [u8]>, Errno> {
    let mut found = Vec::new();
    for_each_name(dir, &mut |name| found.extend(names.iter().find(|&&known| known == name)))?;
    Ok(found)
}
