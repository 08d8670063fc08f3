//! An inode that the kernel has looked up, and what holds it.
//!
//! On the device of the source, a node id is the inode number of the backing file. Inodes of other devices get numbers with the
//! highest bit set. An inode is referenced by its kernel file handle, which needs only memory. Without handles (on some file
//! systems, on other mounts, without CAP_DAC_READ_SEARCH) it is referenced by an `O_PATH` descriptor.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use namegate_sys::handle::KernelHandle;
use namegate_sys::stat::at_hand;
use nix::sys::stat::{FileStat, SFlag, fstat};
use parking_lot::Mutex;

use super::cached_version::CachedVersion;
use super::descriptor::{Descriptor, NodeDescriptors, Stay};
use super::listed_entries::ListedEntries;
use super::spares::CachedFd;

/// Number of a node in FUSE requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The source itself (`FUSE_ROOT_ID`, linux/fuse.h).
    pub const ROOT: Self = Self(1);
    /// No node id has both of these bits, so that a user can mark numbers.
    pub const MARK: u64 = 0b11 << 61;
}

/// Identifies an inode as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) dev: u64,
    pub(super) ino: u64,
}

impl FileId {
    pub(super) fn from_stat(stat: &FileStat) -> Self {
        Self { dev: stat.st_dev, ino: stat.st_ino }
    }
}

#[derive(Debug)]
pub(super) enum InodeRef {
    /// A kernel file handle.
    Handle(KernelHandle),
    /// A descriptor, stored in the descriptors of the node. The number distinguishes this inode from earlier ones with the same
    /// inode number.
    Fd(u32),
}

impl InodeRef {
    fn is_handle(&self, other: &KernelHandle) -> bool {
        matches!(self, Self::Handle(handle) if handle == other)
    }
}

/// What is known of the writers of a regular file.
#[derive(Debug, Default)]
pub(super) struct WriterState(pub(super) AtomicU8);

impl WriterState {
    /// Nobody has asked for its attributes.
    pub(super) const NEW: u8 = 0;
    /// Somebody has. A file whose attributes are asked for once is not worth a look.
    pub(super) const ASKED: u8 = 1;
    /// Nobody had it open for writing, and nobody has opened it since.
    pub(super) const QUIET: u8 = 2;
}

/// An inode that the kernel has looked up and not yet forgotten.
#[derive(Debug)]
pub(super) struct TrackedNode {
    pub(super) id: NodeId,
    pub(super) place: FileId,
    /// The file type, `S_IFMT` of the mode.
    pub(super) kind: SFlag,
    pub(super) hold: InodeRef,
    /// Whether it had set-id bits that can be lost when its mode was last read.
    pub(super) has_set_id: AtomicBool,
    /// Whether a client has opened it for reading and writing, and so may have mapped it, since none had it open.
    pub(super) may_be_mapped: AtomicBool,
    pub(super) writers: WriterState,
    /// Its mount, if that is not the mount of the source.
    pub(super) mount: Option<u64>,
    pub(super) opened: Mutex<NodeDescriptors>,
}

impl TrackedNode {
    /// Whether this had set-id bits that can be lost when its mode was last read.
    pub(super) fn has_set_id(&self) -> bool {
        self.has_set_id.load(Ordering::Relaxed)
    }

    /// Records a mode that was just read.
    pub(super) fn note_mode(&self, mode: u32) {
        self.has_set_id.store(has_set_id(mode), Ordering::Relaxed);
    }

    /// The version of which the kernel has a cache: of a directory when it was last listed, of a file when it was last opened and
    /// read.
    pub(super) fn cached(&self) -> Option<CachedVersion> {
        self.cached_listing().map(|(version, _)| version)
    }

    pub(super) fn note_cached(&self, version: CachedVersion) {
        self.note_cached_listing(version, ListedEntries::default());
    }

    /// The version of a directory when it was last listed, and what the kernel was given then.
    pub(super) fn cached_listing(&self) -> Option<(CachedVersion, ListedEntries)> {
        self.opened.lock().cached.as_deref().copied()
    }

