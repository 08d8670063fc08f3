//! The inodes that the kernel knows of, and how they are held.
//!
//! A node id is the inode number of the backing file wherever that is unique: on the source's own device. Inodes of other
//! devices below it get numbers with the highest bit set. An inode is held by its kernel file handle, which costs memory
//! only; where there are no handles to be had (some file systems, other mounts, servers without CAP_DAC_READ_SEARCH) by an
//! `O_PATH` descriptor. Descriptors made from handles are kept in a bounded queue for the next request (`descriptors`).

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use nix::sys::statfs::{FUSE_SUPER_MAGIC, fstatfs};
use nix::sys::time::TimeSpec;
use parking_lot::Mutex;

use super::budget::Budget;
use super::descriptors::{Descriptor, Opened, Spares};
use super::held::Held;
use super::{Entry, Passthrough, Result};
use crate::sys::handle::{self, Handle, MountId};
use crate::sys::open::{again, path_of};
use crate::sys::stat::{at_hand, mount_of};

/// The number of a node in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The source itself (`FUSE_ROOT_ID`, linux/fuse.h).
    pub const ROOT: Self = Self(1);
}

/// Set in the numbers of inodes whose own number would not be unique. No file system in use counts that far.
const FOREIGN: u64 = 1 << 63;

/// What tells inodes apart as long as they exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    dev: u64,
    ino: u64,
}

impl Place {
    fn of(stat: &FileStat) -> Self {
        Self { dev: stat.st_dev, ino: stat.st_ino }
    }
}

#[derive(Debug)]
pub(super) enum Hold {
    /// By its kernel file handle.
    Handle(Handle),
    /// By a descriptor, among those of the node. The number tells it from others that had its inode number before.
    Fd(u32),
}

impl Hold {
    fn is_handle(&self, other: &Handle) -> bool {
        matches!(self, Self::Handle(handle) if handle == other)
    }
}

/// An inode that the kernel knows of.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: NodeId,
    place: Place,
    /// The file type, `S_IFMT` of the mode.
    pub(super) kind: SFlag,
    pub(super) hold: Hold,
    /// Whether it is a regular file that had set-id bits when its mode was seen last.
    has_set_id: AtomicBool,
    /// The mount on which it lies, if that is not the source's own.
    mount: Option<u64>,
    pub(super) opened: Mutex<Opened>,
}

impl Node {
    /// Whether this is a regular file that had set-id bits when its mode was last read.
    pub(super) fn has_set_id(&self) -> bool {
        self.has_set_id.load(Ordering::Relaxed)
    }

    /// Its mode has been read.
    pub(super) fn note_mode(&self, mode: u32) {
        self.has_set_id.store(has_set_id(mode), Ordering::Relaxed);
    }

    /// When the directory had been changed last when it was listed last, and in which view.
    pub(super) fn listed(&self) -> Option<(TimeSpec, u64)> {
        self.opened.lock().listed.as_deref().copied()
    }

    pub(super) fn note_listing(&self, changed: (TimeSpec, u64)) {
        self.opened.lock().listed = Some(Box::new(changed));
    }

    /// Whether the file with these attributes has its place.
    pub(super) fn is(&self, stat: &FileStat) -> bool {
        self.place == Place::of(stat)
    }

    /// Whether this node is the file that was found by a name, of type `kind`, and within reach.
    fn is_held(&self, found: &By, kind: SFlag) -> bool {
        match (&self.hold, found) {
            (Hold::Handle(_), By::Handle(handle)) => self.hold.is_handle(handle),
            (Hold::Handle(_), By::Fd(_)) => false,
            // An inode that is held exists, so that nothing else has its number on a file system of this machine. A file server
            // (SMB) does not know what is held here, and gives the number of a removed file to the next one. A removed file
            // has no name by which it could be found.
            (Hold::Fd(_), _) => {
                let has_name = |fd: &Arc<Descriptor>| at_hand(&**fd).is_ok_and(|stat| stat.st_nlink > 0);
                self.kind == kind && self.opened.lock().kept().is_some_and(has_name)
            }
        }
    }

    /// Whether giving it up may take long: the last descriptor of a removed file frees its blocks, and on another mount
    /// anything can happen.
    fn takes_long_to_close(&self) -> bool {
        self.mount.is_some() || {
            let kept = self.opened.lock().kept().cloned();
            let frees = |fd: &Descriptor| fstat(fd).is_ok_and(|stat| stat.st_nlink == 0 && is_large(&stat));
            kept.is_some_and(|fd| frees(&fd))
        }
    }

