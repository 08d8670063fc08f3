//! Directory listings: names alone, or names with attributes, each of which counts as a lookup.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_core::gate::Admitted;
use namegate_telemetry::metrics::Op;
use namegate_wire::abi::{Dirent, EntryOut, FsyncIn, OpenOut, ReadIn, ReleaseIn, fsync};
use namegate_wire::{Entries, Reply};
use nix::errno::Errno;

use super::coherence::LASTING;
use super::encode::dirent_kind;
use super::request_context::RequestContext;
use super::request_core::RequestCore;
use super::server::{ConfiguredServer, Result};
use crate::passthrough::{Caller, DirEntry, Fh, Listing, LookupEntry, NodeId};
use crate::workers::Load;

impl RequestCore {
    pub(super) fn opendir(self: &Arc<Self>, caller: Caller, node: NodeId, reply: Reply) {
        self.serve(Op::Opendir, &caller, self.weight_of(node), move |serving| {
            match serving.core.server.tree.opendir(node, serving.user()) {
                Ok((Fh(fh), listing)) => {
                    let listing = if caller.uses_alias { Listing::Unsettled } else { listing };
                    let may_last = serving.server.begun.is_some();
                    let open_flags = serving.core.readers.open_flags(caller.pid, node, listing, may_last);
                    reply.message(&OpenOut { fh, open_flags, backing_id: 0 });
                }
                Err(errno) => {
                    reply.error(serving.errno(errno));
                    serving.core.server.give_back();
                }
            }
        });
    }

    pub(super) fn readdir(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &ReadIn, reply: Entries) {
        let (fh, offset) = (Fh(arg.fh), arg.offset);
        self.serve(Op::Readdir, &caller, self.weight_of(node), move |serving| {
            serving.names(caller.pid, node, fh, offset, reply);
        });
    }

    pub(super) fn readdirplus(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &ReadIn, reply: Entries) {
        let (fh, offset) = (Fh(arg.fh), arg.offset);
        self.serve(Op::Readdirplus, &caller, self.weight_of(node), move |serving| {
            serving.entries(&caller, node, fh, offset, reply);
        });
    }

    pub(super) fn releasedir(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &ReleaseIn, reply: Reply) {
        let (fh, late) = (Fh(arg.fh), self.reply_early(reply));
        self.serve(Op::Releasedir, &caller, self.weight_of(node), move |serving| {
            serving.core.server.tree.releasedir(fh);
            late.into_iter().for_each(Reply::done);
        });
    }

    pub(super) fn fsyncdir(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &FsyncIn, reply: Reply) {
        let (fh, data_only) = (Fh(arg.fh), arg.fsync_flags & fsync::FDATASYNC != 0);
        let weight = self.weight_of(node).takes(Load::Light).interruptible(&reply);
        self.serve(Op::Fsyncdir, &caller, weight, move |serving| {
            serving.empty(serving.core.server.tree.fsyncdir(fh, data_only), reply);
        });
    }
}

impl ConfiguredServer<'_> {
    /// Passes on the visible entries with the names under which they are shown; `.` and `..` without an admitted name.
    pub(super) fn readdir(
        &self,
        fh: Fh,
        offset: u64,
        mut take: impl FnMut(&DirEntry<'_>, Option<&Admitted<'_>>) -> ControlFlow<()>,
    ) -> Result<()> {
        Ok(self.tree.readdir(fh, offset, |entry| match entry.name.as_bytes() {
            b"." | b".." => take(entry, None),
            _ => match self.config.serve.gate.show(entry.name) {
                Some(shown) => take(&DirEntry { name: &shown.name, ..*entry }, Some(&shown.admitted)),
                None => ControlFlow::Continue(()),
            },
        })?)
    }
}

/// An entry of a directory in the format of the kernel, without its name.
fn dirent(entry: &DirEntry<'_>, kind: u32) -> Dirent {
    Dirent { ino: entry.ino, off: entry.next, namelen: 0, kind }
}

fn kind_of(found: &LookupEntry) -> u32 {
    dirent_kind(found.stat.st_mode)
}

