//! Open, create, forget, read and write.

use std::ffi::OsStr;

use fuser::{FileHandle, ReplyCreate, ReplyData, ReplyOpen, ReplyWrite};
use nix::errno::Errno;

use super::adapter::generation;
use super::backing::{OpenReply, OpenRequest};
use super::reply::RequestContext;
use super::translate::attributes;
use crate::passthrough::{Caller, Fh, NodeId, SetId};
use crate::telemetry::metrics::Op;
use crate::workers::Domain;

impl RequestContext<'_> {
    pub(super) fn open(&self, caller: &Caller, node: NodeId, flags: i32, reply: ReplyOpen) {
        let (tree, backing) = (&self.core.server.tree, &self.core.backing);
        let opened = tree.open(caller, node, flags).and_then(|fh| {
            let opened = backing.open(tree, &OpenRequest { node, fh, flags }, |fd| reply.open_backing(fd))?;
            Ok((FileHandle(fh.0), opened))
        });
        if matches!(&opened, Ok((_, OpenReply { is_first_writer: true, .. }))) {
            // The kernel cached attributes while no client could change the file through a memory map.
            self.forget_attributes(node);
        }
        match opened {
            Ok((fh, OpenReply { backing: Some(id), flags, .. })) => reply.opened_passthrough(fh, flags, &id),
            Ok((fh, OpenReply { backing: None, flags, .. })) => reply.opened(fh, flags),
            Err(errno) => {
                reply.error(self.errno(errno));
                self.core.server.give_back();
            }
        }
    }

    /// Creates a file `name` in `parent` and opens it with `flags`.
    pub(super) fn create(
        &self,
        caller: &Caller,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (server, backing) = (&self.server, &self.core.backing);
        let tree = &server.tree;
        // Fail before the file is created.
        let may_be_opened = if backing.is_offered() { Ok(()) } else { tree.check_share(caller.uid) };
        let made = may_be_opened
            .map_err(Into::into)
            .and_then(|()| server.do_create(caller, parent, name, mode, flags));
        let opened = made.and_then(|(entry, fh)| {
            let opening = OpenRequest { node: entry.node, fh, flags };
            let open = || backing.open(tree, &opening, |fd| reply.open_backing(fd));
            match tree.charge(entry.node, caller.uid).and_then(|()| open()) {
                Ok(opened) => Ok((entry, FileHandle(fh.0), opened)),
                Err(errno) => {
                    // If opening failed, it is already closed.
                    tree.release(fh);
                    self.forget(entry.node, 1);
                    Err(errno.into())
                }
            }
        });
        match opened {
            Ok((entry, fh, opened)) => {
                let (attr, generation) = (attributes(&entry.stat), generation(&entry));
                let may_be_kept = server.may_be_kept(parent, name);
                // The file is empty: before a change through a memory map it must grow, and the kernel then reads the attributes
                // again.
                let timeout = server.timeouts().for_both(&entry, may_be_kept, false);
                match opened.backing {
                    Some(id) => reply.created_passthrough(&timeout, &attr, generation, fh, opened.flags, &id),
                    None => reply.created(&timeout, &attr, generation, fh, opened.flags),
                }
            }
            Err(failure) => reply.error(self.errno(failure)),
        }
        self.core.server.give_back();
    }

    /// Subtracts lookups of a node.
    pub(super) fn forget(&self, node: NodeId, lookups: u64) {
        let tree = &self.core.server.tree;
        let mount = tree.mount(node);
        let forgotten = self.core.backing.forget(node, || tree.take_back(node, lookups));
        if forgotten.takes_long() {
            self.core.drop_beside(Op::Forget, mount.map_or(Domain::Own, Domain::Other), forgotten);
        }
    }

    pub(super) fn read(&self, fh: Fh, offset: u64, size: usize, reply: ReplyData) {
        let mut buffer = vec![0; size];
        let tree = &self.core.server.tree;
        let read = match self.is_in_place() {
            true => tree.read_at_hand(fh, offset, &mut buffer),
            false => tree.read(fh, offset, &mut buffer),
        };
        match read {
            Ok(len) => reply.data(&buffer[..len]),
            Err(Errno::EAGAIN) if self.is_in_place() => {
                self.hand_on(Domain::Own, move |serving| serving.read(fh, offset, size, reply));
            }
            Err(errno) => reply.error(self.errno(errno)),
        }
    }

    pub(super) fn write(
        &self,
        (writer, set_id): (Option<&Caller>, SetId),
        fh: Fh,
        offset: u64,
        data: &[u8],
        reply: ReplyWrite,
    ) {
        match self.core.server.tree.write(writer, fh, offset, data, set_id) {
            // The data came in one request, so its length fits.
            Ok(written) => reply.written(written as u32),
            Err(errno) => reply.error(self.errno(errno)),
        }
    }
}
