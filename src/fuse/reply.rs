//! A request that is being served: what it is answered, and, when it ends, that it is counted.
//!
//! Every error that a client gets goes through [`Serving::errno`], so that nothing can fail and be counted as done.

use std::ffi::OsStr;
use std::sync::Arc;

use fuser::{Errno, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};
use nix::sys::stat::FileStat;

use super::Failure;
use super::adapter::generation;
use super::dispatch::Core;
use super::reroot::numbers;
use super::server::Result;
use super::translate::attributes;
use crate::passthrough::{Entry, NodeId, Reach};
use crate::telemetry::metrics::Timing;
use crate::workers::{Domain, Lane, Load};

/// A request that is being served.
pub(super) struct Serving<'a> {
    pub(super) core: &'a Arc<Core>,
    timing: Timing<'a>,
    user: u32,
    /// The domain for whose jobs the thread is there; none for the one that has read the request.
    domain: Option<Domain>,
}

impl<'a> Serving<'a> {
    /// By the thread that has read it: nothing may be done that may take long.
    pub(super) fn in_place(core: &'a Arc<Core>, timing: Timing<'a>, user: u32) -> Self {
        Self { core, timing, user, domain: None }
    }

    /// By the pool.
    pub(super) fn resumed(core: &'a Arc<Core>, timing: Timing<'a>, lane: Lane) -> Self {
        Self { core, timing, user: lane.user, domain: Some(lane.domain) }
    }

    /// Who asked.
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    pub(super) fn is_in_place(&self) -> bool {
        self.domain.is_none()
    }

    /// How far names may lead here. Whoever gets stuck on another mount must not do so where the user's requests to the source
    /// itself are served.
    pub(super) fn reach(&self) -> Reach {
        match self.domain {
            None | Some(Domain::Own) => Reach::Near,
            Some(Domain::Other(_)) => Reach::Any,
        }
    }

    /// Has the pool serve the request by `job`: it has turned out to take long.
    pub(super) fn hand_on(&self, domain: Domain, job: impl FnOnce(&Serving<'_>) + Send + 'static) {
        let lane = Lane { user: self.user, domain, load: Load::Light };
        self.core.submit((self.timing.op(), lane, self.timing.hand_on()), 0, job);
    }

    /// What the client is told of a failure.
    pub(super) fn errno(&self, failure: impl Into<Failure>) -> Errno {
        let errno = self.core.server.errno(failure.into());
        self.timing.failed(errno);
        Errno::from_i32(errno as i32)
    }

    pub(super) fn empty(&self, result: std::result::Result<(), impl Into<Failure>>, reply: ReplyEmpty) {
        match result {
            Ok(()) => reply.ok(),
            Err(failure) => reply.error(self.errno(failure)),
        }
    }

    /// Answers with an entry, and counts what holds it for the user.
    pub(super) fn entry(&self, parent: NodeId, name: &OsStr, result: Result<Entry>, reply: ReplyEntry) {
        let server = &self.core.server;
        let result = result.and_then(|entry| match server.tree.charge(entry.node, self.user) {
            Ok(()) => Ok(entry),
            Err(errno) => {
                self.forget(entry.node, 1);
                Err(errno.into())
            }
        });
        match result {
            Ok(entry) => {
                let may_be_kept = self.core.server.may_be_kept(parent, name);
                let is_written = self.core.backing.is_written(entry.node);
                let timeouts = self.core.server.now().timeouts();
                let (name, attr) = timeouts.of_entry(&entry, may_be_kept, is_written);
                reply.entry_with_ttls(&attr, &name, &attributes(&entry.stat), generation(&entry));
            }
            Err(failure) => reply.error(self.errno(failure)),
        }
        server.give_back();
    }

    pub(super) fn attr(&self, of: NodeId, result: nix::Result<FileStat>, reply: ReplyAttr) {
        match result {
            Ok(stat) => {
                let is_written = self.core.backing.is_written(of);
                let timeout = self.core.server.now().timeouts().of_attributes(&stat, is_written);
                reply.attr(&timeout, &attributes(&stat));
            }
            Err(errno) => reply.error(self.errno(errno)),
        }
    }

    /// Has the kernel ask for the attributes of `node` before it tells of them again.
    ///
    /// It may be called where the kernel waits for an answer about the node: without a range of its content the notification
    /// waits for no lock that a request holds (`fuse_reverse_inval_inode`). What is on its way to the kernel from before counts
    /// as older (`attr_version`).
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
