//! Serves requests of any transport: finds the method for the operation.
//!
//! These operations are not served: `access` (the kernel checks permissions itself), `bmap` (for block devices only) and `poll`
//! (regular files are always ready).

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_wire::abi::{ForgetOne, InHeader};
use namegate_wire::{Entries, Operation, Reply, Request, Service};
use nix::errno::Errno;

use super::node_number::{is_alias, node};
use super::request_core::RequestCore;
use crate::passthrough::{Caller, NewEntry};

/// Serves requests by a [`RequestCore`].
#[derive(Debug)]
pub(super) struct RequestService(Arc<RequestCore>);

impl RequestService {
    pub(super) fn new(core: Arc<RequestCore>) -> Self {
        Self(core)
    }

    pub(super) fn core(&self) -> &Arc<RequestCore> {
        &self.0
    }
}

/// The client of a request. Only operations that create something have an umask.
fn caller(request: &Request<'_>) -> Caller {
    let InHeader { uid, gid, pid, .. } = request.head;
    let umask = match &request.operation {
        Operation::Mknod { arg, .. } => arg.umask,
        Operation::Mkdir { arg, .. } => arg.umask,
        Operation::Create { arg, .. } | Operation::Tmpfile(arg) => arg.umask,
        _ => 0,
    };
    let uses_alias = is_alias(request.head.nodeid);
    Caller { umask, uses_alias, ..Caller::of_request((uid, gid), pid, request.group) }
}

impl Service for RequestService {
    fn serve(&self, request: &Request<'_>, reply: Reply) {
        let (core, on, by) = (&self.0, node(request.head.nodeid), caller(request));
        if by.uses_alias && core.lookup_threads.must_fail(request.head.nodeid, by.pid, &request.operation) {
            return reply.error(Errno::ESTALE);
        }
        match &request.operation {
            // Only for handles of files (linux/exportfs.h): no path walk asks for these names.
            Operation::Lookup { name } if name.as_bytes() == b"." => core.lookup_again(by, on, reply),
            Operation::Lookup { name } if name.as_bytes() == b".." => core.lookup_parent(by, on, reply),
            Operation::Lookup { name } => core.lookup(by, on, name, reply),
            Operation::Getattr => core.getattr(by, on, reply),
            Operation::Statx(_) => core.statx(by, on, reply),
            Operation::Setattr(arg) => core.setattr(by, on, arg, reply),
            Operation::Readlink => core.readlink(by, on, reply),
            Operation::Symlink { name, target } => {
                core.make(by, on, name, NewEntry::Symlink(target), reply);
            }
            Operation::Mknod { arg, name } => {
                core.make(by, on, name, NewEntry::Node { mode: arg.mode, rdev: arg.rdev }, reply);
            }
            Operation::Mkdir { arg, name } => {
                core.make(by, on, name, NewEntry::Directory { mode: arg.mode }, reply);
            }
            Operation::Unlink { name } => core.unlink(by, on, name, reply),
            Operation::Rmdir { name } => core.rmdir(by, on, name, reply),
            Operation::Rename { name, new_parent, new_name, flags } => {
                core.rename(by, (on, name), (node(*new_parent), new_name), *flags, reply);
            }
            Operation::Link { node: file, name } => core.link(by, node(*file), on, name, reply),
            Operation::Open(arg) => core.open(by, on, arg, reply),
            Operation::Create { arg, name } => core.create(by, on, name, arg, reply),
            Operation::Tmpfile(arg) => core.tmpfile(by, on, arg, reply),
            Operation::Read(arg) => core.read(by, on, arg, reply),
            Operation::Write { arg, data } => core.write(by, on, arg, data, reply),
            Operation::Flush(arg) => core.flush(by, on, arg, reply),
            Operation::Getlk(arg) => core.getlk(by, on, arg, reply),
            Operation::Setlk { arg, waits } => core.setlk(by, on, arg, *waits, reply),
            Operation::Release(arg) => core.release(by, on, arg, reply),
            Operation::Fsync(arg) => core.fsync(by, on, arg, reply),
            Operation::Opendir(_) => core.opendir(by, on, reply),
            Operation::Readdir(arg) => core.readdir(by, on, arg, Entries::new(reply, arg.size)),
            Operation::Readdirplus(arg) => core.readdirplus(by, on, arg, Entries::new(reply, arg.size)),
            Operation::Releasedir(arg) => core.releasedir(by, on, arg, reply),
            Operation::Fsyncdir(arg) => core.fsyncdir(by, on, arg, reply),
            Operation::Statfs => core.statfs(by, on, reply),
            Operation::Setxattr { flags, name, value } => {
                core.setxattr(by, on, (name, value), flags.cast_signed(), reply);
            }
            Operation::Getxattr { size, name } => core.getxattr(by, on, name, *size, reply),
            Operation::Listxattr { size } => core.listxattr(by, on, *size, reply),
            Operation::Removexattr { name } => core.removexattr(by, on, name, reply),
            Operation::Fallocate(arg) => core.fallocate(by, on, arg, reply),
            Operation::Lseek(arg) => core.lseek(by, on, arg, reply),
            Operation::CopyFileRange(arg) => core.copy_file_range(by, on, arg, reply),
            Operation::Ioctl { arg, data } => core.ioctl(by, on, arg, data, reply),
            Operation::Destroy => reply.done(),
            // After ENOSYS the kernel never sends this request again.
            Operation::Init { .. } | Operation::Unknown => reply.error(Errno::ENOSYS),
            // These requests have no reply and are handled elsewhere.
            Operation::Forget { .. } | Operation::BatchForget(_) | Operation::Interrupt { .. } => {}
        }
    }

    fn forget(&self, nodes: &mut dyn Iterator<Item = ForgetOne>) {
        self.0.forget(nodes.map(|one| (node(one.nodeid), one.nlookup)));
    }

    fn interrupt(&self, unique: u64) {
        self.0.interrupt(unique);
    }
}
