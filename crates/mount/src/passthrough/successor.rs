//! What a server that takes over finds: nodes and open files that its predecessor has recorded.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use namegate_sys::handle::KernelHandle;
use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};
use parking_lot::Mutex;

use super::descriptor::{Descriptor, NodeDescriptors, Stay};
use super::dir::OpenDir;
use super::file::OpenFile;
use super::inode::{LookupCount, NodeTable};
use super::journal::{BackingRecord, NodeChange, NodeData, NodeRecord, OpenData, OpenRecord};
use super::node::{FileId, InodeRef, TrackedNode, WriterState};
use super::{Fh, NodeId, Passthrough, Result};

/// A file that was open when the predecessor died, as far as its backing file is concerned.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredFile {
    pub node: NodeId,
    /// Whether it is open for writing.
    pub is_writer: bool,
}

/// The backing file of a node that a predecessor has registered.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredBacking {
    pub node: NodeId,
    pub record: BackingRecord,
    /// Whether it must be released with the last open file.
    pub is_revoked: bool,
}

/// What a predecessor has left.
#[derive(Debug, Default)]
pub struct Recovered {
    pub files: Vec<RecoveredFile>,
    pub backings: Vec<RecoveredBacking>,
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
        if !self.is_recording {
            return Ok(None);
        }
        let handle = hold.ok().map(KernelHandle::parts).map(|(kind, bytes)| (kind, bytes.to_vec()));
        let number = hold.err().unwrap_or_default();
        let FileId { dev, ino } = place;
        let data = NodeData { id, dev, ino, kind: kind.bits(), number, handle, mount, ..NodeData::default() };
        let slot = self.journal.add_node(&data).ok_or(Errno::ENOMEM)?;
        Ok(Some(NodeRecord::new(self.journal, slot)))
    }

    /// Records the lookup count of a node.
    pub(super) fn record_lookups(&self, node: &TrackedNode, lookups: u64) {
        if self.is_recording
            && let Some(record) = node.opened.lock().record()
        {
            record.change(NodeChange::Lookups(lookups));
        }
    }

    /// Takes over a node that a predecessor has recorded.
    fn take_over(&self, record: NodeRecord, data: &NodeData) {
        let place = FileId { dev: data.dev, ino: data.ino };
        let is_it = |fd: &OwnedFd| fstat(fd).is_ok_and(|stat| FileId::from_stat(&stat) == place);
        let fd = data.fd.and_then(|number| self.journal.take_descriptor(number)).filter(is_it);
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
            writers: WriterState::default(),
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
        if !self.nodes.is_recording {
            return Ok(None);
        }
        let slot = self.nodes.journal.add_open(&data).ok_or(Errno::ENOMEM)?;
        Ok(Some(OpenRecord::new(self.nodes.journal, slot)))
    }

    /// Records the backing file of a node for a successor.
    pub fn note_backing(&self, node: NodeId, backing: BackingRecord, is_revoked: bool) {
        if self.nodes.is_recording
            && let Ok(node) = self.nodes.node(node)
            && let Some(record) = node.opened.lock().record()
        {
            record.change(NodeChange::Backing(backing, is_revoked));
        }
    }

    /// Takes over what a predecessor has recorded.
    pub fn take_over(&self) -> Recovered {
        let journal = self.nodes.journal;
        let mut recovered = Recovered::default();
        for (slot, data) in journal.take_over_nodes() {
            let record = NodeRecord::new(journal, slot);
            if data.lookups == 0 {
                continue;
            }
            let (node, is_revoked) = (NodeId(data.id), data.is_revoked);
            if data.backing != BackingRecord::None {
                recovered.backings.push(RecoveredBacking { node, record: data.backing, is_revoked });
            }
            self.nodes.take_over(record, &data);
        }
        for (slot, data) in journal.take_over_opens() {
            let record = OpenRecord::new(journal, slot);
            let Ok(node) = self.nodes.node(NodeId(data.node)) else { continue };
            let fd = data.fd.and_then(|number| journal.take_descriptor(number));
            let share = fd.is_some().then(|| self.nodes.charge(data.opener[0]).ok()).flatten();
            match (data.is_directory, fd) {
                (true, Some(dir)) => self.dirs.insert(Fh(data.fh), OpenDir::recovered(dir, record, share)),
                // The directory could not be read without it.
                (true, None) => {}
                (false, fd) => {
                    let open = OpenFile::recovered(node, &data, record, fd.map(|fd| (fd, share)));
                    let file = RecoveredFile { node: NodeId(data.node), is_writer: open.is_writable() };
                    recovered.files.push(file);
                    self.files.insert(Fh(data.fh), open);
                }
            }
        }
        recovered
    }
}
