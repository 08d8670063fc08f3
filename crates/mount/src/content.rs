//! Open, read, write and close files.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::sync::Arc;

use namegate_telemetry::metrics::Op;
use namegate_wire::Reply;
use namegate_wire::abi::{
    CopyFileRangeIn, FallocateIn, FlushIn, FsyncIn, LseekIn, LseekOut, OpenIn, ReadIn, ReleaseIn, WriteIn,
    WriteOut, fsync, write,
};
use nix::errno::Errno;
use zerocopy::IntoBytes;

use super::backing::OpenRequest;
use super::dispatch::TRANSFER;
use super::node_number::node as node_of;
use super::request_context::RequestContext;
use super::request_core::RequestCore;
use super::server::Result;
use crate::passthrough::{Caller, CopyRange, Fh, LookupEntry, NodeId, SetId};
use crate::workers::{Domain, Load};

/// A write without its data.
#[derive(Clone, Copy)]
struct WriteRequest {
    fh: Fh,
    offset: u64,
    /// `None` for data from the page cache, whose writer is unknown.
    writer: Option<Caller>,
    set_id: SetId,
}

impl RequestCore {
    /// Replies to a request before it is served: no client waits for the reply, but the kernel limits the number of such requests in
    /// progress. Returns the reply if a successor would not know then that the request is to be served.
    pub(super) fn reply_early(&self, reply: Reply) -> Option<Reply> {
        match self.journal.replies_last() {
            true => Some(reply),
            false => {
                reply.done();
                None
            }
        }
    }

    pub(super) fn open(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &OpenIn, reply: Reply) {
        let flags = arg.flags.cast_signed();
        self.serve(Op::Open, &caller, self.weight_of(node), move |serving| {
            serving.open(&caller, node, flags, reply);
        });
    }

    pub(super) fn read(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &ReadIn, reply: Reply) {
        let (fh, offset, size) = (Fh(arg.fh), arg.offset, arg.size as usize);
        let weight = self.weight_of(node).takes_if(size > TRANSFER, Load::Heavy);
        self.serve(Op::Read, &caller, weight, move |serving| serving.read(fh, offset, size, reply));
    }

    pub(super) fn write(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        arg: &WriteIn,
        data: &[u8],
        reply: Reply,
    ) {
        let has = |flag: u32| arg.write_flags & flag != 0;
        let writing = WriteRequest {
            fh: Fh(arg.fh),
            offset: arg.offset,
            writer: (!has(write::CACHE)).then_some(caller),
            set_id: if has(write::KILL_SUIDGID) { SetId::Cleared } else { SetId::Kept },
        };
        // O_SYNC includes the bit of O_DSYNC.
        let is_synchronous = arg.flags.cast_signed() & libc::O_DSYNC != 0;
        // A long write too is served here if it is not known to take long: another thread would need a copy of the data, which takes
        // as long as the write.
        let weight = self.weight_of(node).takes_if(is_synchronous, Load::Light);
        let request = self.begin(Op::Write, caller.uid, weight);
        match request.lane {
            None => request.run_inline(|serving| serving.write(&writing, data, reply)),
            Some(lane) => {
                let data = data[..self.accepted_len(lane, data.len())].to_vec();
                request.run_in_pool(lane, data.len(), move |serving| serving.write(&writing, &data, reply));
            }
        }
    }

    /// A client, with the locks of an owner, closes one of its descriptors.
    pub(super) fn flush(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &FlushIn, reply: Reply) {
        let (fh, owner) = (Fh(arg.fh), arg.lock_owner);
        self.serve(Op::Flush, &caller, self.weight_of(node), move |serving| {
            serving.core.unlock_all(fh, owner);
            serving.empty(serving.core.server.tree.flush(fh), reply);
        });
    }

    pub(super) fn release(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &ReleaseIn, reply: Reply) {
        let fh = Fh(arg.fh);
        let weight = self.weight_of(node).takes_if(self.server.tree.takes_long_to_release(fh), Load::Closing);
        let late = self.reply_early(reply);
        self.serve(Op::Release, &caller, weight, move |serving| {
            serving.core.unlock_released(fh);
            serving.core.backing.release(&serving.core.server.tree, node, fh);
            late.into_iter().for_each(Reply::done);
        });
    }

