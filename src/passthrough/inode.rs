//! The inodes that the kernel knows of, and how they are held.
//!
//! A node id is the inode number of the backing file wherever that is unique: on the source's own device. Inodes of other
//! devices below it get numbers with the highest bit set. An inode is held by its kernel file handle, which costs memory
//! only; where there are no handles to be had (some file systems, other mounts, servers without CAP_DAC_READ_SEARCH) by an
//! `O_PATH` descriptor. Descriptors made from handles are kept in a bounded queue for the next request.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use nix::sys::statfs::{FUSE_SUPER_MAGIC, fstatfs};
use nix::sys::time::TimeSpec;

use super::{Entry, Passthrough, Result};
use crate::sys::handle::{self, Handle, MountId};
use crate::sys::open::{again, path_of};

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
enum Hold {
    Handle(Handle),
    Fd(Arc<OwnedFd>),
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
    hold: Hold,
    opened: Mutex<Opened>,
}

/// Descriptors of a node that is held by its handle.
#[derive(Debug, Default)]
struct Opened {
    /// The last one made, if it still exists.
    last: Weak<OwnedFd>,
    /// The same, kept open for the next request. It goes with the node: a removed file gives its space back when the last
    /// descriptor of it is closed.
    kept: Option<Arc<OwnedFd>>,
    /// Set when a name has been removed: file systems do not find a file without a name by its handle for long.
    for_good: bool,
    /// Of a directory: when it was changed last before it was listed last, and how its entries were seen then.
    listed: Option<(TimeSpec, u64)>,
}

impl Opened {
    fn keep(&mut self, fd: Arc<OwnedFd>) {
        self.last = Arc::downgrade(&fd);
        self.kept = Some(fd);
    }

    fn give_up(&mut self) -> Option<Arc<OwnedFd>> {
        if self.for_good { None } else { self.kept.take() }
    }
}

impl Node {
    /// When the directory had been changed last when it was listed last, and in which view.
    pub(super) fn listed(&self) -> Option<(TimeSpec, u64)> {
        lock(&self.opened).listed
    }

    pub(super) fn note_listing(&self, changed: (TimeSpec, u64)) {
        lock(&self.opened).listed = Some(changed);
    }

    fn generation(&self) -> u32 {
        match &self.hold {
            Hold::Handle(handle) => handle.fingerprint(),
            // A held inode exists, so that nothing else can have its number.
            Hold::Fd(_) => 0,
        }
    }
}

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
    root: Arc<OwnedFd>,
    root_place: Place,
    /// The mount on which handles are opened, if they can be opened at all.
    mount: Option<(OwnedFd, MountId)>,
    known: Mutex<Known>,
    /// Nodes whose descriptors are kept, those that were made first in front.
    recent: Mutex<VecDeque<Weak<Node>>>,
    capacity: usize,
}

/// What is guarded by these locks is whole between any two statements, so that a panic elsewhere spoils nothing.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kind_of(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

impl Table {
    pub(super) fn new(root: OwnedFd, capacity: usize) -> Result<Self> {
        let stat = fstat(&root)?;
        if kind_of(&stat) != SFlag::S_IFDIR {
            return Err(Errno::ENOTDIR);
        }
        // All calls that take no O_PATH descriptor go through /proc: better to miss it now than in the middle.
        nix::sys::stat::stat(path_of(&root).as_str())?;
        let root = Arc::new(root);
        let place = Place::of(&stat);
        let node = Node {
            id: NodeId::ROOT,
            place,
            kind: SFlag::S_IFDIR,
            hold: Hold::Fd(root.clone()),
            opened: Mutex::default(),
        };
        let mut known = Known::default();
        known.nodes.insert(NodeId::ROOT.0, Counted { node: Arc::new(node), lookups: 1 });
        let mount = mount_for_handles(&root).ok();
        Ok(Self {
            root,
            root_place: place,
            mount,
            known: Mutex::new(known),
            recent: Mutex::default(),
            capacity,
        })
    }

    pub(super) fn has_handles(&self) -> bool {
        self.mount.is_some()
    }

