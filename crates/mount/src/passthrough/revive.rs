//! From node ids back to files, after the kernel has forgotten them, the server was restarted, or the source was mounted again.
//!
//! On the device of the source, a node id is an inode number, and most local file systems open a file by its number. So nothing has
//! to be kept for it. Files of tmpfs, overlayfs and other devices are found only while the kernel knows them. The kernel compares the
//! generation of the inode with that of the handle that a client presents.
//!
//! A number may be made up, so a file is found again only if it is certainly below the source. That is so for all files of a file
//! system (of a Btrfs subvolume) that is served as a whole. In a part of one, the path of a directory is known, because the kernel connects
//! it to the root; that of another file is known only as long as the kernel has its name in a cache. With a key, the
//! generation proves that a mount of the source has given out the handle.

use std::os::fd::OwnedFd;
use std::path::Path;

use namegate_sys::handle::{self, KernelHandle};
use namegate_sys::open::path_of;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlink};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::inode::NodeTable;
use super::node::{FileId, InodeRef, TrackedNode};
use super::{LookupEntry, NodeId, Passthrough, Result, UsedName};

impl NodeTable {
    /// The generation of a file for the kernel, which stands in its handles.
    pub(super) fn shown_generation(&self, node: &TrackedNode) -> u32 {
        match (&node.hold, &self.export) {
            (InodeRef::Handle(handle), Some(seal)) => seal.generation(handle),
            _ => node.generation(),
        }
    }

    /// The handle of a file that the kernel has forgotten.
    fn handle_for(&self, id: NodeId, mount: &OwnedFd) -> Result<KernelHandle> {
        // The ids of other devices lead nowhere by themselves.
        let numbers = self.numbers.as_ref().filter(|_| self.is_own(id)).ok_or(Errno::ESTALE)?;
        numbers.handle(mount, id.0)
    }

    /// Counts a lookup of the file with the node id `id`, which the kernel may have forgotten.
    fn revive(&self, id: NodeId) -> Result<LookupEntry> {
        if let Ok(node) = self.node(id)
            && id != NodeId::ROOT
        {
            let fd = self.fd(&node)?;
            return self.count_opened(&fd);
        }
        let Some((mount, _)) = &self.mount else { return Err(Errno::ESTALE) };
        // The kernel never forgets the source.
        if id == NodeId::ROOT {
            return Err(Errno::ESTALE);
        }
        let handle = self.handle_for(id, mount)?;
        let open = || handle::open(mount, &handle, OFlag::O_PATH | OFlag::O_NOFOLLOW);
        let fd = self.with_room(open)?;
        let stat = fstat(&fd)?;
        let is_it = stat.st_ino == id.0 && stat.st_dev == self.root_place.dev;
        let is_file = || SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFDIR;
        let is_whole = self.numbers.as_ref().is_some_and(|numbers| numbers.is_whole);
        // A directory may have been moved out of the source since its handle was given out.
        let is_inside = is_whole || self.export.is_some() && is_file() || self.is_below_root(&fd);
        if !is_it || stat.st_nlink == 0 || !is_inside {
            return Err(Errno::ESTALE);
        }
        self.count(fd)
    }

    /// Counts a lookup of the directory that contains the directory `id`. The source is returned without a lookup.
    fn parent(&self, id: NodeId) -> Result<LookupEntry> {
        let node = self.node(id)?;
        if node.kind != SFlag::S_IFDIR || id == NodeId::ROOT {
            return Err(Errno::ESTALE);
        }
        let dir = self.fd(&node)?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let parent = self.with_room(|| openat(&*dir, "..", flags, Mode::empty()))?;
        let stat = fstat(&parent)?;
        if FileId::from_stat(&stat) == self.root_place {
            return Ok(LookupEntry {
                node: NodeId::ROOT,
                generation: 0,
                stat,
                is_current: true,
                name: UsedName::Own,
            });
        }
        // A directory may have been moved out of the source.
        if self.is_below_root(&parent) { self.count(parent) } else { Err(Errno::ESTALE) }
    }

    /// Whether a file has a path, and that leads through the source. The path is not opened. A file whose name the kernel does not
    /// know has the path `/`; a path longer than a page is not known either.
    fn is_below_root(&self, fd: &OwnedFd) -> bool {
        let path = |fd: &OwnedFd| readlink(path_of(fd).as_str());
        // The path of a removed directory could be that of another one.
        let exists = fstat(self.root()).is_ok_and(|stat| stat.st_nlink > 0);
        let (Ok(root), Ok(path)) = (path(self.root()), path(fd)) else { return false };
        exists && Path::new(&path).strip_prefix(&root).is_ok_and(|below| !below.as_os_str().is_empty())
    }
}

impl Passthrough {
    /// Counts a lookup of the file with the node id `node`, which the kernel may have forgotten.
    ///
    /// # Errors
    /// ESTALE if there is no such file, or it may be outside of the source.
    pub fn lookup_again(&self, node: NodeId) -> Result<LookupEntry> {
        self.nodes.revive(node).map_err(|errno| match errno {
            Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EIO => errno,
            // No file system knows the number. ELOOP: it is that of the source.
            _ => Errno::ESTALE,
        })
    }

    /// Counts a lookup of the directory that contains the directory `node`. If that is the source, no lookup is counted.
    ///
    /// # Errors
    /// ESTALE if it is outside of the source, or `node` is no directory.
    pub fn lookup_parent(&self, node: NodeId) -> Result<LookupEntry> {
        self.nodes.parent(node)
    }
}
