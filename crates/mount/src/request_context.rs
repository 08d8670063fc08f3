//! A request that is being served: it is answered here, and counted when it ends.
//!
//! Every error for a client passes through [`RequestContext::errno`], so that no failed request is counted as successful.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namegate_telemetry::metrics::{Op, Timing};
use namegate_wire::Reply;
use namegate_wire::abi::{AttrOut, EntryOut, GetxattrOut};
use nix::errno::Errno;
use nix::sys::stat::FileStat;

use super::RequestFailure;
use super::encode::attr_out;
use super::journal::AttachedRequest;
use super::node_number::numbers;
use super::request_core::RequestCore;
use super::server::{ConfiguredServer, Result};
use super::timeouts::{absent_out, entry_out};
use crate::passthrough::{Caller, LookupEntry, NodeId, UsedName};
use crate::workers::{Domain, Lane, Load};

/// A request that is being served.
pub(super) struct RequestContext<'a> {
    pub(super) core: &'a Arc<RequestCore>,
    /// With the configuration that was active when the work began; a request that is handed on begins anew.
    pub(super) server: ConfiguredServer<'a>,
    timing: Timing<'a>,
    user: u32,
    /// The domain of the pool job; `None` in the thread that has read the request.
    domain: Option<Domain>,
}

/// A request on its way to the pool.
pub(super) struct PoolJob {
    pub(super) op: Op,
    pub(super) lane: Lane,
    /// When the request was received.
    pub(super) begun: Instant,
    /// The number by which it can be interrupted.
    pub(super) interrupt_id: Option<u64>,
    /// The memory that it holds.
    pub(super) bytes: usize,
}

impl RequestCore {
    /// Runs `job` in the pool.
    pub(super) fn submit(
        self: &Arc<Self>,
        request: PoolJob,
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        let PoolJob { op, lane, begun, interrupt_id, bytes } = request;
        let handed_on = match self.journal.hand_on() {
            Ok(handed_on) => handed_on,
            // The client gets an error when the job is dropped.
            Err(error) => return log::error!("{}: the request fails: {error}", op.name()),
        };
        let core = self.clone();
        self.workers.submit_with(interrupt_id, lane, op as u8, bytes, move || {
            let _attached = AttachedRequest::new(core.journal, handed_on);
            let resumed = Instant::now();
            job(&RequestContext::resumed(&core, core.metrics.resume(op, begun), lane));
            core.record_duration(op, lane.user, resumed);
        });
    }

    pub(super) fn record_duration(&self, op: Op, user: u32, since: Instant) {
        let now = Instant::now();
        self.slow.record_duration(op as u8, user, now - since, now);
    }
}

impl<'a> RequestContext<'a> {
    /// For the thread that has read the request: it must not do anything that may take long.
    pub(super) fn in_place(core: &'a Arc<RequestCore>, timing: Timing<'a>, user: u32) -> Self {
        Self { core, server: core.server.for_request(), timing, user, domain: None }
    }

    /// For a thread of the pool.
    pub(super) fn resumed(core: &'a Arc<RequestCore>, timing: Timing<'a>, lane: Lane) -> Self {
        Self { core, server: core.server.for_request(), timing, user: lane.user, domain: Some(lane.domain) }
    }

    /// The user id of the client.
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    pub(super) fn is_in_place(&self) -> bool {
        self.domain.is_none()
    }

    /// Continues the request in the pool by `job`, because it takes long.
    pub(super) fn continue_in_pool(
        &self,
        domain: Domain,
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        let lane = Lane { user: self.user, domain, load: Load::Light };
        let begun = self.timing.hand_on();
        self.core.submit(PoolJob { op: self.timing.op(), lane, begun, interrupt_id: None, bytes: 0 }, job);
    }

    /// The errno for the client; the request is counted as failed.
    pub(super) fn errno(&self, failure: impl Into<RequestFailure>) -> Errno {
        let errno = self.server.errno(failure.into());
        self.timing.failed(errno);
        errno
    }

    pub(super) fn empty(&self, result: std::result::Result<(), impl Into<RequestFailure>>, reply: Reply) {
        match result {
            Ok(()) => reply.done(),
            Err(failure) => reply.error(self.errno(failure)),
        }
    }

    /// Replies with the entry `name` of `parent`, and charges its descriptor to the user.
    pub(super) fn entry(
        &self,
        caller: &Caller,
        (parent, name): (NodeId, &OsStr),
        result: Result<LookupEntry>,
        reply: Reply,
    ) {
        let kept = (!caller.uses_alias).then_some((parent, name));
        let is_absent = self.timing.op() == Op::Lookup
            && result.as_ref().is_err_and(|failure| *failure == RequestFailure::Backing(Errno::ENOENT));
        let absent =
            kept.filter(|_| is_absent).map(|(parent, name)| self.server.name_timeout(parent, name, None));
        let timeout = absent.unwrap_or_default();
        if timeout.is_zero() {
            return self.found(result, kept, reply);
        }
        // It is counted as the error that the client gets.
        self.errno(Errno::ENOENT);
        reply.message(&absent_out(timeout, Duration::ZERO));
    }

