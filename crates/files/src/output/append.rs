//! Files that are appended to.

use std::fs::File;
use std::io;
use std::path::Path;

use namegate_sys::open;
use namegate_sys::trust::is_guarded;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::place::{Destination, refused};

/// Opens the file at `path` for appending. A missing file is created, with `mode` minus the umask. A FIFO without a reader is an
/// error and does not block.
///
/// # Errors
/// The path leads through a link of another user, or to a file that another user may have put there; otherwise as open(2) says.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    const FLAGS: OFlag =
        OFlag::O_WRONLY.union(OFlag::O_APPEND).union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);
    loop {
        let named = match Destination::resolve(path)? {
            Destination::Open(file) => return Ok(file),
            Destination::Named(named) => named,
        };
        let Some((held, stat)) = &named.entry else {
            let flags = FLAGS | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            match openat(&named.dir, &*named.name, flags, Mode::from_bits_truncate(mode)) {
                // Another process created the file first.
                Err(Errno::EEXIST) => continue,
                opened => return Ok(opened?.into()),
            }
        };
        // Others can make a hard link to a file of ours, unless `fs.protected_hardlinks` forbids it.
        let is_linked = stat.kind == libc::S_IFREG && stat.links > 1 && !is_guarded(&named.dir_stat);
        if stat.kind != libc::S_IFCHR && (is_linked || !named.is_of_us(stat)) {
            return Err(refused(format!(
                "another user may have put it there: it belongs to user {} and has {} names",
                stat.uid, stat.links
            )));
        }
        return Ok(open::again(held, FLAGS)?.into());
    }
}
