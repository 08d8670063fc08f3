//! The inodes that the kernel has looked up, by node id, and how often. Descriptors opened from their handles are kept in a bounded
//! queue for later requests (`descriptors`).

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use namegate_sys::handle::{self, KernelHandle, MountId};
use namegate_sys::open::{again, path_of};
use namegate_sys::stat::{at_hand, mount_of};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use nix::sys::statfs::{FUSE_SUPER_MAGIC, fstatfs};
use parking_lot::Mutex;

use super::budget::Budget;
use super::descriptor::{Descriptor, NodeDescriptors};
use super::foreign_ids::ForeignIds;
use super::held::HeldNodes;
use super::inode_numbers::InodeNumbers;
use super::journal::TreeJournal;
use super::node::{
    FileId, FoundInode, InodeRef, NodeId, Replaced, TrackedNode, WriterState, has_set_id, is_large,
};
use super::spares::Spares;
use super::{HandleSeal, LookupEntry, Passthrough, PassthroughSettings, Result, UsedName};

/// A node whose lookup count reached zero, or nothing if lookups are left. Dropping it closes the descriptors of the node.
#[derive(Debug)]
#[must_use]
pub struct Forgotten(Option<Arc<TrackedNode>>);

impl Forgotten {
    /// Whether the node was removed from the lookup table.
    pub fn is_gone(&self) -> bool {
        self.0.is_some()
    }

    /// Whether dropping this may take long.
    pub fn takes_long(&self) -> bool {
        self.0.as_ref().is_some_and(|node| node.takes_long_to_close())
    }
}

#[derive(Debug)]
pub(super) struct LookupCount {
    pub(super) node: Arc<TrackedNode>,
    pub(super) lookups: u64,
}

#[derive(Debug, Default)]
pub(super) struct LookupTable {
    pub(super) nodes: HashMap<u64, LookupCount>,
    pub(super) foreign: HashMap<FileId, u64>,
    pub(super) foreign_made: u64,
}

#[derive(Debug)]
pub(super) struct NodeTable {
    root: Arc<Descriptor>,
    pub(super) root_place: FileId,
    pub(super) foreign_ids: ForeignIds,
    /// Id of the mount of the source, if the kernel reports it.
    root_mount: Option<u64>,
    /// The mount for opening handles, if handles can be opened.
    pub(super) mount: Option<(OwnedFd, MountId)>,
    /// How files are found by their inode numbers, if they can be.
    pub(super) numbers: Option<InodeNumbers>,
    /// What makes the handles of all files lasting, if they are to be.
    pub(super) export: Option<HandleSeal>,
    pub(super) known: Mutex<LookupTable>,
    pub(super) budget: Arc<Budget>,
    pub(super) spares: Spares,
    pub(super) held: HeldNodes,
    pub(super) journal: &'static dyn TreeJournal,
    /// Whether the journal records anything.
    pub(super) is_recording: bool,
}

fn kind_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

impl NodeTable {
    pub(super) fn new(root: OwnedFd, settings: PassthroughSettings) -> Result<Self> {
        let PassthroughSettings { cached_fds: spares, journal, export } = settings;
        let stat = fstat(&root)?;
        if kind_of(&stat) != SFlag::S_IFDIR {
            return Err(Errno::ENOTDIR);
        }
        // Calls that accept no O_PATH descriptor use /proc. If it is missing, fail at the start.
        nix::sys::stat::stat(path_of(&root).as_str())?;
        let mount = mount_for_handles(root.as_fd()).ok().filter(|(_, _, handle)| {
            journal.longest_handle().is_none_or(|most| handle.parts().1.len() <= most)
        });
        let (mount, numbers) = match mount {
            Some((mount, id, handle)) => (Some((mount, id)), InodeNumbers::new(&root, &stat, handle)),
            None => (None, None),
        };
        journal.set_root(root.as_raw_fd());
        let foreign_ids = ForeignIds::of_source(&root)?;
        let root = Descriptor::new(root);
        let place = FileId::from_stat(&stat);
        let node = TrackedNode {
            id: NodeId::ROOT,
            place,
            kind: SFlag::S_IFDIR,
            hold: InodeRef::Fd(0),
            has_set_id: AtomicBool::new(false),
            may_be_mapped: AtomicBool::new(false),
            writers: WriterState::default(),
            mount: None,
            opened: Mutex::new(NodeDescriptors::held(root.clone(), None)),
        };
        let mut known = LookupTable::default();
        known.nodes.insert(NodeId::ROOT.0, LookupCount { node: Arc::new(node), lookups: 1 });
        let budget = Budget::new();
        Ok(Self {
            foreign_ids,
            root_mount: mount_of(&root),
            root,
            root_place: place,
            mount,
            numbers,
            export,
            known: Mutex::new(known),
            spares: Spares::new(spares, budget.clone()),
            budget,
            held: HeldNodes::for_server(journal.server()),
            journal,
            is_recording: journal.longest_handle().is_some(),
        })
    }

