//! What a server that takes over finds: nodes and open files that its predecessor has recorded, and changes that it may have made.
//!
//! A change is made once, although the predecessor may have died before, within or after it. While a client waits for a change, the
//! kernel lets no other client of the mount change the same directory, or the end of the same file.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use namegate_core::gate::Admitted;
use namegate_sys::handle::KernelHandle;
use namegate_sys::inherited::Inherited;
use namegate_sys::{self, xattr};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstat, fstatat};
use parking_lot::Mutex;

use super::descriptors::{Descriptor, NodeDescriptors, Stay};
use super::dir::OpenDir;
use super::file::OpenFile;
use super::inode::{LookupCount, NodeTable};
use super::node::{FileId, InodeRef, TrackedNode};
use super::{Caller, Fh, NodeId, Passthrough, Result};
use crate::state::{BackingRecord, NodeData, NodeRecord, OpenData, OpenRecord, journal};

/// The inode number of an entry; 0 if there is none.
fn ino_of(dir: impl AsFd, name: &Admitted<'_>) -> u64 {
    fstatat(dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW).map_or(0, |stat| stat.st_ino)
}

fn size_of(file: &File) -> u64 {
    fstat(file).map_or(0, |stat| stat.st_size.unsigned_abs())
}

/// Whether a predecessor has created the entry `name` for `caller`.
pub(super) fn begin_or_recover_create(dir: &Descriptor, name: &Admitted<'_>, caller: &Caller) -> bool {
    let Some(earlier) = journal::start(|| [0; 2]) else { return false };
    namegate_sys::stat::at(dir, name.as_os_str()).is_ok_and(|stat| {
        // Where the time of birth is not known, that of the last change is no earlier.
        let born = stat.btime.unwrap_or(stat.ctime);
        // Some file systems count in hundredths of a second, or in units of two seconds.
        let unit = match born.nanoseconds {
            0 => 2_000_000_000,
            nanoseconds if nanoseconds % 10_000_000 == 0 => 10_000_000,
            _ => 0,
        };
        let time =
            |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        let (born, begun) =
            (time(born.seconds, born.nanoseconds.into()), time(earlier.begun.0, earlier.begun.1));
        stat.uid == caller.uid && born + unit >= begun
    })
}

/// Whether a predecessor has linked `file` to `name`.
pub(super) fn begin_or_recover_link(dir: &Descriptor, name: &Admitted<'_>, file: &Descriptor) -> bool {
    let earlier = journal::start(|| [ino_of(dir, name), 0]);
    earlier.is_some_and(|earlier| {
        earlier.observed[0] == 0 && fstat(file).is_ok_and(|stat| stat.st_ino == ino_of(dir, name))
    })
}

/// Whether a predecessor has removed `name`.
pub(super) fn begin_or_recover_remove(dir: &Descriptor, name: &Admitted<'_>) -> bool {
    let earlier = journal::start(|| [ino_of(dir, name), 0]);
    earlier.is_some_and(|earlier| earlier.observed[0] != 0 && ino_of(dir, name) != earlier.observed[0])
}

