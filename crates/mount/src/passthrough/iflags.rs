//! Inode flags, as set by chattr(1) and shown by lsattr(1): the only supported ioctl requests.
//!
//! Kernels since 5.13 check the permission to set flags; older ones pass the request on unchecked. So the rules of ioctl_iflags(2)
//! are enforced here too: by the backing file system, under the caller's ids, and otherwise by a check of the owner.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use namegate_sys::{iflags, release};
use nix::errno::Errno;
use nix::sys::stat::fstat;

use super::file::OpenFile;
use super::{Caller, Fh, OpenDir, Passthrough, Result};

/// `FS_XFLAG_CASEFOLD` of linux/fs.h, since Linux 7.2. Before, the kernel refuses to set flags that it does not know, and programs set those that
/// they have read.
const CASEFOLD_EXTENDED: u32 = 0x0004_0000;
const KNOWS_CASEFOLD_EXTENDED: (u32, u32, u32) = (7, 2, 0);

/// An open file or directory; both have handle numbers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenNode {
    File(Fh),
    Dir(Fh),
}

/// Keeps the descriptor open while it is in use.
enum OpenedNode {
    File(Arc<OpenFile>),
    Dir(Arc<OpenDir>),
}

impl Passthrough {
    /// Executes the ioctl `command` with `data` and returns the reply: FS_IOC_GETFLAGS, FS_IOC_SETFLAGS,
    /// FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR of linux/fs.h. With `ignores_case` directories say that, so that programs (Wine, nfsd, ksmbd) need not
    /// search them.
    ///
    /// # Errors
    /// ENOTTY for any other command, as programs expect; EPERM if the caller may not; EINVAL for too little data; otherwise as
    /// ioctl_iflags(2) says.
    pub fn ioctl(
        &self,
        caller: &Caller,
        open: OpenNode,
        command: u32,
        data: &[u8],
        ignores_case: bool,
    ) -> Result<Vec<u8>> {
        let folds = ignores_case && matches!(open, OpenNode::Dir(_));
        let casefold = if folds { iflags::CASEFOLD } else { 0 };
        let held = match open {
            OpenNode::File(fh) => OpenedNode::File(self.files.get(fh)?),
            OpenNode::Dir(fh) => OpenedNode::Dir(self.dirs.get(fh)?),
        };
        // By the size in the command number, the kernel passes a long; the flags are its first four bytes (ioctl_iflags(2), "BUGS").
        match command {
            iflags::GET => Ok((iflags::get(&*self.held_file(&held)?)? | casefold).to_ne_bytes().into()),
            iflags::SET => {
                let flags = u32::from_ne_bytes(*data.first_chunk().ok_or(Errno::EINVAL)?);
                let file = self.held_file(&held)?;
                // That of the source stays.
                let flags = if folds { flags & !casefold | iflags::get(&*file)? & casefold } else { flags };
                self.as_owner(caller, &*file, || iflags::set(&*file, flags))?;
                Ok(Vec::new())
            }
            iflags::GET_EXTENDED => {
                let mut flags = iflags::get_extended(&*self.held_file(&held)?)?;
                if folds
                    && release::running() >= Some(KNOWS_CASEFOLD_EXTENDED)
                    && let Some(first) = flags.first_chunk_mut()
                {
                    *first = (u32::from_ne_bytes(*first) | CASEFOLD_EXTENDED).to_ne_bytes();
                }
                Ok(flags.into())
            }
            iflags::SET_EXTENDED => {
                let flags = data.first_chunk().ok_or(Errno::EINVAL)?;
                let file = self.held_file(&held)?;
                self.as_owner(caller, &*file, || iflags::set_extended(&*file, flags))?;
                Ok(Vec::new())
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn held_file(&self, held: &OpenedNode) -> Result<Arc<File>> {
        match held {
            OpenedNode::File(open) => self.file(open),
            OpenedNode::Dir(open) => Ok(open.file()),
        }
    }

    /// Runs `set` for `caller`, who must own `file`. Otherwise a server that cannot act for other users would set flags of its own
    /// files for them.
    fn as_owner(&self, caller: &Caller, file: impl AsFd, set: impl Fn() -> Result<()>) -> Result<()> {
        // Where owners are mapped, only the kernel knows, and checks it (`vfs_fileattr_set`).
        if !self.has_idmap() && caller.uid != 0 && caller.uid != fstat(file)?.st_uid {
            return Err(Errno::EPERM);
        }
        self.as_caller(caller, false, set)
    }
}