    pub(super) fn has_handles(&self) -> bool {
        self.mount.is_some()
    }

    /// Whether a node is on the device of the source.
    pub(super) fn is_own(&self, id: NodeId) -> bool {
        !self.foreign_ids.has(id)
    }

    /// The mount of a node, if that is not the mount of the source.
    pub(super) fn mount(&self, id: NodeId) -> Option<u64> {
        if self.is_own(id) { None } else { self.node(id).ok()?.mount }
    }

    pub(super) fn len(&self) -> usize {
        self.known.lock().nodes.len()
    }

    pub(super) fn directories(&self) -> Vec<NodeId> {
        let known = self.known.lock();
        let all = known.nodes.values().map(|counted| &counted.node);
        all.filter(|node| node.kind == SFlag::S_IFDIR).map(|node| node.id).collect()
    }

    pub(super) fn node(&self, id: NodeId) -> Result<Arc<TrackedNode>> {
        self.known.lock().nodes.get(&id.0).map(|counted| counted.node.clone()).ok_or(Errno::ESTALE)
    }

    /// The node of a file with these attributes, if the kernel has looked it up.
    pub(super) fn known(&self, stat: &FileStat) -> Option<Arc<TrackedNode>> {
        let place = FileId::from_stat(stat);
        let known = self.known.lock();
        let id = self.id_of(place, &known)?;
        known.nodes.get(&id).map(|counted| counted.node.clone())
    }

    /// The node id of a file with these attributes, which may be the source itself.
    pub(super) fn number(&self, stat: &FileStat) -> Option<NodeId> {
        match FileId::from_stat(stat) == self.root_place {
            true => Some(NodeId::ROOT),
            false => self.known(stat).map(|node| node.id),
        }
    }

    /// The node id of a file, unless one has to be assigned first.
    fn id_of(&self, place: FileId, known: &LookupTable) -> Option<u64> {
        if self.is_own_place(place) { Some(place.ino) } else { known.foreign.get(&place).copied() }
    }

    /// Whether the inode number of a file is its node id.
    fn is_own_place(&self, place: FileId) -> bool {
        place.dev == self.root_place.dev && place.ino > NodeId::ROOT.0 && self.is_own(NodeId(place.ino))
    }

