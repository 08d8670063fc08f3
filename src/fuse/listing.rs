//! Directory listings: names alone, or names with attributes, each of which counts as a lookup.

use std::ops::ControlFlow;
use std::time::Duration;

use nix::errno::Errno;

use super::replies::{EntryList, ListedEntry, NameList};
use super::request_context::RequestContext;
use crate::passthrough::{DirEntry, ELSEWHERE, Fh, LookupEntry, NodeId, Reach};

fn listed<'d>(entry: &DirEntry<'d>, kind: u8) -> ListedEntry<'d> {
    ListedEntry { ino: entry.ino, next: entry.next, kind, name: entry.name }
}

impl RequestContext<'_> {
    /// The names in `dir` from `offset` on, as many as fit into the reply, for the thread `pid`.
    pub(super) fn names(&self, pid: u32, dir: NodeId, fh: Fh, offset: u64, mut reply: impl NameList) {
        let tree = &self.core.server.tree;
        let mut told = 0;
        let done = self.server.do_readdir(fh, offset, |entry, name| {
            let kind = match (entry.kind, name) {
                (libc::DT_UNKNOWN, None) => libc::DT_DIR,
                (libc::DT_UNKNOWN, Some(name)) => match tree.lookup(dir, name) {
                    Ok(found) => {
                        tree.forget(found.node, 1);
                        kind_of(&found)
                    }
                    // It was removed meanwhile.
                    Err(_) => return ControlFlow::Continue(()),
                },
                (kind, _) => kind,
            };
            if !reply.add(&listed(entry, kind)) {
                return ControlFlow::Break(());
            }
            told += 1;
            ControlFlow::Continue(())
        });
        self.core.readers.told(pid, dir, told);
        match done {
            Ok(()) => reply.done(),
            Err(failure) => reply.error(self.errno(failure)),
        }
    }

    /// The entries in `dir` from `offset` on. Entries have the attributes of their inodes where the reader wants them.
    pub(super) fn entries<R: EntryList>(&self, pid: u32, dir: NodeId, fh: Fh, offset: u64, mut reply: R) {
        let mut left = self.core.readers.with_attributes(pid, dir, offset);
        let (mut given, mut told, mut failed) = (false, 0, None);
        let done = self.server.do_readdir(fh, offset, |entry, name| {
            if name.is_some() {
                if left == 0 && R::CAN_NAME_ONLY && entry.kind != libc::DT_UNKNOWN {
                    if !reply.add(&listed(entry, entry.kind), None) {
                        return ControlFlow::Break(());
                    }
                    (given, told) = (true, told + 1);
                    return ControlFlow::Continue(());
                }
                // An empty reply would mean the end of the directory.
                if left == 0 && given && !R::CAN_NAME_ONLY {
                    return ControlFlow::Break(());
                }
                left = left.saturating_sub(1);
            }
            let mut is_near = true;
            let tree = &self.core.server.tree;
            let mut look_up = |name| {
                let found = match tree.lookup_within(Reach::SameMountOnly, dir, name) {
                    // A listing must not wait for another file system that does not answer; only access to that file system
                    // may.
                    Err(ELSEWHERE) => {
                        is_near = false;
                        tree.lookup_cached(dir, name)?
                    }
                    found => found?,
                };
                match tree.charge(found.node, self.user()) {
                    Ok(()) => Ok(found),
                    Err(errno) => {
                        tree.forget(found.node, 1);
                        Err(errno)
                    }
                }
            };
            let found = match name.map(&mut look_up) {
                None => None,
                Some(Ok(found)) => Some(found),
                // It was removed meanwhile, or it is the source itself, which cannot be a second node.
                Some(Err(Errno::ENOENT | Errno::ELOOP)) => return ControlFlow::Continue(()),
                Some(Err(errno)) => {
                    failed = Some(errno);
                    return ControlFlow::Break(());
                }
            };
            let kind = found.as_ref().map_or(libc::DT_DIR, kind_of);
            let ino = found.as_ref().map_or(entry.ino, |found| found.stat.st_ino);
            let answer = found.map(|found| {
                let may_be_kept = self.server.may_be_kept(dir, entry.name);
                let is_written = self.core.backing.is_written(found.node);
                let mut answer = self.server.timeouts().for_entry(&found, may_be_kept, is_written);
                if !is_near {
                    (answer.name_timeout, answer.attr_timeout) = (Duration::ZERO, Duration::ZERO);
                }
                answer
            });
            if !reply.add(&ListedEntry { ino, ..listed(entry, kind) }, answer.as_ref()) {
                // The kernel has not received the entry, so it counts no lookup.
                if let Some(found) = found {
                    tree.forget(found.node, 1);
                }
                return ControlFlow::Break(());
            }
            given = true;
            ControlFlow::Continue(())
        });
        self.core.readers.told(pid, dir, told);
        match (done, failed) {
            (Err(failure), _) => reply.error(self.errno(failure)),
            // The entries up to here are valid; the next request gets the error.
            (Ok(()), Some(errno)) if !given => reply.error(self.errno(errno)),
            (Ok(()), _) => reply.done(),
        }
        self.core.server.give_back();
    }
}

/// The type in a mode, as a `DT_` constant: IFTODT of dirent.h.
fn kind_of(found: &LookupEntry) -> u8 {
    ((found.stat.st_mode & libc::S_IFMT) >> 12) as u8
}
