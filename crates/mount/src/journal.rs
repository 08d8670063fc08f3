//! What a mount records, so that another server can take over when this one ends. [`NoJournal`] records nothing.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use namegate_wire::{InFlight, Negotiated, NoJournal, RequestJournal};

use crate::passthrough::TreeJournal;

/// A mount as another server finds it again.
#[derive(Clone, Copy, Debug)]
pub struct MountRecord<'a> {
    /// The source, a path without links.
    pub source: &'a Path,
    pub mountpoint: &'a Path,
    /// The device number in the mount table.
    pub device: Option<&'a str>,
    /// The node id by which the kernel knows the source.
    pub root_number: u64,
    /// The key of file handles.
    pub export_key: Option<[u64; 2]>,
}

/// A request on its way to another thread.
pub trait HandedOn: Debug + Send {
    /// Has the calling thread go on with the request.
    fn attach(self: Box<Self>);
}

/// Records a mount.
pub trait MountJournal: RequestJournal + TreeJournal {
    /// Whether the reply to the current request must come after the request is served, since a successor serves only what was not answered.
    fn replies_last(&self) -> bool {
        false
    }

    /// Whether the calling thread finishes requests of a previous server.
    fn is_recovering(&self) -> bool {
        false
    }

    /// Takes the current request away from the calling thread, for another one that goes on with it.
    ///
    /// # Errors
    /// Too many requests are in flight, or there is no memory. The request stays.
    fn hand_on(&'static self) -> io::Result<Option<Box<dyn HandedOn>>> {
        Ok(None)
    }

    /// The mount is live.
    ///
    /// # Errors
    /// The mount point is too long to be recorded.
    fn mounted(&self, _record: &MountRecord<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Everything of a previous server that is of use was taken over.
    fn taken_over(&self) {}

    /// A backing file was registered with the kernel under this number.
    fn note_registered(&self, _number: u32) {}

    /// The backing file with this number, which no node has any more, is about to be released. What this returns is passed to
    /// [`MountJournal::released`] then.
    fn releasing(&self, _number: u32) -> Option<usize> {
        None
    }

    fn released(&self, _place: usize) {}

    /// Numbers under which a previous server may have registered backing files that no node has. Most of them do not exist.
    fn lost_backings(&self) -> Vec<u32> {
        Vec::new()
    }

    /// The kernel must not cache names of an entry with this hash from now on.
    fn note_uncached_name(&self, _hash: u64) {}

    /// Where names are noted that the kernel keeps until it is made to drop them.
    fn kept_names(&self) -> Option<&dyn KeptNames> {
        None
    }

    /// The hashes of entries of which a previous server has noted that.
    fn uncached_names(&self) -> Vec<u64> {
        Vec::new()
    }
}

impl MountJournal for NoJournal {}

/// Names that the kernel keeps until it is made to drop them.
pub trait KeptNames: Debug + Sync {
    /// Notes a name in the directory with this number; `is_kept` if the kernel keeps it in any case. Returns whether there was room.
    fn note(&self, parent: u64, name: &OsStr, is_kept: bool) -> bool;

    /// Whether those that were parted before are forgotten.
    fn can_part(&self) -> bool;

    /// Parts names that are noted from now on from those that were noted before, if there are any and it is [possible](Self::can_part). Returns
    /// whether it did.
    fn part(&self) -> bool;

    /// Forgets those that were noted before the last parting: the kernel has dropped them.
    fn forget_parted(&self);

    /// All of them.
    fn all(&self) -> Vec<(u64, OsString)>;
}

/// While this exists, the calling thread serves a request that another one has received.
pub(super) struct AttachedRequest(&'static dyn MountJournal);

impl AttachedRequest {
    pub(super) fn new(
        journal: &'static dyn MountJournal,
        request: Option<Box<dyn HandedOn>>,
    ) -> Option<Self> {
        request?.attach();
        Some(Self(journal))
    }
}

impl Drop for AttachedRequest {
    fn drop(&mut self) {
        self.0.finished();
    }
}

/// A mount that a previous server has left.
#[derive(Debug)]
pub struct LeftMount {
    pub journal: &'static dyn MountJournal,
    /// The source.
    pub root: OwnedFd,
    pub source: PathBuf,
    pub mountpoint: PathBuf,
    /// The device number in the mount table.
    pub device: Option<String>,
    /// The node id by which the kernel knows the source.
    pub root_number: u64,
    /// The key of file handles.
    pub export_key: Option<[u64; 2]>,
    /// The descriptors from which requests are read.
    pub connections: Vec<OwnedFd>,
    /// What was agreed on with the kernel.
    pub negotiated: Negotiated,
    pub in_flight: Vec<InFlight>,
}