    /// Counts a lookup of `name` in `dir` by two calls with its name: one for the handle, one for the attributes. `None` if they
    /// are not sufficient. Opening a descriptor would cost more than both calls.
    ///
    /// Neither call follows a symbolic link, and the first call reports the mount. If the name is given to another file between the
    /// two calls, handle and attributes have different inode numbers. If that file has the same inode number, the old file is gone:
    /// the next request for it fails with ESTALE, and the kernel repeats the lookup.
    pub(super) fn count_named(&self, dir: impl AsFd, name: &OsStr) -> Result<Option<LookupEntry>> {
        let Some((_, mount)) = &self.mount else { return Ok(None) };
        let handle = match handle::at(&dir, name) {
            Ok((handle, its_mount)) if its_mount == *mount => handle,
            Err(Errno::ENOENT) => return Err(Errno::ENOENT),
            Ok(_) | Err(_) => return Ok(None),
        };
        let stat = fstatat(&dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let is_certain = stat.st_dev == self.root_place.dev && handle.is_certainly_of(stat.st_ino);
        if is_certain { self.enter(stat, FoundInode::Handle(handle), None).map(Some) } else { Ok(None) }
    }

    /// Counts a lookup of the file that the `O_PATH` descriptor `fd` refers to.
    ///
    /// # Errors
    /// ELOOP for the source itself, which a bind mount can place inside itself: the kernel knows it as the root only.
    pub(super) fn count(&self, fd: OwnedFd) -> Result<LookupEntry> {
        let stat = fstat(&fd)?;
        match self.handle_of(&fd) {
            Some(handle) => self.enter(stat, FoundInode::Handle(handle), None),
            None => {
                let mount = self.other_mount(&stat, &fd);
                self.enter(stat, FoundInode::Fd(fd), mount)
            }
        }
    }

    /// Counts a lookup of a file on another mount without a request to its file system: the attributes may be outdated.
    pub(super) fn count_unasked(&self, fd: OwnedFd) -> Result<LookupEntry> {
        let stat = at_hand(&fd)?;
        let mount = self.other_mount(&stat, &fd);
        Ok(LookupEntry { is_current: false, ..self.enter(stat, FoundInode::Fd(fd), mount)? })
    }

    /// The mount of a file, if it is not the mount of the source. Device numbers are not sufficient: subvolumes and layers have
    /// their own.
    fn other_mount(&self, stat: &FileStat, fd: &OwnedFd) -> Option<u64> {
        if stat.st_dev == self.root_place.dev {
            return None;
        }
        mount_of(fd).filter(|&mount| Some(mount) != self.root_mount)
    }

    /// Counts a lookup of an open file. The descriptor itself is not kept: that would keep the file open.
    pub(super) fn count_opened(&self, file: &OwnedFd) -> Result<LookupEntry> {
        match self.handle_of(file) {
            Some(handle) => self.enter(fstat(file)?, FoundInode::Handle(handle), None),
            None => self.count(self.with_room(|| again(file, OFlag::O_PATH))?),
        }
    }

    /// The handle of a file, if it can be opened on the mount for handles.
    fn handle_of(&self, fd: &OwnedFd) -> Option<KernelHandle> {
        let (_, mount) = self.mount.as_ref()?;
        handle::from_fd(fd).ok().filter(|(_, its_mount)| its_mount == mount).map(|(handle, _)| handle)
    }

    pub(super) fn enter(
        &self,
        mut stat: FileStat,
        by: FoundInode,
        mount: Option<u64>,
    ) -> Result<LookupEntry> {
        let place = FileId::from_stat(&stat);
        if place == self.root_place {
            return Err(Errno::ELOOP);
        }
        // Dropped after the lock is released, because closing may take long.
        let mut replaced = Replaced::Nothing;
        let (id, generation) = {
            let mut known = self.known.lock();
            let id = match self.id_of(place, &known) {
                Some(id) => id,
                None => {
                    known.foreign_made += 1;
                    let id = self.foreign_ids.id(known.foreign_made);
                    known.foreign.insert(place, id);
                    id
                }
            };
            let kind = kind_of(&stat);
            let new = |by| -> Result<Arc<TrackedNode>> {
                let (hold, opened) = match by {
                    FoundInode::Handle(handle) => {
                        let record = self.record(id, place, kind, mount, Ok(&handle))?;
                        (InodeRef::Handle(handle), NodeDescriptors::recorded(record))
                    }
                    FoundInode::Fd(fd) => {
                        let number = self.held.add(NodeId(id));
                        let record = self.record(id, place, kind, mount, Err(number))?;
                        (InodeRef::Fd(number), NodeDescriptors::held(Descriptor::new(fd), record))
                    }
                };
                let has_set_id = AtomicBool::new(has_set_id(stat.st_mode));
                let opened = Mutex::new(opened);
                Ok(Arc::new(TrackedNode {
                    id: NodeId(id),
                    place,
                    kind,
                    hold,
                    has_set_id,
                    may_be_mapped: AtomicBool::default(),
                    writers: WriterState::default(),
                    mount,
                    opened,
                }))
            };
            let counted = match known.nodes.entry(id) {
                MapEntry::Vacant(vacant) => vacant.insert(LookupCount { node: new(by)?, lookups: 0 }),
                MapEntry::Occupied(occupied) => {
                    let counted = occupied.into_mut();
                    // The inode number was given to another file. The kernel distinguishes both by their generation, and forgets the
                    // lookups of both together.
                    if !counted.node.is_held(&by, kind) {
                        let before = std::mem::replace(&mut counted.node, new(by)?);
                        self.record_lookups(&before, 0);
                        self.held.remove(&before);
                        replaced = Replaced::Node(before);
                    } else {
                        counted.node.note_mode(stat.st_mode);
                        replaced = counted.node.hold_by(by);
                    }
                    counted
                }
            };
            counted.lookups += 1;
            self.record_lookups(&counted.node, counted.lookups);
            (counted.node.id, self.shown_generation(&counted.node))
        };
        drop(replaced);
        self.journal.note_lookup(id.0);
        stat.st_ino = id.0;
        Ok(LookupEntry { node: id, generation, stat, is_current: true, name: UsedName::Own })
    }

    /// Subtracts `lookups` from the lookup count. The caller drops the node after the lock is released, because that may close its
    /// last descriptor.
    fn forget(&self, id: NodeId, lookups: u64) -> Forgotten {
        let mut known = self.known.lock();
        let Some(counted) = known.nodes.get_mut(&id.0) else { return Forgotten(None) };
        self.journal.note_forget(id.0);
        counted.lookups = counted.lookups.saturating_sub(lookups);
        self.record_lookups(&counted.node, counted.lookups);
        if counted.lookups > 0 || id == NodeId::ROOT {
            return Forgotten(None);
        }
        let forgotten = known.nodes.remove(&id.0);
        if let Some(LookupCount { node, .. }) = &forgotten {
            if known.foreign.get(&node.place) == Some(&id.0) {
                known.foreign.remove(&node.place);
            }
            self.held.remove(node);
        }
        Forgotten(forgotten.map(|counted| counted.node))
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }
}

/// A descriptor on the mount of the root, if files can be opened by handle there, and the handle of the root.
pub(super) fn mount_for_handles(root: BorrowedFd<'_>) -> Result<(OwnedFd, MountId, KernelHandle)> {
    // By default, a FUSE server forgets the inode of a handle as soon as no process holds it (fuse_get_dentry).
    if fstatfs(root)?.filesystem_type() == FUSE_SUPER_MAGIC {
        return Err(Errno::EOPNOTSUPP);
    }
    let (handle, id) = handle::from_fd(root)?;
    let mount = again(&root, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    handle::open(&mount, &handle, OFlag::O_PATH)?;
    Ok((mount, id, handle))
}

impl Passthrough {
    /// Subtracts `lookups` from the lookup count of `node`. Returns whether the node was removed.
    pub fn forget(&self, node: NodeId, lookups: u64) -> bool {
        self.take_back(node, lookups).is_gone()
    }

    /// As [`Passthrough::forget`], for callers that cannot wait until the descriptors of the node are closed.
    pub fn take_back(&self, node: NodeId, lookups: u64) -> Forgotten {
        self.nodes.forget(node, lookups)
    }

    /// The mount of `node`, if that is not the mount of the source. It may not answer.
    pub fn mount(&self, node: NodeId) -> Option<u64> {
        self.nodes.mount(node)
    }

    /// Whether truncating or freeing the content of `node` takes some time.
    pub fn is_large(&self, node: NodeId) -> bool {
        self.fd(node).and_then(|fd| fstat(&*fd)).is_ok_and(|stat| is_large(&stat))
    }
}
