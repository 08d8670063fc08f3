//! Requests and replies of [`wire`](crate::wire): decodes them, passes them to the operations, encodes the results.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use namegate_sys::stat::Time;
use nix::errno::Errno;
use nix::sys::stat::FileStat;
use nix::sys::statvfs::Statvfs;
use nix::sys::time::TimeSpec;
use zerocopy::IntoBytes;

use super::dispatch::RequestCore;
use super::locks::LockRequest;
use super::operations::WriteRequest;
use super::replies::{
    AttributeSize, EntryList, FileOffset, FoundEntry, FoundLock, IoctlOutput, ListedEntry, NameList,
    NodeAttributes, OpenedNode, Responder, Responds, RespondsBytes, WrittenBytes,
};
use super::reroot::node;
use super::translate::device;
use crate::passthrough::{Caller, Changes, CopyRange, Fh, LockOwner, LockRange, NodeId, OpenNode};
use crate::wire::abi::{
    Attr, AttrOut, Dirent, EntryOut, FileLock, ForgetOne, GetxattrOut, InHeader, IoctlOut, LkIn, LseekOut,
    OpenOut, SetattrIn, StatfsOut, StatxOut, StatxTime, WriteOut, fattr, fopen, fsync, ioctl, lk, write,
};
use crate::wire::{Entries, Operation, Reply, Request, Service};

/// Serves requests that `wire` reads.
#[derive(Debug)]
pub(super) struct WireService(pub(super) Arc<RequestCore>);