    /// Replies with an inode that was found by this name in a directory, if by one, and charges its descriptor to the user.
    pub(super) fn found(&self, result: Result<LookupEntry>, name: Option<(NodeId, &OsStr)>, reply: Reply) {
        match result.and_then(|entry| self.charge(entry).map_err(Into::into)) {
            Ok(entry) => {
                let mut found = self.entry_out(&entry, name, self.core.backing.is_written(entry.node));
                if found.nodeid == NodeId::ROOT.0 {
                    found.nodeid = self.core.root_number.get().copied().unwrap_or(NodeId::ROOT.0);
                }
                reply.message(&found);
            }
            Err(failure) => reply.error(self.errno(failure)),
        }
        self.core.server.give_back();
    }

    /// The reply for an entry that was found by this name in a directory, if by one; `is_written` for a file that a client may change
    /// through a memory map.
    pub(super) fn entry_out(
        &self,
        entry: &LookupEntry,
        name: Option<(NodeId, &OsStr)>,
        is_written: bool,
    ) -> EntryOut {
        let name = name.filter(|_| entry.name == UsedName::Own);
        let name = name.map(|(parent, name)| self.server.name_timeout(parent, name, Some(entry.node)));
        let attributes =
            entry.is_current.then(|| self.server.attr_timeout(entry.node, &entry.stat, is_written));
        entry_out(entry, name.unwrap_or_default(), attributes.unwrap_or_default())
    }

    /// Charges the descriptor of an entry that was looked up to the user; takes the lookup back if that fails.
    pub(super) fn charge(&self, entry: LookupEntry) -> nix::Result<LookupEntry> {
        let charged = self.server.tree.charge(entry.node, self.user);
        charged.inspect_err(|_| self.forget(entry.node, 1)).map(|()| entry)
    }

    /// Replies with attributes of the node `of`.
    pub(super) fn attr(&self, of: NodeId, result: nix::Result<FileStat>, reply: Reply) {
        match result {
            Ok(stat) => reply.message(&self.attributes(of, &stat)),
            Err(errno) => reply.error(self.errno(errno)),
        }
    }

    fn attributes(&self, of: NodeId, stat: &FileStat) -> AttrOut {
        attr_out(stat, self.attr_timeout(of, stat))
    }

    /// How long the kernel may cache attributes of the node `of`.
    pub(super) fn attr_timeout(&self, of: NodeId, stat: &FileStat) -> Duration {
        self.server.attr_timeout(of, stat, self.core.backing.is_written(of))
    }

    /// Records that `pid` asks for a name, or with `is_attributes` for attributes, which the kernel may have been given to keep.
    pub(super) fn note_missed(&self, pid: u32, is_attributes: bool) {
        if self.server.begun.is_some()
            && let Some(directory) = self.core.readers.missed(pid, is_attributes)
        {
            self.server.tree.note_entries_lost(directory);
        }
    }

    /// Makes the kernel drop its cached attributes of `node`.
    ///
    /// This may be called while the kernel waits for a reply about the node ([`Notifier::forget_inode`](namegate_wire::Notifier)).
    /// Earlier replies on their way to the kernel count as older (`attr_version`).
    pub(super) fn forget_attributes(&self, node: NodeId) {
        let Some(notifier) = self.core.server.notifier() else { return };
        for ino in numbers(node) {
            if let Err(error) = notifier.forget_inode(ino, false) {
                log::debug!("the kernel does not forget attributes: {error}");
            }
        }
    }

    /// Makes the kernel write what clients have changed in memory maps of `node` and drop its cached content. Only for requests in the pool:
    /// this waits until other threads have served the writes.
    ///
    /// The kernel waits for no lock that a request to change attributes holds (`fuse_reverse_inval_inode`).
    pub(super) fn write_back(&self, node: NodeId) {
        let Some(notifier) = self.core.server.notifier() else { return };
        for ino in numbers(node) {
            if let Err(error) = notifier.forget_inode(ino, true) {
                log::debug!("the kernel does not write back: {error}");
            }
        }
    }

    /// Replies with what `read` writes to a buffer of `size` bytes, or with its length if that is 0.
    pub(super) fn xattr(&self, size: u32, reply: Reply, read: impl FnOnce(&mut [u8]) -> nix::Result<usize>) {
        let mut buffer = vec![0; size as usize];
        match read(&mut buffer) {
            Ok(len) if size == 0 => {
                reply.message(&GetxattrOut { size: u32::try_from(len).unwrap_or(u32::MAX), padding: 0 });
            }
            Ok(len) => reply.bytes(&buffer[..len]),
            Err(errno) => reply.error(self.errno(errno)),
        }
    }
}
