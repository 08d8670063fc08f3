//! Open, create, forget, read and write.

use std::cell::RefCell;

use namegate_telemetry::metrics::Op;
use nix::errno::Errno;

use super::backing::OpenRequest;
use super::dispatch::TRANSFER;
use super::replies::{FoundEntry, OpenedNode, Responds, RespondsBytes, WrittenBytes};
use super::request_context::RequestContext;
use super::server::Result;
use crate::passthrough::{Caller, Fh, LookupEntry, NodeId, SetId};
use crate::workers::Domain;

impl RequestContext<'_> {
    pub(super) fn open(&self, caller: &Caller, node: NodeId, flags: i32, reply: impl Responds<OpenedNode>) {
        let (tree, backing) = (&self.core.server.tree, &self.core.backing);
        let opened = tree
            .open(caller, node, flags)
            .and_then(|fh| backing.open(tree, &OpenRequest { node, fh, flags }));
        match opened {
            Ok((opened, is_first_writer)) => {
                if is_first_writer {
                    // The kernel cached attributes while no client could change the file through a memory map.
                    self.forget_attributes(node);
                }
                reply.respond(opened);
            }
            Err(errno) => {
                reply.error(self.errno(errno));
                self.core.server.give_back();
            }
        }
    }

    /// Creates a file by `make`, which has opened it with `flags`. The kernel may cache its name if it `may_be_kept`.
    pub(super) fn create(
        &self,
        caller: &Caller,
        flags: i32,
        make: impl FnOnce() -> Result<(LookupEntry, Fh)>,
        may_be_kept: impl FnOnce() -> bool,
        reply: impl Responds<(FoundEntry, OpenedNode)>,
    ) {
        let (server, backing) = (&self.server, &self.core.backing);
        let tree = &server.tree;
        // Fail before the file is created.
        let may_be_opened = if backing.is_offered() { Ok(()) } else { tree.check_share(caller.uid) };
        let made = may_be_opened.map_err(Into::into).and_then(|()| make());
        let opened = made.and_then(|(entry, fh)| {
            let opening = OpenRequest { node: entry.node, fh, flags };
            match tree.charge(entry.node, caller.uid).and_then(|()| backing.open(tree, &opening)) {
                Ok((opened, _)) => Ok((entry, opened)),
                Err(errno) => {
                    // If opening failed, it is already closed.
                    tree.release(fh);
                    self.forget(entry.node, 1);
                    Err(errno.into())
                }
            }
        });
        match opened {
            Ok((entry, opened)) => {
                // The file is empty: before a change through a memory map it must grow, and the kernel then reads the attributes
                // again.
                reply.respond((server.timeouts().for_entry(&entry, may_be_kept(), false), opened));
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
            self.core.drop_in_pool(Op::Forget, mount.map_or(Domain::Own, Domain::Other), forgotten);
        }
    }

    pub(super) fn read(&self, fh: Fh, offset: u64, size: usize, reply: impl RespondsBytes) {
        let tree = &self.core.server.tree;
        let read = |buffer: &mut [u8]| match self.is_in_place() {
            true => tree.read_at_hand(fh, offset, buffer),
            false => tree.read(fh, offset, buffer),
        };
        with_buffer(size, |buffer| match read(buffer) {
            Ok(len) => reply.respond_bytes(&buffer[..len]),
            Err(Errno::EAGAIN) if self.is_in_place() => {
                self.continue_in_pool(Domain::Own, move |serving| serving.read(fh, offset, size, reply));
            }
            Err(errno) => reply.error(self.errno(errno)),
        });
    }

    pub(super) fn write(
        &self,
        (writer, set_id): (Option<&Caller>, SetId),
        fh: Fh,
        offset: u64,
        data: &[u8],
        reply: impl Responds<WrittenBytes>,
    ) {
        match self.core.server.tree.write(writer, fh, offset, data, set_id) {
            // The data came in one request, so its length fits.
            Ok(written) => reply.respond(WrittenBytes(written as u32)),
            Err(errno) => reply.error(self.errno(errno)),
        }
    }
}

/// Calls `with` with a buffer of this size, which this thread reuses: to allocate and clear a new one would take longer than to fill it.
fn with_buffer<T>(size: usize, with: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let result = with(&mut buffer[..size]);
        // A read of more is rare, and there can be hundreds of threads.
        if buffer.len() > TRANSFER {
            *buffer = Vec::new();
        }
        result
    })
}
