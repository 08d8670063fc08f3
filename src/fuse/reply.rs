//! A request that is being served: it is answered here, and counted when it ends.
//!
//! Every error for a client passes through [`RequestContext::errno`], so that no failed request is counted as successful.

use std::ffi::OsStr;
use std::sync::Arc;

use fuser::{Errno, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};
use nix::sys::stat::FileStat;

use super::RequestFailure;
use super::adapter::generation;
use super::dispatch::RequestCore;
use super::reroot::numbers;
use super::server::{ConfiguredServer, Result};
use super::translate::attributes;
use crate::passthrough::{LookupEntry, NodeId, Reach};
use crate::telemetry::metrics::Timing;
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

    /// The reach of lookups here. A lookup that may get stuck on another mount must not block a lane for the source itself.
    pub(super) fn reach(&self) -> Reach {
        match self.domain {
            None | Some(Domain::Own) => Reach::Near,
            Some(Domain::Other(_)) => Reach::Any,
        }
    }

    /// Continues the request in the pool by `job`, because it takes long.
    pub(super) fn hand_on(&self, domain: Domain, job: impl FnOnce(&RequestContext<'_>) + Send + 'static) {
        let lane = Lane { user: self.user, domain, load: Load::Light };
        self.core.submit((self.timing.op(), lane, self.timing.hand_on()), 0, job);
    }

    /// The errno for the client; the request is counted as failed.
    pub(super) fn errno(&self, failure: impl Into<RequestFailure>) -> Errno {
        let errno = self.server.errno(failure.into());
        self.timing.failed(errno);
        Errno::from_i32(errno as i32)
    }

    pub(super) fn empty(
        &self,
        result: std::result::Result<(), impl Into<RequestFailure>>,
        reply: ReplyEmpty,
    ) {
        match result {
            Ok(()) => reply.ok(),
            Err(failure) => reply.error(self.errno(failure)),
        }
    }

    /// Replies with an entry, and charges its descriptor to the user.
    pub(super) fn entry(&self, parent: NodeId, name: &OsStr, result: Result<LookupEntry>, reply: ReplyEntry) {
        let server = &self.server;
        let result = result.and_then(|entry| match server.tree.charge(entry.node, self.user) {
            Ok(()) => Ok(entry),
            Err(errno) => {
                self.forget(entry.node, 1);
                Err(errno.into())
            }
        });
        match result {
            Ok(entry) => {
                let may_be_kept = self.server.may_be_kept(parent, name);
                let is_written = self.core.backing.is_written(entry.node);
                let timeouts = self.server.timeouts();
                let (name, attr) = timeouts.for_entry(&entry, may_be_kept, is_written);
                reply.entry_with_ttls(&attr, &name, &attributes(&entry.stat), generation(&entry));
            }
            Err(failure) => reply.error(self.errno(failure)),
        }
        self.core.server.give_back();
    }

    pub(super) fn attr(&self, of: NodeId, result: nix::Result<FileStat>, reply: ReplyAttr) {
        match result {
            Ok(stat) => {
                let is_written = self.core.backing.is_written(of);
                let timeout = self.server.timeouts().for_attributes(&stat, is_written);
                reply.attr(&timeout, &attributes(&stat));
            }
            Err(errno) => reply.error(self.errno(errno)),
        }
    }

    /// Makes the kernel drop its cached attributes of `node`.
    ///
    /// This may be called while the kernel waits for a reply about the node: without a range of content, the notification waits for no
    /// lock that a request holds (`fuse_reverse_inval_inode`). Earlier replies on their way to the kernel count as older
    /// (`attr_version`).
    pub(super) fn forget_attributes(&self, node: NodeId) {
        let Some(notifier) = self.core.server.notifier() else { return };
        for ino in numbers(node) {
            if let Err(error) = notifier.inval_inode(ino, -1, 0) {
                log::debug!("the kernel does not forget attributes: {error}");
            }
        }
    }

    pub(super) fn xattr(
        &self,
        size: u32,
        reply: ReplyXattr,
        read: impl FnOnce(&mut [u8]) -> nix::Result<usize>,
    ) {
        let mut buffer = vec![0; size as usize];
        match read(&mut buffer) {
            Ok(len) if size == 0 => reply.size(u32::try_from(len).unwrap_or(u32::MAX)),
            Ok(len) => reply.data(&buffer[..len]),
            Err(errno) => reply.error(self.errno(errno)),
        }
    }
}