    /// Whether a node lies on the source's own file system.
    pub(super) fn is_own(&self, id: NodeId) -> bool {
        id.0 & FOREIGN == 0
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.known).nodes.len()
    }

    pub(super) fn directories(&self) -> Vec<NodeId> {
        let known = lock(&self.known);
        let all = known.nodes.values().map(|counted| &counted.node);
        all.filter(|node| node.kind == SFlag::S_IFDIR).map(|node| node.id).collect()
    }

    pub(super) fn node(&self, id: NodeId) -> Result<Arc<Node>> {
        lock(&self.known).nodes.get(&id.0).map(|counted| counted.node.clone()).ok_or(Errno::ESTALE)
    }

    /// A descriptor of the node; `O_PATH`, but the root's.
    pub(super) fn fd(&self, node: &Arc<Node>) -> Result<Arc<OwnedFd>> {
        let handle = match &node.hold {
            Hold::Fd(fd) => return Ok(fd.clone()),
            Hold::Handle(handle) => handle,
        };
        let mut opened = lock(&node.opened);
        if let Some(fd) = opened.last.upgrade() {
            return Ok(fd);
        }
        let (mount, _) = self.mount.as_ref().ok_or(Errno::ESTALE)?;
        let open = || handle::open(mount, handle, OFlag::O_PATH | OFlag::O_NOFOLLOW);
        let fd = Arc::new(self.with_room(open)?);
        opened.keep(fd.clone());
        drop(opened);
        self.keep_for_a_while(node);
        Ok(fd)
    }

    /// Opens the node anew.
    pub(super) fn open(&self, node: &Arc<Node>, flags: OFlag) -> Result<OwnedFd> {
        match (&node.hold, &self.mount) {
            // Shorter than by way of a descriptor.
            (Hold::Handle(handle), Some((mount, _))) if lock(&node.opened).kept.is_none() => {
                self.with_room(|| handle::open(mount, handle, flags))
            }
            _ => {
                let held = self.fd(node)?;
                self.with_room(|| again(&*held, flags))
            }
        }
    }

    /// What `open` opens. When this process can have no more descriptors open, those that are kept for later are given up for
    /// it: what clients have open comes first.
    pub(super) fn with_room<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        match open() {
            Err(Errno::EMFILE) => {
                let kept = std::mem::take(&mut *lock(&self.recent));
                for node in kept.iter().filter_map(Weak::upgrade) {
                    // One that is locked is being opened right now, perhaps by this very thread.
                    if let Ok(mut opened) = node.opened.try_lock() {
                        opened.give_up();
                    }
                }
                open()
            }
            result => result,
        }
    }

    /// Makes room for the descriptor that `node` has got.
    fn keep_for_a_while(&self, node: &Arc<Node>) {
        let oldest = {
            let mut recent = lock(&self.recent);
            recent.push_back(Arc::downgrade(node));
            if recent.len() > self.capacity { recent.pop_front() } else { None }
        };
        if let Some(oldest) = oldest.and_then(|node| node.upgrade()) {
            // Closed when no lock is held: the last close of a file can take its time.
            let _closed = lock(&oldest.opened).give_up();
        }
    }

    /// Keeps a removed node within reach until it is forgotten.
    pub(super) fn keep_removed(&self, node: &Node, fd: Arc<OwnedFd>) {
        if matches!(node.hold, Hold::Handle(_)) {
            let mut opened = lock(&node.opened);
            opened.keep(fd);
            opened.for_good = true;
        }
    }

    /// The known node of a file with these attributes.
    pub(super) fn known(&self, stat: &FileStat) -> Option<Arc<Node>> {
        let place = Place::of(stat);
        let known = lock(&self.known);
        let id = self.id_of(place, &known)?;
        known.nodes.get(&id).map(|counted| counted.node.clone())
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
    pub(super) fn count_named(&self, dir: impl AsFd, name: &OsStr) -> Result<Option<Entry>> {
        let Some((_, mount)) = &self.mount else { return Ok(None) };
        let handle = match handle::at(&dir, name) {
            Ok((handle, its_mount)) if its_mount == *mount => handle,
            Err(Errno::ENOENT) => return Err(Errno::ENOENT),
            Ok(_) | Err(_) => return Ok(None),
        };
        let stat = fstatat(&dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let is_certain = stat.st_dev == self.root_place.dev && handle.is_certainly_of(stat.st_ino);
        if is_certain { self.enter(stat, Hold::Handle(handle)).map(Some) } else { Ok(None) }
    }

    /// Counts a lookup of the file that `fd`, an `O_PATH` descriptor, holds.
    ///
    /// # Errors
    /// ELOOP for the source itself, which a bind mount can bring into itself: the kernel knows it as the root alone.
    pub(super) fn count(&self, fd: OwnedFd) -> Result<Entry> {
        let stat = fstat(&fd)?;
        match self.handle_of(&fd) {
            Some(handle) => self.enter(stat, Hold::Handle(handle)),
            None => self.enter(stat, Hold::Fd(Arc::new(fd))),
        }
    }

    /// The same for an open file. It is not kept itself: that would keep the file open for whoever asks.
    pub(super) fn count_opened(&self, file: &OwnedFd) -> Result<Entry> {
        match self.handle_of(file) {
            Some(handle) => self.enter(fstat(file)?, Hold::Handle(handle)),
            None => self.count(again(file, OFlag::O_PATH)?),
        }
    }

    /// The handle by which a file can be opened here.
    fn handle_of(&self, fd: &OwnedFd) -> Option<Handle> {
        let (_, mount) = self.mount.as_ref()?;
        handle::of(fd).ok().filter(|(_, its_mount)| its_mount == mount).map(|(handle, _)| handle)
    }

    fn enter(&self, mut stat: FileStat, hold: Hold) -> Result<Entry> {
        let place = Place::of(&stat);
        if place == self.root_place {
            return Err(Errno::ELOOP);
        }
        let (id, generation) = {
            let mut known = lock(&self.known);
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
            let new = |hold| Arc::new(Node { id: NodeId(id), place, kind, hold, opened: Mutex::default() });
            let counted = match known.nodes.entry(id) {
                MapEntry::Vacant(vacant) => vacant.insert(Counted { node: new(hold), lookups: 0 }),
                MapEntry::Occupied(occupied) => {
                    let counted = occupied.into_mut();
                    // Its number has been given to another file since. The kernel tells the two by their generation, and
                    // what it takes back of both is counted together.
                    if matches!(&counted.node.hold, Hold::Handle(old) if !hold.is_handle(old)) {
                        counted.node = new(hold);
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

    /// Takes back `lookups`; whether the node is forgotten with that.
    fn forget(&self, id: NodeId, lookups: u64) -> bool {
        // Dropped behind the lock: its last descriptor may go with it.
        let _forgotten = {
            let mut known = lock(&self.known);
            let Some(counted) = known.nodes.get_mut(&id.0) else { return false };
            counted.lookups = counted.lookups.saturating_sub(lookups);
            if counted.lookups > 0 || id == NodeId::ROOT {
                return false;
            }
            let forgotten = known.nodes.remove(&id.0);
            if let Some(Counted { node, .. }) = &forgotten {
                known.foreign.remove(&node.place);
            }
            forgotten
        };
        true
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }
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
        self.nodes.forget(node, lookups)
    }
}