impl RequestContext<'_> {
    /// The names in `dir` from `offset` on, as many as fit into the reply, for the thread `pid`.
    fn names(&self, pid: u32, dir: NodeId, fh: Fh, offset: u64, mut reply: Entries) {
        let tree = &self.core.server.tree;
        let mut told = 0;
        let done = self.server.readdir(fh, offset, |entry, name| {
            let kind = match (entry.kind, name) {
                (libc::DT_UNKNOWN, None) => libc::DT_DIR.into(),
                (libc::DT_UNKNOWN, Some(name)) => match tree.lookup(dir, name) {
                    Ok(found) => {
                        self.forget(found.node, 1);
                        kind_of(&found)
                    }
                    // It was removed meanwhile.
                    Err(_) => return ControlFlow::Continue(()),
                },
                (kind, _) => kind.into(),
            };
            if !reply.add(dirent(entry, kind), entry.name) {
                return ControlFlow::Break(());
            }
            told += 1;
            ControlFlow::Continue(())
        });
        self.core.readers.told(pid, dir, told);
        tree.note_listed(fh, told, 0);
        match done {
            Ok(()) => reply.done(),
            Err(failure) => reply.error(self.errno(failure)),
        }
    }

    /// The entries in `dir` from `offset` on. Entries have the attributes of their inodes where the reader wants them, or where the
    /// transport cannot leave them out.
    fn entries(&self, caller: &Caller, dir: NodeId, fh: Fh, offset: u64, mut reply: Entries) {
        let pid = caller.pid;
        let mut left = match reply.can_list_names() {
            true => self.core.readers.with_attributes(pid, dir, offset),
            false => usize::MAX,
        };
        let (mut given, mut told, mut failed) = (false, 0, None);
        let (mut with_attributes, mut lasting) = (0, 0);
        let done = self.server.readdir(fh, offset, |entry, name| {
            let Some(name) = name else {
                // The kernel uses nothing but the name of `.` and `..`.
                let added =
                    reply.add_found(&EntryOut::default(), dirent(entry, libc::DT_DIR.into()), entry.name);
                given |= added;
                return if added { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
            };
            if left == 0 && entry.kind != libc::DT_UNKNOWN {
                // Without a node id the kernel uses only the name.
                if !reply.add_found(&EntryOut::default(), dirent(entry, entry.kind.into()), entry.name) {
                    return ControlFlow::Break(());
                }
                (given, told) = (true, told + 1);
                return ControlFlow::Continue(());
            }
            left = left.saturating_sub(1);
            let found = match self.look_up_listed(dir, name) {
                Ok(Some(found)) => found,
                Ok(None) => return ControlFlow::Continue(()),
                Err(errno) => {
                    failed = Some(errno);
                    return ControlFlow::Break(());
                }
            };
            let is_written = self.core.backing.is_written(found.node);
            let kept = (!caller.uses_alias).then_some((dir, entry.name));
            let answer = self.entry_out(&found, kept, is_written);
            let dirent = Dirent { ino: found.stat.st_ino, ..dirent(entry, kind_of(&found)) };
            if !reply.add_found(&answer, dirent, entry.name) {
                // The kernel has not received the entry, so it counts no lookup.
                self.forget(found.node, 1);
                return ControlFlow::Break(());
            }
            given = true;
            with_attributes += 1;
            lasting += u32::from(answer.entry_valid.min(answer.attr_valid) >= LASTING.as_secs());
            ControlFlow::Continue(())
        });
        self.core.readers.told(pid, dir, told);
        self.core.server.tree.note_listed(fh, told + with_attributes, lasting);
        match (done, failed) {
            (Err(failure), _) => reply.error(self.errno(failure)),
            // The entries up to here are valid; the next request gets the error.
            (Ok(()), Some(errno)) if !given => reply.error(self.errno(errno)),
            (Ok(()), _) => reply.done(),
        }
        self.core.server.give_back();
    }

    /// Counts a lookup of the entry `name` of `dir` for a listing, and charges its descriptor to the user. `None` if it was removed
    /// meanwhile, or is the source itself, which cannot be a second node.
    fn look_up_listed(&self, dir: NodeId, name: &Admitted<'_>) -> nix::Result<Option<LookupEntry>> {
        match self.core.server.tree.lookup(dir, name).and_then(|found| self.charge(found)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::ENOENT | Errno::ELOOP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}