/// Whether a predecessor has renamed an entry.
pub(super) fn begin_or_recover_rename(
    (from, name): (&Descriptor, &Admitted<'_>),
    (to, new_name): (&Descriptor, &Admitted<'_>),
    flags: u32,
) -> bool {
    let look = || [ino_of(from, name), ino_of(to, new_name)];
    let Some(earlier) = journal::start(look).filter(|earlier| earlier.observed[0] != 0) else { return false };
    let ([source, target], [before, replaced]) = (look(), earlier.observed);
    match flags & libc::RENAME_EXCHANGE != 0 {
        true => target == before && source == replaced,
        false => target == before && source != before,
    }
}

/// Whether a predecessor has set an attribute that must not exist before.
pub(super) fn has_set(fd: impl AsFd, name: &OsStr, value: &[u8], flags: i32) -> bool {
    if flags & libc::XATTR_CREATE == 0 {
        return false;
    }
    let earlier = journal::start(|| [xattr::get(&fd, name, &mut []).is_ok().into(), 0]);
    let mut found = vec![0; value.len() + 1];
    earlier.is_some_and(|earlier| {
        earlier.observed[0] == 0 && xattr::get(&fd, name, &mut found).is_ok_and(|len| found[..len] == *value)
    })
}

/// Whether a predecessor has removed an attribute.
pub(super) fn has_unset(fd: impl AsFd, name: &OsStr) -> bool {
    let is_there = || xattr::get(&fd, name, &mut []).is_ok();
    let earlier = journal::start(|| [is_there().into(), 0]);
    earlier.is_some_and(|earlier| earlier.observed[0] != 0 && !is_there())
}

/// The number of bytes that a predecessor has appended, of `len`.
pub(super) fn has_appended(file: &File, len: usize) -> Option<usize> {
    let earlier = journal::start(|| [size_of(file), 0])?;
    let grown = usize::try_from(size_of(file).checked_sub(earlier.observed[0])?).ok()?;
    (1..=len).contains(&grown).then_some(grown)
}

/// A file that was open when the predecessor died, as far as its backing file is concerned.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredFile {
    pub node: NodeId,
    /// Whether it is open for writing.
    pub is_writer: bool,
}

impl NodeTable {
    /// Records a node that was looked up for the first time: by its handle, or by the number of the descriptor that references it.
    pub(super) fn record(
        &self,
        id: u64,
        place: FileId,
        kind: SFlag,
        mount: Option<u64>,
        hold: std::result::Result<&KernelHandle, u32>,
    ) -> Result<Option<NodeRecord>> {
        let Some(state) = self.state else { return Ok(None) };
        let handle = hold.ok().map(KernelHandle::parts).map(|(kind, bytes)| (kind, bytes.to_vec()));
        let number = hold.err().unwrap_or_default();
        let FileId { dev, ino } = place;
        let data = NodeData { id, dev, ino, kind: kind.bits(), number, handle, mount, ..NodeData::default() };
        state.add_node(&data).map(Some).ok_or(Errno::ENOMEM)
    }

    /// Records the lookup count of a node.
    pub(super) fn record_lookups(&self, node: &TrackedNode, lookups: u64) {
        if self.state.is_some()
            && let Some(record) = node.opened.lock().record()
        {
            record.set_lookups(lookups);
        }
    }

    /// Takes over a node that a predecessor has recorded.
    fn take_over(&self, record: NodeRecord, data: &NodeData, inherited: &Inherited) {
        let place = FileId { dev: data.dev, ino: data.ino };
        let is_it = |fd: &OwnedFd| fstat(fd).is_ok_and(|stat| FileId::from_stat(&stat) == place);
        let fd = data.fd.and_then(|number| inherited.take(number)).filter(is_it);
        let handle = data.handle.as_ref().and_then(|(kind, bytes)| KernelHandle::from_parts(*kind, bytes));
        let (id, kind) = (NodeId(data.id), SFlag::from_bits_truncate(data.kind));
        let hold = match handle {
            Some(handle) => InodeRef::Handle(handle),
            // Without it, the node cannot be used.
            None if fd.is_none() => return,
            None => InodeRef::Fd(data.number),
        };
        let mut opened = NodeDescriptors::recorded(Some(record));
        let mut is_spare = false;
        if let Some(fd) = fd {
            is_spare = data.handle.is_some() && fstat(&fd).is_ok_and(|stat| stat.st_nlink > 0);
            opened.stay = if is_spare { Stay::Spare } else { Stay::UntilForgotten };
            let fd = Descriptor::new(fd);
            if !is_spare && let Some(Ok(share)) = data.uid.map(|uid| self.budget.charge(uid)) {
                fd.count(share);
            }
            opened.keep(fd);
        }
        if matches!(hold, InodeRef::Fd(_)) {
            self.held.take_over(id, data.number);
        }
        // Whether it has set-id bits is found out when that matters.
        let (has_set_id, may_be_mapped) = (AtomicBool::new(kind != SFlag::S_IFDIR), AtomicBool::default());
        let opened = Mutex::new(opened);
        let node = Arc::new(TrackedNode {
            id,
            place,
            kind,
            hold,
            has_set_id,
            may_be_mapped,
            mount: data.mount,
            opened,
        });
        if is_spare {
            self.keep_spare(&node);
        }
        let mut known = self.known.lock();
        if !self.is_own(id) {
            known.foreign.insert(place, id.0);
            known.foreign_made = known.foreign_made.max(self.foreign_ids.count(id));
        }
        known.nodes.insert(id.0, LookupCount { node, lookups: data.lookups });
    }
}

impl Passthrough {
    pub(super) fn record_open(&self, data: OpenData) -> Result<Option<OpenRecord>> {
        let Some(state) = self.nodes.state else { return Ok(None) };
        state.add_open(&OpenData { unique: journal::unique(), ..data }).map(Some).ok_or(Errno::ENOMEM)
    }

    /// Records the backing file of a node for a successor.
    pub fn note_backing(&self, node: NodeId, backing: BackingRecord, is_revoked: bool) {
        if self.nodes.state.is_some()
            && let Ok(node) = self.nodes.node(node)
            && let Some(record) = node.opened.lock().record()
        {
            record.set_backing(backing, is_revoked);
        }
    }

    /// Takes over what a predecessor has recorded, but for what was opened by one of the requests `unfinished`: they will be served
    /// again. Returns the open files, and the nodes with their backing files and whether these were revoked.
    pub fn take_over(
        &self,
        inherited: &Inherited,
        unfinished: &HashSet<u64>,
    ) -> (Vec<RecoveredFile>, Vec<(NodeId, BackingRecord, bool)>) {
        let (mut files, mut backings) = (Vec::new(), Vec::new());
        let Some(state) = self.nodes.state else { return (files, backings) };
        for (record, data) in state.take_over_nodes() {
            if data.lookups == 0 {
                continue;
            }
            if data.backing != BackingRecord::None {
                backings.push((NodeId(data.id), data.backing, data.is_revoked));
            }
            self.nodes.take_over(record, &data, inherited);
        }
        for (record, data) in state.take_over_opens() {
            let Ok(node) = self.nodes.node(NodeId(data.node)) else { continue };
            if unfinished.contains(&data.unique) {
                continue;
            }
            let fd = data.fd.and_then(|number| inherited.take(number));
            let share = fd.is_some().then(|| self.nodes.charge(data.opener[0]).ok()).flatten();
            match (data.is_directory, fd) {
                (true, Some(dir)) => self.dirs.insert(Fh(data.fh), OpenDir::recovered(dir, record, share)),
                // The directory could not be read without it.
                (true, None) => {}
                (false, fd) => {
                    let open = OpenFile::recovered(node, &data, record, fd.map(|fd| (fd, share)));
                    files.push(RecoveredFile { node: NodeId(data.node), is_writer: open.is_writable() });
                    self.files.insert(Fh(data.fh), open);
                }
            }
        }
        (files, backings)
    }
}
