//! A request that is being served: what it is answered, and, when it ends, that it is counted.
//!
//! Every error that a client gets goes through [`Serving::errno`], so that nothing can fail and be counted as done.

use std::ffi::OsStr;

use fuser::{Errno, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};
use nix::sys::stat::FileStat;

use super::Failure;
use super::adapter::{Adapter, generation, node};
use super::server::Result;
use super::translate::attributes;
use crate::daemon::metrics::Timing;
use crate::passthrough::Entry;

/// A request that is being served.
pub(super) struct Serving<'a> {
    pub(super) adapter: &'a Adapter,
    timing: Timing<'a>,
}

impl<'a> Serving<'a> {
    pub(super) fn new(adapter: &'a Adapter, timing: Timing<'a>) -> Self {
        Self { adapter, timing }
    }

    /// What the client is told of a failure.
    pub(super) fn errno(&self, failure: impl Into<Failure>) -> Errno {
        let errno = self.adapter.server.errno(failure.into());
        self.timing.failed(errno);
        Errno::from_i32(errno as i32)
    }

    pub(super) fn empty(&self, result: std::result::Result<(), impl Into<Failure>>, reply: ReplyEmpty) {
        match result {
            Ok(()) => reply.ok(),
            Err(failure) => reply.error(self.errno(failure)),
        }
    }

    pub(super) fn entry(&self, parent: INodeNo, name: &OsStr, result: Result<Entry>, reply: ReplyEntry) {
        match result {
            Ok(entry) => {
                let may_be_kept = self.adapter.server.may_be_kept(node(parent), name);
                let (name, attr) = self.adapter.server.now().timeouts().of_entry(&entry, may_be_kept);
                reply.entry_with_ttls(&attr, &name, &attributes(&entry.stat), generation(&entry));
            }
            Err(failure) => reply.error(self.errno(failure)),
        }
    }

    pub(super) fn attr(&self, result: nix::Result<FileStat>, reply: ReplyAttr) {
        match result {
            Ok(stat) => {
                reply.attr(&self.adapter.server.now().timeouts().of_attributes(&stat), &attributes(&stat))
            }
            Err(errno) => reply.error(self.errno(errno)),
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
