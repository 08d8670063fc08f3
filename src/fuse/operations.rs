//! One method for each operation: determines the weight, calls the server, sends the reply. Both transports end here.
//!
//! These operations are not served: `access` (the kernel checks permissions itself), `bmap` (for block devices only) and `poll`
//! (regular files are always ready). Locks are in `locks`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_sys::stat::Time;
use namegate_telemetry::audit::WHY_ATTRIBUTE;
use namegate_telemetry::metrics::Op;
use nix::sys::statvfs::Statvfs;

use super::RequestFailure;
use super::dispatch::{RequestCore, TRANSFER, Weight};
use super::replies::{
    AttributeSize, EntryList, FileOffset, FoundEntry, IoctlOutput, NameList, NodeAttributes, OpenedNode,
    Responds, RespondsBytes, WrittenBytes,
};
use super::request_context::RequestContext;
use crate::passthrough::{Caller, Changes, CopyRange, ELSEWHERE, Fh, NodeId, OpenNode, SetId};
use crate::state::journal;
use crate::workers::{Domain, Load};

/// The arguments of a WRITE request, without its data.
pub(super) struct WriteRequest {
    pub(super) node: NodeId,
    pub(super) fh: Fh,
    pub(super) offset: u64,
    /// Whether the data comes from the page cache, so that its writer is unknown.
    pub(super) is_cached: bool,
    /// Whether set-id bits are cleared.
    pub(super) clears_set_id: bool,
    /// Flags of open(2).
    pub(super) open_flags: i32,
}

/// Replies to a request before it is served: no client waits for the reply, but the kernel limits the number of such requests in
/// progress. Returns the reply if a successor would not know then that the request is to be served.
fn reply_early<R: Responds<()>>(reply: R) -> Option<R> {
    match journal::unique() {
        0 => {
            reply.respond(());
            None
        }
        _ => Some(reply),
    }
}

impl RequestCore {
    fn serve_on(
        self: &Arc<Self>,
        op: Op,
        caller: &Caller,
        weight: Weight,
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        self.serve((op, caller.uid, weight), job);
    }

    pub(super) fn lookup(
        self: &Arc<Self>,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        reply: impl Responds<FoundEntry>,
    ) {
        let (pid, name) = (caller.pid, name.to_owned());
        self.serve_on(Op::Lookup, caller, self.weight_of(parent), move |serving| {
            serving.core.readers.looked_up(pid, parent);
            match serving.server.do_lookup(serving.reach(), parent, &name) {
                Err(RequestFailure::Backing(ELSEWHERE)) => {
                    // The mount is known only after the lookup.
                    serving.continue_in_pool(Domain::Other(!parent.0), move |serving| {
                        let found = serving.server.do_lookup(serving.reach(), parent, &name);
                        serving.entry(parent, &name, found, reply);
                    });
                }
                found => serving.entry(parent, &name, found, reply),
            }
        });
    }

    /// Subtracts lookups of nodes, always in this thread: this needs only memory, except for dropping removed nodes.
    pub(super) fn forget(self: &Arc<Self>, nodes: impl Iterator<Item = (NodeId, u64)>) {
        // The kernel sends this request for no user.
        let request = self.begin(Op::Forget, 0, self.weight_of(NodeId::ROOT));
        request.run_in_batch(|serving| nodes.for_each(|(node, lookups)| serving.forget(node, lookups)));
    }

    pub(super) fn getattr(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        reply: impl Responds<NodeAttributes>,
    ) {
        let weight = self.weight_of(node).takes_if(node == NodeId::ROOT, Load::Probe);
        self.serve_on(Op::Getattr, caller, weight, move |serving| {
            serving.attr(node, serving.core.server.tree.getattr(node), reply);
        });
    }

    pub(super) fn statx(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        reply: impl Responds<(NodeAttributes, Option<Time>)>,
    ) {
        let weight = self.weight_of(node).takes_if(node == NodeId::ROOT, Load::Probe);
        self.serve_on(Op::Statx, caller, weight, move |serving| match serving.core.server.tree.statx(node) {
            Ok((stat, created)) => reply.respond((serving.attributes(node, stat), created)),
            Err(errno) => reply.error(serving.errno(errno)),
        });
    }

    pub(super) fn setattr(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        fh: Option<Fh>,
        changes: Changes,
        reply: impl Responds<NodeAttributes>,
    ) {
        let weight = self.weight_of(node);
        let cuts_off = changes.size.is_some() && self.is_local(weight) && self.server.tree.is_large(node);
        // What was written through a memory map is older than the time that is set now.
        let writes_back = changes.restores_mtime()
            && self.is_local(weight)
            && !journal::is_catching_up()
            && self.server.tree.may_be_mapped(node)
            && !self.backing.is_written(node);
        // Not in a lane of writes, for which it waits.
        let weight = weight.takes_if(cuts_off, Load::Light).takes_if(writes_back, Load::Closing);
        self.serve_on(Op::Setattr, &caller, weight, move |serving| {
            if writes_back {
                serving.write_back(node);
            }
            let set = serving.core.server.tree.setattr(&caller, node, fh, &changes);
            if changes.mode.is_some_and(|mode| mode & (libc::S_ISUID | libc::S_ISGID) != 0) {
                // From now on, clients that open the file must write with their own rights.
                serving.core.backing.revoke(&serving.core.server.tree, node);
            }
            serving.attr(node, set, reply);
        });
    }

