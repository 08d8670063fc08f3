//! The backing tree: all file system operations, relative to a directory that is held open.
//!
//! This module knows no wire protocol, no policy and no Unicode: numbers and bytes go in, plain values come out. Every name is
//! an [`Admitted`](namegate_core::gate::Admitted), so no operation can forget the gate. All calls are relative to a descriptor; no path
//! below the source is ever built. FIFOs, sockets and devices are never opened, only held by `O_PATH`. Errors are the errno
//! of the call that failed.
//!
//! Permissions are checked by the kernel before it sends a request (`default_permissions`, fuse(4)). Files are created and blocks
//! are allocated under the ids of the [`Caller`], so quotas, reserved blocks, set-id bits, set-group-id directories, umask and
//! default ACLs work as they do without the mount.

mod attr;
mod budget;
mod cached_version;
mod content;
mod create;
mod credentials;
mod descriptor;
mod descriptors;
mod dir;
mod dir_offset;
mod file;
mod filesystems;
mod foreign_ids;
mod handle;
mod handle_key;
mod held;
mod iflags;
mod inode;
mod inode_numbers;
mod journal;
mod listed_entries;
mod locks;
mod lookup;
mod node;
mod path;
mod quiet;
mod remove;
mod revive;
mod set_id;
mod spares;
mod spelling;
mod successor;
mod surplus;
#[cfg(test)]
mod tests;
mod xattr;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namegate_wire::NoJournal;
use nix::errno::Errno;
use nix::sys::stat::FileStat;
use nix::sys::statfs::{FsType, fstatfs};

pub use attr::Changes;
pub use content::CopyRange;
pub use create::NewEntry;
pub use credentials::Caller;
pub use dir::{DirEntry, OpenDir};
pub use handle::Fh;
pub use handle_key::{HandleKey, HandleSeal};
pub use iflags::OpenNode;
pub use inode::Forgotten;
pub use journal::{BackingRecord, EntryAt, NodeChange, NodeData, OpenData, TreeJournal, XattrOf};
pub use listed_entries::{ListedEntries, Listing};
pub use locks::{LockOwner, LockRange};
pub use node::{NodeId, has_set_id};
pub use set_id::SetId;
pub use spelling::NameEquivalence;
pub use successor::{Recovered, RecoveredBacking, RecoveredFile};

use cached_version::time_of_maps;
use descriptor::Descriptor;
use file::OpenFile;
use handle::HandleMap;
use inode::NodeTable;
use locks::LockTable;
use spelling::Spellings;
use xattr::LabelUse;

/// The result of an operation, or its errno.
pub type Result<T> = std::result::Result<T, Errno>;

/// An entry that was looked up or created. The lookup count of its node was raised by one; [`Passthrough::forget`] lowers it.
#[derive(Clone, Copy, Debug)]
pub struct LookupEntry {
    pub node: NodeId,
    /// Distinguishes files that had the same node id at different times.
    pub generation: u32,
    /// Its attributes, with the node id as inode number.
    pub stat: FileStat,
    /// Whether its file system gave the attributes now. Otherwise they may be outdated.
    pub is_current: bool,
    /// The name that the client has used.
    pub name: UsedName,
}

/// The name that a client has used for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedName {
    /// That under which the entry is shown.
    Own,
    /// Another spelling.
    Other,
    /// Another spelling, for which the kernel gets an alias of the node with this number.
    Alias(u64),
}

/// Settings of a backing tree.
#[derive(Debug)]
pub struct PassthroughSettings {
    /// Maximum number of descriptors kept open for later requests.
    pub cached_fds: usize,
    /// The key that makes the handles of all files lasting, if they are to be.
    pub export: Option<HandleSeal>,
    /// Where nodes and open files are recorded for a successor.
    pub journal: &'static dyn TreeJournal,
}

impl Default for PassthroughSettings {
    fn default() -> Self {
        Self { cached_fds: 0, export: None, journal: &NoJournal }
    }
}

/// A backing tree.
#[derive(Debug)]
pub struct Passthrough {
    nodes: NodeTable,
    files: HandleMap<OpenFile>,
    dirs: HandleMap<OpenDir>,
    locks: LockTable,
    /// Whether the mount may be mounted elsewhere with other owners.
    has_idmap: AtomicBool,
    /// Whether this process may act for other users (root).
    acts_for_others: bool,
    /// Whether close(2) never reports an error on the file system of the source.
    closes_silently: bool,
    /// The file system of the source.
    kind: FsType,
    /// Whether the file system of the source renames removed files while they are open (NFS, AFS).
    renames_removed: bool,
    /// Whether the source is on a network or user-space file system.
    is_remote: bool,
    /// How long a file must not have changed before the kernel may keep its content when it is opened again; `None` for never.
    keeps_content_after: Option<Duration>,
    labels: LabelUse,
    spellings: Spellings,
    /// How many times the names under which entries are shown have changed.
    views: AtomicU64,
}

impl Passthrough {
    /// The tree below the directory `source`. The umask of the process must be 0.
    ///
    /// # Errors
    /// ENOTDIR if `source` is no directory; ENOENT if /proc is not mounted.
    pub fn new(source: OwnedFd, settings: PassthroughSettings) -> Result<Self> {
        let kind = fstatfs(&source)?.filesystem_type();
        let server = settings.journal.server();
        Ok(Self {
            closes_silently: filesystems::closes_silently(kind),
            kind,
            renames_removed: filesystems::renames_removed(kind),
            is_remote: filesystems::is_remote(kind),
            keeps_content_after: time_of_maps(),
            labels: LabelUse::new(&source),
            nodes: NodeTable::new(source, settings)?,
            files: HandleMap::new(server),
            dirs: HandleMap::new(server),
            locks: LockTable::default(),
            has_idmap: AtomicBool::new(false),
            acts_for_others: nix::unistd::geteuid().is_root(),
            spellings: Spellings::default(),
            views: AtomicU64::new(0),
        })
    }

    /// Whether inodes are referenced by kernel file handles, which need no descriptor.
    pub fn holds_by_handle(&self) -> bool {
        self.nodes.has_handles()
    }

    pub fn root(&self) -> &OwnedFd {
        self.nodes.root()
    }

    /// Whether the source is on a network or user-space file system, where every call may wait for a server.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// From now on clients may use the mount with other owners than those in the source (idmapped mounts): their ids and groups, but not those
    /// of new files, are those of the host, and the kernel alone knows who owns a file.
    pub fn allow_idmap(&self) {
        self.has_idmap.store(true, Ordering::Relaxed);
    }

    /// Whether [`Passthrough::allow_idmap`] was called.
    pub fn has_idmap(&self) -> bool {
        self.has_idmap.load(Ordering::Relaxed)
    }

    /// Number of nodes in the lookup table.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Number of open files.
    pub fn open_files(&self) -> usize {
        self.files.len()
    }

    /// Number of open directories.
    pub fn open_directories(&self) -> usize {
        self.dirs.len()
    }

    /// All directories in the lookup table.
    pub fn directories(&self) -> Vec<NodeId> {
        self.nodes.directories()
    }

    fn fd(&self, node: NodeId) -> Result<Arc<Descriptor>> {
        self.nodes.fd(&self.nodes.node(node)?)
    }
}