    pub(super) fn fsync(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &FsyncIn, reply: Reply) {
        let (fh, data_only) = (Fh(arg.fh), arg.fsync_flags & fsync::FDATASYNC != 0);
        let weight = self.weight_of(node).takes(Load::Light).interruptible(&reply);
        self.serve(Op::Fsync, &caller, weight, move |serving| {
            serving.empty(serving.core.server.tree.fsync(fh, data_only), reply);
        });
    }

    pub(super) fn fallocate(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &FallocateIn, reply: Reply) {
        let FallocateIn { fh, offset, length, mode, .. } = *arg;
        let weight = self.weight_of(node).takes(Load::Heavy).interruptible(&reply);
        self.serve(Op::Fallocate, &caller, weight, move |serving| {
            let tree = &serving.core.server.tree;
            serving.empty(tree.fallocate(&caller, Fh(fh), mode.cast_signed(), offset, length), reply);
        });
    }

    pub(super) fn lseek(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &LseekIn, reply: Reply) {
        let (fh, offset, whence) = (Fh(arg.fh), arg.offset.cast_signed(), arg.whence.cast_signed());
        self.serve(Op::Lseek, &caller, self.weight_of(node), move |serving| {
            match serving.core.server.tree.lseek(fh, offset, whence) {
                Ok(offset) => reply.message(&LseekOut { offset: offset.cast_unsigned() }),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    pub(super) fn copy_file_range(
        self: &Arc<Self>,
        caller: Caller,
        from: NodeId,
        arg: &CopyFileRangeIn,
        reply: Reply,
    ) {
        let range = CopyRange {
            from: Fh(arg.fh_in),
            from_offset: arg.off_in,
            to: Fh(arg.fh_out),
            to_offset: arg.off_out,
            len: arg.len,
        };
        let weight = self.on_both(from, node_of(arg.nodeid_out)).takes(Load::Heavy).interruptible(&reply);
        self.serve(Op::CopyFileRange, &caller, weight, move |serving| {
            match serving.core.server.tree.copy_file_range(&caller, &range) {
                // The backing tree limits the length of one copy, so it fits.
                Ok(copied) => reply.message(&WriteOut { size: copied as u32, padding: 0 }),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }
}

impl RequestContext<'_> {
    fn open(&self, caller: &Caller, node: NodeId, flags: i32, reply: Reply) {
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
                reply.message(&opened.out());
            }
            Err(errno) => {
                reply.error(self.errno(errno));
                self.core.server.give_back();
            }
        }
    }

    /// Creates a file by `make`, which has opened it with `flags`. Its name in a directory is `name`, if it has one.
    pub(super) fn create(
        &self,
        caller: &Caller,
        flags: i32,
        make: impl FnOnce() -> Result<(LookupEntry, Fh)>,
        name: Option<(NodeId, &OsStr)>,
        reply: Reply,
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
                let found = self.entry_out(&entry, name, false);
                reply.parts(&[found.as_bytes(), opened.out().as_bytes()]);
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
        if forgotten.is_gone() {
            self.core.server.coherence.forget(node);
        }
        if forgotten.takes_long() {
            self.core.drop_in_pool(Op::Forget, mount.map_or(Domain::Own, Domain::Other), forgotten);
        }
    }

    fn read(&self, fh: Fh, offset: u64, size: usize, reply: Reply) {
        let tree = &self.core.server.tree;
        let read = |buffer: &mut [u8]| match self.is_in_place() {
            true => tree.read_at_hand(fh, offset, buffer),
            false => tree.read(fh, offset, buffer),
        };
        with_buffer(size, |buffer| match read(buffer) {
            Ok(len) => reply.bytes(&buffer[..len]),
            Err(Errno::EAGAIN) if self.is_in_place() => {
                self.continue_in_pool(Domain::Own, move |serving| serving.read(fh, offset, size, reply));
            }
            Err(errno) => reply.error(self.errno(errno)),
        });
    }

    fn write(&self, request: &WriteRequest, data: &[u8], reply: Reply) {
        let WriteRequest { fh, offset, writer, set_id } = request;
        match self.core.server.tree.write(writer.as_ref(), *fh, *offset, data, *set_id) {
            // The data came in one request, so its length fits.
            Ok(written) => reply.message(&WriteOut { size: written as u32, padding: 0 }),
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
