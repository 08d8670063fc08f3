//! Attributes, targets of symbolic links, extended attributes, inode flags and statistics.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_telemetry::audit::WHY_ATTRIBUTE;
use namegate_telemetry::metrics::Op;
use namegate_wire::Reply;
use namegate_wire::abi::{IoctlIn, IoctlOut, SetattrIn, fattr, ioctl};
use nix::sys::stat::FileStat;
use nix::sys::time::TimeSpec;
use zerocopy::IntoBytes;

use super::encode::{statfs_out, statx_out};
use super::request_core::RequestCore;
use crate::passthrough::{Caller, Changes, Fh, NodeId, OpenNode};
use crate::workers::Load;

fn changes(arg: &SetattrIn) -> Changes {
    let has = |flag: u32| arg.valid & flag != 0;
    let time = |set: u32, now: u32, seconds: u64, nanoseconds: u32| match (has(now), has(set)) {
        (true, _) => Some(TimeSpec::UTIME_NOW),
        (false, true) => Some(TimeSpec::new(seconds.cast_signed(), nanoseconds.into())),
        (false, false) => None,
    };
    Changes {
        mode: has(fattr::MODE).then_some(arg.mode),
        uid: has(fattr::UID).then_some(arg.uid),
        gid: has(fattr::GID).then_some(arg.gid),
        size: has(fattr::SIZE).then_some(arg.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, arg.atime, arg.atimensec),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, arg.mtime, arg.mtimensec),
    }
}

impl RequestCore {
    pub(super) fn getattr(self: &Arc<Self>, caller: Caller, node: NodeId, reply: Reply) {
        let weight = self.weight_of(node).takes_if(node == NodeId::ROOT, Load::Probe);
        self.serve(Op::Getattr, &caller, weight, move |serving| {
            let found = serving.core.server.tree.getattr(node);
            // Listing a directory and reading a file make their own attributes expire.
            let expires = |stat: &FileStat| {
                stat.st_mode & libc::S_IFMT == libc::S_IFDIR || serving.core.server.tree.is_open(node)
            };
            if found.as_ref().is_ok_and(|stat| !expires(stat)) {
                serving.note_missed(caller.pid, true);
            }
            serving.attr(node, found, reply);
        });
    }

    pub(super) fn statx(self: &Arc<Self>, caller: Caller, node: NodeId, reply: Reply) {
        let weight = self.weight_of(node).takes_if(node == NodeId::ROOT, Load::Probe);
        self.serve(Op::Statx, &caller, weight, move |serving| match serving.core.server.tree.statx(node) {
            Ok((stat, created)) => {
                reply.message(&statx_out(&stat, created, serving.attr_timeout(node, &stat)));
            }
            Err(errno) => reply.error(serving.errno(errno)),
        });
    }

