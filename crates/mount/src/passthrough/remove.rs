//! Removal of names: unlink, rmdir, rename.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use namegate_core::gate::Admitted;
use namegate_sys::rename::renameat2;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use nix::sys::statfs::fstatfs;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::descriptor::{Descriptor, Stay};
use super::filesystems::renames_removed;
use super::journal::EntryAt;
use super::node::TrackedNode;
use super::{Caller, NodeId, Passthrough, Result};

/// How long a removal waits for earlier requests: a client that closes a file and then removes it does not wait for the
/// FUSE_RELEASE in between.
const RELEASE_WAIT: Duration = Duration::from_millis(10);

/// A node that is about to lose a name.
struct PendingRemoval {
    node: Arc<TrackedNode>,
    /// The descriptor that keeps it usable, if any.
    fd: Option<Arc<Descriptor>>,
    stay: Stay,
    has_other_names: bool,
}

impl Passthrough {
    /// Removes the name of a file, for the user `uid`.
    ///
    /// # Errors
    /// As unlink(2) says.
    pub fn unlink(&self, uid: u32, parent: NodeId, name: &Admitted<'_>) -> Result<()> {
        self.remove(uid, parent, name, UnlinkatFlags::NoRemoveDir)
    }

    /// Removes an empty directory, for the user `uid`.
    ///
    /// # Errors
    /// As rmdir(2) says.
    pub fn rmdir(&self, uid: u32, parent: NodeId, name: &Admitted<'_>) -> Result<()> {
        self.remove(uid, parent, name, UnlinkatFlags::RemoveDir)
    }

    /// Renames an entry for `caller`; `flags` are those of renameat2(2).
    ///
    /// # Errors
    /// As renameat2(2) says.
    pub fn rename(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &Admitted<'_>,
        new_parent: NodeId,
        new_name: &Admitted<'_>,
        flags: u32,
    ) -> Result<()> {
        let (from, to) = (self.fd(parent)?, self.fd(new_parent)?);
        let [source, target] = [(&from, name), (&to, new_name)]
            .map(|(dir, name)| EntryAt { dir: dir.as_fd(), name: name.as_os_str() });
        let exchanges = flags & libc::RENAME_EXCHANGE != 0;
        if self.nodes.journal.begin_or_recover_rename(source, target, exchanges) {
            return Ok(());
        }
        let replaced = match exchanges {
            true => None,
            false => self.leaving(&to, new_parent, new_name),
        };
        // The directory may grow, and a whiteout is a new inode.
        let renamed = self
            .charged_to(caller, || renameat2(&*from, name.as_os_str(), &*to, new_name.as_os_str(), flags));
        self.has_left(caller.uid, &to, new_name, replaced, renamed.is_ok());
        renamed
    }

    fn remove(&self, uid: u32, parent: NodeId, name: &Admitted<'_>, how: UnlinkatFlags) -> Result<()> {
        let dir = self.fd(parent)?;
        let entry = EntryAt { dir: dir.as_fd(), name: name.as_os_str() };
        if self.nodes.journal.begin_or_recover_remove(entry) {
            return Ok(());
        }
        let leaving = self.leaving(&dir, parent, name);
        let removed = unlinkat(&*dir, name.as_os_str(), how);
        self.has_left(uid, &dir, name, leaving, removed.is_ok());
        removed
    }

    /// The node of `name`, if the kernel has looked it up.
    ///
    /// The file may be open, a working directory, or used by a later request, and must stay usable without its name. So a
    /// descriptor is kept until the kernel forgets the node, which it does at once if nobody uses it. File systems that rename
    /// removed files would then never remove one. There, no descriptor is kept of a file that nobody has open, and for an open one
    /// a descriptor of this name until it is closed, so that the file system treats it as for its own clients. Directories need no
    /// special treatment.
    fn leaving(&self, dir: &Descriptor, parent: NodeId, name: &Admitted<'_>) -> Option<PendingRemoval> {
        let stat = fstatat(dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let node = self.nodes.known(&stat)?;
        let has_other_names = node.kind != SFlag::S_IFDIR && stat.st_nlink > 1;
        if node.kind == SFlag::S_IFDIR || !self.renames_what_is_removed_in(parent, dir) {
            let fd = self.nodes.fd(&node).ok()?;
            return Some(PendingRemoval { node, fd: Some(fd), stay: Stay::UntilForgotten, has_other_names });
        }
        let fd = if self.hold_nothing(&node) { None } else { self.hold_this(dir, name, &stat) };
        Some(PendingRemoval { node, fd, stay: Stay::UntilClosed, has_other_names })
    }

    fn renames_what_is_removed_in(&self, parent: NodeId, dir: impl AsFd) -> bool {
        match self.nodes.is_own(parent) {
            true => self.renames_removed,
            false => fstatfs(dir).is_ok_and(|found| renames_removed(found.filesystem_type())),
        }
    }

    /// Closes the descriptors of a file that nobody has open. Returns whether none is left.
    pub(super) fn hold_nothing(&self, node: &TrackedNode) -> bool {
        let begin = Instant::now();
        loop {
            let (is_open, _closed_behind_the_lock) = {
                let mut opened = node.opened.lock();
                let is_open = opened.opens > 0;
                (is_open || opened.is_in_use(), if is_open { None } else { opened.take() })
            };
            match is_open {
                false => return true,
                true if begin.elapsed() > RELEASE_WAIT => return node.opened.lock().opens == 0,
                true => sleep(Duration::from_micros(500)),
            }
        }
    }

    /// A descriptor of this name, if it still belongs to the file with these attributes.
    fn hold_this(&self, dir: &Descriptor, name: &Admitted<'_>, stat: &FileStat) -> Option<Arc<Descriptor>> {
        let fd = self.hold(dir, name).ok()?;
        let found = fstat(&fd).ok()?;
        ((found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino)).then(|| Descriptor::new(fd))
    }

    fn has_left(
        &self,
        uid: u32,
        dir: &Descriptor,
        name: &Admitted<'_>,
        leaving: Option<PendingRemoval>,
        has_left: bool,
    ) {
        let Some(PendingRemoval { node, fd, stay, has_other_names }) = leaving else { return };
        match (fd, has_left) {
            // Its handle is still valid. Of two names removed at once, the later removal sees that the other name is gone.
            (Some(fd), true)
                if has_other_names
                    && stay == Stay::UntilForgotten
                    && fstat(&*fd).is_ok_and(|stat| stat.st_nlink > 0) => {}
            (Some(fd), true) => self.nodes.keep_removed(uid, &node, fd, stay),
            // A request may have opened it meanwhile.
            (None, true) => drop(node.opened.lock().take()),
            (Some(_), false) => {}
            // The file is still there, and its only descriptor was closed.
            (None, false) => self.nodes.hold_again(&node, || self.hold(dir, name)),
        }
    }
}