impl Service for WireService {
    fn serve(&self, request: &Request<'_>, reply: Reply) {
        let (core, head) = (&self.0, &request.head);
        let on = node(head.nodeid);
        let by = |umask: u32| Caller { umask, ..caller(request) };
        let no_umask = by(0);
        match &request.operation {
            // Only for handles of files (linux/exportfs.h): no path walk asks for these names.
            Operation::Lookup { name } if name.as_bytes() == b"." => core.lookup_again(&no_umask, on, reply),
            Operation::Lookup { name } if name.as_bytes() == b".." => {
                core.lookup_parent(&no_umask, on, reply)
            }
            Operation::Lookup { name } => core.lookup(&no_umask, on, name, reply),
            Operation::Getattr => core.getattr(&no_umask, on, reply),
            Operation::Statx(_) => core.statx(&no_umask, on, reply),
            Operation::Setattr(arg) => {
                let fh = (arg.valid & fattr::FH != 0).then_some(Fh(arg.fh));
                core.setattr(no_umask, on, fh, changes(arg), reply);
            }
            Operation::Readlink => core.readlink(&no_umask, on, reply),
            Operation::Symlink { name, target } => core.symlink(no_umask, (on, name), target, reply),
            Operation::Mknod { arg, name } => {
                core.mknod(by(arg.umask), (on, name), (arg.mode, arg.rdev), reply);
            }
            Operation::Mkdir { arg, name } => core.mkdir(by(arg.umask), (on, name), arg.mode, reply),
            Operation::Unlink { name } => core.unlink(&no_umask, on, name, reply),
            Operation::Rmdir { name } => core.rmdir(&no_umask, on, name, reply),
            Operation::Rename { name, new_parent, new_name, flags } => {
                core.rename(no_umask, (on, name), (node(*new_parent), new_name), *flags, reply);
            }
            Operation::Link { node: file, name } => core.link(no_umask, node(*file), (on, name), reply),
            Operation::Open(arg) => core.open(no_umask, on, arg.flags.cast_signed(), reply),
            Operation::Create { arg, name } => {
                core.create(by(arg.umask), (on, name), arg.mode, arg.flags.cast_signed(), reply);
            }
            Operation::Tmpfile(arg) => {
                core.tmpfile(by(arg.umask), on, arg.mode, arg.flags.cast_signed(), reply);
            }
            Operation::Read(arg) => core.read(&no_umask, on, Fh(arg.fh), (arg.offset, arg.size), reply),
            Operation::Write { arg, data } => {
                let request = WriteRequest {
                    node: on,
                    fh: Fh(arg.fh),
                    offset: arg.offset,
                    is_cached: arg.write_flags & write::CACHE != 0,
                    clears_set_id: arg.write_flags & write::KILL_SUIDGID != 0,
                    open_flags: arg.flags.cast_signed(),
                };
                core.write(no_umask, &request, data, reply);
            }
            Operation::Flush(arg) => core.flush(&no_umask, on, Fh(arg.fh), arg.lock_owner, reply),
            Operation::Getlk(arg) => core.getlk(&no_umask, lock_request(on, arg), reply),
            Operation::Setlk { arg, waits } => core.setlk(&no_umask, lock_request(on, arg), *waits, reply),
            Operation::Release(arg) => core.release(&no_umask, on, Fh(arg.fh), reply),
            Operation::Fsync(arg) => {
                core.fsync(&no_umask, on, Fh(arg.fh), arg.fsync_flags & fsync::FDATASYNC != 0, reply);
            }
            Operation::Opendir(_) => core.opendir(&no_umask, on, reply),
            Operation::Readdir(arg) => {
                core.readdir(&no_umask, on, Fh(arg.fh), arg.offset, Entries::new(reply, arg.size));
            }
            Operation::Readdirplus(arg) => {
                core.readdirplus(&no_umask, on, Fh(arg.fh), arg.offset, Entries::new(reply, arg.size));
            }
            Operation::Releasedir(arg) => core.releasedir(&no_umask, on, Fh(arg.fh), reply),
            Operation::Fsyncdir(arg) => {
                core.fsyncdir(&no_umask, on, Fh(arg.fh), arg.fsync_flags & fsync::FDATASYNC != 0, reply);
            }
            Operation::Statfs => core.statfs(&no_umask, on, reply),
            Operation::Setxattr { flags, name, value } => {
                core.setxattr(no_umask, on, (name, value), flags.cast_signed(), reply);
            }
            Operation::Getxattr { size, name } => core.getxattr(&no_umask, on, (name, *size), reply),
            Operation::Listxattr { size } => core.listxattr(no_umask, on, *size, reply),
            Operation::Removexattr { name } => core.removexattr(&no_umask, on, name, reply),
            Operation::Fallocate(arg) => {
                let range = (arg.offset, arg.length);
                core.fallocate(no_umask, (on, Fh(arg.fh)), arg.mode.cast_signed(), range, reply);
            }
            Operation::Lseek(arg) => {
                let (offset, whence) = (arg.offset.cast_signed(), arg.whence.cast_signed());
                core.lseek(&no_umask, (on, Fh(arg.fh)), offset, whence, reply);
            }
            Operation::CopyFileRange(arg) => {
                let range = CopyRange {
                    from: Fh(arg.fh_in),
                    from_offset: arg.off_in,
                    to: Fh(arg.fh_out),
                    to_offset: arg.off_out,
                    len: arg.len,
                };
                core.copy_file_range(no_umask, (on, node(arg.nodeid_out)), range, reply);
            }
            Operation::Ioctl { arg, data } => {
                let open = match arg.flags & ioctl::DIR != 0 {
                    true => OpenNode::Dir(Fh(arg.fh)),
                    false => OpenNode::File(Fh(arg.fh)),
                };
                core.ioctl(no_umask, (on, open), arg.cmd, data, reply);
            }
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

fn caller(request: &Request<'_>) -> Caller {
    let InHeader { uid, gid, pid, .. } = request.head;
    Caller::of_request((uid, gid), pid, request.group)
}

fn lock_request(node: NodeId, arg: &LkIn) -> LockRequest {
    let owner = LockOwner { number: arg.owner, is_flock: arg.lk_flags & lk::FLOCK != 0 };
    let range = LockRange { kind: arg.lk.kind.cast_signed(), start: arg.lk.start, end: arg.lk.end };
    LockRequest { node, fh: Fh(arg.fh), owner, range }
}

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

/// Attributes in the format of the kernel.
pub(super) fn attr(stat: &FileStat) -> Attr {
    Attr {
        ino: stat.st_ino,
        size: stat.st_size.unsigned_abs(),
        blocks: stat.st_blocks.unsigned_abs(),
        // The kernel converts the seconds back to a signed number.
        atime: stat.st_atime.cast_unsigned(),
        mtime: stat.st_mtime.cast_unsigned(),
        ctime: stat.st_ctime.cast_unsigned(),
        atimensec: stat.st_atime_nsec as u32,
        mtimensec: stat.st_mtime_nsec as u32,
        ctimensec: stat.st_ctime_nsec as u32,
        mode: stat.st_mode,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: device(stat.st_rdev),
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    }
}

fn entry_out(found: &FoundEntry) -> EntryOut {
    let (name, attributes) = (found.name_timeout, found.attr_timeout);
    EntryOut {
        nodeid: found.node.0,
        generation: found.generation.into(),
        entry_valid: name.as_secs(),
        attr_valid: attributes.as_secs(),
        entry_valid_nsec: name.subsec_nanos(),
        attr_valid_nsec: attributes.subsec_nanos(),
        attr: attr(&found.stat),
    }
}

fn open_out(opened: &OpenedNode) -> OpenOut {
    let (flags, backing_id) = match &opened.backing {
        Some(backing) => (opened.flags | fopen::PASSTHROUGH, backing.number()),
        None => (opened.flags, 0),
    };
    OpenOut { fh: opened.fh.0, open_flags: flags, backing_id }
}

fn dirent(entry: &ListedEntry<'_>) -> Dirent {
    Dirent { ino: entry.ino, off: entry.next, namelen: 0, kind: entry.kind.into() }
}

impl Responder for Reply {
    fn error(self, errno: Errno) {
        Self::error(self, errno);
    }

    fn interrupt_id(&self) -> Option<u64> {
        Some(self.unique())
    }
}

impl Responds<()> for Reply {
    fn respond(self, (): ()) {
        self.done();
    }
}

impl RespondsBytes for Reply {
    fn respond_bytes(self, bytes: &[u8]) {
        self.bytes(bytes);
    }
}

impl Responds<FoundEntry> for Reply {
    fn respond(self, found: FoundEntry) {
        self.message(&entry_out(&found));
    }
}

impl Responds<NodeAttributes> for Reply {
    fn respond(self, NodeAttributes { stat, timeout }: NodeAttributes) {
        let (attr_valid, attr_valid_nsec) = parts(timeout);
        self.message(&AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: attr(&stat) });
    }
}

impl Responds<(NodeAttributes, Option<Time>)> for Reply {
    fn respond(self, (NodeAttributes { stat, timeout }, created): (NodeAttributes, Option<Time>)) {
        let (attr_valid, attr_valid_nsec) = parts(timeout);
        let time =
            |tv_sec: i64, nanoseconds: i64| StatxTime { tv_sec, tv_nsec: nanoseconds as u32, reserved: 0 };
        let btime =
            created.map(|time| StatxTime { tv_sec: time.seconds, tv_nsec: time.nanoseconds, reserved: 0 });
        let birth = if btime.is_some() { libc::STATX_BTIME } else { 0 };
        self.message(&StatxOut {
            attr_valid,
            attr_valid_nsec,
            mask: libc::STATX_BASIC_STATS | birth,
            blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
            nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            uid: stat.st_uid,
            gid: stat.st_gid,
            mode: stat.st_mode as u16,
            ino: stat.st_ino,
            size: stat.st_size.unsigned_abs(),
            blocks: stat.st_blocks.unsigned_abs(),
            atime: time(stat.st_atime, stat.st_atime_nsec),
            btime: btime.unwrap_or_default(),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            rdev_major: libc::major(stat.st_rdev),
            rdev_minor: libc::minor(stat.st_rdev),
            ..StatxOut::default()
        });
    }
}

impl Responds<OpenedNode> for Reply {
    fn respond(self, opened: OpenedNode) {
        self.message(&open_out(&opened));
    }
}

impl Responds<(FoundEntry, OpenedNode)> for Reply {
    fn respond(self, (found, opened): (FoundEntry, OpenedNode)) {
        self.parts(&[entry_out(&found).as_bytes(), open_out(&opened).as_bytes()]);
    }
}

impl Responds<WrittenBytes> for Reply {
    fn respond(self, WrittenBytes(size): WrittenBytes) {
        self.message(&WriteOut { size, padding: 0 });
    }
}

impl Responds<AttributeSize> for Reply {
    fn respond(self, AttributeSize(size): AttributeSize) {
        self.message(&GetxattrOut { size, padding: 0 });
    }
}

impl Responds<FileOffset> for Reply {
    fn respond(self, FileOffset(offset): FileOffset) {
        self.message(&LseekOut { offset: offset.cast_unsigned() });
    }
}

impl Responds<IoctlOutput> for Reply {
    fn respond(self, IoctlOutput(output): IoctlOutput) {
        self.parts(&[IoctlOut::default().as_bytes(), &output]);
    }
}

impl Responds<FoundLock> for Reply {
    fn respond(self, FoundLock { range, pid }: FoundLock) {
        // No process has the number 0: it stands for locks of other clients, and of processes that are not visible from here.
        let pid = u32::try_from(pid).unwrap_or_default();
        let LockRange { kind, start, end } = range;
        self.message(&FileLock { start, end, kind: kind.cast_unsigned(), pid });
    }
}

impl Responds<Statvfs> for Reply {
    fn respond(self, stat: Statvfs) {
        self.message(&StatfsOut {
            blocks: stat.blocks(),
            bfree: stat.blocks_free(),
            bavail: stat.blocks_available(),
            files: stat.files(),
            ffree: stat.files_free(),
            bsize: stat.block_size() as u32,
            namelen: stat.name_max() as u32,
            frsize: stat.fragment_size() as u32,
            ..StatfsOut::default()
        });
    }
}

impl Responder for Entries {
    fn error(self, errno: Errno) {
        Self::error(self, errno);
    }
}

impl NameList for Entries {
    fn add(&mut self, entry: &ListedEntry<'_>) -> bool {
        self.add(dirent(entry), entry.name)
    }

    fn done(self) {
        Self::done(self);
    }
}

impl EntryList for Entries {
    const CAN_NAME_ONLY: bool = true;

    fn add(&mut self, entry: &ListedEntry<'_>, found: Option<&FoundEntry>) -> bool {
        // Without a node id the kernel uses only the name.
        let found = found.map_or_else(EntryOut::default, entry_out);
        self.add_found(&found, dirent(entry), entry.name)
    }

    fn done(self) {
        Self::done(self);
    }
}

fn parts(timeout: Duration) -> (u64, u32) {
    (timeout.as_secs(), timeout.subsec_nanos())
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