    fn generation(&self) -> u32 {
        match &self.hold {
            Hold::Handle(handle) => handle.fingerprint(),
            Hold::Fd(number) => *number,
        }
    }
}

/// Whether removing the file, or cutting it off, keeps a file system busy for some time.
pub(super) fn is_large(stat: &FileStat) -> bool {
    /// Of 512 bytes (stat(2)): 64 MiB.
    const BLOCKS: i64 = 64 << 11;
    stat.st_blocks > BLOCKS
}

/// What is left of a node whose lookups have been taken back: nothing, while others are left. Its descriptors are closed
/// when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Forgotten(Option<Arc<Node>>);

impl Forgotten {
    /// Whether the node is unknown now.
    pub fn is_gone(&self) -> bool {
        self.0.is_some()
    }

    /// Whether dropping this may take long.
    pub fn takes_long(&self) -> bool {
        self.0.as_ref().is_some_and(|node| node.takes_long_to_close())
    }
}

/// How far a lookup goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No further than the source's own mount, as far as that can be told beforehand: [`ELSEWHERE`] is the answer for a name
    /// that leads to another one. Whether that file system answers at all is not known.
    Near,
    /// To other mounts too.
    Any,
}

/// What a lookup that stays [near](Reach::Near) says of a name that leads to another mount. No file system says that of a
/// name (it is an error of mount(2) in other systems).
pub const ELSEWHERE: Errno = Errno::EREMOTE;

#[derive(Debug)]
struct Counted {
    node: Arc<Node>,
    lookups: u64,
}

#[derive(Debug, Default)]
struct Known {
    nodes: HashMap<u64, Counted>,
    foreign: HashMap<Place, u64>,
    foreign_made: u64,
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Table {
    root: Arc<Descriptor>,
    root_place: Place,
    /// The number of the mount that the source is on, where the kernel tells.
    root_mount: Option<u64>,
    /// The mount on which handles are opened, if they can be opened at all.
    pub(super) mount: Option<(OwnedFd, MountId)>,
    known: Mutex<Known>,
    pub(super) budget: Arc<Budget>,
    pub(super) spares: Spares,
    pub(super) held: Held,
}

/// Whether a file of this mode, type included, is a regular one with set-id bits, which a write may take away.
pub fn has_set_id(mode: u32) -> bool {
    mode & libc::S_IFMT == libc::S_IFREG && mode & (libc::S_ISUID | libc::S_ISGID) != 0
}

fn kind_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

impl Table {
    pub(super) fn new(root: OwnedFd, spares: usize) -> Result<Self> {
        let stat = fstat(&root)?;
        if kind_of(&stat) != SFlag::S_IFDIR {
            return Err(Errno::ENOTDIR);
        }
        // All calls that take no O_PATH descriptor go through /proc: better to miss it now than in the middle.
        nix::sys::stat::stat(path_of(&root).as_str())?;
        let mount = mount_for_handles(&root).ok();
        let root = Descriptor::new(root);
        let place = Place::of(&stat);
        let node = Node {
            id: NodeId::ROOT,
            place,
            kind: SFlag::S_IFDIR,
            hold: Hold::Fd(0),
            has_set_id: AtomicBool::new(false),
            mount: None,
            opened: Mutex::new(Opened::held(root.clone())),
        };
        let mut known = Known::default();
        known.nodes.insert(NodeId::ROOT.0, Counted { node: Arc::new(node), lookups: 1 });
        let budget = Budget::new();
        Ok(Self {
            root_mount: mount_of(&root),
            root,
            root_place: place,
            mount,
            known: Mutex::new(known),
            spares: Spares::new(spares, budget.clone()),
            budget,
            held: Held::default(),
        })
    }

    pub(super) fn has_handles(&self) -> bool {
        self.mount.is_some()
    }

    /// Whether a node lies on the source's own file system.
    pub(super) fn is_own(&self, id: NodeId) -> bool {
        id.0 & FOREIGN == 0
    }

    /// The mount on which a node lies, if that is not the source's own.
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

    pub(super) fn node(&self, id: NodeId) -> Result<Arc<Node>> {
        self.known.lock().nodes.get(&id.0).map(|counted| counted.node.clone()).ok_or(Errno::ESTALE)
    }

