//! The descriptors of one inode.

use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};

use super::budget::DescriptorShare;
use super::cached_version::CachedVersion;
use super::journal::{NodeChange, NodeRecord};
use super::listed_entries::ListedEntries;

/// A descriptor of an inode.
#[derive(Debug)]
pub(super) struct Descriptor {
    fd: OwnedFd,
    /// The user to whom it is charged, if any.
    share: OnceLock<DescriptorShare>,
}

impl Descriptor {
    pub(super) fn new(fd: OwnedFd) -> Arc<Self> {
        Arc::new(Self { fd, share: OnceLock::new() })
    }

    pub(super) fn is_counted(&self) -> bool {
        self.share.get().is_some()
    }

    /// Charges it. Of two concurrent charges the first one applies.
    pub(super) fn count(&self, share: DescriptorShare) {
        let _ = self.share.set(share);
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Deref for Descriptor {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}

/// How long the descriptor of a node stays open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stay {
    /// Until another descriptor needs the room.
    #[default]
    Spare,
    /// Until no client has the file open: it was removed, and its file system has renamed it until then.
    UntilClosed,
    /// Until the kernel forgets the node: the file was removed, or it has no handle.
    UntilForgotten,
}

/// The descriptors of a node, and how it is used.
#[derive(Debug, Default)]
pub(super) struct NodeDescriptors {
    /// The record for a successor. Declared before the descriptor, which is closed after it.
    record: Option<Box<NodeRecord>>,
    /// The most recent descriptor, if it is still open.
    last: Weak<Descriptor>,
    /// The most recent descriptor, kept open for later requests.
    kept: Option<Arc<Descriptor>>,
    /// Number of times clients have the file open.
    pub(super) opens: u32,
    /// Number of write-back errors reported to any client.
    pub(super) write_errors: u16,
    pub(super) stay: Stay,
    /// Whether its descriptor was used since this flag was last cleared.
    pub(super) was_used: bool,
    /// The version of which the kernel has a cache that it may keep. Boxed, because few nodes have one.
    pub(super) cached: Option<Box<(CachedVersion, ListedEntries)>>,
}

impl NodeDescriptors {
    pub(super) fn recorded(record: Option<NodeRecord>) -> Self {
        Self { record: record.map(Box::new), ..Self::default() }
    }

    /// For a node that is referenced by this descriptor.
    pub(super) fn held(fd: Arc<Descriptor>, record: Option<NodeRecord>) -> Self {
        let mut opened = Self { stay: Stay::UntilForgotten, ..Self::recorded(record) };
        opened.keep(fd);
        opened
    }

    pub(super) fn record(&self) -> Option<&NodeRecord> {
        self.record.as_deref()
    }

    /// Records the user to whom the descriptor is charged.
    pub(super) fn note_charge(&self, uid: u32) {
        if let Some(record) = &self.record {
            record.change(NodeChange::Uid(Some(uid)));
        }
    }

    pub(super) fn keep(&mut self, fd: Arc<Descriptor>) {
        if let Some(record) = &self.record {
            record.change(NodeChange::Fd(Some(fd.as_raw_fd())));
        }
        self.last = Arc::downgrade(&fd);
        self.kept = Some(fd);
    }

    pub(super) fn kept(&self) -> Option<&Arc<Descriptor>> {
        self.kept.as_ref()
    }

    /// The most recent descriptor, if it is still open.
    pub(super) fn last(&self) -> Option<Arc<Descriptor>> {
        self.last.upgrade()
    }

    /// Removes the kept descriptor.
    pub(super) fn take(&mut self) -> Option<Arc<Descriptor>> {
        if let Some(record) = &self.record {
            record.change(NodeChange::Fd(None));
        }
        self.kept.take()
    }

    /// Whether a request is using a descriptor. The kept one does not count.
    pub(super) fn is_in_use(&self) -> bool {
        self.last.strong_count() > usize::from(self.kept.is_some())
    }
}
