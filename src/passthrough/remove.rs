//! Names that go: unlink, rmdir, rename.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::inode::Node;
use super::{NodeId, Passthrough, Result};
use crate::gate::Admitted;
use crate::sys::rename::renameat2;

/// A node that is about to lose a name.
type Leaving = Option<(Arc<Node>, Arc<OwnedFd>)>;

impl Passthrough {
    /// Removes the name of a file.
    ///
    /// # Errors
    /// As unlink(2) says.
    pub fn unlink(&self, parent: NodeId, name: &Admitted<'_>) -> Result<()> {
        self.remove(parent, name, UnlinkatFlags::NoRemoveDir)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As rmdir(2) says.
    pub fn rmdir(&self, parent: NodeId, name: &Admitted<'_>) -> Result<()> {
        self.remove(parent, name, UnlinkatFlags::RemoveDir)
    }

    /// Gives an entry another name, another parent, or both; `flags` are those of renameat2(2).
    ///
    /// # Errors
    /// As renameat2(2) says.
    pub fn rename(
        &self,
        parent: NodeId,
        name: &Admitted<'_>,
        new_parent: NodeId,
        new_name: &Admitted<'_>,
        flags: u32,
    ) -> Result<()> {
        let (from, to) = (self.fd(parent)?, self.fd(new_parent)?);
        let replaced = match flags & libc::RENAME_EXCHANGE != 0 {
            true => None,
            false => self.leaving(&*to, new_name),
        };
        renameat2(&*from, name.as_os_str(), &*to, new_name.as_os_str(), flags)?;
        self.has_left(replaced);
        Ok(())
    }

    fn remove(&self, parent: NodeId, name: &Admitted<'_>, how: UnlinkatFlags) -> Result<()> {
        let dir = self.fd(parent)?;
        let leaving = self.leaving(&*dir, name);
        unlinkat(&*dir, name.as_os_str(), how)?;
        self.has_left(leaving);
        Ok(())
    }

    /// The node behind `name`, if the kernel knows it: it may be open, or somebody's working directory, and must stay
    /// within reach without its name.
    fn leaving(&self, dir: impl AsFd, name: &Admitted<'_>) -> Leaving {
        let stat = fstatat(dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let node = self.nodes.known(&stat)?;
        let fd = self.nodes.fd(&node).ok()?;
        Some((node, fd))
    }

    fn has_left(&self, leaving: Leaving) {
        if let Some((node, fd)) = leaving {
            self.nodes.keep_removed(&node, fd);
        }
    }
}
