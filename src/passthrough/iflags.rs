//! Flags of inodes, as chattr(1) and lsattr(1) have them: the only ioctl requests that are carried.
//!
//! Kernels since 5.13 check by themselves who may set what; older ones hand the request on as it came. So the rules of
//! ioctl_iflags(2) are held here too: by the backing file system, under the caller's ids, and by hand where those do not
//! reach.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::stat::fstat;

use super::file::OpenFile;
use super::{Caller, Fh, OpenDir, Passthrough, Result};
use crate::sys::iflags;

/// What is open: files and directories are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenNode {
    /// A regular file.
    File(Fh),
    /// A directory.
    Dir(Fh),
}

/// What keeps a descriptor open while it is in use.
enum Held {
    File(Arc<OpenFile>),
    Dir(Arc<OpenDir>),
}

impl Passthrough {
    /// Does what the ioctl `command` asks for with `data`, and returns what is answered: FS_IOC_GETFLAGS, FS_IOC_SETFLAGS,
    /// FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR of linux/fs.h.
    ///
    /// # Errors
    /// ENOTTY for any other command, which is what programs expect to hear of one that a file does not know; EPERM when the
    /// caller may not; EINVAL for less data than there should be; otherwise as ioctl_iflags(2) says.
    pub fn ioctl(&self, caller: &Caller, open: OpenNode, command: u32, data: &[u8]) -> Result<Vec<u8>> {
        let held = match open {
            OpenNode::File(fh) => Held::File(self.files.get(fh)?),
            OpenNode::Dir(fh) => Held::Dir(self.dirs.get(fh)?),
        };
        // A kernel that asks for the size that the command's number has sends and takes a long; the flags are its first
        // four bytes (ioctl_iflags(2), "BUGS").
        match command {
            iflags::GET => Ok(iflags::get(&*self.held_file(&held)?)?.to_ne_bytes().into()),
            iflags::SET => {
                let flags = u32::from_ne_bytes(*data.first_chunk().ok_or(Errno::EINVAL)?);
                let file = self.held_file(&held)?;
                self.as_owner(caller, &*file, || iflags::set(&*file, flags))?;
                Ok(Vec::new())
            }
            iflags::GET_EXTENDED => Ok(iflags::get_extended(&*self.held_file(&held)?)?.into()),
            iflags::SET_EXTENDED => {
                let flags = data.first_chunk().ok_or(Errno::EINVAL)?;
                let file = self.held_file(&held)?;
                self.as_owner(caller, &*file, || iflags::set_extended(&*file, flags))?;
                Ok(Vec::new())
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn held_file(&self, held: &Held) -> Result<Arc<File>> {
        match held {
            Held::File(open) => self.file(open),
            Held::Dir(open) => Ok(open.file()),
        }
    }

    /// Runs `set` for `caller`, whom `file` must belong to. A server that cannot act for others could otherwise do it for
    /// them with its own files.
    fn as_owner(&self, caller: &Caller, file: impl AsFd, set: impl Fn() -> Result<()>) -> Result<()> {
        if caller.uid != 0 && caller.uid != fstat(file)?.st_uid {
            return Err(Errno::EPERM);
        }
        self.as_caller(caller, false, set)
    }
}
