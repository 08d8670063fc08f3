//! Notifications: what the kernel is told without having asked.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use zerocopy::IntoBytes;

use super::abi::{NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyPruneOut, inval_entry, notify};
use super::device::Device;

/// Sends notifications. None may be sent by a thread that serves a request, unless its description says otherwise: the kernel may
/// wait for the request first.
#[derive(Debug)]
pub struct Notifier {
    device: Device,
}

impl Notifier {
    /// Sends over a descriptor of the connection, with any transport.
    pub fn new(device: OwnedFd) -> Self {
        Self { device: Device::new(device) }
    }

    /// Makes the kernel forget what `name` in the directory `parent` leads to.
    ///
    /// # Errors
    /// As write(2) of /dev/fuse says; ENOTEMPTY or EBUSY for a directory that is in use.
    pub fn forget_entry(&self, parent: u64, name: &OsStr) -> io::Result<()> {
        self.invalidate_entry(parent, name, 0)
    }

    /// Makes the kernel ask again what `name` in the directory `parent` leads to when it is used next (Linux 6.2). What is mounted there
    /// stays, and a directory in use keeps its path.
    ///
    /// It waits for requests about entries of `parent` that clients have sent.
    ///
    /// # Errors
    /// As write(2) of /dev/fuse says.
    pub fn expire_entry(&self, parent: u64, name: &OsStr) -> io::Result<()> {
        self.invalidate_entry(parent, name, inval_entry::EXPIRE_ONLY)
    }

    fn invalidate_entry(&self, parent: u64, name: &OsStr, flags: u32) -> io::Result<()> {
        let namelen = u32::try_from(name.len()).map_err(|_| Errno::ENAMETOOLONG)?;
        let head = NotifyInvalEntryOut { parent, namelen, flags };
        self.send(notify::INVAL_ENTRY, &[head.as_bytes(), name.as_bytes(), b"\0"])
    }

    /// Makes the kernel forget the attributes of a node, and `with_content` also its cached content, which for a directory is its
    /// listing.
    ///
    /// Without content this may be sent while a request for the node is being served: it waits for no lock that a request holds
    /// (`fuse_reverse_inval_inode`). With the content of a file it waits for requests to read and write it.
    ///
    /// # Errors
    /// As write(2) of /dev/fuse says.
    pub fn forget_inode(&self, ino: u64, with_content: bool) -> io::Result<()> {
        let off = if with_content { 0 } else { -1 };
        self.send(notify::INVAL_INODE, &[NotifyInvalInodeOut { ino, off, len: 0 }.as_bytes()])
    }

    /// Makes the kernel forget the nodes that nobody uses. It blocks nobody, and may be sent by any thread: the kernel drops
    /// entries that are not in use (`d_prune_aliases`).
    ///
    /// # Errors
    /// EINVAL before Linux 6.18; otherwise as write(2) of /dev/fuse says.
    pub fn prune(&self, nodes: &[u64]) -> io::Result<()> {
        let count = u32::try_from(nodes.len()).map_err(|_| Errno::E2BIG)?;
        let head = NotifyPruneOut { count, padding: 0, spare: 0 };
        self.send(notify::PRUNE, &[head.as_bytes(), nodes.as_bytes()])
    }

    fn send(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        match self.device.send(code, 0, parts) {
            // The kernel has forgotten it already.
            Err(Errno::ENOENT) => Ok(()),
            sent => Ok(sent?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn notifications_have_the_form_that_the_kernel_reads() {
        let (here, mut kernel) = UnixStream::pair().unwrap();
        let notifier = Notifier::new(here.into());
        notifier.prune(&[7, 1 << 63]).unwrap();
        notifier.forget_entry(3, OsStr::new("ab")).unwrap();
        notifier.forget_inode(9, false).unwrap();
        drop(notifier);
        let mut sent = Vec::new();
        kernel.read_to_end(&mut sent).unwrap();
        let word = |at: usize| u32::from_ne_bytes(sent[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(sent[at..at + 8].try_into().unwrap());
        assert_eq!(([0, 4, 16].map(word), [8, 32, 40].map(long)), ([48, 9, 2], [0, 7, 1 << 63]));
        let entry = 48;
        assert_eq!([0, 4, 24, 28].map(|at| word(entry + at)), [35, 3, 2, 0]);
        assert_eq!((long(entry + 16), &sent[entry + 32..entry + 35]), (3, &b"ab\0"[..]));
        let inode = entry + 35;
        assert_eq!(([0, 4].map(|at| word(inode + at)), long(inode + 16)), ([40, 2], 9));
        assert_eq!((long(inode + 24), long(inode + 32), sent.len()), (u64::MAX, 0, inode + 40));
    }
}