    /// The known node of a file with these attributes.
    pub(super) fn known(&self, stat: &FileStat) -> Option<Arc<Node>> {
        let place = Place::of(stat);
        let known = self.known.lock();
        let id = self.id_of(place, &known)?;
        known.nodes.get(&id).map(|counted| counted.node.clone())
    }

    /// The number of the known node of a file with these attributes, the source itself among them.
    pub(super) fn number(&self, stat: &FileStat) -> Option<NodeId> {
        match Place::of(stat) == self.root_place {
            true => Some(NodeId::ROOT),
            false => self.known(stat).map(|node| node.id),
        }
    }

    /// The number that a place has, unless it has to be given one.
    fn id_of(&self, place: Place, known: &Known) -> Option<u64> {
        let is_own =
            place.dev == self.root_place.dev && place.ino > NodeId::ROOT.0 && place.ino & FOREIGN == 0;
        if is_own { Some(place.ino) } else { known.foreign.get(&place).copied() }
    }

    /// Counts a lookup of `name` in `dir`, if two calls by its name tell all that is to be known: what it is held by, and
    /// its attributes. A descriptor of its own would cost more than both.
    ///
    /// Neither call follows a symbolic link, and one component leads nowhere but across a mount, which the first call tells.
    /// The name may change hands between the two: then the handle is of another number. Should the number have changed hands
    /// too, the attributes of the new file are told for the old one, which is gone: the next request for it is ESTALE, and the
    /// kernel looks again.
    ///
    /// # Errors
    /// [`ELSEWHERE`] for a name that leads further than `reach`.
    pub(super) fn count_named(&self, dir: impl AsFd, name: &OsStr, reach: Reach) -> Result<Option<Entry>> {
        let Some((_, mount)) = &self.mount else { return Ok(None) };
        let handle = match handle::at(&dir, name) {
            Ok((handle, its_mount)) if its_mount == *mount => handle,
            Err(Errno::ENOENT) => return Err(Errno::ENOENT),
            Ok(_) if reach == Reach::Near => return Err(ELSEWHERE),
            Ok(_) | Err(_) => return Ok(None),
        };
        let stat = fstatat(&dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let is_certain = stat.st_dev == self.root_place.dev && handle.is_certainly_of(stat.st_ino);
        if is_certain { self.enter(stat, By::Handle(handle), None).map(Some) } else { Ok(None) }
    }

    /// Counts a lookup of the file that `fd`, an `O_PATH` descriptor, holds.
    ///
    /// # Errors
    /// ELOOP for the source itself, which a bind mount can bring into itself: the kernel knows it as the root alone.
    pub(super) fn count(&self, fd: OwnedFd) -> Result<Entry> {
        let stat = fstat(&fd)?;
        match self.handle_of(&fd) {
            Some(handle) => self.enter(stat, By::Handle(handle), None),
            None => {
                let mount = self.other_mount(&stat, &fd);
                self.enter(stat, By::Fd(fd), mount)
            }
        }
    }

    /// The same for a file on another mount, whose file system is not asked for anything: the attributes may be old.
    pub(super) fn count_unasked(&self, fd: OwnedFd) -> Result<Entry> {
        let stat = at_hand(&fd)?;
        let mount = self.other_mount(&stat, &fd);
        self.enter(stat, By::Fd(fd), mount)
    }

    /// The mount of a file, if it is not the source's own. Devices alone do not tell: subvolumes and layers have their own.
    fn other_mount(&self, stat: &FileStat, fd: &OwnedFd) -> Option<u64> {
        if stat.st_dev == self.root_place.dev {
            return None;
        }
        mount_of(fd).filter(|&mount| Some(mount) != self.root_mount)
    }

    /// Whether a file is on another mount than the source. Its file system is not asked for anything.
    pub(super) fn is_elsewhere(&self, fd: &OwnedFd) -> bool {
        mount_of(fd).is_some_and(|mount| Some(mount) != self.root_mount)
    }

    /// The same for an open file. It is not kept itself: that would keep the file open for whoever asks.
    pub(super) fn count_opened(&self, file: &OwnedFd) -> Result<Entry> {
        match self.handle_of(file) {
            Some(handle) => self.enter(fstat(file)?, By::Handle(handle), None),
            None => self.count(self.with_room(|| again(file, OFlag::O_PATH))?),
        }
    }

    /// The handle by which a file can be opened here.
    fn handle_of(&self, fd: &OwnedFd) -> Option<Handle> {
        let (_, mount) = self.mount.as_ref()?;
        handle::of(fd).ok().filter(|(_, its_mount)| its_mount == mount).map(|(handle, _)| handle)
    }

    pub(super) fn enter(&self, mut stat: FileStat, by: By, mount: Option<u64>) -> Result<Entry> {
        let place = Place::of(&stat);
        if place == self.root_place {
            return Err(Errno::ELOOP);
        }
        let (id, generation) = {
            let mut known = self.known.lock();
            let id = match self.id_of(place, &known) {
                Some(id) => id,
                None => {
                    known.foreign_made += 1;
                    let id = FOREIGN | known.foreign_made;
                    known.foreign.insert(place, id);
                    id
                }
            };
            let kind = kind_of(&stat);
            let new = |by| {
                let (hold, opened) = match by {
                    By::Handle(handle) => (Hold::Handle(handle), Opened::default()),
                    By::Fd(fd) => (Hold::Fd(self.held.add(NodeId(id))), Opened::held(Descriptor::new(fd))),
                };
                let has_set_id = AtomicBool::new(has_set_id(stat.st_mode));
                let opened = Mutex::new(opened);
                Arc::new(Node { id: NodeId(id), place, kind, hold, has_set_id, mount, opened })
            };
            let counted = match known.nodes.entry(id) {
                MapEntry::Vacant(vacant) => vacant.insert(Counted { node: new(by), lookups: 0 }),
                MapEntry::Occupied(occupied) => {
                    let counted = occupied.into_mut();
                    // Its number has been given to another file since. The kernel tells the two by their generation, and
                    // what it takes back of both is counted together.
                    if !counted.node.is_held(&by, kind) {
                        let before = std::mem::replace(&mut counted.node, new(by));
                        self.held.remove(&before);
                    } else {
                        counted.node.note_mode(stat.st_mode);
                    }
                    counted
                }
            };
            counted.lookups += 1;
            (counted.node.id, counted.node.generation())
        };
        stat.st_ino = id.0;
        Ok(Entry { node: id, generation, stat })
    }

    /// Takes back `lookups`. What is left of the node is dropped behind the lock: its last descriptor may go with it.
    fn forget(&self, id: NodeId, lookups: u64) -> Forgotten {
        let mut known = self.known.lock();
        let Some(counted) = known.nodes.get_mut(&id.0) else { return Forgotten(None) };
        counted.lookups = counted.lookups.saturating_sub(lookups);
        if counted.lookups > 0 || id == NodeId::ROOT {
            return Forgotten(None);
        }
        let forgotten = known.nodes.remove(&id.0);
        if let Some(Counted { node, .. }) = &forgotten {
            known.foreign.remove(&node.place);
            self.held.remove(node);
        }
        Forgotten(forgotten.map(|counted| counted.node))
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }
}

/// What a node that is counted can be held by.
pub(super) enum By {
    Handle(Handle),
    Fd(OwnedFd),
}

/// A descriptor on the root's mount, if files can be opened by handle there.
fn mount_for_handles(root: &OwnedFd) -> Result<(OwnedFd, MountId)> {
    // A FUSE server that does not say otherwise forgets what a handle names as soon as nobody holds it (fuse_get_dentry).
    if fstatfs(root)?.filesystem_type() == FUSE_SUPER_MAGIC {
        return Err(Errno::EOPNOTSUPP);
    }
    let (handle, id) = handle::of(root)?;
    let mount = again(root, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    handle::open(&mount, &handle, OFlag::O_PATH)?;
    Ok((mount, id))
}

impl Passthrough {
    /// Takes back `lookups` of the lookups of `node` that were counted, and says whether it is unknown now.
    pub fn forget(&self, node: NodeId, lookups: u64) -> bool {
        self.take_back(node, lookups).is_gone()
    }

    /// The same for whoever cannot wait until what is left of the node is given up.
    pub fn take_back(&self, node: NodeId, lookups: u64) -> Forgotten {
        self.nodes.forget(node, lookups)
    }

    /// The mount on which `node` lies, if that is not the source's own: whether it answers is not known.
    pub fn mount(&self, node: NodeId) -> Option<u64> {
        self.nodes.mount(node)
    }

    /// Whether cutting off or freeing what `node` holds takes some time.
    pub fn is_large(&self, node: NodeId) -> bool {
        self.fd(node).and_then(|fd| fstat(&*fd)).is_ok_and(|stat| is_large(&stat))
    }
}