    pub(super) fn readlink(self: &Arc<Self>, caller: &Caller, node: NodeId, reply: impl RespondsBytes) {
        self.serve_on(Op::Readlink, caller, self.weight_of(node), move |serving| {
            match serving.core.server.tree.readlink(node) {
                Ok(target) => reply.respond_bytes(target.as_encoded_bytes()),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    pub(super) fn mknod(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        (mode, rdev): (u32, u32),
        reply: impl Responds<FoundEntry>,
    ) {
        let name = name.to_owned();
        self.serve_on(Op::Mknod, &caller, self.weight_of(parent), move |serving| {
            let made = serving.server.do_mknod(&caller, parent, &name, mode, rdev);
            serving.entry(parent, &name, made, reply);
        });
    }

    pub(super) fn mkdir(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        reply: impl Responds<FoundEntry>,
    ) {
        let name = name.to_owned();
        self.serve_on(Op::Mkdir, &caller, self.weight_of(parent), move |serving| {
            let made = serving.server.do_mkdir(&caller, parent, &name, mode);
            serving.entry(parent, &name, made, reply);
        });
    }

    pub(super) fn symlink(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        target: &OsStr,
        reply: impl Responds<FoundEntry>,
    ) {
        let (name, target) = (name.to_owned(), target.to_owned());
        self.serve_on(Op::Symlink, &caller, self.weight_of(parent), move |serving| {
            let made = serving.server.do_symlink(&caller, parent, &name, &target);
            serving.entry(parent, &name, made, reply);
        });
    }

    pub(super) fn link(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        (parent, name): (NodeId, &OsStr),
        reply: impl Responds<FoundEntry>,
    ) {
        let name = name.to_owned();
        self.serve_on(Op::Link, &caller, self.on_both(node, parent), move |serving| {
            let made = serving.server.do_link(&caller, node, parent, &name);
            serving.entry(parent, &name, made, reply);
        });
    }

    pub(super) fn unlink(
        self: &Arc<Self>,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        reply: impl Responds<()>,
    ) {
        let name = name.to_owned();
        self.serve_on(Op::Unlink, caller, self.weight_of(parent), move |serving| {
            serving.empty(serving.server.do_unlink(serving.user(), parent, &name), reply);
        });
    }

    pub(super) fn rmdir(
        self: &Arc<Self>,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        reply: impl Responds<()>,
    ) {
        let name = name.to_owned();
        self.serve_on(Op::Rmdir, caller, self.weight_of(parent), move |serving| {
            serving.empty(serving.server.do_rmdir(serving.user(), parent, &name), reply);
        });
    }

    pub(super) fn rename(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        (new_parent, new_name): (NodeId, &OsStr),
        flags: u32,
        reply: impl Responds<()>,
    ) {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        self.serve_on(Op::Rename, &caller, self.on_both(parent, new_parent), move |serving| {
            let (from, to) = ((parent, &*name), (new_parent, &*new_name));
            serving.empty(serving.server.do_rename(&caller, from, to, flags), reply);
        });
    }

    pub(super) fn open(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        flags: i32,
        reply: impl Responds<OpenedNode>,
    ) {
        self.serve_on(Op::Open, &caller, self.weight_of(node), move |serving| {
            serving.open(&caller, node, flags, reply);
        });
    }

    pub(super) fn create(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        flags: i32,
        reply: impl Responds<(FoundEntry, OpenedNode)>,
    ) {
        let name = name.to_owned();
        self.serve_on(Op::Create, &caller, self.weight_of(parent), move |serving| {
            let server = &serving.server;
            let make = || server.do_create(&caller, parent, &name, mode, flags);
            serving.create(&caller, flags, make, || server.may_be_kept(parent, &name), reply);
        });
    }

    /// Creates a file without a name: there is no name to check.
    pub(super) fn tmpfile(
        self: &Arc<Self>,
        caller: Caller,
        parent: NodeId,
        mode: u32,
        flags: i32,
        reply: impl Responds<(FoundEntry, OpenedNode)>,
    ) {
        self.serve_on(Op::Tmpfile, &caller, self.weight_of(parent), move |serving| {
            let tree = &serving.core.server.tree;
            let make = || Ok(tree.tmpfile(&caller, parent, mode, flags)?);
            serving.create(&caller, flags, make, || false, reply);
        });
    }

    pub(super) fn read(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        fh: Fh,
        (offset, size): (u64, u32),
        reply: impl RespondsBytes,
    ) {
        let size = size as usize;
        let weight = self.weight_of(node).takes_if(size > TRANSFER, Load::Heavy);
        self.serve_on(Op::Read, caller, weight, move |serving| serving.read(fh, offset, size, reply));
    }

    pub(super) fn write(
        self: &Arc<Self>,
        caller: Caller,
        request: &WriteRequest,
        data: &[u8],
        reply: impl Responds<WrittenBytes>,
    ) {
        let &WriteRequest { node, fh, offset, is_cached, clears_set_id, open_flags } = request;
        let set_id = if clears_set_id { SetId::Cleared } else { SetId::Kept };
        let writer = (!is_cached).then_some(caller);
        // O_SYNC includes the bit of O_DSYNC.
        let is_synchronous = open_flags & libc::O_DSYNC != 0;
        // A long write too is served here if it is not known to take long: another thread would need a copy of the data, which takes
        // as long as the write.
        let weight = self.weight_of(node).takes_if(is_synchronous, Load::Light);
        let request = self.begin(Op::Write, caller.uid, weight);
        match request.lane {
            None => request
                .run_inline(|serving| serving.write((writer.as_ref(), set_id), fh, offset, data, reply)),
            Some(lane) => {
                let data = data[..self.accepted_len(lane, data.len())].to_vec();
                request.run_in_pool(lane, data.len(), move |serving| {
                    serving.write((writer.as_ref(), set_id), fh, offset, &data, reply);
                });
            }
        }
    }

    /// A client, with the locks of `owner`, closes one of its descriptors.
    pub(super) fn flush(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        fh: Fh,
        owner: u64,
        reply: impl Responds<()>,
    ) {
        self.serve_on(Op::Flush, caller, self.weight_of(node), move |serving| {
            serving.core.unlock_all(fh, owner);
            serving.empty(serving.core.server.tree.flush(fh), reply);
        });
    }

    pub(super) fn release(self: &Arc<Self>, caller: &Caller, node: NodeId, fh: Fh, reply: impl Responds<()>) {
        let weight = self.weight_of(node).takes_if(self.server.tree.takes_long_to_release(fh), Load::Closing);
        let late = reply_early(reply);
        self.serve_on(Op::Release, caller, weight, move |serving| {
            serving.core.unlock_released(fh);
            serving.core.backing.release(&serving.core.server.tree, node, fh);
            late.into_iter().for_each(|reply| reply.respond(()));
        });
    }

    pub(super) fn fsync(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        fh: Fh,
        data_only: bool,
        reply: impl Responds<()>,
    ) {
        let weight = self.weight_of(node).takes(Load::Light).interruptible(&reply);
        self.serve_on(Op::Fsync, caller, weight, move |serving| {
            serving.empty(serving.core.server.tree.fsync(fh, data_only), reply);
        });
    }

    pub(super) fn opendir(self: &Arc<Self>, caller: &Caller, node: NodeId, reply: impl Responds<OpenedNode>) {
        let pid = caller.pid;
        self.serve_on(Op::Opendir, caller, self.weight_of(node), move |serving| {
            match serving.core.server.tree.opendir(node, serving.user()) {
                Ok((fh, listing)) => {
                    let flags = serving.core.readers.opens(pid, node).flags(listing);
                    reply.respond(OpenedNode { fh, flags, backing: None });
                }
                Err(errno) => {
                    reply.error(serving.errno(errno));
                    serving.core.server.give_back();
                }
            }
        });
    }

    pub(super) fn readdir(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        fh: Fh,
        offset: u64,
        reply: impl NameList,
    ) {
        let pid = caller.pid;
        self.serve_on(Op::Readdir, caller, self.weight_of(node), move |serving| {
            serving.names(pid, node, fh, offset, reply);
        });
    }

    pub(super) fn readdirplus(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        fh: Fh,
        offset: u64,
        reply: impl EntryList,
    ) {
        let pid = caller.pid;
        self.serve_on(Op::Readdirplus, caller, self.weight_of(node), move |serving| {
            serving.entries(pid, node, fh, offset, reply);
        });
    }

    pub(super) fn releasedir(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        fh: Fh,
        reply: impl Responds<()>,
    ) {
        let late = reply_early(reply);
        self.serve_on(Op::Releasedir, caller, self.weight_of(node), move |serving| {
            serving.core.server.tree.releasedir(fh);
            late.into_iter().for_each(|reply| reply.respond(()));
        });
    }

    pub(super) fn fsyncdir(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        fh: Fh,
        data_only: bool,
        reply: impl Responds<()>,
    ) {
        let weight = self.weight_of(node).takes(Load::Light).interruptible(&reply);
        self.serve_on(Op::Fsyncdir, caller, weight, move |serving| {
            serving.empty(serving.core.server.tree.fsyncdir(fh, data_only), reply);
        });
    }

    pub(super) fn statfs(self: &Arc<Self>, caller: &Caller, node: NodeId, reply: impl Responds<Statvfs>) {
        // The health check sends this request.
        let weight = self.weight_of(node).takes_if(node == NodeId::ROOT, Load::Probe);
        self.serve_on(Op::Statfs, caller, weight, move |serving| {
            match serving.core.server.tree.statfs(node) {
                Ok(stat) => {
                    if let Some(source) = serving.core.source.get().filter(|_| node == NodeId::ROOT) {
                        source.note_space(&stat);
                    }
                    reply.respond(stat);
                }
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    pub(super) fn setxattr(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
        reply: impl Responds<()>,
    ) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.serve_on(Op::Setxattr, &caller, self.weight_of(node), move |serving| {
            let set = serving.core.server.tree.setxattr(&caller, node, &name, &value, flags);
            serving.empty(set, reply);
        });
    }

    pub(super) fn getxattr(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        (name, size): (&OsStr, u32),
        reply: impl Responds<AttributeSize> + RespondsBytes,
    ) {
        let (name, uid) = (name.to_owned(), caller.uid);
        self.serve_on(Op::Getxattr, caller, self.weight_of(node), move |serving| {
            if name.as_bytes().starts_with(WHY_ATTRIBUTE.as_bytes()) {
                return serving.xattr(size, reply, |value| serving.core.server.why(&name, uid, value));
            }
            let tree = &serving.core.server.tree;
            serving.xattr(size, reply, |value| tree.getxattr(node, &name, value));
        });
    }

    pub(super) fn listxattr(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        size: u32,
        reply: impl Responds<AttributeSize> + RespondsBytes,
    ) {
        self.serve_on(Op::Listxattr, &caller, self.weight_of(node), move |serving| {
            let tree = &serving.core.server.tree;
            serving.xattr(size, reply, |names| tree.listxattr(&caller, node, names));
        });
    }

    pub(super) fn removexattr(
        self: &Arc<Self>,
        caller: &Caller,
        node: NodeId,
        name: &OsStr,
        reply: impl Responds<()>,
    ) {
        let name = name.to_owned();
        self.serve_on(Op::Removexattr, caller, self.weight_of(node), move |serving| {
            serving.empty(serving.core.server.tree.removexattr(node, &name), reply);
        });
    }

    pub(super) fn fallocate(
        self: &Arc<Self>,
        caller: Caller,
        (node, fh): (NodeId, Fh),
        mode: i32,
        (offset, len): (u64, u64),
        reply: impl Responds<()>,
    ) {
        let weight = self.weight_of(node).takes(Load::Heavy).interruptible(&reply);
        self.serve_on(Op::Fallocate, &caller, weight, move |serving| {
            serving.empty(serving.core.server.tree.fallocate(&caller, fh, mode, offset, len), reply);
        });
    }

    pub(super) fn lseek(
        self: &Arc<Self>,
        caller: &Caller,
        (node, fh): (NodeId, Fh),
        offset: i64,
        whence: i32,
        reply: impl Responds<FileOffset>,
    ) {
        self.serve_on(Op::Lseek, caller, self.weight_of(node), move |serving| {
            match serving.core.server.tree.lseek(fh, offset, whence) {
                Ok(offset) => reply.respond(FileOffset(offset)),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    pub(super) fn copy_file_range(
        self: &Arc<Self>,
        caller: Caller,
        (from, to): (NodeId, NodeId),
        range: CopyRange,
        reply: impl Responds<WrittenBytes>,
    ) {
        let weight = self.on_both(from, to).takes(Load::Heavy).interruptible(&reply);
        self.serve_on(Op::CopyFileRange, &caller, weight, move |serving| {
            match serving.core.server.tree.copy_file_range(&caller, &range) {
                // The backing tree limits the length of one copy, so it fits.
                Ok(copied) => reply.respond(WrittenBytes(copied as u32)),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    pub(super) fn ioctl(
        self: &Arc<Self>,
        caller: Caller,
        (node, open): (NodeId, OpenNode),
        command: u32,
        data: &[u8],
        reply: impl Responds<IoctlOutput>,
    ) {
        let data = data.to_owned();
        self.serve_on(Op::Ioctl, &caller, self.weight_of(node), move |serving| {
            match serving.core.server.tree.ioctl(&caller, open, command, &data) {
                Ok(output) => {
                    if output.is_empty() {
                        // The ioctl has set flags, which also sets the change time, and the kernel does not know that.
                        serving.forget_attributes(node);
                    }
                    reply.respond(IoctlOutput(output));
                }
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }
}