    pub(super) fn note_cached_listing(&self, version: CachedVersion, given: ListedEntries) {
        self.opened.lock().cached = Some(Box::new((version, given)));
    }

    /// Whether these attributes belong to the same device and inode number.
    pub(super) fn is(&self, stat: &FileStat) -> bool {
        self.place == FileId::from_stat(stat)
    }

    /// Whether this node is the file of type `kind` that a lookup found.
    pub(super) fn is_held(&self, found: &FoundInode, kind: SFlag) -> bool {
        match (&self.hold, found) {
            (InodeRef::Handle(_), FoundInode::Handle(handle)) => self.hold.is_handle(handle),
            (InodeRef::Handle(_), FoundInode::Fd(_)) => false,
            // A local file system does not reuse the number of an inode that is held open. A file server (SMB) does not know which
            // files are held here and may give the number of a removed file to a new one. A removed file has no name, so no
            // lookup can find it.
            (InodeRef::Fd(_), _) => {
                let has_name = |fd: &Arc<Descriptor>| at_hand(&**fd).is_ok_and(|stat| stat.st_nlink > 0);
                self.kind == kind && self.opened.lock().kept().is_some_and(has_name)
            }
        }
    }

    /// Replaces the descriptor that references this node by one that was opened by another name, or again by the same name.
    ///
    /// Some file systems (ntfs-3g and others in user space, SMB) open files by the name under which the kernel found them first. After
    /// that name is removed, a descriptor that was opened by it is of no use, although the file has other names.
    pub(super) fn hold_by(&self, found: FoundInode) -> Replaced {
        match (&self.hold, found) {
            (InodeRef::Fd(_), FoundInode::Fd(fd)) => {
                let mut opened = self.opened.lock();
                let before = opened.take();
                opened.keep(Descriptor::new(fd));
                before.map_or(Replaced::Nothing, Replaced::Descriptor)
            }
            _ => Replaced::Nothing,
        }
    }

    /// Whether closing its descriptors may take long: closing the last descriptor of a removed file frees its blocks, and another
    /// mount may not answer.
    pub(super) fn takes_long_to_close(&self) -> bool {
        self.mount.is_some() || {
            let kept = self.opened.lock().kept().cloned();
            let frees = |fd: &Descriptor| fstat(fd).is_ok_and(|stat| stat.st_nlink == 0 && is_large(&stat));
            kept.is_some_and(|fd| frees(&fd))
        }
    }

    /// Distinguishes this file from earlier ones with the same node id.
    pub(super) fn generation(&self) -> u32 {
        match &self.hold {
            // That of the inode is exact, and any later server finds it again.
            InodeRef::Handle(handle) => handle.generation().unwrap_or_else(|| handle.fingerprint()),
            InodeRef::Fd(number) => *number,
        }
    }
}

impl CachedFd for TrackedNode {
    fn give_up(&self) {
        // A locked one is being opened, perhaps by this thread.
        let _closed_behind_the_lock = match self.opened.try_lock() {
            Some(mut opened) if opened.stay == Stay::Spare => opened.take(),
            _ => None,
        };
    }
}

/// Whether removing or truncating the file keeps the file system busy for some time.
pub(super) fn is_large(stat: &FileStat) -> bool {
    /// 64 MiB in units of 512 bytes (stat(2)).
    const BLOCKS: i64 = 64 << 11;
    stat.st_blocks > BLOCKS
}

/// Whether a file of this mode, type included, has set-id bits that a write or a change of owner may take away: chown(2) does in all
/// files but directories.
pub fn has_set_id(mode: u32) -> bool {
    mode & libc::S_IFMT != libc::S_IFDIR && mode & (libc::S_ISUID | libc::S_ISGID) != 0
}

/// How a lookup found an inode.
pub(super) enum FoundInode {
    Handle(KernelHandle),
    Fd(OwnedFd),
}

/// What a lookup replaced; dropping it may close the last descriptor of a file.
#[expect(dead_code, reason = "the contents are only dropped")]
pub(super) enum Replaced {
    Nothing,
    Node(Arc<TrackedNode>),
    Descriptor(Arc<Descriptor>),
}