    pub(super) fn setattr(self: &Arc<Self>, caller: Caller, node: NodeId, arg: &SetattrIn, reply: Reply) {
        let (changes, fh) = (changes(arg), (arg.valid & fattr::FH != 0).then_some(Fh(arg.fh)));
        let weight = self.weight_of(node);
        let cuts_off = changes.size.is_some() && self.is_local(weight) && self.server.tree.is_large(node);
        // What was written through a memory map is older than the time that is set now.
        let writes_back = changes.restores_mtime()
            && self.is_local(weight)
            && !self.journal.is_recovering()
            && self.server.tree.may_be_mapped(node)
            && !self.backing.is_written(node);
        // Not in a lane of writes, for which it waits.
        let weight = weight.takes_if(cuts_off, Load::Light).takes_if(writes_back, Load::Closing);
        self.serve(Op::Setattr, &caller, weight, move |serving| {
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

    pub(super) fn readlink(self: &Arc<Self>, caller: Caller, node: NodeId, reply: Reply) {
        self.serve(Op::Readlink, &caller, self.weight_of(node), move |serving| {
            match serving.core.server.tree.readlink(node) {
                Ok(target) => reply.bytes(target.as_encoded_bytes()),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    pub(super) fn statfs(self: &Arc<Self>, caller: Caller, node: NodeId, reply: Reply) {
        // The health check sends this request.
        let weight = self.weight_of(node).takes_if(node == NodeId::ROOT, Load::Probe);
        self.serve(Op::Statfs, &caller, weight, move |serving| match serving.core.server.tree.statfs(node) {
            Ok(stat) => {
                if let Some(source) = serving.core.source.get().filter(|_| node == NodeId::ROOT) {
                    source.note_space(&stat);
                }
                reply.message(&statfs_out(&stat));
            }
            Err(errno) => reply.error(serving.errno(errno)),
        });
    }

    pub(super) fn setxattr(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
        reply: Reply,
    ) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.serve(Op::Setxattr, &caller, self.weight_of(node), move |serving| {
            let set = serving.core.server.tree.setxattr(&caller, node, &name, &value, flags);
            serving.empty(set, reply);
        });
    }

    pub(super) fn getxattr(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        name: &OsStr,
        size: u32,
        reply: Reply,
    ) {
        let name = name.to_owned();
        self.serve(Op::Getxattr, &caller, self.weight_of(node), move |serving| {
            if name.as_bytes().starts_with(WHY_ATTRIBUTE.as_bytes()) {
                return serving.xattr(size, reply, |value| serving.core.server.why(&name, caller.uid, value));
            }
            let tree = &serving.core.server.tree;
            serving.xattr(size, reply, |value| tree.getxattr(node, &name, value));
        });
    }

    pub(super) fn listxattr(self: &Arc<Self>, caller: Caller, node: NodeId, size: u32, reply: Reply) {
        self.serve(Op::Listxattr, &caller, self.weight_of(node), move |serving| {
            let tree = &serving.core.server.tree;
            serving.xattr(size, reply, |names| tree.listxattr(&caller, node, names));
        });
    }

    pub(super) fn removexattr(self: &Arc<Self>, caller: Caller, node: NodeId, name: &OsStr, reply: Reply) {
        let name = name.to_owned();
        self.serve(Op::Removexattr, &caller, self.weight_of(node), move |serving| {
            serving.empty(serving.core.server.tree.removexattr(node, &name), reply);
        });
    }

    pub(super) fn ioctl(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        arg: &IoctlIn,
        data: &[u8],
        reply: Reply,
    ) {
        let (command, data) = (arg.cmd, data.to_owned());
        let open = match arg.flags & ioctl::DIR != 0 {
            true => OpenNode::Dir(Fh(arg.fh)),
            false => OpenNode::File(Fh(arg.fh)),
        };
        self.serve(Op::Ioctl, &caller, self.weight_of(node), move |serving| {
            let ignores_case = serving.server.config.serve.gate.ignores_case();
            match serving.core.server.tree.ioctl(&caller, open, command, &data, ignores_case) {
                Ok(output) => {
                    if output.is_empty() {
                        // The ioctl has set flags, which also sets the change time, and the kernel does not know that.
                        serving.forget_attributes(node);
                    }
                    reply.parts(&[IoctlOut::default().as_bytes(), &output]);
                }
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_as_they_were_set() {
        let arg = SetattrIn {
            valid: fattr::ATIME | fattr::MTIME | fattr::MTIME_NOW | fattr::SIZE,
            atime: (-2i64).cast_unsigned(),
            atimensec: 800_000_000,
            size: 5,
            ..SetattrIn::default()
        };
        let changes = changes(&arg);
        assert_eq!(changes.atime, Some(TimeSpec::new(-2, 800_000_000)));
        assert_eq!((changes.mtime, changes.size), (Some(TimeSpec::UTIME_NOW), Some(5)));
        assert_eq!((changes.mode, changes.uid, changes.gid), (None, None, None));
    }
}
