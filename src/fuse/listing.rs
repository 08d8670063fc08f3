//! Directories that are listed: names alone, or names with attributes, each of which is a lookup.

use std::ops::ControlFlow;
use std::time::Duration;

use fuser::{FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use nix::errno::Errno;

use super::adapter::generation;
use super::reply::RequestContext;
use super::translate::{attributes, bare, entry_type, file_type};
use crate::passthrough::{ELSEWHERE, Fh, NodeId, Reach};

impl RequestContext<'_> {
    /// The names in `dir` from `offset` on, as far as there is room, for the thread `pid`.
    pub(super) fn names(&self, pid: u32, dir: NodeId, fh: Fh, offset: u64, mut reply: ReplyDirectory) {
        let tree = &self.core.server.tree;
        let mut told = 0;
        let done = self.server.do_readdir(fh, offset, |entry, name| {
            let kind = match (entry_type(entry.kind), name) {
                (Some(kind), _) => kind,
                (None, None) => FileType::Directory,
                (None, Some(name)) => match tree.lookup(dir, name) {
                    Ok(found) => {
                        tree.forget(found.node, 1);
                        file_type(found.stat.st_mode)
                    }
                    // It has gone since.
                    Err(_) => return ControlFlow::Continue(()),
                },
            };
            if reply.add(INodeNo(entry.ino), entry.next, kind, entry.name) {
                return ControlFlow::Break(());
            }
            told += 1;
            ControlFlow::Continue(())
        });
        self.core.readers.told(pid, dir, told);
        match done {
            Ok(()) => reply.ok(),
            Err(failure) => reply.error(self.errno(failure)),
        }
    }

    /// The same with the attributes of what they lead to.
    pub(super) fn entries(&self, pid: u32, dir: NodeId, fh: Fh, offset: u64, mut reply: ReplyDirectoryPlus) {
        let tree = &self.core.server.tree;
        let mut left = self.core.readers.with_attributes(pid, dir, offset);
        let (mut given, mut failed) = (false, None);
        let done = self.server.do_readdir(fh, offset, |entry, name| {
            if name.is_some() {
                // An empty reply would be the end of the directory.
                if left == 0 && given {
                    return ControlFlow::Break(());
                }
                left = left.saturating_sub(1);
            }
            let mut is_near = true;
            let mut look_up = |name| {
                let found = match tree.lookup_within(Reach::Near, dir, name) {
                    // Whether another file system answers is a matter for whoever goes there, not for whoever lists names.
                    Err(ELSEWHERE) => {
                        is_near = false;
                        tree.glance(dir, name)?
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
                // It has gone since, or is the source itself once more, which has no second place.
                Some(Err(Errno::ENOENT | Errno::ELOOP)) => return ControlFlow::Continue(()),
                Some(Err(errno)) => {
                    failed = Some(errno);
                    return ControlFlow::Break(());
                }
            };
            let (attr, generation, timeout) = match &found {
                Some(found) => {
                    let server = &self.server;
                    let may_be_kept = server.may_be_kept(dir, entry.name);
                    let is_written = self.core.backing.is_written(found.node);
                    let timeout = match is_near {
                        true => server.timeouts().for_both(found, may_be_kept, is_written),
                        false => Duration::ZERO,
                    };
                    (attributes(&found.stat), generation(found), timeout)
                }
                // The kernel keeps nothing of `.` and `..`.
                None => (bare(entry.ino, entry.kind), Generation(0), Duration::ZERO),
            };
            if reply.add(attr.ino, entry.next, entry.name, &timeout, &attr, generation) {
                // The kernel has not got it, and counts nothing.
                if let Some(found) = found {
                    tree.forget(found.node, 1);
                }
                return ControlFlow::Break(());
            }
            given = true;
            ControlFlow::Continue(())
        });
        match (done, failed) {
            (Err(failure), _) => reply.error(self.errno(failure)),
            // What was given stands; the failure comes back with the next request.
            (Ok(()), Some(errno)) if !given => reply.error(self.errno(errno)),
            (Ok(()), _) => reply.ok(),
        }
        self.core.server.give_back();
    }
}
