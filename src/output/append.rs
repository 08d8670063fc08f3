//! Files that grow.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::place::{Destination, refused};
use crate::sys::open;
use crate::sys::trust::is_guarded;

/// Opens what is at `path` for writing at its end. If nothing is there, a file is made, with `mode` less the umask. A FIFO
/// without a reader is an error, and does not hold the caller up.
///
/// # Errors
/// The path leads through a link of somebody else, or to a file that somebody else has put there; otherwise as open(2) says.
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
                // Somebody was faster.
                Err(Errno::EEXIST) => continue,
                opened => return Ok(opened?.into()),
            }
        };
        // A second name of a file of ours can be made by others, unless `fs.protected_hardlinks` forbids it.
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
