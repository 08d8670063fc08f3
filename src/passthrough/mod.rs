//! The backing tree: every operation of a file system, on a directory that is held open.
//!
//! It knows no wire protocol, no policy and no Unicode: numbers and bytes go in, plain values come out, and every name
//! comes as an [`Admitted`](crate::gate::Admitted), so that no operation can forget the gate. Everything is done by
//! descriptor; no path below the source is ever put together. FIFOs, sockets and devices are never opened, only held by
//! `O_PATH`. Errors are the errno of the call that failed.
//!
//! It trusts its caller for permissions: on Linux the kernel checks them before a request is sent
//! (`default_permissions`, fuse(4)). What is created belongs to the [`Caller`] all the same, and is created under the
//! caller's ids; so is what a change allocates. Quotas, reserved blocks, set-id bits, set-group-id directories, umask and
//! default ACLs do what they do without us.

mod attr;
mod budget;
mod create;
mod credentials;
mod descriptors;
mod dir;
mod file;
mod handle;
mod held;
mod iflags;
mod inode;
mod lookup;
mod path;
mod remove;
mod set_id;
mod spelling;
#[cfg(test)]
mod tests;
mod xattr;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use nix::sys::stat::FileStat;
use nix::sys::statfs::fstatfs;

pub use attr::Changes;
pub use credentials::Caller;
pub use dir::{DirEntry, Listing, OpenDir, Room};
pub use file::CopyRange;
pub use handle::Fh;
pub use iflags::OpenNode;
pub use inode::{ELSEWHERE, Forgotten, NodeId, Reach, has_set_id};
pub use set_id::SetId;
pub use spelling::Orthography;

use descriptors::Descriptor;
use file::OpenFile;
use handle::Handles;
use inode::Table;
use spelling::Spellings;

/// What an operation gives, or the errno.
pub type Result<T> = std::result::Result<T, Errno>;

/// An entry that was looked up or made. Its node has been counted once more; [`Passthrough::forget`] takes that back.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The node that the name leads to.
    pub node: NodeId,
    /// Differs between two files that had the same node id one after the other.
    pub generation: u32,
    /// Its attributes, with the node id as inode number.
    pub stat: FileStat,
}

/// How a backing tree is served.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many descriptors are kept for the next request, at most.
    pub cached_fds: usize,
}

/// A backing tree.
#[derive(Debug)]
pub struct Passthrough {
    nodes: Table,
    files: Handles<OpenFile>,
    dirs: Handles<OpenDir>,
    /// Whether this process may act for others (root).
    acts_for_others: bool,
    /// Whether files of the source's own file system close without a word.
    closes_silently: bool,
    /// Whether the source's own file system asks nobody but this kernel who may do what.
    is_local: bool,
    /// Whether the source's own file system keeps files that are removed while they are held.
    renames_removed: bool,
    /// Whether a server on the network or in user space has the source.
    is_remote: bool,
    spellings: Spellings,
    /// How often entries have come to be seen under other names.
    views: AtomicU64,
}

impl Passthrough {
    /// The tree below `source`, a directory. The process's umask has to be 0.
    ///
    /// # Errors
    /// ENOTDIR for anything else; ENOENT without /proc.
    pub fn new(source: OwnedFd, settings: Settings) -> Result<Self> {
        let kind = fstatfs(&source)?.filesystem_type();
        Ok(Self {
            closes_silently: file::closes_silently(kind),
            is_local: file::is_local(kind),
            renames_removed: remove::renames_removed(kind),
            is_remote: file::is_remote(kind),
            nodes: Table::new(source, settings.cached_fds)?,
            files: Handles::new(),
            dirs: Handles::new(),
            acts_for_others: nix::unistd::geteuid().is_root(),
            spellings: Spellings::default(),
            views: AtomicU64::new(0),
        })
    }

    /// Whether inodes are held by kernel file handles, which cost no descriptor.
    pub fn holds_by_handle(&self) -> bool {
        self.nodes.has_handles()
    }

    /// Whether the source is on a file system of the network or of user space, on which everything may wait for a server.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// How many nodes are known.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How many files are open.
    pub fn open_files(&self) -> usize {
        self.files.len()
    }

    /// How many directories are open.
    pub fn open_directories(&self) -> usize {
        self.dirs.len()
    }

    /// The directories that are known.
    pub fn directories(&self) -> Vec<NodeId> {
        self.nodes.directories()
    }

    fn fd(&self, node: NodeId) -> Result<Arc<Descriptor>> {
        self.nodes.fd(&self.nodes.node(node)?)
    }
}
