//! The names of a directory, as they are listed.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::sys::directory;
use crate::sys::open::beneath;

/// Hands all names of `dir` on to `take`.
///
/// # Errors
/// The directory may not be read.
pub fn each(dir: impl AsFd, take: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
    let dir = beneath(dir, OsStr::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let filled = directory::read(&dir, &mut buffer)?;
        let mut rest = &buffer[..filled];
        while let Some((entry, len)) = directory::first(rest) {
            if !matches!(entry.name.as_bytes(), b"." | b"..") {
                take(entry.name.as_bytes());
            }
            rest = &rest[len..];
        }
        if filled == 0 {
            return Ok(());
        }
    }
}

/// Those of `names` that the directory lists exactly so.
///
/// # Errors
/// The directory may not be read.
pub fn listed<'n>(dir: impl AsFd, names: &[&'n [u8]]) -> Result<Vec<&'n [u8]>, Errno> {
    let mut found = Vec::new();
    each(dir, &mut |name| found.extend(names.iter().find(|&&known| known == name)))?;
    Ok(found)
}
