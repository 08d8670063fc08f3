//! Lists the names of a directory.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use namegate_sys::directory;
use namegate_sys::open::beneath;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

/// Calls `take` with each name in `dir`.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn for_each_name(dir: impl AsFd, take: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
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

/// Those of `names` that the directory lists byte for byte.
///
/// # Errors
/// The directory cannot be read.
pub fn listed<'n>(dir: impl AsFd, names: &[&'n [u8]]) -> Result<Vec<&'n [u8]>, Errno> {
    let mut found = Vec::new();
    for_each_name(dir, &mut |name| found.extend(names.iter().find(|&&known| known == name)))?;
    Ok(found)
}
